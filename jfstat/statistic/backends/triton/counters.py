"""A histogram's counters in few registers of a thread."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.statistic.backends.reduction import BINS, WIDTH

HALVES = 2 * -(-BINS // 8)
"""Halves of the 64-bit numbers that contain eight counters of eight bits: a thread has far fewer than 256 values."""
SUMS = 2 * HALVES
PAIRS = np.int32(0x00FF00FF)


class Counters:
    """A thread's counters, eight to an int64, which is twice as fast as four to an int32.

    Parameters
    ----------
    shape : tuple of int
        Of the values.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._words: list[Any] = [jnp.zeros(shape, jnp.int64)] * (HALVES // 2)

    def add(self, value: jax.Array, counts: jax.Array) -> None:
        """Count values, which are at least 0, where `counts` is true."""
        place = jnp.minimum(value * np.float32(1 / WIDTH), np.float32(BINS - 1)).astype(jnp.int32)
        one = counts.astype(jnp.int64) << ((place & 7) << 3).astype(jnp.int64)
        word = place >> 3
        self._words = [total + jnp.where(word == w, one, np.int64(0)) for w, total in enumerate(self._words)]

    def sums(self) -> list[jax.Array]:
        """Sums over threads, two of sixteen bits in an int32: the first and third, the second and fourth, and so on."""
        halves = [half.astype(jnp.int32) for w in self._words for half in (w, w >> 32)]
        return [jnp.sum(pairs, dtype=jnp.int32) for half in halves for pairs in (half & PAIRS, (half >> 8) & PAIRS)]


def unpacked(sums: jax.Array) -> jax.Array:
    """The histogram of many programs' `Counters.sums`, (BINS,) int32 from (programs, SUMS) int32."""
    totals = [jnp.sum(x, axis=0, dtype=jnp.int32).reshape(HALVES, 2) for x in (sums & 0xFFFF, sums >> 16)]
    return jnp.stack(totals, axis=1).reshape(-1)[:BINS]
