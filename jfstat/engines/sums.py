"""Add up segments' values in an interpolating search, and reduce their means."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.engines.coherentbands import TOGETHER
from jfstat.engines.reduction import BINS, WIDTH, spread_means
from jfstat.maths.arrays import with_axes


class Sums(NamedTuple):
    """Maxima and histogram of all means over segments.

    Attributes
    ----------
    tops : (C, G, piece) float32
        Maxima over the templates of each group; -inf where none counts.
    peaks : (C, piece) float32
        Maxima over all templates.
    histogram : (BINS,) int64
        Histogram in the scale of `segments.spread_means`.
    """

    tops: jax.Array
    peaks: jax.Array
    histogram: jax.Array


def added(parts: list[jax.Array]) -> jax.Array:
    """Add up segments' values: `TOGETHER` neighbours first, then their sums, each in their order.

    All engines add in this order, so that their values, and maxima and values of one engine, agree to the bit.
    """
    sums = [reduce(add, parts[i : i + TOGETHER]) for i in range(0, len(parts), TOGETHER)]
    return reduce(add, sums)


def counted_means(means: jax.Array, number: jax.Array, bins: jax.Array) -> jax.Array:
    """Return the means, -inf where bins do not count; `bins` are the first and the last bin that do."""
    own = with_axes(number, bins.ndim - 1)
    return jnp.where((own >= bins[0]) & (own <= bins[1]), means, -jnp.inf)


def places(means: jax.Array, n_segments: int, bins: int = BINS) -> jax.Array:
    """Return the bins of means in the histogram, of which the last of `bins` has no upper end."""
    spread = spread_means(means, n_segments)
    return jnp.clip(spread * np.float32(1 / WIDTH), 0, bins - 1).astype(jnp.int32)
