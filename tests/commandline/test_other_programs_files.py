"""Tables and templates that another command or program has made, in the commands that compute them again."""

import re

import numpy as np
import pytest

import jfstat
from jfstat.candidates.falsealarm import false_alarm
from jfstat.commandline import main

START, LATER = 1_167_458_304, 1_168_458_304
POINT = jfstat.Doppler(2.1, 0.47, [50.0, -1e-9], LATER)
DATA = ["--assumeSqrtSX=5e-24"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sfts")
    signal = POINT, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0)
    sfts = jfstat.simulate_sfts(["H1"], START, 86400, 48.5, 51.5, sqrt_sx=5e-24, signals=[signal], seed=3)
    jfstat.write_sfts(sfts, folder)
    return f"--DataFiles={folder}/*.sft"


def loudest(text):
    return float(re.search(r"^  twoF +(\S+)", text, re.MULTILINE)[1])


def test_one_template_of_a_file_holds_at_the_given_reference_time(files, capsys):
    grid = ["--gridFile={50.0 2.1 0.47 -1e-9 0 0}", f"--refTime={LATER}"]
    assert main(["points", files, *DATA, *grid]) == 0
    exact = loudest(capsys.readouterr().out)
    assert main(["search", files, *DATA, *grid, "--Freq=50"]) == 0
    said = capsys.readouterr().out
    assert exact > 200 and loudest(said) == pytest.approx(exact, rel=0.01)
    assert f"reference time GPS {LATER}" in said


@pytest.mark.ci
def test_power_along_tracks_of_a_file_holds_at_the_given_reference_time(files, tmp_path):
    (tmp_path / "grid.txt").write_text("% alpha delta f1dot\n2.1 0.47 -1e-9\n2.1 0.48 -1e-9\n")
    command = ["track-power", files, *DATA, f"--gridFile={tmp_path}/grid.txt", "--Freq=49.99", "--FreqBand=0.02"]
    assert main([*command, f"--refTime={LATER}", f"--outputFstat={tmp_path}/found.ecsv"]) == 0
    assert jfstat.read_candidates(tmp_path / "found.ecsv").meta["reftime"] == LATER


