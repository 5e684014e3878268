"""Sum a few neighbouring segments once for all templates of an interpolating search that share them.

Templates that are near each other read nearly the same values: 2048 templates of a bank for 26 segments of 10 d, in
Z-order, read `TOGETHER` = 3 neighbouring segments at only 60 different places or so. The sums of neighbouring segments
are made once here, so that a template reads a third as many values.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.memory import FLOAT32
from jfstat.engines.coherentbands import TOGETHER, CoherentBands, Groups

STEP = 64
"""Number of bins whose multiples shift the sums; a template starts to read a sum at one of its first `STEP` bins."""
ROOM = 8
"""Number of templates per sum of neighbouring segments for which there is room."""
MOST_BYTES = 1280 << 20
"""Most memory of the sums that are made at a time, on accelerators."""
LEAST_TEMPLATES, LEAST_BINS = 128, 512
"""Least number of templates, and of bins of a piece of the band, for which it pays to share sums."""


class SharedSums(NamedTuple):
    """Sums that exist in each of C pieces of the band, and the sums that each template reads.

    Attributes
    ----------
    starts : (C, R, TOGETHER) int64
        Where in all of `CoherentBands.values` the first bin of a sum's segments stands; -1 for no segment.
    count : (C,) int32
        Number of sums; there is room for R.
    index : (C, G, T, size) int32
        The sums that templates read, T of them each, of which the last may be of fewer segments.
    shift : (C, G, T, size) int32
        The bin of the sum at which the piece begins for the template, less than `STEP`.
    complete : () bool
        Whether there was room for all sums. If not, they are not to be used.
    """

    starts: jax.Array
    count: jax.Array
    index: jax.Array
    shift: jax.Array
    complete: jax.Array


def pays(bands: CoherentBands, groups: Groups) -> bool:
    """Return whether there are enough templates, segments and bins for sums to be shared."""
    n_groups, size, n_segments = groups.rows.shape
    return n_groups * size >= LEAST_TEMPLATES and n_segments >= 2 * TOGETHER and bands.piece >= LEAST_BINS


def room_for_sums(n: int, n_segments: int) -> int:
    """Return the number of sums for which there is room, for a batch of n templates."""
    return max(1, n * -(-n_segments // TOGETHER) // ROOM)


def most_templates(piece: int, n_segments: int) -> int:
    """Return the largest batch whose sums take at most `MOST_BYTES` in a piece of the band of a number of bins."""
    return MOST_BYTES // (FLOAT32 * (piece + STEP)) * ROOM // -(-n_segments // TOGETHER)


def shared_sums(bands: CoherentBands, groups: Groups) -> SharedSums:
    """Return the different sums of neighbouring segments of a batch of templates, by rows and relative shifts."""
    n_groups, size, n_segments = groups.rows.shape
    n, n_sums, n_pieces = n_groups * size, -(-n_segments // TOGETHER), bands.n_pieces
    more = n_sums * TOGETHER - n_segments
    rows = jnp.pad(groups.rows.reshape(n, n_segments), ((0, 0), (0, more)), mode="edge")
    rows = rows.reshape(n, n_sums, TOGETHER).transpose(1, 0, 2)  # (T, n, TOGETHER)
    shifts = jnp.pad(groups.shifts.reshape(n, n_segments, n_pieces), ((0, 0), (0, more), (0, 0)), mode="edge")
    shifts = shifts.reshape(n, n_sums, TOGETHER, n_pieces).transpose(3, 1, 0, 2)  # (C, T, n, TOGETHER)
    first = shifts[..., 0]
    key, unique = _keys(jnp.broadcast_to(rows, shifts.shape), shifts, first // STEP)

    # templates with equal keys become neighbours, the number of the template keeping them apart
    ordered = jnp.sort(key * n + jnp.arange(n, dtype=jnp.int64), axis=-1, stable=False)
    key, template = ordered // n, (ordered % n).astype(jnp.int32)
    new = jnp.concatenate([jnp.ones_like(key[..., :1], bool), key[..., 1:] != key[..., :-1]], axis=-1)
    number = jnp.cumsum(new, axis=-1, dtype=jnp.int32) - 1
    counts = number[..., -1] + 1  # (C, T)
    total = jnp.cumsum(counts, axis=-1)
    number = number + (total - counts)[..., None]
    count, room = total[:, -1], room_for_sums(n, n_segments)

    piece = jnp.arange(n_pieces, dtype=jnp.int64)[:, None, None]
    which = jnp.arange(n_sums, dtype=jnp.int32)[:, None]
    index = jnp.zeros(number.shape, jnp.int32).at[piece, which, template].set(number, unique_indices=True)
    # the first template of each sum says what it sums
    source = jnp.zeros((n_pieces, room), jnp.int32)
    source = source.at[piece, jnp.where(new, number, room)].set((which * n + template).astype(jnp.int32), mode="drop")
    of, source = source // n, source % n
    own_rows = rows[of, source].astype(jnp.int64)  # (C, R, TOGETHER)
    own_shifts = shifts[piece[..., 0], of, source].astype(jnp.int64)
    columns = bands.padding + piece * bands.piece + own_shifts - own_shifts[..., :1] % STEP
    starts = own_rows * bands.values.shape[1] + columns
    absent = of[..., None] * TOGETHER + jnp.arange(TOGETHER, dtype=jnp.int32) >= n_segments
    starts = jnp.where(absent, -1, starts)

    def by_group(x: jax.Array) -> jax.Array:
        return x.reshape(n_pieces, n_sums, n_groups, size).transpose(0, 2, 1, 3)

    return SharedSums(starts, count, by_group(index), by_group(first % STEP), unique & jnp.all(count <= room))


def _keys(rows: jax.Array, shifts: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a whole number of at least 0 for each template, (C, T, n) int64, which is equal where sums are equal.

    The second result is whether all numbers, times n, are exact with 64 bits.
    """
    parts = [*jnp.moveaxis(rows, -1, 0), *jnp.moveaxis(shifts - shifts[..., :1], -1, 0)[1:], steps]
    key, size = jnp.zeros(steps.shape, jnp.int64), jnp.full((), steps.shape[-1], jnp.float64)
    for part in parts:
        part = (part - jnp.min(part, axis=-1, keepdims=True)).astype(jnp.int64)
        extent = jnp.max(part) + 1
        key, size = key * extent + part, size * extent.astype(jnp.float64)
    return key, size < 2.0**63
