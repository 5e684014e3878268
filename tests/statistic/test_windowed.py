"""Windowed data: what metric, added signals and noise make of a window does not depend on the length of the SFTs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.data.addsignal import silent
from jfstat.data.sftmask import mean_power

START = 1_238_770_800
FREQ, SPAN = 1210.77, 43200
SQRT_SX = [5e-24, 7e-24]
POINT = jfstat.Doppler(2.9, 0.71, [FREQ, -2.2e-9], START + 1234)
AMPLITUDE = jfstat.Amplitude(3e-24, 0.45, 0.3, 2.0)
CUT = START + 6 * 1800 + 700  # within an SFT
WINDOWS = {
    "whole SFTs": jfstat.TransientWindow("rectangular", START + 6 * 1800, 9000.0),
    "rectangular": jfstat.TransientWindow("rectangular", CUT, 9000.0),
    "an SFT long": jfstat.TransientWindow("rectangular", CUT, 1800.0),
    "exponential": jfstat.TransientWindow("exponential", CUT, 2000.0),
    "short exponential": jfstat.TransientWindow("exponential", CUT, 600.0),
    "tapered": jfstat.TransientWindow("rectangular", CUT, 6000.0, taper=3000.0),
    "own": jfstat.TransientWindow(lambda x: jnp.cos(5 * x), CUT, 4000.0, end=2.0),
}


def prepared(tsft, kept=lambda t: t >= 0):
    times = START + np.arange(0, SPAN, tsft)
    stamps = {"H1": times, "L1": times[kept(times - START)]}
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=stamps, tsft=tsft, fmin=FREQ - 2.5, fmax=FREQ + 2.5, sqrt_sx=None
    )
    return jfstat.prepare(sfts, FREQ - 0.01, FREQ + 0.01, sqrt_sx=SQRT_SX, guard=2.3)


@pytest.fixture(scope="module")
def by_length():
    def gap(t):  # L1 lacks an hour within the windows
        return (t < 7 * 1800) | (t >= 9 * 1800)

    return {tsft: prepared(tsft, gap) for tsft in (100, 1800)}


@pytest.mark.parametrize("name", ["rectangular", "exponential", "left out"])
def test_bands_are_those_of_single_templates(name):
    """Even at sharp edges between samples."""
    stamps = START + np.arange(0, SPAN, 1800)
    sfts = jfstat.simulate_sfts(["H1"], timestamps={"H1": stamps}, fmin=99.5, fmax=100.5, sqrt_sx=5e-24, seed=3)
    data = jfstat.prepare(sfts, 99.998, 100.002, sqrt_sx=5e-24, guard=0.2)
    left_out = name == "left out"
    own = jfstat.leave_out(data, [(CUT, CUT + 9000)]) if left_out else jfstat.windowed(data, WINDOWS[name])
    point = jfstat.Doppler(2.9, 0.71, [100.0, -1e-10], START)
    places = np.linspace(0, len(own.frequencies) - 1, 20).astype(int)
    single = [jfstat.twoF(own, jfstat.Doppler(2.9, 0.71, [f, -1e-10], START)) for f in own.frequencies[places]]
    np.testing.assert_allclose(jfstat.twoF_band(own, point)[places], single, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", WINDOWS)
def test_nothing_depends_on_the_length_of_sfts(by_length, name):
    window, found = WINDOWS[name], []
    other = jfstat.Doppler(2.9, 0.71, [FREQ + 0.03 / float(window.tau), -2.2e-9], START + 1234)
    for data in by_length.values():
        own = jfstat.windowed(data, window)
        quiet = jfstat.windowed(silent(data), window)
        loud = jfstat.add_signal(quiet, POINT, AMPLITUDE)
        here, there = (float(jfstat.twoF(loud, point)) for point in (POINT, other))
        near = jfstat.add_signal(jfstat.narrow(quiet, POINT), POINT, AMPLITUDE)
        loss = float(jfstat.mismatch(own, POINT, other, amplitude=AMPLITUDE))
        expected = float(jfstat.predict_twoF(own, POINT, AMPLITUDE)) - 4
        np.testing.assert_allclose([here, float(jfstat.twoF(near, POINT))], expected, rtol=3e-4)
        np.testing.assert_allclose(loss, 1 - there / here, rtol=0.01, atol=1e-5)
        found.append([expected, here, loss])
    np.testing.assert_allclose(*found, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exponential", "rectangular"])
def test_noise_in_windowed_data_is_chi_squared(by_length, name):
    data = jfstat.windowed(by_length[1800], WINDOWS[name])
    keys = jax.random.split(jax.random.key(3), 300)
    values = jax.lax.map(lambda key: jfstat.twoF(jfstat.noise_like(key, data), POINT), keys, batch_size=50)
    # mean and variance are 4 and 8, and the errors of their estimates sqrt(8/n) and sqrt(320/n)
    assert abs(np.mean(values) - 4) < 3.5 * np.sqrt(8 / 300)
    assert abs(np.var(values) - 8) < 3.5 * np.sqrt(320 / 300)


@pytest.mark.parametrize("seed", range(20))
def test_noise_has_no_power_less_than_zero(seed):
    """Sums of weights that differ by rounding after SFTs of weight zero once gave noise of NaN."""
    rng = np.random.default_rng(seed)
    start = np.cumsum(rng.choice([1800, 5400], 60)).astype(float)
    weight = rng.uniform(0.5, 2, 60) * (rng.random(60) < 0.7)
    time = np.arange(-3600.0, 60 * 5400 + 7200, 7.3)  # as many for all seeds: each number is compiled anew
    power = mean_power(*(jnp.asarray(x) for x in (time, 7.3, start, weight, 1800.0)), 0.0)
    assert np.all(np.asarray(power) >= 0)
    np.testing.assert_allclose(np.sum(power) * 7.3, 1800 * np.sum(weight))


@pytest.mark.parametrize("window", [
    jfstat.TransientWindow("rectangular", START - 1e7, 3e8),
    jfstat.TransientWindow("exponential", START - 100.0, 1e9),
    jfstat.TransientWindow("rectangular", START - 1e6, 3e6, taper=1e5),
], ids=["rectangular", "exponential", "tapered"])  # fmt: skip
def test_windows_far_longer_than_the_data_change_nothing(by_length, window):
    data = by_length[1800]
    own = jfstat.windowed(data, window)
    plain, found = (np.asarray(jfstat.metric(x, POINT)) for x in (data, own))
    np.testing.assert_allclose(found, plain, rtol=0.02, atol=1e-6 * np.max(plain))
    near = jfstat.add_signal(jfstat.narrow(silent(own), POINT), POINT, AMPLITUDE)
    expected = float(jfstat.predict_twoF(data, POINT, AMPLITUDE)) - 4
    np.testing.assert_allclose(float(jfstat.twoF(near, POINT)), expected, rtol=1e-3)


def test_data_of_all_windows_have_the_same_shapes(by_length):
    data = by_length[1800]
    kinds = {str(jax.tree.map(jnp.shape, jfstat.windowed(data, window))) for window in WINDOWS.values()}
    assert len(kinds) == 1
    np.testing.assert_array_equal(jfstat.windowed(data, WINDOWS["exponential"]).observation.sqrt_sx,
                                  data.observation.sqrt_sx)  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize("window", [
    jfstat.TransientWindow("rectangular", CUT + 3.57 * 1800, 1.1 * 1800),
    jfstat.TransientWindow("exponential", CUT, 1200.0),
], ids=["rectangular", "exponential"])  # fmt: skip
def test_the_noise_energy_counts_what_a_window_leaves(by_length, window):
    data = by_length[1800]
    own = jfstat.windowed(data, window)
    keys = jax.random.split(jax.random.key(1), 300)
    t = float(data.band.start) + float(data.band.dt) * np.arange(data.series.shape[-1])
    low, high = (jnp.asarray(t + x * float(data.band.dt)) for x in (-0.5, 0.5))
    g = window.mean(low, high, int(data.observation.epoch)).astype(jnp.complex64)

    def energy(key):
        series = jfstat.noise_like(key, data).series * g
        return jfstat.noise_energy(replace(own, series=series))

    drawn = jax.lax.map(energy, keys, batch_size=50)
    samples = np.asarray(drawn.samples[0])
    np.testing.assert_allclose(np.mean(drawn.factor, axis=0), 1.0, atol=4 / np.sqrt(300 * np.min(samples)) + 0.03)
    # chi-squared with 2 degrees of freedom for each sample
    np.testing.assert_allclose(np.var(drawn.factor, axis=0) * samples, 1.0, rtol=0.35)


def test_data_are_windowed_once_and_then_left_whole(by_length):
    data = jfstat.windowed(by_length[1800], WINDOWS["rectangular"])
    with pytest.raises(ValueError, match="data are windowed already"):
        jfstat.windowed(data, WINDOWS["exponential"])
    with pytest.raises(ValueError, match="data are windowed already"):
        jfstat.leave_out(data, [(START, START + 1800)])
    with pytest.raises(ValueError, match="data are windowed already"):
        jfstat.atoms(data, POINT)
    with pytest.raises(ValueError, match="data are windowed already"):
        jfstat.transient_twoF(data, POINT, WINDOWS["exponential"])
    windows = jfstat.TransientRange("rectangular", [CUT], [9000.0])
    with pytest.raises(ValueError, match="data are windowed already"):
        jfstat.search(data, POINT, jfstat.Transient(windows), progress=False)


def test_windowed_data_are_saved(by_length, tmp_path):
    data = jfstat.windowed(by_length[1800], WINDOWS["exponential"])
    again = jfstat.load(jfstat.save(data, tmp_path / "data.jf"))
    assert jax.tree.structure(again) == jax.tree.structure(data)
    jax.tree.map(np.testing.assert_array_equal, again, data)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_detector_without_data_in_the_window_counts_for_nothing(seed):
    window = jfstat.TransientWindow("rectangular", CUT + 7200, 9000.0)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        START,
        SPAN,
        fmin=FREQ - 1.6,
        fmax=FREQ + 1.6,
        sqrt_sx=SQRT_SX,
        signals=[(POINT, replace(AMPLITUDE, h0=8e-24), window)],
        seed=seed,
    )
    before = sfts.select(detectors="L1", end=CUT + 3600)
    data = jfstat.prepare(jfstat.join_sfts([sfts.select(detectors="H1"), before]), FREQ, FREQ + 0.01, sqrt_sx=SQRT_SX)
    own = jfstat.windowed(data, window)
    found = jfstat.fstat_table(own, POINT, progress=False)
    assert found["twoF"][0] == found["twoF_H1"][0] > 300
    factor = np.asarray(jfstat.noise_energy(own).factor)
    assert factor[0] > 0 and np.isnan(factor[1])
    # 2F of all is rounded, so that it may be below that of the only detector
    assert jfstat.line_veto(own, found)["line_veto"][0] == ""
