"""Options from configuration files: the same file for ComputeFstatistic_v2 and jfstat, its syntax, what is refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jfstat
from jfstat.commandline import main
from jfstat.commandline.configfile import read_config

CONFIG = """\
# options of both programs
DataFiles = "{sfts}/*.sft"   # both detectors
Alpha: 1.0 ; rad
Delta = 0.3 % rad
Freq = 60.0
FreqBand \\
    0.5
f1dot = -1e-10
refTime = 1167458304
RngMedWindow = 51
NumCandidatesToKeep = 5
outputFstat = '{out}'
"""


@pytest.fixture(scope="module")
def sfts(tmp_path_factory):
    signal = (
        jfstat.Doppler(1.0, 0.3, [60.01, -1e-10], 1167458304),
        jfstat.Amplitude(h0=8e-25, cosi=0.3, psi=0.2, phi0=1.0),
    )
    made = jfstat.simulate_sfts(["H1", "L1"], 1167458304, 43200, 59.5, 60.5, sqrt_sx=4e-24, signals=[signal], seed=5)
    directory = tmp_path_factory.mktemp("sfts")
    jfstat.write_sfts(made, directory)
    return directory


def test_one_file_runs_both_programs_and_later_options_override_it(sfts, tmp_path, capsys):
    program = Path(sys.executable).with_name("lalpulsar_ComputeFstatistic_v2")
    if not program.exists():
        pytest.skip("lalpulsar_ComputeFstatistic_v2 is not installed")
    config, own, theirs = tmp_path / "search.ini", tmp_path / "own.txt", tmp_path / "theirs.txt"
    config.write_text(CONFIG.format(sfts=sfts, out=own))
    command = [program, f"@{config}", "--FreqBand=0.02", f"--outputFstat={theirs}", "--outputLogfile=/dev/null"]
    subprocess.run(command, check=True, capture_output=True)
    assert main(["search", f"@{config}", "--FreqBand", "0.02", "--noDetails"]) == 0
    assert "5 candidates" in capsys.readouterr().out
    first, other = jfstat.read_candidates(own), jfstat.read_candidates(theirs)
    loudest = other[np.argmax(other["twoF"])]
    assert len(first) == 5 and first["freq"].value.max() < 60.03
    np.testing.assert_allclose(first["freq"].value[0], loudest["freq"].value, atol=1 / 43200)
    np.testing.assert_allclose(first["twoF"][0], loudest["twoF"], rtol=0.05)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a = 1\nb: 2\nc 3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("; comment\n% comment\n\na = 1 # rest\n", [("a", "1")]),
        ("a = \"x;y#z%\"\nb = 'it is'\n", [("a", "x;y#z%"), ("b", "it is")]),
        ("a = -1\\\n  e-9\n", [("a", "-1  e-9")]),
        ("a = 1 = 2", [("a", "1 = 2")]),
        ("", []),
    ],
)
def test_the_syntax_of_a_file(text, options, tmp_path):
    (tmp_path / "c.ini").write_text(text)
    assert read_config(tmp_path / "c.ini") == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Alpha = 1\nAlpha\n", "has the line 'Alpha', which is no option"),
        ("[section]\n", "which is no option"),
        ('Alpha = "1\n', "not closed"),
        ("noDetails = perhaps\n", "noDetails must be TRUE or FALSE, not 'perhaps'"),
        ("injectSqrtSX = 1\n", "unknown option --injectSqrtSX: use jfstat simulate"),
        ("Frek = 1\n", "did you mean --Freq"),
        ("Alpha = high\n", "'high' is not a right ascension"),
    ],
)
def test_what_is_wrong_with_a_file(text, message, tmp_path, capsys):
    (tmp_path / "c.ini").write_text("DataFiles = x\nFreq = 1\n" + text)
    assert main(["search", f"@{tmp_path / 'c.ini'}"]) == 1
    assert message in capsys.readouterr().err


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main(["search", f"@{tmp_path / 'none.ini'}"]) == 1
    assert "none.ini' cannot be read" in capsys.readouterr().err


def test_options_without_values(tmp_path, sfts, capsys):
    (tmp_path / "c.ini").write_text(CONFIG.format(sfts=sfts, out=tmp_path / "o.txt") + "countTemplates = yes\n")
    assert main(["search", f"@{tmp_path / 'c.ini'}", "--FreqBand=0"]) == 0
    assert "would take" in capsys.readouterr().out
    (tmp_path / "d.ini").write_text("countTemplates = FALSE\nnoDetails = TRUE\n")
    assert main(["search", f"@{tmp_path / 'd.ini'}"]) == 1
    assert "the following arguments are required" in capsys.readouterr().err
