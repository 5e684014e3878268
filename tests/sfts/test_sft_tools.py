"""SFT files split, validated and dumped, and their noise floors, against LALSuite's programs on the same files."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lalsuite_tools import lalpulsar, load_sfts, run

import jfstat
from jfstat.commandline import main
from jfstat.data.psd import OPERATIONS
from jfstat.sfts.split import narrow_bands

START, TSFT = 1167458304, 1800
TIMES = {"H1": START + TSFT * np.array([0, 1, 2, 5, 6, 9]), "L1": START + 300 + TSFT * np.array([0, 1, 4, 5, 20])}


@pytest.fixture(scope="module")
def sfts(tmp_path_factory):
    """SFTs whose floors rise over the band and drift, with gaps, and the directory they are in."""
    made = jfstat.simulate_sfts(
        ["H1", "L1"], None, None, 60.0, 60.5, TSFT, {"H1": 4e-24, "L1": 9e-24}, timestamps=TIMES, seed=3
    )
    rng, slope = np.random.default_rng(4), np.linspace(1, 1.5, made.n_bins)
    series = [replace(s, data=(s.data * slope * rng.uniform(0.5, 3, (len(s), 1))).astype(np.complex64)) for s in made]
    made = jfstat.SFTs(tuple(series), made.tsft, made.first_bin)
    directory = tmp_path_factory.mktemp("sfts")
    jfstat.write_sfts(made, directory, comment="two\nlines", description="mine")
    return made, directory


def program(name, *words):
    """Exit status, stdout and stderr of a program of LALSuite without named options."""
    path = Path(sys.executable).with_name(f"lalpulsar_{name}")
    if not path.exists():
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# ----------------------------------------------------------------------------------------------------------------- psd
@pytest.mark.parametrize("over_detectors", ["harmsum", "arithmean", "max"])
@pytest.mark.parametrize("over_sfts", OPERATIONS)
def test_spectra_are_ComputePSDs(sfts, over_sfts, over_detectors):
    made, directory = sfts
    vector = load_sfts(directory)
    lal = pytest.importorskip("lal")
    op = {name: i for i, name in enumerate(OPERATIONS)}
    theirs = lalpulsar.ComputePSDfromSFTs(vector, 51, op[over_sfts], op[over_detectors], False, 60.1, 0.3)
    assert isinstance(theirs, lal.REAL8Vector)
    ours = jfstat.psd(made, 60.1, 60.4, median_bins=51, over_sfts=over_sfts, over_detectors=over_detectors)
    np.testing.assert_allclose(ours["psd"].value, theirs.data, rtol=1e-13)
    assert ours["psd"].unit == "1 / Hz" and ours["freq"].value[0] == 60.1
    np.testing.assert_allclose(ours["sqrt_sx_L1"].value ** 2, ours["psd_L1"].value)


@pytest.mark.parametrize("options", [{}, {"binSize": 7, "PSDmthopBins": "max", "blocksRngMed": 50}, {"IFO": "L1"}])
def test_the_file_is_ComputePSDs(sfts, options, tmp_path, capsys):
    directory = sfts[1]
    theirs, ours = tmp_path / "theirs.txt", tmp_path / "ours.txt"
    shared = {"inputData": f"{directory}/*.sft", "Freq": 60.12, "FreqBand": 0.2, **options}
    run("ComputePSD", outputPSD=theirs, **shared, **({"binStep": 7} if "binSize" in options else {}))
    assert main(["psd", *(f"--{name}={value}" for name, value in shared.items()), f"--outputPSD={ours}"]) == 0
    a, b = (np.loadtxt(path, comments="%") for path in (ours, theirs))
    assert len(a) == len(b)
    np.testing.assert_allclose(a[:, :2], b, rtol=1e-6)  # the digits that ComputePSD writes
    assert "median noise floor" in capsys.readouterr().out


def test_spectrograms_and_pictures(sfts, tmp_path):
    made, directory = sfts
    parts = jfstat.spectrogram(made, 60.1, 60.2, median_bins=51)
    assert [part.detector for part in parts] == ["H1", "L1"]
    assert [part.psd.shape for part in parts] == [(6, 180), (5, 180)]
    np.testing.assert_allclose(parts[1].gps, TIMES["L1"])
    table = jfstat.psd(made, 60.1, 60.2, median_bins=51)
    np.testing.assert_allclose(1 / np.mean(1 / parts[0].psd, axis=0), table["psd_H1"].value)
    names = [tmp_path / name for name in ("a.png", "b.pdf", "psd.ecsv")]
    words = [f"--plot={names[0]}", f"--spectrogram={names[1]}", f"--outputPSD={names[2]}"]
    assert main(["psd", f"--inputData={directory}", "--startTime", str(START), *words]) == 0
    assert all(path.stat().st_size > 1000 for path in names)
    from astropy.table import QTable

    read = QTable.read(names[2])
    assert len(read) == made.n_bins and read.meta["over_detectors"] == "harmsum" and read.meta["n_sfts"] == [6, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(over_sfts="mean"), "over_sfts must be one of arithsum, .*, not 'mean'"),
        (dict(median_bins=2), "median_bins must be a whole number of at least 3"),
        (dict(median_bins=5000), "the running median needs 5000 bins"),
        (dict(bin_size=0), "bin_size must be a whole number from 1"),
        (dict(fmin=59.0), "must be in order and within the SFTs' band"),
        (dict(fmin=60.3, fmax=60.2), "must be in order"),
    ],
)
def test_what_psd_refuses(sfts, options, message):
    with pytest.raises(ValueError, match=message):
        jfstat.psd(sfts[0], **options)


def test_psd_of_the_program_refuses_bands_that_the_files_lack(sfts, capsys):
    assert main(["psd", f"--inputData={sfts[1]}", "--Freq=60.4", "--FreqBand=1"]) == 1
    assert "--inputData covers 60 to 60.5 Hz" in capsys.readouterr().err
    assert main(["psd", f"--inputData={sfts[1]}", "--binSize=3", "--binSizeHz=0.1"]) == 1
    assert "say the same" in capsys.readouterr().err
    with pytest.raises(TypeError, match="sfts must be SFTs"):
        jfstat.psd("60")


# --------------------------------------------------------------------------------------------------------------- split
def test_split_files_are_splitSFTs(sfts, tmp_path, capsys):
    directory = sfts[1]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    options = ["-fs", "60.05", "-fe", "60.45", "-fb", "0.15", "-fx", "0.02"]
    status, _, error = program("splitSFTs", *options, "-n", theirs, "--", *sorted(directory.glob("*.sft")))
    assert status == 0, error
    words = ["split-sfts", f"--DataFiles={directory}", *options, "-n", str(ours), "--outLabel=mine"]
    assert main(words) == 0
    # LIGO-T040164 has the description before the band, and its names are checked by LALSuite's reader
    names = {path.name for path in ours.glob("*.sft")}
    assert names == {path.name for path in theirs.glob("*.sft")}
    assert len(names) == 8 and capsys.readouterr().out.count("wrote") == 8
    assert program("SFTvalidate", *sorted(ours.glob("*.sft")))[0] == 0
    for name in names:
        a, b = (jfstat.read_sfts(folder / name) for folder in (ours, theirs))
        assert (a.first_bin, a.n_bins) == (b.first_bin, b.n_bins)
        for x, y in zip(a, b, strict=True):
            assert np.array_equal(x.data, y.data) and np.array_equal(x.gps, y.gps)
    back = jfstat.read_sfts(ours)  # joined again: bins that two files share agree
    whole = jfstat.read_sfts(directory, fmin=60.05, fmax=60.45)
    assert all(np.array_equal(x.data, y.data) for x, y in zip(back, whole, strict=True))


def test_LALSuite_joins_split_files(sfts, tmp_path):
    made, directory = sfts
    jfstat.split_sfts(directory, tmp_path, 0.15)  # without overlap, which its reader refuses
    for own, theirs in zip(made, load_sfts(tmp_path).data, strict=True):
        for x, y in zip(own.data, theirs.data, strict=True):
            assert np.array_equal(x, y.data.data)


def test_split_takes_all_bins_by_default_and_some_detectors(sfts, tmp_path):
    made, directory = sfts
    files = jfstat.split_sfts(directory, tmp_path, 0.2, detectors="L1", start=START + TSFT)
    assert len(files) == 3 and {path.name[0] for path in files} == {"L"}
    back = jfstat.read_sfts(tmp_path)
    assert back.n_bins == made.n_bins and len(back) == 4
    assert np.array_equal(back["L1"].data, made["L1"].data[1:])


def test_bands_cover_all_bins():
    assert list(narrow_bands(10, 19, 4, 0)) == [(10, 4), (14, 4), (18, 2)]
    assert list(narrow_bands(10, 18, 4, 1)) == [(10, 4), (13, 4), (16, 3)]
    assert list(narrow_bands(10, 14, 4, 0)) == [(10, 4), (14, 1)]  # splitSFTs drops the last bin
    for width, overlap, message in ((2, 2, "larger than overlap"), (3, -1, "larger than overlap")):
        with pytest.raises(ValueError, match=message):
            list(narrow_bands(0, 9, width, overlap))


def test_what_split_refuses(sfts, tmp_path):
    for options, message in (
        (dict(width=-0.1), "width must not be negative"),
        (dict(width=0.1, overlap=0.1), "must be larger than overlap"),
        (dict(width=0.1, fmin=59.0), "is not covered"),
    ):
        with pytest.raises(ValueError, match=message):
            jfstat.split_sfts(sfts[1], tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()


# ------------------------------------------------------------------------------------------------------------ validate
def test_valid_and_invalid_files_as_SFTvalidate_tells_them(sfts, tmp_path, capsys, monkeypatch):
    good = sorted(sfts[1].glob("*.sft"))
    content = good[0].read_bytes()
    bad = {}
    for name, changed in {
        "empty.sft": b"",
        "cut.sft": content[:-8],
        "crc.sft": content[:-1] + bytes([content[-1] ^ 1]),
        "text.sft": b"no SFT " * 20,
        "twice.sft": content + content,
        "nan.sft": content[:-4] + np.float32(np.nan).tobytes(),
    }.items():
        bad[name] = tmp_path / name
        bad[name].write_bytes(changed)
    for path in [*good, *bad.values()]:
        valid = path in good
        assert (program("SFTvalidate", path)[0] == 0) == valid
        assert main(["validate-sfts", str(path)]) == (0 if valid else 1)
        out, err = capsys.readouterr()
        assert (out.strip() == str(path)) == valid and (path.name in err) == (not valid)
    assert main(["validate-sfts", *map(str, [*good, *bad.values()])]) == 1
    out, err = capsys.readouterr()
    assert out.split() == [str(path) for path in good] and len(err.splitlines()) == len(bad)
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(f"{good[0]}\n\n{good[1]}\n"))
    assert main(["validate-sfts"]) == 0
    assert jfstat.validate_sfts(good[0]) == 6
    with pytest.raises(ValueError, match="the checksum does not match"):
        jfstat.validate_sfts(bad["crc.sft"])
    with pytest.raises(OSError, match="cannot be opened"):
        jfstat.validate_sfts(tmp_path / "missing.sft")


# ---------------------------------------------------------------------------------------------------------------- dump
@pytest.mark.parametrize("option", [None, "headerOnly", "dataOnly", "timestampsOnly"])
def test_what_is_dumped_is_dumpSFTs(sfts, option, capsys):
    for name in ("H", "L"):
        (path,) = sfts[1].glob(f"{name}-*.sft")
        words = [f"--SFTfiles={path}", *([f"--{option}"] if option else [])]
        theirs = program("dumpSFT", *words)[1]
        assert main(["dump-sfts", *words]) == 0
        ours = capsys.readouterr().out
        assert _told(ours) == _told(theirs)
        assert _told(ours)


def _told(text):
    """Lines but for the comments of programs about themselves, and blank ones."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line for line in kept if not line.startswith(("%% LAL", "%% cmdline"))]


def test_the_number_and_order_of_what_is_dumped(sfts, capsys):
    assert main(["dump-sfts", "-i", str(sfts[1]), "-t", "-N", "3"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [[str(t), "000000000"] for t in (START, START + 300, START + TSFT)]
    assert main(["dump-sfts", "-i", str(sfts[1]), "-N", "0"]) == 1
    assert "--Nmax/-N: '0' is not a whole number of at least 1" in capsys.readouterr().err
    assert main(["dump-sfts", "-i", str(sfts[1]), "-H", "-d"]) == 1
    assert "not allowed with" in capsys.readouterr().err
