"""Damaged segment lists and files of timestamps.

A file that is accepted is judged by its own lines. Each line that is not empty or a comment must have given one
segment or timestamp, in order, and nothing else may have been read. A line that is as in the undamaged file must have
given what it gave there; another must have given the numbers that stand in it: a start and the end that follows it,
which follow a number of the segment only where a duration confirms both; or seconds and nanoseconds.
"""

import re
from decimal import Decimal

import numpy as np
import pytest
from fuzz import TRIALS, accepted

import jfstat

GPS = 1_187_056_880
EDGES = [(GPS + 5000 * i, GPS + 5000 * i + 1000 + 7 * i) for i in range(8)]
SEGMENTS = {
    "two columns": "% start end\n" + "".join(f"{a} {b}\n" for a, b in EDGES),
    "SFTs": "".join(f"{a} {b} {i + 1}\n" for i, (a, b) in enumerate(EDGES)),
    "durations": "".join(f"{a}, {b}, {b - a}\n" for a, b in EDGES),
    "segwizard": "# seg\tstart\tstop\tduration\n"
    + "".join(f"{i}\t{a}\t{b}\t{b - a}\n" for i, (a, b) in enumerate(EDGES)),
    "hours": "".join(f"{a}.25 {b} {(b - a) / 3600:.5f} 9\n" for a, b in EDGES),
}
STAMPS = {
    "seconds": "".join(f"{a}\n" for a, _ in EDGES),
    "nanoseconds": "# s ns\n" + "".join(f"{a} {b % 1000 * 999_999}\n" for a, b in EDGES),
    "decimals": "".join(f"{a}.{b % 1000:03}\n" for a, b in EDGES),
}


def rows(text):
    """Numbers of each line that is not a comment."""
    lines = (re.split("[%#]", line)[0] for line in text.split("\n"))
    return [[Decimal(word) for word in re.split(r"\s*,\s*|\s+", line.strip())] for line in lines if line.strip()]


@TRIALS
@pytest.mark.parametrize("kind", SEGMENTS)
def test_damaged_segments(tmp_path, kind, trials):
    each = -(-trials // len(SEGMENTS))
    known = {tuple(row): edges for row, edges in zip(rows(SEGMENTS[kind]), EDGES, strict=True)}
    content = SEGMENTS[kind].encode()
    for trial, text, found, _ in accepted(jfstat.read_segments, content, tmp_path / "list", each, len(kind)):
        numbers = rows(text)
        assert len(found) == len(numbers), trial
        confirmed = all(len(row) == 4 and abs(row[2] - row[1] - row[3]) <= Decimal("0.5") for row in numbers)
        for row, edges in zip(numbers, found, strict=True):
            assert edges == tuple(map(float, row[1:3] if confirmed else row[:2])), (trial, text)
            if tuple(row) in known and kind != "hours":
                assert edges == known[tuple(row)], (trial, text)
            assert edges[0] < edges[1]


@TRIALS
@pytest.mark.parametrize("kind", STAMPS)
def test_damaged_timestamps(tmp_path, kind, trials):
    def read(path):
        return jfstat.read_timestamps([path], ["H1"])["H1"]

    each = -(-trials // len(STAMPS))
    for trial, text, found, _ in accepted(read, STAMPS[kind].encode(), tmp_path / "H1", each, len(kind)):
        numbers = rows(text)
        assert found.dtype == np.int64 and len(found) == len(numbers), trial
        for (s, *ns), (seconds, nanoseconds) in zip(numbers, found.tolist(), strict=True):
            assert abs(s * 10**9 + sum(ns) - (10**9 * seconds + nanoseconds)) <= Decimal("0.5"), (trial, text)
            assert 0 <= nanoseconds < 10**9
