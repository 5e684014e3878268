"""ellipticity_likelihoods: against the Bayes factors of each pulsar, derivatives, calibration, messages."""

from types import SimpleNamespace

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import QTable
from jax.scipy.special import logsumexp
from likelihoods import fisher_matrices, likelihoods, one

import jfstat
from jfstat.inference.bstat import log_bstat_of
from jfstat.inference.population import EllipticityLikelihoods, _table
from jfstat.inference.pulsarposteriors import PulsarPosteriors
from jfstat.inference.pulsarsignals import PulsarLikelihood

DISTRIBUTIONS = {
    "exponential": jfstat.Exponential,
    "half-normal": jfstat.HalfNormal,
    "log-uniform": lambda x: jfstat.LogUniform(0.1 * x, 3 * x),
    "uniform": lambda x: jfstat.Uniform(0.0, 2 * x),
    "Fermi-Dirac": lambda x: jfstat.FermiDirac(mu=x, sigma=0.1 * x),
}


def exact(*harmonics):
    """The likelihood of a signal whose phase is known, of one harmonic or two."""
    stacks = tuple(jax.tree.map(lambda x: jnp.asarray(x)[None], own) for own in harmonics)
    return PulsarLikelihood(stacks, (jnp.float64(1.0),) * len(harmonics), jnp.zeros(1))


def posteriors(own, names=None):
    """What pulsar_posteriors returns, for stars of whose h0 one is an ellipticity of 1e-7."""
    n = len(own)
    freq = 100.0
    kpc = 1e-7 / float(jfstat.ellipticity(1.0, freq, 1.0))
    table = QTable({"name": names or [f"J{i}" for i in range(n)]})
    table["freq"], table["distance"] = np.full(n, freq) * u.Hz, np.full(n, kpc) * u.kpc
    return PulsarPosteriors(table, (None,) * n, (jfstat.AmplitudePrior(),) * n, tuple(map(exact, own)))


@pytest.fixture(scope="module")
def stars():
    rng = np.random.default_rng(1)
    h0 = np.array([0.0, 1.0, 4.0, 8.0, 40.0])
    amplitudes = jfstat.Amplitude(h0, rng.uniform(-1, 1, 5), rng.uniform(-0.7, 0.7, 5), rng.uniform(0, 6, 5))
    stack = likelihoods(fisher_matrices(rng, [1.0, 2.0, 5.0, 10.0, 3.0]), amplitudes, rng)
    return [one(stack, k) for k in range(5)]


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        pytest.param(name, mean, marks=pytest.mark.ci if i == j else pytest.mark.slow)
        for i, name in enumerate(["half-normal", "log-uniform", "uniform", "Fermi-Dirac"])
        for j, mean in enumerate([10.0, 0.01, 1.0, 300.0])
    ],
)
def test_terms_are_bayes_factors(stars, name, mean):
    found = jfstat.ellipticity_likelihoods(posteriors(stars))
    terms = found.log_likelihood_of_each(DISTRIBUTIONS[name](mean * 1e-7))
    prior = jfstat.AmplitudePrior(h0=DISTRIBUTIONS[name](mean))
    wanted = [float(jax.jit(log_bstat_of)(x, prior, jnp.float64(1.0))) for x in stars]
    near = np.array(wanted) > -35  # or the distribution ends far below the signal
    np.testing.assert_allclose(terms[near], np.array(wanted)[near], atol=3e-3)
    assert np.all(np.asarray(terms)[~near] < -34)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_derivatives_are_differences(stars, name):
    found = jfstat.ellipticity_likelihoods(posteriors(stars))

    def total(log_mean):
        return found.log_likelihood(DISTRIBUTIONS[name](jnp.exp(log_mean)))

    at, step = jnp.log(6e-7), 1e-4
    slope = (total(at + step) - total(at - step)) / (2 * step)
    assert float(jax.grad(total)(at)) == pytest.approx(float(slope), rel=1e-3, abs=1e-3)


@pytest.mark.slow
def test_the_mean_of_a_population_is_found():
    """Of 100 populations with means drawn from the prior, the rank of the mean in its posterior is uniform."""
    from scipy.stats import kstest

    rng, n, each = np.random.default_rng(2), 100, 10
    log_means = rng.uniform(np.log(0.3), np.log(30), n)
    grid = jnp.linspace(np.log(0.3), np.log(30), 200)
    h0 = rng.exponential(size=(n, each)) * np.exp(log_means)[:, None]
    shape = (n * each,)
    angles = rng.uniform(-1, 1, shape), rng.uniform(-0.7, 0.7, shape), rng.uniform(0, 6, shape)
    stack = likelihoods(
        fisher_matrices(rng, 10 ** rng.uniform(0, 1, shape)), jfstat.Amplitude(h0.reshape(-1), *angles), rng
    )

    found = jax.jit(lambda x: jax.lax.map(lambda y: _table(exact(y), jfstat.AmplitudePrior()), x))(stack)
    tables = [x.reshape(n, each, -1) for x in found]

    def log_posterior(tables):
        own = EllipticityLikelihoods(*tables, ("",) * each)
        return jax.vmap(lambda at: own.log_likelihood(jfstat.Exponential(jnp.exp(at))))(grid)

    density = np.asarray(jax.jit(lambda x: jax.lax.map(log_posterior, x))(tables))
    density = np.exp(density - density.max(axis=1, keepdims=True))
    below = np.cumsum(density, axis=1) / density.sum(axis=1, keepdims=True)
    ranks = [np.interp(at, grid, own) for at, own in zip(log_means, below, strict=True)]
    assert kstest(ranks, "uniform").pvalue > 0.01


