"""Transient windows with smooth edges: direct sums, limits, derivatives, and an optimiser that needs them."""

from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jfstat
from jfstat.reference import direct_fa_fb, patterns_by_definition

START = 1_130_000_000
POINT = jfstat.Doppler(1.7, 0.4, [90.0, -1e-9], START)
LOUD = jfstat.Amplitude(4e-24, 0.2, 0.3, 1.0)
OFFSET, TAU = 51234.5, {"rectangular": 41000.0, "exponential": 20000.0}
HOUR = 3600.0


def falling(x):
    """A user's shape that is not flat at its ends."""
    return 1 - 0.3 * x - 0.2 * x * x


def tapered(shape, taper, t0=OFFSET, tau=None, **more):
    """A window with its start in s since START."""
    return jfstat.TransientWindow(
        shape, START + t0, TAU.get(shape, 50000.0) if tau is None else tau, taper=taper, **more
    )


@pytest.fixture(scope="module")
def case():
    """Two days of two detectors with gaps, a transient signal of half a day in noise."""
    rng = np.random.default_rng(5)
    times = {name: START + 1800 * np.sort(rng.choice(96, 80, replace=False)) for name in ("H1", "L1")}
    signal = (POINT, LOUD, tapered("rectangular", 2 * HOUR))
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=88, fmax=92, sqrt_sx=2e-23, signals=[signal], seed=1
    )
    data = jfstat.prepare(sfts, 89.98, 90.02, sqrt_sx=2e-23)
    return SimpleNamespace(data=data, atoms=jfstat.atoms(data, POINT))


def step(u):
    """The taper by its definition."""
    u = np.clip(u, 0, 1)
    return 10 * u**3 - 15 * u**4 + 6 * u**5


def by_definition(window, t):
    """Values of a window at times in s since START, in NumPy."""
    t0, tau, taper = (float(x) for x in (window.t0 - START, window.tau, window.taper))
    rise, fall = (step((t - x) / taper + 0.5) for x in (t0, t0 + window.end * tau))
    x = (t - t0) / tau
    if callable(window.shape):
        return np.asarray(window.shape(np.clip(x, 0, window.end))) * rise * (1 - fall)
    return (np.exp(-x) if window.shape == "exponential" else 1.0) * rise * (1 - fall)


@pytest.mark.parametrize("shape", ["rectangular", "exponential", falling])
@pytest.mark.parametrize("taper", [700.0, 2 * HOUR, 20000.0])
def test_values_and_means(shape, taper):
    window = tapered(shape, taper)
    t = np.linspace(-1e4, 2e5, 2_100_001)
    truth = by_definition(window, t)
    np.testing.assert_allclose(window.value(t[::100], START), truth[::100], atol=1e-12)
    edges = np.sort(np.random.default_rng(0).choice(len(t), 300, replace=False))
    upto = np.concatenate([[0.0], np.cumsum(0.5 * np.diff(t) * (truth[1:] + truth[:-1]))])
    expected = np.diff(upto[edges]) / np.diff(t[edges])
    low, high = jnp.asarray(t[edges[:-1]]), jnp.asarray(t[edges[1:]])
    np.testing.assert_allclose(window.mean(low, high, START), expected, atol=1e-7)
    assert float(window.mean(low[0], low[0], START)) == 0
    np.testing.assert_allclose(float(window.value(OFFSET, START)), 0.5, rtol=1e-12)
    first, last = np.asarray(window.breaks)[[0, -1]] - START
    np.testing.assert_allclose(window.value(jnp.array([first, last]), START), 0.0, atol=1e-12)
    assert float(window.value(first + 10.0, START)) > 0 and float(window.value(last - 10.0, START)) > 0


