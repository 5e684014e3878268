"""The mean over segments of 2F read from the nearest templates of their own lattices: the interpolating search's sum.

As in LALSuite's Weave (Wette et al. 2018, Phys. Rev. D 97, 123016), the segments' values are computed once for all
frequencies, and summed for each template of the semi-coherent bank at frequencies that are shifted by whole bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.statistic.backends.backend import Loudest
from jfstat.statistic.backends.reduction import BINS, WIDTH, largest, largest_of_sections_in_order
from jfstat.statistic.backends.segments import spread_means

ROW = 64
"""Number of neighbouring values whose maximum is taken first."""
AT_A_TIME = 32
"""Templates that a GPU sums at a time."""
COLUMNS = 8
"""Counters of each bin of a CPU's histogram: neighbouring values then need not wait for each other."""
STATIC = dict(static=True)


class Lookup(NamedTuple):
    """Where B templates find the values of K segments.

    Attributes
    ----------
    rows : (B, K) int32
        Rows of `CoherentBands.values`.
    shifts : (B, K, C) int32
        Number of bins by which the frequency of a segment's template exceeds that of the sum, for each of the C pieces
        of the band.
    """

    rows: Any
    shifts: Any


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
        Bins of a piece of the band, a multiple of `ROW`: the C pieces have whole-bin shifts of their own.
    """

    values: jax.Array
    layout: Layout
    padding: int = field(metadata=STATIC)
    piece: int = field(metadata=STATIC)

    @property
    def n_pieces(self) -> int:
        """Number of pieces, C."""
        return -(-self.layout.n_frequencies // self.piece)

    def counted_bins(self, lookup: Lookup, n_valid: jax.Array | int, first_bin: jax.Array | int) -> jax.Array:
        """First and last bin that count for each template, (2, B) int32, see `bins.counted_bins`."""
        index = jnp.arange(lookup.rows.shape[0])
        last = jnp.where(index < jnp.asarray(n_valid, jnp.int64), self.layout.n_frequencies - 1, -1).astype(jnp.int32)
        return jnp.stack([jnp.broadcast_to(jnp.asarray(first_bin, jnp.int32), last.shape), last])


@dataclass(frozen=True)
class Interpolated:
    """Sums of segments' values; takes the place of a `backend.Backend` in the driver of searches."""

    name: ClassVar[str] = "library"

    def reduced(
        self, bands: CoherentBands, lookup: Lookup, bins: jax.Array, keep: int, same_source: bool = False
    ) -> Loudest:
        """The largest means over segments of a batch of templates, and tallies; see `backend.Backend.reduced`.

        First the maxima of rows of bins, then all values of the rows with the largest maxima. Bins at which a segment
        has no value, because its template's frequency lies outside the band, do not count.
        """
        n, n_segments = lookup.rows.shape
        tops, peaks, histogram = jax.lax.platform_dependent(bands, lookup, bins, cpu=_pieces, default=_batches)
        # tops (C, B, piece / ROW): the place of a row is that of its maximum
        per_piece = bands.piece // ROW
        _, chosen = largest(tops.reshape(-1), min(keep, tops.size))
        chosen = chosen.astype(jnp.int32)
        piece, template, place = chosen // (n * per_piece), chosen // per_piece % n, chosen % per_piece
        number = (piece * bands.piece + place * ROW)[:, None] + jnp.arange(ROW, dtype=jnp.int32)
        column = bands.padding + number[..., None] + lookup.shifts[template, :, piece][:, None, :]
        values = bands.values[lookup.rows[template][:, None, :], column]
        total = values[..., 0]
        for i in range(1, n_segments):  # in the same order as above, so that rows and their maxima agree
            total = total + values[..., i]
        value = _counted(total * np.float32(1 / n_segments), number, bins[:, template, None])
        twoF, best = jax.lax.top_k(value.reshape(-1), min(keep, value.size))
        return Loudest(
            twoF,
            jnp.broadcast_to(template[:, None], value.shape).reshape(-1)[best].astype(jnp.int32),
            number.reshape(-1)[best].astype(jnp.int32),
            histogram,
            largest_of_sections_in_order(bands.layout, peaks.reshape(1, -1)),
        )


def _counted(means: jax.Array, number: jax.Array, bins: jax.Array) -> jax.Array:
    """The means, -inf where bins do not count; `bins` are the first and the last that do."""
    return jnp.where((number >= bins[0]) & (number <= bins[1]), means, -jnp.inf)


def _spread(means: jax.Array, n_segments: int) -> jax.Array:
    """Means in the histogram's scale, see `segments.loudest_means`, as places in it."""
    spread = spread_means(means, n_segments)
    return jnp.clip(spread * np.float32(1 / WIDTH), 0, BINS - 1).astype(jnp.int32)


