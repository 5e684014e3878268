"""Frame files: what LALSuite wrote is read as it was, names of bits are found, and what cannot be right is refused."""

import ctypes
import re
import struct

import lal
import lalframe
import numpy as np
import pytest
from strain_files import sealed, write_frame

import jfstat
from jfstat.commandline import main
from jfstat.strain.frames import FrameFile
from jfstat.strain.gwf import Checksum, frames_of
from jfstat.strain.gwfsamples import samples

START, RATE, SECONDS, TSFT = 1_256_655_616, 64, 60, 20
KINDS = {"f8": "8R", "f4": "4R", "i2": "2S", "i4": "4S", "u4": "4U", "u2": "2U", "i8": "8S", "u8": "8U"}
RAW, GZIP, DIFFERENCES, ZEROS_OF_2, ZEROS_OF_4 = 0, 1, 3, 5, 8


def write(path, arrays, compression=GZIP, units="", seconds=SECONDS):
    """A frame with these channels, written by LALSuite with a compression."""
    file = lalframe.FrameUFrFileOpen(str(path), "w")
    frame = lalframe.FrameUFrameHAlloc("LIGO", float(START), 0.0, float(seconds), 0)
    for name, x in arrays.items():
        kind = getattr(lalframe, f"FRAMEU_FR_VECT_{KINDS[x.dtype.str[1:]]}")
        channel = lalframe.FrameUFrProcChanAlloc(name, lalframe.FRAMEU_FR_PROC_TYPE_TIME_SERIES, 0, kind, len(x))
        lalframe.FrameUFrChanVectorAlloc(channel, kind, len(x))
        lalframe.FrameUFrChanVectorSetDx(channel, seconds / len(x))
        lalframe.FrameUFrChanVectorSetUnitY(channel, units)
        place = lalframe.FrameUFrChanVectorQueryData(channel)
        ctypes.memmove(int(place), x.ctypes.data, x.nbytes)
        place.disown()
        lalframe.FrameUFrChanVectorCompress(channel, compression)
        lalframe.FrameUFrameHFrChanAdd(frame, channel)
    lalframe.FrameUFrameHWrite(file, frame)
    del file  # which closes it
    return path


def numbers(rng, kind, n):
    """Numbers over all of the range of a type, or few bits of it, or all the same."""
    if kind.startswith("f"):
        return rng.standard_normal(n).astype(kind) * 10.0 ** int(rng.integers(-30, 30))
    limits = np.iinfo(kind)
    every = rng.integers(limits.min, limits.max, n, kind, endpoint=True)
    few = rng.integers(0, 100, n) * (rng.random(n) < 0.3)
    return [every, few.astype(kind), np.full(n, 7, kind)][rng.integers(3)]


@pytest.mark.parametrize("compression", [RAW, GZIP, DIFFERENCES, ZEROS_OF_2, ZEROS_OF_4])
@pytest.mark.parametrize("seed", range(3))
def test_samples_are_those_that_were_written(compression, seed, tmp_path):
    rng = np.random.default_rng(seed)
    arrays = {f"H1:{kind}": numbers(rng, kind, SECONDS * int(rng.integers(1, 40))) for kind in KINDS}
    path = write(tmp_path / "a.gwf", arrays, compression)
    with open(path, "rb") as file:
        (frame,) = frames_of(file, path.stat().st_size)
        assert sorted(frame.channels) == sorted(arrays)
        for name, x in arrays.items():
            found = samples(file, frame.vectors[frame.channels[name].vector])
            np.testing.assert_array_equal(found, x)
            assert found.dtype == x.dtype


@pytest.mark.parametrize("structure", ["Proc", "Sim", "Adc"])
@pytest.mark.parametrize("kind", ["REAL8", "REAL4", "INT4"])
def test_channels_of_all_structures(structure, kind, tmp_path):
    frame = lalframe.FrameNew(lal.LIGOTimeGPS(START), SECONDS, "LIGO", 0, 0, 0)
    make = getattr(lal, f"Create{kind}TimeSeries")
    series = make("V1:h", lal.LIGOTimeGPS(START), 0, 1 / RATE, lal.StrainUnit, SECONDS * RATE)
    series.data.data = np.random.default_rng(1).integers(-1000, 1000, SECONDS * RATE)
    getattr(lalframe, f"FrameAdd{kind}TimeSeries{structure}Data")(frame, series)
    lalframe.FrameWrite(frame, str(tmp_path / "a.gwf"))
    file = FrameFile.of(tmp_path / "a.gwf", "V1:h", None)
    assert (file.detector, file.start, file.rate, file.n) == ("V1", START, RATE, SECONDS * RATE)
    np.testing.assert_array_equal(file.read(5, 2000), series.data.data[5:2000])