@pytest.mark.ci
@pytest.mark.parametrize("shape", ["rectangular", "exponential", falling])
def test_no_taper_is_the_sharp_window(case, shape):
    """A taper of zero gives the same program; tapers that vanish give its limit."""
    sharp = jfstat.TransientWindow(shape, START + OFFSET, 30000.0)
    for zero in (0, 0.0, np.zeros(()), jnp.zeros(2)):
        assert jfstat.TransientWindow(shape, START + OFFSET, 30000.0, taper=zero).taper is None
    assert len(jax.tree.leaves(sharp)) == 2
    for data, point in ((case.data, POINT), (case.atoms, None)):
        limit = float(jfstat.transient_twoF(data, point, sharp))
        apart = [
            abs(float(jfstat.transient_twoF(data, point, tapered(shape, x, tau=30000.0))) - limit)
            for x in (HOUR, 10.0, 0.1, 1e-5)  # the first is longer than a slice: within one an edge changes no mean
        ]
        assert apart[0] > apart[2] and apart[2] < 1e-3 * limit and apart[3] < 1e-7 * limit
    # of a stack, or traced, some may be zero
    stack = jfstat.TransientWindow(shape, START + OFFSET, 30000.0, taper=[0.0, HOUR])
    found = jax.vmap(lambda window: jfstat.transient_twoF(case.atoms, None, window))(stack)
    expected = [jfstat.transient_twoF(case.atoms, None, x) for x in (sharp, tapered(shape, HOUR, tau=30000.0))]
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-8)
    traced = jax.jit(lambda x: jfstat.transient_twoF(case.atoms, None, tapered(shape, x, tau=30000.0)))(0.0)
    np.testing.assert_allclose(traced, expected[0], rtol=1e-8)


def direct_transient(data, point, window):
    """2F of data times a tapered window by direct sums, samples and antenna patterns one by one."""
    observation = data.observation
    dt, tsft = float(data.band.dt), float(observation.tsft)
    t = float(data.band.start) + dt * np.arange(data.series.shape[1])
    factor = by_definition(window, t[:, None] + dt * ((np.arange(100) + 0.5) / 100 - 0.5)).mean(axis=1)
    times = SimpleNamespace(series=np.asarray(data.series) * factor, band=data.band, observation=observation)
    fa, fb = (x.sum() for x in direct_fa_fb(times, point, np.asarray(point.fkdot)[:1]))
    matrix = np.zeros(3)
    for d in range(len(data.detectors)):
        trajectory = jax.tree.map(lambda x, d=d: x[d], observation.trajectory)
        weight = np.asarray(observation.weight[d])
        t = np.asarray(observation.start[d])[:, None] + tsft * (np.arange(3600) + 0.5) / 3600
        angle = np.asarray(trajectory.sidereal(jnp.asarray(t))).ravel()
        found = patterns_by_definition(
            np.asarray(observation.response[d]), angle, float(point.alpha), float(point.delta)
        )
        a, b = (by_definition(window, t) * x.reshape(t.shape) for x in found)
        matrix += [weight @ np.mean(x, axis=1) for x in (a * a, b * b, a * b)]
    A, B, C = matrix
    return 2 / (A * B - C * C) * (B * abs(fa) ** 2 + A * abs(fb) ** 2 - 2 * C * np.real(fa * np.conj(fb)))


@pytest.mark.ci
@pytest.mark.parametrize("shape", ["rectangular", "exponential", falling])
@pytest.mark.parametrize("taper", [700.0, 2 * HOUR, 20000.0])
def test_two_f_of_tapered_windows_is_a_direct_sum(case, shape, taper):
    window = tapered(shape, taper)
    truth = direct_transient(case.data, POINT, window)
    assert truth > 30
    np.testing.assert_allclose(jfstat.transient_twoF(case.data, POINT, window), truth, rtol=1e-6)
    # data times the window are in float32, and their antenna matrix is of steps of the taper
    own = jfstat.windowed(case.data, window)
    np.testing.assert_allclose(jfstat.twoF(own, POINT), truth, rtol=1e-5)
    # atoms lose little, as the window hardly varies within a slice
    fine = jfstat.atoms(case.data, POINT, 300)
    assert abs(float(jfstat.transient_twoF(fine, None, window)) - truth) < 3 * np.sqrt(truth * 300 / 20000)


@pytest.mark.parametrize("shape", ["rectangular", pytest.param("exponential", marks=pytest.mark.ci)])
def test_injected_signals_have_the_taper(shape):
    """Signals without noise: 2F of the right window is what is predicted, and SFTs outside the taper are empty."""
    window = tapered(shape, 3 * HOUR, 24 * 1800.0, 12000.0 if shape == "exponential" else 36000.0)
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 2 * 86400, 88, 92, sqrt_sx=None, signals=[(POINT, LOUD, window)])
    data = jfstat.prepare(sfts, 89.98, 90.02, sqrt_sx=2e-23)
    predicted = float(jfstat.predict_twoF(data, POINT, LOUD, window)) - 4
    # 2e-3: each SFT ends 1 Hz beyond the band
    np.testing.assert_allclose(jfstat.transient_twoF(data, POINT, window), predicted, rtol=2e-3)
    first, last = np.asarray(window.breaks)[[0, -1]] - START
    for own in sfts:
        some = np.any(own.data != 0, axis=1)
        start = own.since(START)
        np.testing.assert_array_equal(some, (start + 1800 > first) & (start < last))
    sharp = jfstat.TransientWindow(shape, window.t0, window.tau)
    assert float(jfstat.transient_twoF(data, POINT, sharp)) < 0.999 * predicted


