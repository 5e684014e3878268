"""Geometry by its properties: inverses, derivatives, definitions. LALSuite is the witness in test_lalsuite_geometry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.geometry.antenna import harmonic_sum, harmonics, pattern_coefficients
from jfstat.geometry.barycenter import Direction, detector_clock, shapiro_delay, ssb_delay
from jfstat.geometry.detectors import DETECTORS, get_detector
from jfstat.geometry.ephemeris import load_ephemeris
from jfstat.geometry.orbit import cubic_error, cubic_length, emission_time, orbit_delay, orbit_speed
from jfstat.geometry.rotation import sidereal_time
from jfstat.geometry.source import source
from jfstat.geometry.trajectory import SEGMENT, detector_trajectory
from jfstat.maths.kepler import kepler, kepler_in_steps, steps_for
from jfstat.maths.vectors import unit_vector
from jfstat.reference import patterns_by_definition

EPOCH = 1_200_000_000
angle = st.floats(0, 2 * np.pi)
latitude = st.floats(-np.pi / 2, np.pi / 2)


@pytest.fixture(scope="module")
def trajectory():
    ephemeris = load_ephemeris("DE405", EPOCH - 20000, EPOCH + 220000, EPOCH)
    return detector_trajectory(get_detector("H1"), ephemeris, 0.0, 200000.0)


@settings(max_examples=50, deadline=None)
@given(st.floats(-20, 20), st.floats(0, 0.99), st.floats(-1, 1), st.floats(-1, 1))
def test_kepler_solves_its_equation(phase, ecc, p, q):
    p, q = np.array([p, q]) * min(0.02, 0.4 * (1 - ecc))
    anomaly = float(jax.jit(kepler)(phase, ecc, p, q))
    residual = anomaly - ecc * np.sin(anomaly) + p * (np.cos(anomaly) - ecc) + q * np.sin(anomaly) - phase
    assert abs(residual) < 1e-12 * max(1, abs(phase))


@pytest.mark.parametrize("ecc", [0.0, 0.3, 0.9, 0.99])
def test_kepler_converges_at_every_phase(ecc):
    small = 10.0 ** np.linspace(-12, 0, 200)  # near periapsis, where an eccentric orbit is hardest
    phase = np.concatenate([small, -small, 2 * np.pi - small, np.linspace(-np.pi, np.pi, 400)])
    for p, q in np.array([(0, 0), (1, 0), (-1, 1), (0, -1)]) * min(0.02, 0.2 * (1 - ecc)):
        anomaly = np.asarray(jax.jit(kepler)(phase, ecc, p, q))
        residual = anomaly - ecc * np.sin(anomaly) + p * (np.cos(anomaly) - ecc) + q * np.sin(anomaly) - phase
        np.testing.assert_allclose(residual, 0, atol=3e-15)


@pytest.mark.slow
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
    arrival = emitted + jax.jit(orbit_delay)(orbit, emitted)
    assert abs(float(jax.jit(emission_time)(orbit, arrival)) - t) < 1e-8


@jax.jit
def delays_slope(orbit, t):
    return jax.vmap(jax.grad(orbit_delay, argnums=1), (None, 0))(orbit, t)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 20), st.floats(7200, 2e6), st.floats(0, 0.8), angle)
def test_orbit_speed_bounds_the_delays_slope(asini, period, ecc, argp):
    orbit = jfstat.Orbit(asini, period, 0.0, ecc, argp)
    slope = delays_slope(orbit, np.linspace(0, period, 500))
    assert np.max(np.abs(slope)) <= float(orbit_speed(orbit)) * (1 + 1e-9)


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
        return f * np.asarray(jax.jit(orbit_delay)(orbit, centre + 0.5 * length * u))

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
    sums = [harmonic_sum(x, jnp.float64(sidereal)) for x in (a, b)]
    np.testing.assert_allclose(sums, np.array(truth)[:, 0], atol=1e-14)


def skies(trajectory):
    """Unit vectors to the source: anywhere, and about the Sun as it stands at 1e5 s, on its disk and at its limb."""
    sun = -np.asarray(trajectory(jnp.float64(1e5)).sun)
    alpha, delta = np.arctan2(sun[1], sun[0]), np.arcsin(sun[2] / np.linalg.norm(sun))
    limb = 2.322 / np.linalg.norm(sun)
    pairs = [(0.1, 0.2), (4.0, -1.2), (2.0, 1.5), (alpha, delta), (alpha, delta + limb), (alpha, delta + 2 * limb)]
    return [unit_vector(*jnp.asarray(pair)) for pair in pairs]


def detector_times(trajectory):
    """Times over the whole table, on both sides of the joints of its pieces too, where a wrong piece would serve."""
    joints = float(trajectory.start) + SEGMENT * np.arange(1, 27)
    near = (joints[:, None] + [-600, -0.1, -1e-4, 1e-4, 0.1, 600]).ravel()
    return jnp.asarray(np.concatenate([near, np.random.default_rng(0).uniform(0, 200000, 200), [0.0, 200000.0]]))


@pytest.mark.ci
def test_detector_clock_inverts_the_delay_to_rounding(trajectory):
    t = detector_times(trajectory)
    for n in skies(trajectory):
        to = Direction(n, None, 0.0)

        def delays(t, to=to):
            state = trajectory(t)
            return ssb_delay(state, t, to), to.along(state.position, t) + state.einstein

        (delay, _), (slope, without_shapiro) = jax.jvp(delays, (t,), (jnp.ones_like(t),))
        back, rate = jax.jit(detector_clock)(trajectory, t + delay, to)
        # arrival and result are rounded to 1.5e-11 each, above 131072 s
        np.testing.assert_allclose(back, t, rtol=0, atol=4e-11)
        np.testing.assert_allclose(rate, 1 / (1 + without_shapiro), rtol=0, atol=2e-12)
        np.testing.assert_allclose(rate, 1 / (1 + slope), rtol=0, atol=1e-9)
        early = np.asarray(t) < 4000
        np.testing.assert_allclose(back[early], t[early], rtol=0, atol=2e-12)


@pytest.mark.ci
@pytest.mark.parametrize("orbit", [None, jfstat.Orbit(1.2, 40000.0, EPOCH + 1000.25, 0.3, 0.7)])
@pytest.mark.parametrize("motion", [None, (3e-11, -2e-11)])
def test_a_sources_clock_inverts_its_delay_and_gives_its_slope(trajectory, orbit, motion):
    point = jfstat.Doppler(4.0, -0.3, [100.0], orbit=orbit, motion=motion)
    seen = source(point, jnp.asarray(EPOCH), jnp.zeros(()), jnp.asarray(1e5))
    t = jnp.linspace(1000, 190000, 50)
    delay, slope = jax.jvp(lambda t: seen.delay(trajectory, t), (t,), (jnp.ones_like(t),))
    back, rate = seen.clock(trajectory, t + delay)
    np.testing.assert_allclose(back, t, rtol=0, atol=1e-10)
    np.testing.assert_allclose(rate, 1 / (1 + slope), rtol=0, atol=5e-12)  # far from the Sun


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [4.0, 0.1])
def test_derivatives_of_the_detector_clock_to_second_order(trajectory, alpha):
    def clock(x):
        to = Direction(unit_vector(x[0], x[1]), None, jnp.zeros(()))
        return jnp.stack(detector_clock(trajectory, 1e5 + x[2], to))

    x = jnp.array([alpha, 0.3, -50000.0])
    first, second = jax.jit(jax.jacrev(clock)), jax.jit(jax.jacfwd(jax.jacrev(clock)))

    def differences(f, k):
        d = jnp.zeros(3).at[k].set(200.0 if k == 2 else 1e-3)
        near, far = (f(x + d) - f(x - d)) / (2 * d[k]), (f(x + 2 * d) - f(x - 2 * d)) / (4 * d[k])
        return (4 * near - far) / 3

    for k in range(3):
        # the rate, 1 + 1e-4, keeps 12 digits of what changes in it
        np.testing.assert_allclose(first(x)[0, k], differences(clock, k)[0], rtol=1e-8)
        np.testing.assert_allclose(first(x)[1, k], differences(clock, k)[1], rtol=1e-6, atol=1e-15)
        # differences keep 12 digits of the largest derivative, and so 6 of the smallest
        np.testing.assert_allclose(second(x)[0, :, k], differences(first, k)[0], rtol=1e-7, atol=1e-17)
        np.testing.assert_allclose(second(x)[1, :, k], differences(first, k)[1], rtol=1e-5)
        np.testing.assert_allclose(jax.jacfwd(clock)(x)[..., k], first(x)[..., k], rtol=1e-12)


def test_sidereal_time_of_a_trajectory_is_the_states(trajectory):
    t = detector_times(trajectory)
    np.testing.assert_allclose(trajectory.sidereal(t), trajectory(t).sidereal, rtol=0, atol=5e-10)


def test_shapiro_delay_and_its_gradient_are_finite_and_continuous_everywhere():
    sun = jnp.array([499.0, 0.0, 0.0])  # Sun to Earth: the Sun is seen towards -x

    def delay(theta):
        n = jnp.array([-jnp.cos(theta), jnp.sin(theta), 0.0])
        return shapiro_delay(sun @ n, sun @ sun)

    for impact in (0.0, 1e-6, 1.0, 2.3219, 2.3221, 50.0):
        assert np.isfinite(delay(np.arcsin(impact / 499.0)))
        assert np.isfinite(jax.grad(delay)(np.arcsin(impact / 499.0)))
    inside, outside = (delay(x) for x in np.arcsin(np.array([2.32199, 2.32201]) / 499))
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


@pytest.mark.parametrize("ecc", [0.0, 9e-4, 1e-3, 0.29, 0.3, 0.9])
def test_a_known_number_of_steps_solves_keplers_equation(ecc):
    cycles = jnp.asarray(np.linspace(-3, 3, 4001))
    for p, q in ((0.0, 0.0), (1e-3, 0.0), (-7e-4, 7e-4), (0.05, 0.05)):
        args = jnp.float64(ecc), jnp.float64(p), jnp.float64(q)
        expected = kepler(2 * np.pi * cycles, *args)
        cos, sin = kepler_in_steps(cycles, *args, steps_for(max(ecc, np.hypot(p, q) - 1e-12)))
        np.testing.assert_allclose(cos, np.cos(expected), rtol=0, atol=1e-8)
        np.testing.assert_allclose(sin, np.sin(expected), rtol=0, atol=1e-8)
