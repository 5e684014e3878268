"""The interpolating search over segments: parts of the bank, and the segments' values that each of them needs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.coherent import WIDEST, Group
from jfstat.banks.space import Templates
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32, Device, data_bytes, device_of, free_bytes
from jfstat.data.observation import Observation
from jfstat.data.workers import in_order, workers_for
from jfstat.engines.coherentbands import GROUP, LEAST_PIECE, PAIR_BYTES, CoherentBands, Lookup
from jfstat.engines.shared import LEAST_TEMPLATES, MOST_BYTES, STEP, most_templates, room_for_sums
from jfstat.engines.xla import two_f_in_order
from jfstat.maths.ladder import padded_size
from jfstat.reproducible import SAME_BITS
from jfstat.searching.division import Division
from jfstat.searching.driver.banddivision import default_batch_size
from jfstat.searching.driver.nearest import Located, located
from jfstat.searching.statistic import Task
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime

CPU_BYTES = 1 << 30
"""Most memory of the segments' values at a time, on a CPU."""
SHARE = 0.4
"""The same as a share of an accelerator's free memory."""
LONGEST = {"cpu": 4096}
"""Most bins of a piece of the band, by platform: the segments' values of it then stay in a CPU's caches."""
LEAST_PIECES = 16
"""Least pieces of the band on other platforms: the last one is filled up."""
LOOKUP_BYTES = 1 << 30
"""Most memory for the rows and shifts of a part of the bank, or of all parts whose are kept, on the host or, for an
accelerator, there."""
PRECISION = 0.25
"""Bins by which the shift may change within a piece of the band."""
LEAST_ROWS, ROW_STEPS = 64, 4
"""Least templates of segments for which there is room in a part, and numbers of them in an octave."""
MOST_TEMPLATES = 1 << 21
"""Most templates of the bank in a part."""
MOST_VALUES = 2**33
"""Most sums of one call, of which the largest of each `GROUP` takes 4 bytes."""
BATCH = {"cpu": 1024}
"""Templates of the bank summed by one call, by platform; others take `LARGE_BATCH`, which share more."""
LARGE_BATCH = 4096
COHERENT_BATCH = {"cpu": 4}
"""Segments' templates computed by one call, by platform; others take one of `DEVICE_BATCHES`."""
DEVICE_BATCHES = 32, 128
FEWER = 0.8
"""Ratio of templates computed, padding included, from which on the smaller of these batches is taken."""


def room_for_values(data: FstatData) -> int:
    """Memory for the segments' values at a time, bytes."""
    free = free_bytes(device_of(data))
    return CPU_BYTES if free is None else int(SHARE * free)


class RangeOfBank(NamedTuple):
    """Templates `start` to `stop` of the bank, and how many templates each segment needs for them, K numbers."""

    start: int
    stop: int
    n_coherent: list[int]