@pytest.mark.parametrize(("text", "value"), [(b"", 4294967295), (b"hello", 3287646509), (b"123456789", 930766865)])
def test_checksums_are_those_of_posix(text, value):
    assert Checksum(text).value == value
    whole = Checksum()
    for k in range(len(text)):
        whole.add(text[k : k + 1])
    assert whole.value == value


def starts(path, bits=None, **options):
    quality = jfstat.DataQuality(bits, **options)
    sfts = jfstat.sfts_from_frames(path, "H1:LOSC-STRAIN", tsft=TSFT, fmin=10, fmax=12, quality=quality)
    return (sfts["H1"].gps - START).tolist()


def losc(seed):
    """Strain and masks as before O2; a second without DATA, one without CBC_CAT1, one with an injection."""
    x = np.random.default_rng(seed).standard_normal(SECONDS * RATE)
    mask, injections = np.full(SECONDS, 127, "u4"), np.full(SECONDS, 31, "u4")
    mask[5], mask[21], injections[41] = 126, 125, 31 - 8
    return x, mask, injections


@pytest.mark.parametrize("seed", range(3))
def test_bits_of_channels_named_as_before_o2(seed, tmp_path):
    x, mask, injections = losc(seed)
    channels = {"H1__LOSC-STRAIN": x, "H1__LOSC-DQMASK": mask, "H1__LOSC-INJMASK": injections}
    path = write_frame(tmp_path / "a.gwf", START, RATE, 1 + seed, **channels)
    assert starts(path) == starts(path, ["DATA"]) == [6, 26]
    assert starts(path, []) == [0, 20, 40]
    assert starts(path, ["CBC_CAT1"]) == [0, 22]
    assert starts(path, ["NO_CW_HW_INJ"]) == [0, 20]


@pytest.mark.parametrize("numbers", ["{k}", "{mask:#x}"])
def test_names_of_bits_in_the_unit_of_a_mask(numbers, tmp_path):
    """As in GWOSC's frames: those of S5 and S6 have other bits."""
    x, mask, _ = losc(0)
    units = " ".join(f"{numbers.format(k=k, mask=1 << k)}:{name}" for k, name in enumerate(["CW_CAT1", "DATA", "MINE"]))
    path = write(tmp_path / "a.gwf", {"H1:LOSC-STRAIN": x, "H1:LOSC-DQMASK": mask}, units=units)
    assert starts(path) == [0, 22]
    assert starts(path, ["CW_CAT1"]) == [6, 26]
    assert starts(path, ["MINE"]) == [0, 20, 40]
    with pytest.raises(ValueError, match="there are CW_CAT1, DATA, MINE"):
        starts(path, ["CBC_CAT1"])


def test_before_o1_only_the_first_bit_has_a_known_name(tmp_path):
    x, mask, injections = losc(0)
    channels = {"H1__LOSC-STRAIN": x, "H1__LOSC-DQMASK": mask, "H1__LOSC-INJMASK": injections}
    path = write_frame(tmp_path / "a.gwf", 931_000_000, RATE, **channels)
    quality = jfstat.DataQuality(["CBC_CAT1"])
    with pytest.raises(ValueError, match="there are DATA"):
        jfstat.sfts_from_frames(path, "H1:LOSC-STRAIN", tsft=TSFT, quality=quality)
    assert jfstat.sfts_from_frames(path, "H1:LOSC-STRAIN", tsft=TSFT)["H1"].gps.tolist() == [931_000_006, 931_000_026]


