"""The interpolating search's sums by kernels in CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.memory import FLOAT32, Device
from jfstat.statistic.backends.cuda import launch
from jfstat.statistic.backends.cuda.backend import Cuda
from jfstat.statistic.backends.cuda.launch import Program, Shapes
from jfstat.statistic.backends.interpolated import GROUP, TOGETHER, CoherentBands, Groups, Interpolated, Sums
from jfstat.statistic.backends.reduction import BINS, WIDTH
from jfstat.statistic.backends.shared import STEP, SharedSums, shared_sums

THREADS, EACH = 128, 2
"""Threads of a block, and bins of a thread, if the pieces of the band are long enough."""
SEGMENTS = 18
"""Segments, or sums of some, whose offsets are in shared memory at a time."""
COPIES = 64
"""Of the histogram."""
BLOCKS = 4
"""Least number on a multiprocessor."""
ROWS = 16
"""Sums of neighbouring segments that are made at a time, by blocks of their own."""
SHARED_BYTES = 1 << 30
"""Most memory of these sums."""
LEAST_SHARED = 512
"""Bins of a piece of the band from which on templates share sums, which are longer by `shared.STEP`."""


@dataclass(frozen=True)
class CudaInterpolated(Interpolated):
    """Sums by a kernel; the values are those of `Interpolated`."""

    name: ClassVar[str] = "cuda"
    needs: ClassVar[str] = "an NVIDIA GPU of compute capability 8.0 or higher"

    def usable(self, device: Device) -> bool:
        """Whether it is a recent NVIDIA GPU."""
        return launch.capable(device)

    def unavailable(self) -> str | None:
        """What the driver or the compiler says to a first kernel."""
        return Cuda().unavailable()

    def sums(self, bands: CoherentBands, groups: Groups) -> Sums:
        """The kernels add up segments as `interpolated.added`, so that sums are those of other devices to the bit."""
        filled = GROUP - groups.rows.shape[1]
        # templates that fill up the last group read what others do, and count nowhere
        groups = Groups(
            jnp.pad(groups.rows, ((0, 0), (0, filled), (0, 0)), mode="edge"),
            jnp.pad(groups.shifts, ((0, 0), (0, filled), (0, 0), (0, 0)), mode="edge"),
            jnp.pad(groups.bins, ((0, 0), (0, filled), (0, 0)), constant_values=-1),
        )
        with jax.named_scope("sums"):
            if groups.rows.shape[2] < 2 * TOGETHER or bands.piece < LEAST_SHARED:
                return _sums(bands, groups)
            shared = shared_sums(bands, groups)
            return jax.lax.cond(shared.complete, _sums_of_shared, lambda b, g, _: _sums(b, g), bands, groups, shared)


def _sums(bands: CoherentBands, groups: Groups) -> Sums:
    """Every segment's values are read for each template."""
    piece = jnp.arange(bands.n_pieces, dtype=jnp.int64) * bands.piece
    rows = groups.rows.astype(jnp.int64)[..., None] * bands.values.shape[1]
    offsets = rows + groups.shifts.astype(jnp.int64) + piece + bands.padding  # (G, size, K, C)
    offsets = jnp.transpose(offsets, (3, 0, 2, 1))
    own = program(bands.piece, TOGETHER)
    return _finished(*_kernel(own, bands, bands.values, offsets, groups.bins, groups.rows.shape[2], _no_counts()))


