"""Divide an interpolating search over segments into parts of the bank, and compute the segments' 2F for each part."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.coherent import IsolatedGroup
from jfstat.banks.nearest import Group
from jfstat.banks.orbitgroup import OrbitGroup
from jfstat.compileroptions import SAME_BITS, jit_with
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32, Device, data_bytes, device_of, free_bytes
from jfstat.data.observation import Observation
from jfstat.data.workers import in_order, workers_for
from jfstat.engines.coherentbands import GROUP, LEAST_PIECE, PAIR_BYTES, CoherentBands, Lookup
from jfstat.engines.shared import LEAST_TEMPLATES, MOST_BYTES, STEP, most_templates, room_for_sums
from jfstat.engines.xla import Xla, two_f_in_order
from jfstat.maths.ladder import padded_size
from jfstat.searching.division import Division
from jfstat.searching.driver.banddivision import default_batch_size
from jfstat.searching.driver.nearest import Located, located
from jfstat.searching.statistic import Task
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime
from jfstat.statistic.bins import counts, covered_bins

CPU_BYTES = 1 << 30
"""Largest memory for the segments' values at a time on a CPU, bytes."""
SHARE = 0.4
"""Largest fraction of an accelerator's free memory for the segments' values at a time."""
LONGEST = {"cpu": 4096}
"""Largest number of bins in a piece of the band, by platform, so that the segments' values fit into a CPU's caches."""
LEAST_PIECES = 16
"""Smallest number of pieces of the band on other platforms; the last piece is padded."""
LOOKUP_BYTES = 1 << 30
"""Largest memory, bytes, for the rows and shifts of a part of the bank or of all kept parts, on the host or on the
accelerator."""
MARGIN, MOST_PIECES = 1.2, 64
"""Factor on the expected memory of a range's values, and largest number of pieces into which it is divided at once."""
PRECISION = 0.25
"""Largest change of the shift within a piece of the band, in bins."""
LEAST_ROWS, ROW_STEPS = 64, 4
"""Smallest number of segments' templates that a part has room for, and padded numbers of them per octave."""
MOST_TEMPLATES = 1 << 21
"""Largest number of templates of the bank in a part."""
MOST_VALUES = 2**33
"""Largest number of sums of one call; the largest sum of each `GROUP` takes 4 bytes."""
BATCH = {"cpu": 1024}
"""Number of templates of the bank summed by one call, by platform; other platforms take `LARGE_BATCH`, for more
sharing."""
LARGE_BATCH = 4096
COHERENT_BATCH = {"cpu": 4}
"""Number of segments' templates computed by one call, by platform; other platforms take one of `DEVICE_BATCHES`."""
DEVICE_BATCHES = 32, 128, 512
COHERENT_BYTES = 1 << 32
"""Largest memory, bytes, of a batch of segments' templates on such platforms; the smallest batch may take more."""
FEWER = 0.8
"""Least ratio of templates to computed ones, padding included, relative to the smallest of `DEVICE_BATCHES`."""


def room_for_values(data: FstatData) -> int:
    """Return the memory for the segments' values at a time, bytes."""
    free = free_bytes(device_of(data))
    return CPU_BYTES if free is None else int(SHARE * free)


class RangeOfBank(NamedTuple):
    """Templates `start` to `stop` of the bank, and how many templates each segment needs for them, K numbers."""

    start: int
    stop: int
    n_coherent: list[int]


