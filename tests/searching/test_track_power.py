"""Power of SFTs along tracks, against a direct loop, its distribution in noise, and what a signal adds."""

import jax
import numpy as np
import pytest
from cases import random_timestamps

import jfstat
from jfstat.data.observation import observation_of_sfts
from jfstat.reference import patterns_by_definition
from jfstat.signal.values import with_fields
from jfstat.statistic.trackpower import sky_position, track

START, DAY, NOISE = 1167458304, 86400, 4e-24
ORBITS = {
    "isolated": None,
    "circular": jfstat.Orbit(2.0, 1.3 * DAY, START + 1e4, 0.0, 0.0),
    "fast": jfstat.Orbit(10.0, 6000.0, START + 100, 0.0, 0.0),
    "eccentric": jfstat.Orbit(1.5, 0.8 * DAY, START - 3e3, 0.7, 2.1),
}


def random_point(rng, f, name="isolated", motion=None):
    sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
    return jfstat.Doppler(*sky, [f, -3e-9], START + 1e5, ORBITS[name], motion=motion)


def made(rng, detectors, f, signals=(), sqrt_sx=NOISE, days=2.0, duty=0.7, window="rectangular"):
    times = random_timestamps(rng, detectors, START, days, duty)
    low, high = f - 0.4, f + 0.4
    return jfstat.simulate_sfts(
        list(detectors), timestamps=times, fmin=low, fmax=high, sqrt_sx=sqrt_sx, signals=signals, window=window, seed=3
    )


def frequencies_by_differences(seen, point, t, i):
    """The derivative of the phase with respect to detector time, from differences over a minute."""
    source, trajectory = seen.source(point), jax.tree.map(lambda x: x[i], seen.trajectory)
    base = float(point.fkdot[0])
    cycles = [np.asarray(source.heterodyned_cycles(trajectory, t + s, base)) for s in (-60.0, -30.0, 30.0, 60.0)]
    return base + (cycles[0] - 8 * cycles[1] + 8 * cycles[2] - cycles[3]) / 360.0


