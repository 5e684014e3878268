"""SFT files, written here byte by byte: what is read, what is refused and how the refusals read."""

import io
import os
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from astropy import units
from astropy.time import Time
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.sfts import SFTs, SFTSeries, blocks, headers, read_sfts, reading, write_sfts
from jfstat.sfts.crc64 import crc64
from jfstat.sfts.naming import sft_file_name, span_seconds
from jfstat.sfts.windows import window_code, window_name, window_samples

BINS = np.array([1, 2 - 1j, 3 - 2j, 4 - 3j], np.complex64)


def sft_bytes(
    gps=12345,
    ns=6789,
    *,
    tsft=60.0,
    first=1000,
    bins=BINS,
    detector=b"H1",
    window=0,
    comment=b"test1\0\0\0",
    version=2.0,
    order="<",
    n_bins=None,
    comment_bytes=None,
    crc=None,
):
    """One SFT as LIGO-T040164 has it; n_bins, comment_bytes and crc replace what would be right."""
    n_bins = len(bins) if n_bins is None else n_bins
    comment_bytes = len(comment) if comment_bytes is None else comment_bytes
    fields = [version, gps, ns, tsft, first, n_bins, 0, detector, window, comment_bytes]
    tail = comment + np.asarray(bins).astype(order + "c8").tobytes()
    fields[6] = crc64(struct.pack(order + "diidiiQ2sHi", *fields) + tail) if crc is None else crc
    return struct.pack(order + "diidiiQ2sHi", *fields) + tail


GOOD = sft_bytes() + sft_bytes(12405, comment=b"test2\0\0\0")

# the files of LALSuite's SFTfileIOTest: SFT-good, SFT-bad1 to 14 and SFT-test1 to 7
ACCEPTED = {
    "good": GOOD + sft_bytes(12465, comment=b"test3\0\0\0"),
    "test1": sft_bytes(comment=b"a comment of exactly 32 letters.".ljust(40, b"\0")),
    "test2": sft_bytes(12465),
    "test3": sft_bytes(12585),
    "test4": sft_bytes(12525, tsft=50.0),
    "test5": sft_bytes(12705, detector=b"L1"),
    "test6": sft_bytes(12765, bins=BINS[:3]),
    "test7": sft_bytes(12825, first=1100),
}
REFUSED = {
    "bad1": (GOOD + 2 * sft_bytes(12465), "GPS 12465 the start is not after"),
    "bad2": (GOOD + sft_bytes(12525, tsft=50.0), "GPS 12525 the Tsft changes"),
    "bad3": (GOOD + sft_bytes(12525, first=1100), "GPS 12525 the first bin changes"),
    "bad4": (GOOD + sft_bytes(12525, bins=BINS[:3]), "GPS 12525 the number of bins changes"),
    "bad5": (GOOD + sft_bytes(12525, detector=b"L1"), "GPS 12525 the detector changes"),
    "bad6": (sft_bytes().replace(b"test", b"Test"), "GPS 12345 the checksum does not match"),
    "bad7": (sft_bytes(detector=b"XX"), "GPS 12345 the detector is none of A1, B1"),
    "bad8": (sft_bytes(comment=b"t\0st1\0\0\0"), "GPS 12345 the comment goes on after a null byte"),
    "bad9": (sft_bytes(comment=b"test5678"), "GPS 12345 the comment does not end with a null byte"),
    "bad10": (sft_bytes(ns=10**9), "GPS 12345 the nanoseconds"),
    "bad11": (sft_bytes(ns=-1), "GPS 12345 the nanoseconds"),
    "bad12": (sft_bytes(first=-1), "GPS 12345 the first bin is negative"),
    "bad13": (sft_bytes(n_bins=-1), "GPS 12345 the number of bins -1 is not positive"),
    "bad14": (sft_bytes(tsft=-60.0), "GPS 12345 Tsft is not positive"),
}
ALSO_REFUSED = {
    "empty": (b"", "it is empty"),
    "not an SFT": (b"%% a text file, long enough to hold the bytes of a header", "byte 0 starts no SFT"),
    "version 1": (sft_bytes(version=1.0), "byte 0 starts no SFT of version 2 or 3"),
    "version 4": (sft_bytes(version=4.0), "byte 0 starts no SFT of version 2 or 3"),
    "version 2.5": (sft_bytes(version=2.5), "byte 0 starts no SFT of version 2 or 3"),
    "header cut": (sft_bytes()[:40], "truncated"),
    "comment cut": (sft_bytes()[:50], "GPS 12345 the data are truncated"),
    "data cut": (sft_bytes()[:-1], "GPS 12345 the data are truncated"),
    "second SFT cut": (GOOD[:-8], "GPS 12405 the data are truncated"),
    "trailing bytes": (sft_bytes() + b"\0", "byte 88 starts no complete header"),
    "null bytes in place of an SFT": (sft_bytes() + bytes(48), "byte 88 starts no SFT"),
    "comment of 7 bytes": (sft_bytes(comment=b"test1\0\0"), "GPS 12345 the comment's length 7"),
    "comment of -8 bytes": (sft_bytes(comment_bytes=-8), "GPS 12345 the comment's length -8"),
    "no bins": (sft_bytes(n_bins=0), "GPS 12345 the number of bins 0"),
    "more bins than bytes": (sft_bytes(n_bins=2**31 - 1), "GPS 12345 the data are truncated"),
    "negative start": (sft_bytes(-5), "GPS -5 the start is negative"),
    "Tsft zero": (sft_bytes(tsft=0.0), "GPS 12345 Tsft is not positive"),
    "Tsft not a number": (sft_bytes(tsft=np.nan), "GPS 12345 Tsft is not positive"),
    "Tsft infinite": (sft_bytes(tsft=np.inf), "GPS 12345 Tsft is not positive"),
    "window code 3": (sft_bytes(version=3.0, window=3), "GPS 12345 the window code is unknown"),
    "window code 10002": (sft_bytes(version=3.0, window=10002), "GPS 12345 the window code is unknown"),
    "window changes": (
        sft_bytes(version=3.0, window=1) + sft_bytes(12405, version=3.0, window=2),
        "GPS 12405 the window",
    ),
    "version changes": (sft_bytes() + sft_bytes(12405, version=3.0), "GPS 12405 the version changes"),
    "time goes back": (sft_bytes(12405) + sft_bytes(12345), "GPS 12345 the start is not after"),
    "infinite": (sft_bytes(bins=[1, np.inf]), "GPS 12345 a bin is infinite or not a number"),
    "not a number": (sft_bytes(bins=[1, complex(0, np.nan)]), "GPS 12345 a bin is infinite or not a number"),
    "not a number, swapped": (sft_bytes(bins=[np.nan], order=">"), "GPS 12345 a bin is infinite or not a number"),
    "checksum of the second": (sft_bytes() + sft_bytes(12405, crc=1), "GPS 12405 the checksum does not match"),
}


