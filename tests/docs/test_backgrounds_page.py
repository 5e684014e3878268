"""The Python of docs/backgrounds.md runs as printed, and its table is the committed figures."""

import json
from pathlib import Path

import numpy as np
import pytest
from pages import run_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "backgrounds.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page(PAGE, 3)
    assert (tmp_path / "background.png").stat().st_size > 10_000
    judged = names["judged"]
    freq, alarm = np.array(judged["freq"]), np.array(judged["empirical_false_alarm"])
    signal, line = np.abs(freq - 199.93) < 1e-3, np.abs(freq - 199.98) < 0.02
    assert judged.meta["false_alarm"] < 1e-6 and alarm[signal].min() < 1e-5
    assert judged["twoF"][line].max() > 60 and alarm[line].min() > 0.03
    assert abs(float(names["best"]["freq"].value) - 199.93) < 1e-4
    after = names["measured"]
    there = (np.array(after["fmin"]) <= 199.93) & (np.array(after["fmax"]) >= 199.93)
    assert 20 < np.max(after["twoF"][there]) < 45


def rows():
    found = json.loads((ROOT / "examples" / "false_alarms.json").read_text())
    for kind in ("Gaussian noise", "lines and drifts"):
        own = found[kind.lower() if kind.startswith("G") else kind]
        for level, words in (("0.1", "10 %"), ("0.01", "1 %")):
            deviation, shown = own["standard_deviation"][level], kind if level == "0.1" else ""
            seen = " | ".join(f"{100 * own[name][level]:.1f} %" for name in ("gaussian", "empirical"))
            yield f"| {shown} | {words} | {seen} | {100 * deviation:.1f} % |".replace("|  |", "| |")
            assert abs(own["empirical"][level] - float(level)) < 2 * deviation


def test_the_table_is_the_committed_figures():
    page = PAGE.read_text()
    for row in rows():
        assert row in page
