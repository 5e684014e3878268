"""Hold 2F of segments' own templates at all frequencies, and where a bank's templates find their values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.maths.arrays import with_axes

GROUP = 32
"""Number of templates that are summed together, and whose maximum at each frequency is taken first."""
TOGETHER = 3
"""Number of neighbouring segments that are added first, see `added`; on some engines templates share these sums."""
LEAST_PIECE = 64
"""Least number of bins of a piece of the band; all have this number times a power of two."""
HALF_PIECE, BITS = LEAST_PIECE // 2, 28
"""Units of the shifts; see `Lookup`."""
PAIR_BYTES = 16
"""Bytes of a `Lookup` for a template and a segment."""
STATIC = dict(static=True)


class Lookup(NamedTuple):
    """Places where B templates find the values of K segments, in whole numbers so that all programs round alike.

    Attributes
    ----------
    rows : (B, K) int32
        Rows of `CoherentBands.values`.
    base : (B, K) int64
        Excess of a segment's template over the sum in frequency, at the start of the band, in units of 2^-BITS bins.
    step : (B, K) int32
        Growth of the excess in `base` over `HALF_PIECE` bins, in units of 2^-BITS bins.
    """

    rows: Any
    base: Any
    step: Any

    @classmethod
    def empty(cls, n: int, n_segments: int) -> Lookup:
        """Return empty NumPy arrays for n templates, which are filled segment by segment."""
        return cls(*(np.empty((n_segments, n), kind).T for kind in (np.int32, np.int64, np.int32)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class CoherentBands:
    """2F of the segments' templates near a part of a bank, at all frequencies of the band.

    Attributes
    ----------
    values : (R, padding + C piece + padding) float32
        All templates of the first segment, then of the second, ...; -inf outside the band.
    layout : Layout
        Layout of the data.
    padding : int
        At least the largest shift.
    piece : int
        Bins of a piece of the band, `LEAST_PIECE` times a power of two: each has whole-bin shifts of its own.
    """

    values: jax.Array
    layout: Layout
    padding: int = field(metadata=STATIC)
    piece: int = field(metadata=STATIC)

    @property
    def n_pieces(self) -> int:
        """Number of pieces, C."""
        return -(-self.layout.n_frequencies // self.piece)

    def shifts(self, lookup: Lookup) -> jax.Array:
        """Return the bins by which segments' templates exceed the sum's frequency in each piece, (..., K, C) int32."""
        middle = (2 * jnp.arange(self.n_pieces, dtype=jnp.int64) + 1) * (self.piece // LEAST_PIECE)  # in half pieces
        step = lookup.step[..., None].astype(jnp.int64)
        shift = lookup.base[..., None] + step * with_axes(middle, step.ndim)
        return ((shift + (1 << (BITS - 1))) >> BITS).astype(jnp.int32)

    def counted_bins(self, lookup: Lookup, n_valid: jax.Array | int, first_bin: jax.Array | int) -> jax.Array:
        """Return the first and last bin that count for each template, (2, B) int32, see `bins.counted_bins`."""
        index = jnp.arange(lookup.rows.shape[0])
        last = jnp.where(index < jnp.asarray(n_valid, jnp.int64), self.layout.n_frequencies - 1, -1).astype(jnp.int32)
        return jnp.stack([jnp.broadcast_to(jnp.asarray(first_bin, jnp.int32), last.shape), last])


class Groups(NamedTuple):
    """Templates in groups of equal size, the last of which is filled up with templates none of whose bins count.

    Attributes
    ----------
    rows : (G, size, K) int32
    shifts : (G, size, K, C) int32
        See `CoherentBands.shifts`.
    bins : (G, size, 2) int32
        First and last bin that count.
    """

    rows: jax.Array
    shifts: jax.Array
    bins: jax.Array

    def filled(self, axis: int, multiple: int) -> Groups:
        """Return groups whose number, or size, is a multiple; the padding repeats other templates and never counts."""

        def padded(x: jax.Array, **mode: Any) -> jax.Array:
            more = [(0, 0)] * x.ndim
            more[axis] = (0, -x.shape[axis] % multiple)
            return jnp.pad(x, more, **mode)

        ends = padded(self.bins, constant_values=-1)
        return Groups(padded(self.rows, mode="edge"), padded(self.shifts, mode="edge"), ends)


def grouped(rows: jax.Array, shifts: jax.Array, bins: jax.Array, size: int) -> Groups:
    """Return templates' rows, (B, K), shifts, (B, K, C), and bins that count, (2, B), in groups."""
    more = -rows.shape[0] % size

    def divided(x: jax.Array, value: int = 0) -> jax.Array:
        x = jnp.pad(x, ((0, more), *[(0, 0)] * (x.ndim - 1)), constant_values=value)
        return x.reshape(-1, size, *x.shape[1:])

    return Groups(divided(rows), divided(shifts), divided(bins.T, -1))
