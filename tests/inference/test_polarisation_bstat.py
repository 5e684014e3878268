"""log_polarisation_bstat and polarisation_table: numerical integration, injections of each kind, columns, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import polarised
import pytest
from scipy.special import logsumexp

import jfstat
from jfstat.inference.polarisations import log_polarisation_bstat_of
from jfstat.statistic.polarisations import PolarisationLikelihood

bstat = jax.jit(log_polarisation_bstat_of)
SCALES = {
    "log-uniform": jfstat.LogUniform(1e-3, 1e3),
    "half-normal": jfstat.HalfNormal(50.0),
    "uniform": jfstat.Uniform(0.0, 300.0),
    "Fermi-Dirac": jfstat.FermiDirac(mu=500.0, sigma=20.0),
}


def likelihood(rng, m, power):
    """A likelihood with a maximum of twice its logarithm of `power`."""
    root = rng.normal(size=(m, m))
    fisher = root @ root.T + 0.1 * np.eye(m)
    x = rng.normal(size=m) + 1j * rng.normal(size=m)
    x = x * np.sqrt(power / np.real(np.conj(x) @ np.linalg.solve(fisher, x)))
    return PolarisationLikelihood(jnp.asarray(x), jnp.asarray(fisher))


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("power", [0.5, 20.0])
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_known_scale_against_quadrature_over_the_amplitudes(m, power, scale):
    own = likelihood(np.random.default_rng(m), m, power)
    fisher, x = np.asarray(own.fisher), np.asarray(own.x)
    nodes, step = np.linspace(-9, 9, 1001, retstep=True)
    log_shares = -0.5 * nodes**2 + np.log(step / np.sqrt(2 * np.pi))

    def over(part):
        """The average over the real or the imaginary parts, which are independent."""
        grid = np.stack(np.meshgrid(*[scale * nodes] * m, indexing="ij"))
        weight = sum(np.meshgrid(*[log_shares] * m, indexing="ij"))
        value = np.tensordot(part, grid, 1) - 0.5 * np.einsum("i...,ij,j...", grid, fisher, grid)
        return logsumexp(value + weight)

    assert float(bstat(own, jnp.float64(scale))) == pytest.approx(over(x.real) + over(x.imag), abs=1e-3)


def test_known_scale_against_random_amplitudes():
    rng = np.random.default_rng(5)
    own, n, scale = likelihood(rng, 5, 6.0), 400_000, 0.4
    a = scale * (rng.normal(size=(n, 5)) + 1j * rng.normal(size=(n, 5)))
    value = np.real(np.conj(a) @ np.asarray(own.x)) - 0.5 * np.real(
        np.einsum("ni,ij,nj->n", np.conj(a), np.asarray(own.fisher), a)
    )
    weight = np.exp(value)
    error = np.std(weight) / np.mean(weight) / np.sqrt(n)
    assert error < 0.01
    assert float(bstat(own, jnp.float64(scale))) == pytest.approx(np.log(np.mean(weight)), abs=4 * error)


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("power", [0.0, 10.0, 1e4])
def test_distribution_of_the_scale_against_fine_sums(name, power):
    prior = SCALES[name]
    for m in (1, 2, 5):
        own = likelihood(np.random.default_rng(m + 1), m, power)
        log_scale = np.linspace(np.log(1e-6), np.log(1e4), 5001)
        log_scale = log_scale if name != "log-uniform" else np.linspace(np.log(1e-3), np.log(1e3), 5001)
        scale = jnp.exp(jnp.asarray(log_scale))
        values = jax.vmap(bstat, (None, 0))(own, scale) + prior.log_prob(scale) + jnp.log(scale)
        step = np.full(len(log_scale), log_scale[1] - log_scale[0])
        step[[0, -1]] *= 0.5
        values, step = np.asarray(values), step[np.isfinite(values)]
        expected = logsumexp(values[np.isfinite(values)], b=step)
        assert float(bstat(own, prior)) == pytest.approx(expected, abs=1e-3)


SIGNALS = {
    "tensor": {"plus": 2e-25 - 1e-25j, "cross": -1e-25 + 1e-25j},
    "vector": {"x": 1e-25 + 1e-25j, "y": -2e-25 + 1e-25j},
    "scalar": {"breathing": -3e-25 + 3e-25j},
}
PRIOR = jfstat.LogUniform(1e-27, 1e-23)


OTHERS = [pytest.param(spin, marks=pytest.mark.ci) for spin in ("tensor", "scalar")]


@pytest.fixture(scope="module", params=["vector", *OTHERS])
def injected(request):
    seed = list(SIGNALS).index(request.param)
    point = polarised.random_point(np.random.default_rng(seed + 20))
    data = polarised.prepared(point, SIGNALS[request.param], noise=True, seed=seed)
    return request.param, point, jfstat.narrow(data, point)


def test_bayes_factors_choose_the_signal_that_is_there(injected):
    kind, point, data = injected
    table = jfstat.polarisation_table(data, point, PRIOR)
    bayes = {spin: float(table[f"log_bstat_of_{spin}"][0]) for spin in SIGNALS}
    assert max(bayes, key=bayes.get) == kind
    assert bayes[kind] > 10
    assert all(bayes[kind] - bayes[spin] > 3 for spin in SIGNALS if spin != kind)
    for name, amplitude in SIGNALS[kind].items():
        error = table[f"h_{name}_error"][0]
        assert abs(table[f"h_{name}"][0] - abs(amplitude)) < 4 * error
        found = table[f"h_{name}"][0] * np.exp(1j * table[f"phase_{name}"][0].to_value("rad"))
        assert abs(found - amplitude) < 5 * error


def test_table_has_the_values_of_the_functions(injected):
    _, point, data = injected
    points = jax.tree.map(lambda x: jnp.stack([x, x]), point)
    table = jfstat.polarisation_table(data, points, PRIOR)
    assert table.colnames[:5] == ["freq", "f1dot", "alpha", "delta", "twoF_of_tensor"]
    assert table.meta["reftime"] == int(point.reftime)
    for row in table:
        for spin in SIGNALS:
            own = jfstat.polarisation_fstat(data, point, spin)
            assert row[f"twoF_of_{spin}"] == pytest.approx(float(own.twoF), rel=1e-9)
            value = float(jfstat.log_polarisation_bstat(data, point, PRIOR, spin))
            assert row[f"log_bstat_of_{spin}"] == pytest.approx(value, abs=1e-8)


def test_derivatives_by_the_template_and_the_scale(injected):
    kind, point, data = injected

    @jax.jit
    def value(x):
        moved = jfstat.Doppler(
            point.alpha, point.delta, jnp.stack([point.fkdot[0] + 1e-6 * x[0], point.fkdot[1]]), point.reftime
        )
        return jfstat.log_polarisation_bstat(data, moved, jfstat.LogUniform(1e-27, 1e-23 * jnp.exp(x[1])), kind)

    start, step = jnp.asarray([1.0, 0.0]), 1e-4
    gradient = jax.grad(value)(start)
    for k in range(2):
        d = jnp.zeros(2).at[k].set(step)
        difference = (value(start + d) - value(start - d)) / (2 * step)
        assert float(gradient[k]) == pytest.approx(float(difference), rel=1e-4)


def test_messages(injected):
    _, point, data = injected
    for wrong in (0.0, -1e-25, np.inf):
        with pytest.raises(ValueError, match="scale"):
            jfstat.log_polarisation_bstat(data, point, wrong)
    with pytest.raises(ValueError, match="scale must be one number or a distribution"):
        jfstat.log_polarisation_bstat(data, point, [1e-25, 1e-24])
    with pytest.raises(TypeError, match="scale must be a number or a distribution, not None"):
        jfstat.log_polarisation_bstat(data, point, None)
    with pytest.raises(TypeError, match="scale must be a distribution, one of"):
        jfstat.log_polarisation_bstat(data, point, jfstat.Normal(0.0, 1.0))
    empty = jax.tree.map(lambda x: jnp.zeros((0, *np.shape(x)), x.dtype), point)
    with pytest.raises(ValueError, match="points is an empty stack"):
        jfstat.polarisation_table(data, empty, PRIOR)