@pytest.mark.parametrize("wrong", [0.5, np.nan, np.inf, -np.inf, 1e300])
def test_masks_of_floats_are_whole_numbers_or_refused(wrong, tmp_path):
    x, mask, _ = losc(0)
    mask = mask.astype("f8")
    path = write_frame(tmp_path / "a.gwf", START, RATE, **{"H1__LOSC-STRAIN": x, "H1__LOSC-DQMASK": mask})
    assert starts(path) == [6, 26]
    mask[30] = wrong
    path = write_frame(tmp_path / "a.gwf", START, RATE, **{"H1__LOSC-STRAIN": x, "H1__LOSC-DQMASK": mask})
    with pytest.raises(ValueError, match="does not hold whole numbers"):
        starts(path)


@pytest.mark.parametrize("suffix", ["hdf5", "gwf"])
def test_channels_without_use_are_refused(suffix, tmp_path):
    with pytest.raises(ValueError, match="channel='H1:STATE' is for numbers of bits"):
        jfstat.DataQuality(["DATA"], "H1:STATE")
    (tmp_path / f"a.{suffix}").write_bytes(b"x")
    with pytest.raises(ValueError, match="for frame files" if suffix == "hdf5" else "not a frame file"):
        jfstat.find_strain(tmp_path, "H1:STRAIN")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    x = np.random.default_rng(1).standard_normal(SECONDS * RATE)
    return write_frame(tmp_path_factory.mktemp("good") / "a.gwf", START, RATE, 2, H1__STRAIN=x).read_bytes()


def structure(data, name, nth=0):
    """Place and length of a structure by the fields that it has: found by class, which the dictionary names."""
    code = None
    place = 40
    while place < len(data):
        length, _, own, _ = struct.unpack_from("<QBBI", data, place)
        if own == 1 and data[place + 16 :].startswith(name.encode() + b"\0"):
            (code,) = struct.unpack_from("<H", data, place + 17 + len(name))
        if own == code:
            if nth == 0:
                return place, length
            nth -= 1
        place += length
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "field", "code", "value", "message"),
    [
        ("FrameH", 12, "I", START + 1, "gap"),
        ("FrameH", 16, "I", 500_000_000, "whole number of samples each second"),
        ("FrameH", 22, "d", 30.5, "do not begin and end with the frame"),
        ("FrameH", 22, "d", 4e7, "do not begin and end with the frame"),
        ("FrameH", 22, "d", np.nan, "do not begin and end with the frame"),
        ("FrameH", 22, "d", 0.0, "do not begin and end with the frame"),
        ("FrVect", 0, "H", 999, "compressed in a way"),
        ("FrVect", 2, "H", 6, "real numbers"),
        ("FrVect", 4, "Q", 2**62, "do not begin and end with the frame"),
        ("FrVect", 12, "Q", 2**40, "ends within a field"),
    ],
)
def test_what_cannot_be_right_is_refused_whatever_the_checksums(name, field, code, value, message, good, tmp_path):
    """Fields of the first frame; `field` is the number of bytes after the structure's own name."""
    data, place = bytearray(good), structure(good, name)[0] + 14
    struct.pack_into("<" + code, data, place + 2 + struct.unpack_from("<H", good, place)[0] + field, value)
    path = tmp_path / "a.gwf"
    for content in (bytes(data), sealed(bytes(data))):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be used") as error:
            jfstat.sfts_from_frames(path, tsft=10)
    assert message in str(error.value)


def test_checksums_are_not_left_out(good, tmp_path):
    """A structure that says it has no checksum, and has one, is damaged."""
    for name in ("FrameH", "FrProcData", "FrVect"):
        data = bytearray(good)
        data[structure(good, name)[0] + 8] = 0
        (tmp_path / "a.gwf").write_bytes(bytes(data))
        with pytest.raises(ValueError, match="another checksum"):
            jfstat.sfts_from_frames(tmp_path / "a.gwf", tsft=10)


@pytest.mark.parametrize("seed", range(20))
def test_one_changed_byte_is_one_line(seed, good, tmp_path, capsys):
    rng = np.random.default_rng(seed)
    data = bytearray(good)
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path = tmp_path / "a.gwf"
    path.write_bytes(bytes(data))
    words = ["make-sfts", "--frame-files", path, "-f", 7, "-t", 10, "-F", 10, "-B", 5, "-p", tmp_path / "out"]
    code, error = main(list(map(str, words))), capsys.readouterr().err
    assert (code, error.count("\n")) in ((1, 1), (0, 0))
    assert code == 0 or re.search("cannot be used", error)
