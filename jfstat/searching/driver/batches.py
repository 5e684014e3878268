"""Computing the batches of a search and what is found in them, on one device or on all devices of a mesh."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial, reduce
from threading import Thread
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.subband import subband
from jfstat.data.workers import in_background, in_order, workers_for
from jfstat.geometry.doppler import largest_doppler_speed
from jfstat.lines.doppler import LineBands
from jfstat.reproducible import LONG_VECTORS
from jfstat.searching.driver.interpolation import bank_part
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Work
from jfstat.searching.reduce.keep import Keep, Peaks
from jfstat.searching.reduce.loudest import geometry_program, loudest, loudest_program, loudest_within
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import subband_edges, subband_maxima
from jfstat.statistic.backends.backend import Backend, Loudest
from jfstat.statistic.backends.choice import backend_named, sums_for
from jfstat.statistic.backends.coherentbands import CoherentBands, Lookup
from jfstat.statistic.backends.interpolated import Interpolated
from jfstat.templates import Doppler

STEPS_UNDER_WAY = 2
"""Steps that a mesh computes at a time, so that the devices work while the host processes what they found."""

SPARE = 64
"""Values of a batch asked for beyond those that are kept, where equal ones are not in the order of the templates."""

Step = tuple[State, int]
"""What was found in the batches of a step, and the number of the signal that asked a process to stop, or 0."""


class Part(NamedTuple):
    """A part of the band, and what all its batches have in common.

    Attributes
    ----------
    data : FstatData or CoherentBands
        Of the part, from `made_ready` on as the backend takes them.
    stack : Doppler or Lookup
        The whole bank, or what stands for a part of it in an interpolating search. NumPy leaves, or those of the latter
        on an accelerator.
    keep : Keep
    plan : SearchPlan
    first : int
        Index of the part's first frequency in the whole band.
    first_new : int
        Index in the whole band of the part's first frequency that counts; parts may overlap.
    edges : list of int
        Where its sub-bands begin and end, indices into the whole band.
    backend : Backend or Interpolated
    offset : int
        Template of the bank with which `stack` begins.
    order : ndarray of int or None
        In which the templates of `stack` are taken, if not one after the other: template i of the batches is then
        ``offset + order[i - offset]`` of the bank.
    """

    data: FstatData | CoherentBands
    stack: Doppler | Lookup
    keep: Keep
    plan: SearchPlan
    first: int
    first_new: int
    edges: list[int]
    backend: Backend | Interpolated
    offset: int = 0
    order: np.ndarray | None = None

    @property
    def n_values(self) -> int:
        """Values of 2F in a batch."""
        return self.plan.batch_size * self.data.layout.n_frequencies

    def points(self, start: int, n_valid: int) -> Doppler | Lookup:
        """Templates of a batch, padded by repeating the last."""
        size = self.plan.batch_size
        rows = self._rows(np.minimum(np.arange(start, start + size), start + max(n_valid, 1) - 1))
        if isinstance(jax.tree.leaves(self.stack)[0], jax.Array):
            return _rows_of(self.stack, rows)
        return jax.tree.map(lambda x: x[rows], self.stack)

    def arguments(self, points: Doppler | Lookup, n_valid: int, keep: int) -> tuple[Any, ...]:
        """Those of `loudest` for a batch's `points`, in their order: by name, XLA would round in other places."""
        first_bin = self.first_new - self.first
        return self.data, points, n_valid, keep, self.backend, self.plan.same_source, first_bin, self.keep.bands

    def _rows(self, templates: np.ndarray) -> np.ndarray:
        """Rows of `stack` of some templates of the batches."""
        rows = templates - self.offset
        return rows if self.order is None else self.order[rows]

    def first_asked(self) -> int:
        """How many of a batch's values to ask the device for first.

        Where templates are taken in another order, some more than are kept: of equal values those of the first
        templates are, which may not come first.
        """
        return self.keep.first_asked(self.n_values, 0 if self.order is None else SPARE)

    def state(self, start: int, result: Loudest) -> State:
        """What was found in the batch that begins with a template."""
        found: Any = jax.tree.map(np.asarray, result)
        real = found.twoF > -np.inf  # others are padding of the batch or beyond the band
        peaks = Peaks(
            found.twoF[real],
            self.offset + self._rows(start + found.template[real].astype(np.int64)),
            self.first + found.frequency[real].astype(np.int64),
        )
        tops = subband_maxima(self.data.layout, found.sections)
        loudest_of = zip(self.edges[:-1], self.edges[1:], tops.tolist(), strict=True)
        subbands = {(begin, end): twoF for begin, end, twoF in loudest_of if twoF > -np.inf}
        return State(1, peaks, found.histogram.astype(np.int64), subbands)


