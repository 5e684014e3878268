"""Options that would have no effect are refused: those given twice, or beside another that says the same."""

import subprocess
import sys

import pytest
from astropy.table import QTable
from commandwords import changed

from jfstat.commandline import main

POINT = ["--Alpha=1.1", "--Delta=0.4", "--Freq=100", "--refTime=1167458304"]
NEW = ["simulate", "--IFOs=H1", "--fmin=99.5", "--Band=1", "--sqrtSX=2e-23"]
WHEN = ["--startTime=1167458304", "--duration=7200"]
SIGNAL = [*POINT, "--h0=1e-24", "--cosi=0.3"]


def refused(capsys, words):
    """The line that says why a command is refused."""
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert not out and err.startswith("jfstat: error: ") and err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["search", "-D", "a.sft", "-D", "b.sft", *POINT], "-D is given twice"),
        (["search", "-D", "a.sft", "--DataFiles=b.sft", *POINT], "--DataFiles is given twice"),
        (["search", "-D", "a.sft", *POINT, "--Freq", "200"], "--Freq is given twice"),
        (["search", "-D", "a.sft", *POINT, "--Delta", "-0.2"], "--Delta is given twice"),
        (["search-pulsars", "-D", "a.sft", "--par", "a.par", "--par", "b.par"], "--par is given twice"),
        ([*NEW, *WHEN, "--IFOs", "L1", "--outSFTdir=o"], "--IFOs is given twice"),
    ],
)
def test_an_option_given_twice_is_refused(capsys, words, named):
    assert f"{named}: give it once." in refused(capsys, words)


def test_files_of_options_are_overridden_and_some_options_add_up(capsys, tmp_path):
    (tmp_path / "c.ini").write_text("Freq = 99\n")
    words = ["refine", "-D", "none.sft", "-c", "none.ecsv", "--bounds", "freq=99:101", "--bounds", "f1dot=-1e-9:0"]
    assert "twice" not in refused(capsys, words)
    assert "twice" not in refused(capsys, ["search", f"@{tmp_path / 'c.ini'}", "-D", "none.sft", *POINT])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*NEW, "--startTime=1167458304", "--timestampsFiles=t.txt", "--outSFTdir=o"], "--startTime has no effect"),
        ([*NEW, "--duration=7200", "--timestampsFiles=t.txt", "--outSFTdir=o"], "--duration has no effect"),
        ([*NEW, *WHEN, "--SFTWindowType=tukey", "--outSFTdir=o"], "--SFTWindowParam is missing"),
        ([*NEW, *WHEN, "--SFTWindowType=hann", "--SFTWindowParam=0.3", "--outSFTdir=o"], "has no effect on a window"),
        ([*NEW, *WHEN, *SIGNAL, "--aPlus=1e-24", "--outSFTdir=o"], "--h0 and --cosi do not go with --aPlus"),
        (["points", "-D", "a.sft", "b.sft", *POINT], "'b.sft' belongs to no option: give one value for each"),
        (["search", "-D", "a.sft", *POINT, "--orbitTp=1167450000MJD"], "'1167450000MJD' is not a time"),
        (["search", "-D", "a.sft", *POINT, "--orbitTp=57755.5"], "'57755.5' is not a time"),
        (changed(["search", "-D", "a.sft", *POINT], ["--refTime=57755"]), "'57755' is not a time"),
        (["search", "-D", "a.sft", "--frequency=3", *POINT], "unknown option --frequency"),
    ],
)
def test_what_contradicts_itself_is_refused(capsys, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, words)
    assert not any(tmp_path.iterdir())