@pytest.fixture
def save(tmp_path):
    """A function that writes files named by its keywords and returns their directory."""

    def write(**contents):
        for name, content in contents.items():
            (tmp_path / f"{name}.sft").write_bytes(content)
        return tmp_path

    return write


def refusal(*args, **kwargs):
    """The message with which read_sfts refuses: always one line."""
    with pytest.raises((OSError, TypeError, ValueError)) as caught:
        read_sfts(*args, **kwargs)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert message.endswith(".")
    return message


@pytest.mark.parametrize("name", ACCEPTED)
def test_files_that_lalsuite_accepts(save, name):
    sfts = read_sfts(save(**{name: ACCEPTED[name]}) / f"{name}.sft")
    for series in sfts:
        np.testing.assert_array_equal(series.data, np.tile(BINS[: sfts.n_bins], (len(series), 1)))


@pytest.mark.parametrize("name", REFUSED | ALSO_REFUSED)
def test_invalid_files_are_refused_by_name(save, name):
    content, reason = (REFUSED | ALSO_REFUSED)[name]
    path = save(file=content) / "file.sft"
    message = refusal(path)
    assert repr(str(path)) in message
    assert reason in message


def test_lalsuites_files_together(save):
    directory = save(**{name: ACCEPTED[name] for name in ACCEPTED if name != "good"})
    message = refusal(directory)
    assert "mixed Tsft" in message
    assert "test1.sft" in message
    assert "test4.sft" in message
    message = refusal(f"{directory}/test[123567].sft")
    assert "mixed bands" in message
    assert "18.33333333" in message
    sfts = read_sfts(f"{directory}/test[123]*;{directory}/test5.sft")
    assert sfts.detectors == ("H1", "L1")
    assert [len(series) for series in sfts] == [3, 1]
    np.testing.assert_array_equal(sfts["H1"].gps, [12345, 12465, 12585])
    np.testing.assert_array_equal(sfts["H1"].gps_ns, [6789] * 3)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("version", [2.0, 3.0])
