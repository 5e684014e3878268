"""`refine(optimizer=)`: optimisers of optax end where Newton's method does, within bounds, and say how they ended."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from astropy.table import QTable
from cases import make
from compilations import counted_compilations

import jfstat
from jfstat.followup.optimizer import Optimizer
from jfstat.maths.descent import maximise_with
from jfstat.maths.newton import CONVERGED, LEFT, NOWHERE, OUT_OF_STEPS, STALLED, Limits, Maximum, maximise
from jfstat.signal.values import with_fields

OPTIMIZERS = {
    "lbfgs": lambda: optax.lbfgs(),
    "lbfgs without line search": lambda: optax.lbfgs(1.0, linesearch=None),
    "adam": lambda: optax.adam(0.05),
    "sgd with a schedule": lambda: optax.sgd(optax.exponential_decay(0.3, 50, 0.8)),
}
SLOW = pytest.mark.slow  # each compiles for itself
SOME = [name if "without" in name else pytest.param(name, marks=SLOW) for name in OPTIMIZERS]
FIXED = ["freq", "f1dot"]
"""Parameters at a known position: few compile in half the time."""


def hill(x):
    """A maximum of 53 at the origin, as round as peaks in whitened coordinates."""
    return 50 * jnp.exp(-jnp.sum(x**2) - 0.3 * x[0] * x[1]) + 3


@pytest.fixture(scope="module")
def case():
    """A day of two detectors with gaps, a signal of 2F about 150 in noise."""
    return make(120.0, seed=31, noise=True, h0=3.5e-25, half_band=0.02, guard=0.3)


@pytest.fixture(scope="module")
def starts(case):
    """Eight templates at the signal's position, offset in random directions where 30 to 70 % of rho^2 are left."""
    return offset(case.data, case.doppler, FIXED, 8, 2)


def offset(data, point, names, n, seed):
    coordinates = jfstat.whiten(data, point, names)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(names)))
    x *= (np.sqrt(rng.uniform(0.3, 0.7, n)) / np.linalg.norm(x, axis=1))[:, None]
    return jax.vmap(coordinates.point)(jnp.asarray(x))


@pytest.fixture(scope="module")
def newton(case, starts):
    return jfstat.refine(case.data, starts, fit=jfstat.Fit(FIXED), progress=False)


def plain(column):
    return np.asarray(getattr(column, "value", column))


def same(table, newton, names):
    """That two tables have the same peaks, errors and columns."""
    assert table.colnames == newton.colnames
    assert all(table["converged"])
    # both stop where a Newton step would gain less than 1e-9 of 2F: at most some 1e-5 of a standard deviation off
    np.testing.assert_allclose(table["twoF"], newton["twoF"], rtol=1e-8)
    for name in names:
        error = plain(newton[f"{name}_error"])
        assert np.all(abs(plain(table[name]) - plain(newton[name])) < 1e-3 * error)
        np.testing.assert_allclose(plain(table[f"{name}_error"]), error, rtol=1e-3)
    for name in ("h0", "cosi", "peak_probability", "start_twoF", "start_mismatch"):
        np.testing.assert_allclose(plain(table[name]), plain(newton[name]), rtol=1e-3)
    assert list(table["message"]) == list(newton["message"])


@pytest.mark.ci
@pytest.mark.parametrize("name", SOME)
def test_random_starts_end_on_newtons_peak(case, starts, newton, name):
    assert newton["converged"].all()
    table = jfstat.refine(case.data, starts, OPTIMIZERS[name](), jfstat.Fit(FIXED), progress=False)
    same(table, newton, FIXED)
    assert np.all(table["steps"] > 3)
    assert table.meta["max_steps"] == 500 and newton.meta["max_steps"] == 60
    assert newton.meta["optimizer"] == "trust-region Newton"
    assert table.meta["optimizer"] == Optimizer(OPTIMIZERS[name]()).name