def bank_parts(task: Task, mismatch: float, room: int) -> list[RangeOfBank]:
    """Yield ranges of the bank, in order, whose segments' values fit into `room` bytes each.

    A range is divided until one lattice of each segment serves it, see `banks.nearest.Group.gap`, and until its values
    fit. A single template is always accepted. The lookups of the first ranges are kept in `Task.memo` for the sums, up
    to `LOOKUP_BYTES`.
    """
    n, n_segments = len(task.stack.alpha), task.data.n_segments or 1
    most = max(1, min(MOST_TEMPLATES, LOOKUP_BYTES // (PAIR_BYTES * n_segments)))
    waiting = [(i, min(i + most, n)) for i in range(0, n, most)][::-1]
    parts = []
    while waiting:
        start, stop = waiting.pop()
        group = group_of(task.stack, start, stop, device_of(task.data))
        if group.gap is not None:
            edges = [start, start + group.gap, stop]
        else:
            values = _Values(task, np.inf if stop - start == 1 else room)
            found = located(task.data, group, task.reftime, mismatch, values.fit)
            if found is not None:
                parts.append(RangeOfBank(start, stop, found.counts))
                if task.memo is not None and PAIR_BYTES * n_segments * stop <= LOOKUP_BYTES:
                    task.memo[start, stop] = found
                continue
            edges = np.linspace(start, stop, min(values.pieces, stop - start) + 1).astype(int).tolist()
        waiting += list(pairwise(edges))[::-1]
    return parts


class _Values:
    """The memory that the segments' values of a range of the bank take, as the segments are looked up in turn.

    Parameters
    ----------
    task : Task
    room : float
        Largest memory, bytes.
    """

    def __init__(self, task: Task, room: float):
        self._data, self._room, self._n_done, self._share = task.data, room, 0, 0.0

    def fit(self, n_coherent: int, furthest: float) -> bool:
        """Return whether the values of the first segments fit, given their number of points and largest shift."""
        data = self._data
        rows, padding = _sizes(data, n_coherent, furthest)
        columns = data.layout.n_frequencies + _longest(data) + 2 * padding  # at most
        self._share, self._n_done = FLOAT32 * rows * columns / self._room, self._n_done + 1
        return self._share <= 1

    @property
    def pieces(self) -> int:
        """Number of pieces into which to divide a range that does not fit, so that each probably fits."""
        expected = MARGIN * self._share * (self._data.n_segments or 1) / max(1, self._n_done)
        return int(np.clip(np.ceil(expected), 2, MOST_PIECES))


def interpolation_division(
    task: Task, mismatch: float, engine: str | None, batch_size: int | None, room: int | None = None
) -> Division:
    """Return how an interpolating search is divided, without computing any 2F.

    Parameters
    ----------
    task : Task
    mismatch : float
        Largest mismatch of the segments' lattices.
    engine, batch_size
        See `Run`.
    room : int, optional
        Memory for the segments' values, bytes; by default from `room_for_values`.

    Raises
    ------
    ValueError
        If the engine cannot be used.
    """
    data = task.data
    name, _ = task.statistic.reduction(task, engine)
    room = room_for_values(data) if room is None else room
    if task.memo is not None:
        task.memo.clear()  # of another division
    parts = bank_parts(task, mismatch, room)
    n, groups = data.layout.n_frequencies, [(part.start, part.stop) for part in parts]
    size = _batch_size(data, _longest_part(groups)) if batch_size is None else batch_size
    size = max(1, min(size, MOST_VALUES // n))
    n_coherent = sum(sum(part.n_coherent) for part in parts)
    n_bytes = data_bytes(data) + room + _beside_values(data, size, groups)
    return Division(name, size, groups, False, [(0, n)], n_bytes, n_coherent)


def _longest_part(groups: list[tuple[int, int]]) -> int:
    return max(stop - start for start, stop in groups)


def _batch_size(data: FstatData, longest: int) -> int:
    """Return the number of templates summed by one call, for parts of the bank with up to `longest` templates."""
    platform = device_of(data).platform
    size = BATCH.get(platform, LARGE_BATCH)
    if platform not in BATCH:
        most = most_templates(_piece_length(0.0, _longest(data)), data.n_segments or 1)
        while LEAST_TEMPLATES < size > most:
            size //= 2
    return default_batch_size(longest, size)


def planned_room(data: FstatData, division: Division) -> int:
    """Return the memory for the segments' values with which an interpolating search was planned, bytes."""
    return division.device_bytes - data_bytes(data) - _beside_values(data, division.batch_size, division.groups)


def _beside_values(data: FstatData, size: int, groups: list[tuple[int, int]]) -> int:
    """Return the memory that lookups and two batches' sums take on an accelerator, bytes."""
    if device_of(data).platform in BATCH:
        return 0
    n, n_segments = data.layout.n_frequencies, data.n_segments or 1
    piece = _piece_length(0.0, _longest(data))
    sums = max(MOST_BYTES, FLOAT32 * room_for_sums(size, n_segments) * piece)
    return PAIR_BYTES * n_segments * _longest_part(groups) + 2 * (sums + FLOAT32 * n * -(-size // GROUP))


def _sizes(data: FstatData, n_coherent: int, furthest: float) -> tuple[int, int]:
    """Return rows and padding of `CoherentBands.values`, in steps so wide that many parts of a bank share programs."""
    most = COHERENT_BATCH.get(device_of(data).platform, max(DEVICE_BATCHES))
    rows = padded_size(max(LEAST_ROWS, n_coherent + most), ROW_STEPS)
    # the middle of the last piece may lie beyond the band, where shifts are larger, by at most PRECISION; sums that
    # templates share begin up to STEP bins before
    return rows, padded_size(max(LEAST_PIECE, int(furthest) + 2 + STEP), 1)


def _coherent_batch(data: FstatData, counts: list[int]) -> int:
    """Return the number of segments' templates that one call computes, given the number in each segment."""
    platform = device_of(data).platform
    if platform in COHERENT_BATCH:
        return COHERENT_BATCH[platform]
    each = Xla().template_bytes(data.layout, len(data.detectors), True)
    computed = {size: sum(-(-n // size) * size for n in counts) for size in DEVICE_BATCHES}
    least = computed[DEVICE_BATCHES[0]]
    fitting = [size for size in DEVICE_BATCHES if FEWER * computed[size] <= least and size * each <= COHERENT_BYTES]
    return max(fitting, default=DEVICE_BATCHES[0])


def largest_shift(
    segments: Observation, bank: Doppler, reftime: GPSTime, fmax: float, coherent_mismatch: float
) -> float:
    """Return the largest frequency difference, Hz, between a template and its nearest template in any segment.

    The data's band must be wider by this much on either side for all its frequencies to be summed.
    """
    n = len(bank.alpha)
    largest, waiting = 0.0, [(i, min(i + MOST_TEMPLATES, n)) for i in range(0, n, MOST_TEMPLATES)]
    while waiting:
        start, stop = waiting.pop()
        group = group_of(bank, start, stop)
        if group.gap is not None:
            middle = start + group.gap
            waiting += [(start, middle), (middle, stop)]
            continue
        for i in range(segments.n_segments or 0):
            near = group.nearest(segments.segment(i), reftime, fmax, coherent_mismatch)
            largest = max(largest, float(np.max(np.sum(np.abs(near.shift), axis=0))))
    return largest


def group_of(bank: Doppler, start: int, stop: int, device: Device | None = None) -> Group:
    """Return templates `start` to `stop` of a stack with NumPy leaves."""
    own = jax.tree.map(lambda x: np.asarray(x[start:stop]), bank)
    return IsolatedGroup(own, device) if bank.orbit is None else OrbitGroup(own, device)


class BankPart(NamedTuple):
    """Values of 2F in the segments for a range of the bank.

    Attributes
    ----------
    bands : CoherentBands
    lookup : Lookup
        Rows and shifts of all templates of the range; see `nearest.Located`.
    order : (m,) int32 ndarray
        Order in which to sum the templates.
    n_coherent : int
        Number of segments' templates.
    """

    bands: CoherentBands
    lookup: Lookup
    order: np.ndarray
    n_coherent: int


def bank_part(task: Task, mismatch: float, start: int, stop: int) -> BankPart:
    """Compute the segments' values for templates `start` to `stop` of the bank."""
    data = task.data
    n = data.layout.n_frequencies
    found = None if task.memo is None else task.memo.pop((start, stop), None)
    if found is None:
        found = located(data, group_of(task.stack, start, stop, device_of(data)), task.reftime, mismatch)
    assert found is not None  # without a limit on memory
    first = [0, *np.cumsum(found.counts).tolist()]
    piece = _piece_length(found.change, _longest(data))
    rows, padding = _sizes(data, first[-1], found.furthest)
    with jax.debug_infs(False):  # bins beyond the band are -inf, so that means with them are
        values = _values(data, found, first, (rows, -(-n // piece) * piece + 2 * padding), padding)
    return BankPart(CoherentBands(values, data.layout, padding, piece), found.lookup, found.order, first[-1])


def _values(data: FstatData, found: Located, first: list[int], shape: tuple[int, int], padding: int) -> jax.Array:
    """Return 2F of the segments' templates, a row each, with -inf outside the band."""
    values = jnp.full(shape, -jnp.inf, jnp.float32)
    size = _coherent_batch(data, found.counts)
    for i, own in enumerate(found.templates):
        values = _filled(values, data[i], own, first[i], padding, size)
    return values


def _longest(data: FstatData) -> int:
    """Return the largest number of bins in a piece of the band, if its shifts change little."""
    n = data.layout.n_frequencies
    return min(n, LONGEST.get(device_of(data).platform, max(LEAST_PIECE, n // LEAST_PIECES)))


def _piece_length(change: float, most: int) -> int:
    """Return the length, about `most` or less, of pieces of the band within which a shift is a fixed number of bins.

    The shift changes by up to `change` bins from one bin of the band to the next.
    """
    longest = min(most, PRECISION / change if change > 0 else np.inf)
    length = LEAST_PIECE
    while 2 * length <= longest:
        length *= 2
    return length


def _filled(values: jax.Array, segment: FstatData, points: Doppler, first: int, padding: int, size: int) -> jax.Array:
    """Return values with rows from `first` on set to 2F of a segment's templates, computed `size` at a time."""
    n = len(points.alpha)

    def some(start: int) -> tuple[int, jax.Array]:
        rows = np.minimum(np.arange(start, start + size), n - 1)
        return start, jax.block_until_ready(_coherent(segment, jax.tree.map(lambda x: x[rows], points)))

    # rows beyond the last template are overwritten by the next segment's, or stand in the padding
    for start, twoF in in_order(some, range(0, n, size), workers_for(device_of(segment))):
        values = _put(values, twoF, first + start, padding)
    return values


@jit_with(SAME_BITS)
def _coherent(segment: FstatData, points: Doppler) -> jax.Array:
    """Return 2F of a batch, (B, n_frequencies) float32; -inf at frequencies that leave the data along an orbit."""
    values = two_f_in_order(segment, points, False)
    if points.orbit is None:
        return values
    first, last = jax.vmap(covered_bins, (None, 0))(segment, points)
    number = jnp.arange(values.shape[1], dtype=jnp.int32)
    return jnp.where(counts(number, first[:, None], last[:, None]), values, -jnp.inf)


@partial(jax.jit, donate_argnums=0)
def _put(values: jax.Array, twoF: jax.Array, row: int, column: int) -> jax.Array:
    return jax.lax.dynamic_update_slice(values, twoF, (row, column))
