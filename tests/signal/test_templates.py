"""Templates as users write them and as JAX sees them."""

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.coordinates import Angle, SkyCoord
from astropy.time import Time
from astropy.utils.masked import Masked
from hypothesis import given, settings
from hypothesis import strategies as st

import jfstat


def test_every_spelling_of_a_template_is_the_same_pytree():
    plain = jfstat.Doppler(alpha=1.0, delta=0.5, fkdot=[100.0, -1e-9], reftime=1_000_000_000)
    time = Time(1_000_000_000, format="gps")
    spellings = [
        jfstat.Doppler(np.float32(1.0), jnp.float64(0.5), np.array([100.0, -1e-9]), 1_000_000_000.0),
        jfstat.Doppler(1.0 * u.rad, Angle(0.5, "rad"), [0.1 * u.kHz, -1e-9 * u.Hz / u.s], time),
        jfstat.Doppler(SkyCoord(1.0, 0.5, unit="rad"), fkdot=(100, -1e-9), reftime=np.int64(1_000_000_000)),
        jfstat.Doppler(sky=SkyCoord(1.0, 0.5, unit="rad"), fkdot=[100, -1e-9], reftime=1_000_000_000),
    ]
    for other in spellings:
        assert jax.tree.structure(other) == jax.tree.structure(plain)
        for x, y in zip(jax.tree.leaves(other), jax.tree.leaves(plain), strict=True):
            assert x.dtype == y.dtype == jnp.float64
            assert x.weak_type == y.weak_type
            np.testing.assert_allclose(x, y, rtol=1e-14)


def test_orbit_takes_quantities_and_times():
    orbit = jfstat.Orbit(
        (1.0 * u.lightyear / (365.25 * 86400)), 1 * u.day, Time(1_000_000_000.5, format="gps"), 0.1, 90 * u.deg
    )
    np.testing.assert_allclose(
        [orbit.asini, orbit.period, orbit.tp, orbit.argp], [1, 86400, 1_000_000_000.5, np.pi / 2]
    )
    np.testing.assert_allclose(jfstat.Orbit(2 * u.s, 1e5, 0).asini, 2.0)


def test_pytrees_survive_transformations_and_placeholders():
    point = jfstat.Doppler(1.0, 0.5, [100.0], orbit=jfstat.Orbit(1.0, 1e5, 1e9))
    assert jax.tree.map(lambda x: None, point).alpha is None
    axes = jax.tree.map(lambda x: 0, point)
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), point)
    assert jax.vmap(lambda p: p.orbit.asini + p.alpha, in_axes=(axes,))(stack).shape == (2,)
    assert jax.eval_shape(lambda p: p, point).delta.shape == ()


@pytest.mark.parametrize("seed", range(3))
def test_canonical_amplitudes_give_the_strain(seed):
    """A^mu against the strain written with plus and cross polarisations."""
    rng = np.random.default_rng(seed)
    h0, cosi, psi, phi0, phase, a, b = rng.uniform(-1, 1, 7) + np.array([2, 0, 0, 0, 0, 0, 0])
    a1, a2, a3, a4 = np.asarray(jfstat.Amplitude(h0, cosi, psi, phi0).canonical)
    plus = a * np.cos(2 * psi) + b * np.sin(2 * psi)
    cross = b * np.cos(2 * psi) - a * np.sin(2 * psi)
    strain = plus * 0.5 * h0 * (1 + cosi**2) * np.cos(phase + phi0) + cross * h0 * cosi * np.sin(phase + phi0)
    cos, sin = np.cos(phase), np.sin(phase)
    np.testing.assert_allclose(a1 * a * cos + a2 * b * cos + a3 * a * sin + a4 * b * sin, strain, rtol=1e-12)


def test_units_of_a_single_quantity_and_of_numbers_without():
    np.testing.assert_allclose(jfstat.Doppler(1.0, 0.5, [0.1] * u.kHz).fkdot, [100.0])
    np.testing.assert_allclose(jfstat.Orbit(1.0, 1e5, 0.0, ecc=50 * u.percent).ecc, 0.5)
    for wrong in ([100.0] * u.day, [100.0, 1e-9] * u.Hz):
        with pytest.raises(ValueError, match="fkdot"):
            jfstat.Doppler(1.0, 0.5, wrong)


def test_fields_of_stacks_are_broadcast_so_that_vmap_takes_them():
    orbits = jfstat.Orbit(jnp.array([1.0, 2.0]), 1e5, 1e9)
    assert orbits.ecc.shape == orbits.tp.shape == (2,)
    stack = jfstat.Doppler(1.0, jnp.array([0.1, 0.2]), [100.0, -1e-9], orbit=jfstat.Orbit(1.0, 1e5, 1e9))
    assert stack.alpha.shape == stack.orbit.asini.shape == (2,)
    assert stack.fkdot.shape == (2, 2)
    assert jax.vmap(lambda p: p.orbit.asini * p.fkdot[0])(stack).shape == (2,)
    with pytest.raises(ValueError, match="do not fit"):
        jfstat.Doppler([1.0, 2.0], [0.1, 0.2, 0.3], [100.0])


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_nested_lists_mean_what_an_array_of_the_same_numbers_means(data):
    """Also where there are as many templates as derivatives, where rows for columns would pass unseen."""
    n, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    fkdot, motion = rng.uniform(1, 2, (n, k)), rng.normal(size=(n, 2))
    plain = jfstat.Doppler(np.ones(n), 0.5, fkdot, motion=motion)
    units = [u.Hz / u.s**i for i in range(k)]
    spellings = [fkdot.tolist(), tuple(map(tuple, fkdot)), [[jnp.float64(x) for x in row] for row in fkdot]]
    spellings += [[[x * unit for x, unit in zip(row, units, strict=True)] for row in fkdot]]
    for value in spellings:
        own = jfstat.Doppler(np.ones(n), 0.5, value, motion=data.draw(st.sampled_from([motion, motion.tolist()])))
        np.testing.assert_array_equal(own.fkdot, plain.fkdot)
        np.testing.assert_array_equal(own.motion, plain.motion)
    cube = rng.uniform(1, 2, (2, n, k))
    np.testing.assert_array_equal(jfstat.Doppler(np.ones((2, n)), 0.5, cube.tolist()).fkdot, cube)


