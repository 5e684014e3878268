"""Tail of a weighted sum of exponentially distributed numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

HALVINGS = 64
"""Number of times that the interval of the saddlepoint is halved."""
FURTHEST = 40.0
"""Largest distance of the saddlepoint from zero, in the logarithm of its distance from the pole."""
CENTRAL = 1e-3
"""Deviation from the mean, in about standard deviations, below which the general formula would lose digits."""


def exponentials_tail(weight: jax.Array, total: jax.Array) -> jax.Array:
    """Return the probability that a weighted sum of independent exponential numbers of mean 1 is at least `total`.

    It is the saddlepoint approximation of Lugannani & Rice (1980, Adv. Appl. Prob. 12, 475), whose relative error is
    below 1 % for a hundred weights, however far out in the tail.

    Parameters
    ----------
    weight : (n,) float64
        Not negative; zeros add nothing.
    total : () float64
        Positive.
    """
    scaled = weight / jnp.max(weight)
    wanted = total / jnp.max(weight)

    def saddlepoint(y: jax.Array) -> jax.Array:  # the sum's moments exist below 1
        return -jnp.expm1(-y)

    def halved(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = jnp.sum(scaled / (1 - saddlepoint(middle) * scaled)) < wanted  # which grows with the saddlepoint
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    ends = jnp.full((), -FURTHEST), jnp.full((), FURTHEST)
    t = saddlepoint(jax.lax.fori_loop(0, HALVINGS, halved, ends)[0])
    each = scaled / (1 - t * scaled)
    variance, third = jnp.sum(each * each), 2 * jnp.sum(each**3)
    entropy = t * wanted + jnp.sum(jnp.log1p(-t * scaled))
    far = jnp.sqrt(2 * jnp.maximum(entropy, 0.0))
    central = jnp.abs(far) < CENTRAL
    w = jnp.where(central, 1.0, jnp.sign(t) * far)
    u = jnp.where(central, 1.0, t * jnp.sqrt(variance))
    tail = norm.sf(w) + norm.pdf(w) * (1 / u - 1 / w)
    near = norm.sf((wanted - jnp.sum(scaled)) / jnp.sqrt(variance)) - third / (
        6 * np.sqrt(2 * np.pi) * variance * jnp.sqrt(variance)
    )
    return jnp.where(central, near, tail)
