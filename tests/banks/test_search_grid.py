"""Flat grids: what ranges hold, in which order templates come, and what is refused."""

import jax
import numpy as np
import pytest
from astropy import units as u
from astropy.coordinates import Angle, SkyCoord
from astropy.time import Time

import jfstat
from jfstat.banks.ranges import axis, natural_step, orbits
from jfstat.banks.template_bank import template_bank

START = 1167458304


@pytest.fixture(scope="module")
def data():
    sfts = jfstat.simulate_sfts("H1", START, 36000, 49.9, 50.2, sqrt_sx=1e-24)
    return jfstat.prepare(sfts, 50.0, 50.02, sqrt_sx=1e-24)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.3, [0.3]),
        ((0.0, 1.0, 0.25), [0.0, 0.25, 0.5, 0.75, 1.0]),
        ((0.0, 0.3, 0.1), [0.0, 0.1, 0.2, 0.3]),  # 0.3 / 0.1 is 2.9999999999999996
        ((0.0, 1.0, 0.4), [0.0, 0.4, 0.8]),
        ((2.0, 2.0, 0.1), [2.0]),
        ([3.0, 1.0], [3.0, 1.0]),
        (np.array([1.0, 2.0, 4.0]), [1.0, 2.0, 4.0]),
        (180 * u.deg, [np.pi]),
        ((0 * u.deg, 90 * u.deg, 45 * u.deg), [0.0, np.pi / 4, np.pi / 2]),
        ([90, 180] * u.deg, [np.pi / 2, np.pi]),
        (Angle("12h"), [np.pi]),
    ],
)
def test_a_parameter_is_a_number_a_range_or_values(value, expected):
    np.testing.assert_allclose(axis(value, "alpha", "rad"), expected, rtol=1e-14)


def test_spin_down_varies_fastest_and_alpha_slowest():
    bank = template_bank(
        [1.0, 2.0], [0.1, 0.2, 0.3], f1dot=(-1e-9, 0.0, 0.5e-9), f2dot=[0.0, 1e-18], freq=50.0, reftime=START
    )
    assert bank.alpha.shape == (2 * 3 * 2 * 3,)
    assert bank.fkdot.shape == (36, 3)
    assert bank.reftime == START
    np.testing.assert_allclose(bank.fkdot[:3, 1], [-1e-9, -0.5e-9, 0.0], atol=1e-24)
    np.testing.assert_array_equal(bank.fkdot[:6, 2], [0, 0, 0, 1e-18, 1e-18, 1e-18])
    np.testing.assert_array_equal(bank.delta[:19:6], [0.1, 0.2, 0.3, 0.1])
    np.testing.assert_array_equal(np.asarray(bank.alpha)[[0, 17, 18, 35]], [1, 1, 2, 2])
    assert np.all(bank.fkdot[:, 0] == 50.0)
    assert len({tuple(row) for row in np.column_stack([bank.alpha, bank.delta, bank.fkdot])}) == 36


def test_a_list_of_positions_is_not_multiplied_out():
    sky = SkyCoord([10, 20, 30], [-5, 0, 5], unit="deg")
    bank = template_bank(sky, f1dot=[0.0, -1e-10])
    np.testing.assert_allclose(np.rad2deg(bank.alpha), [10, 10, 20, 20, 30, 30])
    np.testing.assert_allclose(np.rad2deg(bank.delta), [-5, -5, 0, 0, 5, 5], atol=1e-13)
    assert template_bank(SkyCoord(10, 20, unit="deg")).alpha.shape == (1,)


def test_orbits_multiply_out_and_stay_together():
    ranges = {"asini": (1.0, 2.0, 0.5), "period": 2 * u.day, "tp": Time(START, format="gps"), "argp": [0.0, 1.0]}
    bank = template_bank(1.0, 0.5, f1dot=[0.0, 1e-10], orbit=ranges)
    assert bank.orbit is not None
    np.testing.assert_array_equal(bank.orbit.asini, np.repeat([1.0, 1.5, 2.0], 4))
    np.testing.assert_array_equal(bank.orbit.argp, np.tile([0.0, 0.0, 1.0, 1.0], 3))
    np.testing.assert_array_equal(bank.orbit.period, np.full(12, 172800.0))
    np.testing.assert_array_equal(bank.orbit.tp, np.full(12, START))
    np.testing.assert_array_equal(bank.orbit.ecc, np.zeros(12))
    stack = orbits(jfstat.Orbit(np.array([1.0, 2.0]), 3600.0, START))
    assert stack is not None
    np.testing.assert_array_equal(stack.period, [3600.0, 3600.0])


def test_natural_steps_come_from_the_span_of_the_data(data):
    step = natural_step(1, data.tspan)
    assert step == pytest.approx(1 / (2 * 36000**2))
    bank = template_bank(1.0, 0.5, f1dot=(-3.2 * step, 0.0), f2dot=(0.0, 1.0 / 36000**3), data=data)
    assert bank.alpha.shape == (4 * 3,)
    np.testing.assert_allclose(np.diff(bank.fkdot[:4, 1]), step)
    np.testing.assert_allclose(bank.fkdot[::4, 2], natural_step(2, data.tspan) * np.arange(3))
    f = data.frequencies
    assert f[0] <= bank.fkdot[0, 0] <= f[-1]


def test_a_grid_is_ready_for_vmap(data):
    bank = template_bank(1.0, [0.4, 0.5], data=data)
    values = jax.vmap(jfstat.twoF_band, (None, 0))(data, bank)
    assert values.shape == (2, len(data.frequencies))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 1.0}, "delta is missing"),
        ({"alpha": 1.0, "delta": (0.5, 0.1, 0.1)}, "delta must have low <= high"),
        ({"alpha": 1.0, "delta": (0.1, 0.5, 0.0)}, "delta must have a positive step"),
        ({"alpha": 1.0, "delta": (0.1, 0.5)}, "delta has no step"),
        ({"alpha": (1.0, 2.0, 0.1, 5), "delta": 0.0}, r"alpha must be \(low, high, step\)"),
        ({"alpha": [], "delta": 0.0}, "alpha is empty"),
        ({"alpha": [1.0, np.nan], "delta": 0.0}, "alpha must be finite"),
        ({"alpha": "1h", "delta": 0.0}, "alpha must be a number or an array of numbers"),
        ({"alpha": 1.0, "delta": 2.0}, "delta must be within"),
        ({"alpha": 3 * u.m, "delta": 0.0}, "alpha must be convertible to rad"),
        ({"alpha": 1.0, "delta": 0.0, "f1dot": (-1e-9, 0.0)}, "f1dot has no step"),
        ({"alpha": 1.0, "delta": 0.0, "orbit": 3}, "orbit must be a jfstat.Orbit"),
        ({"alpha": 1.0, "delta": 0.0, "orbit": {"asini": 1.0}}, "orbit lacks period, tp"),
        ({"alpha": 1.0, "delta": 0.0, "orbit": {"assini": 1.0}}, "orbit has an unknown field 'assini'"),
        ({"alpha": 1.0, "delta": 0.0, "orbit": {"asini": 1, "period": -1, "tp": 0}}, "period must be positive"),
        ({"alpha": 1.0, "delta": 0.0, "data": "H1.sft"}, "data must be an Observation"),
        ({"alpha": SkyCoord(1, 2, unit="deg"), "delta": 0.0}, "alpha is an astropy SkyCoord and must stand alone"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        template_bank(**arguments)
