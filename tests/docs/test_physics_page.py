"""The Python of docs/physics.md runs as printed, and finds what it says."""

import json
from pathlib import Path

import numpy as np
import pytest
from pages import run_page

import jfstat

PAGE = Path(__file__).parents[2] / "docs" / "physics.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(PAGE, 9)
    assert [path.name[:5] for path in names["files"]] == ["H-24_", "Z-24_"]
    assert names["observed"].detectors == ("C4", "E2", "Z1")
    assert names["again"]["Z1"].site == names["mine"]
    assert names["builtin"].name == "astropy builtin"
    data, point = names["data"], names["point"]
    assert float(jfstat.twoF(data, point)) > 100
    assert abs(names["found"]["model.df"][0] - 6e-5) < 2e-5 and names["found"]["twoF"][0] > 80
    assert len(names["bank"]) > 3 and len(names["braked"]) > 3
    (row,) = names["row"]
    assert row["converged"]
    assert abs(row["model.df"] - 6e-5) < 4 * row["model.df_error"] < 6e-5
    (best,) = names["best"]
    assert best["converged"] and best["twoF"] > names["caught"]["twoF"][0] > 60
    assert abs(best["freq"].value - 100.003) < 4 * best["freq_error"].value
    assert abs(best["model.f1dot[0]"] + 2.003e-5) < 4 * best["model.f1dot[0]_error"]
    table = names["table"]
    assert abs(table["model.df"][0] - 6e-5) < 1.1e-5
    assert np.isfinite(float(names["slope"]))


def test_the_table_of_banks_is_the_committed_result():
    text = PAGE.read_text()
    banks = json.loads((PAGE.parents[1] / "examples" / "lattice_coverage.json").read_text())["banks"]
    assert len(banks) == 14
    for row in banks:
        assert row["above"] == 0 and row["signals"] == 2000
        beside, (wide, lattice), m = row["beside"] or "", row["dimensions"], row["mismatch"]
        shares = f"{row['mean'] / m:.2f} | {row['largest'] / m:.2f}"
        assert f"| {row['case']} | {m} | {wide}, {lattice} | {row['templates']} | {beside} | {shares} |" in text
