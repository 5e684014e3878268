"""Banks over ranges of any parameters: coverage, counts, functions as ends of ranges, and what is refused."""

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import random_timestamps
from test_orbit_banks import gaps, least_losses, rows

import jfstat
from jfstat.signal.values import columns, replaced

START, DAY = 1167458304, 86400.0
SKY = 2.1, 0.47


def glitch(t, p):
    later = jnp.maximum(t - p["time"], 0.0)
    return p["df"] * p["tau"] * (1 - jnp.exp(-later / p["tau"]))


def waves(t, p):
    x = 2 * jnp.pi * t / (2 * DAY)
    return p["c"][0] * jnp.sin(x) + p["c"][1] * jnp.cos(x)


def point(model=None, fkdot=(100.0, -1e-10), **fields):
    return jfstat.Doppler(*SKY, list(fkdot), START, model=model, **fields)


WAVES = jfstat.PhaseModel(waves, {"c": [0.0, 0.0]})
STEP = jfstat.PhaseModel(glitch, {"time": 5e4, "df": 2e-6, "tau": 4e4})
ORBIT = jfstat.Orbit(0.5, 20000.0, START)
CASES = {
    "waves": (point(WAVES), {"model.c[0]": (-1.0, 1.0), "model.c[1]": (-0.5, 0.5)}),
    "glitch": (point(STEP), {"model.df": (-3e-5, 3e-5), "model.tau": (2e4, 9e4), "f1dot": (-1e-9, 0.0)}),
    "sky": (point(), {"alpha": (2.0, 2.2), "delta": (0.4, 0.5), "f1dot": (-4e-9, 0.0)}),
    "orbit": (
        point(STEP, fkdot=(30.0, 0.0), orbit=ORBIT),
        {"asini": (0.5, 0.52), "tp": (START, START + 100), "model.df": (0.0, 5e-5)},
    ),
    "motion": (point(WAVES, motion=(0.0, 0.0)), {"pmra": (-1e-8, 1e-8), "model.c[0]": (0.0, 1.0)}),
    "index": (
        point(fkdot=(100.0, 0.0, 0.0)),
        {"n": (2.0, 7.0), "f1dot": (-2e-6, -1.998e-6), "f2dot": lambda p: p["n"] * p["f1dot"] ** 2 / p["freq"]},
    ),
    "nested": (
        point(fkdot=(100.0, 0.0, 0.0)),
        {"f1dot": (-2e-6, -1.998e-6), "f2dot": (0.0, lambda p: 7 * p["f1dot"] ** 2 / p["freq"])},
    ),
}

MARKS = {"waves": (), "motion": (), "nested": pytest.mark.slow, "index": pytest.mark.slow}


def drawn(centre, ranges, n, rng):
    """Signals in the ranges, and the values of all names."""
    at = {"freq": np.full(n, float(centre.fkdot[0]))}
    for name, value in ranges.items():
        if callable(value):
            at[name] = value(at)
            continue
        low, high = (x(at) if callable(x) else x for x in value)
        at[name] = low + (high - low) * rng.uniform(size=n)
    names = [name for name in at if name in columns(centre)]
    stack = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (n, *jnp.shape(x))), centre)
    return replaced(stack, names, jnp.stack([jnp.asarray(at[name]) for name in names], -1)), at


@pytest.mark.parametrize("name", [pytest.param(x, marks=MARKS.get(x, pytest.mark.ci)) for x in CASES])
def test_no_random_signal_loses_more_than_the_mismatch(name):
    centre, ranges = CASES[name]
    observation, m, n = gaps(2), 0.2, 15
    bank = jfstat.lattice_bank(observation, centre, ranges, m)
    signals, _ = drawn(centre, ranges, n, np.random.default_rng(8))
    k = len(bank)
    lost = least_losses(observation, rows(signals, np.repeat(np.arange(n), k)), rows(bank, np.tile(np.arange(k), n)))
    least = np.min(np.asarray(lost).reshape(n, k), axis=1)
    assert 10 < k < 2000
    assert np.max(least) < m
    assert np.mean(least) > 0.05 * m  # no waste


