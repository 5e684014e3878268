"""The mean over segments of 2F read from the nearest templates of their own lattices: the interpolating search's sum.

As in LALSuite's Weave (Wette et al. 2018, Phys. Rev. D 97, 123016), the segments' values are computed once for all
frequencies, and summed for each template of the semi-coherent bank at frequencies that are shifted by whole bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.memory import Device
from jfstat.statistic.backends.backend import Loudest
from jfstat.statistic.backends.reduction import (
    BINS,
    WIDTH,
    largest,
    largest_of_rows,
    largest_of_sections_in_order,
)
from jfstat.statistic.backends.segments import spread_means

GROUP = 32
"""Templates that are summed together, and whose maximum at each frequency is taken first."""
TOGETHER = 3
"""Neighbouring segments that are added first, see `added`; templates share these sums on some backends."""
PLACES = 32
"""Places in a CPU's histogram, a power of two above `BINS`; the last is for values that do not count."""
LEAST_PIECE = 64
"""Least number of bins of a piece of the band; all have this number times a power of two."""
HALF_PIECE, BITS = LEAST_PIECE // 2, 28
"""Units of the shifts; see `Lookup`."""
PAIR_BYTES = 16
"""Of a `Lookup`, for a template and a segment."""
STATIC = dict(static=True)


