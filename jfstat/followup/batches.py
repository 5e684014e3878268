"""Divide candidates into batches that share a compiled function and fit into caches or memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jfstat.compileroptions import Jitted
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.narrow import COARSE_TURNS, NarrowPlan, usual_reaches
from jfstat.data.narrowdata import NODES
from jfstat.maths.ladder import padded_size
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields

FEW = 8
"""Largest batch of candidates that on a CPU wait longer for compilation than for anything else."""
SIZES, DEVICE_SIZES = (1, 8, 32), (1, 64, 256)
"""Numbers of candidates in one call, on a CPU and on an accelerator: few sizes need few compilations."""
MANY = 512
"""Number of candidates beyond which an accelerator takes longer to compute than to compile programs of other sizes."""
LANES, DEVICE_LANES = 1 << 16, 1 << 22
"""Number of phases computed at a time, over all candidates, climbs or trial points, and nodes: as many as fit into a
CPU's caches, or into an accelerator's memory, where each takes about 3 kB for a Hessian in seven parameters."""
DEVICE_SAMPLES = 1 << 24
"""Number of samples that an accelerator compresses together, of several candidates if one has fewer."""
BLOCK_STEPS, LEAST_BLOCKS = 8, 16
"""Numbers of blocks of narrow data per octave, and the least if there are to be few sizes."""
COMPARED = 8
"""About the largest number of times in each SFT at which a candidate is surveyed or compared with its peak."""
SMALL_NODES = 1 << 16
"""Largest number of nodes of narrow data that count as small."""
MOST_NODES = 1 << 22
"""Largest number of nodes of narrow data with which a candidate is followed up: more would exceed the data
themselves."""


class Climbing(NamedTuple):
    """Number of climbs from each candidate of a batch, and how much is computed at a time.

    Attributes
    ----------
    n_climbs : int
        Number of trial points from which to climb.
    candidates : int
        Candidates around which one looks together, a power of two; as many climbs as theirs are computed together.
    trials : int
        Largest number of each candidate's trial points that are computed together.
    """

    n_climbs: int
    candidates: int
    trials: int


class Batch(NamedTuple):
    """Candidates that are followed up together.

    Attributes
    ----------
    rows : (n,) int64 ndarray
        Rows of the candidates in their table.
    places : (size,) int64 ndarray
        Positions of the candidates among the rows from which batches were made, padded by repeating the last.
    """

    rows: np.ndarray
    places: np.ndarray


def _on_cpu(data: FstatData) -> bool:
    """Return whether the data lie on a CPU."""
    return device_of(data).platform == "cpu"


def batch_sizes(data: FstatData) -> tuple[int, ...]:
    """Return the numbers of candidates that can be computed at a time, in increasing order."""
    return SIZES if _on_cpu(data) else DEVICE_SIZES


def climbing_for(data: FstatData, size: int, n_blocks: int, n_climbs: int, n_trials: int) -> Climbing:
    """Return how much of a batch of `size` candidates fits into caches or memory, for narrow data of `n_blocks` blocks.

    Blocks of time of all segments count.
    """
    nodes = len(data.detectors) * n_blocks * NODES
    lanes = LANES if _on_cpu(data) else DEVICE_LANES
    # a group is computed whole, even if it is not full, which a CPU can avoid
    most = batch_sizes(data)[1 if _on_cpu(data) else -1]
    candidates = min(size, most, _power_of_two(lanes // (n_climbs * nodes)))
    groups = -(-n_trials // max(1, lanes // (candidates * nodes)))
    return Climbing(n_climbs, candidates, -(-n_trials // groups))


def with_usual_size(plan: NarrowPlan, few_sizes: bool) -> NarrowPlan:
    """Return a plan of narrow data with empty blocks added, up to one of few numbers of blocks (`padded_size`).

    Data of other lengths then often share the programs that take narrow data; with `few_sizes`, most do.
    """
    n = plan.first.shape[-1]
    usual = padded_size(max(n, LEAST_BLOCKS), 1) if few_sizes else padded_size(n, BLOCK_STEPS)
    fill = [(0, 0)] * (plan.first.ndim - 1) + [(0, usual - n)]
    return replace(plan, first=np.pad(plan.first, fill, mode="edge"))


def compressed_together(data: FstatData, size: int) -> int:
    """Return how many candidates of a batch of `size` have their data compressed together; a power of two."""
    return 1 if _on_cpu(data) else min(size, _power_of_two(DEVICE_SAMPLES // data.series.size))


def compared_together(data: FstatData, size: int) -> int:
    """Return how many of a batch of `size` candidates are surveyed, or compared with their peaks, together; a power of
    two."""
    return 1 if _on_cpu(data) else min(size, _power_of_two(DEVICE_LANES // (COMPARED * data.observation.start.size)))


def described_together(data: FstatData, size: int) -> int:
    """Return how many peaks of a batch of `size` candidates are described together, whatever their data."""
    return 1 if _on_cpu(data) else size


def _power_of_two(n: int) -> int:
    """Return the largest power of two up to n, at least 1."""
    return 1 << (max(n, 1).bit_length() - 1)


def reaches(data: FstatData, points: Doppler) -> np.ndarray:
    """Return the reach of narrow data for each template of a stack, Hz, (n,) float64: a power of two times the reach
    without an orbit."""
    least = float(usual_reaches(data, with_fields(points, orbit=None))[0]) if len(points.alpha) else 0.0
    if points.orbit is None:
        return np.full(len(points.alpha), least)
    return np.where(points.orbit.asini == 0, least, in_steps(usual_reaches(data, points), least))


def in_steps(reach: np.ndarray, least: float | np.ndarray, ratio: float = 2.0) -> np.ndarray:
    """Round reaches up to `least` times powers of a ratio, so that many candidates use one compiled program."""
    return least * ratio ** np.ceil(np.log2(reach / least) / np.log2(ratio) - 1e-9)


def narrow_nodes(data: FstatData, reach: np.ndarray) -> np.ndarray:
    """Return about how many nodes narrow data of given reaches have, (n,) float64."""
    n_series = len(data.detectors) * (data.n_segments or 1)
    return n_series * NODES * float(data.tspan) * reach / COARSE_TURNS


def too_many_nodes(data: FstatData, reach: np.ndarray) -> np.ndarray:
    """Return whether narrow data of given reaches would be too large, (n,) bool."""
    return narrow_nodes(data, reach) > MOST_NODES


def are_small(data: FstatData, reach: np.ndarray | float) -> np.ndarray:
    """Return whether narrow data of given reaches are so small that on accelerators they may be wider than needed, or
    those of a whole batch take little memory, if this spares a compilation; (n,) bool."""
    return narrow_nodes(data, np.asarray(reach)) <= SMALL_NODES


def programs_cost_more(data: FstatData, n: int) -> bool:
    """Return whether compiling programs takes longer than running them for n candidates: so on accelerators, unless
    there are many."""
    return not _on_cpu(data) and n <= MANY


def batch_size(data: FstatData, n: int, in_regions: bool = False) -> int:
    """Return the size of the batches of n candidates: the smallest that holds all, or the largest; on accelerators
    always the largest, of which only the part that is filled takes time.

    A single candidate has a batch for itself on accelerators, too, unless it is in a region that a stage of a follow-up
    left (`in_regions`): it may be what is left of several, and then finds their programs.
    """
    sizes = batch_sizes(data)
    if not _on_cpu(data) and (n > 1 or in_regions):
        return sizes[-1]
    return next((size for size in sizes if size >= n), sizes[-1])


def narrow_batch_size(data: FstatData, reach: float, n: int, usual: int) -> int:
    """Return the size of batches of n candidates whose narrow data have this reach: the usual one, or on accelerators,
    where the narrow data of so many would take much memory, the middle one or 1."""
    if _on_cpu(data) or are_small(data, reach):
        return usual
    return 1 if n == 1 else min(usual, batch_sizes(data)[1])


def table_size(data: FstatData, n: int) -> int:
    """Return how many rows a table of n candidates is padded to where all are computed together: a power of two, on
    accelerators at least the middle size of batches."""
    return padded_size(n if _on_cpu(data) else max(n, batch_sizes(data)[1]), 1)


def suited(program: Jitted, data: FstatData, size: int, most: int = FEW) -> Jitted:
    """Return a program in the form for batches of `size` candidates.

    It is compiled in little time on a CPU for up to `most` candidates, where it then runs at a fifth of the speed, and
    always on an accelerator, where it runs as fast.
    """
    return program.quickly if size <= most or not _on_cpu(data) else program


def wants_few_sizes(data: FstatData, size: int) -> bool:
    """Return whether batches of `size` candidates should have arrays of few sizes, some much larger than needed."""
    return size <= FEW or not _on_cpu(data)


def batches(rows: np.ndarray, kind: np.ndarray, size: Callable[[int, int], int]) -> Iterator[Batch]:
    """Yield batches of candidates of equal kind.

    Parameters
    ----------
    rows : (n,) int64 ndarray
        Which candidates.
    kind : (n,) ndarray
        Kind of each candidate, equal within a batch.
    size : callable
        Size of the batches of a kind with so many candidates.
    """
    for value in np.unique(kind):
        members = np.flatnonzero(kind == value)
        own = size(int(value), len(members))
        for start in range(0, len(members), own):
            batch = members[start : start + own]
            yield Batch(rows[batch], batch[np.minimum(np.arange(own), len(batch) - 1)])