@pytest.mark.ci
def test_a_loop_that_makes_its_optimizer_anew_compiles_once(case, starts, newton):
    """Other limits of the steps need no compilation either; a climb that reaches them says so."""

    def refine(max_steps):
        optimizer = optax.lbfgs(1.0, linesearch=None)
        return jfstat.refine(case.data, starts, optimizer, jfstat.Fit(FIXED, max_steps=max_steps), progress=False)

    refine(None)
    with counted_compilations() as compiled:
        table = refine(2)
    assert compiled == []
    assert not table["converged"].any()
    assert set(table["message"]) == {"not converged: too many steps"}
    assert table.meta["max_steps"] == 2
    assert np.all(table["twoF"] > table["start_twoF"])  # the highest point is kept
    assert np.all(np.isnan(table["peak_probability"]))
    assert np.all(table["twoF"] <= newton["twoF"])
    short = jfstat.refine(case.data, starts, fit=jfstat.Fit(FIXED, max_steps=2), progress=False)
    assert not short["converged"].any() and short.meta["max_steps"] == 2


@pytest.mark.slow  # compiles for bounds
@pytest.mark.parametrize("name", ["lbfgs", "adam"])
def test_bounds_hold_and_are_named(case, starts, newton, name):
    best = float(plain(newton["freq"])[0])
    error = float(plain(newton["freq_error"])[0])
    low, high = best - 200 * error, best - 2 * error
    freq = np.clip(np.asarray(starts.fkdot[:, 0]), low, high)
    inside = with_fields(starts, fkdot=jnp.stack([freq, starts.fkdot[:, 1]], axis=1))
    fit = jfstat.Fit(FIXED, bounds={"freq": (low, high)})
    bounded = jfstat.refine(case.data, inside, fit=fit, progress=False)
    table = jfstat.refine(case.data, inside, OPTIMIZERS[name](), fit, progress=False)
    assert all(message == "converged, with freq at the bound" for message in bounded["message"])
    assert list(table["message"]) == list(bounded["message"])
    assert np.all(plain(table["freq"]) <= high + 1e-12)
    np.testing.assert_allclose(table["twoF"], bounded["twoF"], rtol=1e-8)
    assert np.isnan(plain(table["freq_error"])).all()
    np.testing.assert_allclose(plain(table["f1dot_error"]), plain(bounded["f1dot_error"]), rtol=1e-3)


@pytest.mark.slow  # compiles for four parameters
@pytest.mark.parametrize("name", ["lbfgs", "adam"])
def test_sky_positions_too(case, name):
    names = ["freq", "f1dot", "alpha", "delta"]
    points = offset(case.data, case.doppler, names, 8, 3)
    newton = jfstat.refine(case.data, points, progress=False)
    table = jfstat.refine(case.data, points, optimizer=OPTIMIZERS[name](), progress=False)
    assert newton["converged"].all()
    same(table, newton, names)


@pytest.mark.slow  # compiles for segments
def test_segments_and_own_phase_models(own_model):
    """A phase model of a user over segments: what needs no Hessian at each step."""
    data, point = own_model
    names = ["freq", "model[0]", "model[1]", "model[2]"]
    points = offset(data, point, names, 4, 5)
    fit = jfstat.Fit(names, mismatch=0)
    newton = jfstat.refine(data, points, fit=fit, progress=False)
    table = jfstat.refine(data, points, optax.lbfgs(1.0, linesearch=None), fit, progress=False)
    assert newton["converged"].all() and table["converged"].all()
    # climbs that leave what is covered go on in narrow data around their ends, which are right to 1e-6
    np.testing.assert_allclose(table["mean_twoF"], newton["mean_twoF"], rtol=1e-6)
    truth = float(jfstat.mean_twoF(data, point))
    assert np.all(table["mean_twoF"] > truth)
    for name in names:
        error = plain(newton[f"{name}_error"])
        assert np.all(abs(plain(table[name]) - plain(newton[name])) < 1e-3 * error)
        np.testing.assert_allclose(plain(table[f"{name}_error"]), error, rtol=1e-3)


def waves(t, p):
    return jnp.sum(p * jnp.sin(2 * jnp.pi * t / 86400.0 * jnp.arange(1.0, 4.0)))


@pytest.fixture(scope="module")
def own_model():
    """Three segments of 12 h with a signal whose phase has slow waves."""
    start, names = 1_167_458_304, ("H1", "L1")
    point = jfstat.Doppler(2.0, 0.4, [80.0, -1e-10], start, model=jfstat.PhaseModel(waves, [0.3, -0.2, 0.1]))
    slots = np.concatenate([86400 * i + 1800 * np.arange(24) for i in range(3)])
    times = {name: start + slots for name in names}
    sfts = jfstat.simulate_sfts(
        list(names), timestamps=times, fmin=79.6, fmax=80.4, signals=[(point, jfstat.Amplitude(4e-25, 0.5, 0.2, 1.0))],
        seed=3,
    )  # fmt: skip
    pairs = [(start + 86400 * i, start + 86400 * i + 43200) for i in range(3)]
    data = jfstat.prepare(sfts, 79.98, 80.02, start, sqrt_sx=4e-24, guard=0.3, segments=pairs, filters=False)
    return data, point


