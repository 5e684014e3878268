"""From when there are data to times and weights for means over them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData


def quadrature(data: FstatData, n_nodes: int, every: int = 1) -> tuple[jax.Array, jax.Array]:
    """Times over the data's real spans, s since the epoch, and their noise weights: (D, n) float64 each.

    Gauss and Legendre's rule with `n_nodes` times in an SFT, or in every second, third, ... one.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(n_nodes)
    time = data.coverage.start[:, ::every, None] + 0.5 * data.coverage.tsft * (1 + jnp.asarray(nodes))
    weight = data.coverage.weight[:, ::every, None] * jnp.asarray(0.5 * node_weights)
    shape = (time.shape[0], -1)
    return time.reshape(shape), weight.reshape(shape)