NAMES = ("t0", "tau", "taper", "freq", "f1dot", "alpha", "delta")
SCALES = np.array([HOUR, HOUR, HOUR, 1e-6, 1e-11, 1e-3, 1e-3])


@cache
def scaled(kind, shape, data, point):
    """2F as a function of parameters in units of `SCALES`, with its gradient and Hessian."""

    def two_f(x):
        t0, tau, taper, freq, f1dot, alpha, delta = x * SCALES
        here = jfstat.Doppler(1.7 + alpha, 0.4 + delta, jnp.stack([90.0 + freq, -1e-9 + f1dot]), START)
        window = jfstat.TransientWindow(shape, START + t0, tau, taper=taper)
        return jfstat.transient_twoF(data, here if point else None, window)

    return jax.jit(two_f), jax.jit(jax.grad(two_f)), jax.jit(jax.hessian(two_f))


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        pytest.param("prepared", "exponential", marks=pytest.mark.slow),
        pytest.param("atoms", "rectangular", marks=pytest.mark.ci),
        pytest.param("narrow", "rectangular", marks=pytest.mark.ci),
    ],
)
def test_gradients_and_hessians(case, kind, shape):
    """Against differences over minutes, across samples and edges of slices: 2F is smooth."""
    data = {"prepared": case.data, "atoms": case.atoms}.get(kind) or jfstat.narrow(case.data, POINT, max_block=1800)
    two_f, gradient, hessian = scaled(kind, shape, data, kind != "atoms")
    x = jnp.array([OFFSET / HOUR, TAU[shape] / HOUR, 3.0, 0.3, 0.2, 0.1, -0.1])
    slope, curvature = np.asarray(gradient(x)), np.asarray(hessian(x))
    n = 3 if kind == "atoms" else len(x)
    width = 5e-3  # 18 s
    steps = width * np.eye(len(x))
    numeric = np.array([float(two_f(x + s) - two_f(x - s)) / (2 * width) for s in steps])
    np.testing.assert_allclose(slope, numeric, rtol=3e-4, atol=3e-4 * np.abs(slope).max())
    twice = np.array([np.asarray(gradient(x + s) - gradient(x - s)) / (2 * width) for s in steps])
    np.testing.assert_allclose(curvature, twice, rtol=2e-3, atol=2e-3 * np.abs(curvature).max())
    assert np.all(np.abs(slope[:n]) > 0) and np.all(np.abs(np.diagonal(curvature)[:n]) > 0)


@pytest.mark.parametrize("shape", ["rectangular", "exponential", falling])
def test_maps_are_made_of_single_windows(case, shape):
    window = tapered(shape, HOUR)
    t0, tau = START + 777.0 + 3600 * np.arange(12), 9000 + 5400.0 * np.arange(7)
    found = jfstat.transient_map(case.atoms, window, t0, tau)
    windows = jfstat.TransientWindow(shape, t0[:, None], tau, taper=HOUR)
    each = jax.vmap(jax.vmap(lambda window: jfstat.transient_twoF(case.atoms, None, window)))(windows)
    np.testing.assert_allclose(found.twoF, each, rtol=1e-9)
    best = found.best
    assert float(best.taper) == HOUR and best.shape == shape
    np.testing.assert_allclose(jfstat.transient_twoF(case.atoms, None, best), found.max_twoF, rtol=1e-9)
    sharp = jfstat.transient_map(case.atoms, shape, t0, tau)
    assert not np.allclose(sharp.twoF, found.twoF) and sharp.taper is None


