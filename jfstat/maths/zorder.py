"""Sorting of points in Z-order (Morton 1966), which keeps most neighbours in space close to each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp

BITS = 63
"""Number of bits of a point's Z-order number."""


@jax.jit
def z_order(points: jax.Array, cell: float) -> jax.Array:
    """Return the order of points along a Z-order curve, which keeps most neighbours in space close to each other.

    Points are sorted by the number of their cubic cell. A cell's number interleaves the bits of its coordinates, so
    that the cells of a cube of 2, 4, 8, ... cells a side follow one another. Points of one cell keep their order.
    Points on either side of a large cube's face may be far apart in the order.

    Parameters
    ----------
    points : (k, n) float64
        k coordinates of n > 0 points.
    cell : float
        Width of a cell; doubled until the cells' numbers fit into `BITS` bits.

    Returns
    -------
    (n,) int32
    """
    k, n = points.shape
    bits = BITS // k
    cells = jnp.floor((points - jnp.min(points, axis=1, keepdims=True)) / cell).astype(jnp.int64)
    cells >>= jnp.maximum(64 - bits - jax.lax.clz(jnp.max(cells)), 0)
    number = jnp.zeros(n, jnp.int64)
    for bit in range(bits):
        for i in range(k):
            number |= ((cells[i] >> bit) & 1) << (bit * k + i)
    return jax.lax.sort((number, jnp.arange(n, dtype=jnp.int32)), num_keys=1, is_stable=True)[1]