def _pieces(bands: CoherentBands, lookup: Lookup, bins: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """On a CPU: one piece of the band after the other, whose values stay in the caches for all templates.

    Returns
    -------
    tops : (C, B, piece / ROW) float32
        Maxima of rows of bins.
    peaks : (C, piece) float32
        Maxima over templates.
    histogram : (BINS,) int32
    """
    n_segments, length = lookup.rows.shape[1], bands.piece

    def piece(c: jax.Array, shifts: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        number = c * length + jnp.arange(length, dtype=jnp.int32)

        def one(
            carry: tuple[jax.Array, jax.Array], template: tuple[jax.Array, jax.Array, jax.Array]
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            peaks, histogram = carry
            rows, own, ends = template
            # consecutive values of each segment, summed in one loop
            start = bands.padding + c * length + own
            parts = [jax.lax.dynamic_slice(bands.values, (rows[i], start[i]), (1, length)) for i in range(n_segments)]
            means = _counted(sum(parts[1:], parts[0])[0] * np.float32(1 / n_segments), number, ends)
            means = jax.lax.optimization_barrier(means)  # summed once
            counted = (means > -jnp.inf).astype(jnp.int32).reshape(-1, COLUMNS)
            place = _spread(means, n_segments).reshape(-1, COLUMNS) * COLUMNS + jnp.arange(COLUMNS, dtype=jnp.int32)
            histogram = histogram.at[place].add(counted, mode="promise_in_bounds")
            return (jnp.maximum(peaks, means), histogram), jnp.max(means.reshape(-1, ROW), axis=1)

        empty = jnp.full(length, -jnp.inf, jnp.float32), jnp.zeros(BINS * COLUMNS, jnp.int32)
        (peaks, histogram), tops = jax.lax.scan(one, empty, (lookup.rows, shifts, bins.T))
        return tops, peaks, jnp.sum(histogram.reshape(BINS, COLUMNS), axis=1, dtype=jnp.int32)

    numbers = jnp.arange(bands.n_pieces, dtype=jnp.int32)
    tops, peaks, histograms = jax.lax.map(lambda x: piece(*x), (numbers, jnp.moveaxis(lookup.shifts, 2, 0)))
    return tops, peaks, jnp.sum(histograms, axis=0, dtype=jnp.int32)


def _batches(bands: CoherentBands, lookup: Lookup, bins: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """On other devices: some templates at a time, a sum of gathers each; results as of `_pieces`."""
    n_segments, length, n_pieces = lookup.rows.shape[1], bands.piece, bands.n_pieces
    number = jnp.arange(n_pieces * length, dtype=jnp.int32).reshape(n_pieces, length)

    def some(rows: jax.Array, shifts: jax.Array, ends: jax.Array) -> jax.Array:
        def segment(i: int) -> jax.Array:
            column = bands.padding + number + shifts[:, i, :, None]
            return bands.values.at[rows[:, i, None, None], column].get(mode="promise_in_bounds")

        total = segment(0)
        for i in range(1, n_segments):
            total = total + segment(i)
        return _counted(total * np.float32(1 / n_segments), number, ends[:, :, None, None])

    def step(
        carry: tuple[jax.Array, jax.Array], batch: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        peaks, histogram = carry
        rows, shifts, ends = batch
        means = jax.lax.optimization_barrier(some(rows, shifts, jnp.moveaxis(ends, 1, 0)))
        # how many lie in each bin or above: comparisons take a tenth of the time of counters in memory
        place = jnp.where(means > -jnp.inf, _spread(means, n_segments), -1)
        bins = jnp.arange(BINS, dtype=jnp.int32)
        above = jnp.sum(place.reshape(1, -1) >= bins[:, None], axis=1, dtype=jnp.int32)
        histogram = histogram - jnp.diff(above, append=jnp.zeros(1, jnp.int32))
        tops = jnp.max(means.reshape(*means.shape[:2], -1, ROW), axis=-1)
        return (jnp.maximum(peaks, jnp.max(means, axis=0)), histogram), tops

    n = lookup.rows.shape[0]
    size = next(d for d in range(min(AT_A_TIME, n), 0, -1) if n % d == 0)
    batches = jax.tree.map(lambda x: x.reshape(n // size, size, *x.shape[1:]), (lookup.rows, lookup.shifts, bins.T))
    empty = jnp.full((n_pieces, length), -jnp.inf, jnp.float32), jnp.zeros(BINS, jnp.int32)
    (peaks, histogram), tops = jax.lax.scan(step, empty, batches)
    return jnp.moveaxis(tops.reshape(n, n_pieces, -1), 1, 0), peaks, histogram
