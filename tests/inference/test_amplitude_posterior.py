"""amplitude_posterior: the density by numerical integration, samples against it, calibration, data, messages."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihoods import at_orientations, fisher_matrices, likelihoods, one_of_power
from scipy.special import i0e
from scipy.stats import kstest

import jfstat
from jfstat.inference.amplitudeposterior import amplitude_posterior_of
from jfstat.inference.bstat import log_bstat_of

PRIORS = {
    "half-normal": jfstat.AmplitudePrior(h0=jfstat.HalfNormal(10.0)),
    "uniform": jfstat.AmplitudePrior(h0=jfstat.Uniform(0.0, 20.0)),
    "restricted": jfstat.AmplitudePrior(
        h0=jfstat.LogUniform(0.1, 50.0), cosi=jfstat.Normal(0.5, 0.2), psi=jfstat.Normal(0.2, 0.1)
    ),
    "Fermi-Dirac": jfstat.AmplitudePrior(h0=jfstat.FermiDirac(mu=10.0, sigma=2.0), cosi=jfstat.Uniform(-1, 1)),
}


@jax.jit
def posterior(likelihood, prior):
    return amplitude_posterior_of(likelihood, prior, jnp.float64(1.0), jax.random.key(0), 4000)


@pytest.mark.parametrize("twoF", [3.0, 100.0])
def test_the_density_is_an_integral(twoF):
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(5.0))
    likelihood, _ = one_of_power(np.random.default_rng(1), twoF, 5.0, 0.6)
    found = posterior(likelihood, prior)
    cosi, shares = np.polynomial.legendre.leggauss(100)
    psi = ((np.arange(100) + 0.5) / 100 - 0.5) * np.pi / 2
    z, q = at_orientations(likelihood, cosi[:, None], psi[None])
    h0 = np.linspace(0, 60, 801)
    x = h0[:, None, None] * z
    values = np.exp(x - 0.5 * h0[:, None, None] ** 2 * q - 0.5 * twoF) * i0e(x)
    density = np.einsum("hcp,c->h", values, shares) * np.exp(-0.5 * (h0 / 5) ** 2)
    density /= np.trapezoid(density, h0)
    # the tabulated density is normed by the Bayes factor, not by its own sum
    np.testing.assert_allclose(found.density, np.interp(found.h0, h0, density), atol=1e-3 * density.max())
    below = np.append(0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(h0)))
    assert float(found.h0_limit(0.95)) == pytest.approx(np.interp(0.95, below, h0), rel=2e-3)
    np.testing.assert_allclose(found.h0_interval(0.9), np.interp([0.05, 0.95], below, h0), rtol=5e-3)
    assert float(found.log_bstat) == pytest.approx(float(log_bstat_of(likelihood, prior, jnp.float64(1.0))), abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_priors_may_end_far_below_the_best_amplitude(share):
    likelihood, amplitude = one_of_power(np.random.default_rng(5), 400.0, 1.5, -0.8)
    end = share * float(amplitude.h0)
    found = posterior(likelihood, jfstat.AmplitudePrior(h0=jfstat.Uniform(0.0, end)))
    cosi, shares = np.polynomial.legendre.leggauss(200)
    psi = ((np.arange(200) + 0.5) / 200 - 0.5) * np.pi / 2
    z, q = at_orientations(likelihood, cosi[:, None], psi[None])
    h0 = end * (1 - np.append(np.geomspace(1, 1e-5, 600), 0.0))
    values = [h * z - 0.5 * h**2 * q + np.log(i0e(h * z)) for h in h0]
    top = np.max(values)
    density = np.array([np.sum(np.exp(x - top) * shares[:, None]) for x in values])
    below = np.append(0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(h0)))
    wanted = np.interp([0.05, 0.5, 0.95], below / below[-1], h0)
    np.testing.assert_allclose([found.h0_quantile(p) for p in (0.05, 0.5, 0.95)], wanted, rtol=3e-4)
    assert len(np.unique(found.samples.h0)) > 3000 and np.all(found.samples.h0 <= end)


@pytest.mark.parametrize("end", [0.6, 0.95, 1.1])
@pytest.mark.parametrize("kind", ["uniform", "log-uniform", "Fermi-Dirac"])
def test_amplitudes_far_below_the_best_one_count_in_weak_signals(kind, end):
    """The orientation is known; the prior ends near the best amplitude, 2.4 standard deviations from zero."""
    cosi, psi = 0.3, 0.4
    likelihood, _ = one_of_power(np.random.default_rng(5), 6.0, 2.0, cosi)
    z, q = (float(x) for x in at_orientations(likelihood, cosi, psi))
    end = end * z / q
    prior, log_density = {
        "uniform": (jfstat.Uniform(0.0, end), lambda h: np.where(h <= end, 0.0, -np.inf)),
        "log-uniform": (jfstat.LogUniform(1e-3 * end, end), lambda h: np.where(h <= end, -np.log(h), -np.inf)),
        "Fermi-Dirac": (jfstat.FermiDirac(mu=end, sigma=0.02 * end), lambda h: -np.logaddexp(0, (h / end - 1) / 0.02)),
    }[kind]
    found = posterior(likelihood, jfstat.AmplitudePrior(h0=prior, cosi=cosi, psi=psi))
    h0 = np.geomspace(1e-3 * end, 30 * end, 300_001) if kind == "log-uniform" else np.linspace(0, 10 * end, 1_000_001)
    value = h0 * z - 0.5 * h0**2 * q + np.log(i0e(h0 * z)) + log_density(np.maximum(h0, 1e-300))
    density = np.exp(value - np.max(value))
    below = np.append(0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(h0)))
    probabilities = np.array([0.05, 0.5, 0.95])
    wanted = np.interp(probabilities, below / below[-1], h0)
    np.testing.assert_allclose(found.h0_quantile(probabilities), wanted, rtol=6e-3)
    ranks = np.interp(found.samples.h0, h0, below / below[-1])
    assert kstest(ranks, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("twoF", [200.0, 900.0, 2500.0])
@pytest.mark.parametrize("least", [1e-3, 1e-8])
def test_wide_priors_leave_the_peak_resolved(twoF, least):
    cosi, psi = 0.3, 0.4
    likelihood, _ = one_of_power(np.random.default_rng(5), twoF, 2.0, cosi)
    z, q = (float(x) for x in at_orientations(likelihood, cosi, psi))
    prior = jfstat.LogUniform(least * z / q, 1.1 * z / q)
    found = posterior(likelihood, jfstat.AmplitudePrior(h0=prior, cosi=cosi, psi=psi))
    h0 = np.linspace(0.01 * z / q, 1.1 * z / q, 400_001)
    value = h0 * z - 0.5 * h0**2 * q + np.log(i0e(h0 * z)) - np.log(h0)
    density = np.exp(value - np.max(value))
    below = np.append(0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(h0)))
    probabilities = np.linspace(0.01, 0.99, 50)
    wanted = np.interp(probabilities, below / below[-1], h0)
    np.testing.assert_allclose(found.h0_quantile(probabilities), wanted, rtol=0, atol=5e-3 / np.sqrt(q))
    ranks = np.interp(found.samples.h0, h0, below / below[-1])
    assert kstest(ranks, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", ["half-normal", "restricted"])
def test_samples_follow_the_density(name):
    likelihood, _ = one_of_power(np.random.default_rng(2), 40.0, 5.0, 0.3)
    found = posterior(likelihood, PRIORS[name])
    below = np.asarray(jnp.cumsum(0.5 * (found.density[1:] + found.density[:-1]) * jnp.diff(found.h0)))
    below = np.append(0, below) / below[-1]
    ranks = np.interp(found.samples.h0, found.h0, below)
    assert kstest(ranks, "uniform").pvalue > 0.01
    assert len(np.unique(found.samples.cosi)) > 3800
    assert np.all((np.abs(found.samples.cosi) <= 1) & (found.samples.h0 >= 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS)
def test_credible_levels_hold(name):
    """500 signals drawn from the prior: their ranks among the samples are uniform, 95 % limits hold for 95 %."""
    rng, n, prior = np.random.default_rng(7), 500, PRIORS[name]
    truth = prior.sample(jax.random.key(3), n)
    stack = likelihoods(fisher_matrices(rng, 10 ** rng.uniform(0, 2, n)), truth, rng)
    keys = jax.random.split(jax.random.key(1), n)
    found = jax.lax.map(lambda x: amplitude_posterior_of(x[0], prior, jnp.float64(1.0), x[1], 999), (stack, keys))
    for parameter in ("h0", "cosi", "psi", "phi0"):
        samples, true = (np.asarray(getattr(x, parameter)) for x in (found.samples, truth))
        assert kstest(np.mean(samples < true[:, None], axis=1), "uniform").pvalue > 0.01, parameter
    limits = np.asarray(jax.vmap(lambda x: x.h0_limit(0.95))(found))
    assert abs(np.mean(np.asarray(truth.h0) < limits) - 0.95) < 0.02


@pytest.mark.ci
def test_a_signal_in_data():
    case = cases.make(100.0, 3, noise=True, h0=4e-25)
    prior = jfstat.AmplitudePrior(h0=jfstat.Uniform(0, 5e-24))
    near = jfstat.narrow(case.data, case.doppler)
    found = jfstat.amplitude_posterior(near, case.doppler, prior, samples=2000)
    low, high = (float(x) for x in found.h0_interval(0.999))
    assert low < float(case.amplitude.h0) < high
    assert float(found.log_bstat) == pytest.approx(float(jfstat.log_bstat(near, case.doppler, prior)), abs=1e-6)
    # the likelihood at the samples is that of a signal: F less some half of four degrees of freedom
    values = jax.jit(jax.vmap(lambda x: jfstat.log_likelihood(near, case.doppler, x)))(found.samples)
    loss = 0.5 * float(jfstat.twoF(near, case.doppler)) - np.asarray(values)
    assert np.all(loss > -1e-6)
    assert 1 < np.mean(loss) < 3
    assert "log_bstat" in repr(found)


def test_quantiles_are_of_probabilities():
    h0 = jnp.linspace(0.0, 2.0, 201)
    one = jfstat.AmplitudePosterior(jnp.zeros(()), jfstat.Amplitude(1.0, 0.0), h0, jnp.full(201, 0.5))
    for wrong in (1.5, -1, np.nan, [0.5, 2.0], jnp.asarray(95.0)):
        with pytest.raises(ValueError, match=r"^p must be from 0 to 1, not .*: it is a probability\.$"):
            one.h0_quantile(wrong)
    np.testing.assert_allclose(one.h0_quantile([0, 0.25, 1]), [0, 0.5, 2])
    assert float(jax.jit(one.h0_quantile)(0.25)) == pytest.approx(0.5)
    np.testing.assert_allclose(jax.vmap(one.h0_quantile)(jnp.array([0.25, 0.5])), [0.5, 1])
    both = jax.tree.map(lambda x: jnp.stack([x, x]), one)
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda x: x.h0_quantile(0.25)))(both), 0.5)
    np.testing.assert_allclose(jax.vmap(lambda x: x.h0_interval(0.5))(both), [[0.5, 1.5]] * 2)


@pytest.mark.ci
def test_keys_and_sizes():
    case = cases.make(100.0, 3, noise=True)
    run = [jfstat.amplitude_posterior(case.data, case.doppler, key=jax.random.key(k), samples=50) for k in (0, 0, 1)]
    np.testing.assert_array_equal(run[0].samples.h0, run[1].samples.h0)
    assert not np.array_equal(run[0].samples.h0, run[2].samples.h0)
    assert run[0].samples.h0.shape == (50,)
    with pytest.raises(ValueError, match="samples must be"):
        jfstat.amplitude_posterior(case.data, case.doppler, samples=0)
    with pytest.raises(TypeError, match="key must be a random key"):
        jfstat.amplitude_posterior(case.data, case.doppler, key=3)
    with pytest.raises(ValueError, match="credibility"):
        run[0].h0_limit(95)