def test_any_flipped_bit_is_refused(save, version, order):
    right = sft_bytes(bins=BINS[:2], version=version, window=2, order=order)
    path = save(file=right) / "file.sft"
    assert len(read_sfts(path)) == 1
    for bit in range(8 * len(right)):
        wrong = bytearray(right)
        wrong[bit // 8] ^= 1 << bit % 8
        path.write_bytes(wrong)
        assert "file.sft" in refusal(path)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("version", [2.0, 3.0])
def test_versions_and_byte_orders(save, version, order):
    content = b"".join(
        sft_bytes(
            10000 + 60 * k, 5, bins=k * BINS, version=version, window=5001 + 50, order=order, comment=bytes(8 * k)
        )
        for k in range(5)
    )
    for check_crc in (True, False):
        sfts = read_sfts(save(file=content), check_crc=check_crc)
        (h1,) = sfts
        assert (sfts.tsft, sfts.first_bin, sfts.n_bins, h1.detector) == (60.0, 1000, 4, "H1")
        assert h1.window == ("unknown" if version == 2.0 else "tukey:0.01")
        assert h1.gps.dtype == h1.gps_ns.dtype == np.int64
        assert h1.data.dtype == np.complex64
        assert h1.data.dtype.isnative
        assert h1.data.flags.c_contiguous
        np.testing.assert_array_equal(h1.gps, 10000 + 60 * np.arange(5))
        np.testing.assert_array_equal(h1.data, np.arange(5)[:, None] * BINS)


def test_one_file_may_mix_byte_orders_as_in_lalsuite(save):
    sfts = read_sfts(save(file=sft_bytes() + sft_bytes(12405, order=">")))
    np.testing.assert_array_equal(sfts["H1"].data, [BINS, BINS])


def test_files_are_sorted_by_time(save):
    directory = save(
        a=sft_bytes(12465, bins=3 * BINS) + sft_bytes(12525, bins=4 * BINS), b=sft_bytes(), c=sft_bytes(12405)
    )
    for pattern in (directory, [directory / "c.sft", directory / "a.sft", directory / "b.sft"]):
        sfts = read_sfts(pattern)
        np.testing.assert_array_equal(sfts["H1"].gps, [12345, 12405, 12465, 12525])
        np.testing.assert_array_equal(sfts["H1"].data[:, 0], [1, 1, 3, 4])


def test_times_are_half_open_and_exact_to_a_nanosecond(save):
    path = save(file=b"".join(sft_bytes(1_000_000_000 + 60 * k, 500_000_000) for k in range(4)))
    t = 1_000_000_000.5
    starts = read_sfts(path, start=t + 60, end=t + 180)["H1"].gps
    np.testing.assert_array_equal(starts, [1_000_000_060, 1_000_000_120])
    assert len(read_sfts(path, start=t + 60 + 2e-7)) == 2
    assert len(read_sfts(path, end=Time(t + 60, format="gps"))) == 1
    assert len(read_sfts(path, start=np.float64(t))) == 4


@pytest.mark.parametrize(
    ("fmin", "fmax", "bins"),
    [
        (None, None, [100, 109]),
        (10.0, 11.0, [100, 109]),
        (10.2, 10.5, [102, 104]),
        (10.25, 10.55, [102, 105]),
        (0.1 * 103, 0.1 * 107, [103, 106]),
        (None, 10.5, [100, 104]),
        (10.5, None, [105, 109]),
        (10200 * units.mHz, 10.3 * units.Hz, [102, 102]),
    ],
)
def test_band_is_half_open_and_rounded_outwards(save, fmin, fmax, bins):
    path = save(file=sft_bytes(tsft=10.0, first=100, bins=np.arange(100, 110)))
    for check_crc in (True, False):
        sfts = read_sfts(path, fmin=fmin, fmax=fmax, check_crc=check_crc)
        assert sfts.first_bin == bins[0]
        np.testing.assert_array_equal(sfts["H1"].data, [np.arange(bins[0], bins[1] + 1)])
        np.testing.assert_allclose(sfts.frequencies, 0.1 * np.arange(bins[0], bins[1] + 1))


def narrow_band_set(bins, cuts, gps=(12345, 12405), scale=1.0):
    """A file a band, merged over times, whose bins count on from their own index."""
    return {
        f"band{a}to{b}": b"".join(sft_bytes(t, first=a, bins=scale * (bins[a:b] + 1j * t), tsft=60.0) for t in gps)
        for a, b in cuts
    }


@pytest.mark.parametrize("cuts", [[(0, 10), (10, 25), (25, 40)], [(0, 12), (8, 25), (2, 5), (20, 40)]])
def test_narrow_bands_are_joined(save, cuts):
    bins = np.arange(40.0)
    directory = save(**narrow_band_set(bins, cuts))
    for check_crc in (True, False):
        for band, (a, b) in [({}, (0, 40)), ({"fmin": 9 / 60, "fmax": 26 / 60}, (9, 26))]:
            sfts = read_sfts(directory, **band, check_crc=check_crc)
            assert sfts.first_bin == a
            np.testing.assert_array_equal(sfts["H1"].data, bins[a:b] + 1j * np.array([[12345], [12405]]))


def test_narrow_bands_must_agree_and_leave_no_gap(save):
    bins = np.arange(40.0)
    directory = save(**narrow_band_set(bins, [(0, 12), (20, 40)]))
    assert "lack 0.2 to 0.3333333333 Hz" in refusal(directory)
    assert "lack" in refusal(directory, fmin=0.1, fmax=0.4)
    assert read_sfts(directory, fmin=0.4, fmax=0.5).n_bins == 6
    save(**narrow_band_set(bins, [(10, 22)], scale=2.0))
    message = refusal(directory)
    assert "differs from another file in bins that both have" in message
    assert "GPS 12345" in message
    assert read_sfts(directory, fmin=0.4, fmax=0.5).n_bins == 6


def test_check_crc_reads_everything_or_only_what_is_kept(save):
    bins = np.append(BINS, np.nan)
    path = save(a=sft_bytes(bins=bins), b=sft_bytes(12405, bins=bins, crc=0))
    band = {"fmin": 1000 / 60, "fmax": 1003 / 60}
    np.testing.assert_array_equal(read_sfts(path, **band, check_crc=False)["H1"].data, [BINS[:3], BINS[:3]])
    assert "not a number" in refusal(path, check_crc=False)
    # verified although neither its time nor its detector is asked for
    assert "b.sft" in refusal([path / "b.sft", *save(c=sft_bytes(detector=b"L1")).glob("c.sft")], detectors="L1")


SOME = sft_bytes() + sft_bytes(12405)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"detectors": "L1"}, "there are no SFTs of L1"),
        ({"detectors": ["H1", "V1"]}, "there are no SFTs of V1"),
        ({"detectors": "Hanford"}, "detector 'Hanford' is unknown: use one of A1"),
        ({"detectors": ["H1", 3]}, "detectors must be different prefixes"),
        ({"detectors": 3}, "detectors must be different prefixes"),
        ({"detectors": []}, "detectors must be different prefixes"),
        ({"start": 12406}, "the SFTs start at GPS 12345 to 12405"),
        ({"end": 12345}, "the SFTs start at GPS 12345 to 12405"),
        ({"start": 12400, "end": 12400}, "start must be before end"),
        ({"start": 12401, "end": 12400}, "start must be before end"),
        ({"start": "now"}, "start must be"),
        ({"end": np.nan}, "end must be"),
        ({"fmin": 16.7, "fmax": 16.7}, "0 <= fmin < fmax"),
        ({"fmin": 16.7, "fmax": 16.68}, "0 <= fmin < fmax"),
        ({"fmin": -1.0}, "0 <= fmin < fmax"),
        ({"fmax": 0.0}, "0 <= fmin < fmax"),
        ({"fmin": np.nan}, "fmin must be"),
        ({"fmin": "low"}, "fmin must be"),
        ({"fmax": 3 * units.s}, "fmax must be"),
        ({"fmin": 16.6}, "16.66666667 to 16.71666667 Hz"),
        ({"fmax": 16.8}, "16.66666667 to 16.71666667 Hz"),
        ({"fmin": 1e6}, "16.66666667 to 16.71666667 Hz"),
        ({"fmax": 1e300}, "fmax must be a frequency in Hz of at most 1e+15"),
        ({"fmax": 1.0}, "16.66666667 to 16.71666667 Hz"),
        ({"fmin": 16.7, "fmax": np.nextafter(16.7, 17)}, "not covered"),
    ],
)
def test_arguments_are_checked(save, arguments, reason):
    path = save(file=SOME)
    for check_crc in (True, False):
        assert reason in refusal(path, **arguments, check_crc=check_crc)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (sft_bytes(), "given twice"),
        (sft_bytes(bins=2 * BINS), "given twice"),
        (sft_bytes(12404), "overlap in time"),
        (sft_bytes(12405, 6788), "overlap in time"),
        (sft_bytes(12405, tsft=61.0), "mixed Tsft"),
        (sft_bytes(12405, first=999), "mixed bands"),
        (sft_bytes(12405, bins=BINS[:3]), "mixed bands"),
        (sft_bytes(12405, detector=b"L1", first=999), "mixed bands"),
        (sft_bytes(12405, version=3.0, window=2), "mixed windows"),
        (sft_bytes(first=1003, version=3.0, window=2), "mixed windows"),
    ],
)
def test_files_must_fit_together(save, other, reason):
    directory = save(a=sft_bytes(), b=other)
    message = refusal(directory)
    assert reason in message
    if reason != "mixed bands":
        assert "a.sft" in message
        assert "b.sft" in message


