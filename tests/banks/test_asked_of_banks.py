"""Banks remember what was asked of them, and say where they reach beyond it."""

import re

import astropy.units as u
import numpy as np
import pytest

import jfstat

START = 1_167_458_304


@pytest.fixture(scope="module")
def seen():
    return jfstat.observation(["H1", "L1"], START, 2 * 86400, sqrt_sx=4e-24)


def lattice(seen, **options):
    given = dict(alpha=(1.0, 1.2), delta=(0.3, 0.5), f1dot=(-3e-9, 0.0)) | options
    return jfstat.template_bank(**given, data=seen, freq=100.0, mismatch=0.1)


def shown(bank, name):
    return re.search(rf"^  {name} +(.*)$", repr(bank), re.M)[1]


def test_a_lattice_says_how_far_it_reaches(seen):
    bank = lattice(seen)
    assert bank.asked == {"alpha": (1.0, 1.2), "delta": (0.3, 0.5), "f1dot": (-3e-9, 0.0)}
    f1dot = np.asarray(bank.fkdot[:, 1])
    assert f1dot.min() < -3e-9 and f1dot.max() > 0  # otherwise there is nothing to say
    assert shown(bank, "f1dot") == f"{f1dot.min():.12g} to {f1dot.max():.12g} Hz/s, asked for -3e-09 to 0 Hz/s"
    assert "asked for" in shown(bank, "alpha") and "asked for" not in shown(bank, "freq")
    inside = bank[(f1dot >= -3e-9) & (f1dot <= 0)]
    assert "asked for" not in shown(inside, "f1dot") and inside.asked == bank.asked and bank[0].asked is None


def test_strict_lattices_and_products_stay_inside(seen):
    assert "asked for" not in shown(lattice(seen, strict=True), "f1dot")
    product = jfstat.template_bank((10 * u.deg, 20 * u.deg, 1 * u.deg), 0.47, f1dot=(-1e-9, 0.0, 1e-10))
    assert "asked for" not in repr(product)
    assert product.asked["f1dot"] == (-1e-9, 0.0)
    np.testing.assert_allclose(product.asked["alpha"], np.radians([10, 20]), rtol=1e-15)
    assert jfstat.template_bank(1.0, 0.47).asked == {}


def test_ranges_through_zero_are_compared_in_turns(seen):
    bank = lattice(seen, alpha=(2 * np.pi - 0.1, 0.1), f1dot=0.0)
    low, high = bank.asked["alpha"]
    assert high - low == pytest.approx(0.2)
    alpha = np.asarray(bank.alpha)
    middle = alpha[np.abs((alpha + np.pi) % (2 * np.pi) - np.pi) < 0.1]
    assert len(middle) and "asked for" not in shown(bank[np.isin(alpha, middle)], "alpha")


def test_banks_of_orbits(seen):
    orbit = dict(asini=(1.0, 1.01), period=(40000.0, 40001.0), tp=START, ecc=0.0, argp=0.0)
    bank = jfstat.template_bank(1.0, 0.3, orbit=orbit, data=seen, freq=100.0, mismatch=0.3)
    assert bank.asked == {"asini": (1.0, 1.01), "period": (40000.0, 40001.0)}
    assert shown(bank, "asini")


def test_a_plan_says_it_too():
    sfts = jfstat.simulate_sfts(["H1"], START, 86400, 99.6, 100.4, sqrt_sx=4e-24, seed=1)
    data = jfstat.prepare(sfts, 100.0, 100.001, guard=0.2, sqrt_sx=4e-24, fdots=[(-5e-9, 1e-9)])
    bank = jfstat.template_bank((1.0, 1.2), (0.3, 0.5), f1dot=(-3e-9, 0.0), data=data, mismatch=0.3)
    text = repr(jfstat.plan_search(data, bank, progress=False))
    assert "bank    reaches beyond the ranges asked for in" in text and "f1dot" in text
    assert "bank " not in repr(jfstat.plan_search(data, bank[0], progress=False))
