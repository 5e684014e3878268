"""Stretches left out of prepared data: as if their SFTs had never been there."""

import jax
import numpy as np
import pytest

import jfstat

START = 1_140_000_000
POINT = jfstat.Doppler(0.7, -0.3, [80.0, -1e-9], START)


@pytest.fixture(scope="module")
def sfts():
    signal = (POINT, jfstat.Amplitude(1e-24, 0.4, 0.1, 0.2))
    return jfstat.simulate_sfts(["H1", "L1"], START, 86400, 78.5, 81.5, sqrt_sx=6e-24, signals=[signal], seed=2)


def prepared(sfts):
    return jfstat.prepare(sfts, 79.98, 80.02, sqrt_sx=6e-24, reftime=START)


def test_what_is_left_is_as_if_prepared_alone(sfts):
    """SFTs 10 to 19 of both detectors, and 30 to 33 of L1."""
    stretches = [(START + 10 * 1800 + 5, START + 19 * 1800 + 1)]
    times = START + 1800 * np.arange(48)
    good = {"H1": np.delete(times, range(10, 20)), "L1": np.delete(times, [*range(10, 20), *range(30, 34)])}
    whole = prepared(sfts)
    left = jfstat.leave_out(whole, {"H1": stretches, "L1": [*stretches, (times[30] + 1, times[34])]})
    picked = jfstat.join_sfts([sfts.select(detectors=d, start=t, end=t + 1800) for d in good for t in good[d]])
    truth = prepared(picked)
    assert left.observation.n_sfts == truth.observation.n_sfts == [38, 34]
    np.testing.assert_allclose(left.observation.mean_sqrt_sx, truth.observation.mean_sqrt_sx, rtol=1e-12)
    mine, other = jfstat.fstat(left, POINT), jfstat.fstat(truth, POINT)
    np.testing.assert_allclose(mine.A, other.A, rtol=1e-9)
    assert float(other.twoF) > 60
    # within what the low-pass mixes at six edges: some samples of a thousand
    np.testing.assert_allclose(mine.twoF, other.twoF, rtol=0.02)
    np.testing.assert_allclose(
        jfstat.predict_twoF(left, POINT, jfstat.Amplitude(1e-24, 0.4)),
        jfstat.predict_twoF(truth, POINT, jfstat.Amplitude(1e-24, 0.4)),
        rtol=1e-9,
    )
    # resampling sees the same data as the direct sum
    band, near = np.asarray(jfstat.twoF_band(left, POINT)), jfstat.narrow(left, POINT)
    at = int(np.argmin(np.abs(left.frequencies - 80.0)))
    exact = jfstat.twoF(left, jfstat.Doppler(0.7, -0.3, [left.frequencies[at], -1e-9], START))
    np.testing.assert_allclose(band[at], exact, rtol=2e-3)
    np.testing.assert_allclose(jfstat.twoF(near, POINT), mine.twoF, rtol=1e-6)
    # and the data themselves did not change
    np.testing.assert_allclose(jfstat.twoF(whole, POINT), jfstat.twoF(prepared(sfts), POINT), rtol=1e-12)


def test_what_is_left_out_does_not_matter(sfts):
    """A stretch a hundred times as loud, from atoms on."""
    loud = jax.tree.map(lambda x: x, sfts)
    rows = slice(20, 24)
    for series in loud:
        series.data[rows] *= 100
    stretch = [(START + 20 * 1800, START + 24 * 1800)]
    left = jfstat.leave_out(prepared(loud), stretch)
    parts = jfstat.atoms(left, POINT)
    assert not np.any(parts.A[:, 20:24]) and not np.any(parts.Fa[:, 20:24])
    assert np.all(np.sum(np.asarray(parts.A), axis=0)[:20] > 0)
    for series in loud:
        series.data[rows] /= 100
    quiet = jfstat.twoF(jfstat.leave_out(prepared(loud), stretch), POINT)
    # what rings across the edges is a hundred times as loud as well
    assert abs(float(jfstat.twoF(left, POINT) - quiet)) < 0.5 * float(quiet)


def test_arguments_are_checked(sfts):
    data = prepared(sfts)
    for stretches, words in (
        ([(START + 10, START)], "start < end"),
        ({"V1": [(START, START + 1)]}, "name 'V1'"),
        ([3.0], "pairs"),
        ([(START, START + 1e6)], "leave no SFT"),
    ):
        with pytest.raises(ValueError, match=words):
            jfstat.leave_out(data, stretches)
    np.testing.assert_allclose(jfstat.twoF(jfstat.leave_out(data, []), POINT), jfstat.twoF(data, POINT), rtol=1e-12)
