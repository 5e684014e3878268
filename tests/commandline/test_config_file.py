"""Options from configuration files: the same file for ComputeFstatistic_v2 and jfstat, its syntax, what is refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jfstat
from jfstat.commandline import SUBCOMMANDS, _parser, main
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


@pytest.mark.ci
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
        ("a = \"x;y#z%\"\nb = 'it is'\n", [("a", '"x;y#z%"'), ("b", "'it is'")]),
        ("a = 1; b = 2 ;c: 3 # rest; d = 4\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a = 1 ; of this; b = 2", [("a", "1"), ("b", "2")]),
        ("a = {b=1; c=2};d=3", [("a", "{b=1; c=2}"), ("d", "3")]),
        ("a-b-c = 1\nd-e 2\nf = -3\n", [("a-b-c", "1"), ("d-e", "2"), ("f", "-3")]),
        ("a = -1\\\n  e-9\n", [("a", "-1  e-9")]),
        ("a = 1 = 2", [("a", "1 = 2")]),
        ("", []),
    ],
)
def test_the_syntax_of_a_file(text, options, tmp_path):
    (tmp_path / "c.ini").write_text(text)
    assert [option[:2] for option in read_config(tmp_path / "c.ini")] == options


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


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("search", {"DataFiles": "x", "Freq": "1", "transient-WindowType": "rect", "transient-tau": "7200"}),
        (
            "make-sfts",
            {"frame-files": "x", "high-pass-freq": "7", "sft-duration": "16", "start-freq": "30", "band": "30"},
        ),
    ],
)
@pytest.mark.parametrize("form", ["{} = {}\n", "{}: {}\n", "{} {}\n", "{}={};", "{} '{}'\n"])
def test_options_with_hyphens_are_options(command, options, form, tmp_path):
    (tmp_path / "c.ini").write_text("".join(form.format(*option) for option in options.items()))
    words = [f"--{name}={word}" for name, word in options.items()]
    read, typed = (_parser(command).arguments([command, *x]) for x in ([f"@{tmp_path / 'c.ini'}"], words))
    for name in options:
        assert getattr(read, name.replace("-", "_")) == getattr(typed, name.replace("-", "_"))
        assert read.is_given(name.replace("-", "_"))


LINES = ["Alpha = 1.0", "", "# a comment", "Delta = 0.3 ; a comment", "f1dot = -1e-10"]


@pytest.mark.parametrize("command", SUBCOMMANDS)
@pytest.mark.parametrize("line", ["par = a' b", 'label = "a', "no-such-option = 1", "help = 1", "[section]", "word"])
def test_every_command_names_file_and_line(tmp_path, command, line, capsys):
    rng = np.random.default_rng(len(command + line))
    before = ["# a comment", ""] * int(rng.integers(4))
    (tmp_path / "c.ini").write_text("\n".join([*before, line, "# a comment", ""]))
    assert main([command, f"@{tmp_path / 'c.ini'}"]) == 1
    said = capsys.readouterr().err
    assert f"configuration file '{tmp_path / 'c.ini'}', line {len(before) + 1}" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Fre = 100", "unknown option --Fre: did you mean --Freq?"),
        ("transient_WindowType = rect", "did you mean --transient-WindowType?"),
        ("f = 100", "unknown option --f"),
        ("Alpha = 2", "Alpha was given in line 1: leave one of them out"),
        ("Freq = 1; Freq = 1", "Freq was given in line 6"),
        ("Freq = fast", "Freq: 'fast' is not a number"),
        ("Freq = ''", "Freq has no value"),
        ('Freq = 10"0', "has a quotation mark that is not closed"),
        ('Freq = "1"0', "quotation marks within it: write them around the whole value"),
        ("transient-WindowType = round", "transient-WindowType must be none or rect or exp, not 'round'"),
        ("noDetails = 'perhaps'", "noDetails must be TRUE or FALSE"),
        ("; Freq = 1", "begins with ';' before an option: write # before what is left out"),
        ("Freq =", "has the line 'Freq =', which is no option"),
        ("FreqBand = 1; Freq =", "has the line 'Freq =', which is no option"),
        ("FreqBand = 1; Freq", "has the line 'Freq', which is no option"),
        ("= 1", "has the line '= 1', which is no option"),
        ("Freq = 1 \\\n2", "Freq: '1 2' is not a number"),
    ],
)
def test_a_wrong_line_is_named(line, message, tmp_path, capsys):
    (tmp_path / "c.ini").write_text("\n".join([*LINES, line, "DataFiles = x"]))
    assert main(["search", f"@{tmp_path / 'c.ini'}"]) == 1
    said = capsys.readouterr().err
    assert "c.ini', line 6" in said and message in said


@pytest.mark.parametrize("par", ["a b", "'a b' c", '"a" "b c"'])
def test_options_of_several_words(tmp_path, par):
    (tmp_path / "c.ini").write_text(f"par = {par}\nDataFiles = x\n")
    values = _parser("search-pulsars").parse_args(["search-pulsars", f"@{tmp_path / 'c.ini'}"])
    assert values.par == {"a b": ["a", "b"], "'a b' c": ["a b", "c"], '"a" "b c"': ["a", "b c"]}[par]


@pytest.mark.parametrize("par", ["--outputFstat", "a -x", "''", "a\\"])
def test_words_that_are_no_values(tmp_path, par, capsys):
    (tmp_path / "c.ini").write_text(f"DataFiles = x\npar = {par}")
    assert main(["search-pulsars", f"@{tmp_path / 'c.ini'}"]) == 1
    assert "c.ini', line 2: par has " in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_files_of_other_editors(tmp_path, encoding):
    (tmp_path / "c.ini").write_bytes("a = 1\r\nb-c = 2\r\n".encode(encoding))
    assert [option[:2] for option in read_config(tmp_path / "c.ini")] == [("a", "1"), ("b-c", "2")]


@pytest.mark.parametrize("content", [b"a = \xe9\n", b"a\0 = 1\n", "a = 1".encode("utf-16-le"), b"\xff\xfe\0"])
def test_files_that_are_no_text(tmp_path, content, capsys):
    (tmp_path / "c.ini").write_bytes(content)
    assert main(["search", f"@{tmp_path / 'c.ini'}"]) == 1
    assert "c.ini' cannot be read (it is not text): name a text file" in capsys.readouterr().err


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main(["search", f"@{tmp_path / 'none.ini'}"]) == 1
    assert "none.ini' cannot be read" in capsys.readouterr().err


@pytest.mark.ci
def test_options_without_values(tmp_path, sfts, capsys):
    (tmp_path / "c.ini").write_text(CONFIG.format(sfts=sfts, out=tmp_path / "o.txt") + "countTemplates = yes\n")
    assert main(["search", f"@{tmp_path / 'c.ini'}", "--FreqBand=0"]) == 0
    assert "would take" in capsys.readouterr().out
    (tmp_path / "d.ini").write_text("countTemplates = FALSE\nnoDetails = TRUE\n")
    assert main(["search", f"@{tmp_path / 'd.ini'}"]) == 1
    assert "the following arguments are required" in capsys.readouterr().err
