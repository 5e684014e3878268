"""SFTs from strain series."""

from types import SimpleNamespace

import numpy as np
import pytest
from astropy import units

from jfstat.sfts import read_sfts, write_sfts
from jfstat.sfts.windows import window_samples
from jfstat.strain.gating import Gating
from jfstat.strain.making import Conditioning
from jfstat.strain.series import sfts_from_strain

RATE, T0, TSFT = 64, 1000000000, 20


def noise(seconds, rate=RATE, seed=1):
    return np.random.default_rng(seed).standard_normal(round(seconds * rate))


def strain(x, t0=T0, rate=RATE, **options):
    own = options.pop("conditioning", None) or Conditioning(options.pop("window", "tukey:0.001"))
    return sfts_from_strain((x, t0, 1 / rate), **{"tsft": TSFT, "detector": "H1", "conditioning": own, **options})


@pytest.mark.parametrize("window", ["rectangular", "hann", "tukey:0.001", "tukey:0.5"])
@pytest.mark.parametrize("band", [(None, None), (3.0, 9.0), (2.99, 9.01), (0.0, 0.1), (31.5, 32.0)])
def test_bins_are_the_sum_by_definition(window, band):
    x = noise(2.7 * TSFT)
    sfts = strain(x, window=window, fmin=band[0], fmax=band[1], detector="L1")
    assert (sfts.detectors, sfts.tsft, sfts["L1"].window) == (("L1",), TSFT, window)
    assert sfts["L1"].gps.tolist() == [T0, T0 + TSFT]
    low, high = (0.0 if band[0] is None else band[0], 32.0 if band[1] is None else band[1])
    assert sfts.frequencies[0] <= low + 1e-9 < sfts.frequencies[0] + 1 / TSFT
    assert sfts.frequencies[-1] < high - 1e-9 <= sfts.frequencies[-1] + 1 / TSFT
    n = TSFT * RATE
    kernel = np.exp(-2j * np.pi * np.outer(sfts.first_bin + np.arange(sfts.n_bins), np.arange(n) / n))
    for row, sft in enumerate(sfts["L1"].data):
        expected = kernel @ (x[row * n : (row + 1) * n] * window_samples(window, n)) / RATE
        # complex64 bins: 6e-8 of the largest
        np.testing.assert_allclose(sft, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(("f", "phase"), [(5.0, 0.3), (11.05, -2.0), (30.5, 1.5)])
def test_a_sinusoid_has_its_amplitude_and_phase_at_each_start(f, phase):
    t = np.arange(3 * TSFT * RATE) / RATE
    sfts = strain(2e-3 * np.cos(2 * np.pi * f * t + phase), window="rectangular")
    for start, sft in zip(sfts["H1"].gps - T0, sfts["H1"].data, strict=True):
        expected = 0.5 * TSFT * 2e-3 * np.exp(1j * (2 * np.pi * f * start + phase))
        np.testing.assert_allclose(sft[round(f * TSFT)], expected, rtol=1e-6)


@pytest.mark.parametrize("window", ["rectangular", "hann", "tukey:0.001"])
def test_noise_keeps_its_density_whatever_the_window(window):
    sqrt_sx = 3e-3
    x = sqrt_sx * np.sqrt(RATE / 2) * noise(200 * TSFT)
    data = strain(x, window=window)["H1"].data[:, 2:-2]
    # 2 |bin|^2 / Tsft over 200 SFTs of 636 bins: 0.3 % a standard deviation, 0.4 % where Hann correlates the bins
    assert np.mean(2 * np.abs(data) ** 2) / TSFT == pytest.approx(sqrt_sx**2, rel=0.02)


def test_parseval():
    x = noise(TSFT)
    sft = strain(x, window="rectangular")["H1"].data[0].astype(complex)
    # all bins but Nyquist's, which lies at fmax and is left out
    nyquist = np.sum(x * (-1.0) ** np.arange(len(x))) / RATE
    energy = (np.abs(sft[0]) ** 2 + 2 * np.sum(np.abs(sft[1:]) ** 2) + nyquist**2) / TSFT
    assert energy == pytest.approx(np.sum(x**2) / RATE, rel=1e-6)


@pytest.mark.parametrize(
    ("gaps", "t0", "expected"),
    [
        ([], 0.0, [0, 20, 40, 60, 80]),
        ([], 0.25, [1, 21, 41, 61]),  # the next whole second
        ([(30.0, 30.5)], 0.0, [0, 31, 51, 71]),
        ([(30.0, 31.0)], 0.0, [0, 31, 51, 71]),
        ([(0.0, 0.1), (21.5, 21.6), (35.0, 60.0)], 0.0, [1, 60, 80]),
        ([(20.0, 99.9)], 0.0, [0]),
    ],
)
def test_gaps_are_left_out(gaps, t0, expected):
    x = noise(100)
    for low, high in gaps:
        x[round(low * RATE) : round(high * RATE)] = np.nan
    sfts = strain(x, t0=T0 + t0)["H1"]
    assert (sfts.gps - T0).tolist() == expected
    assert not sfts.gps_ns.any()
    for gps, data in zip(sfts.gps, sfts.data, strict=True):
        first = round((gps - T0 - t0) * RATE)
        alone = strain(x[first : first + TSFT * RATE], t0=int(gps))["H1"]
        np.testing.assert_array_equal(data, alone.data[0])


def test_timestamps_choose_the_sfts():
    x = noise(200)
    x[:100] = np.inf
    every = {gps: strain(x[(gps - T0) * RATE :], t0=gps)["H1"].data[0] for gps in (T0 + 7, T0 + 90, T0 + 180)}
    sfts = strain(x, timestamps=list(every))["H1"]
    assert sfts.gps.tolist() == list(every)
    np.testing.assert_array_equal(sfts.data, list(every.values()))


def test_a_gwpy_series_gives_the_same():
    x = noise(50).astype(np.float32)
    series = SimpleNamespace(value=x, t0=T0 * units.s, dt=(1e3 / RATE) * units.ms)
    theirs = sfts_from_strain(series, "V1", tsft=20 * units.s, fmin=2 * units.Hz, fmax=5 * units.Hz)
    ours = strain(x, detector="V1", fmin=2, fmax=5)
    np.testing.assert_array_equal(theirs["V1"].data, ours["V1"].data)
    assert theirs.first_bin == ours.first_bin == 40


def test_sfts_of_strain_go_to_files_and_back(tmp_path):
    sfts = strain(noise(50), fmin=5, fmax=20)
    write_sfts(sfts, tmp_path)
    back = read_sfts(tmp_path)
    np.testing.assert_array_equal(back["H1"].data, sfts["H1"].data)
    assert (back.first_bin, back["H1"].window) == (100, "tukey:0.001")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"series": noise(50)}, "TimeSeries or"),
        ({"series": (noise(50), T0)}, "TimeSeries or"),
        ({"series": (noise(50).reshape(2, -1), T0, 1 / RATE)}, "real samples in one dimension"),
        ({"series": (noise(50) + 0j, T0, 1 / RATE)}, "real samples"),
        ({"series": (noise(50), T0, 0.0)}, "spacing"),
        ({"series": (noise(50), T0, 0.0156)}, "spacing"),
        ({"series": (noise(50), T0 + 0.001, 1 / RATE)}, "whole second"),
        ({"series": (noise(19.9), T0, 1 / RATE)}, "no stretch"),
        ({"series": (np.full(50 * RATE, np.nan), T0, 1 / RATE)}, "no stretch"),
        ({"detector": "Q9"}, "unknown"),
        ({"tsft": 20.001}, "tsft"),
        ({"tsft": 0}, "tsft"),
        ({"fmin": 5, "fmax": 5}, "fmin"),
        ({"fmin": -1}, "fmin"),
        ({"fmax": 32.1}, "Nyquist"),
        ({"fmin": 5, "fmax": 5 + 1e-9}, "holds no bin"),
        ({"timestamps": []}, "timestamps"),
        ({"timestamps": [T0, T0 + 19]}, "overlap"),
        ({"timestamps": [T0 + 0.5]}, "timestamps"),
        ({"timestamps": [T0 - 1]}, "lacks"),
        ({"timestamps": [T0 + 31]}, "lacks"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message):
    arguments = {"series": (noise(50), T0, 1 / RATE), "detector": "H1", "tsft": TSFT, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        sfts_from_strain(**arguments)


@pytest.mark.parametrize("loud", [1e38, 1e60, 1e200, 1e307])
@pytest.mark.parametrize(
    "own", [Conditioning(), Conditioning(highpass=5), Conditioning(gating=Gating(bands=[(5, 10)]))]
)
def test_strain_too_large_for_the_bins_of_sfts_is_refused(loud, own):
    x = noise(3 * TSFT)
    x[TSFT * RATE : 2 * TSFT * RATE] += loud * np.sin(2 * np.pi * 8 * np.arange(TSFT * RATE) / RATE)
    with pytest.raises(ValueError, match=rf"from GPS {T0 + TSFT} on reaches .* no more than 3.4e38"):
        strain(x, conditioning=own)
    # smaller it is taken
    assert np.isfinite(strain(x / loud, conditioning=own)["H1"].data).all()


def test_masked_samples_are_gaps():
    strain = np.random.default_rng(4).standard_normal(64 * 7200)
    strain[64 * 2000 : 64 * 2100] = 1e5
    missing = np.where(strain > 1e4, np.nan, strain)
    masked, gap = (
        sfts_from_strain((x, 1_167_458_304, 1 / 64), "H1", fmin=10, fmax=20)
        for x in (np.ma.masked_greater(strain, 1e4), missing)
    )
    assert len(gap) == 3
    np.testing.assert_array_equal(masked["H1"].gps, gap["H1"].gps)
    np.testing.assert_array_equal(masked["H1"].data, gap["H1"].data)
    with pytest.raises(ValueError, match="must hold real samples in one dimension, not complex128"):
        sfts_from_strain((np.ma.masked_greater(strain, 1e4) * 1j, 1_167_458_304, 1 / 64), "H1")
