"""From the batches of a plan to what each of them found: on one device, or on all devices of a mesh."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.subband import subband
from jfstat.geometry.orbit import orbit_speed
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.workers import ONE_THREAD, in_order, workers_for
from jfstat.searching.reduce.state import Peaks
from jfstat.searching.reduce.tally import subband_edges
from jfstat.searching.session.stop import StopRequest
from jfstat.statistic.backends.loudest import Loudest, Method, loudest, loudest_within
from jfstat.templates import Doppler

FIRST_KEPT = 1024
"""Values that leave the device with a batch where only a threshold limits them, at first; more if so many cross it."""
STEPS_UNDER_WAY = 2
"""Steps of a mesh under way at a time, so that devices work while the host takes in what they found."""


class Task(NamedTuple):
    """What all batches of a part of the band have in common.

    Attributes
    ----------
    data : FstatData
        Of the part.
    stack : Doppler
        The whole bank, NumPy leaves.
    plan : SearchPlan
    first : int
        Place of the part's first frequency in the whole band.
    first_new : int
        First frequency of the part that counts.
    top : int or None
    threshold : float or None
    """

    data: FstatData
    stack: Doppler
    plan: SearchPlan
    first: int
    first_new: int
    top: int | None
    threshold: float | None

    @property
    def most(self) -> int:
        """Values of 2F in a batch."""
        return self.plan.batch_size * self.data.layout.n_frequencies

    @property
    def keep(self) -> int:
        """How many values of a batch to ask for."""
        return min(FIRST_KEPT if self.top is None else self.top, self.most)


def task_for(
    data: FstatData,
    stack: Doppler,
    plan: SearchPlan,
    part: int,
    top: int | None,
    threshold: float | None,
    mesh: Mesh | None = None,
) -> Task:
    """What the batches of a part of the band need; makes the part's data."""
    first, n_frequencies = plan.bands[part]
    whole = len(plan.bands) == 1 and bool(data.bank)
    # orbits move signals whether `prepare` was told of them or not
    margin = 0.0 if stack.orbit is None else float(np.max(orbit_speed(stack.orbit)) * data.frequencies[-1])
    own = data if whole else subband(data, first, n_frequencies, margin)
    return Task(replicated(own, mesh), stack, plan, first, plan.first_new(part), top, threshold)


class Found(NamedTuple):
    """What a batch found: its number of templates, its peaks, its part of the histogram, the sub-bands' loudest."""

    n_templates: int
    peaks: Peaks
    histogram: np.ndarray
    subbands: np.ndarray


class Step(NamedTuple):
    """Batches done together, in order, the sub-bands' edges, and the stop asked for on any process; 0 is none."""

    found: list[Found]
    edges: np.ndarray
    stop: int


def check_mesh(mesh: Any) -> None:
    """Raise a ValueError unless `mesh` is None or a mesh of devices of one kind, of this process or of all."""
    if mesh is None:
        return
    if not isinstance(mesh, Mesh):
        raise ValueError(f"mesh must be a jax.sharding.Mesh or None, not {type(mesh).__name__}: see jax.make_mesh.")
    devices = list(mesh.devices.flat)
    if not devices:
        raise ValueError("mesh holds no devices: give at least one.")
    kinds = sorted({device.device_kind for device in devices})
    if len(kinds) > 1:
        raise ValueError(f"mesh must hold devices of one kind, not of {', '.join(kinds)}: results would depend on it.")
    processes = {device.process_index for device in devices}
    if processes not in ({jax.process_index()}, set(range(jax.process_count()))):
        raise ValueError("mesh must hold devices of this process or of all processes, not of some: see jax.devices().")


def run(task: Task, batches: np.ndarray, mesh: Mesh | None, request: StopRequest) -> Iterator[Step]:
    """Do batches, (n, 2) first template and number of them each, in order."""
    return _on_one(task, batches, request) if mesh is None else _on_mesh(task, batches, mesh, request)


