"""Damaged configuration files.

A file that is accepted is judged by its own lines. Each line with text before a comment must have given an option, of
a name and a value that stand in it, unless the text follows a semicolon; a line that is as in the undamaged file must
have given the same options as there; no option comes from elsewhere, and none is there twice.
"""

import re

import pytest
from fuzz import TRIALS, accepted

from jfstat.commandline import _parser
from jfstat.commandline.configfile import read_config, with_config_files

FILES = {
    "search": """\
# options of a search
DataFiles = "sfts/*.sft"   # both detectors; all
IFOs = H1,L1
Alpha: 1.0 ; rad
Delta = -0.3 % rad
Freq = 60.0; FreqBand 0.5
f1dot = -1e-10
f1dotBand = 1e-11

refTime = 1167458304
transient-WindowType = rect
transient-tau = 7200
noDetails = TRUE
NumCandidatesToKeep \\
    5
outputFstat = 'out of it.txt'
""",
    "make-sfts": "frame-files = x.gwf\nhigh-pass-freq = 7\nsft-duration: 16\nstart-freq 30\n"
    "band = 30; window-type = rectangular\n",
}


def joined(text):
    """Number and text of each line, with those that a backslash continues."""
    number, lines = 1, []
    for line in re.split(r"(?<!\\)\n", text):
        lines.append((number, line.replace("\\\n", "")))
        number += line.count("\n") + 1
    return lines


@TRIALS
@pytest.mark.parametrize("command", FILES)
def test_damaged_files(tmp_path, command, trials):
    parser = next(a for a in _parser(command)._actions if a.choices).choices[command]
    names = {name[2:] for action in parser._actions for name in action.option_strings}

    def read(path):
        with_config_files([f"@{path}"], parser._actions, lambda name: "nothing")
        return read_config(path, names)

    (tmp_path / "whole.ini").write_text(FILES[command])
    whole = read(tmp_path / "whole.ini")
    known = {line: [o[:2] for o in whole if o.line == number] for number, line in joined(FILES[command])}
    each = -(-trials // len(FILES))
    for trial, text, found, _ in accepted(read, FILES[command].encode(), tmp_path / "a.ini", each, len(command)):
        lines = dict(joined(text))
        assert {option.line for option in found} <= set(lines), trial
        assert len({option.name for option in found}) == len(found), (trial, text)
        for number, line in lines.items():
            own = [option[:2] for option in found if option.line == number]
            if line in known:
                assert own == known[line], (trial, text)
            plain = re.split("[#%]", line)[0].strip()
            if plain and plain[0] not in ";":
                assert own, (trial, text)
            for name, value in own:
                assert name in names and re.search(rf"{re.escape(name)}[\s=:]+{re.escape(value)}", line), (trial, text)
            assert len(own) <= line.count(";") + 1
            stated = re.findall(r"(?:^|;)\s*([\w-]+)\s*[=:]", re.sub(r"\"[^\"]*\"|'[^']*'", "q", plain))
            assert {name for name, _ in own} >= set(stated), (trial, text)
