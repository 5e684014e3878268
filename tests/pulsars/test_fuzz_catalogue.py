"""Damaged catalogues of pulsars.

A catalogue that is accepted is judged by its own rows. There must be a pulsar for each row after the header, or the
warning must count the rows that are left out. A row whose cells are as in the undamaged catalogue, under a header with
the same names, must give the same pulsar; under a header that has lost the name of a column, all that other columns say
must be the same. A row that was changed must give the name and the frequency that stand in it.
"""

import re

import catalogues
import numpy as np
import pytest
from fuzz import TRIALS, accepted

import jfstat

ROWS = catalogues.pulsars(np.random.default_rng(3), n=6)
TABLES = {
    "plain.csv": catalogues.plain(ROWS, missing="*"),
    "short.csv": catalogues.short_csv(ROWS),
    "long.csv": catalogues.long_csv(ROWS),
    "printed.csv": catalogues.printed(ROWS),
    "tabs.tsv": catalogues.plain(ROWS, "\t", "*"),
}
FIELDS = {"spins": "F0 F1", "epoch": "PEPOCH POSEPOCH F1", "alpha": "RAJ", "delta": "DECJ", "motion": "PMRA PMDEC"}
FIELDS |= {
    "position_epoch": "POSEPOCH PEPOCH",
    "parallax": "DIST",
    "binary": "BINARY PB A1 T0 ECC OM",
    "name": "NAME PSRJ",
}
"""Columns that decide each attribute of a pulsar."""


def cells(line):
    return tuple(word.strip().strip('"') for word in re.split(r"[;,|\t]|\s+", line.strip()) if word.strip())


def table(text):
    """Names of the columns and the lines of rows."""
    lines = [line.strip() for line in text.split("\n") if line.strip(" -\t")]
    start = next((i for i, line in enumerate(lines) if {"F0", "RAJ", "PEPOCH"} & set(map(str.upper, cells(line)))), 0)
    rows = [line for line in lines[start + 1 :] if line[0] != "#"]
    units = bool(rows) and "(hz)" in map(str.lower, cells(rows[0]))
    return tuple(map(str.upper, cells(lines[start]))), rows[units:]


def numbers(words):
    found = set()
    for word in words:
        try:
            found.add(float(re.sub("[dD]", "e", word)))
        except ValueError:
            continue
    return found


@TRIALS
@pytest.mark.parametrize("kind", TABLES)
def test_damaged_catalogues(tmp_path, kind, trials):
    content = TABLES[kind].encode()
    (tmp_path / "whole.csv").write_bytes(content)
    whole = jfstat.read_pulsars(tmp_path / "whole.csv")
    names, rows = table(TABLES[kind])
    known = dict(zip(rows, whole, strict=True))
    each = -(-trials // len(TABLES))
    for trial, text, found, said in accepted(jfstat.read_pulsars, content, tmp_path / kind, each, len(kind)):
        own_names, own_rows = table(text)
        left_out = sum(int(count) for message in said for count in re.findall(r"^(\d+) of \d+ pulsars", message))
        assert len(found) + left_out == len(own_rows), (trial, text)
        by_name = {pulsar.name: pulsar for pulsar in found}
        assert len(by_name) == len(found)
        twins = [known[line] for line in own_rows if line in known]  # a row may be there twice, damaged and whole
        for line in own_rows:
            words = cells(line)
            given = [pulsar for name, pulsar in by_name.items() if name in words]
            if line not in known:
                assert all({p.spins[0], 1 / p.spins[0]} & numbers(words) for p in given if p not in twins), (
                    trial,
                    text,
                )
                continue
            whole_pulsar = known[line]
            if own_names == names:
                assert whole_pulsar in given, (trial, text)
                continue
            kept = {name for i, name in enumerate(names) if own_names[i : i + 1] == (name,)}
            for field, columns in FIELDS.items():
                if set(columns.split()) <= kept and given:
                    assert any(getattr(p, field) == getattr(whole_pulsar, field) for p in given), (trial, field, text)
