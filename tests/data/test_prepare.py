"""What prepare makes: the series against the SFTs, the grid, the reported guard, units, and independence of order."""

from itertools import product

import astropy.units as u
import jax
import numpy as np
import pytest
from astropy.time import Time

import jfstat
from jfstat.data import band
from jfstat.data.band import interpolation_filter, taper, terms_needed
from jfstat.data.bandseries import Grid
from jfstat.data.noise import NoiseFloor, median_bias, whitened_power
from jfstat.data.series import heterodyned_series
from jfstat.data.subband import subband
from jfstat.maths.lengths import smooth_length

START = 1_167_458_304


def test_series_is_the_trigonometric_sum_of_the_bins_at_any_start_time():
    stamps = [START, START + 1800.0, START + 3977.3, START + 9000]
    sfts = jfstat.simulate_sfts("H1", timestamps=stamps, fmin=50.0, fmax=50.2, sqrt_sx=1.0)
    h1, tsft = sfts["H1"], 1800.0
    bins, centre = slice(20, 320), 140
    grid = Grid(START, -100.0, tsft / 320, 2100)
    series, mean_psd, places = heterodyned_series(NoiseFloor(h1, tsft, 1.0, bins, bins), sfts.first_bin, centre, grid)
    f = sfts.frequencies[bins]
    f_het = sfts.frequencies[20 + centre - 20]
    for n, (stamp, place) in enumerate(zip(stamps, places, strict=True)):
        t = grid.start + grid.dt * np.arange(place.start, place.stop)
        assert np.all((t >= stamp - START - 1e-6) & (t < stamp - START + tsft))
        phase = np.outer(t - (stamp - START), f) - (f_het * t)[:, None]
        truth = np.exp(2j * np.pi * phase) @ h1.data[n, bins] / tsft / np.sqrt(tsft / 2)
        np.testing.assert_allclose(series[place], truth, atol=1e-6 * np.abs(truth).max())
    covered = np.zeros(grid.n, bool)
    for place in places:
        covered[place] = True
    assert not series[~covered].any()
    np.testing.assert_allclose(mean_psd, 1.0)


def test_interpolation_filters_are_the_jacobi_anger_coefficients():
    w = np.linspace(-np.pi, np.pi, 7)
    reach = 0.53
    for d in (-0.53, -0.2, 0.0, 0.37, 0.5):
        total = sum(
            np.asarray(interpolation_filter(w * reach, p)) * np.cos(p * np.arccos(d / reach)) for p in range(17)
        )
        np.testing.assert_allclose(total, np.exp(1j * w * d), atol=1e-13)
    assert terms_needed(np.pi, 1e-4) > terms_needed(np.pi, 1e-2) > terms_needed(0.5, 1e-2)


def test_taper_is_flat_then_falls_to_zero():
    f = np.linspace(-2, 2, 401)
    response = taper(f, 1.0, 1.5)
    assert np.all(response[np.abs(f) <= 1.0] == 1)
    assert np.all(response[np.abs(f) >= 1.5] == 0)
    assert np.all(np.diff(response[f >= 0]) <= 0)


