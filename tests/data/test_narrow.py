"""Narrow data against the data they were made of: 2F and all that belongs to it, derivatives, reach, batches."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import make

import jfstat
from jfstat.geometry.trajectory import SEGMENT
from jfstat.signal.reading import all_parameters
from jfstat.signal.values import replaced, values, with_fields

ORBIT = jfstat.Orbit(asini=1.2, period=40000.0, tp=1.1e9 + 0.25, ecc=0.3, argp=0.7)
SMALL = dict(half_band=0.02, guard=0.5)
"""A band that is quick to simulate."""


def moved_stack(point, names, x):
    """Templates at parameters x, (n, p), as one stack."""
    return jax.vmap(partial(replaced, point, names))(jnp.asarray(x))


@jax.jit
def stacked_two_f(data, points):
    return jax.vmap(jfstat.twoF, (None, 0))(data, points)


@jax.jit
def stacked_covers(data, points):
    return jax.vmap(jfstat.covers, (None, 0))(data, points)


def reaching_steps(data, point, reach):
    """For each parameter the step, alone, that moves the frequency at a detector by about `reach` at some time."""
    f, reftime = float(point.fkdot[0]), data.reftime if point.reftime is None else point.reftime
    middle = float(data.observation.middle) + int(data.observation.epoch)
    away = abs(middle - reftime) + 0.5 * data.tspan
    steps = dict(freq=reach, f1dot=reach / away, f2dot=2 * reach / away**2)
    steps |= dict.fromkeys(("alpha", "delta"), min(0.3, reach / (1.05e-4 * f)))
    if (orbit := point.orbit) is not None:
        asini, period, tp, ecc = (float(getattr(orbit, k)) for k in ("asini", "period", "tp", "ecc"))
        rate = 2 * np.pi / period * np.sqrt(1 + ecc) / (1 - ecc) ** 1.5
        steps["asini"] = reach / (f * rate)
        steps["tp"] = reach / (f * asini * rate**2)
        steps["period"] = steps["tp"] * period / (abs(middle - tp) + 0.5 * data.tspan)
        steps["argp"] = reach / (f * asini * rate)
        sky = 1 / (
            1 / steps["alpha"] + 500 / steps["tp"]
        )  # the light travels 500 s from the Sun, and the orbit goes on
        steps |= dict(alpha=sky, delta=sky)
        steps["ecc"] = min(0.3 * ecc, 0.3 * (1 - ecc), steps["argp"])
    return steps


def random_templates(data, point, reach, n, rng):
    """Templates around one with any share of the reach in each parameter, all of them together at most the reach."""
    names = all_parameters(point)
    steps = np.array([reaching_steps(data, point, reach)[name] for name in names])
    share = rng.dirichlet(np.full(len(names), 0.4), n) * rng.uniform(size=(n, 1)) * rng.choice((-1, 1), (n, len(names)))
    return moved_stack(point, names, np.asarray(values(point, names)) + share * steps)


def worst_error(data, narrow, points, centre):
    """Largest difference of 2F, relative to 2F, or to a hundredth of the peak where 2F is less."""
    truth, found = (np.asarray(stacked_two_f(x, points)) for x in (data, narrow))
    assert np.isfinite(found).all() and np.isfinite(truth).all()
    return np.max(abs(found - truth) / np.maximum(truth, 1e-2 * float(jfstat.twoF(data, centre))))


ACCURACY = {
    "20 Hz": (20.0, dict(days=3, detectors=("H1", "L1", "V1"), duty=0.5, fkdot=(-1e-10,))),
    "100 Hz, f2dot": (100.0, dict(days=0.5, duty=0.7, fkdot=(-1e-9, 1e-17))),
    "437 Hz, no gaps": (437.0, dict(days=2, detectors=("L1",), duty=1.0)),
    "1900 Hz": (1900.0, dict(days=1, duty=0.8)),
    "long orbit": (437.0, dict(days=1, orbit=ORBIT, reach=0.2)),
    "short orbit": (20.0, dict(days=0.5, orbit=jfstat.Orbit(0.8, 7000.0, 1.2e9, 0.1, 4.0), reach=0.1)),
    "1900 Hz, circular orbit": (
        1900.0,
        dict(days=1, detectors=("V1",), orbit=jfstat.Orbit(0.1, 17000.0, 1.1e9, 0.0, 0.0), reach=0.1),
    ),
    "30 days": (300.0, dict(days=30, duty=0.6, h0=1e-25)),
    "30 days, orbit": (150.0, dict(days=30, duty=0.6, h0=1e-25, orbit=ORBIT, reach=0.1)),
}
FAST = ("100 Hz, f2dot",)


@pytest.mark.parametrize("name", [k if k in FAST else pytest.param(k, marks=pytest.mark.slow) for k in ACCURACY])
def test_two_f_within_reach_is_that_of_the_data(name):
    f0, options = ACCURACY[name]
    case = make(f0, seed=len(name), noise=True, **SMALL, **(dict(h0=6e-25) | options))
    narrow = jfstat.narrow(case.data, case.doppler)
    assert narrow.samples.shape[0] == len(case.data.detectors)
    rng = np.random.default_rng(1)
    points = random_templates(case.data, case.doppler, 0.8 * float(narrow.reach), 300, rng)
    assert np.asarray(stacked_covers(narrow, points)).all()
    # of orbits for which prepare chose blocks below 64 samples, the direct sum itself is right to 1.5e-6 only
    tolerance = 2e-6 if name in ("short orbit", "30 days, orbit") else 1e-6
    assert worst_error(case.data, narrow, points, case.doppler) < tolerance


@pytest.fixture(scope="module", params=["binary", pytest.param("isolated", marks=pytest.mark.slow)])
def case(request):
    orbit = ORBIT if request.param == "binary" else None
    made = make(
        437.0, seed=17, days=1, noise=True, h0=6e-25, orbit=orbit, reach=0.2, fkdot=(-1e-9, 1e-17),
        half_band=0.02, guard=0.5,
    )  # fmt: skip
    narrow = jfstat.narrow(made.data, made.doppler)
    fkdot = np.asarray(made.doppler.fkdot) + np.array([0.25 / made.data.tspan, 0, 0])
    beside = jfstat.Doppler(made.doppler.alpha, made.doppler.delta, fkdot, made.doppler.reftime, orbit)
    return SimpleNamespace(data=made.data, narrow=narrow, centre=made.doppler, beside=beside, amplitude=made.amplitude)


def shifted(point, seconds):
    """The same signal with another reference time."""
    f, f1, f2 = np.asarray(point.fkdot)
    fkdot = [f + f1 * seconds + 0.5 * f2 * seconds**2, f1 + f2 * seconds, f2]
    return jfstat.Doppler(point.alpha, point.delta, fkdot, point.reftime + seconds, point.orbit)


@pytest.mark.parametrize(
    "where", ["other reference time", *(pytest.param(k, marks=pytest.mark.slow) for k in ("centre", "beside"))]
)
def test_everything_at_a_template_is_that_of_the_data(case, where):
    point = dict(centre=case.centre, beside=case.beside).get(where) or shifted(case.beside, 45_000)
    found, truth = jfstat.fstat(case.narrow, point), jfstat.fstat(case.data, point)
    for name in ("A", "B", "C"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), rtol=1e-15)
    np.testing.assert_allclose(found.twoF, truth.twoF, rtol=1e-6)
    np.testing.assert_allclose(found.twoF, jfstat.twoF(case.narrow, point), rtol=1e-12)
    np.testing.assert_allclose(found.twoF_per_detector, truth.twoF_per_detector, rtol=1e-6)
    size = float(abs(truth.Fa) + abs(truth.Fb))
    # phases of 1e8 cycles in float64 leave 1e-6 or so of the absolute phase, which 2F does not know
    np.testing.assert_allclose([found.Fa, found.Fb], [truth.Fa, truth.Fb], rtol=0, atol=2e-6 * size)
    ours, theirs = jfstat.estimate_amplitude(case.narrow, point), jfstat.estimate_amplitude(case.data, point)
    scale = float(theirs.amplitude.h0)
    np.testing.assert_allclose(ours.canonical, theirs.canonical, rtol=0, atol=3e-6 * scale)
    for name in ("h0", "cosi", "psi", "phi0"):
        np.testing.assert_allclose(getattr(ours.errors, name), getattr(theirs.errors, name), rtol=1e-4)
    predicted = [float(jfstat.predict_twoF(x, point, case.amplitude)) for x in (case.narrow, case.data)]
    assert predicted[0] == pytest.approx(predicted[1], rel=1e-12)


@pytest.mark.slow
def test_centre_without_a_reference_time_takes_that_of_the_data(case):
    centre = case.centre
    plain = jfstat.Doppler(centre.alpha, centre.delta, centre.fkdot, None, centre.orbit)
    dated = jfstat.Doppler(centre.alpha, centre.delta, centre.fkdot, case.data.reftime, centre.orbit)
    narrow = jfstat.narrow(case.data, plain)
    assert narrow.reftime == case.data.reftime
    assert float(jfstat.twoF(narrow, plain)) == pytest.approx(float(jfstat.twoF(case.data, dated)), rel=1e-6)
    assert float(jfstat.twoF(narrow, dated)) == float(jfstat.twoF(narrow, plain))


@pytest.fixture(scope="module")
def around(case):
    """2F as a function of steps from a template beside the peak that each, alone, change it by a part."""
    names = all_parameters(case.beside)
    x = values(case.beside, names)
    steps = 0.3 / np.sqrt(np.diagonal(jfstat.metric(case.data, case.beside, phase_only=True)))

    def value(data, y):
        return jfstat.twoF(data, replaced(case.beside, names, x + y * steps))

    zero = jnp.zeros(len(names))
    gradient, hessian = jax.jit(jax.value_and_grad(value, argnums=1)), jax.jit(jax.hessian(value, argnums=1))
    found, first = gradient(case.narrow, zero)
    second = np.asarray(hessian(case.narrow, zero))
    scale = np.maximum(np.sqrt(np.diagonal(second) ** 2 + np.asarray(first) ** 2), 1e-2 * float(found))
    return SimpleNamespace(x=x, steps=steps, value=value, first=np.asarray(first), second=second, scale=scale,
                           gradient=gradient, hessian=hessian, names=names)  # fmt: skip


@pytest.mark.ci
def test_gradient_is_that_of_the_data(case, around):
    _, truth = around.gradient(case.data, jnp.zeros(len(around.names)))
    assert np.all(abs(around.first - truth) < 1e-5 * around.scale)
    # each of some consequence, or nothing would be shown
    assert np.mean(around.scale > 0.02 * float(jfstat.twoF(case.data, case.beside))) > 0.6


@pytest.mark.slow
def test_hessian_is_that_of_the_data(case, around):
    truth = np.asarray(around.hessian(case.data, jnp.zeros(len(around.names))))
    assert np.all(abs(around.second - truth) < 1e-5 * np.sqrt(np.outer(around.scale, around.scale)))


def test_gradient_and_hessian_are_those_of_finite_differences(case, around):
    """Central differences of fourth order, at the steps that float64 makes of those asked for."""
    p, h = len(around.names), 0.02
    asked = h * np.array([-2.0, -1.0, 1.0, 2.0])[:, None, None] * np.eye(p)  # (4, p, p)
    x = np.asarray(around.x)
    actual = ((x + asked * around.steps) - x) / around.steps
    f, df = (np.asarray(z) for z in jax.vmap(jax.vmap(around.gradient, (None, 0)), (None, 0))(case.narrow, actual))
    along = np.einsum("kii->ki", actual)

    def slope(y, width):
        return (4 * (y[2] - y[1]) / (width[2] - width[1]) - (y[3] - y[0]) / (width[3] - width[0])) / 3

    first, second = slope(f, along), slope(df, along[..., None])
    assert np.all(abs(first - around.first) < 1e-5 * around.scale)
    assert np.all(abs(second - around.second) < 1e-5 * np.sqrt(np.outer(around.scale, around.scale)))


def outside(case, times=30.0):
    """A template whose frequency leaves the centre's by some times the reach, but not the band."""
    fkdot = np.asarray(case.centre.fkdot) + np.array([times * float(case.narrow.reach), 0, 0])
    return jfstat.Doppler(case.centre.alpha, case.centre.delta, fkdot, case.centre.reftime, case.centre.orbit)