def test_detectors_may_differ_in_times_and_windows(save):
    directory = save(
        a=sft_bytes(version=3.0, window=2), b=sft_bytes(12375, detector=b"L1"), c=sft_bytes(detector=b"G1")
    )
    sfts = read_sfts(directory)
    assert [(s.detector, s.window) for s in sfts] == [("G1", "unknown"), ("H1", "hann"), ("L1", "unknown")]
    assert read_sfts(directory, ["L1", "H1"]).detectors == ("H1", "L1")
    assert read_sfts(directory, "G1").detectors == ("G1",)
    assert read_sfts(directory, end=12350).detectors == ("G1", "H1")
    assert "no SFTs of L1 among the files and times" in refusal(directory, ["H1", "L1"], end=12350)


def test_patterns(save, monkeypatch):
    directory = save(a=sft_bytes(), b=sft_bytes(12405), **{"odd[1]": sft_bytes(12465)})
    (directory / "list.txt").write_text(f"# two files\n\n{directory}/a.sft\nfile://localhost{directory}/b.sft\n")
    (directory / "list2.txt").write_text(f"{directory}/c.sft\n")
    (directory / "empty.txt").write_text("% nothing\n")
    (directory / "sub").mkdir()
    monkeypatch.chdir(directory)
    for pattern, times in [
        ("a.sft", [12345]),
        ("odd[1].sft", [12465]),
        ("[ab].sft", [12345, 12405]),
        ("a.sft;b.sft", [12345, 12405]),
        (f" a.sft ; {directory}/b.s* ;", [12345, 12405]),
        (["b.sft", Path("a.sft")], [12345, 12405]),
        ((Path("b.sft"), "a.sft;odd*"), [12345, 12405, 12465]),
        (directory, [12345, 12405, 12465]),
        (".", [12345, 12405, 12465]),
        ("list:list.txt", [12345, 12405]),
        ("list:list.txt;odd*", [12345, 12405, 12465]),
    ]:
        np.testing.assert_array_equal(read_sfts(pattern)["H1"].gps, times)
    for pattern, reason in [
        ("c.sft", "no SFT file matches 'c.sft'"),
        ("a.sft;c*.sft", "no SFT file matches 'c*.sft'"),
        (Path("sub"), "no SFT file matches 'sub'"),
        ("", "is empty"),
        (" ; ", "is empty"),
        ([], "is an empty sequence"),
        ([3], "strings or paths, not 3"),
        (3, "must be a string, a path or a sequence"),
        ("list:c.txt", "'c.txt' cannot be read"),
        ("list:a.sft", "'a.sft'"),
        ("list:list2.txt", "c.sft"),
        ("list:empty.txt", "'empty.txt' is empty"),
        ("a.sft;a.sft", "given twice"),
        ("x" * 5000, "no SFT file matches"),
        ("a\0", "no SFT file matches"),
    ]:
        assert reason in refusal(pattern)


