"""The Python of docs/transients.md runs as printed, and finds what it says."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

import jfstat

PAGE = Path(__file__).parents[1] / "docs" / "transients.md"


def test_the_page_runs_from_top_to_bottom():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 6
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"):
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    data, point, window = names["data"], names["point"], names["window"]
    assert float(names["atoms"].twoF) == pytest.approx(float(names["twoF"]), rel=1e-9)
    assert np.isfinite(float(names["slope"]))
    largest, best = names["best"]
    # within the slices and the noise
    assert abs(float(best.t0 - window.t0)) < 7200 and abs(float(best.tau - window.tau)) < 14400
    assert float(largest) > float(names["known"]) - 10 > float(names["twoF"])
    assert float(names["odds"]) > 5 and names["likely"].shape == (90,)
    (row,) = names["table"]
    assert row["max_twoF"] == pytest.approx(float(largest), rel=1e-9)
    assert names["left"].observation.n_sfts[0] == data.observation.n_sfts[0] == 96
    assert names["left"].observation.n_sfts[1] == 90
    assert float(jfstat.twoF(names["left"], point)) > 4
    assert float(names["off"]) < float(largest)