def direct(sfts, point, bins, floors):
    """Sum over SFTs one by one: NumPy in double precision."""
    seen = observation_of_sfts(sfts, jfstat.Noise(floors), None, "DE405", None, None)
    power = weight = weight2 = 0.0
    for i, series in enumerate(sfts):
        middle = np.asarray(series.since(int(seen.epoch))) + 0.5 * sfts.tsft
        trajectory = jax.tree.map(lambda x, i=i: x[i], seen.trajectory)
        sidereal = np.asarray(trajectory(middle).sidereal)
        a, b = patterns_by_definition(np.asarray(seen.response[i]), sidereal, float(point.alpha), float(point.delta))
        f = frequencies_by_differences(seen, point, middle, i)
        for k, sft in enumerate(series.data.astype(complex)):
            x = f[k] * sfts.tsft - sfts.first_bin
            if bins == 1:
                value, norm = sft[round(x)], 1.0
            else:
                near = int(np.floor(x)) + np.arange(1 - bins // 2, bins // 2 + 1)
                shape = np.sinc(x - near) * np.exp(1j * np.pi * (x - near))
                value, norm = np.sum(shape.conj() * sft[near]), np.sum(np.abs(shape) ** 2)
            w = (a[k] ** 2 + b[k] ** 2) / floors[i] ** 2
            power += w * 2 * abs(value) ** 2 / norm / sfts.tsft / floors[i] ** 2
            weight, weight2 = weight + w, weight2 + w * w
    return power / weight, np.sqrt(weight2) / weight


@pytest.mark.parametrize(
    ("detectors", "f", "name", "bins"),
    [
        (("H1",), 40.0, "isolated", 1),
        (("H1", "L1"), 300.0, "circular", 4),
        pytest.param(("H1", "L1", "V1"), 1890.0, "isolated", 8, marks=pytest.mark.ci),
        pytest.param(("L1", "V1"), 150.0, "eccentric", 1, marks=pytest.mark.ci),
        pytest.param(("L1", "V1"), 90.0, "eccentric", 16, marks=pytest.mark.ci),
    ],
)
def test_power_is_that_of_a_direct_loop(detectors, f, name, bins):
    rng = np.random.default_rng(int(f))
    point = random_point(rng, f, name, motion=(1e-12, -2e-12))
    floors = [4e-24, 7e-24, 3e-23][: len(detectors)]
    sfts = made(rng, detectors, f, [(point, jfstat.Amplitude(3e-24, 0.3, 0.2, 1.0))], floors)
    found = jfstat.track_power(jfstat.normalise(sfts, bins=bins, sqrt_sx=floors), point)
    power, deviation = direct(sfts, point, bins, floors)
    assert float(found.power) == pytest.approx(power, rel=1e-6)
    assert float(found.deviation) == pytest.approx(deviation, rel=1e-6)
    assert float(found.critical_ratio) == pytest.approx((power - 1) / deviation, rel=1e-5)


@pytest.mark.parametrize("name", ORBITS)
def test_tracks_are_derivatives_of_the_phase(name):
    rng = np.random.default_rng(5)
    sfts = made(rng, ("H1", "V1"), 1900.0)
    points = [random_point(rng, 1900.0, name, motion=(1e-12, 1e-12)) for _ in range(4)]
    data = jfstat.normalise(sfts, sqrt_sx=NOISE)
    for point in points:
        found, slope = map(np.asarray, track(data, sky_position(data, point), point, 5))
        for i, series in enumerate(sfts):
            middle = np.asarray(series.since(int(data.observation.epoch))) + 900
            expected = frequencies_by_differences(data.observation, point, middle, i)
            # the Shapiro delay changes frequencies by a few parts in 1e11, differences err where an orbit bends
            np.testing.assert_allclose(found[i, : len(middle)], expected, rtol=0, atol=2e-6)
        higher = track(data, sky_position(data, point), with_fields(point, fkdot=point.fkdot + np.array([1.0, 0.0])), 5)
        np.testing.assert_allclose(np.asarray(higher[0]) - found, slope, rtol=0, atol=1e-9)


def test_a_phase_model_bends_the_track():
    rng = np.random.default_rng(6)
    sfts = made(rng, ("H1",), 60.0)
    model = jfstat.PhaseModel(lambda t, p: p["rate"] * t * t * t, {"rate": 1e-13})
    point = jfstat.Doppler(1.0, 0.2, [60.0], START, model=model)
    data = jfstat.normalise(sfts, sqrt_sx=NOISE)
    found = np.asarray(track(data, sky_position(data, point), point, 1)[0])[0, : len(sfts["H1"])]
    middle = np.asarray(sfts["H1"].since(int(data.observation.epoch))) + 900
    assert np.ptp(found) > 5e-3  # which the Earth's motion alone does not make
    expected = frequencies_by_differences(data.observation, point, middle, 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-7)


def test_noise_has_the_mean_and_deviation_that_are_said():
    rng = np.random.default_rng(7)
    sfts = made(rng, ("H1", "L1"), 100.0, days=4, sqrt_sx=[4e-24, 9e-24])
    n = 900
    orbit = jfstat.Orbit(
        np.full(n, 1.0), np.full(n, 0.9 * DAY), START + rng.uniform(0, DAY, n), np.zeros(n), np.zeros(n)
    )
    fkdot = np.stack([rng.uniform(99.8, 100.2, n), np.full(n, -1e-10)], axis=1)
    points = jfstat.Doppler(rng.uniform(0, 6.28, n), rng.uniform(-1, 1, n), fkdot, START, orbit)
    for bins in (1, 4):
        found = jfstat.track_power(jfstat.normalise(sfts, bins=bins), points)
        ratio = np.asarray(found.critical_ratio)
        assert abs(np.mean(ratio)) < 4 / np.sqrt(n) + 0.15  # the floors of SFTs are estimated
        assert np.std(ratio) == pytest.approx(1, abs=0.1)


def test_a_signal_adds_what_is_said():
    rng = np.random.default_rng(8)
    n, h0 = 16, 1e-24
    added, expected = {1: [], 2: [], 8: []}, []
    for _ in range(n):
        point = random_point(rng, 80.0 + rng.uniform(0, 0.01))
        amplitude = jfstat.Amplitude(h0, rng.uniform(-1, 1), rng.uniform(0, 3), rng.uniform(0, 6))
        sfts = made(rng, ("H1",), 80.0, [(point, amplitude)], None, days=1, duty=1.0)
        for bins, own in added.items():
            own.append(float(jfstat.track_power(jfstat.normalise(sfts, bins=bins, sqrt_sx=NOISE), point).power))
        seen = observation_of_sfts(sfts, jfstat.Noise(NOISE), None, "DE405", None, None)
        middle = np.asarray(sfts["H1"].since(int(seen.epoch))) + 900
        sidereal = np.asarray(jax.tree.map(lambda x: x[0], seen.trajectory)(middle).sidereal)
        a, b = patterns_by_definition(np.asarray(seen.response[0]), sidereal, float(point.alpha), float(point.delta))
        cosi, psi = float(amplitude.cosi), float(amplitude.psi)
        plus, cross = 0.5 * h0 * (1 + cosi**2), h0 * cosi
        c, s = np.cos(2 * psi), np.sin(2 * psi)
        strain2 = (plus * (a * c + b * s)) ** 2 + (cross * (b * c - a * s)) ** 2
        w = a * a + b * b
        expected.append(np.sum(w * strain2 * 1800 / (2 * NOISE**2)) / np.sum(w))
    parts = {bins: np.array(own) / expected for bins, own in added.items()}
    assert np.mean(parts[1]) == pytest.approx(0.774, abs=0.06)  # the mean of sinc^2 over a bin
    assert np.all((parts[2] > 0.78) & (parts[2] < 1.001))
    assert np.all((parts[8] > 0.93) & (parts[8] < 1.001))


def test_shapes_and_tables():
    rng = np.random.default_rng(9)
    sfts = made(rng, ("H1",), 50.0, days=0.5)
    grid = jfstat.Doppler(np.ones((2, 3)), np.zeros((2, 3)), np.broadcast_to([50.0, 0.0], (2, 3, 2)), START)
    found = jfstat.track_power(sfts, grid)
    assert found.power.shape == found.deviation.shape == found.critical_ratio.shape == (2, 3)
    one = jfstat.track_power(sfts, grid[0, 0])
    assert one.power.shape == ()
    assert float(one.power) == float(found.power[1, 2])
    data = jfstat.prepare(sfts, 49.99, 50.01, sqrt_sx=NOISE, guard=0.1)
    table = jfstat.search(data, jfstat.Doppler(1.0, 0.0, [50.0], START), top=3, progress=False)
    rows = jfstat.track_power(sfts, table)
    assert rows.power.shape == (3,)
    assert float(jfstat.track_power(sfts, table[1]).power[0]) == float(rows.power[1])
    assert "NormalisedPower" in repr(found)


def test_templates_in_any_order_of_the_sky():
    rng = np.random.default_rng(11)
    sfts = made(rng, ("H1", "L1"), 50.0, days=0.5)
    n = 23
    alpha, delta = rng.choice([0.1, 2.0, 4.0], n), rng.choice([0.3, -0.4], n)
    points = jfstat.Doppler(alpha, delta, rng.uniform(49.8, 50.2, (n, 1)), START)
    found = jfstat.track_power(sfts, points)
    for i in range(n):
        one = jfstat.track_power(sfts, points[i])
        assert float(one.power) == pytest.approx(float(found.power[i]), rel=1e-12)
        assert float(one.deviation) == pytest.approx(float(found.deviation[i]), rel=1e-12)


def test_mistakes_are_said():
    rng = np.random.default_rng(10)
    sfts = made(rng, ("H1",), 50.0, days=0.5)
    point = random_point(rng, 50.0)
    for bins in (0, 3, 18, 2.5, "a"):
        with pytest.raises(ValueError, match="bins must be 1 or an even number up to 16"):
            jfstat.normalise(sfts, bins=bins)
    far = jfstat.Doppler(np.ones(3), np.ones(3), [[50.0], [50.45], [49.6]], START)
    with pytest.raises(ValueError, match=r"^points has 2 of 3 templates whose tracks leave .*number 1 goes from 50\.4"):
        jfstat.track_power(sfts, far)
    with pytest.raises(TypeError, match="points must be a jfstat"):
        jfstat.track_power(sfts, 50.0)
    with pytest.raises(TypeError, match="data must be NormalisedSFTs from"):
        jfstat.track_power("H1*.sft", point)
    stack = jax.vmap(lambda f: jfstat.Doppler(1.0, 0.2, jax.numpy.stack([f]), START))(np.array([50.0, np.nan]))
    with pytest.raises(ValueError, match=r"points holds 1 impossible template\(s\), the first in row 1"):
        jfstat.track_power(sfts, stack)
    with pytest.raises(ValueError, match="H1"):
        jfstat.track_power(jfstat.SFTs((sfts["H1"], sfts["H1"]), sfts.tsft, sfts.first_bin), point)
    hann = made(rng, ("H1",), 50.0, days=0.5, window="hann")
    with pytest.raises(ValueError, match="bins=2 is for SFTs with rectangular windows, and these have 'hann'"):
        jfstat.normalise(hann, bins=2)
    assert np.isfinite(float(jfstat.track_power(hann, point).power))
    narrow = jfstat.simulate_sfts(["H1"], START, DAY, 50.0, 50.02, sqrt_sx=NOISE, seed=1)
    with pytest.raises(ValueError, match="the noise floor needs 101 bins and the SFTs hold 36"):
        jfstat.track_power(narrow, point)
    bad = {
        "fmin=50.5 and fmax=50.1.*must be positive and ordered": (50.5, 50.1),
        "fmin=49.2 and fmax=50 must lie within 49.6.* to 50.3.* Hz": (49.2, 50.0),
        r"dfreq must be the width of a bin, 0\.0005555555556 Hz, divided by a whole number up to 64, not 0.0004": (
            *(49.9, 50.0),
            dict(dfreq=4e-4),
        ),
        "dfreq must be the width of a bin": (49.9, 50.0, dict(dfreq=0.0)),
    }
    for message, (low, high, *more) in bad.items():
        with pytest.raises(ValueError, match=message):
            jfstat.normalise(sfts, low, high, **dict(*more))
    with pytest.raises(ValueError, match="give SFTs of a wider band"):
        narrow = jfstat.simulate_sfts(["H1"], START, DAY, 1000.0, 1000.1, sqrt_sx=NOISE, seed=1)
        jfstat.normalise(narrow, 1000.04, 1000.06, sqrt_sx=1.0)
    with pytest.raises(ValueError, match="cannot be traced"):
        jax.jit(lambda p: jfstat.track_power(sfts, p).power)(point)