@pytest.mark.ci
def test_templates_out_of_reach_are_errors_or_nan_with_their_gradients(case):
    point = outside(case)
    assert np.isfinite(jfstat.twoF(case.data, point))
    assert not jfstat.covers(case.narrow, point)
    for function in (jfstat.twoF, jfstat.fstat, jfstat.estimate_amplitude):
        with pytest.raises(ValueError, match="reach") as error:
            function(case.narrow, point)
        assert str(error.value).count("\n") == 0 and len(str(error.value)) < 250
    value, gradient = jax.jit(jax.value_and_grad(jfstat.twoF, argnums=1))(case.narrow, point)
    assert np.isnan(value)
    assert all(np.isnan(x).all() for x in jax.tree.leaves(with_fields(gradient, reftime=None)))
    traced = jax.jit(jfstat.fstat)(case.narrow, point)
    assert np.isnan(traced.twoF) and np.isnan(traced.Fa) and np.isnan(traced.twoF_per_detector).all()
    assert np.isnan(jax.jit(jfstat.estimate_amplitude)(case.narrow, point).amplitude.h0)
    # concrete, though inside another function's trace
    with pytest.raises(ValueError, match="reach"):
        jax.jit(lambda x: x * jfstat.twoF(case.narrow, point))(1.0)


