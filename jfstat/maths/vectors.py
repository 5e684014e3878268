"""Unit vectors of sky positions, for NumPy and JAX arrays alike, and sums of products with vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import jax
import jax.numpy as jnp
import numpy as np


@overload
def unit_vector(alpha: jax.Array, delta: jax.Array) -> jax.Array: ...
@overload
def unit_vector(alpha: np.ndarray | float, delta: np.ndarray | float) -> np.ndarray: ...
def unit_vector(alpha: jax.Array | np.ndarray | float, delta: jax.Array | np.ndarray | float) -> jax.Array | np.ndarray:
    """Return the unit vector to a sky position.

    Parameters
    ----------
    alpha, delta : (...) float64
        Right ascension and declination, rad; broadcast against each other.

    Returns
    -------
    (..., 3) float64
        Components on equatorial axes. A JAX array if `alpha` or `delta` is one, else a NumPy array.
    """
    xp = _namespace(alpha, delta)
    alpha, delta = xp.broadcast_arrays(alpha, delta)
    return xp.stack([xp.cos(delta) * xp.cos(alpha), xp.cos(delta) * xp.sin(alpha), xp.sin(delta)], axis=-1)


@overload
def angles(n: jax.Array) -> tuple[jax.Array, jax.Array]: ...
@overload
def angles(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
def angles(n: jax.Array | np.ndarray) -> tuple[jax.Array | np.ndarray, jax.Array | np.ndarray]:
    """Return right ascension in [0, 2 pi) and declination of vectors, rad: the inverse of `unit_vector`.

    Parameters
    ----------
    n : (..., 3) float64
        Vectors of any length except 0.

    Returns
    -------
    alpha, delta : (...) float64
    """
    xp = _namespace(n)
    x, y, z = n[..., 0], n[..., 1], n[..., 2]
    return xp.arctan2(y, x) % (2 * np.pi), xp.arctan2(z, xp.hypot(x, y))


def tangents(n: np.ndarray) -> np.ndarray:
    """Return two orthonormal vectors, (2, 3) float64, perpendicular to a unit vector, (3,) float64."""
    first = np.cross([0.0, 0.0, 1.0] if abs(n[2]) < 0.9 else [1.0, 0.0, 0.0], n)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(n, first)])


def along(vector: jax.Array, components: jax.Array | Sequence[jax.Array]) -> jax.Array:
    """Return the sum of products with a vector, (n,), of components, n of (...): elementwise terms, which XLA fuses."""
    return sum(x * own for x, own in zip(vector, components, strict=True))  # type: ignore[return-value]


def _namespace(*arrays: jax.Array | np.ndarray | float):
    """Return `jax.numpy` if one of the arrays is a JAX array, else `numpy`."""
    return jnp if any(isinstance(x, jax.Array) for x in arrays) else np