def test_distributions_are_cut_at_zero(stars):
    found = jfstat.ellipticity_likelihoods(posteriors(stars))
    half = found.log_likelihood(jfstat.HalfNormal(3e-7))
    assert float(found.log_likelihood(jfstat.Normal(0.0, 3e-7))) == pytest.approx(float(half), abs=1e-3)
    both = [found.log_likelihood(jfstat.Uniform(low, 1e-6)) for low in (-5e-7, 0.0)]
    assert float(both[0]) == pytest.approx(float(both[1]), abs=1e-3)
    far = [float(found.log_likelihood(jfstat.Uniform(x, 1.01 * x))) for x in (1e-4, 2e-4)]
    assert far[1] == pytest.approx(4 * far[0], rel=0.05)  # the logarithm falls with the square


def test_known_orientations_hold(stars):
    own = posteriors(stars[2:3])
    other = PulsarPosteriors(own.table, (None,), (jfstat.AmplitudePrior(cosi=0.0, psi=0.3),), own.likelihoods)
    found = jfstat.ellipticity_likelihoods(other).log_likelihood(jfstat.HalfNormal(5e-7))
    prior = jfstat.AmplitudePrior(jfstat.HalfNormal(5.0), 0.0, 0.3)
    assert float(found) == pytest.approx(float(log_bstat_of(stars[2], prior, jnp.float64(1.0))), abs=3e-3)


@pytest.mark.ci
@pytest.mark.parametrize("h0", [4.0, 12.0, 40.0])
def test_priors_of_orientations_may_be_contradicted(h0):
    """By loud signals, ten and more standard deviations from a normal prior."""
    amplitude = jax.tree.map(lambda x: jnp.asarray([x]), jfstat.Amplitude(h0, -0.5, 0.3, 1.0))
    rng = np.random.default_rng(3)
    own = one(likelihoods(fisher_matrices(rng, [3.0]), amplitude, rng), 0)
    orientation = dict(cosi=jfstat.Normal(0.5, 0.05), psi=jfstat.Normal(0.3, 0.1))
    found = posteriors([own])
    found = PulsarPosteriors(found.table, (None,), (jfstat.AmplitudePrior(**orientation),), found.likelihoods)
    stars = jfstat.ellipticity_likelihoods(found)
    for sigma in (2.0, 10.0):
        prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(sigma), **orientation)
        wanted = float(log_bstat_of(own, prior, jnp.float64(1.0)))
        term = float(stars.log_likelihood(jfstat.HalfNormal(sigma * 1e-7)))
        assert term == pytest.approx(wanted, abs=5e-3, rel=1e-4)


def test_likelihoods_are_averaged_over_timing_errors(stars):
    stack = jax.tree.map(lambda *x: jnp.stack(x), *stars[:3])
    log_weight = jnp.log(jnp.asarray([0.2, 0.3, 0.9]))
    own = posteriors(stars[:1])
    averaged = PulsarLikelihood((stack,), (jnp.float64(1.0),), log_weight)
    other = PulsarPosteriors(own.table, (None,), own.priors, (averaged,))
    found = jfstat.ellipticity_likelihoods(other).log_likelihood(jfstat.HalfNormal(5e-7))
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(5.0))
    terms = jnp.stack([jax.jit(log_bstat_of)(x, prior, jnp.float64(1.0)) for x in stars[:3]])
    assert float(found) == pytest.approx(float(logsumexp(log_weight + terms)), abs=3e-3)


def test_mistakes_are_said(stars):
    found = posteriors(stars[:2], ["J1", "J1"])
    with pytest.raises(ValueError, match="J1 has several rows: give each pulsar once"):
        jfstat.ellipticity_likelihoods(found)
    with pytest.raises(ValueError, match="of signals with two harmonics"):
        jfstat.ellipticity_likelihoods(PulsarPosteriors(found.table, (), (), (exact(stars[0], stars[1]),)))
    found = posteriors(stars[:2])
    found.table["distance"][0] = np.nan * u.kpc
    with pytest.warns(UserWarning, match="without a distance there is no ellipticity: J0 left out"):
        few = jfstat.ellipticity_likelihoods(found)
    assert few.names == ("J1",) and "J1" in repr(few)
    with pytest.raises(TypeError, match=r"distribution must be one such as jfstat\.Exponential"):
        few.log_likelihood(SimpleNamespace(log_prob=None))
    found.table["distance"][1] = np.nan * u.kpc
    with pytest.raises(ValueError, match="no pulsar has a distance"):
        jfstat.ellipticity_likelihoods(found)