def test_count_is_that_of_a_hexagonal_lattice_by_hand():
    observation, m = gaps(10), 0.1
    ranges = {"model.c[0]": (-3.0, 3.0), "model.c[1]": (-2.0, 2.0)}
    bank = jfstat.lattice_bank(observation, point(WAVES), ranges, m)
    g = np.asarray(jfstat.metric(observation, point(WAVES), ("freq", *ranges), phase_only=True))
    g = g[1:, 1:] - np.outer(g[1:, 0], g[0, 1:]) / g[0, 0]
    by_area = 24.0 * np.sqrt(np.linalg.det(g)) / (1.5 * np.sqrt(3) * m)  # hexagons with corners at the radius
    assert by_area < len(bank) < 1.15 * by_area
    assert jfstat.lattice_size(observation, point(WAVES), ranges, m) == pytest.approx(len(bank), rel=0.03)


@pytest.mark.ci
def test_spin_downs_alone_are_as_many_as_in_template_bank():
    observation = gaps(10)
    ranges = {"f1dot": (-1e-8, 0.0), "f2dot": (0.0, 2e-15)}
    bank = jfstat.lattice_bank(observation, point(fkdot=(100.0, 0.0, 0.0)), ranges, 0.1)
    other = jfstat.template_bank(*SKY, **ranges, data=observation, freq=100.0, mismatch=0.1, reftime=START)
    assert len(bank) == pytest.approx(len(other), rel=0.05)


def test_steps_on_the_sky_are_compensated_by_spin_downs():
    """In reduced supersky coordinates one constant metric serves a box in which the plain one varies tenfold."""
    observation = gaps(10)
    ranges = {"alpha": (2.05, 2.15), "delta": (0.45, 0.5), "f1dot": (-1e-9, 0.0)}
    bank = jfstat.lattice_bank(observation, point(), ranges, 0.2)
    other = jfstat.template_bank(**ranges, data=observation, freq=100.0, mismatch=0.2, reftime=START)
    assert 0.3 * len(other) < len(bank) < 0.7 * len(other)


def test_names_of_the_users_own_span_a_region():
    _, ranges = CASES["index"]
    bank = jfstat.lattice_bank(gaps(2), point(fkdot=(100.0, 0.0, 0.0)), ranges, 0.1)
    n = bank.fkdot[:, 2] * 100.0 / bank.fkdot[:, 1] ** 2
    assert len(bank) > 10
    assert 1.0 < float(n.min()) < 2.5 and 6.5 < float(n.max()) < 8.0
    assert bank.varied == ("f1dot", "f2dot") and set(bank.asked) == {"f1dot", "f2dot"}
    assert bank.asked["f2dot"] == pytest.approx((2 * 1.998e-6**2 / 100, 7 * 4e-12 / 100), rel=1e-6)
    assert "f2dot" in repr(bank) and "memory" in repr(bank)


def test_equal_ends_fix_a_parameter():
    centre, ranges = CASES["waves"]
    bank = jfstat.lattice_bank(gaps(2), centre, ranges | {"model.c[1]": (0.3, 0.3), "f1dot": (-3e-10, -3e-10)}, 0.1)
    assert bank.varied == ("model.c[0]",)
    assert np.all(np.asarray(bank.model.parameters["c"])[:, 1] == 0.3) and np.all(bank.fkdot[:, 1] == -3e-10)
    one = jfstat.lattice_bank(gaps(2), centre, {"model.c[1]": (0.3, 0.3)}, 0.1)
    assert len(one) == 1 and one.varied == () and float(one.model.parameters["c"][0, 1]) == 0.3


def test_equal_ends_hold_a_name_of_the_users_own():
    centre, ranges = CASES["index"]
    bank = jfstat.lattice_bank(gaps(2), centre, ranges | {"n": (3.0, 3.0)}, 0.1)
    second = np.asarray(bank.fkdot[:, 2] * 100.0 / bank.fkdot[:, 1] ** 2)
    assert np.all(np.abs(second - 3.0) < 1.0) and bank.varied == ("f1dot", "f2dot")


