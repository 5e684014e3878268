"""log_bstat: numerical integration for any antenna matrix and prior, derivatives, data, messages."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihoods import at_orientations, one_of_power
from scipy.special import i0e, logsumexp, roots_legendre

import jfstat
from jfstat.inference.bstat import log_bstat_of
from jfstat.inference.orientations import orientations
from jfstat.statistic.combine import AntennaMatrix
from jfstat.statistic.likelihood import AmplitudeLikelihood

PRIORS = {
    "half-normal": jfstat.HalfNormal(6.0),
    "uniform": jfstat.Uniform(0.0, 40.0),
    "uniform that excludes the best": jfstat.Uniform(0.0, 5.0),
    "uniform above the best": jfstat.Uniform(16.0, 60.0),
    "uniform in noise": jfstat.Uniform(0.0, 0.1),
    "log-uniform": jfstat.LogUniform(1e-3, 50.0),
    "Fermi-Dirac": jfstat.FermiDirac(mu=8.0, sigma=2.0),
    "sharp Fermi-Dirac": jfstat.FermiDirac(mu=3.0, sigma=0.05),
}
shares = jax.jit(lambda likelihood: orientations(likelihood, jfstat.AmplitudePrior()).nodes)
bstat = jax.jit(lambda likelihood, prior: log_bstat_of(likelihood, prior, jnp.float64(1.0)))


def on_grid(likelihood, over_h0, n=900):
    """The average over cosi and psi, on a grid fine enough for the likelihoods of these tests."""
    cosi, shares = roots_legendre(n)  # NumPy's take n^3 operations, half a minute for 4000
    psi = ((np.arange(n) + 0.5) / n - 0.5) * np.pi / 2
    z, q = at_orientations(likelihood, cosi[:, None], psi[None])
    return logsumexp(over_h0(z, q), b=np.broadcast_to(0.5 * shares[:, None] / n, z.shape))


def flat(z, q):
    """The integral of I0(h z) exp(-h^2 q/2) over h, from 0 to infinity."""
    half = 0.25 * z**2 / q
    return 0.5 * np.log(np.pi / (2 * q)) + 2 * half + np.log(i0e(half))


@pytest.mark.parametrize("condition", [1.0, 7.0, 60.0])
@pytest.mark.parametrize("twoF", [4.0, 40.0, 1000.0])
def test_isotropic_orientations_are_integrated(twoF, condition):
    rng = np.random.default_rng(int(twoF + condition))
    for cosi in (rng.uniform(-1, 1), 0.0, -0.999):
        likelihood, _ = one_of_power(rng, twoF, condition, cosi)
        assert float(bstat(likelihood, jfstat.AmplitudePrior())) == pytest.approx(on_grid(likelihood, flat), abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [1e3, 1e4])
def test_hardly_seen_polarisations(condition):
    rng = np.random.default_rng(1)
    for twoF, cosi in ((4.0, 0.98), (100.0, 0.1)):
        likelihood, _ = one_of_power(rng, twoF, condition, cosi)
        expected = on_grid(likelihood, flat, 4000)
        assert float(bstat(likelihood, jfstat.AmplitudePrior())) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e4])
def test_shares_of_the_prior_add_up_to_one(condition):
    for twoF in (1e-9, 10.0, 1e3, 1e6):
        likelihood, _ = one_of_power(np.random.default_rng(3), twoF, condition, 0.3)
        nodes = shares(likelihood)
        weight = jnp.exp(nodes.log_weight)
        assert float(jnp.sum(weight)) == pytest.approx(1, abs=5e-4)
        mean = [
            float(jnp.sum(jnp.exp(nodes.log_weight) * x)) for x in (nodes.cosi, nodes.cosi**2, jnp.cos(4 * nodes.psi))
        ]
        assert mean == pytest.approx([0, 1 / 3, 0], abs=5e-4)


def test_no_data_say_nothing():
    fisher = one_of_power(np.random.default_rng(1), 4, 2, 0)[0].fisher

    def value(x):
        data = jax.lax.complex(x, x)
        return log_bstat_of(AmplitudeLikelihood(data, data, fisher), jfstat.AmplitudePrior(), jnp.float64(1.0))

    found, slope = jax.jit(jax.value_and_grad(value))(jnp.float64(0.0))
    zero = AmplitudeLikelihood(jnp.complex128(0.0), jnp.complex128(0.0), fisher)
    assert float(found) == pytest.approx(on_grid(zero, flat), abs=1e-3)
    assert float(slope) == 0


@pytest.mark.parametrize("matrix", [(1.0, 1.0, 1.0), (0.5, 0.3, np.sqrt(0.15)), (0.0, 0.0, 0.0)])
def test_polarisations_that_are_not_seen_say_nothing(matrix):
    A = matrix[0]
    data = tuple(jnp.complex128(np.sqrt(x)) for x in matrix[:2])
    likelihood = AmplitudeLikelihood(*data, AntennaMatrix(*(jnp.float64(x) for x in matrix)))
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(3.0))
    found = bstat(likelihood, prior)
    slope = jax.grad(lambda x: bstat(AmplitudeLikelihood(*data, AntennaMatrix(x, *likelihood.fisher[1:])), prior))(A)
    assert np.isfinite(float(found))
    assert np.isfinite(float(slope))
    if not A:
        assert float(found) == pytest.approx(0.0, abs=1e-2)


@pytest.mark.parametrize("name", PRIORS)
def test_priors_of_h0(name):
    prior = PRIORS[name]
    likelihood, amplitude = one_of_power(np.random.default_rng(4), 60.0, 3.0, 0.4)
    assert 5 < float(amplitude.h0) < 16  # beyond the end of a prior, and below the beginning of another
    h0 = np.exp(np.linspace(np.log(1e-3), np.log(60.0), 2000)) if name == "log-uniform" else np.linspace(0, 60, 12001)
    h0 = np.append(h0[h0 < float(prior.high)], min(float(prior.high), 60.0))
    log_prior = np.asarray(prior.log_prob(jnp.asarray(h0)))

    def over_h0(z, q):
        x = h0 * z[..., None]
        log_density = x + np.log(i0e(x)) - 0.5 * h0**2 * q[..., None] + log_prior
        top = log_density.max(axis=-1, keepdims=True)
        return np.log(np.trapezoid(np.exp(log_density - top), h0, axis=-1)) + top[..., 0]

    expected = on_grid(likelihood, over_h0, 40)
    # orientations are chosen for h0 around the best
    far = 5e-3 if "above" in name else 1e-3
    assert float(bstat(likelihood, jfstat.AmplitudePrior(h0=prior))) == pytest.approx(expected, abs=far)


@pytest.mark.parametrize(
    ("cosi", "psi"),
    [(jfstat.Normal(0.4, 0.1), None), (None, jfstat.Normal(0.3, 0.05)), (0.5, 0.1), (jfstat.Uniform(-2, 0.2), None)],
)
def test_restricted_orientations(cosi, psi):
    likelihood, _ = one_of_power(np.random.default_rng(5), 80.0, 4.0, 0.5)
    x, shares = roots_legendre(400)

    def values(prior, low, high):
        if isinstance(prior, float):
            return np.array([prior]), np.zeros(1)
        value = low + 0.5 * (x + 1) * (high - low)
        density = np.zeros(400) if prior is None else np.asarray(prior.log_prob(jnp.asarray(value)))
        weight = density + np.log(shares)
        return value, weight - logsumexp(weight)

    c, of_c = values(cosi, -1.0, 0.2 if isinstance(cosi, jfstat.Uniform) else 1.0)
    p, of_p = values(psi, -np.pi / 4, np.pi / 4)
    z, q = at_orientations(likelihood, c[:, None], p[None])
    expected = logsumexp(flat(z, q) + of_c[:, None] + of_p[None])
    assert float(bstat(likelihood, jfstat.AmplitudePrior(cosi=cosi, psi=psi))) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("twoF", [30.0, 950.0])
def test_psi_repeats(twoF):
    likelihood, _ = one_of_power(np.random.default_rng(7), twoF, 1.3, 0.2)
    free = float(bstat(likelihood, jfstat.AmplitudePrior()))
    for prior in (
        jfstat.Uniform(0, np.pi),
        jfstat.Uniform(1.0, 1.0 + 5 * np.pi),
        jfstat.Uniform(-0.3, np.pi / 2 - 0.3),
    ):
        own = jfstat.AmplitudePrior(psi=prior)
        assert (float(own.psi.low), float(own.psi.high)) == pytest.approx(
            (float(prior.low), float(prior.low) + np.pi / 2)
        )
        assert float(bstat(likelihood, own)) == pytest.approx(free, abs=1e-3)
    # one that is cut, so that data may prefer what is cut off, counts from there
    for low, high, mu in ((0.03, 3.0, 0.0), (-3.0, -0.03, 0.0)):
        cut = jfstat.Normal(mu, 0.1, low, high)
        x = np.linspace(*((low, low + 1.0) if low > 0 else (high - 1.0, high)), 2001)
        each = jax.lax.map(lambda v: bstat(likelihood, jfstat.AmplitudePrior(psi=v)), jnp.asarray(x))
        share = np.exp(np.asarray(cut.log_prob(jnp.asarray(x)))) * (x[1] - x[0])
        share[[0, -1]] *= 0.5
        found = float(bstat(likelihood, jfstat.AmplitudePrior(psi=cut)))
        assert found == pytest.approx(logsumexp(np.asarray(each), b=share), abs=2e-3)
    # a normal prior that is wider than the period counts all its turns
    wide = float(bstat(likelihood, jfstat.AmplitudePrior(psi=jfstat.Normal(0.4, 5.0))))
    assert wide == pytest.approx(free, abs=1e-3)
    sigma = 0.5
    x = np.linspace(-6, 6, 601)
    each = jax.lax.map(lambda v: bstat(likelihood, jfstat.AmplitudePrior(psi=v)), jnp.asarray(0.4 + sigma * x))
    share = np.exp(-0.5 * x * x) / np.sum(np.exp(-0.5 * x * x))
    found = float(bstat(likelihood, jfstat.AmplitudePrior(psi=jfstat.Normal(0.4, sigma))))
    assert found == pytest.approx(logsumexp(np.asarray(each), b=share), abs=1e-3)


def test_loud_signals_seen_edge_on_with_a_known_psi():
    likelihood, amplitude = one_of_power(np.random.default_rng(8), 950.0, 1.3, 0.05)
    psi = float(amplitude.psi)
    x, shares = roots_legendre(2000)
    z, q = at_orientations(likelihood, x, np.full(2000, psi))
    expected = logsumexp(flat(z, q), b=0.5 * shares)
    assert float(bstat(likelihood, jfstat.AmplitudePrior(psi=psi))) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("power", [30.0, 1e3, 1e5])
@pytest.mark.parametrize(("condition", "cosi"), [(1.5, 0.6), (30.0, -0.6), (30.0, 0.003), (30.0, 0.04)])
def test_a_prior_of_all_orientations_is_none(power, condition, cosi):
    """However loud the signal is: the sums are on other nodes."""
    likelihood, _ = one_of_power(np.random.default_rng(3), power, condition, cosi)
    h0 = jfstat.Uniform(0.0, 5 * np.sqrt(power))
    expected = float(bstat(likelihood, jfstat.AmplitudePrior(h0=h0)))
    for known in (dict(cosi=jfstat.Uniform(-1, 1)), dict(psi=jfstat.Uniform(0.3, 0.3 + np.pi / 2))):
        found = float(bstat(likelihood, jfstat.AmplitudePrior(h0=h0, **known)))
        assert found == pytest.approx(expected, abs=2e-3), known


@pytest.mark.parametrize(
    "power", [pytest.param(60.0, marks=pytest.mark.ci), pytest.param(2000.0, marks=pytest.mark.slow)]
)
def test_data_may_contradict_a_normal_prior(power):
    """By many of its standard deviations: what counts is between the prior's mean and the data's best value."""
    likelihood, _ = one_of_power(np.random.default_rng(4), power, 1.5, -0.7)
    h0 = jfstat.Uniform(0.0, 5 * np.sqrt(power))
    normal = jfstat.Normal(0.48, 0.02, -1.0, 1.0)
    cosi = np.linspace(-0.8, 0.7, 601)
    each = jax.vmap(lambda x: bstat(likelihood, jfstat.AmplitudePrior(h0=h0, cosi=x)))(jnp.asarray(cosi))
    expected = logsumexp(np.asarray(each + normal.log_prob(jnp.asarray(cosi)))) + np.log(cosi[1] - cosi[0])
    assert float(bstat(likelihood, jfstat.AmplitudePrior(h0=h0, cosi=normal))) == pytest.approx(expected, abs=1e-3)


@pytest.mark.ci
@pytest.mark.parametrize("name", [None, *PRIORS])
def test_derivatives_are_differences(name):
    prior = jfstat.AmplitudePrior(h0=PRIORS[name] if name else None)
    likelihood, _ = one_of_power(np.random.default_rng(6), 60.0, 3.0, 0.4)

    def value(x):
        factor = jax.lax.complex(1 + 0.1 * x[0], 0.2 * x[1])
        a, b = likelihood.xa * factor, likelihood.xb * factor
        fisher = jax.tree.map(lambda part: part * (1 + 0.1 * x[2]), likelihood.fisher)
        own = jax.tree.map(lambda part: part * (1 + 0.1 * x[3]), prior)
        return log_bstat_of(AmplitudeLikelihood(a, b, fisher), own, jnp.float64(1.0))

    value, x, step = jax.jit(value), jnp.zeros(4), 1e-3 * np.eye(4)
    differences = [float(value(x + s) - value(x - s)) / 2e-3 for s in step]
    np.testing.assert_allclose(jax.grad(value)(x), differences, rtol=1e-3, atol=2e-3)


@pytest.fixture(scope="module")
def case():
    return cases.make(100.0, 3, noise=True, h0=4e-25)


@pytest.mark.ci
def test_templates_are_ranked_and_followed(case):
    near = jfstat.narrow(case.data, case.doppler)
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))
    assert float(jfstat.log_bstat(near, case.doppler, prior)) > 5
    shifts = jnp.linspace(-2e-6, 2e-6, 5)

    def value(shift, function):
        fkdot = case.doppler.fkdot.at[0].add(shift)
        return function(near, jfstat.Doppler(case.doppler.alpha, case.doppler.delta, fkdot, case.doppler.reftime))

    values = np.asarray(jax.vmap(lambda x: value(x, jfstat.log_bstat))(shifts))
    f = np.asarray(jax.vmap(lambda x: 0.5 * value(x, jfstat.twoF))(shifts))
    np.testing.assert_allclose(np.diff(values), np.diff(f), atol=0.5)
    slope = float(jax.grad(lambda x: value(1e-7 * x, jfstat.log_bstat))(1.0))
    difference = [float(value(1e-7 * x, jfstat.log_bstat)) for x in (0.0, 2.0)]
    assert slope == pytest.approx(0.5 * (difference[1] - difference[0]), rel=2e-2, abs=1e-3)


@pytest.mark.parametrize("cosi", [None, 0.3, jfstat.Normal(0.3, 0.1)])
def test_templates_beyond_the_data_are_nan_in_traces(case, cosi):
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24), cosi=cosi)
    near = jfstat.narrow(case.data, case.doppler)

    def value(f, prior):
        fkdot = case.doppler.fkdot.at[0].set(f)
        return jfstat.log_bstat(near, jfstat.Doppler(case.doppler.alpha, case.doppler.delta, fkdot), prior)

    assert np.isnan(float(jax.jit(value)(90.0, prior)))
    # a prior is a pytree: derivatives, maps, shapes
    slopes = jax.grad(value, argnums=1)(float(case.doppler.fkdot[0]), prior)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(slopes))
    stack = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), jfstat.AmplitudePrior(h0=prior.h0))
    both = jax.vmap(value, (None, 0))(float(case.doppler.fkdot[0]), stack)
    assert both.shape == (2,)
    assert both[0] != both[1]
    assert jax.eval_shape(lambda x: x, prior).h0 is not None


def test_strict_settings(case):
    near = jfstat.narrow(case.data, case.doppler)
    with jax.numpy_rank_promotion("raise"), jax.debug_nans(True), jax.debug_infs(True):
        for cosi in (None, jfstat.Normal(0.3, 0.1)):
            for h0 in (jfstat.HalfNormal(1e-24), jfstat.Uniform(0.0, 1e-23)):
                prior = jfstat.AmplitudePrior(h0=h0, cosi=cosi)
                assert np.isfinite(float(jfstat.log_bstat(near, case.doppler, prior)))


@pytest.mark.ci
def test_segments_are_one_signal(case):
    point = jfstat.Doppler(1.7, 0.4, [83.0], 1_167_458_304)
    sfts = jfstat.simulate_sfts(["H1"], 1_167_458_304, 86400, 81.8, 84.2, sqrt_sx=4e-24, seed=2)
    whole, segments = (jfstat.prepare(sfts, 82.99, 83.01, sqrt_sx=4e-24, filters=False, segments=n) for n in (None, 3))
    found = [float(jfstat.log_bstat(data, point)) for data in (whole, segments)]
    assert found[1] == pytest.approx(found[0], abs=0.02)


def test_mistakes_are_said(case):
    with pytest.raises(TypeError, match=r"prior must be a jfstat\.AmplitudePrior or None"):
        jfstat.log_bstat(case.data, case.doppler, jfstat.HalfNormal(1e-24))
    with pytest.raises(TypeError, match="h0 must be a distribution"):
        jfstat.AmplitudePrior(h0=1e-24)
    with pytest.raises(TypeError, match=r"cosi must be a number, a jfstat\.Normal or"):
        jfstat.AmplitudePrior(cosi=jfstat.HalfNormal(0.1))
    with pytest.raises(ValueError, match="cosi has a prior that no signal can have"):
        jfstat.AmplitudePrior(cosi=jfstat.Uniform(1.5, 2.0))
    with pytest.raises(ValueError, match="cosi must lie between -1 and 1, not 2"):
        jfstat.AmplitudePrior(cosi=2.0)
    for name, words in (("cosi", "lie between -1 and 1"), ("psi", "be finite")):
        with pytest.raises(ValueError, match=f"{name} must {words}, not nan"):
            jfstat.AmplitudePrior(**{name: np.nan})
    with pytest.raises(ValueError, match="psi has a range that is longer than pi/2, after which signals repeat"):
        jfstat.AmplitudePrior(psi=jfstat.Uniform(0.0, 2.0))
    with pytest.raises(ValueError, match="psi has a normal prior that is cut and still wider than pi/2"):
        jfstat.AmplitudePrior(psi=jfstat.Normal(0.0, 1.0, -1.0, 1.0))
    assert jfstat.AmplitudePrior(psi=jfstat.Normal(0.0, 0.25, -1.4, 1.4)).psi.maximum == 1.4
    assert jfstat.AmplitudePrior(psi=jfstat.Uniform(0.3, 0.3 + 1e-9)).psi is not None
    traced = jax.jit(lambda high: jfstat.AmplitudePrior(psi=jfstat.Uniform(0.0, high)).psi.high)
    assert float(traced(3 * np.pi)) == pytest.approx(np.pi / 2)
    assert np.isnan(float(traced(2.0)))
    with pytest.raises(ValueError, match="h0 must not be negative"):
        jfstat.AmplitudePrior(h0=jfstat.Uniform(-1.0, 1.0))
