"""SFT files against LALSuite: its files read here, files written here read by it, bit for bit."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

lal = pytest.importorskip("lal")
lalpulsar = pytest.importorskip("lalpulsar")

from test_sft_files import ACCEPTED, ALSO_REFUSED, REFUSED  # noqa: E402

from jfstat.sfts import SFTs, SFTSeries, read_sfts, write_sfts  # noqa: E402
from jfstat.sfts.crc64 import crc64_rows  # noqa: E402
from jfstat.sfts.naming import sft_file_name  # noqa: E402
from jfstat.sfts.windows import window_samples  # noqa: E402


def run(program, *arguments):
    """Run one of LALSuite's programs; its exit status."""
    here = Path(sys.executable).with_name(program)
    path = str(here) if here.exists() else shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return subprocess.run([path, *map(str, arguments)], capture_output=True, check=False).returncode


def make_sfts(directory, *options):
    directory.mkdir()
    arguments = ["--IFOs=H1,L1", "--sqrtSX=1e-23,2e-23", "--startTime=1000000000", "--duration=1800", "--Tsft=300"]
    arguments += ["--fmin=20", "--Band=3", "--randSeed=1", f"--outSFTdir={directory}"]
    assert run("lalpulsar_Makefakedata_v5", *arguments, *options) == 0
    return directory


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """Directories with the same kind of data, in several layouts of files."""
    base = tmp_path_factory.mktemp("lalsuite")
    merged = make_sfts(base / "merged", "--outSingleSFT=true")
    (base / "split").mkdir()
    for path in merged.glob("*.sft"):
        assert run("lalpulsar_splitSFTs", "-fs", "20", "-fe", "23", "-fb", "0.7", "-n", base / "split", "--", path) == 0
    return {
        "merged": merged,
        "single": make_sfts(base / "single", "--outSingleSFT=false"),
        "tukey": make_sfts(base / "tukey", "--SFTWindowType=tukey", "--SFTWindowParam=0.5"),
        "hann": make_sfts(base / "hann", "--SFTWindowType=hann"),
        "rectangular": make_sfts(base / "rectangular", "--SFTWindowType=rectangular"),
        "split": base / "split",
    }


def load(pattern, detector=None, start=None, end=None, fmin=-1, fmax=-1):
    """What LALSuite loads: for each detector (name, [(s, ns)], first frequency, spacing, data)."""
    constraints = lalpulsar.SFTConstraints()
    constraints.detector = detector
    limits = [None if t is None else lal.LIGOTimeGPS(t) for t in (start, end)]
    constraints.minStartTime, constraints.maxStartTime = limits
    loaded = lalpulsar.LoadMultiSFTs(lalpulsar.SFTdataFind(str(pattern), constraints), fmin, fmax)
    for vector in loaded.data:
        sfts = vector.data
        times = [(sft.epoch.gpsSeconds, sft.epoch.gpsNanoSeconds) for sft in sfts]
        yield sfts[0].name, times, sfts[0].f0, sfts[0].deltaF, np.array([sft.data.data for sft in sfts])


def assert_same(sfts, loaded):
    """Bit for bit."""
    loaded = list(loaded)
    assert len(loaded) == len(sfts.detectors)
    for series, (name, times, f0, spacing, data) in zip(sfts, loaded, strict=True):
        assert series.detector == name
        assert list(zip(series.gps.tolist(), series.gps_ns.tolist(), strict=True)) == times
        assert sfts.first_bin == round(f0 / spacing)
        assert 1 / sfts.tsft == spacing
        assert series.data.dtype == data.dtype
        assert series.data.tobytes() == data.tobytes()


@pytest.mark.ci
@pytest.mark.parametrize("layout", ["merged", "single", "tukey", "hann", "rectangular", "split"])
def test_lalsuites_files_are_read_bit_for_bit(layouts, layout):
    pattern = f"{layouts[layout]}/*.sft"
    window = {"tukey": "tukey:0.5", "hann": "hann", "rectangular": "rectangular"}.get(layout, "rectangular")
    sfts = read_sfts(pattern)
    assert_same(sfts, load(pattern))
    assert {series.window for series in sfts} <= {window, "unknown"}
    if layout in ("tukey", "hann"):
        assert [series.window for series in sfts] == [window] * 2
    for band in [(20.0, 23.0), (20.5, 21.9), (20.703, 22.0), (21.0 + 1 / 300, 21.0 + 2 / 300), (0.1 * 205, 0.1 * 221)]:
        assert_same(read_sfts(pattern, fmin=band[0], fmax=band[1]), load(pattern, fmin=band[0], fmax=band[1]))
        assert_same(read_sfts(pattern, fmin=band[0], check_crc=False), load(pattern, fmin=band[0]))
    times = {"start": 1000000300, "end": 1000001200}
    assert_same(read_sfts(pattern, "L1", **times), load(pattern, "L1", **times))


