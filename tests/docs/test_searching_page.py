"""The Python of docs/searching.md, on searches of many patches, runs as printed."""

from pathlib import Path

import numpy as np
import pytest
from pages import run_page

PAGE = Path(__file__).parents[2] / "docs" / "searching.md"


@pytest.mark.ci
def test_patches_are_searched_and_their_tables_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(PAGE, 3, last=2)
    found, tables, (signal, _) = names["found"], names["tables"], names["signal"]
    assert len(tables) == len(np.loadtxt("patches.txt")) == 2
    assert found.meta["n_twoF"] == sum(table.meta["n_twoF"] for table in tables)
    assert found.meta["detectors"] == ["H1", "L1"]
    assert len(found) == sum(map(len, tables)) and (tmp_path / "found.ecsv").exists()
    assert abs(found["freq"][0].value - float(signal.fkdot[0])) < 1e-3


@pytest.mark.slow
def test_the_joined_table_is_followed_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(PAGE, 3)
    (row,), (signal, _) = names["survivors"], names["signal"]
    assert row["n_merged"] >= 2
    assert abs(row["freq"].value - float(signal.fkdot[0])) < 5 * row["freq_error"].value