def bank_parts(task: Task, mismatch: float, room: int) -> list[RangeOfBank]:
    """Ranges of the bank whose segments' values fit into `room` bytes each, in order.

    A range is divided until its templates lie within `banks.coherent.WIDEST` of their middle, where neighbours are
    furthest apart, and halved until its values fit. A single template is always accepted. What is looked up of the
    first ranges is kept for the sums in `Task.memo`, as far as `LOOKUP_BYTES` allow.
    """
    n, n_segments = len(task.stack.alpha), task.data.n_segments or 1
    most = max(1, min(MOST_TEMPLATES, LOOKUP_BYTES // (PAIR_BYTES * n_segments)))
    waiting = [(i, min(i + most, n)) for i in range(0, n, most)][::-1]
    parts = []
    while waiting:
        start, stop = waiting.pop()
        group = group_of(task.stack, start, stop, device_of(task.data))
        if group.radius > WIDEST:
            middle = start + _gap(group)
        else:
            found = _located(task, mismatch, group, np.inf if stop - start == 1 else room)
            if found is not None:
                parts.append(RangeOfBank(start, stop, found.counts))
                if task.memo is not None and PAIR_BYTES * n_segments * stop <= LOOKUP_BYTES:
                    task.memo[start, stop] = found
                continue
            middle = (start + stop) // 2
        waiting += [(middle, stop), (start, middle)]
    return parts


def _located(task: Task, mismatch: float, group: Group, room: float = np.inf) -> Located | None:
    """What each segment needs for some of the bank; None if the values take more than `room`."""
    data = task.data

    def fits(n_coherent: int, furthest: float) -> bool:
        rows, padding = _sizes(data, n_coherent, furthest)
        columns = data.layout.n_frequencies + _longest(data) + 2 * padding  # at most
        return FLOAT32 * rows * columns <= room

    return located(data, group, task.reftime, mismatch, fits)


def _gap(group: Group) -> int:
    """Number of the template, in the middle half of a group, that is furthest from the one before."""
    m = len(group.n)
    first, last = max(1, m // 4), max(1, 3 * m // 4)
    steps = np.sum(np.diff(group.n[first - 1 : last + 1], axis=0) ** 2, axis=1)
    return first + int(np.argmax(steps))


def interpolation_division(
    task: Task, mismatch: float, engine: str | None, batch_size: int | None, room: int | None = None
) -> Division:
    """Return how an interpolating search is divided; of the segments' values none is computed.

    Parameters
    ----------
    task : Task
    mismatch : float
        Of the segments' lattices.
    engine, batch_size
        See `Run`.
    room : int, optional
        For the segments' values, bytes; by default `room_for_values`.

    Raises
    ------
    ValueError
        If the engine cannot be used.
    """
    data = task.data
    name, _ = task.statistic.reduction(data, engine, task.toplist)
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
    """Templates summed by one call, for parts of the bank of up to `longest`."""
    platform = device_of(data).platform
    size = BATCH.get(platform, LARGE_BATCH)
    if platform not in BATCH:
        most = most_templates(_piece_length(0.0, _longest(data)), data.n_segments or 1)
        while LEAST_TEMPLATES < size > most:
            size //= 2
    return default_batch_size(longest, size)


def planned_room(data: FstatData, division: Division) -> int:
    """The memory for the segments' values by which an interpolating search was planned, bytes."""
    return division.device_bytes - data_bytes(data) - _beside_values(data, division.batch_size, division.groups)


def _beside_values(data: FstatData, size: int, groups: list[tuple[int, int]]) -> int:
    """Memory on an accelerator beside the data and the segments' values, bytes: lookups, and two batches' sums."""
    if device_of(data).platform in BATCH:
        return 0
    n, n_segments = data.layout.n_frequencies, data.n_segments or 1
    piece = _piece_length(0.0, _longest(data))
    sums = max(MOST_BYTES, FLOAT32 * room_for_sums(size, n_segments) * piece)
    return PAIR_BYTES * n_segments * _longest_part(groups) + 2 * (sums + FLOAT32 * n * -(-size // GROUP))


def _sizes(data: FstatData, n_coherent: int, furthest: float) -> tuple[int, int]:
    """Rows and padding of `CoherentBands.values`, in steps so wide that many parts of a bank share their programs."""
    most = COHERENT_BATCH.get(device_of(data).platform, max(DEVICE_BATCHES))
    rows = padded_size(max(LEAST_ROWS, n_coherent + most), ROW_STEPS)
    # the middle of the last piece may lie beyond the band, where shifts are larger, by at most PRECISION; sums that
    # templates share begin up to STEP bins before
    return rows, padded_size(max(LEAST_PIECE, int(furthest) + 2 + STEP), 1)


def _coherent_batch(data: FstatData, counts: list[int]) -> int:
    """Number of segments' templates that one call computes, for so many of each segment."""
    platform = device_of(data).platform
    if platform in COHERENT_BATCH:
        return COHERENT_BATCH[platform]
    small, large = DEVICE_BATCHES
    computed = [sum(-(-n // size) * size for n in counts) for size in (small, large)]
    return small if computed[0] < FEWER * computed[1] else large


def largest_shift(
    segments: Observation, bank: Doppler, reftime: GPSTime, fmax: float, coherent_mismatch: float
) -> float:
    """Largest difference between the frequencies of a bank's template and of its nearest in any segment, Hz.

    A band must be wider by so much on either side for all its frequencies to be summed.
    """
    n = len(bank.alpha)
    largest, waiting = 0.0, [(i, min(i + MOST_TEMPLATES, n)) for i in range(0, n, MOST_TEMPLATES)]
    while waiting:
        start, stop = waiting.pop()
        group = group_of(bank, start, stop)
        if group.radius > WIDEST:
            middle = start + _gap(group)
            waiting += [(start, middle), (middle, stop)]
            continue
        for i in range(segments.n_segments or 0):
            near = group.nearest(segments.segment(i), reftime, fmax, coherent_mismatch)
            largest = max(largest, float(np.max(np.sum(np.abs(near.shift), axis=0))))
    return largest


def group_of(bank: Doppler, start: int, stop: int, device: Device | None = None) -> Group:
    """Templates `start` to `stop` of a stack with NumPy leaves."""
    alpha, delta, fkdot = (np.asarray(x[start:stop]) for x in (bank.alpha, bank.delta, bank.fkdot))
    return Group(Templates(alpha, delta, fkdot[:, 1:]), device)


class BankPart(NamedTuple):
    """The segments' values for a range of the bank.

    Attributes
    ----------
    bands : CoherentBands
    lookup : Lookup
        Of all templates of the range, see `nearest.Located`.
    order : (m,) int32 ndarray
        In which to sum the templates.
    n_coherent : int
        Number of segments' templates.
    """

    bands: CoherentBands
    lookup: Lookup
    order: np.ndarray
    n_coherent: int


def bank_part(task: Task, mismatch: float, start: int, stop: int) -> BankPart:
    """The segments' values for templates `start` to `stop` of the bank; they are computed here."""
    data = task.data
    n = data.layout.n_frequencies
    found = None if task.memo is None else task.memo.pop((start, stop), None)
    if found is None:
        found = _located(task, mismatch, group_of(task.stack, start, stop, device_of(data)))
    assert found is not None  # without a limit on memory
    first = [0, *np.cumsum(found.counts).tolist()]
    piece = _piece_length(found.change, _longest(data))
    rows, padding = _sizes(data, first[-1], found.furthest)
    values = jnp.full((rows, -(-n // piece) * piece + 2 * padding), -jnp.inf, jnp.float32)
    size = _coherent_batch(data, found.counts)
    for i, own in enumerate(found.templates):
        values = _filled(values, data[i], _points(task, own), first[i], padding, size)
    return BankPart(CoherentBands(values, data.layout, padding, piece), found.lookup, found.order, first[-1])


def _longest(data: FstatData) -> int:
    """Most bins of a piece of the band, if its shifts change little."""
    n = data.layout.n_frequencies
    return min(n, LONGEST.get(device_of(data).platform, max(LEAST_PIECE, n // LEAST_PIECES)))


def _piece_length(change: float, most: int) -> int:
    """Length of the pieces of the band, about `most` or less, in which a shift is the same whole number of bins.

    It changes by up to `change` bins from one bin of the band to the next.
    """
    longest = min(most, PRECISION / change if change > 0 else np.inf)
    length = LEAST_PIECE
    while 2 * length <= longest:
        length *= 2
    return length


def _points(task: Task, templates: Templates) -> Doppler:
    """A segment's templates as a stack, NumPy leaves."""
    stack = task.stack
    n = len(templates.alpha)
    fkdot = np.concatenate([np.full((n, 1), stack.fkdot[0, 0]), templates.spins], axis=1)
    own = Doppler(templates.alpha, templates.delta, fkdot, task.reftime)
    return jax.tree.map(np.asarray, own)


def _filled(values: jax.Array, segment: FstatData, points: Doppler, first: int, padding: int, size: int) -> jax.Array:
    """The values with rows from `first` on set to 2F of a segment's templates, `size` of which are computed a call."""
    n = len(points.alpha)

    def some(start: int) -> tuple[int, jax.Array]:
        rows = np.minimum(np.arange(start, start + size), n - 1)
        return start, jax.block_until_ready(_coherent(segment, jax.tree.map(lambda x: x[rows], points)))

    # rows beyond the last template are overwritten by the next segment's, or stand in the padding
    for start, twoF in in_order(some, range(0, n, size), workers_for(device_of(segment))):
        values = _put(values, twoF, first + start, padding)
    return values


@partial(jax.jit, compiler_options=SAME_BITS)
def _coherent(segment: FstatData, points: Doppler) -> jax.Array:
    """2F of a batch at the frequencies of the band, (B, n_frequencies) float32."""
    return two_f_in_order(segment, points, False)


@partial(jax.jit, donate_argnums=0)
def _put(values: jax.Array, twoF: jax.Array, row: int, column: int) -> jax.Array:
    return jax.lax.dynamic_update_slice(values, twoF, (row, column))
