"""Points in Z-order, and the order in which templates of interpolating searches are summed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfstat.maths.zorder import z_order


@pytest.mark.ci
@settings(deadline=None)
@given(st.sampled_from([1, 2, 3, 64, 193]), st.integers(1, 5), st.floats(1e-12, 10.0), st.integers(0, 100))
def test_every_point_is_taken_once(n, k, cell, seed):
    """Also if there are more cells than numbers of 63 bits."""
    order = z_order(jnp.asarray(np.random.default_rng(seed).normal(size=(k, n))), cell)
    assert np.array_equal(np.sort(order), np.arange(n))


def test_cubes_of_cells_follow_one_another():
    """The first 4^k cells of a grid are a square of 2^k cells a side, and points of one cell keep their order."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(16), np.arange(16), indexing="ij"))
    points = np.tile(np.stack([x, y]) + 0.5, 2)
    order = np.asarray(z_order(jnp.asarray(points), 1.0))
    for k in range(5):
        own = points[:, order[: 2 * 4**k]]
        assert np.all(own < 2**k) and len(np.unique(own, axis=1).T) == 4**k
    assert np.array_equal(order[1::2] - order[::2], np.full(256, 256))
