"""Sum segments' values in interpolating searches by kernels in CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.memory import FLOAT32, Device
from jfstat.engines import shared
from jfstat.engines.coherentbands import GROUP, TOGETHER, CoherentBands, Groups
from jfstat.engines.cuda import launch
from jfstat.engines.cuda.engine import Cuda
from jfstat.engines.cuda.launch import Program, Shapes
from jfstat.engines.reduction import BINS, WIDTH
from jfstat.engines.shared import STEP, SharedSums
from jfstat.engines.sums import Sums
from jfstat.engines.xlasums import XlaSums

THREADS, EACH = 128, 2
"""Number of threads of a block, and of bins of a thread, if the pieces of the band are long enough."""
SEGMENTS = 18
"""Number of segments, or of sums of some, whose offsets are in shared memory at a time."""
COPIES = 64
"""Number of copies of the histogram."""
BLOCKS = 4
"""Least number of blocks on a multiprocessor."""
ROWS = 16
"""Number of sums of neighbouring segments that are made at a time, by blocks of their own."""
GROUPS, RUN, TILES = 4, 128, 8
"""Number of groups of templates, of bins, and of multiples of these bins, in a block that stages the sums that its
templates share.
"""
STAGED_THREADS, STAGED_BLOCKS, STAGED_ROWS = 256, 2, 32
"""Number of threads of a staging block, of such blocks on a multiprocessor, and of sums that it has room for at a time.
"""
MOST_SUMS = 55
"""Most sums of a template, whose lists are kept in shared memory: all GPUs have enough."""


@dataclass(frozen=True)
class CudaSums(XlaSums):
    """Sums of segments' values by kernels, equal to `XlaSums`."""

    name: ClassVar[str] = "cuda"
    needs: ClassVar[str] = "an NVIDIA GPU of compute capability 8.0 or higher"

    def usable(self, device: Device) -> bool:
        """Return whether the device is a recent NVIDIA GPU."""
        return launch.capable(device)

    def unavailable(self) -> str | None:
        """Return the message of the driver or compiler about a first kernel; None if it works."""
        return Cuda().unavailable()

    def sums(self, bands: CoherentBands, groups: Groups) -> Sums:
        """Compute sums over segments in the order of `sums.added`, equal to the bit on all devices."""
        groups = groups.filled(1, GROUP)
        with jax.named_scope("sums"):
            n_groups, _, n_segments = groups.rows.shape
            n = -(-n_groups // GROUPS) * GROUPS * GROUP
            too_many = n > shared.most_templates(bands.piece, n_segments) or n_segments > TOGETHER * MOST_SUMS
            if too_many or not shared.pays(bands, groups):
                return _sums(bands, groups)
            own = Groups(*(x.reshape(-1, GROUPS * GROUP, *x.shape[2:]) for x in groups.filled(0, GROUPS)))
            made = shared.shared_sums(bands, own)

            def of_shared(bands: CoherentBands, own: Groups, made: SharedSums) -> Sums:
                found = _sums_of_shared(bands, own, made)
                return found._replace(tops=found.tops[:, :n_groups])

            return jax.lax.cond(made.complete, of_shared, lambda bands, *_: _sums(bands, groups), bands, own, made)


def _sums(bands: CoherentBands, groups: Groups) -> Sums:
    """Compute sums by reading every segment's values for each template."""
    n_groups, _, n_segments = groups.rows.shape
    piece = jnp.arange(bands.n_pieces, dtype=jnp.int64) * bands.piece
    rows = groups.rows.astype(jnp.int64)[..., None] * bands.values.shape[1]
    offsets = rows + groups.shifts.astype(jnp.int64) + piece + bands.padding  # (G, size, K, C)
    offsets = jnp.transpose(offsets, (3, 0, 2, 1))
    results = (
        jax.ShapeDtypeStruct((bands.n_pieces, n_groups, bands.piece), jnp.float32),
        jax.ShapeDtypeStruct((COPIES, BINS), jnp.int32),
    )
    numbers = jnp.asarray(np.array([n_segments, bands.piece, n_groups], np.int32))
    adding = launch.call(program(bands.piece), results, {5: 1})
    return _finished(*adding(bands.values, offsets, groups.bins, numbers, _scales(n_segments), _no_counts()))


def _sums_of_shared(bands: CoherentBands, groups: Groups, made: SharedSums) -> Sums:
    """Compute sums from sums of neighbouring segments, made for some pieces of the band at a time to save memory."""
    width, room = bands.piece + STEP, made.starts.shape[1]
    at_a_time = max(1, shared.MOST_BYTES // (FLOAT32 * room * width))
    n_calls = -(-bands.n_pieces // at_a_time)
    n_pieces = -(-bands.n_pieces // n_calls)
    n_groups, n_sums, size = made.index.shape[1:]
    lists, counts, places = launch.call(
        ranks(),
        (
            jax.ShapeDtypeStruct(made.index.shape, jnp.int32),
            jax.ShapeDtypeStruct(made.index.shape[:-1], jnp.int32),
            jax.ShapeDtypeStruct(made.index.shape, jnp.uint16),
        ),
    )(made.index, made.shift)
    sizes = np.array([width, bands.values.size, room], np.int64)
    making = launch.call(sharing(bands.piece), jax.ShapeDtypeStruct((n_pieces, room, width), jnp.float32))
    numbers = np.array([n_sums, bands.piece, n_groups, room, bands.padding], np.int32)
    tops = jax.ShapeDtypeStruct((n_pieces, n_groups * size // GROUP, bands.piece), jnp.float32)
    adding = launch.call(staging(n_sums), (tops, jax.ShapeDtypeStruct((COPIES, BINS), jnp.int32)), {7: 1})
    scales = _scales(groups.rows.shape[2])

    def some(histogram: jax.Array, part: tuple[jax.Array, tuple[jax.Array, ...]]) -> tuple[jax.Array, jax.Array]:
        first, (starts, count, own_lists, own_counts, own_places) = part
        values = making(bands.values, starts, count, jnp.asarray(sizes))
        counted = groups.bins - first * bands.piece
        tops, histogram = adding(
            values, own_lists, own_counts, own_places, counted, jnp.asarray(numbers), scales, histogram
        )
        return histogram, tops

    def divided(x: jax.Array) -> jax.Array:  # pieces that fill up the last call lie beyond the band, and count nowhere
        x = jnp.pad(x, ((0, n_calls * n_pieces - bands.n_pieces), *[(0, 0)] * (x.ndim - 1)))
        return x.reshape(n_calls, n_pieces, *x.shape[1:])

    first = jnp.arange(n_calls, dtype=jnp.int32) * n_pieces
    each = tuple(divided(x) for x in (made.starts, made.count, lists, counts, places))
    histogram, tops = jax.lax.scan(some, _no_counts(), (first, each))
    return _finished(tops.reshape(-1, *tops.shape[2:])[: bands.n_pieces], histogram)


def _no_counts() -> jax.Array:
    return jnp.zeros((COPIES, BINS), jnp.int32)


def _scales(n_segments: int) -> jax.Array:
    """Return the factors from sums to means, and from differences of means from 4 to the histogram's scale."""
    return jnp.asarray(np.array([1 / n_segments, np.sqrt(n_segments)], np.float32))


def _finished(tops: jax.Array, histogram: jax.Array) -> Sums:
    return Sums(tops, jnp.max(tops, axis=1), jnp.sum(histogram, axis=0, dtype=jnp.int64))


def program(piece: int) -> Program:
    """Return the kernel that adds up all segments, for pieces of the band of a given number of bins."""
    threads, each = _block(piece)
    constants = {
        "THREADS": threads,
        "V": each,
        "TEMPLATES": GROUP,
        "SEGMENTS": SEGMENTS,
        "TOGETHER": TOGETHER,
        "BINS": BINS,
        "WIDTH": WIDTH,
        "COPIES": COPIES,
        "BLOCKS": BLOCKS,
    }
    return Program.of("sums.cu", "sums", constants, _grid, threads)


def sharing(piece: int) -> Program:
    """Return the kernel that makes the sums that templates share."""
    threads, each = _block(piece)
    constants = {"THREADS": threads, "V": each, "TOGETHER": TOGETHER, "ROWS": ROWS}
    return Program.of("shared.cu", "shared_sums", constants, _grid_of_shared, threads)


def ranks() -> Program:
    """Return the kernel that lists the sums that a block's templates share."""
    templates = GROUPS * GROUP
    constants = {"TEMPLATES": templates, "WIDTH": RUN + STEP}
    return Program.of("ranks.cu", "ranks", constants, _grid_of_ranks, templates)


def staging(n_sums: int) -> Program:
    """Return the kernel that adds up the sums that templates share, a given number for each template."""
    memory = FLOAT32 * 2 * STAGED_ROWS * (RUN + STEP) + 4 * STAGED_THREADS * BINS
    constants = {
        "THREADS": STAGED_THREADS,
        "BLOCKS": STAGED_BLOCKS,
        "GROUPS": GROUPS,
        "TEMPLATES": GROUP,
        "RUN": RUN,
        "TILES": TILES,
        "STEP": STEP,
        "ROWS": STAGED_ROWS,
        "MEMORY": memory,
        "BINS": BINS,
        "WIDTH": WIDTH,
        "COPIES": COPIES,
    }
    lists = n_sums * (2 * GROUPS * GROUP + 4 + 4 * STAGED_ROWS)
    return Program.of("staged.cu", "staged", constants, _grid_of_staged, STAGED_THREADS, memory + lists)


def _block(piece: int) -> tuple[int, int]:
    threads = min(THREADS, piece)
    return threads, min(EACH, piece // threads)


def _grid(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, n_groups, length = shapes[6]
    return n_groups * n_pieces * (length // (own["THREADS"] * own["V"])), 1, 1


def _grid_of_shared(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, _, width = shapes[4]
    return own["ROWS"] * n_pieces * -(-width // (own["THREADS"] * own["V"])), 1, 1


def _grid_of_ranks(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, n_groups, n_sums = shapes[3]
    return n_pieces * n_groups * n_sums, 1, 1


def _grid_of_staged(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, n_groups, length = shapes[8]
    return n_pieces * n_groups // own["GROUPS"] * -(-length // (own["RUN"] * own["TILES"])), 1, 1
