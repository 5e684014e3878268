"""The Python of docs/physics.md runs as printed, and finds what it says."""

from pathlib import Path

import numpy as np
import pytest
from pages import run_page

import jfstat

PAGE = Path(__file__).parents[2] / "docs" / "physics.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(PAGE, 6)
    assert [path.name[:5] for path in names["files"]] == ["H-24_", "Z-24_"]
    assert names["observed"].detectors == ("C4", "E2", "Z1")
    assert names["again"]["Z1"].site == names["mine"]
    assert names["builtin"].name == "astropy builtin"
    data, point = names["data"], names["point"]
    assert float(jfstat.twoF(data, point)) > 100
    (row,) = names["found"]
    assert row["converged"]
    assert abs(row["model.df"] - 6e-5) < 4 * row["model.df_error"] < 6e-5
    table = names["table"]
    assert abs(table["model.df"][0] - 6e-5) < 1.1e-5
    assert np.isfinite(float(names["slope"]))
