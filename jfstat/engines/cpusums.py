"""Sum segments' values on a CPU, one piece of the band after the other, whose values stay in the caches."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.engines import counting
from jfstat.engines.coherentbands import TOGETHER, CoherentBands, Groups
from jfstat.engines.reduction import BINS
from jfstat.engines.shared import STEP, SharedSums, pays, shared_sums
from jfstat.engines.sums import Sums, added, counted_means

FEW, SEVERAL = counting.MOST_WORDS, 4
"""Number of templates whose words are added up, and of groups of up to 32 whose words are added up in wider fields."""


def sums_in_pieces(bands: CoherentBands, groups: Groups) -> Sums:
    """Compute the means of all templates, reduced on the fly, from sums that templates share where that pays."""
    n_groups, size, _ = groups.rows.shape
    groups = groups.filled(1, min(FEW, size)).filled(0, min(SEVERAL, n_groups))

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
"""Function from what represents a template in a piece of the band to its sum over segments at the bins of the piece."""
OfPiece: TypeAlias = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Total, Any]]
"""Function from a memory buffer, the number of a piece and its input to the buffer, a `Total`, and what represents all
templates, (G, size, ...).
"""


def _from_segments(bands: CoherentBands, groups: Groups) -> tuple[OfPiece, jax.Array, Any]:
    """Return the functions and inputs of `_in_pieces` for sums of the segments' values themselves."""
    n_segments, length = groups.rows.shape[2], bands.piece

    def of_piece(space: jax.Array, c: jax.Array, shifts: jax.Array) -> tuple[jax.Array, Total, Any]:
        def total(template: tuple[jax.Array, jax.Array]) -> jax.Array:
            rows, own = template
            # slices of consecutive values of each segment, summed in one loop
            start = bands.padding + c * length + own
            parts = [jax.lax.dynamic_slice(bands.values, (rows[i], start[i]), (1, length)) for i in range(n_segments)]
            return added(parts)[0]

        return space, total, (groups.rows, shifts)

    return of_piece, jnp.zeros(0, jnp.float32), jnp.moveaxis(groups.shifts, 3, 0)


def _from_shared(bands: CoherentBands, shared: SharedSums) -> tuple[OfPiece, jax.Array, Any]:
    """Return the functions and inputs of `_in_pieces` for shared sums, made for one piece of the band at a time."""
    length, width = bands.piece, bands.piece + STEP
    room, n_sums = shared.starts.shape[1], shared.index.shape[2]
    values = bands.values.reshape(-1)

    def of_piece(space: jax.Array, c: jax.Array, part: tuple[jax.Array, ...]) -> tuple[jax.Array, Total, Any]:
        starts, count, index, shift = part

        def one(i: jax.Array, space: jax.Array) -> jax.Array:
            own = starts[i]
            parts = [jax.lax.dynamic_slice(values, (jnp.maximum(own[k], 0),), (width,)) for k in range(TOGETHER)]
            made = reduce(add, [parts[0], *(jnp.where(own[k] < 0, 0, parts[k]) for k in range(1, TOGETHER))])
            return jax.lax.dynamic_update_slice(space, made[None], (i, jnp.zeros_like(i)))

        space = jax.lax.fori_loop(jnp.zeros_like(count), count, one, space)

        def total(template: tuple[jax.Array, jax.Array]) -> jax.Array:
            index, shift = template
            parts = [jax.lax.dynamic_slice(space, (index[i], shift[i]), (1, length)) for i in range(n_sums)]
            return reduce(add, parts)[0]

        return space, total, (index.swapaxes(1, 2), shift.swapaxes(1, 2))

    given = shared.starts, shared.count, shared.index, shared.shift
    return of_piece, jnp.zeros((room, width), jnp.float32), given


def _in_pieces(bands: CoherentBands, groups: Groups, of_piece: OfPiece, space: jax.Array, given: Any) -> Sums:
    """Reduce means piece by piece, with `of_piece` and its inputs from `_from_segments` or `_from_shared`.

    The loops are nested: over pieces, over several groups, and over the templates of a group, a few at a time. Means
    are not stored; those beyond what `counting.words` count are computed again.
    """
    n_groups, size, n_segments = groups.rows.shape
    length, few_at_once, several_at_once = bands.piece, min(FEW, size), min(SEVERAL, n_groups)
    lowest = jnp.full(length, -jnp.inf, jnp.float32)
    none_beyond = jnp.zeros(BINS - counting.FIELDS + 1, jnp.int64)

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
            return (jnp.maximum(top, mean), words + counting.words(mean, n_segments)), None

        def few(carry: tuple[jax.Array, Any], templates: Any) -> tuple[tuple[jax.Array, Any], None]:
            top, fields = carry
            (top, words), _ = jax.lax.scan(one, (top, jnp.zeros(length, jnp.int64)), templates)
            return (top, fields.plus(words)), None

        def beyond(templates: Any) -> jax.Array:
            each = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), templates)
            return jax.lax.scan(lambda n, x: (n + counting.beyond(means(x), n_segments), None), none_beyond, each)[0]

        def group(carry: tuple[jax.Array, Any, jax.Array], templates: Any) -> tuple[Any, jax.Array]:
            peaks, fields, rest = carry
            (top, fields), _ = jax.lax.scan(few, (lowest, fields), templates)
            loud = counting.any_beyond(top, n_segments)
            rest = rest + jax.lax.cond(loud, beyond, lambda _: none_beyond, templates)
            return (jnp.maximum(peaks, top), fields, rest), top

        def several(carry: tuple[jax.Array, jax.Array], groups: Any) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            peaks, histogram = carry
            empty = counting.WideFields.empty(length)
            (peaks, fields, rest), tops = jax.lax.scan(group, (peaks, empty, none_beyond), groups)
            return (peaks, histogram + jnp.concatenate([fields.counts(), rest])), tops

        divided = several_at_once, size // few_at_once, few_at_once
        each = jax.tree.map(lambda x: x.reshape(-1, *divided, *x.shape[2:]), (templates, groups.bins))
        (peaks, histogram), tops = jax.lax.scan(several, (lowest, histogram), each)
        return (histogram, space), (tops.reshape(-1, length), peaks)

    numbers = jnp.arange(bands.n_pieces, dtype=jnp.int32)
    (histogram, _), (tops, peaks) = jax.lax.scan(piece, (jnp.zeros(BINS, jnp.int64), space), (numbers, given))
    return Sums(tops, peaks, histogram)
