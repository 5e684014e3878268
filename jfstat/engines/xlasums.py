"""Compute means over segments of 2F read from the nearest templates of the segments' lattices, by XLA.

As in LALSuite's Weave (Wette et al. 2018, Phys. Rev. D 97, 123016), the segments' values are computed once for all
frequencies, and summed for each template of the semi-coherent bank at frequencies that are shifted by whole bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.memory import Device
from jfstat.engines.coherentbands import GROUP, CoherentBands, Groups, Lookup, grouped
from jfstat.engines.cpusums import sums_in_pieces
from jfstat.engines.engine import Loudest
from jfstat.engines.reduction import BINS, largest, largest_of_rows, largest_of_sections_in_order
from jfstat.engines.sums import Sums, added, counted_means, places
from jfstat.lines.doppler import LineBands
from jfstat.maths.arrays import with_axes


@dataclass(frozen=True)
class XlaSums:
    """Sums of segments' values by XLA; takes the place of an `engine.Engine` in the driver of searches."""

    name: ClassVar[str] = "xla"
    needs: ClassVar[str] = "nothing but JAX"

    def usable(self, device: Device) -> bool:
        """Return True: any device can be used."""
        return True

    def unavailable(self) -> str | None:
        """Return None: nothing prevents the sums from running."""

    def ready(self, data: CoherentBands) -> CoherentBands:
        """Return the segments' values as they are."""
        return data

    def bins(
        self, data: CoherentBands, points: Lookup, n_valid: Any, first_bin: Any, bands: LineBands | None
    ) -> jax.Array:
        """Return the first and last bin that count for each template, (2, B) int32; lines are not vetoed."""
        return data.counted_bins(points, n_valid, first_bin)

    def reduced(
        self, data: CoherentBands, points: Lookup, bins: jax.Array, keep: int, same_source: bool = False
    ) -> Loudest:
        """Return the largest means over segments of a batch of templates, and tallies; see `engine.Engine.reduced`.

        The maxima of groups of templates at each frequency are found first, then all values of the groups with the
        largest maxima. Bins at which a segment has no value, because its template's frequency lies outside the band, do
        not count.
        """
        n, n_segments = points.rows.shape
        size = -(-n // -(-n // GROUP))
        shifts = data.shifts(points)
        groups = grouped(points.rows, shifts, bins, size)
        tops, peaks, histogram = self.sums(data, groups)
        n_groups, length = tops.shape[1:]
        _, chosen = largest(tops.reshape(-1), min(keep, tops.size))
        chosen = chosen.astype(jnp.int32)
        piece, group, place = chosen // (n_groups * length), chosen // length % n_groups, chosen % length
        number = (piece * length + place)[:, None]
        template = group[:, None] * size + jnp.arange(size, dtype=jnp.int32)[None]
        real = template < n  # others fill up the last group
        template = jnp.minimum(template, n - 1)
        column = data.padding + number[..., None] + shifts[template, :, piece[:, None]]
        values = data.values[points.rows[template], column]
        total = added([values[..., i] for i in range(n_segments)])
        means = jnp.where(real, total * np.float32(1 / n_segments), -jnp.inf)
        means, number = counted_means(means, number, bins[:, template]), jnp.broadcast_to(number, means.shape)
        best = largest_of_rows(means, template, number, keep)
        return Loudest(*best, histogram, largest_of_sections_in_order(data.layout, peaks.reshape(1, -1)))

    def sums(self, bands: CoherentBands, groups: Groups) -> Sums:
        """Compute the means of all templates, reduced as they are computed; segments are added as by `added`."""
        return jax.lax.platform_dependent(bands, groups, cpu=sums_in_pieces, default=_batches)


def _batches(bands: CoherentBands, groups: Groups) -> Sums:
    """Compute sums on other devices than CPUs: a group of templates at a time, by a sum of gathers."""
    n_segments, length, n_pieces = groups.rows.shape[2], bands.piece, bands.n_pieces
    number = jnp.arange(n_pieces * length, dtype=jnp.int32).reshape(n_pieces, length)

    def some(rows: jax.Array, shifts: jax.Array, ends: jax.Array) -> jax.Array:
        def segment(i: int) -> jax.Array:
            column = with_axes(bands.padding + number, 3) + shifts[:, i, :, None]
            return bands.values.at[rows[:, i, None, None], column].get(mode="promise_in_bounds")

        total = added([segment(i) for i in range(n_segments)])
        return counted_means(total * np.float32(1 / n_segments), number, ends[:, :, None, None])

    def step(carry: tuple[jax.Array, jax.Array], group: Groups) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        peaks, histogram = carry
        rows, shifts, ends = group
        means = jax.lax.optimization_barrier(some(rows, shifts, jnp.moveaxis(ends, 1, 0)))
        # how many lie in each bin or above: comparisons take a tenth of the time of counters in memory
        place = jnp.where(means > -jnp.inf, places(means, n_segments), -1)
        bins = jnp.arange(BINS, dtype=jnp.int32)
        above = jnp.sum(place.reshape(1, -1) >= bins[:, None], axis=1, dtype=jnp.int64)
        histogram = histogram - jnp.diff(above, append=jnp.zeros(1, jnp.int64))
        top = jnp.max(means, axis=0)
        return (jnp.maximum(peaks, top), histogram), top

    empty = jnp.full((n_pieces, length), -jnp.inf, jnp.float32), jnp.zeros(BINS, jnp.int64)
    (peaks, histogram), tops = jax.lax.scan(step, empty, groups)
    return Sums(jnp.moveaxis(tops, 1, 0), peaks, histogram)
