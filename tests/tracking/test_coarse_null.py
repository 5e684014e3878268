"""Chances of paths where frequencies are spaced by more than the inverse of a segment's length."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import jfstat
from jfstat.tracking.nulltemplates import orthonormal_signals

START, DAY = 1_167_458_304, 86400
POINT = jfstat.Doppler(1.0, 0.3, [100.0], START)
AMPLITUDE = jfstat.Amplitude(1e-24, 0.3, 0.4, 0.5)


@pytest.fixture(scope="module")
def sfts():
    """Four days of which each has an SFT at its beginning and others in its last ten hours."""
    own = [[0, *range(14 * 3600, DAY - 1800, 1800)] for _ in range(4)]
    times = np.concatenate([START + k * DAY + np.array(x) for k, x in enumerate(own)])
    stamps = {"H1": times, "L1": times[3:], "V1": times[:40]}
    return jfstat.simulate_sfts([*stamps], timestamps=stamps, fmin=99.7, fmax=100.3, sqrt_sx=4e-24, seed=2)


def prepared(sfts, bins):
    days = [(START + k * DAY, START + (k + 1) * DAY) for k in range(4)]
    return jfstat.prepare(sfts, 99.99, 100.01, guard=0.2, sqrt_sx=4e-24, segments=days, dfreq=bins / DAY)


def correlations(templates):
    """Sums of squared correlations of two frequencies' values by segment and distance in bins, (K, n)."""
    response = np.fft.fft(np.einsum("kcdn,kedn->kcen", np.conj(templates), templates))
    return np.sum(np.abs(response) ** 2, axis=(1, 2))


@pytest.mark.parametrize("detectors", [("H1",), ("H1", "L1", "V1")])
@pytest.mark.parametrize("amplitude", [None, AMPLITUDE])
def test_correlations_are_those_of_finer_frequencies(sfts, detectors, amplitude):
    own = replace(sfts, series=tuple(sfts[name] for name in detectors))
    canonical = None if amplitude is None else np.asarray(amplitude.canonical)
    fine = correlations(orthonormal_signals(prepared(own, 1), POINT, canonical, 1024))
    for bins in (2, 4):
        coarse = correlations(orthonormal_signals(prepared(own, bins), POINT, canonical, 1024 // bins))
        np.testing.assert_allclose(coarse, fine[:, ::bins], rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_thresholds_are_those_of_noise(sfts):
    data = prepared(sfts, 4)
    null = jfstat.viterbi_null(data, POINT, 1)

    @jax.jit
    @jax.vmap
    def best(key):
        noise = jax.vmap(jfstat.noise_like)(jax.random.split(key, 4), data)
        return jfstat.viterbi(jfstat.twoF_by_segment(noise, POINT) / 2, 1).log_likelihood

    values = np.asarray(best(jax.random.split(jax.random.key(1), 200)))
    for chance in (0.5, 0.1):
        found = np.mean(values > float(null.threshold(chance)))
        assert abs(found - chance) < 4 * np.sqrt(chance * (1 - chance) / 200)


def test_transitions_wider_than_the_table_are_refused():
    with pytest.raises(ValueError, match="transitions reaches 50 bins, and the band has 19 bins from end to end"):
        jfstat.viterbi_null(3, transitions=50, n_frequencies=20)
