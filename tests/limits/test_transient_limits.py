"""Upper limits on transient signals, against signals in SFTs and the largest 2F of all windows."""

import jax
import numpy as np
import pytest

import jfstat

START, DAY = 1167458304, 86400.0
FLOOR = {"H1": 4e-24, "L1": 6e-24}
TIMES = {"H1": START + 1800 * np.arange(48), "L1": START + 1800 * np.r_[4:21, 27:48]}
POPULATION = jfstat.Population(alpha=(0.5, 2.5), delta=(-0.9, 1.2))
WINDOWS = jfstat.TransientRange("rectangular", START + 10800.0 * np.arange(6), [14400.0, 28800.0])


def simulated(signals, seed=0, noise=True):
    floor = dict(FLOOR) if noise else None
    band = dict(fmin=199.4, fmax=200.6, sqrt_sx=floor, seed=seed)
    return jfstat.simulate_sfts(["H1", "L1"], timestamps=TIMES, signals=signals, **band)


def prepared(sfts):
    return jfstat.prepare(sfts, 199.99, 200.01, guard=0.4, sqrt_sx=dict(FLOOR), filters=False)


@pytest.fixture(scope="module")
def noise():
    return prepared(simulated(()))


def one(stack, k):
    return jax.tree.map(lambda x: x[k], stack)


def largest(data, point, windows):
    own = jfstat.atoms(data, point, windows.duration)
    return float(jfstat.transient_map(own, windows.shape, windows.t0, windows.tau).max_twoF)


def with_signal(limit, k, turn, noise=True):
    """Data with an injection at its critical amplitude, its phase turned."""
    point, own, window = one(limit.points, k), one(limit.amplitudes, k), one(limit.windows, k)
    loud = jfstat.Amplitude(limit.critical_h0[k], own.cosi, own.psi, own.phi0 + turn)
    return prepared(jfstat.inject(simulated((), noise=noise), [(point, loud, window)])), point


@pytest.mark.ci
@pytest.mark.parametrize("shape", ["exponential", "rectangular"])
def test_twoF_of_an_injection_crosses_the_threshold_at_its_critical_amplitude(noise, shape):
    """With signals in SFTs."""
    windows = jfstat.TransientRange(shape, [START + 20000.0], [16000.0])
    limit = jfstat.transient_upper_limit(noise, 60.0, windows, POPULATION, injections=80, seed=2)
    k = int(np.argsort(limit.critical_h0)[40])
    turns = 0.5 * np.pi * np.arange(4)
    values = [largest(*with_signal(limit, k, turn), windows) for turn in turns]
    assert values[0] == pytest.approx(60.0, abs=0.6)
    # 2F = Q + rho^2 + 2 |cross| cos(phase + the noise's)
    mean = np.mean(values)
    power = largest(*with_signal(limit, k, 0.0, noise=False), windows)
    assert mean == pytest.approx(largest(noise, one(limit.points, k), windows) + power, rel=5e-3)


@pytest.mark.ci
def test_the_largest_of_many_windows_crosses_the_threshold(noise):
    limit = jfstat.transient_upper_limit(noise, 60.0, WINDOWS, POPULATION, injections=80, seed=2)
    for k in np.argsort(limit.critical_h0)[[20, 50]]:
        values = [largest(*with_signal(limit, k, turn), WINDOWS) for turn in np.pi / 4 * np.arange(8)]
        assert min(values) - 1.0 < 60.0 < max(values) + 1.0


@pytest.mark.ci
def test_short_exponential_windows_leave_no_residues(noise):
    """Sums over exponential windows leave rounding of what other windows hold, which counted as signals."""
    hourly = jfstat.TransientRange("exponential", START + 3600.0 * np.arange(22), [1200.0])
    limit = jfstat.transient_upper_limit(noise, 40.0, hourly, POPULATION, injections=100)
    assert np.min(limit.critical_h0) > 1e-25
    few = jfstat.TransientRange("exponential", START + 36000.0 * np.arange(3), [1200.0])
    with pytest.raises(ValueError, match="injections are not seen at any h0"):
        jfstat.transient_upper_limit(noise, 40.0, few, POPULATION, injections=100)


