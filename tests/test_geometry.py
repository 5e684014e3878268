"""Geometry by its properties: inverses, derivatives, definitions. LALSuite is the witness in test_lalsuite_geometry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.geometry.antenna import harmonics, pattern_coefficients
from jfstat.geometry.barycenter import detector_time, shapiro_delay, sky_vector, ssb_delay
from jfstat.geometry.detectors import DETECTORS, get_detector
from jfstat.geometry.ephemeris import load_ephemeris
from jfstat.geometry.orbit import cubic_error, cubic_length, emission_time, kepler, orbit_delay, orbit_speed
from jfstat.geometry.rotation import sidereal_time
from jfstat.geometry.trajectory import detector_trajectory
from jfstat.reference import patterns_by_definition

EPOCH = 1_200_000_000
angle = st.floats(0, 2 * np.pi)
latitude = st.floats(-np.pi / 2, np.pi / 2)


@pytest.fixture(scope="module")
def trajectory():
    ephemeris = load_ephemeris("DE405", EPOCH - 20000, EPOCH + 220000, EPOCH)
    return detector_trajectory(get_detector("H1"), ephemeris, 0.0, 200000.0)


@settings(max_examples=50, deadline=None)
@given(st.floats(-20, 20), st.floats(0, 0.95), st.floats(-0.02, 0.02), st.floats(-0.02, 0.02))
def test_kepler_solves_its_equation(phase, ecc, p, q):
    anomaly = float(kepler(jnp.float64(phase), jnp.float64(ecc), jnp.float64(p), jnp.float64(q)))
    residual = anomaly - ecc * np.sin(anomaly) + p * (np.cos(anomaly) - ecc) + q * np.sin(anomaly) - phase
    assert abs(residual) < 1e-12 * max(1, abs(phase))


@settings(max_examples=20, deadline=None)
@given(st.floats(-3, 3), st.floats(0.0, 0.8), st.floats(-0.01, 0.01), st.floats(-0.01, 0.01))
def test_kepler_derivatives_to_second_order(phase, ecc, p, q):
    x = jnp.array([phase, ecc, p, q])

    def f(x):
        return kepler(x[0], x[1], x[2], x[3])

    h = 1e-5
    for k in range(4):
        d = jnp.zeros(4).at[k].set(h)
        first = (f(x + d) - f(x - d)) / (2 * h)
        second = (jax.grad(f)(x + d) - jax.grad(f)(x - d)) / (2 * h)
        np.testing.assert_allclose(jax.grad(f)(x)[k], first, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(jax.hessian(f)(x)[k], second, rtol=1e-5, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 20), st.floats(7200, 2e6), st.floats(0, 0.8), angle, st.floats(-1e6, 1e6))
def test_emission_time_inverts_orbit_delay(asini, period, ecc, argp, t):
    orbit = jfstat.Orbit(asini, period, 0.0, ecc, argp)
    emitted = jnp.float64(t)
    arrival = emitted + orbit_delay(orbit, emitted, orbit.tp)
    assert abs(float(emission_time(orbit, arrival, orbit.tp)) - t) < 1e-8


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 20), st.floats(7200, 2e6), st.floats(0, 0.8), angle)
def test_orbit_speed_bounds_the_delays_slope(asini, period, ecc, argp):
    orbit = jfstat.Orbit(asini, period, 0.0, ecc, argp)
    t = jnp.linspace(0, period, 500)
    slope = jax.vmap(jax.grad(lambda x: orbit_delay(orbit, x, orbit.tp)))(t)
    assert float(jnp.max(jnp.abs(slope))) <= float(orbit_speed(orbit)) * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 10), st.floats(7200, 1e5), st.floats(0, 0.7), angle, st.floats(0, 1))
def test_cubic_error_bounds_what_a_block_gets_wrong(asini, period, ecc, argp, where):
    orbit = jfstat.Orbit(asini, period, 0.0, ecc, argp)
    f, cycles = 500.0, 1e-5
    length = float(cubic_length(orbit, f, cycles))
    np.testing.assert_allclose(cubic_error(orbit, f, length), cycles, rtol=1e-9)
    u = np.cos(np.pi * (np.arange(4) + 0.5) / 4)
    fine = np.linspace(-1, 1, 41)
    centre = where * period

    def phase(u):
        return f * np.asarray(orbit_delay(orbit, jnp.asarray(centre + 0.5 * length * u), orbit.tp))

    fit = np.polynomial.Polynomial.fit(u, phase(u) - phase(np.zeros(1)), 3)(fine)
    assert np.max(np.abs(fit - (phase(fine) - phase(np.zeros(1))))) < 1.2 * cycles


@settings(max_examples=30, deadline=None)
@given(angle, latitude, angle, st.sampled_from(sorted(DETECTORS)))
def test_patterns_follow_their_definition(alpha, delta, sidereal, name):
    response = get_detector(name).response
    a, b = pattern_coefficients(jnp.asarray(response), jnp.float64(alpha), jnp.float64(delta))
    h = harmonics(jnp.array([sidereal]))
    truth = patterns_by_definition(response, np.array([sidereal]), alpha, delta)
    np.testing.assert_allclose([(h @ a)[0], (h @ b)[0]], np.array(truth)[:, 0], atol=1e-14)


def test_detector_time_inverts_the_delay_with_its_derivatives(trajectory):
    rng = np.random.default_rng(0)
    t = jnp.asarray(rng.uniform(2000, 190000, 50))
    for alpha, delta in [(0.1, 0.2), (4.0, -1.2), (2.0, 1.5)]:
        n = sky_vector(jnp.float64(alpha), jnp.float64(delta))
        arrival = t + ssb_delay(trajectory(t), n)
        np.testing.assert_allclose(detector_time(trajectory, arrival, n), t, atol=2e-10)

    def back(alpha, tau):
        return detector_time(trajectory, tau, sky_vector(alpha, jnp.float64(0.3)))

    for k, h in ((0, 1e-4), (1, 50.0)):
        x = [jnp.float64(4.0), jnp.float64(50000.0)]
        up, down = list(x), list(x)
        up[k], down[k] = x[k] + h, x[k] - h
        slope = jax.grad(back, argnums=k)
        np.testing.assert_allclose(slope(*x), (back(*up) - back(*down)) / (2 * h), rtol=1e-6)
        second = (slope(*up) - slope(*down)) / (2 * h)
        np.testing.assert_allclose(jax.grad(slope, argnums=k)(*x), second, rtol=1e-4)


def test_shapiro_delay_and_its_gradient_are_finite_and_continuous_everywhere():
    sun = jnp.array([499.0, 0.0, 0.0])  # Sun to Earth: the Sun is seen towards -x
    for impact in (0.0, 1e-6, 1.0, 2.3219, 2.3221, 50.0):
        theta = np.arcsin(impact / 499.0)
        n = jnp.array([-np.cos(theta), np.sin(theta), 0.0])
        assert np.isfinite(shapiro_delay(sun, n))
        assert np.all(np.isfinite(jax.grad(shapiro_delay, argnums=1)(sun, n)))
    inside, outside = (
        shapiro_delay(sun, jnp.array([-np.cos(x), np.sin(x), 0.0]))
        for x in np.arcsin(np.array([2.32199, 2.32201]) / 499)
    )
    assert abs(float(inside - outside)) < 1e-9


def test_sidereal_time_runs_a_turn_a_sidereal_day_and_is_continuous_across_midnight():
    t = np.arange(0, 3 * 86400, 100.0)
    g = sidereal_time(EPOCH, t)
    np.testing.assert_allclose(np.diff(g), 100 * 2 * np.pi / 86164.0905, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_trajectory_takes_any_shape(trajectory, shape):
    state = trajectory(jnp.full(shape, 5000.0))
    assert state.position.shape == (*shape, 3)
    assert state.einstein.shape == state.sidereal.shape == shape
    np.testing.assert_allclose(np.linalg.norm(np.asarray(state.position), axis=-1), 499, rtol=0.03)
