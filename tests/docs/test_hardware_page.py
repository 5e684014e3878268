"""The Python of docs/hardware.md runs as printed."""

from pathlib import Path

import pytest
from pages import run_page

PAGE = Path(__file__).parents[2] / "docs" / "hardware.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom():
    names = run_page(PAGE, 2)
    found = names["found"]
    assert list(found["name"]) == ["PULSAR03"] == [names["row"]["name"]] and found["agrees"][0]
    assert found["expected_twoF"][0] > 40 and abs(found["pull_h0"][0]) < 4 and abs(found["pull_phase"][0]) < 4