@pytest.mark.parametrize("name", ["freq", "f1dot", "alpha", "delta", "asini", "period", "tp", "argp"])
def test_reach_counts_whatever_parameter_leaves_it(case, name):
    steps = reaching_steps(case.data, case.centre, float(case.narrow.reach))
    if name not in steps:
        pytest.skip("no orbit")
    x = np.asarray(values(case.centre, (name,)))
    factors = np.array([0.0, 0.3, 0.9, -0.9, 40.0, -40.0])
    if name in ("alpha", "delta"):
        factors = factors[:4]  # a turn of the sky may lead back
    inside = stacked_covers(case.narrow, moved_stack(case.centre, (name,), x + factors[:, None] * steps[name]))
    assert np.asarray(inside)[:4].all()
    assert not np.asarray(inside)[4:].any()


@pytest.mark.ci
def test_what_is_covered_is_right_up_to_the_edge(case):
    """Templates that `covers` accepts are right to 1e-6 of the peak, even where they go beyond the reach asked for."""
    rng = np.random.default_rng(3)
    points = random_templates(case.data, case.centre, 3 * float(case.narrow.reach), 600, rng)
    covered = np.asarray(stacked_covers(case.narrow, points))
    assert 0.1 < covered.mean() < 1
    truth, found = (np.asarray(stacked_two_f(x, points)) for x in (case.data, case.narrow))
    np.testing.assert_array_equal(np.isnan(found), ~covered)
    both = covered & np.isfinite(truth)
    peak = float(jfstat.twoF(case.data, case.centre))
    assert np.max(abs(found - truth)[both] / np.maximum(truth[both], 1e-2 * peak)) < 1e-6


