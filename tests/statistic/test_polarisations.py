"""polarisation_fstat: direct matched filters, injections, noise, derivatives, segments, degenerate data, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import polarised
import pytest
from cases import make
from scipy.stats import chi2, kstest

import jfstat
from jfstat.geometry.polarisations import POLARISATIONS

NAMES = tuple(name for own in POLARISATIONS.values() for name in own)
LOUD = {
    "tensor": {"plus": 3e-25 - 1e-25j, "cross": -1e-25 + 2e-25j},
    "vector": {"x": 1e-25 + 2e-25j, "y": -2e-25 + 1e-25j},
    "scalar": {"breathing": -2e-25 + 4e-25j},
}
all_of = jax.jit(lambda data, point: {h: jfstat.polarisation_fstat(data, point, h) for h in LOUD})


@pytest.fixture(scope="module")
def noise():
    return make(60.0, seed=5, noise=True, h0=1e-30)


@pytest.fixture(scope="module", params=["vector", pytest.param("scalar", marks=pytest.mark.ci)])
def injected(request):
    """A loud signal in noise."""
    seed = list(LOUD).index(request.param)
    point = polarised.random_point(np.random.default_rng(seed + 10))
    return request.param, point, polarised.prepared(point, LOUD[request.param], noise=True, seed=seed)


def statistic(filters, matrix):
    """2 F* M^-1 F."""
    return 2 * float(np.real(np.conj(filters) @ np.linalg.solve(matrix, filters)))


def test_direct_matched_filters_at_random_places(noise):
    rng = np.random.default_rng(1)
    for _ in range(4):
        point = polarised.random_point(rng)
        found, matrix = (x.sum(axis=0) for x in polarised.filters(noise.data, point, NAMES))
        near = jfstat.narrow(noise.data, point)
        for data, tolerance in ((noise.data, 4e-6), (near, 8e-6)):
            for hypothesis, own in all_of(data, point).items():
                i = [NAMES.index(name) for name in POLARISATIONS[hypothesis]]
                f, m = found[i], matrix[np.ix_(i, i)]
                assert float(own.twoF) == pytest.approx(statistic(f, m), rel=tolerance, abs=1e-5)
                level = float(noise.data.observation.sinv_tsft)
                truth = np.sqrt(2 / level) * np.linalg.solve(m, f)
                np.testing.assert_allclose(own.amplitude, truth, atol=1e-5 * np.max(np.abs(truth)))
                np.testing.assert_allclose(own.covariance, np.linalg.inv(m) / level, rtol=1e-7)


def test_the_tensor_hypothesis_is_the_f_statistic(noise):
    own = jfstat.polarisation_fstat(noise.data, noise.doppler, "tensor")
    assert float(own.twoF) == pytest.approx(float(jfstat.twoF(noise.data, noise.doppler)), rel=1e-6)
    estimate = jfstat.estimate_amplitude(noise.data, noise.doppler)
    a1, a2, a3, a4 = np.asarray(estimate.canonical)
    np.testing.assert_allclose(own.amplitude, np.array([a1 - 1j * a3, a2 - 1j * a4]), rtol=1e-5)
    np.testing.assert_allclose(own.covariance, estimate.canonical_covariance[:2, :2], rtol=1e-6)


@pytest.mark.ci
def test_signals_without_noise_are_recovered():
    rng = np.random.default_rng(3)
    for hypothesis, amplitudes in LOUD.items():
        point = polarised.random_point(rng)
        own = all_of(polarised.prepared(point, amplitudes), point)[hypothesis]
        truth = np.array(list(amplitudes.values()))
        np.testing.assert_allclose(own.amplitude, truth, atol=5e-3 * np.max(np.abs(truth)))
        fisher = np.linalg.inv(np.asarray(own.covariance))
        assert float(own.twoF) == pytest.approx(np.real(np.conj(truth) @ fisher @ truth), rel=5e-3)


def test_loud_signals_are_recovered_within_errors(injected):
    hypothesis, point, data = injected
    found = all_of(data, point)
    truth = np.array(list(LOUD[hypothesis].values()))
    apart = np.asarray(found[hypothesis].amplitude) - truth
    fisher = np.linalg.inv(np.asarray(found[hypothesis].covariance))
    assert np.real(np.conj(apart) @ fisher @ apart) < chi2(2 * len(truth)).isf(1e-3)
    assert np.all(np.abs(apart.real) < 4 * np.asarray(found[hypothesis].errors))
    assert max(found, key=lambda name: float(found[name].twoF)) == hypothesis


@pytest.mark.ci
def test_chi_square_in_noise(noise):
    data, n = noise.data, 400
    f = data.fmin + np.arange(n) * (data.fmax - data.fmin) / n
    p = noise.doppler
    points = jfstat.Doppler(
        np.full(n, p.alpha), np.full(n, p.delta), np.stack([f, np.full(n, -1e-9)], axis=1), int(p.reftime)
    )
    values = jax.jit(lambda data, points: jax.lax.map(lambda x: all_of(data, x), points, batch_size=20))(data, points)
    for hypothesis, own in values.items():
        degrees = 2 * len(POLARISATIONS[hypothesis])
        mean = float(np.mean(own.twoF))
        assert abs(mean - degrees) < 4 * np.sqrt(2 * degrees / n)
        assert kstest(np.asarray(own.twoF), chi2(degrees).cdf).pvalue > 1e-3


def test_derivatives_against_differences(injected):
    hypothesis, point, data = injected
    near = jfstat.narrow(data, point)

    @jax.jit
    def value(x):
        f, alpha, delta = x
        moved = jfstat.Doppler(
            point.alpha + alpha, point.delta + delta, jnp.stack([point.fkdot[0] + f, point.fkdot[1]]), point.reftime
        )
        return jfstat.polarisation_fstat(near, moved, hypothesis).twoF

    start, steps = jnp.asarray([2e-6, 1e-3, -1e-3]), np.array([1e-8, 1e-5, 1e-5])
    gradient = jax.grad(value)(start)
    for k, step in enumerate(steps):
        d = jnp.zeros(3).at[k].set(step)
        difference = (value(start + d) - value(start - d)) / (2 * step)
        assert float(gradient[k]) == pytest.approx(float(difference), rel=1e-4)


@pytest.mark.ci
def test_segments_have_one_phase():
    point = polarised.random_point(np.random.default_rng(7))
    sfts = polarised.simulated(point, LOUD["vector"])
    f0 = float(point.fkdot[0])
    whole, parts = (
        jfstat.prepare(sfts, f0 - 0.05, f0 + 0.05, sqrt_sx=polarised.FLOOR, guard=0.4, segments=n) for n in (None, 3)
    )
    one, several = (all_of(data, point)["vector"] for data in (whole, parts))
    assert float(several.twoF) == pytest.approx(float(one.twoF), rel=5e-3)
    np.testing.assert_allclose(several.amplitude, one.amplitude, rtol=1e-2)


def test_polarisations_that_the_data_do_not_tell_apart():
    case = make(60.0, seed=8, days=1 / 12, detectors=("H1",), duty=1.0, noise=True)
    value = lambda x: jfstat.polarisation_fstat(case.data, x, "scalar-vector-tensor")  # noqa: E731
    found, slope = value(case.doppler), jax.grad(lambda x: value(x).twoF)(case.doppler)
    assert float(found.twoF) == 10
    assert np.all(np.isnan(np.asarray(found.amplitude)))
    assert np.all(np.asarray(slope.fkdot) == 0)


def test_messages(noise):
    for wrong in ("Vector", "vector-vector", "", "tensor+vector"):
        with pytest.raises(ValueError, match=r"hypothesis must be 'tensor', 'vector' or 'scalar'.*not"):
            jfstat.polarisation_fstat(noise.data, noise.doppler, wrong)
    with pytest.raises(TypeError, match="hypothesis must be a string"):
        jfstat.polarisation_fstat(noise.data, noise.doppler, 1)
    beyond = jfstat.Doppler(1.0, 0.5, [61.0, 0.0], noise.doppler.reftime)
    with pytest.raises(ValueError, match="point"):
        jfstat.polarisation_fstat(noise.data, beyond)
    assert np.isnan(float(jax.jit(jfstat.polarisation_fstat)(noise.data, beyond).twoF))
