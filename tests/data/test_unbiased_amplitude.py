"""Amplitudes where noise floors are estimated: signals' response to the estimates, and h0 against known floors."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import median_filter

import jfstat
from jfstat.data.noise import Noise, median_bias, side_bins

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import h0_bias

START = 1_167_458_304


def floors(power, noise, n):
    """Noise floors at the middle `n` columns, by medians along rows."""
    bins, off = noise.median_bins, noise.off_source
    reach = noise.reach
    if off is None:
        return median_filter(power, (1, bins))[:, reach : reach + n] / median_bias(bins)
    side = side_bins(bins)
    median, away = median_filter(power, (1, side)), off + 1 + side // 2
    below, above = (median[:, reach + k : reach + k + n] for k in (-away, away))
    return 2 / (1 / below + 1 / above) / median_bias(side)


@pytest.mark.parametrize("off", [None, 10], ids=["running", "off source"])
@pytest.mark.parametrize(
    ("loudness", "n"),
    [
        (0.0, 1),
        (30.0, 1),
        pytest.param(1.0, 40, marks=pytest.mark.ci),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [(1.0, 1), (0.0, 40), (30.0, 40)]),
    ],
)
def test_the_response_of_a_signal_is_that_of_simulations(off, n, loudness):
    """A signal in one bin of rows of noise, whose median has 101 bins; a weak one by Stein's lemma."""
    rng = np.random.default_rng(int(loudness) + n)
    noise = Noise(off_source=off)
    width, rows = n + 2 * noise.reach, 8000 if n == 1 else 25000
    signal = rng.integers(n, size=rows)
    here, place = np.arange(rows), noise.reach + signal
    x = rng.standard_normal((rows, width, 2)) @ [1, 1j] / np.sqrt(2)
    alone, size = x[here, place], np.sqrt(loudness)
    x[here, place] += size
    own = floors(np.abs(x) ** 2, noise, n)
    mean = own.mean(axis=1)
    scale = 1 / np.sqrt(own[here, signal] * mean)
    # the noise without this scale is subtracted, which takes away most of the scatter
    each = np.real(x[here, place] * scale - alone) / size if size else 1 + np.abs(alone) ** 2 * (scale - 1)
    found = each.mean() / np.sqrt(noise.whitened_power) / np.mean(1 / mean)
    weak, by_own, by_all = noise.signal_response(n)
    expected = weak * np.exp((by_own + by_all) * (1 - 2**-loudness))
    error = each.std() / np.sqrt(rows)
    assert error < 0.003
    assert abs(found - expected) < 4 * error + 5e-4


def test_known_floors_and_wide_medians_need_no_response():
    assert Noise(4e-24).signal_response(30) == (1, 0, 0)
    known = jfstat.observation(["H1"], START, 86400, sqrt_sx=4e-24)
    assert np.asarray(known.signal_response).tolist() == [1, 0, 0]
    assert float(known.level(1e6)) == float(known.sinv_tsft)
    wide = np.array(
        [Noise(median_bins=10001, off_source=off).signal_response(n) for off in (None, 10) for n in (1, 99)]
    )
    assert np.all(np.abs(wide - [1, 0, 0]) < 3e-4)
    assert np.all(wide[:, 0] < 1)
    # bins at any distance, and no farther than the window: more of them change nothing but the mean's variance
    few, many = (Noise().signal_response(n, 200.0) for n in (20, 100000))
    np.testing.assert_allclose(few, many, rtol=0, atol=0.003)
    assert Noise().signal_response(3, 0.0) == pytest.approx(Noise().signal_response(1), rel=1e-12)


@pytest.fixture(scope="module")
def source():
    return h0_bias.random_source(np.random.default_rng(3), 2.0)


def strains(source, ways, bands, kinds, count):
    """Mean excess of strains for each way and band, and the largest error of these means."""
    rng = np.random.default_rng(4)
    ways, bands = (
        {name: table[name] for name in names} for table, names in ((h0_bias.WAYS, ways), (h0_bias.BANDS, bands))
    )
    found = [h0_bias.case(rng, source, *kind, ways, bands) for kind in kinds for _ in range(count)]
    x = np.array([[own[0] for own in case.values()] for case in found])
    return x.mean(axis=0), np.max(x.std(axis=0)) / np.sqrt(len(x))


def test_h0_from_off_source_floors_is_that_of_known_floors(source):
    """It was 1.7 % low."""
    excess, error = strains(source, ["101 bins, off_source=10"], ["narrow"], [("drifting", 2.0)], 16)
    assert error < 0.002
    assert np.all(np.abs(excess) < 0.005)


@pytest.mark.slow
@pytest.mark.parametrize("loudness", [0.6, 4.0])
def test_h0_is_that_of_known_floors(source, loudness):
    kinds = [(floor, loudness) for floor in h0_bias.FLOORS]
    excess, error = strains(source, h0_bias.WAYS, ["narrow", "prepared, 0.02 Hz"], kinds, 15)
    assert error < 0.0025
    assert np.all(np.abs(excess) < 0.002 + 3 * error), excess


def test_predictions_and_added_signals_have_the_estimated_h0():
    """What is predicted, injected on the device and estimated of a signal loud in each SFT is of one strain."""
    point, noise = jfstat.Doppler(1.0, 0.3, [100.0], START), jfstat.Noise(off_source=10)
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 43200, 99.5, 100.5, sqrt_sx=4e-24, seed=3)
    data = jfstat.prepare(sfts, 100.0, 100.0, START, noise, guard=0.2, filters=False)
    assert data.observation.signal_response[0] < 0.99
    amplitude = jfstat.Amplitude(1e-21, 0.3, 0.2, 1.0)
    for own in (data, jfstat.narrow(data, point)):
        loud = jfstat.add_signal(own, point, amplitude)
        estimate = jfstat.estimate_amplitude(loud, point).amplitude
        assert float(estimate.h0) / 1e-21 == pytest.approx(1.0, rel=1e-3)
        assert float(jfstat.twoF(loud, point)) == pytest.approx(
            float(jfstat.predict_twoF(own, point, amplitude)), rel=2e-3
        )
    # the floors of tables are those without bias; each SFT's is LALSuite's
    floors = data.observation
    ratio = np.array(floors.mean_sqrt_sx) * np.sqrt(np.nanmean(np.asarray(floors.sqrt_sx) ** -2, axis=1))
    np.testing.assert_allclose(ratio, 1 / np.asarray(floors.signal_response)[0], rtol=1e-12)