@pytest.mark.slow
def test_wider_reach_covers_more_and_stays_right(case):
    wide = jfstat.narrow(case.data, case.centre, reach=3 * float(case.narrow.reach))
    assert float(wide.reach) == pytest.approx(3 * float(case.narrow.reach))
    assert wide.samples.shape[2] > case.narrow.samples.shape[2]
    point = outside(case, 2.5)
    assert jfstat.covers(wide, point) and not jfstat.covers(case.narrow, point)
    rng = np.random.default_rng(4)
    points = random_templates(case.data, case.centre, 0.8 * float(wide.reach), 300, rng)
    assert worst_error(case.data, wide, points, case.centre) < 1e-6


def test_orbits_that_one_side_lacks_are_errors(case):
    centre = case.centre
    other = jfstat.Doppler(
        centre.alpha, centre.delta, centre.fkdot, centre.reftime, ORBIT if centre.orbit is None else None
    )
    for function in (jfstat.twoF, jfstat.fstat, jfstat.estimate_amplitude, jax.jit(jfstat.twoF)):
        with pytest.raises(ValueError, match="orbit"):
            function(case.narrow, other)


def test_arguments_that_make_no_sense_are_errors(case):
    for reach in (0.0, -1e-4, np.nan, np.inf):
        with pytest.raises(ValueError, match="reach"):
            jfstat.narrow(case.data, case.centre, reach=reach)
    with pytest.raises(ValueError, match="reach"):
        jfstat.narrow(case.data, case.centre, reach="wide")
    with pytest.raises(TypeError, match="prepare"):
        jfstat.narrow(case.narrow, case.centre)
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), case.centre)
    with pytest.raises(ValueError, match="single"):
        jfstat.narrow(case.data, stack)
    far = replaced(case.centre, ("freq",), values(case.centre, ("freq",)) + 1.0)
    with pytest.raises(ValueError, match="band"):
        jfstat.narrow(case.data, far)
    with pytest.raises(TypeError, match="prepare"):
        jfstat.twoF_band(case.narrow, case.centre)


def template(stack, k):
    """The k-th of a stack."""
    return jax.tree.map(lambda leaf: leaf[k], stack)


