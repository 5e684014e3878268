"""Sums of segments' values on a CPU: one piece of the band after the other, whose values stay in the caches."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.statistic.backends.coherentbands import TOGETHER, CoherentBands, Groups
from jfstat.statistic.backends.reduction import BINS
from jfstat.statistic.backends.shared import STEP, SharedSums, pays, shared_sums
from jfstat.statistic.backends.sums import Sums, added, counted_means, places

FIELDS, FIELD_BITS = 15, 4
"""Bins of the histogram that are counted together, and bits for each in a word of 64 bits. The last field has all
values beyond the others, of which there are hardly any in noise."""
FEW, SEVERAL = 8, 4
"""Templates that a word counts, and groups that the wider fields count to which it is added: none overflows."""
EVEN = sum(((1 << FIELD_BITS) - 1) << (2 * FIELD_BITS * i) for i in range((FIELDS + 1) // 2))
"""Every other field of a word."""


def sums_in_pieces(bands: CoherentBands, groups: Groups) -> Sums:
    """Means of all templates, reduced as they are computed, from sums that templates share where that pays."""
    n_groups = len(groups.rows)
    groups = groups.filled(1, FEW).filled(0, SEVERAL)

    def directly(bands: CoherentBands, groups: Groups) -> Sums:
        return _in_pieces(bands, groups, *_from_segments(bands, groups))

    if pays(bands, groups):
        shared = shared_sums(bands, groups)

        def of_shared(bands: CoherentBands, groups: Groups) -> Sums:
            return _in_pieces(bands, groups, *_from_shared(bands, shared))

        found = jax.lax.cond(shared.complete, of_shared, directly, bands, groups)
    else:
        found = directly(bands, groups)
    return found._replace(tops=found.tops[:, :n_groups])


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
    """Means reduced piece by piece; `of_piece` and what it takes are from one of the two above.

    Most values are counted at each frequency of the piece, without looking up counters one by one: a word has a field
    for each bin, and a template adds 1 to one field. The words of a few templates are added to those of several groups,
    two of them with fields twice as wide, and these added up over the piece.
    """
    n_segments, length = groups.rows.shape[2], bands.piece
    high = jnp.arange(FIELDS - 1, BINS, dtype=jnp.int32)

    def piece(carry: tuple[jax.Array, jax.Array], part: tuple[jax.Array, Any]) -> tuple[Any, Any]:
        histogram, space = carry
        c, own = part
        number = c * length + jnp.arange(length, dtype=jnp.int32)
        space, total, templates = of_piece(space, c, own)

        def means(template: tuple[Any, jax.Array]) -> jax.Array:
            own, ends = template
            return counted_means(total(own) * np.float32(1 / n_segments), number, ends)

        def one(carry: tuple[jax.Array, jax.Array], template: Any) -> tuple[tuple[jax.Array, jax.Array], None]:
            top, words = carry
            mean = means(template)
            shift = places(mean, n_segments, FIELDS) * FIELD_BITS
            word = jax.lax.shift_left(jnp.ones((), jnp.int64), shift.astype(jnp.int64))
            return (jnp.maximum(top, mean), words + jnp.where(mean > -jnp.inf, word, 0)), None

        def few(carry: tuple[jax.Array, Any], templates: Any) -> tuple[tuple[jax.Array, Any], None]:
            top, (even, odd) = carry
            (top, words), _ = jax.lax.scan(one, (top, jnp.zeros(length, jnp.int64)), templates)
            return (top, (even + (words & EVEN), odd + ((words >> FIELD_BITS) & EVEN))), None

        def beyond(templates: Any) -> jax.Array:
            """Numbers of a group's values in the bins from the last field's on, which are counted one by one."""

            def add_one(count: jax.Array, template: Any) -> tuple[jax.Array, None]:
                mean = means(template)
                place = jnp.where(mean > -jnp.inf, places(mean, n_segments), -1)
                return count + jnp.sum(place == high[:, None], axis=1, dtype=jnp.int64), None

            flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), templates)
            return jax.lax.scan(add_one, jnp.zeros(len(high), jnp.int64), flat)[0]

        def group(carry: tuple[jax.Array, Any, jax.Array], templates: Any) -> tuple[Any, jax.Array]:
            peaks, wide, rest = carry
            (top, wide), _ = jax.lax.scan(few, (lowest, wide), templates)
            loud = places(jnp.max(top), n_segments) >= FIELDS - 1
            rest = rest + jax.lax.cond(loud, beyond, lambda _: jnp.zeros(len(high), jnp.int64), templates)
            return (jnp.maximum(peaks, top), wide, rest), top

        def several(carry: tuple[jax.Array, jax.Array], groups: Any) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            peaks, counts = carry
            none = jnp.zeros(length, jnp.int64), jnp.zeros(length, jnp.int64)
            (peaks, wide, rest), tops = jax.lax.scan(group, (peaks, none, jnp.zeros(len(high), jnp.int64)), groups)
            mask = (1 << 2 * FIELD_BITS) - 1
            fields = [jnp.sum((wide[i % 2] >> (i // 2 * 2 * FIELD_BITS)) & mask) for i in range(FIELDS - 1)]
            return (peaks, counts + jnp.concatenate([jnp.stack(fields), rest])), tops

        lowest = jnp.full(length, -jnp.inf, jnp.float32)
        by_fews = jax.tree.map(
            lambda x: x.reshape(-1, SEVERAL, x.shape[1] // FEW, FEW, *x.shape[2:]), (templates, groups.bins)
        )
        (peaks, histogram), tops = jax.lax.scan(several, (lowest, histogram), by_fews)
        return (histogram, space), (tops.reshape(-1, length), peaks)

    numbers = jnp.arange(bands.n_pieces, dtype=jnp.int32)
    (histogram, _), (tops, peaks) = jax.lax.scan(piece, (jnp.zeros(BINS, jnp.int64), space), (numbers, given))
    return Sums(tops, peaks, histogram)