def test_a_range_of_alpha_through_zero():
    centre = jfstat.Doppler(0.0, 0.47, [300.0, 0.0], START)
    with jax.numpy_rank_promotion("raise"):
        bank = jfstat.lattice_bank(
            gaps(2), centre, {"alpha": (6.2, 0.05), "delta": (0.45, 0.5), "f1dot": (-1e-9, 0)}, 0.2
        )
    degrees = {"alpha": (6.2 * u.rad, 0.05 * u.rad), "delta": (0.45, 0.5), "f1dot": (-1e-9, 0)}
    assert bank.asked["alpha"] == pytest.approx((6.2, 0.05 + 2 * np.pi))
    again = jfstat.lattice_bank(gaps(2), centre, degrees, 0.2)
    assert len(bank) == len(again) > 10 and again.asked == bank.asked
    assert "templates" in repr(again)


def test_a_stack_with_a_model_shows_its_parameters():
    bank = jfstat.lattice_bank(gaps(2), *CASES["waves"], 0.2)
    text = repr(bank)
    assert "model.c[0]" in text and "asked for -0.5 to 0.5" in text and f"{len(bank)} templates" in text


def test_power_along_tracks_takes_models():
    rng, f = np.random.default_rng(3), 60.0
    times = random_timestamps(rng, ("H1", "V1"), START, 4.0, 0.6)
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=f - 1, fmax=f + 1, sqrt_sx=4e-24, seed=1)
    data = jfstat.normalise(sfts, f - 0.01, f, sqrt_sx=4e-24)
    centre = jfstat.Doppler(*SKY, [f, 0.0], START, model=WAVES)
    bank = jfstat.lattice_bank(data, centre, {"model.c[0]": (0.0, 300.0), "model.c[1]": (0.0, 200.0)}, 0.3)
    power = jfstat.track_power(data, bank).power
    assert len(bank) > 20 and power.shape[0] == len(bank) and bool(jnp.all(jnp.isfinite(power)))


