"""A bank says which parameters it was asked to vary, even where one template covers a range; positions are checked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units as u
from astropy.coordinates import SkyCoord
from astropy.table import QTable
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat

START = 1167458304
OBSERVED = jfstat.observation(["H1", "L1"], START, 86400, sqrt_sx=4e-24)
LATTICE = dict(data=OBSERVED, mismatch=0.3, freq=(50.0, 50.01))
ORBIT = dict(asini=1.0, period=50000.0, tp=START + 10.0)


def asked(value, width, wide):
    return (value, value + width) if wide else value


@given(*[st.booleans()] * 3, st.integers(0, 9))
@settings(max_examples=10, deadline=None)
def test_ranges_of_a_flat_grid_with_one_template(alpha, delta, f1dot, seed):
    x, y = np.random.default_rng(seed).uniform(0, 1.5, 2)
    step = {True: (0.2,), False: ()}
    ranges = {"alpha": (x, x + 0.1, 0.2) if alpha else x, "delta": (y, y + 0.01, 0.1) if delta else [y]}
    bank = jfstat.template_bank(**ranges, f1dot=(-1e-10, -9e-11, *step[True]) if f1dot else -1e-10)
    assert bank.alpha.shape == (1,)
    names = dict(alpha=alpha, delta=delta, f1dot=f1dot)
    assert bank.varied == tuple(name for name, wide in names.items() if wide)


@pytest.mark.ci
@given(*[st.booleans()] * 2, st.integers(0, 9))
@settings(max_examples=6, deadline=None)
def test_ranges_of_a_lattice_with_one_template(sky, f1dot, seed):
    x, y = np.random.default_rng(seed).uniform(0, 1.5, 2)
    bank = jfstat.template_bank(asked(x, 1e-4, sky), asked(y - 1, 1e-4, sky), asked(-1e-13, 1e-14, f1dot), **LATTICE)
    assert bank.alpha.shape == (1,)
    assert bank.varied == (("alpha", "delta") if sky else ()) + (("f1dot",) if f1dot else ())


def test_regions_and_ages():
    disc = jfstat.template_bank(region=(SkyCoord(1.0, 0.5, unit="rad"), 1e-4 * u.rad), **LATTICE)
    assert disc.alpha.shape == (1,) and disc.varied == ("alpha", "delta")
    old = jfstat.Braking(1e12, (2, 7))
    assert jfstat.template_bank(1.0, 0.5, old, **LATTICE).varied == ("f1dot", "f2dot")


@pytest.mark.parametrize("wide", [("asini",), ("period",), ("tp", "asini")])
def test_ranges_of_orbits(wide):
    ranges = {name: (x, x + 1e-6) if name in wide else x for name, x in ORBIT.items()}
    bank = jfstat.template_bank(1.0, 0.5, orbit=ranges, **LATTICE)
    assert len(bank.alpha) == 1 and set(bank.varied) == set(wide)
    stepped = {name: (x, x + 0.01, 1.0) if name in wide else x for name, x in ORBIT.items()}
    assert set(jfstat.template_bank(1.0, 0.5, orbit=stepped).varied) == set(wide)
    assert jfstat.template_bank(1.0, 0.5, orbit=jfstat.Orbit(**ORBIT)).varied == ()


def test_banks_of_segments_and_of_tables_say_it_too_and_it_is_no_part_of_the_pytree():
    each = [jfstat.observation(["H1"], START + i * 21600, 21600, sqrt_sx=4e-24, reftime=START) for i in range(4)]
    segments = jax.tree.map(lambda *x: jnp.stack(x), *each)
    bank = jfstat.template_bank((1.0, 1.001), (0.5, 0.501), (-1e-9, 0.0), data=segments, mismatch=0.3, freq=(50, 50.1))
    assert bank.varied == ("alpha", "delta", "f1dot")
    plain = jfstat.Doppler(1.0, 0.5, [50.0, 0.0], reftime=bank.reftime.common)
    assert plain.varied is None
    # banks and single templates are joined and compared, and share compiled programs
    assert jax.tree.structure(plain) == jax.tree.structure(bank)
    joined = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), bank, plain)
    assert joined.varied is None and len(joined.alpha) == len(bank.alpha) + 1
    table = QTable({"alpha": [1.0, 1.0], "delta": [0.5, 0.5]}, meta={"parameters": ["freq", "delta"]})
    assert jfstat.bank_from_table(table).varied == ("freq", "delta")
    del table.meta["parameters"]
    assert jfstat.bank_from_table(table).varied is None


@pytest.mark.parametrize("alpha", [10.0, 200.0, -4.0])
def test_no_bank_takes_right_ascensions_in_hours_or_degrees(alpha):
    within = r"alpha must be within \[-pi, 3 pi\]"
    for value in (alpha, [1.0, alpha], (alpha, alpha + 0.1, 0.02)):
        with pytest.raises(ValueError, match=within):
            jfstat.template_bank(value, 0.5)
    for value in (alpha, [1.0, alpha], (alpha, alpha + 0.1)):
        with pytest.raises(ValueError, match=within):
            jfstat.template_bank(value, (0.4, 0.5) if isinstance(value, tuple) else 0.5, **LATTICE)
    with pytest.raises(ValueError, match=within):
        jfstat.Population(alpha=(1.0, alpha) if alpha > 1 else (alpha, 1.0))
    with pytest.raises(ValueError, match=rf"alpha = {alpha} in row 2, counted from 0.*\[-pi, 3 pi\]"):
        jfstat.bank_from_table(QTable({"alpha": [1.0, 2.0, alpha], "delta": [0.5, 0.5, 0.5]}))


def test_no_lattice_takes_declinations_beyond_a_pole():
    with pytest.raises(ValueError, match=r"^delta must be within \[-pi/2, pi/2\], not 2.0"):
        jfstat.template_bank(1.0, 2.0, **LATTICE)
