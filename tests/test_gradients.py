"""Derivatives of 2F against central differences, and its life under JAX's transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat

ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.1e9 + 0.25, ecc=0.3, argp=0.7)


def off_peak(case):
    """A template a quarter of a bin beside the signal, where no derivative vanishes."""
    p = case.doppler
    fkdot = np.asarray(p.fkdot) + np.array([0.25 / case.data.tspan, 0, 0])
    return jfstat.Doppler(p.alpha, p.delta, fkdot, p.reftime, p.orbit)


@pytest.fixture(scope="module", params=["isolated", "binary"])
def case(request):
    orbit = ORBIT if request.param == "binary" else None
    return make(437.0, seed=17, days=1, noise=True, h0=6e-25, orbit=orbit, reach=0.2, fkdot=(-1e-9, 1e-17))


def test_gradient_in_every_parameter_against_central_differences(case):
    point = off_peak(case)
    leaves, tree = jax.tree.flatten(point)
    flat = jnp.concatenate([x.ravel() for x in leaves])

    @jax.jit
    def value(x):
        parts = jnp.split(x, np.cumsum([leaf.size for leaf in leaves])[:-1])
        return jfstat.twoF(
            case.data, jax.tree.unflatten(tree, [p.reshape(x.shape) for p, x in zip(parts, leaves, strict=True)])
        )

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


def test_transformations_compose(case):
    point = off_peak(case)
    stack = jax.tree.map(lambda x: jnp.stack([x, x * (1 + 1e-12)]), point)
    batched = jax.jit(jax.vmap(jax.value_and_grad(jfstat.twoF, argnums=1), (None, 0)))(case.data, stack)
    value, gradient = jax.value_and_grad(jfstat.twoF, argnums=1)(case.data, point)
    np.testing.assert_allclose(batched[0][0], value, rtol=1e-9)
    for batch, single in zip(jax.tree.leaves(batched[1]), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(batch[0], single, rtol=1e-6)
    assert jnp.isfinite(jax.grad(lambda p: jax.jit(jfstat.twoF)(case.data, p))(point).alpha)


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


def test_template_outside_the_band_is_nan_under_transformations_and_an_error_outside(case):
    f = case.data.frequencies[-1] + 5.0
    p = case.doppler
    outside = jfstat.Doppler(p.alpha, p.delta, [f], p.reftime)
    with pytest.raises(ValueError, match="outside the data's band"):
        jfstat.twoF(case.data, outside)
    assert np.isnan(jax.jit(jfstat.twoF)(case.data, outside))


def test_new_data_and_templates_of_the_same_shape_compile_nothing():
    # other numbers in every leaf, the same structure
    case = make(100.0, seed=1)
    traces = []

    @jax.jit
    def counted(data, point):
        traces.append(1)
        return jfstat.twoF_band(data, point)

    counted(case.data, case.doppler)
    p = case.doppler
    other = jax.tree.map(lambda x: x * 0.5, case.data)
    counted(other, p)
    counted(case.data, jfstat.Doppler(float(p.alpha) + 1, np.float32(0.3), (100, -1e-10), int(p.reftime)))
    assert len(traces) == 1


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
