"""to_bilby: priors and likelihood of Bilby are those of the model, are read back from files, and sampled."""

import json
import pickle
import sys
import warnings

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import jfstat

PRIORS = (
    jfstat.Uniform(-1.0, 3.0),
    jfstat.LogUniform(1e-26, 1e-24),
    jfstat.HalfNormal(2e-25),
    jfstat.Exponential(1e-7),
    jfstat.Normal(0.3, 0.2),
    jfstat.Normal(0.3, 0.2, 0.0, 1.0),
    jfstat.FermiDirac(mu=1e-24, sigma=1e-25),
    jfstat.Cosine(-0.4, 0.9),
)


@pytest.fixture(scope="module")
def prior_module():
    """Bilby's priors, whose dependencies warn where they are imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("bilby.core.prior")


@pytest.fixture(scope="module")
def signals():
    case = cases.make(100.0, 3, noise=True, h0=3e-25)
    near = jfstat.narrow(case.data, case.doppler)
    f = float(case.doppler.fkdot[0])
    priors = {"freq": jfstat.Uniform(f - 1e-5, f + 1e-5)}
    amplitudes = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24), psi=jfstat.Normal(0.3, 0.1))
    return [jfstat.model(near, case.doppler, priors, amplitudes, marginalised=x) for x in (True, False)]


@pytest.mark.parametrize("distribution", PRIORS, ids=lambda x: type(x).__name__)
def test_priors_are_the_distributions(prior_module, distribution):
    from jfstat.inference.bilby import DistributionPrior

    prior = DistributionPrior.of(distribution, "x")
    u = np.linspace(0.01, 0.99, 9)
    x = prior.rescale(u)
    np.testing.assert_allclose(x, distribution.quantile(jnp.asarray(u)), rtol=1e-12)
    np.testing.assert_allclose(prior.cdf(x), u, rtol=1e-9)
    np.testing.assert_allclose(prior.ln_prob(x), distribution.log_prob(jnp.asarray(x)), rtol=1e-12)
    np.testing.assert_allclose(prior.prob(x), np.exp(prior.ln_prob(x)), rtol=1e-12)
    assert isinstance(prior.rescale(0.5), float)
    assert (prior.minimum, prior.maximum) == (float(distribution.low), float(distribution.high))
    assert prior.minimum <= prior.sample() <= prior.maximum
    for again in (
        prior_module.PriorDict({"x": repr(prior)})["x"],
        prior_module.Prior.from_json(json.loads(prior.to_json())),
        pickle.loads(pickle.dumps(prior)),
    ):
        assert type(again) is DistributionPrior
        assert again == prior
        np.testing.assert_array_equal(again.rescale(u), x)


def test_all_parameters_have_priors_and_a_likelihood(prior_module, signals):
    for signal in signals:
        likelihood, priors = jfstat.to_bilby(signal)
        assert tuple(priors) == signal.names
        u = np.linspace(0.3, 0.6, len(signal.names))
        x = np.array(priors.rescale(signal.names, u))
        np.testing.assert_allclose(x, signal.prior_transform(jnp.asarray(u)), rtol=1e-12)
        parameters = dict(zip(signal.names, x, strict=True))
        assert priors.ln_prob(parameters) == pytest.approx(float(signal.log_prior(jnp.asarray(x))), rel=1e-9)
        expected = float(signal.log_likelihood(jnp.asarray(x)))
        assert likelihood.log_likelihood(parameters) == pytest.approx(expected, rel=1e-9)
        assert likelihood.noise_log_likelihood() == 0
        assert pickle.loads(pickle.dumps(likelihood)).log_likelihood(parameters) == pytest.approx(expected, rel=1e-9)
        assert likelihood.log_likelihood(parameters | {"freq": 120.0}) == -np.inf
    assert priors["phi0"].boundary == "periodic"


def test_parameters_may_be_kept_in_the_likelihood(prior_module, signals):
    """As Bilby did before version 2.7."""
    likelihood, priors = jfstat.to_bilby(signals[0])
    x = priors.sample()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        likelihood.parameters.update(x)
        assert likelihood.log_likelihood() == likelihood.log_likelihood(x)


@pytest.mark.slow
def test_bilby_finds_the_evidence(prior_module, signals, tmp_path):
    bilby = pytest.importorskip("bilby")
    pytest.importorskip("dynesty")
    signal = signals[0]
    u = jnp.linspace(0.0005, 0.9995, 1000)[:, None]
    values = jax.lax.map(lambda u: signal.log_likelihood(signal.prior_transform(u)), u, batch_size=50)
    expected = logsumexp(np.asarray(values)) - np.log(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bilby.run_sampler(
            *jfstat.to_bilby(signal),
            sampler="dynesty",
            nlive=100,
            sample="unif",
            seed=1,
            outdir=str(tmp_path),
            label="x",
            check_point=False,
            check_point_plot=False,
        )
        again = bilby.read_in_result(outdir=str(tmp_path), label="x")
    assert abs(result.log_evidence - expected) < 4 * result.log_evidence_err
    assert result.log_bayes_factor == result.log_evidence
    assert again.priors == result.priors


def test_without_bilby_it_says_what_to_install(signals, monkeypatch):
    from jfstat.inference import bilby

    bilby._classes.cache_clear()
    monkeypatch.setitem(sys.modules, "bilby", None)
    for name in [name for name in sys.modules if name.startswith("bilby.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ValueError, match=r"not installed: run pip install bilby\.$"):
        jfstat.to_bilby(signals[0])
    with pytest.raises(AttributeError, match="no attribute 'Priors'"):
        bilby.Priors  # noqa: B018