@st.composite
def sft_sets(draw):
    """Data sets of one to three detectors with any times, bands, windows and bit patterns of finite numbers."""
    tsft, n_bins = draw(st.sampled_from([1.0, 60.0, 1800.0, 1.5])), draw(st.integers(1, 12))
    series = []
    for detector in sorted(draw(st.sets(st.sampled_from(["H1", "L1", "V1"]), min_size=1))):
        steps = draw(st.lists(st.integers(int(tsft) + 2, 10_000), min_size=1, max_size=5))
        gps = draw(st.integers(1, 10**9)) + np.cumsum(steps)
        ns = np.array(draw(st.lists(st.integers(0, 999_999_999), min_size=len(steps), max_size=len(steps))))
        finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
        numbers = draw(st.lists(finite, min_size=2 * n_bins, max_size=2 * n_bins))
        data = np.outer(1 + np.arange(len(steps)) % 2, np.array(numbers, np.float32) / 2).astype(np.float32)
        window = draw(st.sampled_from(["unknown", "rectangular", "hann", "tukey:0", "tukey:0.001", "tukey:1"]))
        series.append(SFTSeries(detector, gps, ns, data.view(np.complex64), window))
    return SFTs(tuple(series), tsft, draw(st.integers(0, 10**7)))


@settings(max_examples=80, deadline=None)
@given(sft_sets(), st.booleans(), st.sampled_from(["", "a", "seven b", "eight by", "größe", "x" * 100]))
def test_what_is_written_is_read_back(tmp_path_factory, sfts, merge, comment):
    directory = tmp_path_factory.mktemp("sfts") / "new" / "directory"
    paths = write_sfts(sfts, directory, merge, comment=comment)
    assert len(paths) == (len(sfts.detectors) if merge else len(sfts))
    assert sorted(directory.iterdir()) == sorted(paths)
    again = read_sfts(directory)
    assert (again.tsft, again.first_bin, again.detectors) == (sfts.tsft, sfts.first_bin, sfts.detectors)
    for new, old in zip(again, sfts, strict=True):
        assert new.window == old.window
        np.testing.assert_array_equal(new.gps, old.gps)
        np.testing.assert_array_equal(new.gps_ns, old.gps_ns)
        assert new.data.tobytes() == old.data.tobytes()


