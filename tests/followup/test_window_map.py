"""2F over windows with Doppler parameters that follow: against the metric, and against 2F at the parameters found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.data.slices import regular_slices
from jfstat.followup.transientfit import fitted_window
from jfstat.followup.windowmap import phase_slopes, window_map
from jfstat.maths.arrays import on_device
from jfstat.signal.transientwindow import SHAPES
from jfstat.signal.values import replaced, values

DAY, START = 86400, 1167458304
NAMES = ("freq", "f1dot", "alpha")
TRUTH = jfstat.Doppler(alpha=1.9, delta=-0.8, fkdot=[1302.0, -3e-9], reftime=START + 30000)
AMPLITUDE = jfstat.Amplitude(h0=1e-23, cosi=0.4, psi=0.2, phi0=2.0)
WINDOWS = {"rectangular": (30000.0, 80000.0), "exponential": (25000.0, 27000.0)}


def maps(shape):
    """A loud signal near a template, its window within a map around it, and the map."""
    t0, tau = START + WINDOWS[shape][0], WINDOWS[shape][1]
    window = jfstat.TransientWindow(shape, t0, tau)
    times = {"H1": START + 1800 * np.r_[0:33, 41:70], "L1": START + 700 + 1800 * np.r_[3:66]}
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, timestamps=times, fmin=1301.2, fmax=1302.8, sqrt_sx=1e-23, seed=4,
        signals=[(TRUTH, AMPLITUDE, window)],
    )  # fmt: skip
    data = jfstat.prepare(sfts, fmin=1301.998, fmax=1302.002, sqrt_sx=1e-23, guard=0.4)
    twoF = float(jfstat.transient_twoF(data, TRUTH, window))
    metric = jfstat.metric(jfstat.windowed(data, window), TRUTH, NAMES, amplitude=AMPLITUDE)
    expected = np.linalg.inv(twoF * np.asarray(metric))
    unwhitened = np.linalg.cholesky(expected)
    off = np.array([1.5, -1.0, 0.8])
    point = replaced(TRUTH, NAMES, values(TRUTH, NAMES) - unwhitened @ off)
    atoms = jfstat.atoms(data, point, 300)
    steps = np.arange(-2, 3)
    times = t0 + 300.0 * steps, tau + 400.0 * steps
    slope = phase_slopes(data.observation, point, NAMES, 0.5 * (atoms.start + atoms.end)) @ unwhitened
    found = window_map(atoms, slope, *map(jnp.asarray, times), shape, SHAPES[shape])
    return data, atoms, times, point, unwhitened, off, twoF, found


@pytest.mark.parametrize(
    "shape",
    [pytest.param("rectangular", marks=pytest.mark.ci), pytest.param("exponential", marks=pytest.mark.slow)],
)
def test_parameters_follow_the_window(shape):
    data, atoms, (t0, tau), point, unwhitened, off, twoF, found = maps(shape)
    # at the template it is the map of fixed parameters
    plain = jfstat.transient_map(atoms, shape, t0, tau)
    np.testing.assert_allclose(2 * found.log_likelihood, plain.twoF, rtol=1e-9)
    # in the signal's window the parameters are the truth's, to its noise, and their covariance is that of the metric
    np.testing.assert_allclose(found.offset[2, 2], off, atol=4.0)
    np.testing.assert_allclose(found.covariance[2, 2], np.eye(3), atol=0.1)
    # the largest 2F of each window is where the parabola has it, and as high: noise bends both by parts of rho
    for i, j in ((0, 4), (2, 2), (3, 1)):
        window = jfstat.TransientWindow(shape, t0[i], tau[j])
        moved = replaced(point, NAMES, values(point, NAMES) + unwhitened @ np.asarray(found.offset[i, j]))
        there = float(jfstat.transient_twoF(jfstat.atoms(data, moved, 300), None, window))
        gain = 2 * float(found.gain[i, j])
        assert gain > 1 and twoF > 500
        np.testing.assert_allclose(there, 2 * float(found.highest[i, j]), atol=0.1 * gain + 0.1)
    # without parameters it is that of the template, with its posterior
    none = phase_slopes(data.observation, point, (), atoms.start)
    alone = window_map(atoms, none, jnp.asarray(t0), jnp.asarray(tau), shape, SHAPES[shape])
    assert alone.offset.shape == (5, 5, 0) and alone.covariance.shape == (5, 5, 0, 0)
    weight = jax.nn.softmax(alone.log_posterior.reshape(-1))
    np.testing.assert_allclose(weight, plain.posterior.reshape(-1), rtol=1e-6, atol=1e-12)


@pytest.mark.ci
def test_a_window_too_short_for_the_slices_has_no_errors():
    sfts = jfstat.simulate_sfts(["H1"], START, 4 * 3600, 99.0, 101.0, 1800, 1e-23, seed=5)
    data = jfstat.prepare(sfts, 99.999, 100.001, sqrt_sx=1e-23).for_one_template
    point = jfstat.Doppler(1.0, 0.3, [100.0], START)
    slices, pieces = jax.tree.map(on_device, regular_slices(data, point, 3600.0))

    def fit(tau):
        start = jnp.asarray([START + 5000.0, tau])
        found = fitted_window(data, point, slices, pieces, start, jnp.zeros((0, 0)), (), ("rectangular", 1.0))
        return jax.tree.map(np.asarray, found)

    assert fit(7000.0).sound
    assert not fit(1500.0).sound
