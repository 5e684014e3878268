"""Instruments that misbehave: each disturbance has the power, the drift and the place that it is asked for."""

from dataclasses import replace

import numpy as np
import pytest

import jfstat
from jfstat.simulate.randomness import random_numbers

START, TSFT = 1167458304, 1800


def empty(n=48, fmin=99.0, fmax=101.0, detectors=("H1", "L1"), window="rectangular", sqrt_sx=None):
    return jfstat.simulate_sfts(
        list(detectors), START, n * TSFT, fmin, fmax, TSFT, sqrt_sx=sqrt_sx, window=window, seed=1
    )


def wide(series):
    """Bins whose squares float64 holds."""
    return series.data.astype(np.complex128)


def test_disturbances_act_in_their_order_and_in_their_detectors():
    quiet = empty(sqrt_sx=1e-23)
    drift, line = jfstat.FloorDrift(0.5, 30000.0, detectors=["H1"]), jfstat.Artefact(100.0, 1e-22)
    first, last = (jfstat.inject_artefacts(quiet, x) for x in ([drift, line], [line, drift]))
    assert np.array_equal(first["L1"].data, last["L1"].data)
    assert not np.array_equal(first["H1"].data, last["H1"].data)
    only = jfstat.inject_artefacts(empty(), [line])["H1"].data
    factor = jfstat.inject_artefacts(quiet, [drift])["H1"].data / quiet["H1"].data
    np.testing.assert_allclose(last["H1"].data, factor * (quiet["H1"].data + only), rtol=1e-4)
    np.testing.assert_allclose(first["H1"].data, factor * quiet["H1"].data + only, atol=1e-4 * np.abs(only).max())
    assert np.array_equal(quiet["L1"].data, jfstat.inject_artefacts(quiet, [drift])["L1"].data)


def test_a_floor_drifts_as_asked_and_has_a_slope():
    n = 2000
    noise = empty(n, 100.0, 100.1)
    ones = replace(noise, series=tuple(replace(s, data=np.ones_like(s.data)) for s in noise))
    drift = jfstat.FloorDrift(0.3, 86400.0, slope=2.0, seed=3)
    first, second = (np.log(np.abs(s.data)) for s in jfstat.inject_artefacts(ones, [drift]))
    for log in (first, second):
        assert np.std(log.mean(axis=1)) == pytest.approx(0.3, rel=0.2)
        f = noise.frequencies
        np.testing.assert_allclose(
            log - log.mean(axis=1, keepdims=True), 2.0 * (f - f.mean())[None] + 0 * log, atol=1e-5
        )
    assert abs(np.corrcoef(first.mean(axis=1), second.mean(axis=1))[0, 1]) < 0.5
    assert np.array_equal(np.log(np.abs(jfstat.inject_artefacts(ones, [drift])["H1"].data)), first)
    smooth = np.abs(np.diff(first.mean(axis=1))).max()
    assert smooth < 0.3 * 2 * np.pi * TSFT / 86400 * np.e * 3  # periods are no shorter than a day / e


def test_a_broad_line_has_its_spectrum_and_its_window():
    line = jfstat.BroadLine(100.2, 0.2, 3e-23, seed=5)
    sfts = empty(200, 99.5, 101.0)
    power = np.mean(np.abs(wide(jfstat.inject_artefacts(sfts, [line])["H1"])) ** 2, axis=0) * 2 / TSFT
    shape = 9e-46 / (1 + (2 * (sfts.frequencies - 100.2) / 0.2) ** 2)
    ratio = (power / shape).reshape(-1, 30).mean(axis=1)
    assert np.all(np.abs(ratio - 1) < 6 / np.sqrt(200 * 30))
    window = jfstat.TransientWindow("rect", START + 50 * TSFT, 20 * TSFT)
    short = jfstat.inject_artefacts(sfts, [jfstat.BroadLine(100.2, 0.2, 3e-23, window)])["L1"].data
    there = np.abs(short).max(axis=1) > 0
    assert there[50:70].all() and there.sum() == 20
    hann = jfstat.inject_artefacts(empty(200, 99.5, 101.0, window="hann"), [line])["H1"]
    # windows have a root mean square of 1
    assert np.mean(np.abs(wide(hann)) ** 2) / (np.mean(power) * TSFT / 2) == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
def test_a_wandering_line_walks_at_random():
    sfts = empty(480, 99.0, 101.0)
    line = jfstat.WanderingLine(100.0, 1e-22, wander=0.02, seed=2)
    found = jfstat.inject_artefacts(sfts, [line])
    peaks = np.stack([sfts.frequencies[np.abs(s.data).argmax(axis=1)] for s in found])
    days = 480 * TSFT / 86400
    assert abs(peaks[0, 0] - 100.0) < 0.01 and not np.array_equal(peaks[0], peaks[1])
    hops = np.diff(peaks[:, ::8], axis=1)  # longer than a bin each
    assert np.std(hops) == pytest.approx(0.02 * np.sqrt(8 * TSFT / 86400), rel=0.25)
    assert np.abs(peaks - 100.0).max() < 4 * 0.02 * np.sqrt(days)
    # all of the power of the line is in the bins: h0^2/4 T of each SFT
    power = np.sum(np.abs(wide(found["H1"])) ** 2, axis=1) / TSFT**2
    assert np.median(power) / (1e-44 / 4) == pytest.approx(1.0, rel=0.01)
    still = jfstat.inject_artefacts(sfts, [jfstat.WanderingLine(100.0, 1e-22, wander=0.0, phi0=0.4)])
    steady = jfstat.inject_artefacts(sfts, [jfstat.Artefact(100.0, 1e-22, phi0=0.4)])
    np.testing.assert_allclose(still["L1"].data, steady["L1"].data, atol=1e-5 * np.abs(steady["L1"].data).max())