@pytest.mark.slow
def test_stacked_narrow_data_work_under_vmap_and_jit(case):
    rng = np.random.default_rng(5)
    steps = reaching_steps(case.data, case.centre, 2 / case.data.tspan)
    x = np.asarray(values(case.centre, ("freq", "alpha")))
    offsets = np.array([[0.0, 0.0], *(rng.uniform(-1, 1, (3, 2)) * [steps["freq"], steps["alpha"]])])
    centres = moved_stack(case.centre, ("freq", "alpha"), x + offsets)
    singles = [jfstat.narrow(case.data, template(centres, k)) for k in range(4)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *singles)
    assert "blocks" in repr(stack)

    beside = jax.jit(jax.vmap(jfstat.twoF, (0, None)))(stack, case.beside)
    truth = float(jfstat.twoF(case.data, case.beside))
    np.testing.assert_allclose(beside, np.full(4, truth), rtol=1e-6)
    parts = jax.jit(jax.vmap(jfstat.fstat))(stack, centres)
    np.testing.assert_allclose(parts.twoF, stacked_two_f(case.data, centres), rtol=1e-6)
    np.testing.assert_allclose(parts.Fa[2], jfstat.fstat(singles[2], template(centres, 2)).Fa, rtol=1e-9)
    assert np.asarray(jax.vmap(jfstat.covers)(stack, centres)).all()
    gradients = jax.vmap(jax.grad(jfstat.twoF, argnums=1))(stack, centres)
    one = jax.grad(jfstat.twoF, argnums=1)(singles[2], template(centres, 2))
    np.testing.assert_allclose(gradients.fkdot[2], one.fkdot, rtol=1e-6)


@pytest.mark.slow
def test_pole_and_long_gaps():
    """A source at the pole, seen for some hours every few days: blocks of time without data are left out."""
    start, hours = 1_200_000_000, 3600
    stretches = [np.arange(0, 8 * hours, 1800) + start + day * 86400 for day in (0, 3, 4)]
    times = {"H1": np.concatenate(stretches), "L1": np.concatenate(stretches[:2]) + 700}
    doppler = jfstat.Doppler(1.0, np.pi / 2, [100.0, -1e-9], start + 50000)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=99.4, fmax=100.6, sqrt_sx=4e-24, seed=3,
        signals=[(doppler, jfstat.Amplitude(8e-25, 0.4, 0.2, 1.0))],
    )  # fmt: skip
    data = jfstat.prepare(sfts, 99.98, 100.02, sqrt_sx=4e-24, guard=0.5)
    narrow = jfstat.narrow(data, doppler)
    time, width = np.asarray(narrow.sites.time), 1.5 / float(narrow.reach)
    assert narrow.samples.shape[2] < 0.75 * data.tspan / width  # half, in steps of a quarter
    covered = int(data.observation.epoch) + time[0].ravel()
    assert not ((covered > start + 8 * hours + width) & (covered < start + 3 * 86400 - width)).any()
    points = random_templates(data, doppler, 0.8 * float(narrow.reach), 300, np.random.default_rng(0))
    assert worst_error(data, narrow, points, doppler) < 1e-6
    gradient = jax.grad(jfstat.twoF, argnums=1)(narrow, doppler)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))
    # at the pole itself, right ascension turns the antenna patterns' frame and nothing else
    turned = [float(jfstat.twoF(narrow, jfstat.Doppler(a, np.pi / 2, [100.0, -1e-9], start + 50000))) for a in (0, 4)]
    assert turned[0] == pytest.approx(turned[1], rel=1e-9)


@pytest.mark.parametrize(("days", "half"), [(20, 0.05), pytest.param(200, 0.3, marks=pytest.mark.ci)])
def test_nodes_lie_where_the_trajectory_does(days, half):
    """The series of long data may go on for hours beyond them; nodes do not."""
    start = 1_167_458_304
    times = start + 86400 * np.r_[0, 0.3 * days, days]
    sfts = jfstat.simulate_sfts(["H1"], timestamps=times, fmin=98.5, fmax=101.5)
    data = jfstat.prepare(sfts, 100 - half, 100 + half, sqrt_sx=4e-24, filters=False)
    near = jfstat.narrow(data, jfstat.Doppler(1.0, 0.5, [100.0], start))
    trajectory = data.observation.trajectory
    first = float(trajectory.start[0])
    assert float(near.sites.time.min()) > first
    assert float(near.sites.time.max()) < first + SEGMENT * (np.ceil((float(data.tspan) + 16440) / SEGMENT) + 1)