def test_split_files_hold_several_bands(layouts):
    assert len(list(layouts["split"].glob("H-*.sft"))) > 3
    merged, split = read_sfts(layouts["merged"]), read_sfts(layouts["split"], fmin=20, fmax=22.5)
    np.testing.assert_array_equal(split["H1"].data, merged["H1"].data[:, : split.n_bins])


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("window", ["unknown", "rectangular", "hann", "tukey:0.001"])
def test_written_files_are_valid_and_read_bit_for_bit(tmp_path, window, merge):
    rng = np.random.default_rng(3)
    series = []
    for detector, gps in (("H1", [1, 1801, 5000]), ("I1", [900000000]), ("L1", [2147481000, 2147483000])):
        data = rng.standard_normal((len(gps), 50)).astype(np.float32).view(np.complex64)
        ns = np.arange(len(gps)) * 123456789
        series.append(SFTSeries(detector, np.array(gps), ns, data, window))
    sfts = SFTs(tuple(series), 1800.0, 18_000_001)
    paths = write_sfts(sfts, tmp_path, merge, comment="größe", description="mine")
    assert_same(sfts, load(f"{tmp_path}/*.sft"))
    assert_same(read_sfts(tmp_path), load(f"{tmp_path}/*.sft"))
    # the validator does not know I1, though the reader does
    assert run("lalpulsar_SFTvalidate", *[path for path in paths if "I1" not in path.name]) == 0
    catalog = lalpulsar.SFTdataFind(f"{tmp_path}/*.sft", lalpulsar.SFTConstraints())
    assert {sft.window_type for sft in catalog.data} == {window.split(":")[0]}
    assert lalpulsar.CheckCRCSFTCatalog(catalog)
    for path in paths:
        spec = lalpulsar.SFTFilenameSpec()
        lalpulsar.ParseSFTFilenameIntoSpec(spec, path.name)
        assert lalpulsar.BuildSFTFilenameFromSpec(spec) == path.name
        assert (spec.SFTtimebase, spec.nbFirstBinFreq, spec.nbFirstBinRem, spec.nbBinWidthRem) == (1800, 10000, 1, 25)


@pytest.mark.parametrize("n_sfts", [1, 12])
@pytest.mark.parametrize("description", ["", "mine", "x1"])
@pytest.mark.parametrize("band", [None, (0, 10), (91711, 2199), (36000000, 1)])
def test_names_are_lalsuites(n_sfts, description, band):
    spec = lalpulsar.SFTFilenameSpec()
    lalpulsar.FillSFTFilenameSpecStrings(spec, None, None, "V1", None, description or None, None, None)
    spec.numSFTs, spec.SFTtimebase, spec.gpsStart, spec.SFTspan = n_sfts, 1800, 12345, 99999
    if band:
        spec.nbFirstBinFreq, spec.nbFirstBinRem = divmod(band[0], 1800)
        spec.nbBinWidthFreq, spec.nbBinWidthRem = divmod(band[1], 1800)
    name = sft_file_name("V1", n_sfts, 1800.0, 12345, 99999, description=description, band=band)
    assert name == lalpulsar.BuildSFTFilenameFromSpec(spec)


def test_spans_are_lalsuites(layouts, tmp_path):
    for merge in (True, False):
        vector = lalpulsar.LoadSFTs(
            lalpulsar.SFTdataFind(f"{layouts['merged']}/H*.sft", lalpulsar.SFTConstraints()), -1, -1
        )
        sfts = read_sfts(f"{layouts['merged']}/H*.sft")
        for i in range(vector.length):
            vector.data[i].epoch = lal.LIGOTimeGPS(vector.data[i].epoch.gpsSeconds, 5)
        sfts["H1"].gps_ns[:] = 5
        spec = lalpulsar.SFTFilenameSpec()
        theirs, ours = tmp_path / f"theirs{merge}", tmp_path / f"ours{merge}"
        theirs.mkdir()
        lalpulsar.FillSFTFilenameSpecStrings(spec, str(theirs), None, None, "rectangular", None, None, None)
        spec.nbFirstBinFreq, spec.nbFirstBinRem = divmod(sfts.first_bin, 300)
        spec.nbBinWidthFreq, spec.nbBinWidthRem = divmod(sfts.n_bins, 300)
        lalpulsar.WriteSFTVector2StandardFile(vector, spec, "H1", merge)
        write_sfts(sfts, ours, merge)
        assert sorted(p.name for p in theirs.iterdir()) == sorted(p.name for p in ours.iterdir())


def test_checksums_are_lalsuites(layouts):
    for path in layouts["single"].glob("*.sft"):
        content = np.fromfile(path, np.uint8)[np.newaxis]
        crc = int(content[0, 32:40].view("<u8")[0])
        content[:, 32:40] = 0
        assert crc64_rows(content).tolist() == [crc]


# LALSuite's validator prints that these are not finite, but forgets it when it reaches the end of the file
FORGOTTEN = ("infinite", "not a number", "not a number, swapped")


@pytest.mark.parametrize("name", [name for name in (ACCEPTED | REFUSED | ALSO_REFUSED) if name not in FORGOTTEN])
def test_refused_if_and_only_if_lalsuite_refuses(tmp_path, name):
    content = ACCEPTED[name] if name in ACCEPTED else (REFUSED | ALSO_REFUSED)[name][0]
    path = tmp_path / "file.sft"
    path.write_bytes(content)
    refused_by_validator = run("lalpulsar_SFTvalidate", path) != 0
    try:
        catalog = lalpulsar.SFTdataFind(str(path), lalpulsar.SFTConstraints())
        refused_by_reader = not lalpulsar.CheckCRCSFTCatalog(catalog)
    except RuntimeError:
        refused_by_reader = True
    assert (refused_by_validator or refused_by_reader) == (name not in ACCEPTED)


@pytest.mark.parametrize("n", [5, 16, 1001])
def test_window_samples_are_lalsuites(n):
    for name, window in [
        ("rectangular", lal.CreateRectangularREAL8Window(n)),
        ("hann", lal.CreateHannREAL8Window(n)),
        *((f"tukey:{beta}", lal.CreateTukeyREAL8Window(n, beta)) for beta in (0.0, 0.001, 0.1, 0.3, 0.5, 1.0)),
    ]:
        expected = window.data.data / np.sqrt(np.mean(window.data.data**2))
        np.testing.assert_allclose(window_samples(name, n), expected, rtol=1e-12, atol=1e-15)
