"""Searches of binaries over segments: rows beside `mean_twoF`, interpolated sums by hand, and a signal found."""

import cases
import jax
import numpy as np
import pytest
from searches import search

import jfstat
from jfstat.searching.driver.interpolation import group_of

START, DAY, PERIOD = 1_167_458_304, 86400, 68023.7
TP = START + 38 * DAY
ORBIT = dict(asini=(1.435, 1.445), period=(PERIOD - 0.5, PERIOD + 0.5), tp=(TP, TP + 60))
SIGNAL = jfstat.Doppler(4.276, -0.273, [60.004, 0.0], START, jfstat.Orbit(1.44, PERIOD + 0.07, TP + 20))
STARTS = [START + i * 25 * DAY for i in range(4)]
"""Of segments of a day. Their distances make the period known much better than in one of them."""


@pytest.fixture(scope="module")
def data():
    each = [
        cases.random_timestamps(np.random.default_rng(i), ("H1", "L1"), start, 1, 0.9) for i, start in enumerate(STARTS)
    ]
    times = {name: np.concatenate([own[name] for own in each]) for name in ("H1", "L1")}
    signal = SIGNAL, jfstat.Amplitude(1.2e-24, 0.3, 0.2, 1.0)
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=59.4, fmax=60.6, signals=[signal], seed=1)
    edges = [(start, start + DAY) for start in STARTS]
    most = jfstat.Orbit(1.5, PERIOD, START)
    return jfstat.prepare(sfts, 60.0, 60.008, START, sqrt_sx=4e-23, segments=edges, orbit=most)


@pytest.fixture(scope="module")
def bank(data):
    return jfstat.template_bank(4.276, -0.273, orbit=ORBIT, mismatch=0.3, data=data)


def row_template(row):
    orbit = jfstat.Orbit(*(float(row[name].value) for name in ("asini", "period", "tp")), row["ecc"], row["argp"].value)
    return jfstat.Doppler(row["alpha"].value, row["delta"].value, [row["freq"].value, row["f1dot"].value], START, orbit)


@pytest.mark.ci
@pytest.mark.parametrize("statistic", [jfstat.MeanTwoF(), jfstat.Interpolated(0.2)])
def test_rows_are_the_exact_mean(data, bank, statistic):
    """Values of the search are in single precision; the details and the rows of an interpolated search are exact."""
    found = search(data, bank, statistic, top=20, progress=False)
    for row in found[[0, 7, 19]]:
        exact = float(jfstat.mean_twoF(data, row_template(row)))
        exactly = 1e-6 if statistic != jfstat.MeanTwoF() else 2e-5
        assert float(row["mean_twoF"]) == pytest.approx(exact, rel=exactly)
        parts = [float(jfstat.twoF(data[i], row_template(row))) for i in range(data.n_segments)]
        assert np.mean(parts) == pytest.approx(exact, rel=1e-6)
    best = found[0]
    assert abs(best["freq"].value - 60.004) < 3e-5 and abs(best["asini"].value - 1.44) < 0.03
    assert float(best["mean_twoF"]) > 0.6 * float(jfstat.mean_twoF(data, SIGNAL))


@pytest.mark.ci
def test_interpolated_sums_are_those_by_hand(data, bank):
    found = search(data, bank, jfstat.Interpolated(0.3), top=30, progress=False)
    f, group = np.asarray(data.frequencies), group_of(bank, 0, len(bank.alpha))
    total = np.zeros((len(group), len(f)))
    n_coherent = 0
    for i in range(data.n_segments):
        near = group.nearest(data.observation.segment(i), bank.reftime.common, f[-1], 0.3)
        n_coherent += len(near.templates.alpha)
        values = np.asarray(jax.jit(jax.vmap(jfstat.twoF_band, (None, 0)))(data[i], near.templates))[near.index]
        shift = near.shift[0][:, None] + near.shift[1][:, None] * f / f[-1]
        bins = np.arange(len(f)) + np.rint(shift / float(data.dfreq)).astype(int)
        own = np.take_along_axis(values, np.clip(bins, 0, len(f) - 1), axis=1)
        total += np.where((bins >= 0) & (bins < len(f)), own, -np.inf)
    assert found.meta["n_coherent"] == n_coherent * len(f) < 0.5 * len(bank.alpha) * data.n_segments * len(f)
    means = np.sort((total / data.n_segments)[total > -np.inf])[::-1]
    assert found.meta["n_twoF"] == pytest.approx(len(means), rel=1e-3)
    assert np.mean(np.abs(np.sort(found["mean_twoF_interpolated"])[::-1] - means[:30]) < 1e-3 * means[0]) > 0.8


@pytest.mark.ci
def test_bins_that_leave_the_data_along_an_orbit_do_not_count():
    """Of data prepared without an orbit the outermost bins are lost, in all statistics alike."""
    times = {"H1": START + 1800 * np.arange(96)}
    sfts = jfstat.simulate_sfts(["H1"], timestamps=times, fmin=59.4, fmax=60.6, sqrt_sx=4e-24, seed=1)
    edges = [(START, START + DAY), (START + DAY, START + 2 * DAY)]
    data = jfstat.prepare(sfts, 60.0, 60.04, START, sqrt_sx=4e-24, segments=edges)
    orbit = jfstat.Orbit([1.4, 1.5], [PERIOD] * 2, [START] * 2)
    bank = jfstat.Doppler([4.276] * 2, [-0.273] * 2, [[60.0, 0.0]] * 2, START, orbit)
    exact = search(data, bank, top=5, progress=False)
    interpolated = search(data, bank, jfstat.Interpolated(0.1), top=5, progress=False)
    assert exact.meta["n_twoF"] < 2 * data.layout.n_frequencies
    assert interpolated.meta["n_twoF"] == pytest.approx(exact.meta["n_twoF"], rel=0.02)


@pytest.mark.ci
def test_interpolation_adds_no_axes_by_itself(data, bank):
    """With JAX's setting that refuses to add axes to arrays of fewer dimensions."""
    with jax.numpy_rank_promotion("raise"):
        own = jfstat.template_bank(4.276, -0.273, orbit=ORBIT, mismatch=0.3, data=data)
        strict = search(data, own, jfstat.Interpolated(0.2), top=5, progress=False)
    found = search(data, bank, jfstat.Interpolated(0.2), top=5, progress=False)
    np.testing.assert_array_equal(strict["template"], found["template"])
    np.testing.assert_allclose(strict["mean_twoF"], found["mean_twoF"], rtol=1e-12)
