"""The program: subcommands from end to end, and its errors, each one line and exit status 1."""

import argparse
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from astropy.table import Table
from commandwords import changed

import jfstat
from jfstat.commandline import demo, main
from jfstat.commandline.sources import read_sources
from jfstat.commandline.words import declination, gps, number, numbers, right_ascension
from jfstat.io.candidates import read_candidates
from jfstat.sfts import read_sfts

START = 1167458304
SIGNAL = "{Alpha=1.1; Delta=0.4; Freq=50.0123; f1dot=-2e-10; refTime=1167458304; h0=1.2e-24; cosi=0.3; psi=0.2; phi0=1}"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """SFT files of two detectors with a signal, made by the program."""
    path = tmp_path_factory.mktemp("sfts")
    assert (
        main(
            [
                "simulate",
                "--IFOs=H1,L1",
                "--sqrtSX=4e-24",
                f"--startTime={START}",
                "--duration=43200",
                "--fmin=49",
                "--Band=2.1",
                f"--outSFTdir={path}",
                "--randSeed=1",
                "--injectionSources",
                SIGNAL,
            ]
        )
        == 0
    )
    return path


def refusal(capsys, *argv):
    """The one line that the program leaves when it refuses."""
    assert main([*map(str, argv)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("jfstat: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_simulate_writes_what_the_library_would(directory, capsys):
    files = sorted(directory.glob("*.sft"))
    assert [path.name[:2] for path in files] == ["H-", "L-"]
    sfts = read_sfts(str(directory / "*.sft"))
    signals = read_sources(SIGNAL)
    same = jfstat.simulate_sfts(["H1", "L1"], START, 43200, 49, 51.1, sqrt_sx=4e-24, signals=signals, seed=1)
    for a, b in zip(sfts, same, strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def test_one_signal_by_options_is_the_same_signal_by_source(directory, tmp_path):
    options = SIGNAL.strip("{}").replace(" ", "").split(";")
    noise, both = tmp_path / "noise", tmp_path / "both"
    common = ["--IFOs=H1", "--startTime=2017-01-03T05:58:06", "--duration=7200", "--fmin=49.9", "--Band=0.3"]
    assert main(["simulate", *common, f"--outSFTdir={noise}", "--sqrtSX=4e-24"]) == 0
    inject = [f"--{o}" for o in options]
    assert main(["simulate", *common, f"--outSFTdir={both}", "--sqrtSX=4e-24", *inject]) == 0
    assert main(["simulate", "--noiseSFTs", str(noise), f"--outSFTdir={tmp_path / 'later'}", *inject]) == 0
    a, b = (read_sfts(path)["H1"].data for path in (both, tmp_path / "later"))
    np.testing.assert_array_equal(a, b)
    source = tmp_path / "source.cfg"
    source.write_text("# one\n[first]\n" + "\n".join(o.replace("=", " = ") + " % comment" for o in options))
    from_file, from_text = read_sources(str(source)), read_sources(SIGNAL)
    for x, y in zip(from_file[0], from_text[0], strict=True):
        assert repr(x) == repr(y)


def test_timestamps_and_windows(tmp_path):
    for name, times in (("h.txt", "# gps ns\n1167458304 0\n1167465504 500000000\n"), ("l.txt", "1167458304\n")):
        (tmp_path / name).write_text(times)
    files = f"{tmp_path / 'h.txt'},{tmp_path / 'l.txt'}"
    assert (
        main(
            [
                "simulate",
                "--IFOs=H1,L1",
                f"--timestampsFiles={files}",
                "--fmin=50",
                "--Band=0.1",
                "--sqrtSX=1e-23,2e-23",
                "--SFTWindowType=tukey",
                "--SFTWindowParam=0.5",
                f"--outSFTdir={tmp_path}",
            ]
        )
        == 0
    )
    sfts = read_sfts(tmp_path)
    assert [len(s) for s in sfts] == [2, 1]
    assert sfts["H1"].gps_ns[1] == 500000000
    assert sfts["L1"].window == "tukey:0.5"
    ratio = np.mean(np.abs(sfts["L1"].data) ** 2) / np.mean(np.abs(sfts["H1"].data) ** 2)
    assert ratio == pytest.approx(4, rel=0.4)


@pytest.mark.ci
def test_search_finds_the_signal_and_writes_it(directory, tmp_path, capsys):
    out = tmp_path / "found.txt"
    assert (
        main(
            [
                "search",
                "--DataFiles",
                str(directory / "*.sft"),
                "--Alpha",
                "4:12:06.06",
                "--Delta",
                "-0.2",
                "--DeltaBand",
                "0.6",
                "--dDelta",
                "0.6",
                "--Freq",
                "50",
                "--FreqBand",
                "0.03",
                "--f1dot",
                "-1.8e-9",
                "--f1dotBand",
                "3.2e-9",
                "--df1dot",
                "1.6e-9",
                "--refTime",
                "2017-01-03T05:58:06",
                "--outputFstat",
                str(out),
                "--NumCandidatesToKeep",
                "10",
                "--TwoFthreshold",
                "30",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "6 template(s)" in printed
    assert "freq     50.01" in printed
    found = read_candidates(out)
    assert 1 <= len(found) <= 10
    assert found["twoF"].min() >= 30
    assert found["f1dot"][0].value == pytest.approx(-2e-10)
    assert found["delta"][0].value == pytest.approx(0.4)
    assert found["freq"][0].value == pytest.approx(50.0123, abs=1.2e-5)
    assert found.meta["reftime"] == START


REGION = ["--metricMismatch=0.1", "--skyRegion=(0.8,0.1),(1.4,0.1),(5:30:00,0.7)"]
REGION += ["--f1dot=-3e-10", "--f1dotBand=2e-10"]


@pytest.mark.ci
def test_search_of_a_region_by_a_lattice_in_units(directory, tmp_path, capsys):
    common = ["search", f"--DataFiles={directory}/*.sft", "--Freq=50", "--FreqBand=0.03", f"--refTime={START}"]
    common += ["--assumeSqrtSX=4e-24", "--NumCandidatesToKeep=12", "--batchSize=4", "--cluster=1"]
    assert main([*common, *REGION, "--countTemplates"]) == 0
    said = capsys.readouterr().out
    n = int(re.search(r"(\d+) template\(s\)", said)[1])
    assert n > 4
    assert re.search(r"would take [\d.e-]+ s \([\d.e-]+ h\) on one cpu device", said)
    assert main([*common, *REGION, f"--outputFstat={tmp_path}/whole.ecsv", f"--checkpoint={tmp_path}/c"]) == 0
    assert "false-alarm probability" in capsys.readouterr().out
    files = [f"{tmp_path}/{i}.ecsv" for i in (1, 2)]
    for i, file in enumerate(files, 1):
        assert main([*common, *REGION, f"--unit={i}/2", f"--outputFstat={file}"]) == 0
    assert main(["merge", *files, f"--outputFstat={tmp_path}/merged.ecsv"]) == 0
    assert (tmp_path / "merged.ecsv").read_bytes() == (tmp_path / "whole.ecsv").read_bytes()
    found = read_candidates(tmp_path / "whole.ecsv")
    assert found.meta["n_templates"] == n
    assert "n_members" in found.colnames
    point = jfstat.Doppler(1.1, 0.4, [50.0123, -2e-10], reftime=START)
    data = jfstat.prepare(read_sfts(f"{directory}/*.sft"), 50.0, 50.03, START, 4e-24)
    best = [float(found[name][0].value) for name in ("alpha", "delta", "freq", "f1dot")]
    other = jfstat.Doppler(best[0], best[1], best[2:], reftime=START)
    assert float(jfstat.mismatch(data, point, other)) < 0.1 + 0.19 + 0.1
    # the candidates' templates are a bank too
    capsys.readouterr()
    again = [*common, f"--gridFile={tmp_path}/whole.ecsv", f"--outputFstat={tmp_path}/again.txt"]
    assert main(again) == 0
    assert f"{len(found)} template(s)" in capsys.readouterr().out
    assert (
        main([*common, "--Alpha=1.1", "--Delta=0.4", "--skyRadius=0.1", "--metricMismatch=0.3", "--countTemplates"])
        == 0
    )
    assert main(["merge", files[0], f"--outputFstat={tmp_path}/m.ecsv"]) == 1
    assert "tables lack 1 of 2 units" in capsys.readouterr().err


@pytest.mark.ci
@pytest.mark.parametrize(
    "options, asked",
    [
        (["--Alpha=1.1", "--Delta=0.4", "--skyRadius=1e-4", "--metricMismatch=0.3"], ["freq", "alpha", "delta"]),
        (["--Alpha=1.1", "--AlphaBand=0.01", "--dAlpha=0.1", "--Delta=0.4"], ["freq", "alpha"]),
        (["--skyRegion=(1.1,0.4),(1.1001,0.4),(1.1,0.4001)", "--metricMismatch=0.3"], ["freq", "alpha", "delta"]),
        (["--Alpha=1.1", "--Delta=0.4"], ["freq"]),
    ],
)
def test_ranges_that_one_template_covers_count_as_searched(options, asked, directory, tmp_path):
    out = tmp_path / "found.ecsv"
    common = [f"--DataFiles={directory}/*.sft", "--Freq=50", "--FreqBand=0.01", "--assumeSqrtSX=4e-24"]
    assert main(["search", *common, *options, f"--outputFstat={out}", "--NumCandidatesToKeep=1"]) == 0
    assert read_candidates(out).meta["parameters"] == asked


def test_a_lattice_with_a_reference_time_far_away(directory, capsys):
    """Its templates reach beyond the range of f1dot by a cell: years later a drift that data must have room for."""
    common = ["search", f"--DataFiles={directory}/*.sft", "--Freq=50", "--FreqBand=0.01", "--assumeSqrtSX=4e-24"]
    common += ["--Alpha=1.1", "--Delta=0.4", "--f1dot=-1e-8", "--f1dotBand=1e-8", "--metricMismatch=0.2", "--noDetails"]
    assert main([*common, f"--refTime={START - 2 * 365 * 86400}"]) == 0
    assert "loudest of 1000 candidates" in capsys.readouterr().out


@pytest.mark.ci
def test_refine_climbs_from_a_search_and_writes_it(directory, tmp_path, capsys):
    """Candidates on and off the signal, beyond the files' band, and one that is none: each gets its row, in order."""
    table = Table(
        {
            "freq": [50.01231, 49.7, 70.0, np.nan, 50.01232],
            "f1dot": [-2e-10, 0.0, 0.0, 0.0, -2e-10],
            "f2dot": np.zeros(5),
            "alpha": [1.1, 2.0, 1.0, 1.0, 1.09],
            "delta": [0.4, 0.1, 0.0, 0.0, 0.39],
        }
    )
    table["asini"] = table["period"] = table["tp"] = 0.0
    table.meta["reftime"] = START
    found, out = tmp_path / "found.ecsv", tmp_path / "refined.ecsv"
    jfstat.write_candidates(table, found)
    files = f"--DataFiles={directory / '*.sft'}"
    assert main(["refine", files, f"--candidates={found}", f"--outputFstat={out}"]) == 0
    assert "5 candidate(s), merged to 4 by their peaks, in" in capsys.readouterr().out
    merged = read_candidates(out)
    assert sorted(merged["n_merged"]) == [1, 1, 1, 2]
    assert merged["message"][int(np.argmax(merged["n_merged"]))] == "converged"
    assert main(["refine", files, f"--candidates={found}", f"--outputFstat={out}", "--keepAll"]) == 0
    printed = capsys.readouterr().out
    assert "fitted freq, f1dot, alpha, delta; held f2dot, asini, period, tp, ecc, argp" in printed
    assert re.search(r"5 candidate\(s\) in [\d.]+ s; [23] row\(s\) converged", printed)
    assert re.search(r"alpha +1\.\d+ \+- 0\.\d+ rad", printed)
    refined = read_candidates(out)
    assert refined.meta["parameters"] == ["freq", "f1dot", "alpha", "delta"]
    assert list(refined["message"][[0, 4]]) == ["converged"] * 2
    assert refined["twoF"][0] == pytest.approx(refined["twoF"][4], abs=0.01)
    pull = (refined["freq"][0].value - 50.0123) / refined["freq_error"][0].value
    assert abs(pull) < 5
    assert refined["message"][2].startswith("not refined: the files cover 49 to 51.1 Hz")
    assert refined["message"][3] == "not refined: freq is not a number"
    assert refined["freq"][2].value == 70
    assert not refined["converged"][2:4].any()


def test_search_of_one_frequency_and_some_of_the_data(directory, tmp_path, capsys):
    out = tmp_path / "one.ecsv"
    assert (
        main(
            [
                "search",
                "--DataFiles",
                str(directory),
                "--IFOs=L1",
                f"--maxStartTime={START + 18000}",
                "--Alpha=1.1",
                "--Delta=0.4",
                "--Freq=50.0123",
                "--f1dot=-2e-10",
                "--assumeSqrtSX=4e-24",
                "--orbitasini=0.01",
                "--orbitPeriod=20000",
                f"--orbitTp={START}",
                f"--outputFstat={out}",
            ]
        )
        == 0
    )
    found = read_candidates(out)
    assert len(found) == 1
    assert found["freq"][0].value == 50.0123
    assert found.meta["detectors"] == ["L1"]
    assert found.meta["tspan"] == pytest.approx(18000)
    assert found["asini"][0].value == 0.01


def test_predictions_from_times_and_from_files_agree_with_the_library(directory, capsys):
    source = ["--Alpha=1.1", "--Delta=0.4", "--h0=1.2e-24", "--cosi=0.3", "--psi=0.2"]
    times = ["--IFOs=L1,H1", f"--minStartTime={START}", "--duration=43200"]

    def predict(*options):
        assert main(["predict", *source, *options]) == 0
        return [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]

    expected, sigma = predict(*times, "--assumeSqrtSX=4e-24")
    sfts = read_sfts(directory)
    data = jfstat.prepare(sfts, 50, 50.01, sqrt_sx=4e-24)
    truth = float(jfstat.predict_twoF(data, *read_sources(SIGNAL)[0][:2]))
    assert expected == pytest.approx(truth, rel=1e-6)
    assert sigma == pytest.approx(np.sqrt(8 + 4 * (truth - 4)), rel=1e-6)
    assert predict(*times, "--assumeSqrtSX=4e-24", "--PureSignal") == [pytest.approx(truth - 4, rel=1e-6)]
    # LALSuite's PredictFstat gives 2030.7 where this gives 2029.97; noise floors from files are estimates
    from_files, _ = predict("--DataFiles", str(directory), "--Freq=50")
    assert from_files == pytest.approx(truth, rel=0.05)
    # floors belong to the detectors in the order of --IFOs, whatever their alphabet
    quiet_l1, _ = predict(*times, "--assumeSqrtSX=1e-24,4e-24")
    quiet_h1, _ = predict(*times, "--assumeSqrtSX=4e-24,1e-24")
    data = jfstat.prepare(sfts, 50, 50.01, sqrt_sx={"H1": 4e-24, "L1": 1e-24})
    assert quiet_l1 == pytest.approx(float(jfstat.predict_twoF(data, *read_sources(SIGNAL)[0][:2])), rel=1e-6)
    assert abs(quiet_h1 - quiet_l1) > 10


def test_plus_and_cross_stand_for_h0_and_cosi():
    h0, cosi = 2e-24, -0.4
    plus, cross = 0.5 * h0 * (1 + cosi**2), h0 * cosi
    _, amplitude, _ = read_sources(f"{{Alpha=1;Delta=0;Freq=50;aPlus={plus!r};aCross={cross!r}}}")[0]
    assert float(amplitude.h0) == pytest.approx(h0)
    assert float(amplitude.cosi) == pytest.approx(cosi)


@pytest.mark.parametrize(
    ("convert", "word", "value"),
    [
        (right_ascension, "1.5", 1.5),
        (right_ascension, "-1e-1", -0.1),
        (right_ascension, "12:00:00", np.pi),
        (right_ascension, "06:30:36", np.pi * (6 + 0.51) / 12),
        (right_ascension, "6h30m36s", np.pi * (6 + 0.51) / 12),
        (right_ascension, "90d", np.pi / 2),
        (declination, "-0.3", -0.3),
        (declination, "-45:00:00", -np.pi / 4),
        (declination, "-00:30:00", -np.pi / 360),
        (declination, "+22d30m", np.pi / 8),
        (gps, "1167458304", START),
        (gps, "1167458304.5GPS", START + 0.5),
        (gps, "2017-01-03T05:58:06", START),
        (gps, "2017-01-03 05:58:06.25Z", START + 0.25),
        (gps, "51544.0MJD", 630719948.816),
        (gps, "51544GPS", 51544.0),
        (number, ".5e3", 500.0),
        (numbers, "1e-23,2e-23", [1e-23, 2e-23]),
    ],
)
def test_words_become_numbers(convert, word, value):
    assert convert(word) == pytest.approx(value, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("convert", "word"),
    [
        (right_ascension, "1:2:3:4"),
        (right_ascension, "12:61:00"),
        (declination, "north"),
        (gps, "yesterday"),
        (number, "nan"),
        (number, "1e"),
        (numbers, "1,,2"),
    ],
)
def test_words_that_are_no_numbers_say_so(convert, word):
    with pytest.raises(argparse.ArgumentTypeError, match=" is not a"):
        convert(word)


SIMULATE = ["simulate", "--IFOs=H1", "--startTime=1167458304", "--duration=3600", "--fmin=50", "--outSFTdir=nowhere"]
SKY = ["--Alpha=1", "--Delta=0.3"]
SEARCH = ["search", "--DataFiles=x", "--Freq=100"]
PREDICT = ["predict", *SKY, "--h0=1e-24", "--cosi=0"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "required: command"),
        (["serch"], "invalid choice: 'serch'"),
        (["search"], "--DataFiles"),
        (["search", "--Frequency=3"], "--DataFiles"),
        (["search", "--DataFiles=/nowhere/*.sft", "--Freq=100", *SKY], "no SFT file matches '/nowhere/*.sft'"),
        (["search", "--DataFiles=x", "--Freq=100", "--Alpha=blue", "--Delta=1"], "'blue' is not a right ascension"),
        (["search", "--DataFiles=x", "--Freq=100", "--Alpha=10", "--Delta=1"], "--Alpha must be within [-pi, 3 pi]"),
        (
            ["search", "--DataFiles=x", "--Freq=100", "--Alpha=10", "--Delta=1", "--skyRadius=1", "--metricMismatch=1"],
            "--Alpha must be within [-pi, 3 pi]",
        ),
        ([*SEARCH, "--skyRegion=(10,0.1),(10.1,0.1),(10,0.2)", "--metricMismatch=0.1"], "is not a sky region"),
        (
            [
                "predict",
                "--IFOs=H1",
                "--startTime=1e9",
                "--duration=1e5",
                "--Alpha=200",
                "--Delta=1",
                "--h0=1e-25",
                "--cosi=0",
                "--assumeSqrtSX=1e-23",
            ],
            "--Alpha must be within [-pi, 3 pi]",
        ),
        (["search", "--DataFiles=x", "--Freq=100", "--FreqBand=-101", *SKY], "--Freq must be positive, and the band"),
        ([*SEARCH, *SKY, "--outputFstatHist=x"], "unknown option --outputFstatHist: leave it out, .ecsv and .hdf5"),
        ([*SEARCH, *SKY, "--numCandidatesToKep=3"], "did you mean --NumCandidatesToKeep? (see jfstat search --help)"),
        ([*SEARCH, *SKY, "--NumCandidatesToKeep=0"], "keeps all at or above --TwoFthreshold: give that as well"),
        ([*SEARCH, *SKY, "--strictSpindownBounds"], "--strictSpindownBounds goes with --metricMismatch"),
        (
            [*SEARCH, *SKY, "--metricMismatch=0.2"],
            "--metricMismatch has no effect, since no parameter but the frequency",
        ),
        ([*SEARCH, *SKY, "--elephant=3"], "unknown option --elephant: it is none of this command's (see jfstat search"),
        (["search", "--DataFiles=x", "--Freq=0", *SKY], "--Freq must be positive"),
        (["search", "--DataFiles=x", "--Freq=100", "--AlphaBand=0.1", *SKY], "--dAlpha is missing"),
        (["search", "--DataFiles=x", "--Freq=100", "--df1dot=0", *SKY], "--df1dot must be positive"),
        (["search", "--DataFiles=x", "--Freq=100", "--orbitasini=1", *SKY], "--orbitPeriod is missing"),
        ([*SEARCH], "--Alpha is missing"),
        ([*SEARCH, "--skyRegion=allsky"], "--skyRegion and --skyRadius need --metricMismatch"),
        ([*SEARCH, "--skyRegion=(1,2),(3,4)"], "is not a sky region"),
        ([*SEARCH, *SKY, "--skyRegion=allsky", "--metricMismatch=0.1"], "--skyRegion stands instead of --Alpha"),
        ([*SEARCH, "--skyRegion=allsky", "--metricMismatch=0.1", "--skyRadius=1"], "--skyRadius goes with --Alpha"),
        ([*SEARCH, *SKY, "--gridFile=x.ecsv"], "--Alpha and --gridFile exclude each other"),
        ([*SEARCH, *SKY, "--unit=0/4"], "'0/4' is not a unit of work"),
        ([*SEARCH, *SKY, "--unit=1/4"], "--unit needs --outputFstat"),
        ([*SEARCH, *SKY, "--devices=99"], "--devices must be 0 to"),
        ([*SEARCH, *SKY, "--numProcesses=2"], "--numProcesses goes with --distributed"),
        (["merge", "x.ecsv"], "--outputFstat"),
        (["merge", "/nowhere/x.ecsv", "--outputFstat=y.ecsv"], "cannot be read"),
        (["refine", "--DataFiles=x"], "--candidates"),
        (["refine", "--DataFiles=x", "--candidates=/nowhere/x.ecsv"], "cannot be read"),
        (
            ["refine", "--DataFiles=x", "--candidates=y", "--NumCandidatesToKeep=0"],
            "whole number of at least 1",
        ),
        ([*SIMULATE, "--Band=0"], "--Band must be positive"),
        ([*SIMULATE], "--Band is missing"),
        ([*SIMULATE, "--Band=0.1", "--Alpha=1"], "source on the command line: --Delta, --Freq must be given"),
        ([*SIMULATE, "--Band=0.1", "--Freq=60", "--h0=1", "--cosi=0", *SKY], "lies outside the SFTs' band"),
        ([*SIMULATE, "--Band=0.1", "--Freq=50.05", "--h0=1", *SKY], "--h0 and --cosi, or --aPlus and --aCross"),
        ([*SIMULATE, "--Band=0.1", "--injectionSources={Alpha=1;Detla=2}"], "'Detla=2' is not one of Alpha"),
        ([*SIMULATE, "--Band=0.1", "--injectionSources=/nowhere/*.cfg"], "no file matches '/nowhere/*.cfg'"),
        ([*SIMULATE, "--Band=0.1", "--sqrtSX=1e-23,1e-23"], "--sqrtSX has 2 values for 1 detectors"),
        ([*SIMULATE, "--noiseSFTs=x"], "leave --IFOs out"),
        ([*SIMULATE, "--Band=0.1", "--ephemeris=DE1"], "--ephemeris has no effect beside the other options"),
        ([*SIMULATE, "--Band=0.1", "--randSeed=3"], "--randSeed has no effect beside the other options"),
        (PREDICT, "--IFOs is missing"),
        ([*PREDICT, "--DataFiles=x"], "--Freq is missing"),
        ([*PREDICT, "--IFOs=H1", "--startTime=1167458304", "--duration=3600", "--assumeSqrtSX=-1"], "must be positive"),
        (["predict", *SKY, "--h0=1e-24"], "--h0 and --cosi, or --aPlus and --aCross"),
        (
            [*PREDICT, "--ephemEarth=x", "--IFOs=H1", "--startTime=1167458304", "--duration=3600", "--assumeSqrtSX=1"],
            "--ephemEarth and --ephemSun go together",
        ),
    ],
)
def test_mistakes_are_one_line_and_status_1(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, *argv)
    assert not list(tmp_path.iterdir())


def test_a_band_that_the_files_lack_is_named(directory, capsys):
    line = refusal(capsys, "search", "--DataFiles", directory, "--Freq=60", *SKY)
    assert "--DataFiles cover 49 to 51.1" in line
    line = refusal(capsys, "search", "--DataFiles", directory, "--Freq=51.0999", *SKY)
    assert "SFTs cover" in line


def test_help_states_units_and_version_is_the_librarys(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"jfstat {jfstat.__version__}\n"
    for command in ("demo", "simulate", "search", "merge", "predict"):
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"usage: jfstat {command}" in text
    assert main(["search", "-h"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for phrase in (
        "lowest frequency, Hz",
        "derivative 1 of the frequency, Hz/s ",
        "GPS s or UTC",
        "light-s",
        "1/sqrt(Hz)",
    ):
        assert phrase in text


def test_an_interrupt_is_status_130(monkeypatch, capsys):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("jfstat.commandline.predict.plan", interrupt)
    assert main(PREDICT) == 130
    assert capsys.readouterr().err == "jfstat: error: interrupted\n"


def test_a_full_disk_is_one_line(monkeypatch, capsys, tmp_path):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jfstat.write_sfts", full)
    assert "No space left on device" in refusal(
        capsys, *changed([*SIMULATE, "--Band=0.1"], [f"--outSFTdir={tmp_path}"])
    )


@pytest.mark.slow
def test_a_small_demo_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "ALPHA_RANGE", (2.1, 2.16, 0.06))
    monkeypatch.setattr(demo, "DELTA_RANGE", (0.42, 0.5, 0.08))
    assert main(["demo", "--outdir", str(tmp_path), "--randSeed", "3"]) == 0
    printed = capsys.readouterr().out
    assert "searched 24 templates" in printed
    assert read_candidates(tmp_path / "candidates.ecsv")["twoF"][0] > 40


@pytest.mark.slow
def test_demo_finds_its_signal_and_draws_it(tmp_path, capsys):
    assert main(["demo", "--outdir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line}
    for name, step in (("f1dot", 1.7e-11), ("alpha", 0.06), ("delta", 0.08), ("freq", 8.5e-4)):
        injected, found, grid, refined, error, pull = (float(x) for x in lines[name][2:])
        assert abs(found - injected) <= max(step, grid), lines[name]
        assert abs(refined - injected) < 3 * error and abs(pull) < 3, lines[name]
    expected, found, refined, sigma, _ = (float(x) for x in lines["2F"][2:])
    assert found < refined
    assert abs(refined - expected) < 3 * sigma
    assert (tmp_path / "demo.png").stat().st_size > 50_000
    table = read_candidates(tmp_path / "candidates.ecsv")
    assert len(table) == 1000
    assert f"{table['twoF'][0]:.2f}" == lines["2F"][3]
    assert f"{read_candidates(tmp_path / 'refined.ecsv')['twoF'][0]:.2f}" == lines["2F"][4]
    assert len(list(Path(tmp_path, "sfts").glob("*.sft"))) == 2


def test_prediction_from_times_alone(capsys):
    argv = "predict --Alpha 1 --Delta=-.3 --h0 4e-25 --cosi 0.4 --psi 0.2 --IFOs H1,L1 --startTime 1167458304"
    assert main([*argv.split(), "--duration", "86400", "--assumeSqrtSX", "4e-24,6e-24"]) == 0
    expected = float(re.search(r"expected 2F\D*([\d.]+)", capsys.readouterr().out)[1])
    assert abs(expected - 111.1) < 0.1  # lalpulsar_PredictFstat with these options: 111.1


@pytest.mark.parametrize("variable", [None, "MALLOC_ARENA_MAX"])
def test_memory_settings_are_those_of_users_if_they_have_any(monkeypatch, variable):
    """Without glibc, or where users set its variables, nothing is changed."""
    from jfstat.commandline import heap

    calls = []
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *x: calls.append(x)))
    for name in list(os.environ):
        if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES":
            monkeypatch.delenv(name)
    if variable:
        monkeypatch.setenv(variable, "1")
    heap.keep_freed_memory()
    assert len(calls) == (0 if variable else 3)
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: SimpleNamespace())
    heap.keep_freed_memory()