@jax.jit
def _rows_of(stack: Any, rows: np.ndarray) -> Any:
    """Some rows of the leaves of a stack that is on a device."""
    return jax.tree.map(lambda x: x[rows], stack)


def part_of(work: Work, plan: SearchPlan, number: int) -> Part:
    """A part of the band, with its data prepared, for `made_ready`."""
    data, stack = work.data, work.stack
    first, n_frequencies = plan.bands[number]
    whole = len(plan.bands) == 1 and bool(data.filters)
    if work.track is not None:
        backend: Backend = work.track
    elif work.transient is not None:
        backend = work.transient.backend
    else:
        backend = backend_named(plan.backend, work.keep.lines, data.n_segments is not None)
    if data.n_segments is not None and not whole:
        raise ValueError("data with segments must have filters to be searched: prepare a narrower band, with filters.")
    own = data if whole else subband(data, first, n_frequencies, _margin(data, stack))
    if not backend.usable(own.layout, device_of(own)):
        raise ValueError(
            f"backend {plan.backend!r} cannot transform a part of the band, of {own.layout.n_fft} samples: use "
            "the backend 'library'."
        )
    first_new = plan.first_new(number)
    edges = np.maximum(first + subband_edges(own.layout), first_new).tolist()
    return Part(own, stack, work.keep, plan, first, first_new, edges, backend)


def _margin(data: FstatData, stack: Doppler) -> float:
    """How far orbits move signals, Hz, whether `prepare` was told of them or not."""
    return 0.0 if stack.orbit is None else float(largest_doppler_speed(stack.orbit) * data.frequencies[-1])


def interpolated_part(work: Work, plan: SearchPlan, start: int, stop: int, mesh: Mesh | None) -> Part:
    """A part of the bank, with the segments' values that its templates need, for `made_ready`."""
    own = bank_part(work, start, stop)
    edges = subband_edges(own.bands.layout).tolist()
    # the devices of a mesh take what they need from the host
    lookup = own.lookup if mesh is None else jax.tree.map(np.asarray, own.lookup)
    return Part(
        own.bands,
        lookup,
        work.keep,
        plan,
        0,
        0,
        edges,
        sums_for(device_of(work.data), plan.backend),
        start,
        own.order,
    )


def steps(
    work: Work,
    plan: SearchPlan,
    jobs: range,
    mesh: Mesh | None,
    stop: Callable[[], int],
    later: Thread | None = None,
) -> Iterator[Step]:
    """Compute some jobs, in order. Job j is batch j % n of part j // n of the band, n being the number of batches.

    Parameters
    ----------
    work : Work
    plan : SearchPlan
    jobs : range
    mesh : Mesh or None
    stop : callable
        Returns the number of the signal that asked this process to stop; 0 for none.
    later : Thread, optional
        To be started when the program of the batches is traced, if it is not yet.
    """
    batches = plan.batches
    # only `run` holds a part's data, so that their memory is free when the next part's are prepared
    if work.coherent_mismatch is not None:
        for start, end in plan.groups:
            own = batches[jobs.start : jobs.stop]
            own = own[(own[:, 0] >= start) & (own[:, 0] < end)]
            if len(own):
                yield from run(
                    made_ready(interpolated_part(work, plan, start, end, mesh), own[0], mesh, later), own, mesh, stop
                )
        return
    for number in range(len(plan.bands)):
        begin, end = (min(max(job - number * len(batches), 0), len(batches)) for job in (jobs.start, jobs.stop))
        if begin < end:
            own = batches[begin:end]
            yield from run(made_ready(part_of(work, plan, number), own[0], mesh, later), own, mesh, stop)


