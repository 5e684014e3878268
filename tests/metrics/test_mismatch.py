"""The mismatch at any distance: its second order is the metric, and it is the measured loss of 2F."""

import dataclasses
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.signal.reading import all_parameters
from jfstat.signal.values import replaced, values, with_fields

SMALL = dict(half_band=0.02, guard=1.0)
ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.2e9 + 0.25, ecc=0.3, argp=0.7)
CASES = {
    "one day, one detector": (437.0, dict(days=1, detectors=("V1",), duty=0.9)),
    "two days": (100.0, dict(days=2, duty=0.7)),
    "binary": (437.0, dict(days=1, detectors=("H1", "L1", "V1"), orbit=ORBIT, reach=0.2)),
}
KINDS = ("average", "amplitude", "phase")


@cache
def made(name):
    """Without noise, where 2F is rho^2."""
    f0, options = CASES[name]
    return make(f0, seed=60 + len(name), **SMALL, **options)


@pytest.fixture(
    scope="module", params=["binary", *(pytest.param(k, marks=pytest.mark.slow) for k in CASES if k != "binary")]
)
def case(request):
    return made(request.param)


def options(case, kind):
    return dict(average={}, amplitude=dict(amplitude=case.amplitude), phase=dict(phase_only=True))[kind]


def offsets(case, n, seed=0):
    """Templates at random steps in whitened coordinates, the sky's included: up to most of rho^2 lost."""
    coordinates = jfstat.whiten(case.data, case.doppler)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(coordinates.names)))
    x *= (rng.uniform(0.1, 1.2, n) / np.linalg.norm(x, axis=1))[:, None]
    return jax.vmap(coordinates.point)(jnp.asarray(x))


@jax.jit
def stacked_two_f(data, points):
    return jax.vmap(jfstat.twoF, (None, 0))(data, points)


@pytest.mark.parametrize("kind", ["phase", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS[:2])])
def test_second_order_is_the_metric(case, kind):
    extra = options(case, kind)
    names = all_parameters(case.doppler)

    def loss(x):
        return jfstat.mismatch(case.data, case.doppler, replaced(case.doppler, names, x), **extra)

    x = values(case.doppler, names)
    np.testing.assert_allclose(loss(x), 0.0, atol=1e-13)
    half = 0.5 * np.asarray(jax.jit(jax.jacfwd(jax.jacfwd(loss)))(x))
    g = np.asarray(jfstat.metric(case.data, case.doppler, **extra))
    size = np.sqrt(np.diagonal(g))
    # the metric's three times an SFT leave 1e-6 of an orbit of half a day
    np.testing.assert_allclose(half / np.outer(size, size), g / np.outer(size, size), atol=2e-6)
    np.testing.assert_allclose(np.asarray(jax.jit(jax.jacfwd(loss))(x)) / size, 0.0, atol=1e-9)


@pytest.mark.parametrize("name", ["binary", *(pytest.param(k, marks=pytest.mark.slow) for k in CASES if k != "binary")])
def test_is_the_measured_loss(name):
    """With sky offsets, at losses of 1 % to 60 % and more."""
    case = made(name)
    points = offsets(case, 150)
    peak = float(jfstat.twoF(case.data, case.doppler))
    found = 1 - np.asarray(stacked_two_f(case.data, points)) / peak
    predicted = jax.vmap(lambda p: jfstat.mismatch(case.data, case.doppler, p, amplitude=case.amplitude))(points)
    wanted = (found > 0.01) & (found < 0.6)
    assert wanted.sum() > 50 and found.max() > 0.6
    np.testing.assert_allclose(predicted[wanted], found[wanted], rtol=5e-4)
    np.testing.assert_allclose(predicted, found, rtol=0, atol=4.2e-5)