@pytest.mark.ci
def test_long_series_transformed_on_a_device_give_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    sizes = ((1000, -300, 64, 0), (1001, 450, 65, 0), (1001, 0, 1001, 0), (1001, 20, 301, 45))
    for (n, offset, n_out, room), stop in product(sizes, (0.45, 0.6)):  # of the bins kept; 0.6 is beyond them
        series = (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(np.complex64)
        n_all = n + 2 * room
        grid = Grid(START, 3.7, 1.0, n_all)
        edges = 0.2 * n_out / n_all, stop * n_out / n_all
        # in words: the bins around the offset, low-passed, and turned to the phase that the grid's epoch has
        bins = np.round(np.fft.fftfreq(n_out, 1 / n_out)).astype(int)
        wanted = np.fft.fft(np.pad(series.astype(complex), room))[(bins + offset) % n_all] * (n_out / n_all)
        wanted *= taper(bins / n_all, *edges) * np.exp(-2j * np.pi * offset * 3.7 / n_all)
        for given, fits in product((series, jax.numpy.asarray(series)), (False, True)):
            monkeypatch.setattr(band, "_fits", lambda series, room, fits=fits: fits)
            found = band.decimated_spectrum(given, grid, offset, n_out, *edges, room)
            assert isinstance(found, jax.Array if fits else np.ndarray)
            np.testing.assert_allclose(found, wanted, atol=1e-11)
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 6 * 3600, 98.0, 102.0, sqrt_sx=1e-23, seed=6)
    point = jfstat.Doppler(1.0, 0.5, [100.0, -1e-9])
    values = {}
    for fits in (False, True):
        monkeypatch.setattr(band, "_fits", lambda series, room, fits=fits: fits)
        data = jfstat.prepare(sfts, 99.9, 100.1, sqrt_sx=1e-23)
        part = subband(data, 1000, 700)
        values[fits] = [np.asarray(jfstat.twoF_band(x, point)) for x in (data, part)]
    for found, wanted in zip(values[True], values[False], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_the_host_transforms_what_the_device_has_no_memory_for(monkeypatch):
    def out_of_memory(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Failed to create cuFFT batched plan")

    series, grid = np.exp(1j * np.arange(500)).astype(np.complex64), Grid(START, 3.7, 1.0, 500)
    wanted = band.decimated_spectrum(series, grid, 80, 64, 0.02, 0.06)
    monkeypatch.setattr(band, "_fits", lambda series, room: True)
    monkeypatch.setattr(band, "_spectrum_on_device", out_of_memory)
    for given in (series, jax.numpy.asarray(series)):
        np.testing.assert_array_equal(band.decimated_spectrum(given, grid, 80, 64, 0.02, 0.06), wanted)


@pytest.mark.parametrize("n", [1, 2, 11, 97, 1009, 123457.2])
def test_smooth_length(n):
    m = smooth_length(n)
    assert m >= n
    for factor in (2, 3, 5, 7):
        while m % factor == 0:
            m //= factor
    assert m == 1


def test_medians_and_their_biases():
    rng = np.random.default_rng(0)
    x = rng.exponential(size=(200_000, 5))
    median = np.median(x, axis=1)
    np.testing.assert_allclose(median.mean(), median_bias(5), rtol=0.01)
    np.testing.assert_allclose(np.mean(x[:, 0] / median) * median_bias(5), whitened_power(5), rtol=0.01)


def test_frequencies_and_guard_are_as_said():
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, fmin=99.0, fmax=101.0)
    data = jfstat.prepare(sfts, 100.0, 100.25, reftime=START + 100)
    f = data.frequencies
    assert data.tspan == 86400
    assert data.detectors == ("H1", "L1")
    assert data.reftime == START + 100
    np.testing.assert_allclose(np.diff(f), 1 / (2 * 86400), rtol=1e-6)
    assert f[0] == 100.0
    assert f[-1] <= 100.25 < f[-1] + 1 / 86400
    assert jfstat.twoF_band(data, jfstat.Doppler(1.0, 0.5, [100.0])).shape == f.shape
    np.testing.assert_allclose(data.guard, 101.0 - 1 / 1800 - 100.25 * (1 + 1.06e-4), atol=1e-3)
    assert f"{data.guard:.3g} Hz, expected loss" in repr(data)
    assert (data.fmin, data.fmax) == (f[0], f[-1])
    assert jfstat.prepare(sfts, 100.0, 100.25, guard=0.1).guard == pytest.approx(0.1, abs=1e-3)


@pytest.mark.ci
def test_quantities_times_and_defaults():
    sfts = jfstat.simulate_sfts("H1", START, 7200, fmin=98.5, fmax=101.5)
    plain = jfstat.prepare(sfts, 100.0, 100.25, sqrt_sx=4e-24)
    other = jfstat.prepare(
        sfts,
        fmin=0.1 * u.kHz,
        fmax=100.25 * u.Hz,
        reftime=Time(START, format="gps"),
        sqrt_sx={"H1": 4e-24},
        guard=1000 * u.mHz,
        ephemeris="de405",
    )
    point = jfstat.Doppler(1.0, 0.5, [100.1])
    assert plain.reftime == other.reftime == START
    np.testing.assert_array_equal(jfstat.twoF_band(plain, point), jfstat.twoF_band(other, point))


def test_a_template_without_reference_time_takes_the_datas():
    sfts = jfstat.simulate_sfts("H1", START, 7200, fmin=98.5, fmax=101.5)
    data = jfstat.prepare(sfts, 100.0, 100.25, reftime=START - 1000)
    with_time = jfstat.Doppler(1.0, 0.5, [100.1, -1e-8], START - 1000)
    np.testing.assert_array_equal(
        jfstat.twoF(data, with_time), jfstat.twoF(data, jfstat.Doppler(1.0, 0.5, [100.1, -1e-8]))
    )


def test_weights_favour_the_quieter_detector_and_leave_each_alone_unchanged():
    floors = {"H1": 4e-24, "L1": 8e-24}
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, fmin=98.5, fmax=101.5, sqrt_sx=floors)
    h1 = jfstat.SFTs((sfts["H1"],), sfts.tsft, sfts.first_bin)
    both, alone = (jfstat.prepare(x, 100.0, 100.2, sqrt_sx={k: floors[k] for k in x.detectors}) for x in (sfts, h1))
    point = jfstat.Doppler(1.0, 0.5, [100.1])
    np.testing.assert_allclose(
        jfstat.fstat(both, point).twoF_per_detector[0], jfstat.fstat(alone, point).twoF, rtol=1e-6
    )
    np.testing.assert_allclose(
        both.observation.sinv_tsft, 1800 * np.mean([1 / floors["H1"] ** 2, 1 / floors["L1"] ** 2])
    )
    # a signal twice as strong against the noise carries four times the weight
    np.testing.assert_allclose(both.observation.moments[0, 0, 0] / both.observation.moments[1, 0, 0], 4.0)


