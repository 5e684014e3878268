"""Distributions: SciPy's numbers, inverse and norm, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import jfstat
from jfstat.inference.distributions import from_normal

PEERS = {
    "uniform": (jfstat.Uniform(-1.0, 3.0), stats.uniform(-1, 4)),
    "log-uniform": (jfstat.LogUniform(0.01, 30.0), stats.loguniform(0.01, 30)),
    "half-normal": (jfstat.HalfNormal(2.0), stats.halfnorm(0, 2)),
    "normal": (jfstat.Normal(1.0, 2.0), stats.norm(1, 2)),
    "cut normal": (jfstat.Normal(1.0, 2.0, -1.0, 2.5), stats.truncnorm(-1, 0.75, 1, 2)),
}


@pytest.mark.parametrize("name", PEERS)
def test_they_are_scipys(name):
    ours, peer = PEERS[name]
    x = np.linspace(-2, 4, 61)
    np.testing.assert_allclose(ours.log_prob(jnp.asarray(x)), peer.logpdf(x), atol=1e-12)
    np.testing.assert_allclose(ours.cdf(jnp.asarray(x)), peer.cdf(x), atol=1e-12)
    p = np.linspace(0.001, 0.999, 50)
    np.testing.assert_allclose(ours.quantile(jnp.asarray(p)), peer.ppf(p), rtol=1e-9)
    np.testing.assert_allclose(ours.quantile_above(jnp.asarray(p)), peer.isf(p), rtol=1e-9)


TAILED = {name: PEERS[name] for name in ("half-normal", "normal")} | {
    "exponential": (jfstat.Exponential(3.0), stats.expon(scale=3)),
}


@pytest.mark.parametrize("name", TAILED)
def test_values_of_normal_numbers_go_on_where_probabilities_end(name):
    ours, peer = TAILED[name]
    z = np.array([-5.0, -0.5, 0.0, 0.7, 5.0, 8.0, 9.5, 20.0, 36.0])
    expected = np.where(z > 0, peer.isf(stats.norm.sf(z)), peer.ppf(stats.norm.cdf(z)))
    np.testing.assert_allclose(from_normal(ours, jnp.asarray(z)), expected, rtol=1e-8, atol=1e-12)
    slope = jax.vmap(jax.grad(lambda x: from_normal(ours, x)))(jnp.asarray(z))
    step = (from_normal(ours, jnp.asarray(z + 1e-4)) - from_normal(ours, jnp.asarray(z - 1e-4))) / 2e-4
    np.testing.assert_allclose(slope, step, rtol=1e-4)


def test_far_values_of_a_cut_normal_are_exact():
    z = np.array([-2.0, 5.0, 9.5, 20.0, 36.0])
    expected = 1 + 2 * stats.norm.isf(stats.norm.sf(z) * stats.norm.sf(1.0))
    np.testing.assert_allclose(from_normal(jfstat.Normal(1.0, 2.0, 3.0), jnp.asarray(z)), expected, rtol=1e-9)


@pytest.mark.parametrize(
    "distribution", [x for x, _ in PEERS.values()] + [jfstat.Cosine(-1.0, 1.2), jfstat.Normal(0.0, 1.0, 5.9)], ids=repr
)
def test_values_of_far_numbers_end_at_the_ends(distribution):
    ends = np.asarray(from_normal(distribution, jnp.asarray([-60.0, 60.0])))
    assert np.all(np.isfinite(ends))
    low, high = float(distribution.low), float(distribution.high)
    if np.isfinite(low + high):
        np.testing.assert_allclose(ends, [low, high], rtol=1e-9)


ENDED = {
    "uniform": lambda a, b: jfstat.Uniform(a, a + b),
    "log-uniform": lambda a, b: jfstat.LogUniform(a, a + b),
    "cut normal": lambda a, b: jfstat.Normal(a, b, a - b, a + 0.5 * b),
    "cosine": lambda a, b: jfstat.Cosine(a - 0.5 * b, a),
    "Fermi-Dirac": lambda a, b: jfstat.FermiDirac(mu=1e-26 * a, sigma=1e-25 * b),
    "half-normal": lambda a, b: jfstat.HalfNormal(b),
}


@pytest.mark.parametrize("make", ENDED.values(), ids=ENDED)
@settings(max_examples=30, deadline=None)
@given(a=st.floats(0.01, 1.5), b=st.floats(1e-3, 2.0))
def test_quantiles_lie_within_the_range(make, a, b):
    ours = make(a, b)
    ends = jnp.asarray([1e-300, 1e-16, 0.5, 1 - 2.0**-53])
    for x in (ours.quantile(ends), ours.quantile_above(ends)):
        assert np.all(np.isfinite(ours.log_prob(x)))


@settings(max_examples=50, deadline=None)
@given(st.floats(0.1, 20), st.floats(0.01, 3), st.floats(0.001, 0.999))
def test_fermi_dirac_is_normed_and_inverted(mu, sigma, p):
    ours = jfstat.FermiDirac(mu=mu, sigma=sigma)
    x = np.linspace(0, mu + 40 * sigma, 20001)
    assert np.trapezoid(np.exp(ours.log_prob(jnp.asarray(x))), x) == pytest.approx(1, abs=1e-4)
    assert float(ours.cdf(ours.quantile(jnp.float64(p)))) == pytest.approx(p, abs=1e-9)
    assert float(ours.cdf(ours.quantile_above(jnp.float64(p)))) == pytest.approx(1 - p, abs=1e-9)
    assert float(ours.cdf(jnp.float64(mu))) == pytest.approx(1 - np.log(2) / np.logaddexp(0, mu / sigma), abs=1e-12)


def test_they_map_and_trace():
    stack = jax.vmap(lambda s: jfstat.HalfNormal(s))(jnp.asarray([1.0, 2.0]))
    np.testing.assert_allclose(stack.quantile(jnp.asarray([0.5, 0.5])), stats.halfnorm(0, [1, 2]).ppf(0.5))
    slope = jax.grad(lambda s: jfstat.Normal(0.0, s, -1.0, 1.0).log_prob(jnp.float64(0.3)))(1.0)
    step = [stats.truncnorm(-1 / s, 1 / s, 0, s).logpdf(0.3) for s in (1 - 1e-5, 1 + 1e-5)]
    assert float(slope) == pytest.approx((step[1] - step[0]) / 2e-5, rel=1e-6)
    slope = jax.grad(lambda s: jfstat.Normal(0.0, s).log_prob(jnp.float64(0.3)))(1.0)
    assert float(slope) == pytest.approx(0.09 - 1)


@pytest.mark.parametrize(("low", "high"), [(4.0, 5.0), (-5.0, -4.0)])
def test_tails_of_a_cut_normal_are_exact(low, high):
    ours, peer = jfstat.Normal(0.0, 1.0, low, high), stats.truncnorm(low, high)
    x = np.linspace(low, high, 11)
    np.testing.assert_allclose(ours.log_prob(jnp.asarray(x)), peer.logpdf(x), rtol=1e-9)
    np.testing.assert_allclose(ours.cdf(jnp.asarray(x)), peer.cdf(x), atol=1e-9)
    np.testing.assert_allclose(ours.quantile(jnp.asarray([0.1, 0.9])), peer.ppf([0.1, 0.9]), rtol=1e-9)
    with pytest.raises(ValueError, match="holds next to nothing between"):
        jfstat.Normal(0.0, 1.0, 9.0, 10.0)


def test_mistakes_are_said():
    with pytest.raises(ValueError, match="minimum of Uniform must be less than its maximum"):
        jfstat.Uniform(1.0, 1.0)
    with pytest.raises(ValueError, match="minimum must be positive, not 0"):
        jfstat.LogUniform(0.0, 1.0)
    for make in (jfstat.HalfNormal, lambda s: jfstat.Normal(0, s), lambda s: jfstat.FermiDirac(mu=1, sigma=s)):
        with pytest.raises(ValueError, match="sigma must be positive"):
            make(0.0)
    with pytest.raises(ValueError, match="minimum of Normal must be less"):
        jfstat.Normal(0.0, 1.0, 2.0, 1.0)


def test_quantiles_do_not_exceed_the_ends():
    for end in (8e-26, 0.3, 7.1, 1e-24 / 3):
        prior = jfstat.LogUniform(1e-3 * end, end)
        assert float(prior.quantile(jnp.float64(1.0))) <= end