def test_candidates_of_a_search_keep_its_number_of_templates_and_its_ranges(files, tmp_path, capsys):
    table = jfstat.template_table(POINT)
    table["outside"] = [True]
    table.meta |= {"n_twoF": 10**7, "bounds": {"alpha": [2.0, 2.05]}, "ephemeris": "DE200", "parameters": ["freq"]}
    jfstat.write_candidates(table, tmp_path / "found.ecsv")
    assert main(["points", files, *DATA, f"--gridFile={tmp_path}/found.ecsv", f"--outputFstat={tmp_path}/p.ecsv"]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 lie outside the ranges of alpha" in said and "\n1 values of 2F in" in said
    again = jfstat.read_candidates(tmp_path / "p.ecsv")
    assert again.meta["n_twoF"] == 10**7 and again.meta["n_templates"] == 1 and again.meta["ephemeris"] == "DE200"
    expected = false_alarm(float(again["twoF"][0]), 10**7)
    assert again.meta["false_alarm"] == pytest.approx(float(expected))


@pytest.mark.ci
def test_refined_tables_state_no_number_of_templates_that_nobody_stated(files, tmp_path, capsys):
    table = jfstat.template_table(POINT)
    jfstat.write_candidates(table, tmp_path / "bare.ecsv")
    assert main(["refine", files, f"--candidates={tmp_path}/bare.ecsv", f"--outputFstat={tmp_path}/1.ecsv"]) == 0
    assert "n_twoF" not in jfstat.read_candidates(tmp_path / "1.ecsv").meta
    again = [
        "refine",
        files,
        f"--candidates={tmp_path}/1.ecsv",
        "--numTwoF=1000000",
        f"--outputFstat={tmp_path}/2.ecsv",
    ]
    assert main(again) == 0
    assert jfstat.read_candidates(tmp_path / "2.ecsv").meta["n_twoF"] == 10**6
    ladder = jfstat.template_table([POINT, POINT])
    ladder["candidate"], ladder["stage"] = [0, 0], [0, 1]
    jfstat.write_candidates(ladder, tmp_path / "3.ecsv")
    assert main(["refine", files, f"--candidates={tmp_path}/3.ecsv", f"--outputFstat={tmp_path}/4.ecsv"]) == 0
    assert "2 rows of a follow-up: the last stage of each of its 1 candidate(s) is taken" in capsys.readouterr().out
    assert len(jfstat.read_candidates(tmp_path / "4.ecsv")) == 1


@pytest.mark.parametrize(
    "command", ["refine --candidates=", "follow-up --stages=2,1 --candidates=", "points --gridFile="]
)
def test_a_reference_time_beside_the_tables_is_refused(files, tmp_path, capsys, command):
    jfstat.write_candidates(jfstat.template_table(POINT), tmp_path / "found.ecsv")
    name, *options = f"{command}{tmp_path}/found.ecsv".split()
    assert main([name, files, *options, f"--refTime={START}"]) != 0
    assert f"--refTime is {START} and {options[-1].split('=')[0]}'s {LATER}: leave" in capsys.readouterr().err


def test_an_ephemeris_without_a_known_name_is_said(files, tmp_path, capsys):
    table = jfstat.template_table(POINT)
    table.meta["ephemeris"] = "earth.dat.gz"
    jfstat.write_candidates(table, tmp_path / "found.ecsv")
    command = ["points", files, *DATA, f"--gridFile={tmp_path}/found.ecsv"]
    assert main(command) == 0
    assert "the table's ephemeris, earth.dat.gz, has no name that is known: DE405 is used" in capsys.readouterr().out
    assert main([*command, "--ephemeris=DE405"]) == 0
    assert "no name that is known" not in capsys.readouterr().out


def test_transient_sources_are_counted(files, tmp_path, capsys):
    text = "[a]\nAlpha=2.1\nDelta=0.47\nFreq=50.0\nf1dot=-1e-9\nh0=1e-24\ncosi=0.3\npsi=0\nphi0=0\n"
    window = f"transientWindowType=rect\ntransientStartTime={START}\ntransientTau=3600\n"
    (tmp_path / "s.cff").write_text(f"{text}refTime={LATER}\n{window}{text.replace('[a]', '[b]')}refTime={LATER}\n")
    assert main(["points", files, *DATA, f"--gridFile={tmp_path}/s.cff", f"--outputFstat={tmp_path}/s.ecsv"]) == 0
    assert "1 of 2 source(s) are transient: their windows are not used" in capsys.readouterr().out
    both = jfstat.read_candidates(tmp_path / "s.ecsv")
    assert np.ptp(np.asarray(both["twoF"])) == 0


def test_an_empty_table_is_not_followed_up():
    sfts = jfstat.simulate_sfts(["H1"], START, 7200, 49.5, 50.5, sqrt_sx=5e-24)
    with pytest.raises(ValueError, match="found holds no candidates: give a table with a row for each"):
        jfstat.follow_up(sfts, jfstat.template_table(POINT)[:0], stages=(2, 1))


def test_limits_take_the_ephemeris_of_the_candidates(files, tmp_path, monkeypatch):
    table = jfstat.template_table(POINT)
    table["twoF"] = [40.0]
    table.meta["ephemeris"] = "DE421"
    jfstat.write_candidates(table, tmp_path / "found.ecsv")
    used = []
    prepare = jfstat.prepare
    monkeypatch.setattr(
        jfstat, "prepare", lambda *given, **how: used.append(how["ephemeris"]) or prepare(*given, **how)
    )
    command = ["upper-limit", files, *DATA, "--Freq=49.99", "--FreqBand=0.02", f"--candidates={tmp_path}/found.ecsv"]
    for more in ([], ["--ephemeris=DE405"]):
        assert main([*command, "--injections=80", *more]) == 0
    assert used == ["DE421", "DE405"]