@pytest.mark.parametrize("guard", [0.0, pytest.param(0.001, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("width", [1e-4, 1e-3, 0.05])
def test_any_guard_and_width_find_the_signal(guard, width):
    """Also where the SFTs' bins that are used are narrower than the low-pass and its transition."""
    doppler, amplitude = jfstat.Doppler(1.0, 0.5, [20.00002], START), jfstat.Amplitude(3e-24, 0.3)
    sfts = jfstat.simulate_sfts(
        ["H1"], START, 43200, fmin=18.9, fmax=21.1, sqrt_sx=None, signals=[(doppler, amplitude)]
    )
    data = jfstat.prepare(sfts, 20.0, 20.0 + width, sqrt_sx=4e-24, guard=guard)
    rho2 = float(jfstat.predict_twoF(data, doppler, amplitude)) - 4
    loss = 1 - float(jfstat.twoF(data, doppler)) / rho2
    assert -3e-4 < loss < max(3e-4, 1.5 * data.expected_loss)
    k = np.argmin(abs(data.frequencies - 20.00002))
    at_bin = jfstat.Doppler(1.0, 0.5, [data.frequencies[k]], START)
    np.testing.assert_allclose(jfstat.twoF_band(data, doppler)[k], jfstat.twoF(data, at_bin), rtol=1e-4)


@pytest.mark.parametrize("side", [-1, 1])
def test_a_guard_on_one_side_only(side):
    doppler, amplitude = jfstat.Doppler(1.0, 0.5, [100.0], START), jfstat.Amplitude(3e-24, 0.3)
    low, high = (0.07, 1.2) if side > 0 else (1.2, 0.07)
    sfts = jfstat.simulate_sfts(
        ["H1"], START, 43200, fmin=100 - low, fmax=100 + high, sqrt_sx=None, signals=[(doppler, amplitude)]
    )
    data = jfstat.prepare(sfts, 99.99, 100.01, sqrt_sx=4e-24)
    rho2 = float(jfstat.predict_twoF(data, doppler, amplitude)) - 4
    assert -3e-4 < 1 - float(jfstat.twoF(data, doppler)) / rho2 < 1.5 * data.expected_loss
