"""Templates as users write them and as JAX sees them."""

import astropy.units as u
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.coordinates import Angle, SkyCoord
from astropy.time import Time

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
