"""Points in Z-order, and banks for segments in it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jfstat
from jfstat.banks.space import Templates
from jfstat.maths.vectors import unit_vector
from jfstat.maths.zorder import z_order
from jfstat.metrics.phasemetric import factor

START, DAY = 1167458304, 86400


@given(st.integers(0, 200), st.integers(1, 5), st.floats(1e-12, 10.0), st.integers(0, 100))
def test_every_point_is_taken_once(n, k, cell, seed):
    """Also if there are more cells than numbers of 63 bits."""
    order = z_order(np.random.default_rng(seed).normal(size=(n, k)), cell)
    assert order.dtype == np.int64 and np.array_equal(np.sort(order), np.arange(n))


def test_cubes_of_cells_follow_one_another():
    """The first 4^k cells of a grid are a square of 2^k cells a side, and points of one cell keep their order."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(16), np.arange(16), indexing="ij"))
    points = np.tile(np.stack([x, y], axis=1) + 0.5, (2, 1))
    order = z_order(points, 1.0)
    for k in range(5):
        own = points[order[: 2 * 4**k]]
        assert np.all(own < 2**k) and len(np.unique(own, axis=0)) == 4**k
    assert np.array_equal(order[1::2] - order[::2], np.full(256, 256))


@pytest.fixture(scope="module")
def segments():
    each = [jfstat.observation(["H1"], START + i * DAY, DAY, sqrt_sx=1e-23, reftime=START) for i in range(8)]
    return jax.tree.map(lambda *x: jnp.stack(x), *each)


ARGUMENTS = dict(alpha=(1.0, 1.3), delta=(0.3, 0.5), f1dot=(-1e-9, 0.0), mismatch=0.3, fmax=600.0)


def extent(segments, bank, size):
    """Largest extent of `size` templates that follow one another, by the metric along one coordinate, in the mean."""
    parameters = np.concatenate([bank.fkdot[:, 1:], unit_vector(bank.alpha, bank.delta)], axis=1)
    points = parameters @ factor(segments, 1, segments.reftime.common, ARGUMENTS["fmax"])[1:, 1:].T
    points = points[: len(points) // size * size].reshape(-1, size, points.shape[1])
    return np.mean(np.max(np.ptp(points, axis=1), axis=1))


def test_templates_for_segments_have_their_neighbours_beside_them(segments, monkeypatch):
    """Those of a batch of 64 are half as far apart, by the metric, as if they were sorted by position."""
    bank = jfstat.template_bank(**ARGUMENTS, data=segments)
    monkeypatch.setattr("jfstat.banks.template_bank._neighbours_together", lambda templates, space: templates)
    plain = jfstat.template_bank(**ARGUMENTS, data=segments)
    assert len(bank.alpha) > 2000
    assert extent(segments, bank, 64) < 0.5 * extent(segments, plain, 64)


def test_order_does_not_change_the_templates(segments, monkeypatch):
    bank = jfstat.template_bank(**ARGUMENTS, data=segments)
    monkeypatch.setattr("jfstat.banks.template_bank._neighbours_together", lambda templates, space: templates)
    plain = jfstat.template_bank(**ARGUMENTS, data=segments)
    one, other = (Templates(np.asarray(b.alpha), np.asarray(b.delta), np.asarray(b.fkdot)) for b in (bank, plain))
    first, second = (np.lexsort((*own.spins.T, own.delta, own.alpha)) for own in (one, other))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x[first], y[second])