@pytest.mark.slow
def test_orbits_too():
    orbit = jfstat.Orbit(asini=1.2, period=30000.0, tp=1_167_458_304, ecc=0.0, argp=0.0)
    case = make(60.0, seed=8, noise=True, h0=5e-25, orbit=orbit, half_band=0.02, guard=0.3, reach=0.03)
    names = ["freq", "asini", "tp"]
    points = offset(case.data, case.doppler, names, 4, 6)
    newton = jfstat.refine(case.data, points, fit=jfstat.Fit(names), progress=False)
    table = jfstat.refine(case.data, points, optax.lbfgs(), jfstat.Fit(names), progress=False)
    assert newton["converged"].all()
    same(table, newton, names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(optimizer="adam"), "optimizer must be an optax transformation such as optax.lbfgs"),
        (dict(optimizer=optax.lbfgs), "optimizer must be an optax transformation"),
        (dict(optimizer=0.1), "optimizer must be an optax transformation"),
        (dict(optimizer=optax.GradientTransformation), "optimizer must be an optax transformation"),
        (dict(optimizer=SimpleNamespace(init=1, update=2)), "optimizer must be an optax transformation"),
        (dict(optimizer=SimpleNamespace(init=lambda x: (), update=lambda g, s, x: (g[:1], s))), "optimizer makes"),
        (dict(optimizer=SimpleNamespace(init=lambda x: (), update=lambda g, s, x: g / 0 @ g @ g)), "optimizer fails"),
    ],
)
def test_mistakes_are_one_sentence(case, options, message):
    with pytest.raises(ValueError, match=message) as error:
        jfstat.refine(case.data, case.doppler, fit=jfstat.Fit(FIXED), progress=False, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("most", [0, 2.5, True])
def test_the_most_steps_are_a_whole_number(most):
    with pytest.raises(ValueError, match=f"max_steps must be a whole number from 1 on, not {most}"):
        jfstat.Fit(FIXED, max_steps=most)


def test_many_parameters_cannot_be_covered():
    """20 parameters have too many trial points, of which the message says how to do without."""
    start = 1_167_458_304
    model = jfstat.PhaseModel(lambda t, p: jnp.sum(p) * t * 1e-9, np.zeros(18))
    point = jfstat.Doppler(2.0, 0.4, [80.0, -1e-10], start, model=model)
    sfts = jfstat.simulate_sfts(["H1"], start, 4 * 1800, 78.9, 81.1, seed=1)
    data = jfstat.prepare(sfts, 79.99, 80.01, filters=False)
    names = ["freq", "f1dot", *(f"model[{i}]" for i in range(18))]
    with pytest.raises(ValueError, match=r"mismatch=1 would need 5e\+08 trial points in 19 parameters: .* mismatch=0"):
        jfstat.refine(data, point, fit=jfstat.Fit(names), progress=False)


# the climb alone


@pytest.mark.ci
@pytest.mark.parametrize("name", SOME)
def test_climbs_reach_the_top_and_keep_to_limits(name):
    optimizer = Optimizer(OPTIMIZERS[name]())
    rng = np.random.default_rng(1)
    points = jnp.asarray(rng.uniform(-0.8, 0.8, (20, 2)))
    tops: Maximum = jax.jit(jax.vmap(lambda x: maximise_with(optimizer, hill, x)))(points)
    assert np.all(tops.status == CONVERGED)
    np.testing.assert_allclose(tops.value, 53, atol=1e-7)  # a Newton step would gain less than 1e-9 (1 + 53)
    slanted = Limits(jnp.array([[1.0, 0.0], [0.6, 1.0]]), jnp.array([-1.0, -1.0]), jnp.array([-0.2, -0.3]))
    inside = jnp.asarray(np.column_stack([rng.uniform(-0.9, -0.2, 20), rng.uniform(-0.4, -0.2, 20)]))
    inside = inside[inside @ slanted.matrix[1] < -0.3]
    with_limits = jax.jit(jax.vmap(lambda x, limits: maximise_with(optimizer, hill, x, limits), (0, None)))
    newtons = jax.jit(jax.vmap(lambda x, limits: maximise(hill, x, limits), (0, None)))
    for limits in (slanted, slanted._replace(high=jnp.array([-0.2, 5.0]))):  # a corner, and a side
        tops, ends = with_limits(inside, limits), newtons(inside, limits)
        assert np.all(tops.status == CONVERGED)
        np.testing.assert_allclose(tops.value, ends.value, atol=1e-7)
        np.testing.assert_allclose(tops.x, ends.x, atol=1e-4)
        assert np.all(tops.x @ limits.matrix.T <= limits.high + 1e-12)


def test_climbs_say_how_they_ended():
    adam = Optimizer(optax.adam(0.05))
    start = jnp.array([0.6, -0.4])
    assert maximise_with(adam, lambda x: hill(x) * jnp.nan, start).status == NOWHERE
    short = maximise_with(adam, hill, start, max_steps=4)
    assert short.status == OUT_OF_STEPS and short.steps == 4 and short.value > hill(start)
    edge = maximise_with(adam, lambda x: jnp.where(x[0] < 0.5, hill(x - 1.0), jnp.nan), jnp.array([0.2, 0.2]))
    assert edge.status == LEFT and edge.x[0] < 0.5
    still = maximise_with(Optimizer(optax.sgd(0.0)), hill, start)
    assert still.status == STALLED and jnp.all(still.x == start)
    # a saddle has no slope, but is no maximum
    assert maximise_with(adam, lambda x: 5 + x[0] ** 2 - x[1] ** 2, jnp.zeros(2)).status == STALLED
    broken = Optimizer(SimpleNamespace(init=lambda x: (), update=lambda g, s, x: (g * jnp.nan, s)))
    assert maximise_with(broken, hill, start).status == STALLED


def test_a_climb_that_falls_goes_back():
    """Steps that are ten times too long do not lose the peak that was begun on."""
    wild = maximise_with(Optimizer(optax.sgd(10.0)), hill, jnp.array([0.6, -0.4]), max_steps=100)
    assert wild.value > 45
    # beyond the inflection a secant points downhill
    secant = Optimizer(optax.lbfgs(1.0, linesearch=None))
    ends = jax.vmap(lambda x: maximise_with(secant, hill, x))(jnp.array([[1.1, 0.3], [0.9, 0.9], [-1.0, 0.8]]))
    assert np.all(ends.status == CONVERGED)


def test_optimizers_made_alike_are_equal():
    makers = [
        *OPTIMIZERS.values(),
        lambda: optax.adam(0.06),
        lambda: optax.adam(0.05, b1=0.8),
        lambda: optax.sgd(optax.cosine_decay_schedule(0.1, 100)),
        lambda: optax.inject_hyperparams(optax.adam)(learning_rate=0.05),
        lambda: optax.chain(optax.clip_by_global_norm(0.3), optax.sgd(0.1)),
    ]
    made = [(Optimizer(make()), Optimizer(make())) for make in makers]
    for one, other in made:
        assert one == other and hash(one) == hash(other)
    assert all(made[i][0] != made[j][1] for i in range(len(made)) for j in range(i))
    # what another function does may depend on anything
    schedules = [optax.sgd(lambda step: 0.1 / (1 + step)) for _ in range(2)]
    assert Optimizer(schedules[0]) == Optimizer(schedules[0]) != Optimizer(schedules[1])


def test_names_have_the_numbers():
    assert Optimizer(optax.adam(0.05)).name == (
        "chain(scale_by_adam(b1=0.9, b2=0.999, eps=1e-08, eps_root=0.0), scale(step_size=-0.05))"
    )
    assert "exponential_decay(decay_rate=0.8" in Optimizer(OPTIMIZERS["sgd with a schedule"]()).name
    assert "max_linesearch_steps=20" in Optimizer(optax.lbfgs()).name


@pytest.mark.ci
def test_tables_with_the_optimizers_name_survive_files(case, starts, tmp_path):
    table = jfstat.refine(case.data, starts, optax.lbfgs(1.0, linesearch=None), jfstat.Fit(FIXED), progress=False)
    for suffix in (".ecsv", ".hdf5"):
        back: QTable = jfstat.read_candidates(jfstat.write_candidates(table, tmp_path / f"refined{suffix}"))
        assert back.meta["optimizer"] == table.meta["optimizer"]
        assert back.meta["max_steps"] == 500
