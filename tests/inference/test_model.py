"""model: prior transform and density, likelihoods, evidence by quadrature and samplers, messages."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest

import jfstat

AMPLITUDES = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))


@pytest.fixture(scope="module")
def near():
    case = cases.make(100.0, 3, noise=True, h0=3e-25)
    return jfstat.narrow(case.data, case.doppler), case.doppler, case.amplitude


@pytest.fixture(scope="module")
def by_frequency(near):
    data, point, _ = near
    f = float(point.fkdot[0])
    return jfstat.model(data, point, {"freq": jfstat.Uniform(f - 1e-5, f + 1e-5)}, AMPLITUDES)


@pytest.fixture(scope="module")
def with_all(near):
    data, point, _ = near
    f, f1 = (float(x) for x in point.fkdot)
    priors = {"f1dot": jfstat.Normal(f1, 1e-11), "freq": jfstat.Uniform(f - 1e-5, f + 1e-5)}
    priors |= {"delta": jfstat.Cosine(float(point.delta) - 1e-4, float(point.delta) + 1e-4)}
    return jfstat.model(data, point, priors, AMPLITUDES, marginalised=False)


@pytest.mark.ci
def test_transform_and_density_are_of_one_prior(with_all):
    assert with_all.names == ("freq", "f1dot", "delta", "h0", "cosi", "psi", "phi0")
    u = jnp.linspace(0.2, 0.8, 7)
    slopes = jnp.diagonal(jax.jacfwd(with_all.prior_transform)(u))
    assert float(with_all.log_prior(with_all.prior_transform(u))) == pytest.approx(-float(jnp.sum(jnp.log(slopes))))
    z = jax.scipy.special.ndtri(u)
    np.testing.assert_allclose(with_all.from_normal(z), with_all.prior_transform(u), rtol=1e-12)
    expected = with_all.log_likelihood(with_all.prior_transform(u)) + jnp.sum(jax.scipy.stats.norm.logpdf(z))
    assert float(with_all.log_density_normal(z)) == pytest.approx(float(expected))
    assert float(with_all.log_prior(with_all.prior_transform(u).at[4].set(1.1))) == -np.inf
    assert float(with_all.log_prior(with_all.prior_transform(u).at[0].add(1e-3))) == -np.inf
    assert np.all(np.isfinite(jax.grad(with_all.log_density_normal)(jnp.full(7, 9.0)[:].at[3].set(-9.0))))
    with pytest.raises(ValueError, match=r"x has shape \(2,\), but 7 values are wanted, of freq, f1dot, "):
        with_all.log_prior(jnp.zeros(2))


def test_likelihoods_are_those_of_the_functions(near, by_frequency, with_all):
    data, _, _ = near
    x = with_all.prior_transform(jnp.full(7, 0.45))
    expected = jfstat.log_likelihood(data, with_all.point(x), jfstat.Amplitude(*x[3:]))
    assert float(jax.jit(with_all.log_likelihood)(x)) == pytest.approx(float(expected), rel=1e-9)
    x = by_frequency.prior_transform(jnp.asarray([0.45]))
    expected = jfstat.log_bstat(data, by_frequency.point(x), AMPLITUDES)
    assert float(by_frequency.log_likelihood(x)) == pytest.approx(float(expected), abs=1e-6)
    assert float(by_frequency.log_posterior(x)) == pytest.approx(float(expected) - np.log(2e-5), abs=1e-6)


def test_gradients_are_differences(by_frequency):
    value = jax.jit(by_frequency.log_density_normal)
    for z in (-0.1, 0.02):
        step = 1e-4
        difference = (float(value(jnp.asarray([z + step]))) - float(value(jnp.asarray([z - step])))) / (2 * step)
        assert float(jax.grad(value)(jnp.asarray([z]))[0]) == pytest.approx(difference, rel=1e-3, abs=0.05)


def test_beyond_the_data_it_is_impossible(with_all):
    value, slope = jax.value_and_grad(with_all.log_likelihood)(
        with_all.prior_transform(jnp.full(7, 0.5)).at[0].set(120.0)
    )
    assert float(value) == -np.inf
    assert not np.any(slope)


def likelihoods_at(signal, u):
    """The log-likelihood where the cumulative prior of the only parameter is u, (n,)."""
    function = jax.jit(jax.vmap(lambda u: signal.log_likelihood(signal.prior_transform(u))))
    return np.asarray(function(jnp.asarray(u)[:, None]))


@pytest.mark.slow
def test_nested_sampling_finds_the_evidence(near, by_frequency):
    """Of frequency and amplitudes together, against a sum over the frequency with amplitudes integrated."""
    import blackjax
    from blackjax.ns import utils

    data, point, _ = near
    signal = jfstat.model(data, point, by_frequency.priors, AMPLITUDES, marginalised=False)
    expected = logsumexp(likelihoods_at(by_frequency, (np.arange(1000) + 0.5) / 1000)) - np.log(1000)
    sampler = blackjax.nss(
        lambda u: jnp.where(jnp.all((u > 0) & (u < 1)), 0.0, -jnp.inf),
        lambda u: signal.log_likelihood(signal.prior_transform(u)),
        num_delete=25,
        num_inner_steps=15,
    )
    state = sampler.init(jax.random.uniform(jax.random.key(0), (500, 5), jnp.float64))
    step, key, dead = jax.jit(sampler.step), jax.random.key(1), []
    while not dead or float(state.integrator.logZ_live - state.integrator.logZ) > -4:
        key, own = jax.random.split(key)
        state, info = step(own, state)
        dead.append(info)
    with jax.numpy_dtype_promotion("standard"):  # BlackJAX mixes integers and floats
        found = utils.log_weights(jax.random.key(2), utils.finalise(state, dead), 100)
    evidence = jax.scipy.special.logsumexp(found, axis=0)
    assert abs(float(jnp.mean(evidence)) - expected) < 0.05 + 3 * float(jnp.std(evidence))
    assert float(jnp.std(evidence)) < 0.3


@pytest.mark.slow
def test_nuts_draws_the_posterior(by_frequency):
    import blackjax

    u = np.linspace(0, 1, 1001)
    density = likelihoods_at(by_frequency, u)
    below = np.cumsum(np.exp(density - np.max(density)))
    start = jax.scipy.special.ndtri(jnp.asarray(u[np.argmax(density)]))[None]
    kernel = blackjax.nuts(by_frequency.log_density_normal, step_size=0.05, inverse_mass_matrix=jnp.ones(1))
    state, draws, step = kernel.init(start), [], jax.jit(kernel.step)
    for key in jax.random.split(jax.random.key(2), 400):
        state, _ = step(key, state)
        draws.append(float(by_frequency.from_normal(state.position)[0]))
    ranks = np.interp(draws[::3], by_frequency.priors["freq"].quantile(jnp.asarray(u)), below / below[-1])
    assert kstest(ranks, "uniform").pvalue > 1e-3


def test_mistakes_are_said(near):
    data, point, _ = near
    prior = jfstat.Uniform(99.0, 101.0)
    with pytest.raises(ValueError, match=r"priors\['freq'\] reaches beyond the data: "):
        jfstat.model(data, point, {"freq": prior})
    with pytest.raises(ValueError, match="priors has 'frequency': choose from freq"):
        jfstat.model(data, point, {"frequency": prior})
    with pytest.raises(TypeError, match=r"priors\['freq'\] must be a distribution"):
        jfstat.model(data, point, {"freq": (99.0, 101.0)})
    with pytest.raises(TypeError, match="priors must be a mapping"):
        jfstat.model(data, point, prior)
    with pytest.raises(ValueError, match="no parameter is left"):
        jfstat.model(data, point, {})
    with pytest.raises(ValueError, match="h0 has no prior with a norm"):
        jfstat.model(data, point, {}, marginalised=False)
    with pytest.raises(ValueError, match="amplitude has a known cosi"):
        known = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24), cosi=0.3)
        jfstat.model(data, point, {}, known, marginalised=False)


def test_an_unknown_floor_is_integrated_over(near):
    case = cases.make(100.0, 3, noise=True, h0=3e-25)
    _, point, _ = near
    energy = jfstat.noise_energy(case.data)
    f = float(point.fkdot[0])
    priors = {"freq": jfstat.Uniform(f - 1e-5, f + 1e-5)}
    own = jfstat.model(near[0], point, priors, AMPLITUDES, marginalised=False, energy=energy)
    x = own.prior_transform(jnp.full(5, 0.45))
    expected = jfstat.log_likelihood(near[0], own.point(x), own.amplitudes(x), energy=energy)
    assert float(own.log_likelihood(x)) == pytest.approx(float(expected), rel=1e-9)
    assert abs(float(expected) - float(jfstat.log_likelihood(near[0], own.point(x), own.amplitudes(x)))) > 1e-6
    with pytest.raises(ValueError, match="energy is for amplitudes that are parameters: give marginalised=False"):
        jfstat.model(near[0], point, priors, AMPLITUDES, energy=energy)
    other = cases.make(100.0, 3, noise=True, h0=3e-25, detectors=("H1",))
    with pytest.raises(ValueError, match="energy is of H1, and data of"):
        jfstat.model(near[0], point, priors, AMPLITUDES, marginalised=False, energy=jfstat.noise_energy(other.data))


def test_the_ends_of_the_unit_cube_are_finite():
    case = cases.make(100.0, 3, noise=True, h0=4e-25)
    near = jfstat.narrow(case.data, case.doppler)
    amplitude = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))
    made = jfstat.model(near, case.doppler, {}, amplitude, marginalised=False)
    for end in (0.0, 1.0):
        x = made.prior_transform(jnp.full(4, end))
        assert np.all(np.isfinite(x)) and not np.isnan(made.log_likelihood(x))
