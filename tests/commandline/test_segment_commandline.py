"""`jfstat search` over segments, from files to files."""

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main
from jfstat.io.lal.times import read_segments

START = 1_167_458_304
DAY = 86400
BANK = ["--Alpha", "1.0", "--AlphaBand", "0.1", "--Delta", "0.3", "--DeltaBand", "0.1", "--f1dot=-1e-9", "--f1dotBand"]
BANK += ["1e-9", "--metricMismatch", "0.3", "--Freq", "50.0", "--FreqBand", "0.02", "--guard", "0.3"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sfts")
    signal = (jfstat.Doppler(1.05, 0.35, [50.01, -4e-10], START), jfstat.Amplitude(2e-25, 0.3, 0.2, 1.0))
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 2 * DAY, 49.5, 50.6, signals=[signal], seed=1)
    jfstat.write_sfts(sfts, folder)
    return f"{folder}/*.sft"


def searched(files, path, *options):
    assert (
        main(["search", "--DataFiles", files, *BANK, "--assumeSqrtSX", "4e-24", "--outputFstat", str(path), *options])
        == 0
    )
    return jfstat.read_candidates(path)


@pytest.mark.ci
def test_number_duration_and_list_are_the_same(files, tmp_path, capsys):
    listed = tmp_path / "segments"
    lines = [f"{START + i * DAY / 2:.0f} {START + (i + 1) * DAY / 2:.0f} 12 48" for i in range(4)]
    listed.write_text("\n".join(["%% start end duration n", *lines, ""]))
    tables = [
        searched(files, tmp_path / f"{i}.ecsv", *options)
        for i, options in enumerate(
            (["--segments", "4"], ["--segmentDuration", "43200"], ["--segmentList", str(listed)])
        )
    ]
    for table in tables[1:]:
        np.testing.assert_array_equal(table["mean_twoF"], tables[0]["mean_twoF"])
    assert tables[0].meta["n_segments"] == 4
    assert abs(tables[0]["freq"][0].value - 50.01) < 2e-4
    assert "mean_twoF" in capsys.readouterr().out
    assert read_segments(listed) == [(START + i * DAY / 2, START + (i + 1) * DAY / 2) for i in range(4)]


@pytest.mark.ci
def test_transient_lines_are_a_ranking(files, tmp_path, capsys):
    path = tmp_path / "robust.ecsv"
    words = ["search", "--DataFiles", files, "--Alpha=1.05", "--Delta=0.35", "--f1dot=-4e-10", "--Freq=50.0"]
    words += ["--FreqBand=0.02", "--guard=0.3", "--segments=4", "--RankingStatistic=BSGLtL", "--Fstar0=5"]
    words += ["--TwoFthreshold=3", "--assumeSqrtSX=4e-24", f"--outputFstat={path}"]
    assert main(words) == 0
    table = jfstat.read_candidates(path)
    assert table.meta["statistic"] == "BSGLtL" and table.meta["Fstar0"] == 5.0
    assert np.all(table["log10BSGLtL"] >= 3) and abs(table["freq"][0].value - 50.01) < 2e-4
    assert "log10BSGLtL" in capsys.readouterr().out


@pytest.mark.ci
def test_lines_are_cut_over_segments(files, tmp_path):
    common = "--segments=4", "--TwoFthreshold=6", "--NumCandidatesToKeep=0"
    every = searched(files, tmp_path / "every.ecsv", *common)
    cut = searched(files, tmp_path / "cut.ecsv", *common, "--BSGLthreshold=0.5")
    assert cut.meta["bsgl_threshold"] == 0.5
    passing = every["log10BSGL"] >= 0.5
    np.testing.assert_allclose(cut["mean_twoF"], every["mean_twoF"][passing], rtol=1e-6)
    assert 0 < len(cut) < len(every)


@pytest.mark.ci
def test_interpolating_finds_the_same_and_covers_the_band(files, tmp_path, capsys):
    every = searched(files, tmp_path / "every.ecsv", "--segments", "4")
    out = capsys.readouterr().out
    table = searched(files, tmp_path / "inter.txt", "--segments", "4", "--cohMaxMismatch", "0.2")
    out = capsys.readouterr().out
    assert "times as many as a segment" in out
    assert "mean_twoF" in table.colnames and abs(table["freq"][0].value - 50.01) < 2e-4
    assert float(table["mean_twoF"][0]) > 0.8 * float(every["mean_twoF"][0])
    again = searched(files, tmp_path / "inter.ecsv", "--segments", "4", "--cohMaxMismatch", "0.2")
    assert again.meta["fmin"] < 50.0 and again.meta["fmax"] > 50.02
    assert again.meta["n_twoF"] >= again.meta["n_templates"] * 0.02 / again.meta["dfreq"]


@pytest.mark.ci
def test_costs_are_said_beforehand(files, capsys):
    options = ["--segments", "4", "--cohMaxMismatch", "0.2", "--countTemplates"]
    assert main(["search", "--DataFiles", files, *BANK, "--assumeSqrtSX", "4e-24", *options]) == 0
    assert "would take" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--segments", "4", "--segmentDuration", "1000"], "two ways to give segments"),
        (["--cohMaxMismatch", "0.1"], "--cohMaxMismatch goes with --segments"),
        (["--RankingStatistic", "BSGLtL"], "--RankingStatistic=BSGLtL needs segments"),
        (
            ["--segments", "4", "--vetoLines", "--linefiles", "H1lines.txt"],
            "--vetoLines is for searches without segments",
        ),
        (
            ["--segments", "4", "--BSGLthreshold", "1", "--cohMaxMismatch", "0.2"],
            "--BSGLthreshold does not go with --coh",
        ),
        (
            ["--segments", "4", "--BSGLthreshold", "1", "--RankingStatistic", "BSGLtL"],
            "does not go with --RankingStatistic=BSGLtL",
        ),
    ],
)
def test_bad_options_are_refused(files, options, message, capsys):
    assert main(["search", "--DataFiles", files, *BANK, *options]) == 1
    assert message in capsys.readouterr().err


def test_bad_segment_lists_are_refused(tmp_path):
    path = tmp_path / "list"
    path.write_text("% nothing\n")
    with pytest.raises(ValueError, match="holds no segment"):
        read_segments(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not text"):
        read_segments(path)
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        read_segments(tmp_path / "none")
    path.write_text("100 200\n300\n")
    with pytest.raises(ValueError, match="line 2: '300' has no start and end"):
        read_segments(path)


@pytest.mark.ci
def test_refine_climbs_the_mean_over_the_same_segments(files, tmp_path, capsys):
    found = searched(files, tmp_path / "found.ecsv", "--segments", "4", "--NumCandidatesToKeep", "2")
    path = tmp_path / "refined.ecsv"
    options = ["--candidates", str(tmp_path / "found.ecsv"), "--guard", "0.3", "--assumeSqrtSX", "4e-24"]
    options += ["--outputFstat", str(path), "--segments", "4", "--DataFiles", files]
    assert main(["refine", *options]) == 0
    table = jfstat.read_candidates(path)
    assert "mean_twoF" in capsys.readouterr().out
    assert table.meta["n_segments"] == 4
    assert table["mean_twoF"][0] > found["mean_twoF"][0]
    assert abs(table["freq"][0].value - 50.01) < 5 * table["freq_error"][0].value
    assert main(["refine", *options, "--segmentDuration", "43200"]) == 1
    assert "two ways to give segments" in capsys.readouterr().err
