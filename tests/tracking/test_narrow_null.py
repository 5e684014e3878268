"""Chances of paths in tables that are narrower than those simulated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import jfstat
from jfstat.tracking.null import null_of_paths
from jfstat.tracking.transitions import model_of

START = 1_167_458_304


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


def test_segments_that_know_nothing_change_no_ratio():
    """Of one detector's single SFT a segment cannot tell the amplitudes, and 2F is 4 whatever the data."""
    start = [START + 43200 * k + 60 * np.arange(200 if k % 3 else 1) for k in range(6)]
    sfts = jfstat.simulate_sfts("H1", timestamps=np.concatenate(start), tsft=60, fmin=49, fmax=51, sqrt_sx=1e-23)
    edges = [(START + 43200.0 * k, START + 43200.0 * (k + 1)) for k in range(6)]
    segments = jfstat.prepare(sfts, 50.0, 50.0, segments=edges, guard=0.3, sqrt_sx=1e-23)
    null = jfstat.viterbi_null(segments, jfstat.Doppler(1.0, 0.3, [50.0], START), 0, n_frequencies=1)
    x = np.asarray([10.0, 15.0, 20.0, 30.0])  # of four segments, beside twice half of 4
    np.testing.assert_allclose(null.false_alarm(x + 4), chi2.sf(2 * x, 16), rtol=0.15)


@pytest.mark.ci
@pytest.mark.parametrize(("reach", "n"), [(1, 2), (1, 20)])
def test_ends_within_a_part_of_a_table(reach, n):
    """Paths to a sub-band may begin elsewhere."""
    null = null_of_paths(10, None, reach, n, None, within=False)
    rng = np.random.default_rng(n)
    noise = rng.standard_normal((300, 10, 2, 400, 2), np.float32).view(np.complex64)[..., 0]
    tables = 0.5 * np.sum(np.abs(np.fft.fft(noise, 800) / np.sqrt(400)) ** 2, axis=2)[..., :400].astype(np.float32)
    model = model_of(reach, None, 1, jnp.float32)

    def ends(table):
        return jax.lax.scan(lambda d, x: (x + model.largest_predecessors(d), None), table[0][None], table[1:, None])[0]

    best = np.asarray(jax.jit(jax.vmap(ends))(tables))[:, 0, 20:380]
    p = null.false_alarm(best[:, : 360 // n * n].reshape(-1, n).max(-1))
    for level in (0.5, 0.1, 0.01):
        # neighbouring sub-bands share paths
        assert abs(np.mean(p < level) / level - 1) < 0.15 + 6 / np.sqrt(level * len(p))


def test_transitions_out_of_the_table_are_refused():
    with pytest.raises(ValueError, match="transitions lead all paths of 10 segments out of the 5 frequencies"):
        jfstat.viterbi_null(10, transitions=[-np.inf, -np.inf, 0.0], n_frequencies=5)