class Lookup(NamedTuple):
    """Where B templates find the values of K segments, by whole numbers: all programs of a search then round alike.

    Attributes
    ----------
    rows : (B, K) int32
        Rows of `CoherentBands.values`.
    base : (B, K) int64
        By how much the frequency of a segment's template exceeds that of the sum at the start of the band, in units of
        2^-BITS bins.
    step : (B, K) int32
        By how much this grows over `HALF_PIECE` bins, in the same units.
    """

    rows: Any
    base: Any
    step: Any

    @classmethod
    def empty(cls, n: int, n_segments: int) -> Lookup:
        """For n templates, NumPy arrays without values yet, which are filled segment by segment."""
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
        Of the data.
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
        """Number of bins by which segments' templates exceed the sum's frequency in each piece, (..., K, C) int32."""
        middle = (2 * jnp.arange(self.n_pieces, dtype=jnp.int64) + 1) * (self.piece // LEAST_PIECE)  # in half pieces
        shift = lookup.base[..., None] + lookup.step[..., None].astype(jnp.int64) * middle
        return ((shift + (1 << (BITS - 1))) >> BITS).astype(jnp.int32)

    def counted_bins(self, lookup: Lookup, n_valid: jax.Array | int, first_bin: jax.Array | int) -> jax.Array:
        """First and last bin that count for each template, (2, B) int32, see `bins.counted_bins`."""
        index = jnp.arange(lookup.rows.shape[0])
        last = jnp.where(index < jnp.asarray(n_valid, jnp.int64), self.layout.n_frequencies - 1, -1).astype(jnp.int32)
        return jnp.stack([jnp.broadcast_to(jnp.asarray(first_bin, jnp.int32), last.shape), last])


class Groups(NamedTuple):
    """Templates in groups of equal size, of which the last is filled up with templates of which nothing counts.

    Attributes
    ----------
    rows : (G, size, K) int32
    shifts : (G, size, K, C) int32
        See `CoherentBands.shifts`.
    bins : (G, size, 2) int32
        The first and the last that count.
    """

    rows: jax.Array
    shifts: jax.Array
    bins: jax.Array


class Sums(NamedTuple):
    """What is kept of all means over segments.

    Attributes
    ----------
    tops : (C, G, piece) float32
        Maxima over the templates of each group; -inf where none counts.
    peaks : (C, piece) float32
        Maxima over all templates.
    histogram : (BINS,) int32
        In the scale of `segments.spread_means`.
    """

    tops: jax.Array
    peaks: jax.Array
    histogram: jax.Array


@dataclass(frozen=True)
class Interpolated:
    """Sums of segments' values; takes the place of a `backend.Backend` in the driver of searches."""

    name: ClassVar[str] = "library"
    needs: ClassVar[str] = "nothing but JAX"

    def usable(self, device: Device) -> bool:
        """Always."""
        return True

    def unavailable(self) -> str | None:
        """Nothing is in the way."""

    def reduced(
        self, bands: CoherentBands, lookup: Lookup, bins: jax.Array, keep: int, same_source: bool = False
    ) -> Loudest:
        """The largest means over segments of a batch of templates, and tallies; see `backend.Backend.reduced`.

        First the maxima of groups of templates at each frequency, then all values of the groups with the largest
        maxima. Bins at which a segment has no value, because its template's frequency lies outside the band, do not
        count.
        """
        n, n_segments = lookup.rows.shape
        size = -(-n // -(-n // GROUP))
        shifts = bands.shifts(lookup)
        groups = grouped(lookup.rows, shifts, bins, size)
        tops, peaks, histogram = self.sums(bands, groups)
        n_groups, length = tops.shape[1:]
        _, chosen = largest(tops.reshape(-1), min(keep, tops.size))
        chosen = chosen.astype(jnp.int32)
        piece, group, place = chosen // (n_groups * length), chosen // length % n_groups, chosen % length
        number = (piece * length + place)[:, None]
        template = group[:, None] * size + jnp.arange(size, dtype=jnp.int32)
        real = template < n  # others fill up the last group
        template = jnp.minimum(template, n - 1)
        column = bands.padding + number[..., None] + shifts[template, :, piece[:, None]]
        values = bands.values[lookup.rows[template], column]
        total = added([values[..., i] for i in range(n_segments)])
        means = jnp.where(real, total * np.float32(1 / n_segments), -jnp.inf)
        means, number = _counted(means, number, bins[:, template]), jnp.broadcast_to(number, means.shape)
        best = largest_of_rows(means, template, number, keep)
        return Loudest(*best, histogram, largest_of_sections_in_order(bands.layout, peaks.reshape(1, -1)))

    def sums(self, bands: CoherentBands, groups: Groups) -> Sums:
        """Means of all templates, reduced as they are computed; segments are added as by `added`."""
        return jax.lax.platform_dependent(bands, groups, cpu=_pieces, default=_batches)


def added(parts: list[jax.Array]) -> jax.Array:
    """Segments' values added up: `TOGETHER` neighbours first, then their sums, each in their order.

    All backends add in this order, so that their values, and maxima and values of one backend, agree to the bit.
    """
    sums = [reduce(add, parts[i : i + TOGETHER]) for i in range(0, len(parts), TOGETHER)]
    return reduce(add, sums)


def grouped(rows: jax.Array, shifts: jax.Array, bins: jax.Array, size: int) -> Groups:
    """Templates' rows, (B, K), shifts, (B, K, C), and bins that count, (2, B), in groups."""
    more = -rows.shape[0] % size

    def divided(x: jax.Array, value: int = 0) -> jax.Array:
        x = jnp.pad(x, ((0, more), *[(0, 0)] * (x.ndim - 1)), constant_values=value)
        return x.reshape(-1, size, *x.shape[1:])

    return Groups(divided(rows), divided(shifts), divided(bins.T, -1))


def _counted(means: jax.Array, number: jax.Array, bins: jax.Array) -> jax.Array:
    """The means, -inf where bins do not count; `bins` are the first and the last that do."""
    return jnp.where((number >= bins[0]) & (number <= bins[1]), means, -jnp.inf)


def _spread(means: jax.Array, n_segments: int) -> jax.Array:
    """Means in the histogram's scale, see `segments.loudest_means`, as places in it."""
    spread = spread_means(means, n_segments)
    return jnp.clip(spread * np.float32(1 / WIDTH), 0, BINS - 1).astype(jnp.int32)


def _pieces(bands: CoherentBands, groups: Groups) -> Sums:
    """On a CPU: one piece of the band after the other, whose values stay in the caches for all templates."""
    n_segments, length = groups.rows.shape[2], bands.piece

    def piece(pairs: jax.Array, part: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        c, shifts = part
        number = c * length + jnp.arange(length, dtype=jnp.int32)

        def one(top: jax.Array, template: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            rows, own, ends = template
            # consecutive values of each segment, summed in one loop
            start = bands.padding + c * length + own
            parts = [jax.lax.dynamic_slice(bands.values, (rows[i], start[i]), (1, length)) for i in range(n_segments)]
            means = _counted(added(parts)[0] * np.float32(1 / n_segments), number, ends)
            return jnp.maximum(top, means), means

        def group(carry: tuple[jax.Array, jax.Array], templates: Any) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            peaks, pairs = carry
            # a loop of its own, so that XLA sums once and not for each use
            top, means = jax.lax.scan(one, lowest, templates)
            place = jnp.where(means > -jnp.inf, _spread(means, n_segments), PLACES - 1)
            both = place[:, : length // 2] * PLACES + place[:, length // 2 :]
            pairs = pairs.at[both.reshape(-1)].add(jnp.ones(both.size, jnp.int32), mode="promise_in_bounds")
            return (jnp.maximum(peaks, top), pairs), top

        lowest = jnp.full(length, -jnp.inf, jnp.float32)
        (peaks, pairs), tops = jax.lax.scan(group, (lowest, pairs), (groups.rows, shifts, groups.bins))
        return pairs, (tops, peaks)

    # values are counted two by two, which halves the time that counters take
    none = jnp.zeros(PLACES * PLACES, jnp.int32)
    numbers = jnp.arange(bands.n_pieces, dtype=jnp.int32)
    pairs, (tops, peaks) = jax.lax.scan(piece, none, (numbers, jnp.moveaxis(groups.shifts, 3, 0)))
    pairs = pairs.reshape(PLACES, PLACES)
    histogram = jnp.sum(pairs, axis=0, dtype=jnp.int32) + jnp.sum(pairs, axis=1, dtype=jnp.int32)
    return Sums(tops, peaks, histogram[:BINS])


def _batches(bands: CoherentBands, groups: Groups) -> Sums:
    """On other devices: a group of templates at a time, a sum of gathers."""
    n_segments, length, n_pieces = groups.rows.shape[2], bands.piece, bands.n_pieces
    number = jnp.arange(n_pieces * length, dtype=jnp.int32).reshape(n_pieces, length)

    def some(rows: jax.Array, shifts: jax.Array, ends: jax.Array) -> jax.Array:
        def segment(i: int) -> jax.Array:
            column = bands.padding + number + shifts[:, i, :, None]
            return bands.values.at[rows[:, i, None, None], column].get(mode="promise_in_bounds")

        total = added([segment(i) for i in range(n_segments)])
        return _counted(total * np.float32(1 / n_segments), number, ends[:, :, None, None])

    def step(carry: tuple[jax.Array, jax.Array], group: Groups) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        peaks, histogram = carry
        rows, shifts, ends = group
        means = jax.lax.optimization_barrier(some(rows, shifts, jnp.moveaxis(ends, 1, 0)))
        # how many lie in each bin or above: comparisons take a tenth of the time of counters in memory
        place = jnp.where(means > -jnp.inf, _spread(means, n_segments), -1)
        bins = jnp.arange(BINS, dtype=jnp.int32)
        above = jnp.sum(place.reshape(1, -1) >= bins[:, None], axis=1, dtype=jnp.int32)
        histogram = histogram - jnp.diff(above, append=jnp.zeros(1, jnp.int32))
        top = jnp.max(means, axis=0)
        return (jnp.maximum(peaks, top), histogram), top

    empty = jnp.full((n_pieces, length), -jnp.inf, jnp.float32), jnp.zeros(BINS, jnp.int32)
    (peaks, histogram), tops = jax.lax.scan(step, empty, groups)
    return Sums(jnp.moveaxis(tops, 1, 0), peaks, histogram)
