"""Count means over segments in a histogram on a CPU, by bit fields of words instead of counters.

With counters, one would be looked up for each value. Here all values of a template are counted at once: each frequency
has a word with a field for each bin of the histogram, and a template adds 1 to one field.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.engines.reduction import BINS
from jfstat.engines.sums import places

FIELDS, FIELD_BITS = 15, 4
"""Number of fields of a word of 64 bits, and bits of each. The last field counts all values beyond the others, of which
there are hardly any in noise.
"""
MOST_WORDS = 8
"""Largest number of templates whose words are added up: less than 16, so that no field overflows."""
EVEN = sum(((1 << FIELD_BITS) - 1) << (2 * FIELD_BITS * i) for i in range((FIELDS + 1) // 2))
"""Mask of every other field of a word."""


def words(means: jax.Array, n_segments: int) -> jax.Array:
    """Return the words of one template's means, (n,) int64: 1 in the field of each mean, and 0 where a mean is -inf."""
    shift = places(means, n_segments, FIELDS) * FIELD_BITS
    word = jax.lax.shift_left(jnp.ones((), jnp.int64), shift.astype(jnp.int64))
    return jnp.where(means > -jnp.inf, word, 0)


class WideFields(NamedTuple):
    """Sums of the words of less than 256 templates, in fields twice as wide: the even and the odd ones, (n,) int64."""

    even: jax.Array
    odd: jax.Array

    @classmethod
    def empty(cls, n: int) -> WideFields:
        """Return fields without any values yet, at n frequencies."""
        return cls(jnp.zeros(n, jnp.int64), jnp.zeros(n, jnp.int64))

    def plus(self, words: jax.Array) -> WideFields:
        """Return the fields with the words of up to `MOST_WORDS` templates added."""
        return WideFields(self.even + (words & EVEN), self.odd + ((words >> FIELD_BITS) & EVEN))

    def counts(self) -> jax.Array:
        """Return the numbers of values in the bins before the last field's, (FIELDS - 1,) int64."""
        width = 2 * FIELD_BITS
        fields = [self[i % 2] >> (i // 2 * width) & ((1 << width) - 1) for i in range(FIELDS - 1)]
        return jnp.stack([jnp.sum(field) for field in fields])


def beyond(means: jax.Array, n_segments: int) -> jax.Array:
    """Return the numbers of means in the bins from the last field's on, one by one, (BINS - FIELDS + 1,) int64."""
    place = jnp.where(means > -jnp.inf, places(means, n_segments), -1)
    high = jnp.arange(FIELDS - 1, BINS, dtype=jnp.int32)
    return jnp.sum(place[None] == high[:, None], axis=1, dtype=jnp.int64)


def any_beyond(largest: jax.Array, n_segments: int) -> jax.Array:
    """Return whether some means, of which these are the largest, have any value for `beyond`."""
    return places(jnp.max(largest), n_segments) >= FIELDS - 1
