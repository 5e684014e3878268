"""The examples that a laptop can run in a minute."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("bands", ["C1", "A1,C1"])
def test_the_pilot_search_scaled_down(tmp_path, bands):
    command = [sys.executable, EXAMPLES / "omega_centauri.py", "--small", "--bands", bands, "--outdir", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["bands"]) == bands.split(",")
    for name, band in summary["bands"].items():
        expected = band["injection"]["expected_twoF"]
        assert expected > 80
        # found where it is: the bank's mismatch and the frequency's bins
        assert band["mismatch_of_loudest"] < 0.1 + 0.19 + 0.1
        assert abs(band["loudest_twoF"] - expected) < 5 * (4 * expected) ** 0.5
        assert band["mismatch_of_refined"] < band["mismatch_of_loudest"] + 0.05
        assert band["noise"]["false_alarm"] > 1e-3
        assert band["sky_positions"] > 20 or name == "A1"
    assert (tmp_path / "loudest_per_subband.png").stat().st_size > 10_000
    # done bands are not done again
    again = subprocess.run(
        [*command[:2], "search", *command[2:]], capture_output=True, text=True, check=False, timeout=60
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout == ""


@pytest.mark.ci
def test_few_random_signals_lose_no_more_than_asked_in_banks_over_segments(monkeypatch):
    """A few of the 2000 a bank of examples/segments_coverage.json."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import segments_coverage as coverage

    number = [case.name for case in coverage.CASES].index("10 x 1 d, 1000 Hz")
    found = coverage.measure(number, 0, 0.3, 0, 12)
    assert 0.01 < np.mean(found["template"]) < np.max(found["template"]) < 0.3
    assert np.mean(found["template"]) < np.mean(found["interpolated"]) < np.max(found["interpolated"]) < 0.6


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.json")), ids=lambda file: file.stem)
def test_committed_numbers_say_which_command_made_them(file):
    assert '"command' in file.read_text()
