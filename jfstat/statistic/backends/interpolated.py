"""The mean over segments of 2F read from the nearest templates of their own lattices: the interpolating search's sum.

As in LALSuite's Weave (Wette et al. 2018, Phys. Rev. D 97, 123016), the segments' values are computed once for all
frequencies, and summed for each template of the semi-coherent bank at frequencies that are shifted by whole bins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.memory import Device
from jfstat.statistic.backends.backend import Loudest
from jfstat.statistic.backends.coherentbands import GROUP, TOGETHER, CoherentBands, Groups, Lookup, grouped
from jfstat.statistic.backends.reduction import (
    BINS,
    WIDTH,
    largest,
    largest_of_rows,
    largest_of_sections_in_order,
)
from jfstat.statistic.backends.segments import spread_means
from jfstat.statistic.backends.shared import STEP, SharedSums, pays, shared_sums

PLACES = 32
"""Places in a CPU's histogram, a power of two above `BINS`; the last is for values that do not count."""


class Sums(NamedTuple):
    """What is kept of all means over segments.

    Attributes
    ----------
    tops : (C, G, piece) float32
        Maxima over the templates of each group; -inf where none counts.
    peaks : (C, piece) float32
        Maxima over all templates.
    histogram : (BINS,) int64
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


def _counted(means: jax.Array, number: jax.Array, bins: jax.Array) -> jax.Array:
    """The means, -inf where bins do not count; `bins` are the first and the last that do."""
    return jnp.where((number >= bins[0]) & (number <= bins[1]), means, -jnp.inf)


def _spread(means: jax.Array, n_segments: int) -> jax.Array:
    """Means in the histogram's scale, see `segments.loudest_means`, as places in it."""
    spread = spread_means(means, n_segments)
    return jnp.clip(spread * np.float32(1 / WIDTH), 0, BINS - 1).astype(jnp.int32)


def _pieces(bands: CoherentBands, groups: Groups) -> Sums:
    """On a CPU: one piece of the band after the other, whose values stay in the caches for all templates."""

    def directly(bands: CoherentBands, groups: Groups) -> Sums:
        return _in_pieces(bands, groups, *_from_segments(bands, groups))

    if not pays(bands, groups):
        return directly(bands, groups)
    shared = shared_sums(bands, groups)

    def of_shared(bands: CoherentBands, groups: Groups) -> Sums:
        return _in_pieces(bands, groups, *_from_shared(bands, shared))

    return jax.lax.cond(shared.complete, of_shared, directly, bands, groups)


Total: TypeAlias = Callable[[Any], jax.Array]
"""From what stands for a template in a piece of the band to its sum over segments at the bins of the piece."""
OfPiece: TypeAlias = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Total, Any]]
"""From a space in memory, the number of a piece and what is given of it: the space, a `Total`, and what stands for all
templates, (G, size, ...)."""


def _from_segments(bands: CoherentBands, groups: Groups) -> tuple[OfPiece, jax.Array, Any]:
    """Sums of the segments' values themselves: how, a space in memory, and what is given of each piece."""
    n_segments, length = groups.rows.shape[2], bands.piece

    def of_piece(space: jax.Array, c: jax.Array, shifts: jax.Array) -> tuple[jax.Array, Total, Any]:
        def total(template: tuple[jax.Array, jax.Array]) -> jax.Array:
            rows, own = template
            # consecutive values of each segment, summed in one loop
            start = bands.padding + c * length + own
            parts = [jax.lax.dynamic_slice(bands.values, (rows[i], start[i]), (1, length)) for i in range(n_segments)]
            return added(parts)[0]

        return space, total, (groups.rows, shifts)

    return of_piece, jnp.zeros(0, jnp.float32), jnp.moveaxis(groups.shifts, 3, 0)


def _from_shared(bands: CoherentBands, shared: SharedSums) -> tuple[OfPiece, jax.Array, Any]:
    """The same from sums of neighbouring segments, which are made for one piece of the band at a time."""
    length, width = bands.piece, bands.piece + STEP
    room, n_sums = shared.starts.shape[1], shared.index.shape[2]
    values = bands.values.reshape(-1)

    def of_piece(space: jax.Array, c: jax.Array, part: SharedSums) -> tuple[jax.Array, Total, Any]:
        def one(i: jax.Array, space: jax.Array) -> jax.Array:
            own = part.starts[i]
            parts = [jax.lax.dynamic_slice(values, (jnp.maximum(own[k], 0),), (width,)) for k in range(TOGETHER)]
            made = reduce(add, [parts[0], *(jnp.where(own[k] < 0, 0, parts[k]) for k in range(1, TOGETHER))])
            return jax.lax.dynamic_update_slice(space, made[None], (i, jnp.zeros_like(i)))

        space = jax.lax.fori_loop(jnp.zeros_like(part.count), part.count, one, space)

        def total(template: tuple[jax.Array, jax.Array]) -> jax.Array:
            index, shift = template
            parts = [jax.lax.dynamic_slice(space, (index[i], shift[i]), (1, length)) for i in range(n_sums)]
            return reduce(add, parts)[0]

        return space, total, (part.index.swapaxes(1, 2), part.shift.swapaxes(1, 2))

    return of_piece, jnp.zeros((room, width), jnp.float32), shared._replace(complete=shared.count)


def _in_pieces(bands: CoherentBands, groups: Groups, of_piece: OfPiece, space: jax.Array, given: Any) -> Sums:
    """Means reduced piece by piece; `of_piece` and what it takes are from one of the two above."""
    n_segments, length = groups.rows.shape[2], bands.piece

    def piece(carry: tuple[jax.Array, jax.Array], part: tuple[jax.Array, Any]) -> tuple[Any, Any]:
        histogram, space = carry
        c, own = part
        number = c * length + jnp.arange(length, dtype=jnp.int32)
        space, total, templates = of_piece(space, c, own)

        def one(top: jax.Array, template: tuple[Any, jax.Array]) -> tuple[jax.Array, jax.Array]:
            own, ends = template
            means = _counted(total(own) * np.float32(1 / n_segments), number, ends)
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
        # values are counted two by two, which halves the time that counters take
        none = jnp.zeros(PLACES * PLACES, jnp.int32)
        (peaks, pairs), tops = jax.lax.scan(group, (lowest, none), (templates, groups.bins))
        pairs = pairs.reshape(PLACES, PLACES)
        counts = jnp.sum(pairs, axis=0, dtype=jnp.int64) + jnp.sum(pairs, axis=1, dtype=jnp.int64)
        return (histogram + counts[:BINS], space), (tops, peaks)

    numbers = jnp.arange(bands.n_pieces, dtype=jnp.int32)
    (histogram, _), (tops, peaks) = jax.lax.scan(piece, (jnp.zeros(BINS, jnp.int64), space), (numbers, given))
    return Sums(tops, peaks, histogram)


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
        above = jnp.sum(place.reshape(1, -1) >= bins[:, None], axis=1, dtype=jnp.int64)
        histogram = histogram - jnp.diff(above, append=jnp.zeros(1, jnp.int64))
        top = jnp.max(means, axis=0)
        return (jnp.maximum(peaks, top), histogram), top

    empty = jnp.full((n_pieces, length), -jnp.inf, jnp.float32), jnp.zeros(BINS, jnp.int64)
    (peaks, histogram), tops = jax.lax.scan(step, empty, groups)
    return Sums(jnp.moveaxis(tops, 1, 0), peaks, histogram)