def example(gps=(12345, 12405), detector="H1", data=None, first_bin=1000, tsft=60.0, **kwargs):
    data = np.tile(BINS, (len(gps), 1)) if data is None else data
    times = {"gps": np.array(gps), "gps_ns": np.zeros(len(gps), np.int64)}
    return SFTs((SFTSeries(detector, data=data, **(times | kwargs)),), tsft, first_bin)


def test_written_bytes(tmp_path):
    (path,) = write_sfts(example(window="hann"), tmp_path, comment="hello")
    expected = [sft_bytes(t, 0, version=3.0, window=2, comment=b"hello\0\0\0") for t in (12345, 12405)]
    assert path.read_bytes() == b"".join(expected)
    paths = write_sfts(example(window="hann"), str(tmp_path / "single"), merge=False, comment="hello")
    assert [p.read_bytes() for p in paths] == expected


@pytest.mark.parametrize(
    ("sfts", "reason"),
    [
        (example(data=np.full((2, 4), np.nan, np.complex64)), "GPS 12345 a bin is infinite"),
        (
            example(data=np.array([BINS, 1e60 * BINS.astype(complex)])),
            "GPS 12405 a bin is infinite",
        ),
        (example(data=np.zeros((2, 4))), "data of shape .* complex"),
        (example(data=np.zeros((2, 0), np.complex64)), "data of shape"),
        (example(data=BINS), "data of shape"),
        (example(gps=()), "gps of shape"),
        (example(gps=(12345.0, 12405.0)), "whole numbers"),
        (example(gps=(12345,), data=np.zeros((2, 4), np.complex64)), "gps of shape"),
        (example(gps=(12405, 12345)), "GPS 12345 is not after"),
        (example(gps=(12345, 2**31)), "32 bits"),
        (example(gps=(0, 60)), "GPS 0"),
        (example(first_bin=2**31), "32 bits"),
        (example(first_bin=-1), "first_bin must be"),
        (example(gps_ns=np.array([0, 10**9])), "gps_ns"),
        (example(tsft=0.0), "tsft must be positive"),
        (example(tsft=0.2), "tsft = 0.2 s"),
        (example(detector="Q7"), "the detector is none of"),
        (example(detector="H1x"), "the detector is none of"),
        (example(window="kaiser"), "'kaiser' is unknown"),
        (example(window="tukey:2"), "'tukey:2' is unknown"),
        (example(window="tukey:0.33333"), "multiple of 1/5000"),
        (SFTs((), 60.0, 0), "hold no SFT"),
        (SFTs(2 * example().series, 60.0, 0), "H1 twice"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path, sfts, reason):
    for merge in (True, False):
        with pytest.raises(ValueError, match=reason) as caught:
            write_sfts(sfts, tmp_path / "out", merge)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_other_refusals_to_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="cannot be made"):
        write_sfts(example(), tmp_path / "file")
    with pytest.raises(ValueError, match="null character"):
        write_sfts(example(), tmp_path / "out", comment="a\0b")
    for description in ("with space", "a_b", "a-b", "A", "é"):
        with pytest.raises(ValueError, match="description"):
            write_sfts(example(), tmp_path / "out", description=description)
    assert not (tmp_path / "out").exists()


def test_a_failing_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    (path,) = write_sfts(example(), tmp_path)
    old = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("jfstat.sfts.writing.crc64_rows", fail)
        with pytest.raises(OSError, match="disk full"):
            write_sfts(example(), tmp_path, comment="new")
        patch.undo()
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_sfts(example(), tmp_path, comment="new")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == old
    assert write_sfts(example(), tmp_path, comment="new") == [path]
    assert path.read_bytes() != old


def test_names():
    assert sft_file_name("H1", 1, 1800, 1257800000, 1800) == "H-1_H1_1800SFT-1257800000-1800.sft"
    assert (
        sft_file_name("L1", 5, 60, 12345, 302, description="testconcat") == "L-5_L1_60SFT_testconcat-000012345-302.sft"
    )
    assert (
        sft_file_name("H1", 5, 1800, 1257800000, 9000, band=(18000, 14400))
        == "H-5_H1_1800SFT_NBF0010Hz0W0008Hz0-1257800000-9000.sft"
    )
    assert "_mine_NBF0050Hz1711W0001Hz399-" in sft_file_name(
        "H1", 1, 1800, 1, 1, description="mine", band=(91711, 2199)
    )
    assert "NBF" not in sft_file_name("H1", 1, 1800, 1, 1, band=(1799, 10))
    assert span_seconds((12345, 0), (12345, 0), 60) == 60
    assert span_seconds((12345, 1), (12345, 1), 60) == 61
    assert span_seconds((12345, 6789), (12585, 6789), 60) == 302


def test_windows():
    names = {"unknown": 0, "rectangular": 1, "hann": 2, "tukey:0": 5001, "tukey:0.5": 7501, "tukey:0.001": 5006}
    for name, code in (names | {"tukey:1": 10001}).items():
        assert window_code(name) == code
        assert window_name(code) == name
    assert [window_name(window_code(window_name(code))) for code in range(5001, 10002)] == [
        window_name(code) for code in range(5001, 10002)
    ]
    for code in (-1, 3, 5000, 10002, 65535):
        with pytest.raises(ValueError, match="window code"):
            window_name(code)
    for name in ("", "Hann", "tukey", "tukey:", "tukey:-0.1", "tukey:nan", "tukey:0.5:0.5", "hann:1"):
        with pytest.raises(ValueError, match="unknown"):
            window_code(name)


@pytest.mark.parametrize("name", ["rectangular", "hann", "tukey:0", "tukey:0.1", "tukey:0.5", "tukey:1"])
@pytest.mark.parametrize("n", [5, 16, 1001])
def test_window_samples(name, n):
    samples = window_samples(name, n)
    assert samples.shape == (n,)
    assert samples.dtype == np.float64
    np.testing.assert_allclose(np.mean(samples**2), 1, rtol=1e-14)
    np.testing.assert_array_equal(samples, samples[::-1])
    if name == "tukey:1":
        np.testing.assert_allclose(samples, window_samples("hann", n), rtol=1e-14)


def test_windows_without_samples_are_refused():
    for name, n, reason in [
        ("unknown", 10, "no samples"),
        ("hann", 0, "at least 1"),
        ("hann", 2, "vanishes"),
        ("kaiser", 9, "'kaiser'"),
    ]:
        with pytest.raises(ValueError, match=reason):
            window_samples(name, n)


@pytest.mark.parametrize("check_crc", [False, True])
def test_files_that_are_replaced_while_they_are_read_give_one_of_both_or_an_error(tmp_path, check_crc):
    """Headers and bins are read one after the other, and never of two files, whatever happens in between."""
    kinds = [jfstat.simulate_sfts("H1", 1_167_458_304, 4 * 1800, 99.0, 99.1, seed=seed) for seed in (1, 2)]
    (path,) = jfstat.write_sfts(kinds[0], tmp_path)
    versions = [path.read_bytes()]
    jfstat.write_sfts(kinds[1], tmp_path)
    versions.append(path.read_bytes())
    done, n = threading.Event(), [0]

    def replace():
        while not done.is_set():
            n[0] += 1
            new = tmp_path / "new"
            new.write_bytes(versions[n[0] % 2])
            os.replace(new, path)

    thread = threading.Thread(target=replace)
    thread.start()
    refused = read = 0
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                found = jfstat.read_sfts(path, check_crc=check_crc)["H1"].data
            except ValueError as error:
                refused += 1
                assert "replaced or changed while it was read" in str(error)
                continue
            read += 1
            assert any(np.array_equal(found, kind["H1"].data) for kind in kinds)
    finally:
        done.set()
        thread.join()
    assert read and refused


def test_a_file_replaced_between_headers_and_bins_is_refused(tmp_path, monkeypatch):
    """Also one of the same size, with the same times, and by a file with the same stamp."""
    sfts, other = (jfstat.simulate_sfts("H1", 1_167_458_304, 3600, 99.0, 99.1, seed=seed) for seed in (1, 2))
    (path,) = jfstat.write_sfts(sfts, tmp_path)
    scan = reading.scan_file

    def scan_and_replace(*arguments):
        table = scan(*arguments)
        jfstat.write_sfts(other, tmp_path)
        return table

    for stamp in (headers.stamp_of, lambda file: 1):
        monkeypatch.setattr(reading, "scan_file", scan)
        monkeypatch.setattr(headers, "stamp_of", stamp)
        jfstat.write_sfts(sfts, tmp_path)
        assert np.array_equal(jfstat.read_sfts(path, check_crc=False)["H1"].data, sfts["H1"].data)
        monkeypatch.setattr(reading, "scan_file", scan_and_replace)
        for check_crc in (False, True):
            jfstat.write_sfts(sfts, tmp_path)
            with pytest.raises(ValueError, match="it was replaced or changed while it was read"):
                jfstat.read_sfts(path, check_crc=check_crc)


def test_reads_that_return_less_than_was_asked_for_are_continued():
    """As those of more than 2 GiB do."""

    class Short(io.FileIO):
        def readinto(self, buffer):
            return super().readinto(buffer[:1000])

    content = np.random.default_rng(0).integers(0, 256, 12_345).astype(np.uint8)
    with tempfile.NamedTemporaryFile() as named:
        named.write(content.tobytes())
        named.flush()
        row = np.empty(12_345, np.uint8)
        with Short(named.name) as file:
            assert blocks.filled(file, row)
        assert np.array_equal(row, content)
        with Short(named.name) as file:
            assert not blocks.filled(file, np.empty(12_346, np.uint8))


def test_a_length_that_no_sft_has_is_refused(tmp_path):
    path = tmp_path / "long.sft"
    path.write_bytes(sft_bytes(tsft=1e300))
    with pytest.raises(ValueError, match=r"Tsft is longer than 1e\+09 s"):
        read_sfts(path)


def test_noise_that_repeats_is_said(tmp_path):
    """Days that are simulated one by one with the same seed."""
    start = 1_167_458_304
    days = [jfstat.simulate_sfts("H1", start + k * 7200, 7200, 50.0, 50.2) for k in range(3)]
    said = f"the SFTs of H1 at GPS {start} and {start + 7200} hold the same bins: if they were simulated, give each"
    with pytest.warns(UserWarning, match=said):
        jfstat.join_sfts(days)
    for day in days:
        jfstat.write_sfts(day, tmp_path)
    with pytest.warns(UserWarning, match=said):
        jfstat.read_sfts(tmp_path)
    others = [jfstat.simulate_sfts("H1", start + k * 7200, 7200, 50.0, 50.2, seed=k) for k in range(3)]
    line = [jfstat.Artefact(50.0, 1e-22)]
    alike = jfstat.inject_artefacts(jfstat.simulate_sfts("H1", start, 7200, 50.0, 50.2, sqrt_sx=None), line)
    for sfts in (others, [alike]):
        assert len(jfstat.join_sfts(sfts)) == sum(map(len, sfts))
