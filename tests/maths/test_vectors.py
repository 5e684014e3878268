"""Unit vectors on the sky: the same for NumPy and JAX arrays, and their inverse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfstat.maths.vectors import angles, tangents, unit_vector

ALPHA = np.linspace(0, 6.28, 50)
DELTA = np.linspace(-1.57, 1.57, 50)


def test_angles_invert_unit_vectors():
    n = unit_vector(ALPHA, DELTA)
    assert isinstance(n, np.ndarray) and n.shape == (50, 3)
    np.testing.assert_allclose(np.linalg.norm(n, axis=-1), 1, rtol=1e-15)
    np.testing.assert_allclose(angles(2 * n), (ALPHA, DELTA), rtol=1e-12)
    np.testing.assert_allclose(unit_vector(0.0, [0.0, np.pi / 2]), [[1, 0, 0], [0, 0, 1]], atol=1e-15)


def test_jax_arrays_give_the_same_and_trace():
    n = jax.jit(unit_vector)(jnp.asarray(ALPHA), jnp.asarray(DELTA))
    assert isinstance(n, jax.Array)
    np.testing.assert_allclose(n, unit_vector(ALPHA, DELTA), rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(jax.jit(angles)(n), (ALPHA, DELTA), rtol=1e-12)
    assert unit_vector(1.0, jnp.zeros(4)).shape == (4, 3)
    slope = jax.jacfwd(lambda x: unit_vector(x[0], x[1]))(jnp.array([0.3, 0.4]))
    np.testing.assert_allclose(slope.T @ slope, np.diag([np.cos(0.4) ** 2, 1.0]), atol=1e-15)


@pytest.mark.parametrize("delta", [-np.pi / 2, 0.0, 1.2])
def test_tangents_are_orthonormal(delta):
    n = unit_vector(1.0, delta)
    basis = np.stack([n, *tangents(n)])
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-15)
