"""Derivatives of 2F against central differences, and its life under JAX's transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.signal.values import with_fields

ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.1e9 + 0.25, ecc=0.3, argp=0.7)


def off_peak(case):
    """A template a quarter of a bin beside the signal, where no derivative vanishes."""
    p = case.doppler
    fkdot = np.asarray(p.fkdot) + np.array([0.25 / case.data.tspan, 0, 0])
    return jfstat.Doppler(p.alpha, p.delta, fkdot, p.reftime, p.orbit)


@pytest.fixture(scope="module", params=["binary", pytest.param("isolated", marks=pytest.mark.slow)])
def case(request):
    orbit = ORBIT if request.param == "binary" else None
    return make(437.0, seed=17, days=1, noise=True, h0=6e-25, orbit=orbit, reach=0.2, fkdot=(-1e-9, 1e-17))


def test_gradient_in_every_parameter_against_central_differences(case):
    point = off_peak(case)
    leaves, tree = jax.tree.flatten(with_fields(point, reftime=None))
    flat = jnp.concatenate([x.ravel() for x in leaves])

    @jax.jit
    def value(x):
        parts = jnp.split(x, np.cumsum([leaf.size for leaf in leaves])[:-1])
        moved = jax.tree.unflatten(tree, [p.reshape(x.shape) for p, x in zip(parts, leaves, strict=True)])
        return jfstat.twoF(case.data, with_fields(moved, reftime=point.reftime))

    gradient, hessian = jax.grad(value)(flat), jax.jit(jax.hessian(value))(flat)
    for k in range(len(flat)):
        # the step on which 2F's curvature alone would change it by 1e-4 of itself
        step = float(jnp.sqrt(2e-4 * value(flat) / abs(hessian[k, k])))
        d = jnp.zeros_like(flat).at[k].set(step)
        actual = (flat + d)[k] - (flat - d)[k]  # what float64 makes of the step
        near = (value(flat + d) - value(flat - d)) / actual
        far = (value(flat + 2 * d) - value(flat - 2 * d)) / (2 * actual)
        difference = (4 * near - far) / 3
        scale = max(abs(float(gradient[k])), 0.05 * abs(float(hessian[k, k])) * step * 50)
        assert abs(float(difference - gradient[k])) < 1e-5 * scale, (k, difference, gradient[k])


def test_gradient_vanishes_at_the_signal():
    case = make(100.0, seed=2)
    gradient = jax.grad(jfstat.twoF, argnums=1)(case.data, case.doppler)
    # a bin of frequency, 1/T, is the scale on which 2F changes by itself
    slope = float(gradient.fkdot[0]) / case.data.tspan
    assert abs(slope) < 2e-3 * case.rho2


@pytest.mark.ci
def test_transformations_compose(case):
    point = off_peak(case)
    stack = jax.tree.map(lambda x: jnp.stack([x, x * (1 + 1e-12)]), point)
    batched = jax.jit(jax.vmap(jax.value_and_grad(jfstat.twoF, argnums=1), (None, 0)))(case.data, stack)
    value, gradient = jax.value_and_grad(jfstat.twoF, argnums=1)(case.data, point)
    np.testing.assert_allclose(batched[0][0], value, rtol=1e-9)
    for batch, single in zip(jax.tree.leaves(batched[1]), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(batch[0], single, rtol=1e-6)
    assert jnp.isfinite(jax.grad(lambda p: jax.jit(jfstat.twoF)(case.data, p))(point).alpha)


@pytest.mark.slow
def test_jvp_through_band_equals_gradient_of_the_direct_sum(case):
    point = case.doppler
    zero = jax.tree.map(jnp.zeros_like, point)
    f = case.data.frequencies
    bins = np.random.default_rng(0).integers(0, len(f), 12)

    def at(x):
        return jfstat.Doppler(point.alpha, point.delta, jnp.append(x, point.fkdot[1:]), point.reftime, point.orbit)

    gradients = jax.jit(jax.vmap(lambda x: jax.grad(jfstat.twoF, argnums=1)(case.data, at(x))))(f[bins])
    names = ["alpha", "delta"] + (["asini", "tp", "ecc"] if point.orbit is not None else [])
    for name in names:
        part = (lambda d: d.orbit) if name not in ("alpha", "delta") else (lambda d: d)
        direction = tangent_of(zero, name)
        _, tangent = jax.jvp(lambda p: jfstat.twoF_band(case.data, p), (point,), (direction,))
        truth = np.asarray(getattr(part(gradients), name))
        # the band's interpolation is right to 4e-6 of 2F, its slope in samples to some ten times that
        assert np.linalg.norm(np.asarray(tangent)[bins] - truth) < 1e-3 * np.linalg.norm(truth), name


def tangent_of(zero, name):
    """A tangent that is 1 in one scalar field and 0 elsewhere."""
    paths, tree = jax.tree_util.tree_flatten_with_path(zero)
    leaves = [jnp.ones_like(x) if jax.tree_util.keystr(path).endswith("." + name) else x for path, x in paths]
    return jax.tree.unflatten(tree, leaves)


@pytest.mark.ci
def test_jvp_through_band_follows_finite_differences(case):
    point, step = case.doppler, 3e-7
    direction = tangent_of(jax.tree.map(jnp.zeros_like, point), "alpha")
    _, tangent = jax.jvp(lambda p: jfstat.twoF_band(case.data, p), (point,), (direction,))

    def moved(sign):
        shifted = jax.tree.map(lambda x, d: x + sign * step * d, point, direction)
        return np.asarray(jfstat.twoF_band(case.data, shifted), float)

    difference = (moved(1) - moved(-1)) / (2 * step)
    # single precision in the band leaves 1e-6 of 2F, this step changes it by some 1e-2
    assert np.linalg.norm(difference - np.asarray(tangent)) < 1e-3 * np.linalg.norm(difference)


MISFITS = {
    "frequency": dict(fkdot=[101.0]),
    "frequency in the Doppler margin": dict(fkdot=[100.11]),
    "spin-down": dict(fkdot=[100.0, -3e-6]),
    "far reference time": dict(fkdot=[100.0, -1e-9], reftime=1_100_000_000 - 20 * 365 * 86400),
    "wide orbit": dict(fkdot=[100.0], orbit=jfstat.Orbit(20.0, 8000.0, 1.1e9)),
    "tight orbit": dict(fkdot=[100.0], orbit=jfstat.Orbit(0.008, 60.0, 1.1e9)),
}


SLOW_MISFITS = ("far reference time", "spin-down")
JITTED = {
    "gradient": jax.jit(jax.value_and_grad(jfstat.twoF, argnums=1)),
    "fstat": jax.jit(jfstat.fstat),
    "amplitude": jax.jit(jfstat.estimate_amplitude),
    "band": jax.jit(jfstat.twoF_band),
}
"""Shared, so that templates of one shape compile once."""


@pytest.fixture(scope="module")
def plain():
    return make(100.0, seed=1)


@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW_MISFITS else k for k in MISFITS])
def test_templates_that_do_not_fit_are_errors_or_nan_with_their_gradients(plain, name):
    data = plain.data
    point = jfstat.Doppler(plain.doppler.alpha, plain.doppler.delta, **MISFITS[name])
    value, gradient = JITTED["gradient"](data, point)
    assert np.isnan(value)
    assert all(np.isnan(x).all() for x in jax.tree.leaves((gradient.alpha, gradient.delta)))
    with pytest.raises(ValueError, match="prepare"):
        jfstat.twoF(data, point)
    assert np.isnan(JITTED["fstat"](data, point).twoF)
    assert np.isnan(JITTED["amplitude"](data, point).amplitude.h0)
    if not name.startswith("frequency"):
        assert np.isnan(np.asarray(JITTED["band"](data, point))).all()


def test_spin_down_far_from_the_reference_time_needs_fdots_and_is_then_found():
    start, f1dot = 1_100_000_000, -5e-9
    signal = jfstat.Doppler(1.0, 0.5, [100.0, f1dot], start - 182 * 86400)
    amplitude = jfstat.Amplitude(2e-25, 0.3)
    now = 100.0 + f1dot * 182 * 86400
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], start, 86400, fmin=now - 1.3, fmax=101.3, sqrt_sx=None, signals=[(signal, amplitude)]
    )
    plain = jfstat.prepare(sfts, 99.95, 100.05, signal.reftime, 4e-24)
    with pytest.raises(ValueError, match="fdots"):
        jfstat.twoF(plain, signal)
    with pytest.raises(ValueError, match="fdots"):
        jfstat.twoF_band(plain, signal)
    data = jfstat.prepare(sfts, 99.95, 100.05, signal.reftime, 4e-24, fdots=[(-6e-9, 0.0)])
    rho2 = float(jfstat.predict_twoF(data, signal, amplitude)) - 4
    assert 0.9995 < float(jfstat.twoF(data, signal)) / rho2 < 1.0003
    band = np.asarray(jfstat.twoF_band(data, signal))
    assert abs(data.frequencies[np.argmax(band)] - 100.0) < 1 / data.tspan


def test_new_data_and_templates_of_the_same_shape_compile_nothing():
    def prepared(seed, fmin):
        sfts = jfstat.simulate_sfts("H1", 1_100_000_000, 43200, fmin=98.5, fmax=101.5, seed=seed)
        return jfstat.prepare(sfts, fmin, fmin + 0.1)

    traces = []

    @jax.jit
    def counted(data, point):
        traces.append(1)
        return jfstat.twoF_band(data, point)

    first, second = prepared(1, 100.0), prepared(2, 99.9)
    assert not np.array_equal(first.series, second.series)
    counted(first, jfstat.Doppler(1.0, 0.5, [100.0, -1e-9], 1_100_000_000))
    counted(second, jfstat.Doppler(np.float32(1.0), 0, (100, -1e-10), np.int64(1_100_000_000)))
    assert len(traces) == 1


def test_data_can_be_looked_at_inside_and_outside_of_transformations():
    data = make(100.0, seed=1).data
    assert "guard" in repr(data)
    assert "FstatData" in repr(jax.tree.map(jnp.shape, data))
    assert "FstatData" in repr(jax.eval_shape(lambda d: d, data))
    np.testing.assert_allclose(jax.jit(lambda d: d.frequencies)(data), data.frequencies)


def test_per_sample_work_of_the_band_is_in_single_precision():
    """No float64 or complex128 array as long as the data anywhere in the program of twoF_band."""
    case = make(100.0, seed=1)
    n = case.data.layout.n_fft
    closed = jax.make_jaxpr(jfstat.twoF_band)(case.data, case.doppler)
    wide = []

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            for variable in equation.outvars:
                shaped = variable.aval
                if np.prod(shaped.shape) >= n and shaped.dtype in (jnp.float64, jnp.complex128):
                    wide.append((equation.primitive.name, shaped))
            for parameter in equation.params.values():
                inner = getattr(parameter, "jaxpr", parameter)
                if hasattr(inner, "eqns"):
                    walk(inner)

    walk(closed.jaxpr)
    assert not wide
