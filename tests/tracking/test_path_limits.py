"""Upper limits on wandering signals, against signals in SFTs and the best path through their segments."""

import jax
import numpy as np
import pytest

import jfstat

START, DAY, K = 1167458304, 86400.0, 8
FLOOR = {"H1": 4e-24, "L1": 6e-24}
EDGES = [(START + 21600 * i, START + 21600 * (i + 1)) for i in range(K)]
TIMES = {"H1": START + 1800 * np.arange(96), "L1": START + 1800 * np.r_[4:40, 52:96]}
POPULATION = jfstat.Population(alpha=(0.5, 2.5), delta=(-0.9, 1.2))
JUMPS = np.log([0.2, 0.6, 0.2])


def simulated(signals=(), seed=0, noise=True):
    """SFTs; each signal is (template, amplitude, frequencies of all segments, phases)."""
    floor = dict(FLOOR) if noise else None
    own = []
    for point, amplitude, frequencies, phases in signals:
        for (start, end), f, phase in zip(EDGES, frequencies, phases, strict=True):
            at = jfstat.Doppler(point.alpha, point.delta, [f], START + DAY)
            one = jfstat.Amplitude(amplitude.h0, amplitude.cosi, amplitude.psi, phase)
            own.append((at, one, jfstat.TransientWindow("rectangular", float(start), float(end - start))))
    parts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=TIMES, fmin=199.4, fmax=200.6, sqrt_sx=floor, signals=own, seed=seed
    )
    return jfstat.prepare(parts, 199.998, 200.002, START + DAY, guard=0.4, sqrt_sx=dict(FLOOR), segments=EDGES)


@pytest.fixture(scope="module")
def noise():
    return simulated()


@pytest.fixture(scope="module")
def limit(noise):
    return jfstat.path_upper_limit(noise, 70.0, JUMPS, POPULATION, injections=80, seed=2)


def one(stack, k):
    return jax.tree.map(lambda x: x[k], stack)


def best(data, point):
    return float(jfstat.track(data, point, JUMPS).log_likelihood)


@pytest.mark.ci
def test_injections_wander_as_the_transitions_say(noise, limit):
    steps = np.rint(np.diff(limit.frequencies, axis=1) / float(noise.dfreq))
    assert limit.frequencies.shape == (80, K)
    np.testing.assert_allclose(np.diff(limit.frequencies, axis=1), steps * float(noise.dfreq), atol=1e-9)
    np.testing.assert_allclose(np.mean(steps[..., None] == [-1, 0, 1], axis=(0, 1)), [0.2, 0.6, 0.2], atol=0.08)
    f = np.asarray(noise.frequencies)
    assert np.all((limit.frequencies >= f.min() - 1e-9) & (limit.frequencies <= f.max() + 1e-9))
    assert 0 < limit.h0_error < 0.2 * limit.h0


@pytest.mark.parametrize(
    "threshold", [pytest.param(70.0, marks=pytest.mark.ci), pytest.param(3000.0, marks=pytest.mark.slow)]
)
def test_the_best_path_crosses_the_threshold_at_the_critical_amplitude(noise, threshold):
    """With the signal's own phases, added to the data of each segment, at two thresholds and with a mismatch."""
    seed, mismatch = 2, 0.3
    limit = jfstat.path_upper_limit(noise, threshold, JUMPS, POPULATION, injections=80, seed=seed, mismatch=mismatch)
    phases = np.random.default_rng([seed, 4]).uniform(0, 2 * np.pi, limit.frequencies.shape)
    k = int(np.argsort(limit.critical_h0)[40])
    point, own = one(limit.points, k), one(limit.amplitudes, k)
    values = []
    for factor in (0.998, 1.002):
        h0 = factor * limit.critical_h0[k] * np.sqrt(1 - mismatch)
        table = []
        for i in range(K):
            at = jfstat.Doppler(point.alpha, point.delta, [limit.frequencies[k, i]])
            signal = jfstat.Amplitude(h0, own.cosi, own.psi, phases[k, i])
            table.append(jfstat.twoF_band(jfstat.add_signal(noise[i], at, signal), at))
        values.append(float(jfstat.viterbi(0.5 * np.stack(table), JUMPS).log_likelihood))
    assert values[0] < threshold < values[1]


@pytest.mark.ci
def test_the_best_path_of_sfts_crosses_the_threshold_at_the_critical_amplitude(limit):
    """With signals in SFTs, of random phases in all segments, which stand for those of the injection."""
    rng = np.random.default_rng(3)
    for k in np.argsort(limit.critical_h0)[[40]]:
        point, own = one(limit.points, k), one(limit.amplitudes, k)
        loud = jfstat.Amplitude(limit.critical_h0[k], own.cosi, own.psi, 0.0)
        values = [
            best(simulated([(point, loud, limit.frequencies[k], rng.uniform(0, 2 * np.pi, K))]), point)
            for _ in range(5)
        ]
        assert abs(np.mean(values) - 70.0) < 4 * np.std(values)


def test_mismatch_and_threshold_raise_the_limit(noise, limit):
    lossy = jfstat.path_upper_limit(noise, 70.0, JUMPS, POPULATION, injections=80, seed=2, mismatch=0.36)
    np.testing.assert_allclose(lossy.critical_h0, limit.critical_h0 / 0.8, rtol=0.01)
    assert limit.detection_probability(0.0) == 0 and limit.detection_probability(limit.h0) > 0.93


def test_what_makes_no_sense_is_refused(noise):
    for message, arguments in (
        ("too few", dict(injections=20)),
        ("is exceeded in the data without a signal", dict(threshold=5.0)),
        ("threshold", dict(threshold=-1.0)),
        ("paths leave the band", dict(population=jfstat.Population(freq=210.0))),
        ("narrower than the paths", dict(transitions=400)),
    ):
        given = dict(threshold=70.0, transitions=1, population=POPULATION, injections=80) | arguments
        with pytest.raises(ValueError, match=message):
            jfstat.path_upper_limit(noise, given.pop("threshold"), **given)
    with pytest.raises(ValueError, match="segments"):
        jfstat.path_upper_limit(noise[0], 70.0)


@pytest.mark.slow
def test_signals_at_the_limit_are_found_as_often_as_it_says(noise):
    """Two hundred data sets, each with new noise and a new wandering signal at the limit of another one."""
    limit = jfstat.path_upper_limit(noise, 70.0, JUMPS, POPULATION, injections=600, seed=4)
    others = jfstat.path_upper_limit(noise, 70.0, JUMPS, POPULATION, injections=200, seed=5)
    rng, found = np.random.default_rng(6), 0
    for k in range(200):
        point, own = one(others.points, k), one(others.amplitudes, k)
        loud = jfstat.Amplitude(limit.h0, own.cosi, own.psi, 0.0)
        phases = rng.uniform(0, 2 * np.pi, K)
        found += best(simulated([(point, loud, others.frequencies[k], phases)], seed=100 + k), point) > 70.0
    print(found)
    assert abs(found / 200 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 200)