@pytest.mark.ci
def test_a_glitch_is_found_and_refined():
    model = jfstat.PhaseModel(glitch, {"time": 5e4, "df": 2.1e-5, "tau": 5.2e4})
    signal = jfstat.Doppler(*SKY, [100.0057, -1e-10], START, model=model)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 3 * DAY, 99.5, 100.5, sqrt_sx=1e-23, signals=[(signal, jfstat.Amplitude(6e-25, 0.4))]
    )
    data = jfstat.prepare(sfts, 100.0, 100.01, reftime=START)
    ranges = {"model.df": (0.0, 4e-5), "model.tau": (3e4, 9e4)}
    bank = jfstat.lattice_bank(data, point(STEP, fkdot=(100.01, -1e-10)), ranges, 0.1)
    found = jfstat.search(data, bank, top=1, progress=False)
    row = jfstat.refine(data, found, model=STEP, fit=jfstat.Fit(["freq", *ranges]), progress=False)[0]
    for name, true in (("freq", 100.0057), ("model.df", 2.1e-5), ("model.tau", 5.2e4)):
        value, error = (float(getattr(x, "value", x)) for x in (row[name], row[f"{name}_error"]))
        assert abs(value - true) < 4 * error, name
    assert row["twoF"] > found["twoF"][0] > 0.85 * float(jfstat.twoF(data, signal))


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({}, "ranges must be a mapping"),
        ({"freq": (99.0, 100.0)}, "ranges has 'freq', which every search covers"),
        ({"f3dot": (0.0, 1.0)}, "ranges has 'f3dot': choose from freq, f1dot, alpha, delta, model.c"),
        ({"model.d": (0.0, 1.0)}, "ranges has 'model.d': choose from"),
        ({"asini": (0.0, 1.0)}, "ranges has 'asini': choose from"),
        ({"f1dott": (-1e-9, 0.0)}, "'f1dott', which is no parameter of this template, and no function depends on it"),
        ({"f1dot": (0.0, -1e-9)}, "f1dot must have low <= high"),
        ({"f1dot": (-1e-9, 0.0, 1e-10)}, r"ranges\['f1dot'\] must be \(low, high\)"),
        ({"f1dot": -1e-9}, r"ranges\['f1dot'\] must be \(low, high\)"),
        ({"model.c[0]": (0.0, float("nan"))}, "model.c.0. must be finite"),
        ({"model.c[0]": (lambda p: 1.0, lambda p: 0.0)}, "functions that are not ordered"),
        ({"model.c[0]": (0.0, lambda p: p["n"])}, "has a function that fails: LookupError: 'n' is not known"),
        ({"model.c[0]": lambda p: 1e9 * p["f1dot"], "f1dot": (-1e-9, 0.0)}, "LookupError: 'f1dot' is not known"),
        (
            {"phase": (0.0, 1.0), "model.c[0]": lambda p: p["phase"]},
            "ranges has 'phase', which is the name of an angle",
        ),
        ({"n": (2.0, 2.0), "model.c[0]": (0.0, 1.0)}, "'n', which is no parameter"),
        ({"f1dot": (-1e-9, 0.0), "model.c[0]": (0.0, lambda p: np.zeros(7))}, r"returns the shape \(7,\)"),
        ({"n": lambda p: 3.0}, "since 'n' is no parameter of this template"),
        ({"alpha": ("a", 2.0)}, "alpha must"),
        ({"alpha": [2.0, 2.1]}, r"ranges\['alpha'\] must be \(low, high\), a tuple"),
        ({"model.c[0]": (0.0, lambda p: np.inf)}, "values are not all finite"),
        ({"alpha": lambda p: 2.0}, "must be two numbers, not functions"),
        ({"alpha": (0.0, 2.0), "delta": (0.1, 0.2)}, "span less than 1.0 rad"),
        ({"model.c[0]": (-1e9, 1e9), "model.c[1]": (-1e9, 1e9)}, "narrow the ranges or raise the mismatch"),
    ],
)
def test_what_cannot_be_is_refused(ranges, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        jfstat.lattice_bank(gaps(1), point(WAVES), ranges, 0.1)
    assert "\n" not in str(error.value)


def test_a_phase_that_is_not_finite_is_refused():
    root = jfstat.PhaseModel(lambda t, p: jnp.sqrt(p["x"]) * t * 1e-6, {"x": 1.0})
    with pytest.raises(ValueError, match="the phase model is not finite in, or just beyond"):
        jfstat.lattice_bank(gaps(1), point(root), {"model.x": (-1.0, 1.0)}, 0.1)


def test_functions_may_return_quantities():
    centre, ranges = CASES["nested"]
    end = lambda p: 7 * p["f1dot"] ** 2 / p["freq"] * 1e9 * u.nHz / u.s**2  # noqa: E731
    bank = jfstat.lattice_bank(gaps(2), centre, ranges, 0.3)
    assert len(jfstat.lattice_bank(gaps(2), centre, ranges | {"f2dot": (0.0, end)}, 0.3)) == len(bank)


def test_a_time_scale_remains_positive():
    """Over a decade of tau the metric half a width beyond the range would be that of growing exponentials."""
    ranges = {"model.df": (-1e-5, 1e-5), "model.tau": (5e3, 5e4)}
    bank = jfstat.lattice_bank(gaps(2), point(STEP, fkdot=(100.0, 0.0, 0.0)), ranges, 0.1)
    assert len(bank) < 1000 and float(bank.model.parameters["tau"].min()) >= 2.5e3


@pytest.mark.ci
def test_the_metric_is_taken_along_spin_downs_that_a_model_follows():
    n, m = 40, 0.2
    centre = point(STEP)
    ranges = {
        "f1dot": (-1e-9, -1e-11),
        "model.tau": lambda p: 1e3 + 1.5e5 * (p["f1dot"] / -1e-9) ** 2,
        "model.df": (-5e-5, 5e-5),
    }
    bank = jfstat.lattice_bank(gaps(2), centre, ranges, m)
    signals, _ = drawn(centre, ranges, n, np.random.default_rng(8))
    k = len(bank)
    lost = least_losses(gaps(2), rows(signals, np.repeat(np.arange(n), k)), rows(bank, np.tile(np.arange(k), n)))
    assert np.max(np.min(np.asarray(lost).reshape(n, k), axis=1)) < m
