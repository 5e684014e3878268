"""Damaged files of candidates, in each format.

jfstat's .ecsv and .hdf5 files have a checksum: one that is accepted must hold the same table. Text files of
ComputeFstatistic_v2 and .ecsv files of other programs have none, and are judged by their rows: each line that is not
empty or a comment must have given a row, in order, of the numbers that stand in it, under the names of the columns; a
row that is as in the undamaged file, under the same header, must be the same.
"""

import io

import astropy.units as u
import numpy as np
import pytest
from astropy.table import QTable
from fuzz import TRIALS, accepted, mutate, text_of

import jfstat

START = 1_167_458_304


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    columns = {"freq": rng.uniform(50, 51, 9) * u.Hz, "alpha": rng.uniform(0, 6, 9) * u.rad}
    columns |= {"delta": rng.uniform(-1, 1, 9) * u.rad, "f1dot": rng.uniform(-1e-9, 0, 9) * u.Hz / u.s}
    columns |= {"twoF": rng.uniform(20, 30, 9), "twoF_H1": rng.uniform(2, 30, 9), "line": ["", "60 Hz", "a, b"] * 3}
    return QTable(columns, meta={"version": "0.1.0", "reftime": START, "detectors": ["H1"], "n_twoF": 1234})


def same(table, other):
    equal = all(np.array_equal(np.asarray(table[x]), np.asarray(other[x])) for x in other.colnames)
    return table.colnames == other.colnames and table.meta == other.meta and equal


def reader(path):
    return jfstat.read_candidates(path)


@TRIALS
@pytest.mark.parametrize("suffix", [".ecsv", ".hdf5"])
def test_damaged_files_with_a_checksum(found, tmp_path, suffix, trials):
    content = jfstat.write_candidates(found, tmp_path / f"found{suffix}").read_bytes()
    whole = reader(tmp_path / f"found{suffix}")
    number = 0
    for trial in range(trials // 4):
        damaged = mutate(np.random.default_rng([7, trial]), content)
        (tmp_path / f"found{suffix}").write_bytes(damaged)
        try:
            # without its checksum a file is as other programs write it, and judged below
            assert same(reader(tmp_path / f"found{suffix}"), whole) or b"jfstat-sha256" not in damaged, trial
        except ValueError as error:
            number += 1
            assert "\n" not in str(error) and str(error).startswith("path "), trial
    assert number > 0.8 * (trials // 4)


@TRIALS
def test_damaged_text_files(found, tmp_path, trials):
    content = jfstat.write_candidates(found, tmp_path / "found.txt").read_bytes()
    whole = reader(tmp_path / "found.txt")
    lines = [line for line in text_of(content).split("\n") if line and line[0] != "%"]
    known = dict(zip(lines, whole, strict=True))
    for trial, text, table, _ in accepted(reader, content, tmp_path / "found.txt", trials // 4):
        rows = [line for line in text.split("\n") if line.strip() and line[0] != "%"]
        comments = [line for line in text.split("\n") if line.startswith("%%")]
        names = comments[[line.lstrip("% ").rstrip() for line in comments].index("columns:") + 1].lstrip("% ").split()
        assert [name.replace("2F", "twoF") for name in names] == table.colnames, trial
        assert len(rows) == len(table), (trial, text)
        for line, row in zip(rows, table, strict=True):
            values = [float(np.asarray(getattr(x, "value", x))) for x in row]
            np.testing.assert_array_equal(values, [float(word) for word in line.split()])
            if line in known and table.colnames == whole.colnames:
                assert list(row) == list(known[line]), (trial, text)


@TRIALS
def test_damaged_tables_of_other_programs(found, tmp_path, trials):
    file = io.StringIO()
    found.write(file, format="ascii.ecsv")
    header, rows = [
        [line for line in file.getvalue().split("\n") if line and (line[0] == "#") == x] for x in (True, False)
    ]
    known = dict(zip(rows[1:], found, strict=True))
    for trial, text, table, _ in accepted(reader, file.getvalue().encode(), tmp_path / "a.ecsv", trials // 4):
        own = [line for line in text.split("\n") if line.strip() and line[0] != "#"]
        assert len(table) == len(own) - 1, (trial, text)
        if [line for line in text.split("\n") if line and line[0] == "#"] == header and own[0] == rows[0]:
            for line, row in zip(own[1:], table, strict=True):
                assert line not in known or list(row) == list(known[line]), (trial, text)
