"""Detectors that are moved and turned: as if they had been built there, and derivatives against finite differences."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.geometry.detectors import get_detectors
from jfstat.maths.vectors import unit_vector

SHIFT = np.array([[3e4, -2e4, 5e3], [-1e4, 2.5e4, -1e4]])
"""Some kilometres along the surface."""


@pytest.fixture(scope="module")
def case():
    return make(200.0, seed=12, days=0.5, duty=0.9, half_band=0.01)


def tangential(detectors):
    """`SHIFT` without its vertical part: moved detectors are still on the surface."""
    up = np.array([np.array(site.location) / np.linalg.norm(site.location) for site in detectors])
    return SHIFT - np.sum(SHIFT * up, axis=1, keepdims=True) * up


def test_a_moved_detector_is_one_that_was_built_there():
    old = get_detectors(["H1", "L1"], "detectors")
    shift = tangential(old)
    arms = np.random.default_rng(0).normal(size=(2, 2, 3))
    new = [
        jfstat.Detector(site.prefix, np.array(site.location) + own, ends)
        for site, own, ends in zip(old, shift, arms, strict=True)
    ]
    start = 1167264018 - 40000  # over a leap second
    before, after = (jfstat.observation(x, start, 86400, sqrt_sx=4e-24) for x in (list(old), new))
    moved = jfstat.move_detectors(before, shift, arms)
    t = start - int(before.epoch) + np.linspace(0.0, 86400.0, 1001)
    for i in range(2):
        mine, theirs, far = (
            jax.tree.map(lambda x, i=i: x[i], x.trajectory)(t).position for x in (moved, after, before)
        )
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-11)  # rounding of 500 s
        assert np.max(np.abs(far - theirs)) > 1e-5
    np.testing.assert_allclose(moved.response, after.response, atol=1e-15)
    bars = jfstat.move_detectors(before, np.zeros((2, 3)), arms[:, :1])
    np.testing.assert_allclose(
        bars.response[0], jfstat.Detector("Z1", new[0].location, arms[0, :1]).response, atol=1e-15
    )


def check_slopes(function, x, scale, rtol):
    """Hold the gradient of a function against central differences along some directions."""
    slope = jax.grad(function)(x)
    assert np.all(np.isfinite(slope))
    for seed in range(3):
        along = np.random.default_rng(seed).normal(size=x.shape)
        ends = [float(function(x + sign * scale * along)) for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * scale)
        assert float(jnp.sum(slope * along)) == pytest.approx(expected, rel=rtol)


@pytest.mark.ci
def test_derivatives_of_2f_by_position(case):
    point = jfstat.whiten(case.data, case.doppler).point(jnp.array([0.2, 0.1, 0.3, -0.2]))  # off the peak

    @jax.jit
    def two_f(shift, data):
        return jfstat.twoF(jfstat.move_detectors(data, shift), point)

    assert float(two_f(jnp.zeros((2, 3)), case.data)) == float(jax.jit(jfstat.twoF)(case.data, point))
    check_slopes(lambda x: two_f(x, case.data), jnp.zeros((2, 3)), 300.0, 1e-4)


@pytest.mark.ci
def test_derivatives_of_the_band_by_position(case):
    """Whose detector times solve an equation."""
    index = int(np.argmin(np.abs(case.data.frequencies - float(case.doppler.fkdot[0])))) + 1

    @jax.jit
    def two_f(shift):
        return jfstat.twoF_band(jfstat.move_detectors(case.data, shift), case.doppler)[index].astype(jnp.float64)

    check_slopes(two_f, jnp.zeros((2, 3)), 1e4, 0.02)  # in float32


def test_derivatives_by_arms(case):
    arms = jnp.asarray(np.array([site.arms for site in get_detectors(["H1", "L1"], "detectors")]))

    def expected(arms):
        seen = jfstat.move_detectors(case.data.observation, np.zeros((2, 3)), arms)
        return jfstat.predict_twoF(seen, case.doppler, case.amplitude)

    assert float(expected(arms)) == pytest.approx(case.rho2 + 4, rel=1e-5)
    check_slopes(expected, arms, 1e-5, 1e-6)


def test_a_shift_delays_the_signal(case):
    """2F of a signal heard later by d/c at a moved detector is that of the old one, at all times of one day."""
    n = unit_vector(case.doppler.alpha, case.doppler.delta)
    seen = case.data.observation
    moved = jfstat.move_detectors(seen, SHIFT)
    for i in range(2):
        t = jnp.linspace(0.0, 40000.0, 50)
        one, other = (jax.tree.map(lambda x, i=i: x[i], x.trajectory) for x in (seen, moved))
        source = seen.source(case.doppler)
        change = source.delay(other, t) - source.delay(one, t)
        np.testing.assert_allclose(change, (other(t).position - one(t).position) @ n, atol=1e-12)
        assert np.max(np.abs(change)) < np.linalg.norm(SHIFT[i]) / 299792458.0 * 1.0001


def test_what_is_refused(case):
    with pytest.raises(TypeError, match="data must be FstatData"):
        jfstat.move_detectors(jfstat.narrow(case.data, case.doppler), SHIFT)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="shift has shape"):
        jfstat.move_detectors(case.data, np.zeros(3))
    with pytest.raises(ValueError, match="arms has shape"):
        jfstat.move_detectors(case.data, SHIFT, np.zeros((2, 3)))
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), replace(case.data, filters=()))
    with pytest.raises(ValueError, match="segments"):
        jfstat.move_detectors(stack, SHIFT)
