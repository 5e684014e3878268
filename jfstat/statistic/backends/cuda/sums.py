"""The interpolating search's sums by a kernel in CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.memory import Device
from jfstat.statistic.backends.cuda import launch
from jfstat.statistic.backends.cuda.backend import Cuda
from jfstat.statistic.backends.cuda.launch import Program, Shapes
from jfstat.statistic.backends.interpolated import GROUP, CoherentBands, Groups, Interpolated, Sums
from jfstat.statistic.backends.reduction import BINS, WIDTH

THREADS, EACH = 128, 2
"""Threads of a block, and bins of a thread, if the pieces of the band are long enough."""
SEGMENTS = 16
"""Segments whose offsets are in shared memory at a time."""
COPIES = 64
"""Of the histogram."""
BLOCKS = 4
"""Least number on a multiprocessor."""


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
        """The kernel adds up the segments in their order, so that its sums are those of other devices to the bit."""
        n_groups, size, n_segments = groups.rows.shape
        piece = jnp.arange(bands.n_pieces, dtype=jnp.int64) * bands.piece
        rows = groups.rows.astype(jnp.int64)[..., None] * bands.values.shape[1]
        offsets = rows + groups.shifts.astype(jnp.int64) + piece + bands.padding  # (G, size, K, C)
        # templates that fill up the last group read what others do, and count nowhere
        offsets = jnp.pad(offsets, ((0, 0), (0, GROUP - size), (0, 0), (0, 0)), mode="edge")
        counted = jnp.pad(groups.bins, ((0, 0), (0, GROUP - size), (0, 0)), constant_values=-1)
        scales = np.array([1 / n_segments, np.sqrt(n_segments)], np.float32)
        results = (
            jax.ShapeDtypeStruct((bands.n_pieces, n_groups, bands.piece), jnp.float32),
            jax.ShapeDtypeStruct((COPIES, BINS), jnp.int32),
        )
        with jax.named_scope("sums"):
            tops, histogram = launch.call(program(bands.piece), results, {5: 1})(
                bands.values,
                jnp.transpose(offsets, (3, 0, 2, 1)),
                counted,
                jnp.asarray(np.array([n_segments, bands.piece, n_groups], np.int32)),
                jnp.asarray(scales),
                jnp.zeros((COPIES, BINS), jnp.int32),
            )
        return Sums(tops, jnp.max(tops, axis=1), jnp.sum(histogram, axis=0, dtype=jnp.int32))


def program(piece: int) -> Program:
    """The kernel for pieces of the band of so many bins."""
    threads = min(THREADS, piece)
    constants = {
        "THREADS": threads,
        "V": min(EACH, piece // threads),
        "TEMPLATES": GROUP,
        "SEGMENTS": SEGMENTS,
        "BINS": BINS,
        "WIDTH": WIDTH,
        "COPIES": COPIES,
        "BLOCKS": BLOCKS,
    }
    return Program.of("sums.cu", "sums", constants, _grid, threads)


def _grid(own: Program, shapes: Shapes) -> tuple[int, int, int]:
    n_pieces, n_groups, length = shapes[6]
    return n_groups * n_pieces * (length // (own["THREADS"] * own["V"])), 1, 1