def check_mesh(mesh: object) -> None:
    """Raise an error unless `mesh` is None or a mesh of devices of one kind, of this process or of all."""
    if mesh is None:
        return
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh or None, not {type(mesh).__name__}: see jax.make_mesh.")
    devices = list(mesh.devices.flat)
    if not devices:
        raise ValueError("mesh holds no devices: give at least one.")
    kinds = sorted({device.device_kind for device in devices})
    if len(kinds) > 1:
        raise ValueError(f"mesh must hold devices of one kind, not of {', '.join(kinds)}: results would depend on it.")
    processes = {device.process_index for device in devices}
    if processes not in ({jax.process_index()}, set(range(jax.process_count()))):
        raise ValueError("mesh must hold devices of this process or of all processes, not of some: see jax.devices().")


def made_ready(part: Part, batch: np.ndarray, mesh: Mesh | None, later: Thread | None = None) -> Part:
    """The part with its data as the backend takes them, on every device of a mesh.

    Without a mesh its programs are compiled too, each as soon as it is traced and all at the same time: a millisecond
    where they are already.

    Parameters
    ----------
    part : Part
        From `part_of` or `interpolated_part`.
    batch : (2,) int ndarray
        Its first batch to be computed: first template, and number.
    mesh : Mesh or None
    later : Thread, optional
        See `steps`.

    Returns
    -------
    Part
        For `run`.

    Raises
    ------
    jax.errors.JaxRuntimeError
        If the device's memory does not suffice for the backend's form of the data.
    """
    if mesh is None:
        part, compiling = _compiling(part, batch)
    else:
        backend: Any = part.backend
        part, compiling = part._replace(data=_replicated(backend.ready(part.data), mesh)), []
    if later is not None and later.ident is None:
        later.start()
    wait(compiling)  # an error is raised again by the first batch
    return part


def _compiling(part: Part, batch: np.ndarray) -> tuple[Part, list[Future[Any]]]:
    """The part with its data as the backend takes them, which are made beside the first program; and what is compiled.

    Parameters are those of `made_ready`.
    """
    backend: Any = part.backend
    making, compiling = in_background(partial(backend.ready, part.data)), []
    start, n_valid = map(int, batch)
    points = part.points(start, n_valid)
    geometry = geometry_program(part.data, points, backend, part.plan.same_source)
    if geometry is not None:
        compiling.append(in_background(geometry.compile))
    try:
        part = part._replace(data=making.result())
    finally:
        del making  # an error in it would hold this frame, and so the data of a search that then tries smaller batches
    program = loudest_program(*part.arguments(points, n_valid, part.first_asked()), geometry=geometry)
    return part, [*compiling, in_background(program.compile)]


def run(part: Part, batches: np.ndarray, mesh: Mesh | None, stop: Callable[[], int]) -> Iterator[Step]:
    """Compute batches of a part from `made_ready`, in order; a row of `batches` is a first template and a number."""
    return _on_one(part, batches, stop) if mesh is None else _on_mesh(part, batches, mesh, stop)


