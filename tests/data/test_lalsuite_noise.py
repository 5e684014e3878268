"""Noise floors and noise weights against LALSuite, on SFT files that both read."""

from dataclasses import replace

import numpy as np
import pytest
from lalsuite_tools import lalpulsar, load_sfts

from jfstat.data.noise import (
    MEDIAN_BINS,
    Noise,
    NoiseFloor,
    median_bias,
    noise_weights,
    running_median_psd,
    whitened_power,
)
from jfstat.data.observation import observation
from jfstat.data.prepare import prepare
from jfstat.sfts import SFTs, write_sfts
from jfstat.simulate.simulate import simulate_sfts

START, TSFT = 1000000000, 1800
SQRT_SX = {"H1": 4e-24, "L1": 9e-24}
# both compute in float64 from the same complex64 bins: only the order of sums differs
TOLERANCE = 2e-14


@pytest.fixture(scope="module", params=[0.45, 0.4505], ids=["even", "odd"])
def noise(request, tmp_path_factory):
    """SFTs whose floors drift by factors in time and rise over the band, and the directory they are in."""
    times = {"H1": START + TSFT * np.array([0, 1, 2, 5, 6, 9]), "L1": START + 300 + TSFT * np.array([0, 1, 4, 5])}
    sfts = simulate_sfts(["H1", "L1"], None, None, 60.0, 60.0 + request.param, TSFT, SQRT_SX, timestamps=times, seed=3)
    rng = np.random.default_rng(4)
    slope = np.linspace(1, 1.5, sfts.n_bins)
    drifting = [replace(s, data=(s.data * slope * rng.uniform(0.5, 3, (len(s), 1))).astype(np.complex64)) for s in sfts]
    sfts = SFTs(tuple(drifting), sfts.tsft, sfts.first_bin)
    directory = tmp_path_factory.mktemp("noise")
    write_sfts(sfts, directory)
    return sfts, directory


def lal_psd(directory, assumed=None, bins=MEDIAN_BINS):
    """MultiPSDVector and MultiNoiseWeights of LALSuite."""
    floors = None
    if assumed:
        floors = lalpulsar.MultiNoiseFloor()
        floors.length = len(assumed)
        floors.sqrtSn = [*assumed.values(), *[0.0] * (len(floors.sqrtSn) - len(assumed))]
    psd = lalpulsar.NormalizeMultiSFTVect(load_sfts(directory), bins, floors)
    return psd, lalpulsar.ComputeMultiNoiseWeights(psd, bins, 0)


@pytest.mark.parametrize("bins", [3, 50, MEDIAN_BINS, 1 << 9])
def test_running_medians_are_lalsuites(noise, bins):
    sfts, directory = noise
    for series, theirs in zip(sfts, lal_psd(directory, None, bins)[0].data, strict=True):
        for sft, psd in zip(series.data, theirs.data, strict=True):
            # theirs is Tsft times the double-sided PSD
            expected = psd.data.data * 2 / sfts.tsft
            np.testing.assert_allclose(running_median_psd(sft, sfts.tsft, bins), expected, rtol=TOLERANCE)


@pytest.mark.parametrize(("assumed", "bins"), [(None, MEDIAN_BINS), (None, 50), (None, 301), (SQRT_SX, MEDIAN_BINS)])
def test_noise_weights_are_lalsuites(noise, assumed, bins):
    sfts, directory = noise
    theirs = lal_psd(directory, assumed, bins)[1]
    means = []
    for series in sfts:
        # LALSuite averages over all bins that a full window reaches
        every, reached = slice(0, sfts.n_bins), slice(bins // 2, sfts.n_bins - bins // 2)
        floor = NoiseFloor(
            series, sfts.tsft, assumed and assumed[series.detector], every, reached, Noise(median_bins=bins)
        )
        means.append(floor.all_band_means())
    weights, mean_inverse = noise_weights(means)
    for ours, expected in zip(weights, theirs.data, strict=True):
        np.testing.assert_allclose(ours, expected.data, rtol=TOLERANCE)
    np.testing.assert_allclose(sfts.tsft * mean_inverse, theirs.Sinv_Tsft, rtol=TOLERANCE)
    if assumed:  # else prepare averages over the searched band alone, where this noise is not as in all of the SFTs
        data = prepare(sfts, 60.15, 60.25, sqrt_sx=assumed)
        np.testing.assert_allclose(data.observation.sinv_tsft, theirs.Sinv_Tsft, rtol=TOLERANCE)


@pytest.mark.parametrize("bins", [10, 51, 100])
def test_whitened_noise_has_unit_power(bins):
    x = np.random.default_rng(bins).exponential(size=(20000, bins))
    ratio = x.mean(axis=1) / np.median(x, axis=1) * median_bias(bins)
    assert abs(ratio.mean() - whitened_power(bins)) < 5 * ratio.std() / len(ratio) ** 0.5


def test_the_width_of_the_median_reaches_prepared_data(noise):
    sfts, directory = noise
    own = {
        bins: prepare(sfts, 60.2, 60.21, sqrt_sx=Noise(median_bins=bins), guard=0.01).observation for bins in (51, 301)
    }
    assert own[51].mean_sqrt_sx != own[301].mean_sqrt_sx
    told = observation(sfts, fmin=60.1, fmax=60.3, sqrt_sx=Noise(median_bins=301))
    theirs = [psd.data.data * 2 / sfts.tsft for psd in lal_psd(directory, None, 301)[0].data[0].data]
    band = slice(*np.searchsorted(sfts.frequencies, [60.1 - 1e-9, 60.3 + 1e-9]))
    floors = np.sqrt([psd[band].mean() for psd in theirs])
    np.testing.assert_allclose(told.sqrt_sx[0][: len(floors)], floors, rtol=TOLERANCE)
    for wrong in (2, 10.0, True):
        with pytest.raises(ValueError, match="median_bins must be a whole number of at least 3"):
            Noise(median_bins=wrong)
    with pytest.raises(ValueError, match="needs 5001 bins"):
        prepare(sfts, 60.2, 60.21, sqrt_sx=Noise(median_bins=5001))
