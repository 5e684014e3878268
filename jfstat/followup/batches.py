"""From a set of candidates to batches that one compiled function serves, sized by caches or memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.narrow import COARSE_TURNS, usual_reach
from jfstat.data.nearby import NODES
from jfstat.parameters import with_fields
from jfstat.templates import Doppler

SIZES, DEVICE_SIZES = (1, 8, 32), (1, 16, 256)
"""Candidates in one call of compiled code, on a CPU and on an accelerator: few sizes, few compilations."""
LANES, DEVICE_LANES = 1 << 16, 1 << 23
"""Values of a phase computed at a time, over candidates, climbs or trial points and nodes: on a CPU as its caches hold,
on an accelerator as its memory does, where each takes some 3 kB of a Hessian of seven parameters."""
DEVICE_SAMPLES = 1 << 24
"""Samples of the data that an accelerator compresses together, for several candidates if one has fewer."""
MOST_NODES = 1 << 22
"""Nodes of narrow data beyond which a candidate is not followed up: they would exceed what they are made of."""


class GroupSizes(NamedTuple):
    """How much of a batch is computed at a time; powers of two.

    Attributes
    ----------
    compressed, climbing : int
        Candidates.
    tried : int
        Trial points of each of those.
    """

    compressed: int
    climbing: int
    tried: int


class Batch(NamedTuple):
    """Candidates that are followed up together.

    Attributes
    ----------
    rows : (n,) int64 ndarray
    points : Doppler
        Stack, padded to one of the sizes; without orbits if isolated.
    reach : float
        Of their narrow data, Hz.
    """

    rows: np.ndarray
    points: Doppler
    reach: float


def on_cpu(data: FstatData) -> bool:
    """Whether the data lie on a CPU."""
    return device_of(data).platform == "cpu"


def batch_sizes(data: FstatData) -> tuple[int, ...]:
    """Numbers of candidates to compute at a time, rising."""
    return SIZES if on_cpu(data) else DEVICE_SIZES


def group_sizes(data: FstatData, size: int, n_blocks: int, n_climbs: int, n_trials: int) -> GroupSizes:
    """What caches or memory hold of a batch of `size` candidates whose narrow data have `n_blocks` blocks of time."""
    nodes = len(data.detectors) * n_blocks * NODES
    lanes = LANES if on_cpu(data) else DEVICE_LANES
    # the slowest climb of a group keeps the others waiting, which a CPU can avoid
    most = batch_sizes(data)[1 if on_cpu(data) else -1]
    climbing = min(size, most, _power_of_two(lanes // (n_climbs * nodes)))
    compressed = 1 if on_cpu(data) else min(size, _power_of_two(DEVICE_SAMPLES // data.series.size))
    return GroupSizes(compressed, climbing, min(n_trials, _power_of_two(lanes // (climbing * nodes))))


def _power_of_two(n: int) -> int:
    """The largest power of two up to n; 1 at least."""
    return 1 << (max(n, 1).bit_length() - 1)


def reaches(data: FstatData, points: Doppler) -> np.ndarray:
    """Reach for each of a stack of templates, in octaves of the isolated ones' reach, Hz: (n,) float64."""
    least = usual_reach(data, with_fields(points, orbit=None))
    if points.orbit is None:
        return np.full(len(points.alpha), least)
    isolated = points.orbit.asini == 0
    own = np.array([usual_reach(data, jax.tree.map(lambda x, row=row: x[row], points)) for row in range(len(isolated))])
    return np.where(isolated, least, least * 2.0 ** np.ceil(np.log2(own / least) - 1e-9))


def too_many_nodes(data: FstatData, reach: np.ndarray) -> np.ndarray:
    """Whether narrow data of such reaches would be too large, (n,) bool."""
    return len(data.detectors) * NODES * data.tspan * reach / COARSE_TURNS > MOST_NODES


def batches(data: FstatData, points: Doppler, rows: np.ndarray) -> Iterator[Batch]:
    """Rows of a stack in batches of one reach, isolated candidates and binaries apart.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack, NumPy leaves.
    rows : (n,) int64 ndarray
        Those to follow up.
    """
    isolated = np.ones(len(points.alpha), bool) if points.orbit is None else points.orbit.asini == 0
    reach = reaches(data, points)
    sizes = batch_sizes(data)
    for alone in (True, False):
        for value in np.unique(reach[rows[isolated[rows] == alone]]):
            members = rows[(isolated[rows] == alone) & (reach[rows] == value)]
            start = 0
            while start < len(members):
                left = len(members) - start
                # the largest size that is filled, unless padding a larger one wastes little
                size = next((s for s in sizes if left <= s <= 2 * left), max(s for s in sizes if s <= left))
                batch = members[start : start + size]
                padded = batch[np.minimum(np.arange(size), len(batch) - 1)]
                stack = jax.tree.map(lambda x, padded=padded: x[padded], points)
                yield Batch(batch, with_fields(stack, orbit=None) if alone else stack, float(value))
                start += size