@cache
def ascent(shape, taper):
    """A program that climbs 2F in t0 and tau by Adam, from starts in hours, by at most a tenth of an hour a step."""

    def loss(x, atoms):
        window = jfstat.TransientWindow(shape, START + HOUR * x[0], HOUR * x[1], taper=taper)
        return -jfstat.transient_twoF(atoms, None, window)

    optimiser = optax.adam(optax.cosine_decay_schedule(0.1, 300))

    def climb(x, atoms):
        def turn(state, _):
            x, own = state
            change, own = optimiser.update(jax.grad(loss)(x, atoms), own)
            return (optax.apply_updates(x, change), own), None

        return jax.lax.scan(turn, (x, optimiser.init(x)), None, 300)[0][0]

    return jax.jit(jax.vmap(climb, (0, None))), jax.jit(jax.hessian(loss))


@pytest.mark.ci
def test_an_optimiser_finds_a_signal_by_a_smooth_window():
    """From 16 starts, three hours off: with tapers all climbs end within the errors, with sharp edges many do not."""
    truth, taper = np.array([14.0, 20.0]), 4 * HOUR
    window = jfstat.TransientWindow("rectangular", START + HOUR * truth[0], HOUR * truth[1], taper=taper)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 2 * 86400, 88, 92, sqrt_sx=2e-23, signals=[(POINT, LOUD, window)], seed=3
    )
    data = jfstat.prepare(sfts, 89.995, 90.005, sqrt_sx=2e-23, filters=False)
    # slices of 100 s: a sharp edge's derivative is the noise of one of them
    atoms = jfstat.atoms(data, POINT, 100)
    angle = 2 * np.pi * np.arange(16) / 16
    starts = jnp.asarray(truth + 3 * np.stack([np.cos(angle), np.sin(angle)], axis=-1))
    climb, hessian = ascent("rectangular", taper)
    with jax.numpy_dtype_promotion("standard"):  # optax counts its steps by integers
        smooth = np.asarray(climb(starts, atoms))
        sharp = np.asarray(ascent("rectangular", 0.0)[0](starts, atoms))
    errors = np.sqrt(np.diagonal(np.linalg.inv(0.5 * np.asarray(hessian(jnp.asarray(smooth[0]), atoms)))))
    assert np.all(errors < 1)
    assert np.all(np.abs(smooth - truth) < 3 * errors)
    assert np.all(np.abs(smooth - smooth[0]) < 0.05 * errors)
    assert np.sum(np.any(np.abs(sharp - truth) > 3 * errors, axis=1)) >= 8
    assert np.all(np.std(sharp, axis=0) > errors)  # each ends near its start


def test_windows_without_data_give_four(case):
    """Beyond the data weights are exactly zero, not the rounding of which 2F would be made."""
    window = tapered("rectangular", 8000.0, t0=-40000.0, tau=20000.0)
    assert not np.any(np.asarray(window.mean(case.atoms.start, case.atoms.end, case.atoms.epoch)))
    assert float(jfstat.transient_twoF(case.atoms, None, window)) == 4
    starts = START - 50000.0 + 1000 * np.arange(3)
    found = jfstat.transient_map(case.atoms, window, [*starts, START + 5000.0], 10000.0 + 777 * np.arange(4))
    np.testing.assert_array_equal(found.twoF[:3], 4)
    assert np.all(np.asarray(found.twoF[3]) != 4)


def test_arguments_are_checked(case):
    with pytest.raises(ValueError, match="taper must be from 0"):
        tapered("rect", -1.0)
    with pytest.raises(ValueError, match="taper must be at most as long as the window"):
        tapered("rect", 5000.0, tau=4000.0)
    assert float(tapered("exp", 5000.0, tau=4000.0).taper) == 5000.0  # it ends after 3 tau
    with pytest.raises(ValueError, match=r"taper has shape \(3,\), which does not fit"):
        jfstat.TransientWindow("rect", [START, START], 1800.0, taper=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="taper must be at most as long"):
        jfstat.TransientWindow("rect", START, [7200.0, 1800.0], taper=3600.0)
    with pytest.raises(ValueError, match="tau must be at least 3600"):
        jfstat.transient_map(case.atoms, tapered("rect", HOUR, tau=7200.0), [START], [7200.0, 1800.0])
    with pytest.raises(ValueError, match="window has tapers of shape"):
        jfstat.transient_map(case.atoms, tapered("rect", [HOUR, 60.0], tau=7200.0), [START], [7200.0])
    assert "taper=60" in repr(tapered("rect", 60.0)) and "taper" not in repr(tapered("rect", 0.0))
