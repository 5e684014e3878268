"""Names, units and limits of parameters, and templates as columns."""

import jax
import numpy as np
import pytest
from astropy import units as u

import jfstat
from jfstat.candidates.tables import in_units, parameter_columns, points_from
from jfstat.signal.parameters import AMPLITUDE_FIELDS, LIMITS, ORBIT_FIELDS, spin_name, spin_names, spin_order, unit
from jfstat.signal.possible import physical
from jfstat.signal.values import columns, replaced, values

ORBIT = jfstat.Orbit(np.array([1.0, 2.0]), 40000.0, 1e9, 0.1, 0.3)
STACK = jfstat.Doppler(np.array([1.0, 2.0]), 0.5, np.array([[100.0, -1e-9, 1e-18]] * 2), 1_000_000_000, ORBIT)


def test_names_and_orders_of_spin_downs():
    assert [spin_name(k) for k in range(3)] == ["freq", "f1dot", "f2dot"]
    assert [spin_order(spin_name(k)) for k in range(12)] == list(range(12))
    assert [spin_order(name) for name in ("f", "f0dot", "fdot", "alpha", "twoF")] == [None] * 5
    assert spin_names(["alpha", "f2dot", "freq"]) == ["freq", "f1dot", "f2dot"]


def test_units_are_those_that_templates_take():
    named = {name: np.asarray(x)[0] * u.Unit(unit(name)) for name, x in columns(STACK).items()}
    fkdot = [named[name] for name in ("freq", "f1dot", "f2dot")]
    orbit = jfstat.Orbit(*(named[name] for name in ORBIT_FIELDS))
    point = jfstat.Doppler(named["alpha"], named["delta"], fkdot, STACK.reftime.common, orbit)
    jax.tree.map(np.testing.assert_array_equal, point, jax.tree.map(lambda x: x[0], STACK))
    assert [unit(name) for name in (*AMPLITUDE_FIELDS, "psi_error", "f1dot_error", "twoF")] == [
        "",
        "",
        "rad",
        "rad",
        "rad",
        "Hz / s",
        "",
    ]


@pytest.mark.parametrize("stack", [STACK, jfstat.Doppler(STACK.alpha, STACK.delta, STACK.fkdot[:, :1])])
def test_templates_survive_a_table(stack):
    table = in_units(columns(stack), {})
    back = points_from(parameter_columns(table), stack.reftime)
    assert jax.tree.structure(back) == jax.tree.structure(stack)
    jax.tree.map(np.testing.assert_array_equal, back, stack)


def test_values_go_where_they_come_from():
    names = ("f2dot", "delta", "period", "freq")
    x = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(values(replaced(STACK, names, x), names), x)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("delta", [-np.pi / 2, np.pi / 2], [1.6, -1.6]),
        ("asini", [0.0, 1.0], [-1e-9]),
        ("period", [1e5], [0.0, -1.0]),
        ("ecc", [0.0, 0.9], [1.0, -0.1]),
    ],
)
def test_one_set_of_limits(name, good, bad):
    """What users' arguments are checked for, and what a follow-up may reach, is the same."""
    point = jax.tree.map(lambda x: x[0], STACK)
    fields = {key: float(np.asarray(x)[0]) for key, x in columns(STACK).items()}
    for x in [*good, *bad]:
        assert bool(LIMITS[name].holds(np.float64(x))) == (x in good)
        assert bool(physical(replaced(point, (name,), np.array([x])))) == (x in good)
        if x in bad:
            with pytest.raises(ValueError, match=f"{name} must be {LIMITS[name].must_be.split()[0]}"):
                points_from({key: np.array([y]) for key, y in (fields | {name: x}).items()}, None)


def test_orbits_must_be_slower_than_light():
    point = jax.tree.map(lambda x: x[0], STACK)
    assert physical(replaced(point, ("asini",), np.array([5000.0])))
    assert not physical(replaced(point, ("asini",), np.array([7000.0])))