def test_a_window_of_all_data_gives_the_limit_on_persistent_signals(noise):
    whole = jfstat.TransientRange("rectangular", [START - 100.0], [DAY + 200.0])
    transient = jfstat.transient_upper_limit(noise, 40.0, whole, POPULATION, injections=100, seed=3)
    persistent = jfstat.upper_limit(noise, 40.0, POPULATION, injections=100, seed=3)
    np.testing.assert_allclose(transient.critical_h0, persistent.critical_h0, rtol=0.02)
    assert transient.h0 == pytest.approx(persistent.h0, rel=0.02)


def test_mismatch_raises_the_limit(noise):
    exact, lossy = (
        jfstat.transient_upper_limit(noise, 60.0, WINDOWS, POPULATION, injections=80, mismatch=m) for m in (0.0, 0.36)
    )
    assert lossy.h0 == pytest.approx(exact.h0 / 0.8, rel=0.1)
    assert np.all(np.diff(exact.detection_probability([0.0, 1e-25, 1e-24, 1e-23])) >= 0)
    assert exact.detection_probability(exact.h0) == pytest.approx(0.95, abs=0.015)


def test_what_makes_no_sense_is_refused(noise):
    segments = jfstat.prepare(simulated(()), 199.99, 200.01, guard=0.4, sqrt_sx=dict(FLOOR), segments=2)
    with pytest.raises(ValueError, match="segments"):
        jfstat.transient_upper_limit(segments, 60.0, WINDOWS)
    with pytest.raises(TypeError, match="windows must be"):
        jfstat.transient_upper_limit(noise, 60.0, jfstat.TransientWindow("rectangular", START, 3600.0))
    with pytest.raises(ValueError, match="injections=20 are too few"):
        jfstat.transient_upper_limit(noise, 60.0, WINDOWS, injections=20)
    with pytest.raises(ValueError, match="is exceeded in the data without a signal"):
        jfstat.transient_upper_limit(noise, 2.0, WINDOWS, POPULATION, injections=80)
    beyond = jfstat.TransientRange("rectangular", START + DAY + np.array([7200.0, 9000.0]), [7200.0])
    with pytest.raises(ValueError, match="80 of 80 injections are not seen at any h0"):
        jfstat.transient_upper_limit(noise, 60.0, beyond, POPULATION, injections=80)
    far = jfstat.Population(freq=210.0)
    with pytest.raises(ValueError, match="do not fit the data"):
        jfstat.transient_upper_limit(noise, 60.0, WINDOWS, far, injections=80)


@pytest.mark.slow
def test_signals_at_the_limit_are_found_as_often_as_it_says(noise):
    """Two hundred data sets, each with new noise and a new signal at the limit of another one."""
    limit = jfstat.transient_upper_limit(noise, 60.0, WINDOWS, POPULATION, injections=1000, seed=4)
    points, amplitudes = POPULATION.draw(200, seed=11, freq=(199.995, 200.005))
    rng = np.random.default_rng(12)
    found = 0
    for k in range(200):
        point, amplitude = one(points, k), one(amplitudes, k)
        t0, tau = (rng.uniform(np.min(x), np.max(x)) for x in (WINDOWS.t0, WINDOWS.tau))
        loud = jfstat.Amplitude(limit.h0, amplitude.cosi, amplitude.psi, amplitude.phi0)
        window = jfstat.TransientWindow("rectangular", t0, tau)
        sfts = jfstat.inject(simulated((), seed=100 + k), [(point, loud, window)])
        found += largest(prepared(sfts), point, WINDOWS) > 60.0
    print(found)
    assert abs(found / 200 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 200)
