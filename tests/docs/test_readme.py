"""The README's Python runs as printed, and its tables are rows of those of the documentation."""

import re
from pathlib import Path

import numpy as np
import pytest

import jfstat

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the names of the README's first block stand for, and its second block."""
    search, refinement = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    source = jfstat.Doppler(alpha=2.1, delta=0.47, fkdot=[100.1, -1e-10], reftime=1167458304)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], 1167458304, 43200, fmin=98.9, fmax=101.7, signals=[(source, jfstat.Amplitude(4e-25, 0.3))]
    )
    jfstat.write_sfts(sfts, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    names: dict = {"refinement": refinement}
    exec(compile(search, str(README), "exec"), names)
    return names


def test_the_readmes_example_runs(names):
    assert abs(names["found"]["freq"][0].to_value("Hz") - 100.1) < 2e-3
    assert names["found"]["twoF"][0] > 50
    assert np.isfinite(float(jfstat.twoF(names["data"], names["point"])))


@pytest.mark.slow
def test_its_candidate_is_refined(names):
    exec(compile(names["refinement"], str(README), "exec"), names)
    (row,) = names["better"]
    assert row["twoF"] > names["found"]["twoF"][0]
    assert abs(row["freq"].value - 100.1) < 5 * row["freq_error"].value


def rows(text):
    """Cells of the rows of all tables of a page."""
    lines = (line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| |"))
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_its_tables_are_those_of_the_pages():
    pages = {
        name: rows((README.parent / "docs" / f"{name}.md").read_text()) for name in ("accuracy", "speed", "refining")
    }
    text = README.read_text()
    sections = {
        name: rows(text.split(f"\n## {name}\n")[1].split("\n## ")[0]) for name in ("Accuracy", "Speed", "Following up")
    }
    kept = {"Accuracy": (0, 2, 3, 4), "Speed": (0, 1, 3), "Following up": (0, 1, 3)}
    for (name, found), page in zip(sections.items(), pages.values(), strict=True):
        assert len(found) >= 3
        columns = kept[name]
        longer = [[row[k] for k in columns] for row in page if len(row) > max(columns)]
        assert all(row in longer for row in found if row[0] not in ("f / Hz", "data"))


def test_it_stays_short():
    assert len(README.read_text().splitlines()) <= 100