@pytest.mark.ci
def test_average_is_that_over_amplitudes(case):
    """Over initial phase and polarisation of the two circular ones, of equal rho^2 in the mean."""
    point = jax.tree.map(lambda leaf: leaf[3], offsets(case, 4))
    fstat = jfstat.fstat(case.data, case.doppler)
    matrix = np.array([[fstat.A, fstat.C], [fstat.C, fstat.B]])
    loss = partial(jfstat.mismatch, case.data, case.doppler, point)
    # the canonical amplitudes (a1, a2) of a plus-polarised signal, psi being free: axes of the ellipse of equal rho^2
    rows = np.linalg.inv(np.linalg.cholesky(matrix))
    each = []
    for a1, a2 in rows:
        plus, psi = np.hypot(a1, a2), 0.5 * np.arctan2(a2, a1)
        each.append(float(loss(amplitude=jfstat.Amplitude(2 * plus, 0.0, psi, 0.0))))
        np.testing.assert_allclose(loss(amplitude=jfstat.Amplitude(7 * plus, 0.0, psi, 0.8)), each[-1], rtol=1e-10)
    np.testing.assert_allclose(loss(), np.mean(each), rtol=1e-6)
    assert 0 < float(loss(phase_only=True)) < 1


@pytest.mark.ci
def test_reference_times_and_numbers_of_spin_downs_may_differ(case):
    other = jax.tree.map(lambda leaf: leaf[0], offsets(case, 2))
    extra = dict(amplitude=case.amplitude)
    loss = float(jfstat.mismatch(case.data, case.doppler, other, **extra))
    later = 50_000
    f, f1 = np.asarray(other.fkdot)
    same = jfstat.Doppler(other.alpha, other.delta, [f + f1 * later, f1, 0.0], other.reftime + later, other.orbit)
    np.testing.assert_allclose(jfstat.mismatch(case.data, case.doppler, same, **extra), loss, atol=1e-7)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["amplitude", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS[::2])])
def test_under_jit_vmap_and_grad(case, kind):
    extra = options(case, kind)
    points = offsets(case, 3, seed=5)

    def loss(p):
        return jfstat.mismatch(case.data, case.doppler, p, **extra)

    stack = jax.jit(jax.vmap(loss))(points)
    assert stack.shape == (3,) and stack.dtype == jnp.float64
    for k in range(3):
        np.testing.assert_allclose(loss(jax.tree.map(lambda leaf, k=k: leaf[k], points)), stack[k], rtol=1e-9)
    slopes = jax.vmap(jax.grad(loss))(points)
    moving = jax.tree.leaves(with_fields(slopes, reftime=None))
    assert all(np.isfinite(leaf).all() and np.any(leaf != 0) for leaf in moving)
    # from 5e-4 of a frequency resolution aside
    step = 5e-4 / case.data.tspan
    ends = [jfstat.Doppler(points.alpha, points.delta, points.fkdot + jnp.array([s, 0.0]), points.reftime, points.orbit)
            for s in (step, -step)]  # fmt: skip
    rise = (jax.vmap(loss)(ends[0]) - jax.vmap(loss)(ends[1])) / (2 * step)
    np.testing.assert_allclose(slopes.fkdot[:, 0], rise, rtol=1e-4, atol=1e-4 * case.data.tspan)
    mutual = jax.grad(lambda p: jfstat.mismatch(case.data, p, case.doppler, **extra))(case.doppler)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(mutual))


def test_one_sft_has_one_pattern(case):
    """Where the antenna matrix cannot be inverted, nothing is lost to itself, and half is not lost either."""
    first = case.data.observation.weight.at[:, 1:].set(0.0)
    observation = dataclasses.replace(case.data.observation, weight=first.at[1:].set(0.0))
    data = dataclasses.replace(case.data, observation=observation)
    np.testing.assert_allclose(jfstat.mismatch(data, case.doppler, case.doppler), 0.0, atol=1e-6)


def test_arguments_of_other_kinds_are_errors(case):
    p = case.doppler
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), p)
    for name, arguments in (("point", (stack, p)), ("other", (p, stack))):
        with pytest.raises(ValueError, match=rf"{name}.*vmap"):
            jfstat.mismatch(case.data, *arguments)
    orbit = ORBIT if p.orbit is None else None
    with pytest.raises(ValueError, match="both have an orbit"):
        jfstat.mismatch(case.data, p, jfstat.Doppler(p.alpha, p.delta, p.fkdot, p.reftime, orbit))
    with pytest.raises(TypeError, match="Amplitude"):
        jfstat.mismatch(case.data, p, p, amplitude=(1e-25, 0.1))
    with pytest.raises(TypeError, match="other must be"):
        jfstat.mismatch(case.data, p, (1.0, 0.5))
    with pytest.raises(TypeError, match="prepare"):
        jfstat.mismatch(case.data.series, p, p)
