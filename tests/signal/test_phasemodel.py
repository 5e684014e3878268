"""A user's phase model against a direct sum, finite differences and the templates that it can imitate."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import Table
from cases import random_timestamps

import jfstat
from jfstat.candidates.bounds import checked_bounds
from jfstat.followup.candidates import usual_names
from jfstat.reference import direct_fa_fb, direct_twoF
from jfstat.signal.values import (
    all_parameters,
    columns,
    replaced,
    usual_parameters,
    values,
    with_fields,
)

NOISE = 4e-24
START = 1167458304


def recovery(t, p):
    """A glitch: a step of the frequency that stays, and one that decays."""
    after = jnp.maximum(t - p["time"], 0.0)
    return p["stays"] * after + p["decays"] * p["tau"] * (1 - jnp.exp(-after / p["tau"]))


def wandering(t, p):
    """Slow waves of the phase."""
    return jnp.sum(p * jnp.sin(2 * jnp.pi * t / 86400.0 * jnp.arange(1.0, 1.0 + len(p))))


def third(t, p):
    """What f3dot does."""
    return p * t**4 / 24


def jump(t, p):
    return jnp.where(t > p["time"], p["cycles"], 0.0)


MODELS = {
    "recovery": (recovery, {"time": 50000.0, "stays": 2e-6, "decays": 5e-6, "tau": 20000.0}),
    "wandering": (wandering, [0.4, -0.2, 0.1]),
}


def make(name, seed, orbit=None, days=2.0, noise=True, h0=5e-25):
    """Data with a signal that has a model, at a random place and with gaps."""
    rng = np.random.default_rng([seed, len(name)])
    function, parameters = MODELS[name]
    point = jfstat.Doppler(
        rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1)), [80.02, -1e-9], START + int(rng.integers(0, 40000)),
        orbit, model=jfstat.PhaseModel(function, parameters),
    )  # fmt: skip
    amplitude = jfstat.Amplitude(h0, rng.uniform(-1, 1), rng.uniform(-0.7, 0.7), rng.uniform(0, 6.28))
    margin = 0.0 if orbit is None else 0.06
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], fmin=78.9 - margin, fmax=81.1 + margin, sqrt_sx=NOISE if noise else None, seed=seed,
        timestamps=random_timestamps(rng, ["H1", "L1"], START, days, 0.8), signals=[(point, amplitude)],
    )  # fmt: skip
    data = jfstat.prepare(sfts, 80.0, 80.04, sqrt_sx=NOISE, orbit=orbit, max_block=900.0)
    return SimpleNamespace(data=data, point=point, amplitude=amplitude, sfts=sfts)


@pytest.fixture(scope="module")
def glitch():
    return make("recovery", 1)


ORBIT = jfstat.Orbit(1.1, 40000.0, START + 1000.0, 0.1, 0.5)


@pytest.mark.parametrize(
    ("name", "orbit"),
    [
        pytest.param("recovery", None, marks=pytest.mark.ci),
        ("wandering", None),
        pytest.param("wandering", ORBIT, marks=pytest.mark.slow),
    ],
)
def test_two_f_is_a_direct_sum(name, orbit):
    case = make(name, 2, orbit)
    f0 = float(case.point.fkdot[0])
    direct = direct_twoF(case.data, case.point, np.array([f0]))[0]
    assert direct > 100
    # far from what the template without the model finds
    assert direct > 1.2 * float(jfstat.twoF(case.data, with_fields(case.point, model=None)))
    found = jfstat.fstat(case.data, case.point)
    assert float(found.twoF) == pytest.approx(direct, rel=1e-5)
    assert float(jfstat.twoF(jfstat.narrow(case.data, case.point), case.point)) == pytest.approx(direct, rel=1e-5)
    # phases refer to the mid-time: the model is zero there
    fa, _ = direct_fa_fb(case.data, case.point, np.array([f0]))
    turn = complex(fa.sum() / complex(found.Fa))
    angle = 2 * np.pi * float(case.data.observation.source(case.point).cycles_at_middle)
    assert turn / abs(turn) == pytest.approx(np.exp(-1j * angle), abs=1e-4)
    band = np.asarray(jfstat.twoF_band(case.data, case.point))
    loudest = int(np.argmax(band))
    rows = slice(max(0, loudest - 8), loudest + 8)
    direct = direct_twoF(case.data, case.point, case.data.frequencies[rows])
    np.testing.assert_allclose(band[rows], direct, rtol=0, atol=1e-4 * direct.max())
    series = jfstat.resample(case.data, case.point)
    np.testing.assert_allclose(
        jfstat.twoF_band(case.data, case.point, series=series), band, rtol=0, atol=1e-4 * band.max()
    )


@pytest.mark.ci
def test_a_higher_spin_term_may_be_given_as_a_model():
    """Injected as f3dot, found by the model, and the other way round."""
    point = jfstat.Doppler(1.0, 0.3, [80.02, -1e-9, 2e-15, 3e-20], START)
    own = jfstat.Doppler(1.0, 0.3, [80.02, -1e-9, 2e-15], START, model=jfstat.PhaseModel(third, 3e-20))
    amplitude = jfstat.Amplitude(3e-25, 0.4)
    both = [
        jfstat.simulate_sfts(["H1"], START, 2 * 86400, 78.9, 81.1, sqrt_sx=None, signals=[(p, amplitude)])
        for p in (point, own)
    ]
    np.testing.assert_allclose(
        both[0]["H1"].data, both[1]["H1"].data, rtol=0, atol=1e-6 * np.abs(both[0]["H1"].data).max()
    )
    data = jfstat.prepare(both[0], 80.0, 80.04, sqrt_sx=NOISE, fdots=[(-1e-9, 0), (0, 2e-15), (0, 3e-20)])
    first, second = jfstat.fstat(data, point), jfstat.fstat(data, own)
    assert float(second.twoF) == pytest.approx(float(first.twoF), rel=1e-9)
    assert complex(second.Fa) == pytest.approx(complex(first.Fa), rel=1e-6)
    for f in (jfstat.estimate_amplitude,):
        assert float(f(data, own).amplitude.phi0) == pytest.approx(float(f(data, point).amplitude.phi0), abs=1e-6)
    assert float(jfstat.mismatch(data, point, own)) == pytest.approx(0, abs=1e-9)
    g, theirs = jfstat.metric(data, own, ["freq", "model"]), jfstat.metric(data, point, ["freq", "f3dot"])
    np.testing.assert_allclose(g, theirs, rtol=1e-6)


@pytest.mark.ci
def test_gradients_in_the_parameters_are_finite_differences(glitch):
    names = [name for name in all_parameters(glitch.point) if name.startswith("model")]
    assert names == ["model.decays", "model.stays", "model.tau", "model.time"]
    x, steps = values(glitch.point, names), jnp.array([2e-9, 2e-9, 20.0, 0.5])
    # off the peak, where slopes are large
    x = x.at[0].add(1e-6)
    near = jfstat.narrow(glitch.data, glitch.point)

    for data in (glitch.data, near):

        def f(x, data=data):
            return jfstat.twoF(data, replaced(glitch.point, names, x))

        slope = np.asarray(jax.jit(jax.grad(f))(x))
        forward = np.asarray(jax.jacfwd(f)(x))
        np.testing.assert_allclose(forward, slope, rtol=1e-9)
        shifted = jax.vmap(lambda dx: (f(x + dx) - f(x - dx)) / 2)(jnp.diag(steps))
        np.testing.assert_allclose(shifted, slope * steps, rtol=2e-4, atol=1e-7 * float(f(x)))
    k = int(np.argmax(jfstat.twoF_band(glitch.data, glitch.point)))
    bin_point = replaced(glitch.point, ["freq"], jnp.asarray(glitch.data.frequencies[k : k + 1]))
    both = [
        jax.grad(lambda x: jfstat.twoF_band(glitch.data, replaced(glitch.point, names, x))[k])(x),
        jax.grad(lambda x: jfstat.twoF(glitch.data, replaced(bin_point, names, x)))(x),
    ]
    np.testing.assert_allclose(*(slope * steps for slope in both), rtol=1e-3, atol=2e-5)


@pytest.mark.ci
def test_stacks_give_what_single_templates_give_and_values_do_not_recompile(glitch):
    stays = np.array([0.0, 1e-6, 2e-6])
    function, parameters = MODELS["recovery"]
    stack = jfstat.Doppler(
        np.full(3, glitch.point.alpha), glitch.point.delta, glitch.point.fkdot, glitch.point.reftime,
        model=jfstat.PhaseModel(function, parameters | {"stays": stays}),
    )  # fmt: skip
    together = jax.vmap(jfstat.twoF, (None, 0))(glitch.data, stack)
    compiled = jax.jit(lambda data, point: jfstat.twoF(data, point))  # a cache of its own
    each = []
    for x in stays:
        one = with_fields(glitch.point, model=jfstat.PhaseModel(function, parameters | {"stays": x}))
        each.append(compiled(glitch.data, one))
    np.testing.assert_allclose(together, each, rtol=1e-9)
    assert compiled._cache_size() == 1
    bands = np.asarray(jax.vmap(jfstat.twoF_band, (None, 0))(glitch.data, stack))
    loudest, bin_number = np.unravel_index(np.argmax(bands), bands.shape)
    found = jfstat.search(glitch.data, stack, top=20, progress=False)
    assert found["model.stays"][0] == stays[loudest]
    assert found.meta["parameters"] == ["freq", "model.stays"]
    assert float(found["twoF"][0]) == pytest.approx(bands[loudest, bin_number], rel=1e-5)
    best = replaced(glitch.point, ["freq", "model.stays"], jnp.array([found["freq"][0].value, stays[loudest]]))
    assert found["twoF_H1"][0] == pytest.approx(float(jfstat.fstat(glitch.data, best).twoF_per_detector[0]), rel=1e-4)
    with pytest.raises(ValueError, match="cluster does not know the templates' phase model"):
        jfstat.search(glitch.data, stack, progress=False, keep=jfstat.Keep(cluster=1.0))


@pytest.mark.ci
def test_many_spin_downs_of_a_model_share_a_series(glitch):
    """As a search over spin-downs does, where the model is removed together with the spin-down."""
    fkdot = np.asarray(glitch.point.fkdot) + np.array([[0.0, k * 1e-12] for k in range(8)])
    stack = jfstat.Doppler(
        np.full(8, glitch.point.alpha),
        glitch.point.delta,
        fkdot,
        glitch.point.reftime,
        model=glitch.point.model.first(0),
    )
    found = jfstat.search(glitch.data, stack, top=5, progress=False, details=jfstat.Details(per_detector=False))
    assert float(found["twoF"][0]) == pytest.approx(
        float(np.max(jax.vmap(jfstat.twoF_band, (None, 0))(glitch.data, stack))), rel=1e-4
    )


@pytest.mark.ci
def test_refine_recovers_the_parameters():
    """Frequency and glitch of a strong signal from values that are off; the others held."""
    case = make("recovery", 5, days=3.0, h0=1.5e-24)
    truth = values(case.point, all_parameters(case.point))
    start = columns(case.point) | {"freq": 80.02 + 5e-7, "model.stays": 1.3e-6}
    del start["model.decays"], start["model.time"]  # the model's own values then
    found = Table({name: [x] for name, x in start.items()}, meta={"reftime": case.point.reftime.plain})
    model = jfstat.PhaseModel(recovery, case.point.model.parameters | {"decays": 5.6e-6})
    names = ["freq", "model.stays", "model.decays"]
    row = jfstat.refine(case.data, found, model=model, fit=jfstat.Fit(names), progress=False)[0]
    assert row["converged"]
    assert row["twoF"] > row["start_twoF"] + 10
    assert row["twoF"] >= float(jfstat.twoF(case.data, case.point))
    for name, x in zip(all_parameters(case.point), np.asarray(truth), strict=True):
        found = getattr(row[name], "value", row[name])
        if name in names:
            error = getattr(row[f"{name}_error"], "value", row[f"{name}_error"])
            assert abs(found - x) < 4 * error < (1e-5 if name == "freq" else x)
        else:
            assert found == pytest.approx(x, abs=1e-12)
    with pytest.raises(ValueError, match=r"parameters has 'model\.other': choose from freq.*model\.decays"):
        jfstat.refine(case.data, case.point, fit=jfstat.Fit(["freq", "model.other"]), progress=False)
    # by default a model's parameters are held
    assert usual_names(columns(case.point)) == ("freq", "f1dot", "alpha", "delta")
    assert checked_bounds({"model.stays": (1e-6, 1.5e-6)}) == {"model.stays": (1e-6, 1.5e-6)}


def test_amplitudes_are_those_of_the_signal():
    case = make("wandering", 8, noise=False)
    found = jfstat.estimate_amplitude(case.data, case.point)
    for name in ("h0", "cosi"):
        assert float(getattr(found.amplitude, name)) == pytest.approx(
            float(getattr(case.amplitude, name)), rel=0.05, abs=0.02
        )
    # psi -> psi + pi/2 goes with phi0 -> phi0 + pi
    off = (float(found.amplitude.phi0 - case.amplitude.phi0) + np.pi / 2) % np.pi - np.pi / 2
    assert abs(off) < 0.1


@pytest.mark.ci
def test_a_model_that_is_too_fast_is_noticed(glitch):
    fast = jfstat.PhaseModel(lambda t, p: p * jnp.sin(2 * jnp.pi * t / 600.0), 0.3)
    point = with_fields(glitch.point, model=fast)
    with pytest.raises(ValueError, match=r"the phase model changes too fast.* prepare with a shorter max_block"):
        jfstat.twoF(glitch.data, point)
    with pytest.raises(ValueError, match="the phase model changes too fast"):
        jfstat.twoF_band(glitch.data, point)
    assert np.isnan(jax.jit(jfstat.twoF)(glitch.data, point))
    assert np.isnan(jax.jit(jfstat.twoF_band)(glitch.data, point)).all()
    row = jfstat.refine(glitch.data, point, progress=False)[0]
    assert row["message"].startswith("not refined: the phase model changes too fast")
    # shorter blocks follow it
    finer = jfstat.prepare(glitch.sfts, 80.0, 80.04, sqrt_sx=NOISE, max_block=60.0, filters=False)
    direct = direct_twoF(finer, point, np.array([80.02]))[0]
    assert float(jfstat.twoF(finer, point)) == pytest.approx(direct, rel=1e-4)  # a tenth of the signal's power
    # and what leaves the band
    away = with_fields(glitch.point, model=jfstat.PhaseModel(lambda t, p: p * t, 0.3))
    with pytest.raises(ValueError, match="lies outside the data's band"):
        jfstat.twoF(glitch.data, away)


@pytest.mark.ci
def test_a_jump_in_a_few_blocks_costs_little():
    function = jfstat.PhaseModel(jump, {"time": 100000.0, "cycles": 0.1})
    point = jfstat.Doppler(1.0, 0.3, [80.02, -1e-9], START, model=function)
    sfts = jfstat.simulate_sfts(
        ["H1"], START, 3 * 86400, 78.9, 81.1, sqrt_sx=None, signals=[(point, jfstat.Amplitude(3e-25, 0.4))]
    )
    data = jfstat.prepare(sfts, 80.0, 80.04, sqrt_sx=NOISE, max_block=250.0)
    direct = direct_twoF(data, point, np.array([80.02]))[0]
    assert float(jfstat.twoF(data, point)) == pytest.approx(direct, rel=1e-4)


def test_a_model_that_is_not_finite_is_noticed(glitch):
    point = with_fields(glitch.point, model=jfstat.PhaseModel(lambda t, p: p * jnp.log(t - 1e5), 0.3))
    with pytest.raises(ValueError, match="changes too fast, or is not finite"):
        jfstat.twoF(glitch.data, point)
    assert np.isnan(jax.jit(jfstat.twoF)(glitch.data, point))
    with pytest.raises(ValueError, match="the phase model of a signal is not finite"):
        jfstat.inject(glitch.sfts, [(point, glitch.amplitude)])


def test_a_slope_that_is_not_finite_is_noticed(glitch):
    """A square root at zero has no finite slope, although the model is finite everywhere."""
    model = jfstat.PhaseModel(lambda t, p: p * jnp.sqrt(jnp.maximum(t - 1e5, 0.0)), 1e-4)
    with pytest.raises(ValueError, match="the phase model has a derivative by time that is not finite"):
        jfstat.twoF(glitch.data, with_fields(glitch.point, model=model))


class Unhashable:
    """A function that holds an array, as a module of equinox does."""

    __hash__ = None

    def __call__(self, t, p):
        return t


def test_malformed_models_are_refused(glitch):
    with pytest.raises(TypeError, match="function must be called as function"):
        jfstat.PhaseModel(3.0, {})
    with pytest.raises(TypeError, match="function, Unhashable, cannot be hashed"):
        jfstat.PhaseModel(Unhashable(), {})
    with pytest.raises(ValueError, match="a parameter of the model must be a number"):
        jfstat.PhaseModel(third, {"a": "b"})
    with pytest.raises(ValueError, match="a parameter of the model must be finite"):
        jfstat.PhaseModel(third, np.inf)
    with pytest.raises(TypeError, match=r"model must be a jfstat\.PhaseModel or None"):
        jfstat.Doppler(1.0, 0.3, [80.02], model=third)
    for function in (lambda t, p: p, lambda t, p: (t + p[0]).astype(jnp.float32), lambda t, p: (t, t)):
        point = with_fields(glitch.point, model=jfstat.PhaseModel(function, [1.0, 2.0]))
        with pytest.raises(ValueError, match="not one float64 number of cycles"):
            jfstat.twoF(glitch.data, point)
    with pytest.raises(ValueError, match=r"a parameter of the model has shape \(2,\), but the other fields"):
        jfstat.Doppler([1.0, 1.1, 1.2], 0.3, [80.02], model=jfstat.PhaseModel(wandering, np.ones(2)))
    with pytest.raises(ValueError, match="model goes with a table of candidates"):
        jfstat.refine(glitch.data, glitch.point, model=glitch.point.model, progress=False)
    with pytest.raises(ValueError, match="max_block must be positive"):
        jfstat.prepare(glitch.sfts, 80.0, 80.04, max_block=0.0)


def test_names_of_parameters():
    model = jfstat.PhaseModel(third, {"b": np.ones((2, 1)), "a": [1.0, 2.0], "c": (3.0, {"d": 4.0})})
    point = jfstat.Doppler(1.0, 0.3, [80.02], model=model)
    names = ["model.a[0]", "model.a[1]", "model.b[0,0]", "model.b[1,0]", "model.c.0", "model.c.1.d"]
    assert list(all_parameters(point)[3:]) == names
    assert usual_parameters(point) == ("freq", "alpha", "delta")
    stack = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), point)
    np.testing.assert_array_equal(columns(stack)["model.c.1.d"], [4.0, 8.0])
    changed = replaced(stack, ["model.b[1,0]"], jnp.array([[7.0], [9.0]]))
    np.testing.assert_array_equal(changed.model.parameters["b"][:, 1, 0], [7.0, 9.0])
    assert all_parameters(with_fields(point, model=jfstat.PhaseModel(third, 1.0)))[3:] == ("model",)


@jax.custom_jvp
def wave(t, amplitude):
    """The phase of a slow wave, with a derivative of its own."""
    return amplitude * jnp.sin(2 * jnp.pi * t / 86400.0)


@wave.defjvp
def _wave_jvp(primals, tangents):
    (t, amplitude), (dt, da) = primals, tangents
    rate = 2 * jnp.pi / 86400.0
    return wave(t, amplitude), da * jnp.sin(rate * t) + dt * amplitude * rate * jnp.cos(rate * t)


def plain_wave(t, amplitude):
    return amplitude * jnp.sin(2 * jnp.pi * t / 86400.0)


@jax.custom_vjp
def reverse(t, amplitude):
    return plain_wave(t, amplitude)


reverse.defvjp(lambda t, a: (reverse(t, a), (t, a)), lambda kept, g: (0.0 * g, g * plain_wave(kept[0], 1.0)))


@pytest.mark.ci
def test_functions_with_derivatives_of_their_own(glitch):
    """In forward over reverse mode, as `refine` climbs."""
    own, plain, bad = (with_fields(glitch.point, model=jfstat.PhaseModel(f, 0.1)) for f in (wave, plain_wave, reverse))

    @jax.jit
    def second(data, point):
        def two_f(x):
            return jfstat.twoF(data, with_fields(point, model=point.model.replaced({"model": x}, 0)))

        return jax.jacfwd(jax.value_and_grad(two_f))(jnp.asarray(0.1))

    for x, y in zip(second(glitch.data, own), second(glitch.data, plain), strict=True):
        assert float(x) == pytest.approx(float(y), rel=1e-6)
        assert float(x) != 0
    for function in (jfstat.twoF, jfstat.refine, jax.jit(jfstat.fstat)):
        with pytest.raises(TypeError, match=r"by jax\.custom_vjp, and derivatives in forward mode.*jax\.custom_jvp"):
            function(glitch.data, bad)


def test_parameters_may_be_a_module_of_equinox(glitch):
    equinox = pytest.importorskip("equinox")

    class Recovery(equinox.Module):
        time: jax.Array
        decays: jax.Array
        tau: jax.Array
        stays: jax.Array
        name: str = equinox.field(static=True)

        def __call__(self, t):
            return recovery(t, {"time": self.time, "decays": self.decays, "tau": self.tau, "stays": self.stays})

    module = Recovery(**glitch.point.model.parameters, name="mine")
    point = with_fields(glitch.point, model=jfstat.PhaseModel(lambda t, own: own(t), module))
    assert float(jfstat.twoF(glitch.data, point)) == pytest.approx(float(jfstat.twoF(glitch.data, glitch.point)))
    slopes = [jax.grad(jfstat.twoF, argnums=1)(glitch.data, x).model.parameters for x in (point, glitch.point)]
    assert isinstance(slopes[0], Recovery)
    assert slopes[0].name == "mine"
    assert float(slopes[0].tau) == pytest.approx(float(slopes[1]["tau"]), rel=1e-6)
    assert {x for x in all_parameters(point) if x.startswith("model")} == {
        "model.time",
        "model.decays",
        "model.tau",
        "model.stays",
    }
    found = jfstat.refine(glitch.data, point, fit=jfstat.Fit(["freq", "model.stays"]), progress=False)
    assert bool(found["converged"][0])
