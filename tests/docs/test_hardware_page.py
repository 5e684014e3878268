"""The Python of docs/hardware.md runs as printed."""

import json
from pathlib import Path

import pytest
from pages import run_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hardware.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom():
    names = run_page(PAGE, 2)
    found = names["found"]
    assert list(found["name"]) == ["PULSAR03"] == [names["row"]["name"]] and found["agrees"][0]
    assert found["expected_twoF"][0] > 40 and abs(found["pull_h0"][0]) < 4 and abs(found["pull_phase"][0]) < 4


def test_times_are_as_committed():
    found = json.loads((ROOT / "examples" / "hardware_times.json").read_text())
    for rate, what in {"4096": "GWOSC's files at 4096 Hz", "16384": "at 16384 Hz"}.items():
        row = f"| {what} | {found[rate]['s of a day']:.0f} s | {found[rate]['memory_GB']:.1f} GB |"
        assert row in PAGE.read_text()