def test_bins_of_a_wandering_line_are_the_fourier_integrals_of_its_strain():
    """With the phase that goes on from SFT to SFT, by a direct sum over samples."""
    sfts = jfstat.simulate_sfts(["H1"], START, 3600, 20.0, 20.5, 600, sqrt_sx=None)
    found = jfstat.inject_artefacts(sfts, [jfstat.WanderingLine(20.2, 2.0, 0.1, 0.7, seed=4)])["H1"].data
    step, rate = 150.0, 128
    hops = random_numbers([4], "WanderingLine", sfts["H1"]).normal(0, 0.1 * np.sqrt(step / 86400), 25)
    t = np.arange(3600 * rate) / rate
    f = np.interp(t, step * np.arange(26), 20.2 + np.concatenate([[0.0], np.cumsum(hops)]))
    cycles = np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]) / rate)])
    strain = 2.0 * np.sin(2 * np.pi * cycles + 0.7)
    truth = np.fft.fft(strain.reshape(6, -1), axis=1)[:, 12000:12300] / rate
    assert np.abs(found - truth).max() < 0.01 * np.abs(truth).max()


def test_glitches_are_the_fourier_transforms_of_sine_gaussians():
    glitches = jfstat.Glitches(2000.0, 1.0, (20.2, 20.3), quality=9.0, seed=7)
    sfts = jfstat.simulate_sfts(["H1"], START, 3600, 20.0, 21.0, 600, sqrt_sx=None)
    found = jfstat.inject_artefacts(sfts, [glitches])["H1"].data
    rng = random_numbers([7], "Glitches", sfts["H1"])
    n = int(rng.poisson(2000.0 * 3600 / 86400))
    time, f = rng.uniform(0, 3600, n), np.exp(rng.uniform(np.log(20.2), np.log(20.3), n))
    phase, peak = rng.uniform(0, 2 * np.pi, n), 1 / np.sqrt(1 - rng.uniform(size=n))
    rate = 128
    t = np.arange(3600 * rate) / rate
    strain = np.zeros_like(t)
    for own in range(n):
        since = t - time[own]
        tau = 9.0 / (np.sqrt(2) * np.pi * f[own])
        strain += peak[own] * np.exp(-((since / tau) ** 2)) * np.sin(2 * np.pi * f[own] * since + phase[own])
    truth = np.fft.fft(strain.reshape(6, -1), axis=1)[:, 12000:12600] / rate
    assert n > 50 and np.abs(found - truth).max() < 0.02 * np.abs(truth).max()


def test_glitches_are_loud_as_rarely_as_asked():
    sfts = empty(4800, 99.0, 99.02, ("H1",))
    found = jfstat.inject_artefacts(sfts, [jfstat.Glitches(20.0, 1e-21, (99.0, 99.0))])["H1"].data
    size = np.abs(found[:, 0]) / (0.5 * np.sqrt(np.pi) * 9 / (np.sqrt(2) * np.pi * 99.0)) / 1e-21
    n = 20.0 * 4800 * TSFT / 86400
    assert np.sum(size > 3) == pytest.approx(n / 9, rel=0.35)


def test_a_comb_is_a_sequence_of_lines():
    lines = jfstat.comb(0.25, [396, 400, 402], 1e-22, offset=0.1, detectors="L1")
    assert [line.freq for line in lines] == [99.1, 100.1, 100.6]
    found = jfstat.inject_artefacts(empty(), lines)
    assert not np.any(found["H1"].data)
    loud = np.abs(found["L1"].data[0])
    assert set(np.round(empty().frequencies[np.argsort(loud)[-3:]], 2)) == {99.1, 100.1, 100.6}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: jfstat.comb(0.0, [1], 1e-22), "spacing must be positive"),
        (lambda: jfstat.comb(0.5, [0], 1e-22), "harmonics must be whole numbers of at least 1, not 0"),
        (lambda: jfstat.comb(0.5, [], 1e-22), "harmonics must be whole numbers"),
        (lambda: jfstat.FloorDrift(-0.1, 100.0), "size must not be negative"),
        (lambda: jfstat.FloorDrift(0.1, 0.0), "timescale"),
        (lambda: jfstat.FloorDrift(0.1, 10.0, seed=1.5), "seed must be a whole number"),
        (lambda: jfstat.BroadLine(100.0, 0.0, 1e-23), "width=0 must be positive"),
        (lambda: jfstat.WanderingLine(100.0, 1e-23, -1.0), "wander=-1 not negative"),
        (lambda: jfstat.Glitches(1.0, 1e-21, (5.0, 1.0)), "must be positive and ordered"),
        (lambda: jfstat.Glitches(1.0, 1e-21, 5.0), r"band must be \(low, high\)"),
        (lambda: jfstat.Glitches(1.0, 1e-21, (5.0, 6.0), quality=0.0), "quality=0 must be positive"),
        (lambda: jfstat.inject_artefacts(empty(), [3]), "artefacts must hold objects such as jfstat.Artefact, not 3"),
        (
            lambda: jfstat.inject_artefacts(empty(), [jfstat.WanderingLine(100.99, 1e-22, 5.0)]),
            "leaves the SFTs' band",
        ),
        (lambda: jfstat.inject_artefacts(empty(), [jfstat.FloorDrift(0.1, 9.0, detectors="V1")]), "detectors has V1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make()