def _sums_of_shared(bands: CoherentBands, groups: Groups, shared: SharedSums) -> Sums:
    """Neighbouring segments' sums are made first, for some pieces of the band at a time, which bounds their memory."""
    width, room = bands.piece + STEP, shared.starts.shape[1]
    at_a_time = max(1, SHARED_BYTES // (FLOAT32 * room * width))
    n_calls = -(-bands.n_pieces // at_a_time)
    n_pieces = -(-bands.n_pieces // n_calls)
    numbers = np.array([width, bands.values.size, room], np.int64)
    results = jax.ShapeDtypeStruct((n_pieces, room, width), jnp.float32)
    theirs, own = launch.call(sharing(bands.piece), results), program(bands.piece, 1)
    first_sum = jnp.arange(n_pieces, dtype=jnp.int64)[:, None, None, None] * room

    def some(histogram: jax.Array, part: tuple[jax.Array, tuple[jax.Array, ...]]) -> tuple[jax.Array, jax.Array]:
        first, (starts, count, index, shift) = part
        values = theirs(bands.values, starts, count, jnp.asarray(numbers))
        offsets = (first_sum + index.astype(jnp.int64)) * width + shift.astype(jnp.int64)
        counted = groups.bins - first * bands.piece
        tops, histogram = _kernel(own, bands, values, offsets, counted, groups.rows.shape[2], histogram)
        return histogram, tops

    def divided(x: jax.Array) -> jax.Array:  # pieces that fill up the last call lie beyond the band, and count nowhere
        x = jnp.pad(x, ((0, n_calls * n_pieces - bands.n_pieces), *[(0, 0)] * (x.ndim - 1)))
        return x.reshape(n_calls, n_pieces, *x.shape[1:])

    first = jnp.arange(n_calls, dtype=jnp.int32) * n_pieces
    each = tuple(divided(x) for x in (shared.starts, shared.count, shared.index, shared.shift))
    histogram, tops = jax.lax.scan(some, _no_counts(), (first, each))
    return _finished(tops.reshape(-1, *tops.shape[2:])[: bands.n_pieces], histogram)


def _kernel(
    own: Program,
    bands: CoherentBands,
    values: jax.Array,
    offsets: jax.Array,
    counted: jax.Array,
    n_segments: int,
    histogram: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Maxima of groups, (C, G, piece), and copies of the histogram, to which numbers are added.

    Parameters
    ----------
    own : Program
    bands : CoherentBands
    values : array of float32
        Of segments, or sums of a few.
    offsets : (C, G, N, GROUP) int64
        Where those of N segments or sums that a template reads begin, for each piece.
    counted : (G, GROUP, 2) int32
    n_segments : int
        By which sums are divided.
    histogram : (COPIES, BINS) int32
    """
    n_pieces, n_groups, n_sums, _ = offsets.shape
    scales = np.array([1 / n_segments, np.sqrt(n_segments)], np.float32)
    results = (
        jax.ShapeDtypeStruct((n_pieces, n_groups, bands.piece), jnp.float32),
        jax.ShapeDtypeStruct((COPIES, BINS), jnp.int32),
    )
    numbers = jnp.asarray(np.array([n_sums, bands.piece, n_groups], np.int32))
    return launch.call(own, results, {5: 1})(values, offsets, counted, numbers, jnp.asarray(scales), histogram)


def _no_counts() -> jax.Array:
    return jnp.zeros((COPIES, BINS), jnp.int32)


def _finished(tops: jax.Array, histogram: jax.Array) -> Sums:
    return Sums(tops, jnp.max(tops, axis=1), jnp.sum(histogram, axis=0, dtype=jnp.int32))


def program(piece: int, together: int) -> Program:
    """The kernel for pieces of the band of so many bins, and so many segments that are added first."""
    threads, each = _block(piece)
    constants = {
        "THREADS": threads,
        "V": each,
        "TEMPLATES": GROUP,
        "SEGMENTS": SEGMENTS,
        "TOGETHER": together,
        "BINS": BINS,
        "WIDTH": WIDTH,
        "COPIES": COPIES,
        "BLOCKS": BLOCKS,
    }
    return Program.of("sums.cu", "sums", constants, _grid, threads)


def sharing(piece: int) -> Program:
    """The kernel that makes the sums that templates share."""
    threads, each = _block(piece)
    constants = {"THREADS": threads, "V": each, "TOGETHER": TOGETHER, "ROWS": ROWS}
    return Program.of("shared.cu", "shared_sums", constants, _grid_of_shared, threads)


def _block(piece: int) -> tuple[int, int]:
    threads = min(THREADS, piece)
    return threads, min(EACH, piece // threads)


def _grid(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, n_groups, length = shapes[6]
    return n_groups * n_pieces * (length // (own["THREADS"] * own["V"])), 1, 1


def _grid_of_shared(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, _, width = shapes[4]
    return own["ROWS"] * n_pieces * -(-width // (own["THREADS"] * own["V"])), 1, 1
