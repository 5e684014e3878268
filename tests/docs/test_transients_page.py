"""The Python of docs/transients.md runs as printed, and finds what it says."""

from pathlib import Path

import numpy as np
import pytest
from pages import run_page

import jfstat

PAGE = Path(__file__).parents[2] / "docs" / "transients.md"


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom():
    names = run_page(PAGE, 11)
    data, point, window = names["data"], names["point"], names["window"]
    assert float(names["atoms"].twoF) == pytest.approx(float(names["twoF"]), rel=1e-9)
    assert np.isfinite(float(names["slope"]))
    assert float(names["uphill"][0]) > 0  # from a start that is too early
    largest, best = names["best"]
    # within the slices and the noise
    assert abs(float(best.t0 - window.t0)) < 7200 and abs(float(best.tau - window.tau)) < 14400
    assert float(largest) > float(names["known"]) - 10 > float(names["twoF"])
    assert float(names["odds"]) > 5 and names["likely"].shape == (90,)
    (row,) = names["table"]
    assert row["max_twoF"] == pytest.approx(float(largest), rel=1e-9)
    # loud enough that no noise among the draws comes near it
    assert 0 <= float(names["chance"]) < 1e-6
    assert names["left"].observation.n_sfts[0] == data.observation.n_sfts[0] == 96
    assert names["left"].observation.n_sfts[1] == 90
    assert float(jfstat.twoF(names["left"], point)) > 4
    assert float(names["off"]) < float(largest)
    assert float(names["best_first"]["max_twoF"][0]) > float(largest) - 2
    assert abs(float(names["best_first"]["freq"][0].value) - 70.0) < 1 / 43200
    (when,) = names["when"]
    assert abs(when["t0"].value - float(window.t0)) < 5 * when["t0_error"].value
    assert abs(when["tau"].value - float(window.tau)) < 5 * when["tau_error"].value
    assert abs(when["h0"] - 1e-24) < 5 * when["h0_error"]
    assert float(jfstat.twoF(names["own"], point)) == pytest.approx(float(names["known"]), rel=1e-6)
    assert names["vetoed"]["line_veto"][0] == ""
