"""Sensitivity and upper limits against brute force: injections into SFTs, one at a time, and cows3."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units as u
from astropy.table import QTable
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat
from jfstat.commandline import main
from jfstat.limits.injections import quantile, signal_fa_fb
from jfstat.statistic.combine import antenna_matrix, total_matrix

START = 1167458304
FLOOR = {"H1": 4e-24, "L1": 6e-24}
TIMES = {"H1": START + 1800 * np.arange(24), "L1": START + 1800 * np.r_[4:11, 15:30]}
POPULATION = jfstat.Population(alpha=(0.5, 2.5), delta=(-0.9, 1.2), fdots=[(-1e-9, 0.0)])


def simulated(signals, noise=True, seed=0):
    floor = dict(FLOOR) if noise else None
    return jfstat.simulate_sfts(
        ["H1", "L1"], fmin=199.4, fmax=200.6, timestamps=TIMES, sqrt_sx=floor, signals=signals, seed=seed
    )


def prepared(sfts, **options):
    return jfstat.prepare(sfts, 199.99, 200.01, guard=0.4, sqrt_sx=dict(FLOOR), fdots=[(-1e-9, 0.0)], **options)


@pytest.fixture(scope="module")
def noise():
    return prepared(simulated(()))


def one(stack, k):
    return jax.tree.map(lambda x: x[k], stack)


def test_fa_and_fb_of_a_signal_are_those_of_its_sfts(noise):
    points, amplitudes = POPULATION.draw(3, seed=5, freq=(199.995, 200.005))
    for k in range(3):
        point, amplitude = one(points, k), one(amplitudes, k)
        loud = jfstat.Amplitude(1e-23, amplitude.cosi, amplitude.psi, amplitude.phi0)
        data = prepared(simulated([(point, loud)], noise=False))
        found = jfstat.fstat(data, point)
        matrix = total_matrix(antenna_matrix(noise.observation, point))
        fa, fb = signal_fa_fb(noise.observation, point, loud, matrix)
        np.testing.assert_allclose(found.Fa, fa, atol=5e-3 * abs(fa))
        np.testing.assert_allclose(found.Fb, fb, atol=5e-3 * abs(fb))


def test_the_critical_amplitude_of_an_injection_is_where_its_twoF_crosses_the_threshold(noise):
    limit = jfstat.upper_limit(noise, 40.0, POPULATION, injections=80, seed=2)
    k = int(np.argsort(limit.critical_h0)[40])
    point, amplitude = one(limit.points, k), one(limit.amplitudes, k)
    values = []
    for phase in (0.0, np.pi / 2, np.pi, 1.5 * np.pi):
        signal = jfstat.Amplitude(limit.critical_h0[k], amplitude.cosi, amplitude.psi, amplitude.phi0 + phase)
        values.append(float(jfstat.twoF(prepared(simulated([(point, signal)])), point)))
    assert values[0] == pytest.approx(40.0, abs=0.3)
    # 2F = Q + rho^2 + 2 |cross| cos(phase + the noise's): the mean is Q + rho^2
    power = float(jfstat.predict_twoF(noise, point, one(limit.amplitudes, k))) - 4
    quiet = float(jfstat.twoF(noise, point))
    assert np.mean(values) == pytest.approx(quiet + limit.critical_h0[k] ** 2 * power, rel=5e-3)


@pytest.mark.parametrize("segments", [None, 3])
def test_campaign_and_formula_agree_in_gaussian_noise(segments):
    data = prepared(simulated((), seed=7), segments=segments)
    threshold = 40.0 if segments is None else 20.0
    limit = jfstat.upper_limit(data, threshold, POPULATION, injections=300, seed=3, mismatch=[0.0, 0.1, 0.2])
    h0 = jfstat.sensitivity(data, threshold, POPULATION, mismatch=[0.0, 0.1, 0.2], samples=4000)
    assert abs(limit.h0 - h0) < 4 * limit.h0_error < 0.3 * h0
    strains = h0 * np.array([0.3, 0.5, 0.7, 1.0])
    expected = jfstat.detection_probability(data, strains, threshold, POPULATION, mismatch=[0.0, 0.1, 0.2])
    np.testing.assert_allclose(limit.detection_probability(strains), expected, atol=4 * 0.5 / np.sqrt(300))
    assert expected[3] == pytest.approx(0.95, abs=0.01)


def test_probabilities_follow_the_drawn_statistic():
    """2F of each draw simulated as a sum of squares, without the non-central chi-squared distribution."""
    seen = jfstat.observation(["H1", "L1"], START, 10 * 86400, sqrt_sx=4e-24)
    points, amplitudes = jfstat.Population().draw(20000, seed=9, freq=100.0)
    power = jax.vmap(jfstat.predict_twoF, (None, 0, 0))(seen, points, amplitudes) - 4
    rho = 6e-26 * np.sqrt(np.asarray(power))
    x = np.random.default_rng(0).standard_normal((20000, 4))
    twoF = (x[:, 0] + rho) ** 2 + np.sum(x[:, 1:] ** 2, axis=1)
    found = float(jfstat.detection_probability(seen, 6e-26, 30.0))
    assert found == pytest.approx(np.mean(twoF > 30.0), abs=5 * 0.5 / np.sqrt(10000))
    assert 0.1 < found < 0.9


def test_a_known_orientation_needs_no_average():
    seen = jfstat.observation(["H1"], START, 5 * 86400, sqrt_sx=4e-24)
    pulsar = jfstat.Population(alpha=1.2, delta=0.3, cosi=0.4, psi=0.2)
    h0 = jfstat.sensitivity(seen, 30.0, pulsar, confidence=0.5, samples=5)
    point = jfstat.Doppler(1.2, 0.3, [100.0])
    rho2 = float(jfstat.predict_twoF(seen, point, jfstat.Amplitude(h0, 0.4, 0.2))) - 4
    from scipy.stats import ncx2

    assert ncx2.sf(30.0, 4, rho2) == pytest.approx(0.5, abs=1e-6)
    assert jfstat.sensitivity_depth(seen, h0) == pytest.approx(4e-24 / h0)


def test_depth_is_the_harmonic_mean_over_all_sfts():
    data = prepared(simulated(()))
    expected = (24 / FLOOR["H1"] ** 2 + 22 / FLOOR["L1"] ** 2) / 46
    assert jfstat.sensitivity_depth(data, 1e-25) == pytest.approx(1e25 / np.sqrt(expected), rel=1e-6)
    segments = prepared(simulated(()), segments=3)
    assert jfstat.sensitivity_depth(segments, 1e-25) == pytest.approx(1e25 / np.sqrt(expected), rel=1e-6)


def test_depth_is_of_the_sfts_that_count():
    data = prepared(simulated(()))
    without = jfstat.leave_out(data, {"L1": [(START - 1, START + 10 * 86400)]})
    assert jfstat.sensitivity_depth(without, 1e-25) == pytest.approx(FLOOR["H1"] / 1e-25, rel=1e-6)
    first, tau = START + 86400 // 4, 86400 // 4
    seen = jfstat.windowed(data, jfstat.TransientWindow("rectangular", first, tau))
    some = jfstat.windowed(without, jfstat.TransientWindow("exponential", first, tau))
    counts = np.asarray(seen.observation.n_sfts)
    expected = np.sum(counts / np.array(list(FLOOR.values())) ** 2) / np.sum(counts)
    assert jfstat.sensitivity_depth(seen, 1e-25) == pytest.approx(1e25 / np.sqrt(expected), rel=1e-6)
    assert jfstat.sensitivity_depth(some, 1e-25) == pytest.approx(FLOOR["H1"] / 1e-25, rel=1e-6)
    floors = without.observation.mean_sqrt_sx  # without a warning of NumPy
    assert floors[0] == pytest.approx(FLOOR["H1"]) and np.isnan(floors[1])


def test_populations_have_their_distributions():
    population = jfstat.Population(
        delta=(-0.2, 1.0), cosi=[0.1, 0.5, 0.9], psi=0.3, freq=(50.0, 51.0), fdots=[(-1e-9, 0)]
    )
    points, amplitudes = population.draw(20000, seed=4)
    sines = np.sin(points.delta)
    assert sines.min() >= np.sin(-0.2) - 1e-12 and sines.max() <= np.sin(1.0) + 1e-12
    assert np.mean(sines) == pytest.approx((np.sin(-0.2) + np.sin(1.0)) / 2, abs=0.01)
    assert set(np.asarray(amplitudes.cosi)) == {0.1, 0.5, 0.9} and set(np.asarray(amplitudes.psi)) == {0.3}
    assert points.fkdot.shape == (20000, 2)
    assert np.mean(points.fkdot[:, 0]) == pytest.approx(50.5, abs=0.01)
    again, _ = population.draw(20000, seed=4)
    assert jnp.array_equal(again.alpha, points.alpha)


def test_what_makes_no_sense_is_refused(noise):
    seen = jfstat.observation(["H1"], START, 86400, sqrt_sx=4e-24)
    for call, message in (
        (lambda: jfstat.sensitivity(seen, 30.0, confidence=1.0), "confidence"),
        (lambda: jfstat.sensitivity(seen, 1e-3), "noise alone"),
        (lambda: jfstat.sensitivity(seen, 30.0, mismatch=1.0), "mismatch"),
        (lambda: jfstat.sensitivity(jfstat.observation(["H1"], START, 86400), 30.0), "noise floor"),
        (lambda: jfstat.detection_probability(seen, -1e-25, 30.0), "h0"),
        (lambda: jfstat.Population(delta=2.0), "delta must be within"),
        (lambda: jfstat.Population(cosi=(0.5, -0.5)), "low <= high"),
        (lambda: jfstat.Population().draw(5), "freq is missing"),
        (lambda: jfstat.upper_limit(noise, 30.0, injections=5), "injections"),
        (lambda: jfstat.upper_limit(noise, 30.0, jfstat.Population(freq=210.0), injections=80), "do not fit"),
        (lambda: jfstat.upper_limit(noise, 30.0, injections=79), "injections=79 are too few .* 80 or more"),
        (lambda: jfstat.upper_limit(noise, 30.0, injections=39, confidence=0.1), "injections"),
        (lambda: quantile(np.r_[np.ones(94), [np.inf] * 6], 0.95), "6 of 100 injections"),
        (lambda: quantile(np.r_[np.ones(96), [np.inf] * 4], 0.95), "4 of 100 injections"),  # its error is infinite
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="population"):
        jfstat.sensitivity(seen, 30.0, "all sky")


@pytest.mark.parametrize("segments, seed", [(None, 0), (3, 1)])
def test_there_is_no_limit_where_the_data_exceed_the_threshold_alone(segments, seed):
    """A loud signal at the template: the limit was 0."""
    rng = np.random.default_rng(seed)
    point = jfstat.Doppler(rng.uniform(0, 6), rng.uniform(-1, 1), [200.0, -5e-10], START + 40000)
    data = prepared(simulated([(point, jfstat.Amplitude(3e-24, 0.9))]), segments=segments, reftime=START + 40000)
    loud = float(jfstat.mean_twoF(data, point) if segments else jfstat.twoF(data, point))
    at = jfstat.Population(point.alpha, point.delta, freq=200.0, fdots=[-5e-10])
    for threshold in rng.uniform(30.0, 0.9 * loud, 3):
        with pytest.raises(ValueError, match=r"exceeded in the data without a signal at 100 of 100 templates.*line"):
            jfstat.upper_limit(data, threshold, at, injections=100)
    above = jfstat.upper_limit(data, 1.3 * loud, at, injections=100)
    assert above.h0 > 0 and above.detection_probability(0.0) == 0
    elsewhere = jfstat.Population(point.alpha, point.delta, freq=(199.992, 200.008), fdots=[-5e-10])
    limit = jfstat.upper_limit(data, 0.5 * loud, elsewhere, injections=100)
    assert limit.h0 > 0 and limit.detection_probability(0.0) < 0.1
    with pytest.raises(ValueError, match=r"threshold=0\.5 is exceeded in the data without a signal at"):
        jfstat.upper_limit(data, 0.5, elsewhere, injections=100)


@given(st.floats(-300, 307), st.floats(-3, 5), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_probabilities_rise_to_one_however_strong_the_signal(strength, threshold, n_segments):
    each = [jfstat.observation(["H1"], START + 86400 * i, 86400, sqrt_sx=4e-24, reftime=START) for i in range(3)]
    seen = each[0] if n_segments == 1 else jax.tree.map(lambda *x: jnp.stack(x), *each)
    strains = np.array([0.0, 1e-26, 1e-24, 1e-15, 2e-15, 1e-10, 1e300, 10.0**strength])
    pulsar = jfstat.Population(1.0, 0.5, cosi=0.9)
    found = jfstat.detection_probability(seen, strains, 10.0**threshold, pulsar, samples=20)
    assert np.all((found >= 0) & (found <= 1))
    assert np.all(np.diff(found[np.argsort(strains)]) >= -1e-12)
    assert np.all(found[3:7] == 1)


@pytest.mark.parametrize("strain", [np.nan, -1e-25, np.inf, [[1e-25]], 1e-25 * u.m, "loud"])
def test_strains_that_make_no_sense_are_refused_by_both_probabilities(strain):
    seen = jfstat.observation(["H1"], START, 86400, sqrt_sx=4e-24)
    limit = jfstat.UpperLimit(1e-25, 1e-26, 0.95, 30.0, np.ones(9), POPULATION.draw(9, freq=1.0)[0], None)
    for call in (limit.detection_probability, lambda h0: jfstat.detection_probability(seen, h0, 30.0)):
        with pytest.raises(ValueError, match=r"^h0 must be"):
            call(strain)


def test_populations_take_units_and_refuse_wrong_ones():
    plain = jfstat.Population(np.radians(40), (0.1, 0.2), psi=(0.0, 0.3), freq=(100.0, 110.0), fdots=[(-1e-9, 0.0)])
    units = jfstat.Population(
        40 * u.deg,
        np.degrees([0.1, 0.2]) * u.deg,
        psi=(0 * u.rad, np.degrees(0.3) * u.deg),
        freq=[0.1, 0.11] * u.kHz,
        fdots=[(-1e-9 * u.Hz / u.s, 0 * u.Hz / u.s)],
    )
    for one_, other in zip(*(jax.tree.leaves(x.draw(5)) for x in (plain, units)), strict=True):
        np.testing.assert_allclose(one_, other, rtol=1e-12)
    for name, wrong in (("alpha", 1 * u.m), ("cosi", 1 * u.rad), ("freq", (1 * u.s, 2 * u.s)), ("psi", [1, 2] * u.Hz)):
        with pytest.raises(ValueError, match=rf"^{name} must be convertible to"):
            jfstat.Population(**{name: wrong})


def test_the_command_line_says_what_the_library_does(tmp_path, capsys):
    jfstat.write_sfts(simulated(()), tmp_path)
    options = [
        f"--DataFiles={tmp_path}/*.sft",
        "--Freq=199.999",
        "--FreqBand=0.002",
        "--f1dot=-1e-9",
        "--f1dotBand=1e-9",
    ]
    options += ["--assumeSqrtSX=4e-24,6e-24", "--guard=0.4", "--Alpha=1.1", "--Delta=-0.3", "--injections=80"]
    assert main(["upper-limit", *options, "--TwoFthreshold=40"]) == 0
    said = capsys.readouterr()
    assert "--mismatch is 0" in said.err and said.err.count("\n") == 1
    rows = {line[:18].strip(): float(line[18:].split()[0]) for line in said.out.splitlines()}
    population = jfstat.Population(1.1, -0.3, freq=(199.999, 200.001), fdots=[(-1e-9, 0.0)])
    data = jfstat.prepare(
        simulated(()), 199.999, 200.001, guard=0.4, sqrt_sx=dict(FLOOR), fdots=[(-1e-9, 0.0)], filters=False
    )
    limit = jfstat.upper_limit(data, 40.0, population, injections=80)
    assert rows["h0"] == pytest.approx(limit.h0, rel=2e-3)
    assert rows["by formula"] == pytest.approx(jfstat.sensitivity(data, 40.0, population), rel=2e-3)
    for wrong, message in (([], "--TwoFthreshold or --candidates"), (["-F=40", "--FreqBand=-1"], "--FreqBand")):
        assert main(["upper-limit", *options, *wrong]) == 1
        assert message in capsys.readouterr().err
    columns = {"freq": [199.998, 199.999, 200.0, 200.001], "mean_twoF": [500.0, 25.0, np.nan, 22.0]}
    words = [f"--candidates={tmp_path}/found.ecsv", *options]
    for changes, meta, segments, message in (
        ({}, {"n_segments": 2}, ["--segments=2"], None),
        ({}, {"n_segments": 3}, ["--segments=2"], "n_segments = 3, and here it is 2"),
        ({}, {}, [], "give its --segments"),
        ({"n_segments": [2, 2, 1, 1]}, {}, ["--segments=2"], "several numbers"),
        ({"freq": [100.0] * 4}, {}, ["--segments=2"], "no candidate from --Freq=199.999 to 200.001"),
        ({"t0": [0.0] * 4}, {}, ["--segments=2"], "transient"),
        ({}, {"transient": {}}, ["--segments=2"], "transient"),
        ({"log_likelihood": [9.0] * 4}, {}, ["--segments=2"], "wanders.*jfstat.path_upper_limit"),
        ({}, {"transitions": [-1.0] * 3}, ["--segments=2"], "wanders.*jfstat.path_upper_limit"),
        ({"power": [9.0] * 4}, {}, ["--segments=2"], "power along tracks"),
    ):
        QTable(columns | changes, meta=meta).write(tmp_path / "found.ecsv", overwrite=True)
        status = main(["upper-limit", *words, *segments, "--mismatch=0.1"])
        said = capsys.readouterr()
        if message is None:
            assert (status, said.err) == (0, "")
            assert "threshold               25.0000  mean 2F of 2 segments" in said.out
        else:
            assert status == 1 and re.search(message, said.err) and said.err.count("\n") == 1
    QTable({"freq": [200.0], "twoF": [40.0]}).write(tmp_path / "found.ecsv", overwrite=True)
    assert main(["upper-limit", *words, "--segments=2"]) == 1
    assert "leave out --segments" in capsys.readouterr().err
    assert main(["upper-limit", *words]) == 0
    assert "threshold               40.0000  2F" in capsys.readouterr().out


SEARCHED = {
    "median": [],
    "narrow median": ["--RngMedWindow=51"],
    "off source": ["--offSourceBins=10"],
    "further off source": ["--offSourceBins=20"],
    "given": ["--assumeSqrtSX=4e-24"],
    "given twice": ["--assumeSqrtSX=4e-24,6e-24"],
    "one detector": ["--IFOs=H1"],
    "fewer SFTs": [f"--maxStartTime={START + 36000}"],
}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """SFTs and the tables of searches of them, by what was asked of the noise floor."""
    folder = tmp_path_factory.mktemp("searched")
    jfstat.write_sfts(simulated(()), folder)
    words = [f"--DataFiles={folder}/*.sft", "--Freq=199.999", "--FreqBand=0.002", "--Alpha=1.1", "--Delta=-0.3"]
    for name, options in SEARCHED.items():
        assert main(["search", *words, *options, f"--outputFstat={folder}/{name}.ecsv"]) == 0
    return folder, words


@pytest.mark.ci
@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("place", range(0, len(SEARCHED), 2))
def test_a_limit_needs_the_noise_floor_and_the_data_of_its_search(place, shift, searched, capsys):
    folder, words = searched
    name, here = (list(SEARCHED)[(place + more) % len(SEARCHED)] for more in (0, shift))
    options = [*SEARCHED[here], "--injections=80", "--mismatch=0.1", f"--candidates={folder}/{name}.ecsv"]
    status, said = main(["upper-limit", *words, *options]), capsys.readouterr()
    assert status == (name != here), said.err
    if name != here:
        assert "is of a search with" in said.err and "give the data, segments and noise floor of that" in said.err


@pytest.mark.slow
@pytest.mark.parametrize(("segments", "threshold", "confidence"), [(None, 40.0, 0.8), (3, 20.0, 0.95)])
def test_signals_at_the_limit_are_found_as_often_as_it_says(segments, threshold, confidence):
    """The limit of one data set, and 200 simulated data sets with a signal of that strength each."""
    data = prepared(simulated((), seed=11), segments=segments)
    limit = jfstat.upper_limit(data, threshold, POPULATION, confidence=confidence, injections=2000, seed=1)
    points, amplitudes = POPULATION.draw(200, seed=12, freq=(199.992, 200.008))
    found = 0
    for k in range(200):
        point, amplitude = one(points, k), one(amplitudes, k)
        signal = jfstat.Amplitude(limit.h0, amplitude.cosi, amplitude.psi, amplitude.phi0)
        own = prepared(simulated([(point, signal)], seed=100 + k), segments=segments)
        found += float(jfstat.mean_twoF(own, point) if segments else jfstat.twoF(own, point)) > threshold
    print(found)
    assert found / 200 == pytest.approx(confidence, abs=3.5 * np.sqrt(confidence * (1 - confidence) / 200))


@pytest.mark.slow
def test_cows3_says_the_same():
    detectorstates = pytest.importorskip("cows3.detectorstates")
    from cows3.sensitivity import pfd_Fstatistic
    from cows3.snr import SignalToNoiseRatio
    from scipy.optimize import brentq

    starts = np.arange(START, START + 20 * 86400, 1800)
    states = detectorstates.MultiDetectorStates({"H1": starts, "L1": starts}, 1800, 0).Series
    ratio = SignalToNoiseRatio(states, assumeSqrtSX=4e-24)
    points, amplitudes = jfstat.Population().draw(4000, seed=3, freq=100.0)
    power = [
        ratio.compute_snr2(alpha, delta, psi, 0.0, 0.5 * (1 + cosi**2), cosi)
        for alpha, delta, psi, cosi in np.transpose([points.alpha, points.delta, amplitudes.psi, amplitudes.cosi])
    ]
    density, edges = np.histogram(np.array(power) * 4e-24**2, bins=300, density=True)
    middles = 0.5 * (edges[1:] + edges[:-1])
    seen = jfstat.observation(["H1", "L1"], START, 20 * 86400, sqrt_sx=4e-24)
    for threshold in (30.0, 100.0):
        depth = brentq(lambda d, x=threshold: pfd_Fstatistic(x, d, 1, middles, density) - 0.05, 1, 1000)
        h0 = jfstat.sensitivity(seen, threshold, samples=4000, seed=3)  # the same draws
        assert jfstat.sensitivity_depth(seen, h0) == pytest.approx(depth, rel=3e-3)
