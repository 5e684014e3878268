"""The Python of docs/tracking.md runs as printed, and finds what it says."""

import re
from pathlib import Path

import jax
import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "tracking.md"


def test_the_page_runs_from_top_to_bottom():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 4
    names: dict = {}
    with jax.numpy_dtype_promotion("standard"):
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    step, frequencies = names["step"], names["frequencies"]
    for path in (names["track"], names["path"]):
        assert np.mean(np.abs(np.asarray(path.frequencies) - frequencies) < 0.6 * step) > 0.6
    assert names["p"] < 1e-3
    np.testing.assert_allclose(names["slope"], names["model"].posterior, atol=1e-5)
    assert names["known"].shape == names["twoF"].shape
    assert names["table"]["template"][0] == 2 and names["table"]["false_alarm"][0] < 1e-3
    assert float(names["best"].log_likelihood) > 20