@pytest.mark.parametrize("seed", range(3))
def test_lists_of_arrays_are_refused_unless_something_tells_rows_from_columns(seed):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 5, 2)
    rows = rng.uniform(1, 2, (n, k))
    for value in ([*rows], [*map(jnp.asarray, rows)], [rows[0], rows[-1].tolist()]):
        with pytest.raises(ValueError, match=r"^fkdot must not be a list of arrays.*np.stack"):
            jfstat.Doppler(1.0, 0.5, value)
    with pytest.raises(ValueError, match=r"^motion must not be a list of arrays"):
        jfstat.Doppler(1.0, 0.5, [100.0], motion=(rows[:, 0], rows[:, 0]))
    f, f1dot = rng.uniform(50, 60, n), rng.normal(size=n)
    for value in ([f[0], f1dot], [f[0], f1dot.tolist()], [f[0] * u.Hz, f1dot * u.Hz / u.s]):
        own = jfstat.Doppler(np.ones(n), 0.5, value)
        np.testing.assert_array_equal(own.fkdot, np.stack([np.full(n, f[0]), f1dot], axis=-1))
    own = jfstat.Doppler(np.ones(n), 0.5, [f * u.Hz, f1dot * u.Hz / u.s])
    np.testing.assert_array_equal(own.fkdot, np.stack([f, f1dot], axis=-1))


@pytest.mark.parametrize("value", [[[100.0, 0.0], [100.0]], [[], []], [[100.0], "f"], [[100.0 * u.Hz], [1 * u.Hz, 0]]])
def test_uneven_lists_are_refused_in_a_sentence(value):
    with pytest.raises(ValueError, match=r"^fkdot.*(: .*|array of numbers, not .*)\.$"):
        jfstat.Doppler([1.0, 2.0], 0.5, value)


@pytest.mark.parametrize("alpha", [10.0, 12.5, 23.9, 83.6, 359.0, -3.2, -90.0])
def test_right_ascensions_in_hours_or_degrees_are_refused(alpha):
    for value in (alpha, np.array([1.0, alpha]), [[1.0], [alpha]]):
        with pytest.raises(ValueError, match=r"^alpha must be within \[-pi, 3 pi\], not .*hours or degrees"):
            jfstat.Doppler(value, 0.5, [100.0])
    assert float(jfstat.Doppler(alpha * u.deg % (360 * u.deg), 0.5, [100.0]).alpha) < 2 * np.pi


def test_right_ascensions_within_half_a_turn_of_the_first_are_taken():
    given = np.random.default_rng(0).uniform(-np.pi, 3 * np.pi, 100)
    given[:2] = -np.pi, 3 * np.pi
    np.testing.assert_array_equal(jfstat.Doppler(given, 0.5, [100.0]).alpha, given)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("freq", "fkdot="), ("f0", "fkdot="), ("F1", "fkdot="), ("f1dot", "fkdot="), ("ra", "alpha="),
        ("dec", "delta="), ("asini", "orbit="), ("refTime", "reftime="), ("h0", "Amplitude"), ("pmra", "motion="),
        ("colour", "takes alpha, delta (or sky), fkdot, reftime, orbit, motion and model"),
    ],
)  # fmt: skip
def test_an_argument_of_another_name_is_told_its_place(name, place):
    with pytest.raises(TypeError) as error:
        jfstat.Doppler(2.1, 0.4, [100.0], **{name: 1.0})
    text = str(error.value)
    assert text.startswith(f"a Doppler has no argument {name!r}: it ") and place in text and "\n" not in text


def test_indices_and_stacks_in_traces():
    """A traced index takes from stacks of NumPy's arrays too; parts of known stacks stay known."""
    stack = jfstat.Doppler([0.1, 0.2], 0.3, [[50.0], [51.0]], 1_100_000_000)
    host = jax.tree.map(np.asarray, stack)
    total = jax.lax.fori_loop(0, 2, lambda i, s: s + host[i].fkdot[0], 0.0)
    assert float(total) == 101.0

    def known(x):
        return x + float(stack[1].alpha)

    assert float(jax.jit(known)(1.0)) == 1.2


def test_masked_values_are_refused():
    half = np.ma.masked_array([1.0, 2.0], [False, True])
    for use in (
        lambda: jfstat.Doppler(half, 0.2, [100.0]),
        lambda: jfstat.Doppler(1.0, 0.2, half),
        lambda: jfstat.Doppler(np.ma.masked_array(1.0, True), 0.2, [100.0]),
        lambda: jfstat.Doppler(Masked(u.Quantity([1.0, 2.0], "rad"), mask=[False, True]), 0.2, [100.0]),
        lambda: jfstat.simulate_sfts("H1", timestamps=half, fmin=50, fmax=51),
    ):
        with pytest.raises(ValueError, match="has masked values, of which nothing is known: leave them out"):
            use()
    assert jfstat.Doppler(np.ma.masked_array([1.0, 2.0]), 0.2, [100.0]).alpha.shape == (2,)
