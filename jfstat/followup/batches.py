"""Dividing candidates into batches that share a compiled function and fit into caches or memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.narrow import COARSE_TURNS, usual_reaches
from jfstat.data.narrowdata import NODES
from jfstat.parameters import with_fields
from jfstat.templates import Doppler

SIZES, DEVICE_SIZES = (1, 8, 32), (1, 16, 256)
"""Numbers of candidates in one call, on a CPU and on an accelerator: few sizes need few compilations."""
LANES, DEVICE_LANES = 1 << 16, 1 << 23
"""Phases computed at a time, of all candidates, climbs or trial points, and nodes: as many as fit into a CPU's caches,
or into an accelerator's memory, where each takes about 3 kB for a Hessian in seven parameters."""
DEVICE_SAMPLES = 1 << 24
"""Samples that an accelerator compresses together, of several candidates if one has fewer."""
MOST_NODES = 1 << 22
"""Nodes of narrow data beyond which a candidate is not followed up: they would be larger than the data themselves."""


WIDE_BINS = 40.0
"""Least reach in units of 1/T if climbs may start from all surroundings."""


class Climbing(NamedTuple):
    """How often each candidate of a batch is climbed from, and how much is computed at a time.

    Attributes
    ----------
    n_climbs : int
        From how many of the trial points to climb.
    candidates : int
        Candidates whose climbs are computed together, a power of two.
    trials : int
        Trial points of each of those that are computed together, a power of two.
    wide : bool
        Whether climbs may start from all surroundings, not only from trial points.
    """

    n_climbs: int
    candidates: int
    trials: int
    wide: bool


class Batch(NamedTuple):
    """Candidates that are followed up together.

    Attributes
    ----------
    rows : (n,) int64 ndarray
    points : Doppler
        A stack, padded to one of the sizes; isolated candidates are without orbits.
    reach : float
        Reach of their narrow data, Hz.
    """

    rows: np.ndarray
    points: Doppler
    reach: float


def _on_cpu(data: FstatData) -> bool:
    """Whether the data lie on a CPU."""
    return device_of(data).platform == "cpu"


def batch_sizes(data: FstatData) -> tuple[int, ...]:
    """Numbers of candidates to compute at a time, rising."""
    return SIZES if _on_cpu(data) else DEVICE_SIZES


def climbing_for(
    data: FstatData, size: int, n_blocks: int, n_climbs: int, n_trials: int, wide: bool = False
) -> Climbing:
    """What caches or memory hold of a batch of `size` candidates whose narrow data have `n_blocks` blocks of time."""
    nodes = len(data.detectors) * n_blocks * NODES
    lanes = LANES if _on_cpu(data) else DEVICE_LANES
    # the slowest climb of a group keeps the others waiting, which a CPU can avoid
    most = batch_sizes(data)[1 if _on_cpu(data) else -1]
    candidates = min(size, most, _power_of_two(lanes // (n_climbs * nodes)))
    return Climbing(n_climbs, candidates, min(n_trials, _power_of_two(lanes // (candidates * nodes))), wide)


def compressed_together(data: FstatData, size: int) -> int:
    """Candidates, of a batch of `size`, whose data are compressed together; a power of two."""
    return 1 if _on_cpu(data) else min(size, _power_of_two(DEVICE_SAMPLES // data.series.size))


def _power_of_two(n: int) -> int:
    """The largest power of two up to n; 1 at least."""
    return 1 << (max(n, 1).bit_length() - 1)


def reaches(data: FstatData, points: Doppler, wide: bool = False) -> np.ndarray:
    """Reach of narrow data for each template of a stack, Hz, (n,) float64: a power of two times that without orbit."""
    least = float(usual_reaches(data, with_fields(points, orbit=None))[0]) if len(points.alpha) else 0.0
    if wide:
        least = max(least, WIDE_BINS / float(data.tspan))
    if points.orbit is None:
        return np.full(len(points.alpha), least)
    isolated = points.orbit.asini == 0
    own = usual_reaches(data, points)
    return np.where(isolated, least, least * 2.0 ** np.ceil(np.log2(own / least) - 1e-9))


def too_many_nodes(data: FstatData, reach: np.ndarray) -> np.ndarray:
    """Whether narrow data of such reaches would be too large, (n,) bool."""
    return len(data.detectors) * NODES * float(data.tspan) * reach / COARSE_TURNS > MOST_NODES


def batches(data: FstatData, points: Doppler, rows: np.ndarray, wide: bool = False) -> Iterator[Batch]:
    """Batches of candidates of equal reach, isolated candidates and binaries in different batches.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack, NumPy leaves.
    rows : (n,) int64 ndarray
        Which candidates to follow up.
    wide : bool
        See `Climbing`.
    """
    isolated = np.ones(len(points.alpha), bool) if points.orbit is None else points.orbit.asini == 0
    reach = reaches(data, points, wide)
    sizes = batch_sizes(data)
    for alone in (True, False):
        for value in np.unique(reach[rows[isolated[rows] == alone]]):
            members = rows[(isolated[rows] == alone) & (reach[rows] == value)]
            start = 0
            while start < len(members):
                left = len(members) - start
                # the largest size that is filled, or a larger one if at least half of it is
                size = next((s for s in sizes if left <= s <= 2 * left), max(s for s in sizes if s <= left))
                batch = members[start : start + size]
                padded = batch[np.minimum(np.arange(size), len(batch) - 1)]
                stack = jax.tree.map(lambda x, padded=padded: x[padded], points)
                yield Batch(batch, with_fields(stack, orbit=None) if alone else stack, float(value))
                start += size
