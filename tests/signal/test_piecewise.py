"""Piecewise phases and constant braking indices, beside LALSuite and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat

KNOTS = np.array([0.0, 1000.0, 2500.0, 3100.0])


def random_model(s, seed, knots=KNOTS):
    values = np.random.default_rng(seed).normal(size=(len(knots), s)) * np.array([1.0, 1e-3, 1e-6])[:s]
    return jfstat.piecewise_model(knots, *values.T), values


def test_polynomials_are_those_of_lalsuite():
    """ParamTransformationMatrix takes the values at two knots to a Taylor series at any time in between."""
    pytest.importorskip("lalpulsar")
    from lalpulsar.piecewise_model.gte_and_other_methods import ParamTransformationMatrix

    model, values = random_model(3, 1)
    for k, where in ((0, 0.3), (1, 0.71), (2, 0.5)):
        start, end = KNOTS[k : k + 2]
        t = start + where * (end - start)
        lal = ParamTransformationMatrix(start, end, t, 3) @ values[k : k + 2].reshape(-1)
        frequency = lambda x: model.frequency(x[None])[0]  # noqa: E731
        found, slope = frequency(jnp.asarray(t)), jax.grad(frequency)(jnp.asarray(t))
        np.testing.assert_allclose([found, slope], lal[:2], rtol=1e-11)


def test_cubics_are_those_of_scipy():
    from scipy.interpolate import CubicHermiteSpline

    model, values = random_model(2, 1)
    t = np.linspace(0.5, KNOTS[-1] - 0.5, 301)
    spline = CubicHermiteSpline(KNOTS, *values.T)
    np.testing.assert_allclose(model.frequency(jnp.asarray(t)), spline(t), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(model.cycles(jnp.asarray(t)), spline.antiderivative()(t), rtol=1e-11, atol=1e-9)


@pytest.mark.ci
@given(st.integers(2, 3), st.integers(0, 10**6), st.lists(st.floats(1.0, 1e5), min_size=1, max_size=5))
@settings(max_examples=6, deadline=None)
def test_values_at_the_knots_and_continuity(s, seed, lengths):
    knots = np.concatenate([[0.0], np.cumsum(lengths)])
    model, values = random_model(s, seed, knots)
    drift, slope = jax.vmap(jax.value_and_grad(lambda t: model.frequency(t[None])[0]))(jnp.asarray(knots))
    np.testing.assert_allclose(drift, values[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slope, values[:, 1], rtol=1e-7, atol=1e-12)
    assert model.cycles(jnp.asarray(knots[:1])) == 0
    step = 1e-4 * min(lengths)
    either = np.asarray(model.cycles(jnp.asarray(knots)[:, None] + jnp.array([-step, step])))
    rounding = 1e-15 * (1 + np.max(np.abs(either)))
    np.testing.assert_allclose(np.diff(either)[:, 0], 2 * step * values[:, 0], rtol=1e-2, atol=rounding + 1e-6 * step)


def test_beyond_the_knots_the_frequency_is_a_taylor_series():
    model, values = random_model(3, 5)
    for end, beyond in ((0, -400.0), (-1, 250.0)):
        t = KNOTS[end] + beyond
        f, f1, f2 = values[end]
        assert model.frequency(jnp.array([t]))[0] == pytest.approx(f + f1 * beyond + 0.5 * f2 * beyond**2, rel=1e-12)
    ends = model.frequency(jnp.asarray(KNOTS[[0, -1]]))
    np.testing.assert_allclose(ends, values[[0, -1], 0], rtol=1e-12)


@pytest.mark.ci
def test_gradients_of_twoF_by_the_values_at_the_knots():
    start = 1167458304
    knots = np.array([0.0, 20000.0, 43200.0])
    freq, f1dot, _ = jfstat.braking_evolution(100.01, -2e-7, 4.0, knots)
    model = jfstat.piecewise_model(knots, freq - 100.01, f1dot)
    point = jfstat.Doppler(2.1, 0.47, [100.01], start, model=model)
    sfts = jfstat.simulate_sfts(
        ["H1"], start, 43200, 99.5, 100.5, sqrt_sx=1e-23, signals=[(point, jfstat.Amplitude(1e-24, 0.3))]
    )
    data = jfstat.prepare(sfts, 100.0, 100.02, reftime=start)
    slope = jax.grad(jfstat.twoF, argnums=1)(data, point).model.parameters
    for name, k, step in (("drift", 1, 1e-6), ("f1dot", 0, 1e-10), ("f1dot", 2, 1e-10)):
        moved = [
            jfstat.twoF(data, _with(point, name, k, float(model.parameters[name][k]) + sign * step)) for sign in (1, -1)
        ]
        assert float(slope[name][k]) == pytest.approx(float(moved[0] - moved[1]) / (2 * step), rel=2e-3)


def _with(point, name, k, value):
    parameters = dict(point.model.parameters)
    parameters[name] = parameters[name].at[k].set(value)
    return jfstat.Doppler(
        point.alpha, point.delta, point.fkdot, point.reftime, model=jfstat.PhaseModel(point.model.function, parameters)
    )


@pytest.mark.parametrize("n", [1.5, 3.0, 5.0, 7.0])
def test_braking_evolution_is_the_general_torque_equation(n):
    pytest.importorskip("lalpulsar")
    from lalpulsar.piecewise_model.gte_and_other_methods import gte

    f0, f1dot = 700.0, -3e-3
    t = np.linspace(0.0, 1e5, 11)
    freq, slope, second = jfstat.braking_evolution(f0, f1dot, n, t)
    np.testing.assert_allclose(freq, gte(t, f0, n, -f1dot / f0**n), rtol=1e-12)
    np.testing.assert_allclose(slope, f1dot * (freq / f0) ** n, rtol=1e-12)
    np.testing.assert_allclose(freq * second / slope**2, n, rtol=1e-12)
    derivative = jax.vmap(jax.grad(lambda t: jfstat.braking_evolution(f0, f1dot, n, t)[0]))(t)
    np.testing.assert_allclose(derivative, slope, rtol=1e-10)


def test_a_braking_index_of_one_is_an_exponential_and_has_a_slope():
    freq, f1dot, _ = jfstat.braking_evolution(100.0, -1e-3, 1.0, 1e5)
    assert float(freq) == pytest.approx(100 * np.exp(-1.0)) and float(f1dot) == pytest.approx(-1e-3 * np.exp(-1.0))
    near = jfstat.braking_evolution(100.0, -1e-3, 1.0 + 1e-9, 1e5)[0]
    assert float(near) == pytest.approx(float(freq), rel=1e-8)
    assert np.isfinite(jax.grad(lambda t: jfstat.braking_evolution(100.0, -1e-3, 1.0, t)[0])(1e5))
    for n in (1.0, 1.0 + 1e-12, 1.0001, 1.0009, 1.002):  # on both sides of where the series ends
        slope = jax.grad(lambda n: jfstat.braking_evolution(100.0, -1e-3, n, 1e5)[0])(n)
        ends = [jfstat.braking_evolution(100.0, -1e-3, n + step, 1e5)[0] for step in (1e-4, -1e-4)]
        assert float(slope) == pytest.approx(float(ends[0] - ends[1]) / 2e-4, rel=1e-6)
    with jax.numpy_rank_promotion("raise"):
        assert jfstat.braking_evolution(np.ones((3, 1)), -1e-3, 2.0, np.zeros(4))[0].shape == (3, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [0.0], [0.0]), "knots must be two or more ascending times"),
        (([0.0, 2.0, 1.0], np.zeros(3), np.zeros(3)), "knots must be two or more ascending times"),
        (([0.0, 1.0], np.zeros(3), np.zeros(2)), "drift must have one value for each of the 2 knots"),
        (([0.0, 1.0], np.zeros(2), np.zeros(2), np.zeros(1)), "f2dot must have one value for each of the 2 knots"),
        (([0.0, np.inf], np.zeros(2), np.zeros(2)), "knots must"),
        (([0.0, 1.0], np.full(2, np.nan), np.zeros(2)), "drift must be finite"),
        (([0.0, 1.0], np.zeros((3, 2)), np.zeros((4, 2))), "f1dot has the shape"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        jfstat.piecewise_model(*arguments)