def replicated(data: FstatData, mesh: Mesh | None) -> FstatData:
    """The data on every device of a mesh; as they are without one."""
    if mesh is None:
        return data
    return jax.tree.map(partial(_global, NamedSharding(mesh, PartitionSpec())), data)


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether devices of other processes belong to the mesh."""
    return mesh is not None and len({device.process_index for device in mesh.devices.flat}) > 1


def _on_one(task: Task, batches: np.ndarray, request: StopRequest) -> Iterator[Step]:
    def found_in(batch: np.ndarray) -> Found:
        start, n_valid = map(int, batch)
        points, keep = _points(task, start, n_valid), task.keep
        while True:
            found = loudest(
                task.data,
                points,
                n_valid,
                keep,
                task.plan.method,
                task.plan.same_source,
                task.first_new - task.first,
            )
            if not _overflows(task, np.asarray(found.twoF), keep):
                return _taken(task, start, n_valid, jax.tree.map(np.asarray, found))
            keep = min(4 * keep, task.most)

    workers = min(len(batches), workers_for(device_of(task.data)))
    edges = subband_edges(task.data.layout)
    for found in in_order(found_in, batches, workers):
        yield Step([found], edges, request.signal)


def _on_mesh(task: Task, batches: np.ndarray, mesh: Mesh, request: StopRequest) -> Iterator[Step]:
    """Each device does a batch a step; what they find is gathered on all, so that all processes know all."""
    n = mesh.devices.size
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    edges = subband_edges(task.data.layout)

    def begin(jobs: np.ndarray, keep: int) -> Any:
        padded = np.concatenate([jobs, np.tile(jobs[-1:] * [1, 0], (n - len(jobs), 1))])
        points = [_points(task, int(start), int(n_valid)) for start, n_valid in padded]
        points = jax.tree.map(lambda *x: _global(split, np.concatenate(x)), *points)
        n_valid = _global(split, padded[:, 1].astype(np.int32))
        stop = _global(split, np.full(n, request.signal, np.int32))
        first = np.int32(task.first_new - task.first)
        return _step(task.data, points, n_valid, stop, first, mesh, keep, task.plan.method, task.plan.same_source)

    def finish(jobs: np.ndarray, result: Any) -> Step:
        found, stop = result
        keep = task.keep
        found = jax.tree.map(np.asarray, found)
        while any(_overflows(task, twoF, keep) for twoF in found.twoF):
            keep = min(4 * keep, task.most)
            found = jax.tree.map(np.asarray, begin(jobs, keep)[0])
        taken = [
            _taken(task, int(start), int(n_valid), jax.tree.map(lambda x, i=i: x[i], found))
            for i, (start, n_valid) in enumerate(jobs)
        ]
        return Step(taken, edges, int(stop))

    waiting: deque[Any] = deque()
    for place in range(0, len(batches), n):
        jobs = batches[place : place + n]
        waiting.append((jobs, begin(jobs, task.keep)))
        if len(waiting) >= STEPS_UNDER_WAY:
            yield finish(*waiting.popleft())
    while waiting:
        yield finish(*waiting.popleft())


@partial(jax.jit, static_argnames=("mesh", "keep", "method", "same_source"), compiler_options=ONE_THREAD)
def _step(
    data: FstatData,
    points: Doppler,
    n_valid: jax.Array,
    stop: jax.Array,
    first_bin: jax.Array,
    mesh: Mesh,
    keep: int,
    method: Method,
    same_source: bool,
) -> tuple[Loudest, jax.Array]:
    """One batch a device: what each found, leading axis devices, and the largest stop request, on all devices."""
    axes = mesh.axis_names

    def batch(
        data: FstatData, points: Doppler, n_valid: jax.Array, stop: jax.Array, first_bin: jax.Array
    ) -> tuple[Loudest, jax.Array]:
        found = loudest_within(data, points, n_valid[0], keep, method, same_source, first_bin)
        return jax.tree.map(lambda x: jax.lax.all_gather(x, axes), found), jax.lax.pmax(stop[0], axes)

    one, each = PartitionSpec(), PartitionSpec(axes)
    # what is gathered is equal on all devices, which JAX's check of replication does not see
    mapped = jax.shard_map(
        batch, mesh=mesh, in_specs=(one, each, each, each, one), out_specs=(one, one), check_vma=False
    )
    return mapped(data, points, n_valid, stop, first_bin)


def _points(task: Task, start: int, n_valid: int) -> Doppler:
    """Templates of a batch, padded by repeating one."""
    size = task.plan.batch_size
    rows = np.minimum(np.arange(start, start + size), start + max(n_valid, 1) - 1)
    return jax.tree.map(lambda x: x[rows], task.stack)


def _overflows(task: Task, twoF: np.ndarray, keep: int) -> bool:
    """Whether more values than asked for may lie above the threshold, and all of them are wanted."""
    return task.top is None and keep < task.most and bool(twoF[-1] >= task.threshold)


def _taken(task: Task, start: int, n_valid: int, found: Any) -> Found:
    real = found.twoF > -np.inf  # neither padding of the batch nor beyond the band
    peaks = Peaks(
        found.twoF[real],
        start + found.template[real].astype(np.int64),
        task.first + found.frequency[real].astype(np.int64),
    )
    return Found(n_valid, peaks, found.histogram.astype(np.int64), found.subbands)


def _global(sharding: NamedSharding, x: Any) -> jax.Array:
    """An array with a sharding over devices of any process, all of which hold the same values."""
    if sharding.is_fully_addressable:
        return jax.device_put(x, sharding)
    values = np.asarray(x)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])