def _replicated(data: Any, mesh: Mesh) -> Any:
    """The data on every device of a mesh."""
    return jax.tree.map(partial(_global, NamedSharding(mesh, PartitionSpec())), data)


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether devices of other processes belong to the mesh."""
    return mesh is not None and len({device.process_index for device in mesh.devices.flat}) > 1


def _on_one(part: Part, batches: np.ndarray, stop: Callable[[], int]) -> Iterator[Step]:
    """A batch at each step."""

    def state(batch: np.ndarray) -> State:
        start, n_valid = map(int, batch)
        points, keep = part.points(start, n_valid), part.first_asked()
        while True:
            found = loudest(*part.arguments(points, n_valid, keep))
            if not part.keep.overflows(np.asarray(found.twoF), keep, part.n_values):
                return part.state(start, found)
            keep = min(4 * keep, part.n_values)

    workers = min(len(batches), workers_for(device_of(part.data)))
    for found in in_order(state, batches, workers):
        yield found, stop()


def _on_mesh(part: Part, batches: np.ndarray, mesh: Mesh, stop: Callable[[], int]) -> Iterator[Step]:
    """A batch on each device at each step. Results are gathered on all devices, so every process has all of them."""
    n = mesh.devices.size
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    replicated = NamedSharding(mesh, PartitionSpec())
    bands = jax.tree.map(lambda x: _global(replicated, np.asarray(x)), part.keep.bands)

    def begin(jobs: np.ndarray, keep: int) -> tuple[Loudest, jax.Array]:
        padded = np.concatenate([jobs, np.tile(jobs[-1:] * [1, 0], (n - len(jobs), 1))])
        points = [part.points(int(start), int(n_valid)) for start, n_valid in padded]
        points = jax.tree.map(lambda *x: _global(split, np.concatenate(x)), *points)
        n_valid = _global(split, padded[:, 1].astype(np.int32))
        asked = _global(split, np.full(n, stop(), np.int32))
        first = np.int32(part.first_new - part.first)
        return _step(part.data, points, n_valid, asked, first, bands, mesh, keep, part.backend, part.plan.same_source)

    def finish(jobs: np.ndarray, result: tuple[Loudest, jax.Array]) -> Step:
        found, asked = jax.tree.map(np.asarray, result)
        keep = part.first_asked()
        while any(part.keep.overflows(twoF, keep, part.n_values) for twoF in found.twoF):
            keep = min(4 * keep, part.n_values)
            found = jax.tree.map(np.asarray, begin(jobs, keep)[0])
        states = [part.state(int(start), jax.tree.map(lambda x, i=i: x[i], found)) for i, (start, _) in enumerate(jobs)]
        return reduce(lambda first, second: first.joined(second, part.keep), states), int(asked)

    waiting: deque[tuple[np.ndarray, tuple[Loudest, jax.Array]]] = deque()
    for place in range(0, len(batches), n):
        jobs = batches[place : place + n]
        waiting.append((jobs, begin(jobs, part.first_asked())))
        if len(waiting) >= STEPS_UNDER_WAY:
            yield finish(*waiting.popleft())
    while waiting:
        yield finish(*waiting.popleft())


@partial(jax.jit, static_argnames=("mesh", "keep", "backend", "same_source"), compiler_options=LONG_VECTORS)
def _step(
    data: FstatData | CoherentBands,
    points: Doppler | Lookup,
    n_valid: jax.Array,
    stop: jax.Array,
    first_bin: jax.Array,
    bands: LineBands | None,
    mesh: Mesh,
    keep: int,
    backend: Backend | Interpolated,
    same_source: bool,
) -> tuple[Loudest, jax.Array]:
    """A batch on each device.

    Returns what each device found, with devices as the leading axis, and the largest stop request, on all devices.
    """
    axes = mesh.axis_names

    def batch(
        data: FstatData | CoherentBands,
        points: Doppler | Lookup,
        n_valid: jax.Array,
        stop: jax.Array,
        first_bin: jax.Array,
        bands: LineBands | None,
    ) -> tuple[Loudest, jax.Array]:
        found = loudest_within(data, points, n_valid[0], keep, backend, same_source, first_bin, bands)
        return jax.tree.map(lambda x: jax.lax.all_gather(x, axes), found), jax.lax.pmax(stop[0], axes)

    one, each = PartitionSpec(), PartitionSpec(axes)
    # gathered values are equal on all devices, which JAX's check of replication does not see
    mapped = jax.shard_map(
        batch, mesh=mesh, in_specs=(one, each, each, each, one, one), out_specs=(one, one), check_vma=False
    )
    return mapped(data, points, n_valid, stop, first_bin, bands)


def _global(sharding: NamedSharding, x: Any) -> jax.Array:
    """An array with a sharding over devices of several processes, each of which holds all values."""
    if sharding.is_fully_addressable:
        return jax.device_put(x, sharding)
    values = np.asarray(x)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])
