"""Damaged lists of lines.

A list that is accepted is judged by its own rows. Each row that is not empty, a comment or the names of columns must
have given the harmonics that its numbers say, and nothing else may have been read; a row that is as in the undamaged
list must have given what it gave there. A row of a list whose names of columns speak of harmonics is never a line
without width.
"""

from collections import Counter

import numpy as np
import pytest
from fuzz import TRIALS, accepted

import jfstat

NAMES = "Frequency (or frequency spacing) [Hz],Type (0:line; 1:comb; 2:comb with scaling width),Frequency offset [Hz],"
NAMES += "First visible harmonic,Last visible harmonic,Left width [Hz],Right width [Hz],Comments\n"
ROWS = ["16.0,0,0.0,1,1,0.05,0.06,Calibration line", "1.5,1,0.25,2,5,0.05,0.05,2nd comb", "10.0,2,0.0,1,4,0.05,0.04,x"]
ROWS += ["60.0,1,0.0,1,3,0.1,0.2,mains, power", "100.0,0,0,1,1,1.0,1.0,", "33.3,1,10,1,2,0.01,0.01,1.2 V"]
LISTS = {
    "identified": "# git hash: 1234\n" + NAMES + "\n".join(ROWS) + "\n",
    "blanks": "% Column 1 - frequency\n" + "\n".join(row.replace(",", "\t", 7) for row in ROWS) + "\n",
    "unidentified": "Frequency [Hz],Comments\n10.10,unknown\n10.30,2 Hz from a mains harmonic\n99.9,\n1e3,odd, very\n",
    "SFTclean": "60.0 0.5 3 0.01 0.02 comb\n60.25 0.0 1 0.03 0.0 alone\n99 1 2 0.1 0.2 of many words\n",
}


def is_number(word):
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def harmonics(row):
    """Frequency and ends of the band of each harmonic that a row says, rounded."""
    commas = row.split(",")
    words = commas if is_number(commas[0]) and len(commas) > 1 else row.split()
    leading = next((i for i, word in enumerate(words) if not is_number(word)), len(words))
    x = [float(word) for word in words[:leading]]
    if leading >= 7:
        freq, kind, offset, first, last, left, right = x[:7]
    elif leading == 5:
        (offset, freq, count, left, right), kind, first = x, 1, 0
        last = count - 1
    else:
        freq, kind, offset, first, last, left, right = x[0], 0, 0, 1, 1, 0, 0
    ks = [1] if kind == 0 else range(int(first), int(last) + 1)
    bands = [(offset + k * freq, left * (k if kind == 2 else 1), right * (k if kind == 2 else 1)) for k in ks]
    return [(round(f, 9), round(f - left, 9), round(f + right, 9)) for f, left, right in bands]


def rows(text):
    lines = [line.strip() for line in text.split("\n") if line.strip() and line.strip()[0] not in "#%"]
    named = bool(lines) and not is_number(lines[0].replace(",", " ").split()[0])
    return lines[named:], lines[0] if named else ""


@TRIALS
@pytest.mark.parametrize("kind", LISTS)
def test_damaged_lists(tmp_path, kind, trials):
    def read(path):
        return jfstat.read_lines(path, "H1")

    known = {row: harmonics(row) for row in rows(LISTS[kind])[0]}
    each = -(-trials // len(LISTS))
    for trial, text, found, _ in accepted(read, LISTS[kind].encode(), tmp_path / "a.csv", each, len(kind)):
        own, names = rows(text)
        expected = Counter(band for row in own for band in known.get(row, harmonics(row)))
        bands = zip(*(found[name].value.round(9).tolist() for name in ("freq", "fmin", "fmax")), strict=True)
        assert Counter(bands) == expected, (trial, text)
        if "harmonic" in names.lower():
            assert all(len(row.split(",")) >= 7 or len(row.split()) >= 7 for row in own), (trial, text)
