"""The Python of docs/tracking.md runs as printed, and finds what it says."""

import json
from pathlib import Path

import numpy as np
import pytest
from pages import run_page

PAGE = Path(__file__).parents[2] / "docs" / "tracking.md"


@pytest.mark.ci
def test_the_page_runs_from_top_to_bottom():
    names = run_page(PAGE, 6)
    step, frequencies = names["step"], names["frequencies"]
    for path in (names["track"], names["path"]):
        assert np.mean(np.abs(np.asarray(path.frequencies) - frequencies) < 0.6 * step) > 0.6
    assert names["p"] < 1e-3
    np.testing.assert_allclose(names["slope"], names["model"].posterior, atol=1e-5)
    assert names["known"].shape == names["twoF"].shape
    assert names["table"]["template"][0] == 2 and names["table"]["false_alarm"][0] < 1e-3
    assert float(names["best"].log_likelihood) > 20
    assert abs(names["loudest"] - 20) <= 2
    assert float(names["power"].critical_ratio[names["loudest"]]) > 5


def committed(name):
    return json.loads((PAGE.parents[1] / "examples" / f"{name}.json").read_text())


def test_efficiencies_and_times_are_as_committed():
    text = PAGE.read_text()
    found = committed("tracking_injections")
    names = {"viterbi": "best path", "summed": "mean of 2F over segments", "coherent": "2F of all data"}
    for part in (found, found["tables"]):
        for kind, rows in part["efficiency"].items():
            for name, row in rows.items():
                assert f"| {kind}, {names[name]} | {' | '.join(f'{100 * x:.0f}' for x in row)} |" in text
    for row in committed("tracking_against_soapcw")["rows"]:
        assert row["same_path"] and row["largest_difference_of_values"] < 1e-10
        ratio = f"{row['ratio']:.1f}" if row["ratio"] > 1 else f"{row['ratio']:.2g}"
        assert f"{row['frequencies']:,}, {row['jumps']} |" in text
        assert f"| {ratio} |" in text
