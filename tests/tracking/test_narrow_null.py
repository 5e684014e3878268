"""Chances of paths in tables that are narrower than those simulated."""

import jax
import numpy as np
import pytest
from scipy.stats import chi2

import jfstat


def test_a_single_frequency_has_one_path():
    """Its log-likelihood is half a chi-squared number."""
    null = jfstat.viterbi_null(10, transitions=0, n_frequencies=1)
    x = np.asarray([14.0, 19.7, 25.0, 35.0, 45.0])
    np.testing.assert_allclose(null.false_alarm(x), chi2.sf(2 * x, 40), rtol=0.15)
    assert chi2.sf(2 * null.threshold(1e-4), 40) == pytest.approx(1e-4, rel=0.2)


@pytest.mark.ci
@pytest.mark.parametrize(("reach", "n"), [(1, 2), (1, 5), (1, 40), (10, 100), (10, 250), ([0.1, 0.8, 0.1], 12)])
def test_narrow_tables_have_ends(reach, n):
    transitions = reach if isinstance(reach, int) else np.log(reach)
    null = jfstat.viterbi_null(10, transitions=transitions, n_frequencies=n)
    rng = np.random.default_rng(n)
    noise = rng.standard_normal((8000, 10, 2, n, 2), np.float32).view(np.complex64)[..., 0]
    spectra = np.fft.fft(noise, 2 * n) / np.sqrt(n)  # spaced by half the inverse of the length
    tables = (0.5 * np.sum(np.abs(spectra) ** 2, axis=2))[..., :n].astype(np.float32)
    best = jax.jit(jax.vmap(lambda x: jfstat.viterbi(x, transitions).log_likelihood))(tables)
    p = null.false_alarm(best)
    for level in (0.9, 0.5, 0.1, 0.01):
        assert abs(np.mean(p < level) - level) < 3 * np.sqrt(level * (1 - level) / len(p)) + 0.1 * level
    assert np.mean(best > null.threshold(0.1)) == pytest.approx(0.1, abs=0.02)


def test_transitions_out_of_the_table_are_refused():
    with pytest.raises(ValueError, match="transitions lead all paths of 10 segments out of the 5 frequencies"):
        jfstat.viterbi_null(10, transitions=[-np.inf, -np.inf, 0.0], n_frequencies=5)
