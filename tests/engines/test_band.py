"""`twoF_band` by the kernels, emulated: values of XLA for one template and any nesting of vmap, and its derivatives."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import ORBIT, START, bank, noise

import jfstat
from jfstat.engines import band
from jfstat.engines.cuda import emulated
from jfstat.engines.cuda.engine import Cuda
from jfstat.statistic.fstat import compiled_band

TOLERANCE = dict(rtol=2e-5, atol=2e-4)


@pytest.fixture(scope="module")
def data():
    return noise(["H1", "L1"], 6, 0.1)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """Emulated kernels in place of XLA, and the numbers of templates that they computed, negative for one source."""
    computed = []

    class Counted(Cuda):
        def band(self, data, points, same_source):
            computed.append(-len(points.alpha) if same_source else len(points.alpha))
            return super().band(data, points, same_source)

    engine = Counted(emulate=True)
    monkeypatch.setattr(band, "fastest", lambda *given: engine)
    return computed


def by_xla(data, points):
    return np.asarray(jax.vmap(compiled_band, (None, 0))(data, points))


def test_one_template(data, kernels):
    point = jax.tree.map(lambda x: x[0], bank(3, False, None))
    found = jfstat.twoF_band(data, point)
    assert kernels == [1] and found.dtype == jnp.float32 and found.shape == data.frequencies.shape
    np.testing.assert_allclose(found, compiled_band(data, point), **TOLERANCE)


@pytest.mark.ci
@pytest.mark.parametrize("orbit", [None, ORBIT])
def test_a_stack_is_one_call_of_the_kernels(data, kernels, orbit):
    data = data if orbit is None else noise(["H1", "L1"], 6, 0.1, orbit=orbit)
    points = bank(3, False, orbit)
    found = jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))(data, points)  # the data are traced too
    assert kernels[-1] == 3
    np.testing.assert_allclose(found, by_xla(data, points), **TOLERANCE)


@pytest.mark.ci
def test_templates_of_one_source_are_resampled_once(data, kernels):
    point = jfstat.Doppler(1.0, 0.3, [100.0, 0.0], START)
    spins = jnp.linspace(-1e-8, 0, 4)

    def of(f1dot):
        return jfstat.twoF_band(data, jfstat.Doppler(1.0, 0.3, [100.0, f1dot], START))

    found = jax.vmap(of)(spins)
    assert kernels[-1] == -4
    points = jfstat.Doppler(1.0, 0.3, jnp.stack([jnp.full(4, 100.0), spins], axis=-1), START)
    np.testing.assert_allclose(found, by_xla(data, points), **TOLERANCE)
    assert float(jnp.max(jnp.abs(found[3] - compiled_band(data, point)))) < 1e-3


def test_vmap_in_vmap_is_one_stack(data, kernels):
    alpha, f1dot = jnp.array([0.2, 1.0, 4.0]), jnp.array([-1e-8, 0.0])

    def of(alpha, f1dot):
        return jfstat.twoF_band(data, jfstat.Doppler(alpha, 0.3, [100.0, f1dot], START))

    found = jax.jit(jax.vmap(jax.vmap(of, (None, 0)), (0, None)))(alpha, f1dot)
    assert kernels[-1] == 6
    each = [[compiled_band(data, jfstat.Doppler(a, 0.3, [100.0, f], START)) for f in f1dot] for a in alpha]
    np.testing.assert_allclose(found, np.asarray(each), **TOLERANCE)


@pytest.mark.ci
def test_stacks_too_large_for_a_launch_are_divided(data, kernels, monkeypatch):
    monkeypatch.setattr(Cuda, "largest_batch", lambda self, layout: 2)
    # XLA may wait for ever for several emulations in one program
    monkeypatch.setattr(Cuda, "band", lambda self, data, points, same_source: band._by_xla(data, points))
    monkeypatch.setattr(Cuda, "ready", lambda self, data: data)
    points = bank(5, False, None)
    found = jax.vmap(jfstat.twoF_band, (None, 0))(data, points)
    assert kernels[-3:] == [2, 2, 1]
    np.testing.assert_allclose(found, by_xla(data, points), **TOLERANCE)


@pytest.mark.ci
def test_stacks_of_data_are_computed_by_xla(data, kernels):
    two = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 2), data)
    points = bank(2, False, None)
    found = jax.vmap(jfstat.twoF_band)(two, points)
    # a program of another shape rounds differently on some processors
    np.testing.assert_allclose(found, by_xla(data, points), **TOLERANCE)
    point = jax.tree.map(lambda x: x[0], points)
    one = jax.vmap(jfstat.twoF_band, (0, None))(two, point)[1]
    np.testing.assert_allclose(one, compiled_band(data, point), **TOLERANCE)


def test_a_template_that_does_not_fit_is_nan(data):
    points = jfstat.Doppler(1.0, 0.3, np.array([[100.0, 0.0], [100.0, -1e-3]]), START)
    found = jax.vmap(jfstat.twoF_band, (None, 0))(data, points)
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


@pytest.mark.ci
def test_derivatives_are_those_of_xla(data):
    weight = jnp.asarray(np.random.default_rng(1).normal(size=data.frequencies.shape))

    def summed(function, x):
        point = jfstat.Doppler(x[0], x[1], [100.0, x[2] * 1e-9], START)
        return jnp.sum(weight * function(data, point).astype(jnp.float64))

    own, other = (jax.jit(jax.vmap(jax.value_and_grad(partial(summed, f)))) for f in (jfstat.twoF_band, compiled_band))
    x = jnp.array([[1.0, 0.3, -2.0], [4.0, -1.0, 0.0]])
    for found, expected in zip(own(x), other(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    direction = jnp.array([1e-4, 2e-4, 1e-2])
    _, slope = jax.jvp(partial(summed, jfstat.twoF_band), (x[0],), (direction,))
    # forward and reverse sums of float32 round differently: the phase itself changes by 3e5 rad per radian of the sky
    np.testing.assert_allclose(slope, own(x)[1][0] @ direction, rtol=1e-2)


def test_derivatives_in_the_data(data):
    """2F is a square: twice itself is its derivative in a factor of the data."""
    point = jax.tree.map(lambda x: x[0], bank(1, False, None))

    def scaled(factor):
        return jfstat.twoF_band(replace(data, filters=tuple(x * factor for x in data.filters)), point)

    value, slope = jax.jit(lambda x: jax.jvp(scaled, (x,), (jnp.ones_like(x),)))(jnp.float32(1))
    np.testing.assert_allclose(slope, 2 * value, rtol=1e-4, atol=1e-4)


def test_an_empty_stack_has_no_values(data):
    none = jax.vmap(jfstat.twoF_band, (None, 0))(data, bank(2, False, None)[:0])
    assert none.shape == (0, len(data.frequencies))


def test_emulation_is_what_ran(data, monkeypatch):
    """The fixture's engine would not notice that XLA computes all: without the kernels nothing may work."""

    def broken(*given):
        raise RuntimeError("no kernels")

    monkeypatch.setattr(emulated, "values", broken)
    with pytest.raises(RuntimeError, match="no kernels"):
        jfstat.twoF_band(noise(["H1"], 12, 0.05), jax.tree.map(lambda x: x[0], bank(2, False, None)))