def test_a_letter_in_a_file_of_options_is_told_its_long_name(capsys, tmp_path):
    (tmp_path / "c.ini").write_text("f = 100\n")
    assert "did you mean --Freq?" in refused(capsys, ["search", f"@{tmp_path / 'c.ini'}", "-D", "none.sft"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk")
    assert main([*NEW, *WHEN, f"--outSFTdir={folder}"]) == 0
    return f"--DataFiles={folder}/*.sft"


def test_steps_without_a_band_are_refused(capsys, files):
    capsys.readouterr()
    for name in ("Alpha", "f1dot"):
        said = refused(capsys, ["search", files, *POINT, f"--d{name}=0.1"])
        assert f"--d{name} has no effect without --{name}Band" in said


def test_jumps_must_be_probabilities(capsys, files):
    capsys.readouterr()
    track = ["track", files, *POINT, "--FreqBand=0.001", "--segments=2", "--noDetails"]
    assert main([*track, "--jumpProbabilities=0.333,0.333,0.333"]) == 0  # written with few digits
    capsys.readouterr()
    wrong = {
        "0.2,0.9,0.2": "must add up to 1, not to 1.3",
        "20,60,20": "not to 100: give fractions",
        "0,-1,0": "odd number",
    }
    for words, said in wrong.items():
        assert main([*track, f"--jumpProbabilities={words}"]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("jump", [30, 5000])
def test_a_jump_wider_than_the_band_is_refused(capsys, files, jump):
    track = ["track", files, *POINT, "--FreqBand=0.001", "--segments=2", "--noDetails"]
    assert f"--maxJump reaches {jump} bins, and the band has 7 bins from end to end" in refused_after(
        capsys, [*track, f"--maxJump={jump}"]
    )


@pytest.mark.ci
def test_values_are_said_to_be_of_2f(capsys, files):
    search = ["search", files, *POINT, "--FreqBand=0.001", "--noDetails"]
    for more in ([], ["--segments=2"], ["--transient-WindowType=rect", "--transient-tau=3600"]):
        assert main([*search, *more]) == 0
        assert " values of 2F\n" in capsys.readouterr().out


def test_a_signal_that_is_over_before_the_data_is_counted(capsys, tmp_path):
    window = ["--transientWindowType=rect", "--transientStartTime=1167400000", "--transientTau=3600"]
    assert main([*NEW, *WHEN, *SIGNAL, *window, f"--outSFTdir={tmp_path}"]) == 0
    assert "added 1 signal(s), 1 of them with a window that holds no part of the data\n" in capsys.readouterr().out
    assert main([*NEW, *WHEN, *SIGNAL, f"--outSFTdir={tmp_path / 'lasting'}"]) == 0
    assert "added 1 signal(s)\n" in capsys.readouterr().out
    gone = "{Freq=100; h0=1e-23; transientWindowType=rect; transientStartTime=1167400000; transientTau=3600}"
    artefacts = f"--artefacts={gone},{{Freq=100.1; h0=1e-23}}"
    assert main([*NEW, *WHEN, artefacts, f"--outSFTdir={tmp_path / 'artefacts'}"]) == 0
    said = capsys.readouterr().out
    assert "added 2 artefact(s), 1 of them with a window that holds no part of the data\n" in said


@pytest.mark.ci
def test_floors_that_are_psds_are_refused(capsys, files):
    for command in (["search", files, *POINT], ["track-power", files, *POINT, "--FreqBand=0.001"]):
        assert "--assumeSqrtSX: the SFTs of H1 are so much louder" in refused_after(
            capsys, [*command, "--assumeSqrtSX=2e-46"]
        )


def refused_after(capsys, words):
    """The line that says why a command is refused that may have printed what it reads."""
    assert main(words) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


@pytest.mark.ci
def test_warnings_of_the_program_are_notes(tmp_path, files):
    (tmp_path / "grid.txt").write_text("# freq alpha delta wibble\n100 1.1 0.4 7\n")
    words = ["points", files, f"--gridFile={tmp_path / 'grid.txt'}", "--refTime=1167458304"]
    run = subprocess.run([sys.executable, "-m", "jfstat", *words], capture_output=True, text=True)
    assert run.returncode == 0
    (note,) = [line for line in run.stderr.splitlines() if "wibble" in line]
    assert note.startswith("jfstat: note: path ")
    assert ".py" not in run.stderr


@pytest.mark.parametrize("command", [["refine"], ["follow-up", "--stages=2,1"]])
def test_the_number_of_values_is_given_by_the_file_or_by_the_option(capsys, tmp_path, command):
    path = tmp_path / "found.ecsv"
    table = QTable({"freq": [100.0], "alpha": [1.0], "delta": [0.2]}, meta={"reftime": 1167458304, "n_twoF": 1000})
    table.write(path)
    line = refused(capsys, [*command, "--DataFiles=none.sft", f"--candidates={path}", "--numTwoF=5"])
    assert "--numTwoF: " in line and "says n_twoF = 1000: leave the option out" in line
