"""Compute the batches of a part on devices of this process, each batch on the device that is free first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, SingleDeviceSharding

from jfstat.data.memory import device_of, is_exhausted
from jfstat.data.workers import ensure_started, in_background, in_order, workers_for
from jfstat.searching.driver.part import Part, Step
from jfstat.searching.reduce.loudest import geometry_program, loudest, loudest_program
from jfstat.searching.reduce.state import State


def made_ready(part: Part, batches: np.ndarray, mesh: Mesh | None = None, later: Thread | None = None) -> list[Part]:
    """Return copies of a part for `run`, with data in the form that the reduction takes and its programs compiled.

    Programs are compiled at the same time, each as soon as it is traced; those already compiled take a millisecond.

    Parameters
    ----------
    part : Part
        From `Statistic.parts`.
    batches : (n, 2) int ndarray
        Batches to compute: first template, and number of templates.
    mesh : Mesh or None
        Devices to use; None for the device that holds the data.
    later : Thread, optional
        See `batches.steps`.

    Returns
    -------
    list of Part
        One copy for each device that will have something to do.

    Raises
    ------
    ValueError
        If a copy of the data does not fit into the memory of a device of the mesh.
    jax.errors.JaxRuntimeError
        If a device's memory does not suffice for the reduction's form of the data.
    """
    places = [None] if mesh is None else [SingleDeviceSharding(x) for x in mesh.devices.flat][: len(batches)]
    # in another thread, where ``jax.set_mesh`` does not reach
    working = in_background(partial(_compiling, part, batches[0], places))
    del part  # the original data are freed as soon as the reduction's form of them exists
    try:
        copies, compiling = working.result()
    finally:
        del working  # as in `_compiling`
    ensure_started(later)
    wait(compiling)  # an error is raised again by the first batch
    return copies


def _compiling(
    part: Part, batch: np.ndarray, places: Sequence[SingleDeviceSharding | None]
) -> tuple[list[Part], list[Future[Any]]]:
    """Return copies of a part with the data as the reduction takes them, and the compilations under way.

    The data are made while the first programs compile. A place of None is the device that holds the data.
    """
    reduction: Any = part.reduction
    making = in_background(partial(reduction.ready, part.data))
    start, n_valid = map(int, batch)
    points = part.points(start, n_valid)
    geometries = [
        geometry_program(_described(part.data, place), points, reduction, part.division.same_source) for place in places
    ]
    compiling = [in_background(geometry.compile) for geometry in geometries if geometry is not None]
    try:
        part = part._replace(data=making.result())
    finally:
        del making  # an error in it would hold this frame, and so the data of a search that then tries smaller batches
    # at the same time, because the first array on a GPU takes a second
    copies = list(in_order(partial(_placed, part), places, len(places)))
    for copy, geometry in zip(copies, geometries, strict=True):
        arguments = copy.arguments(copy.points(start, n_valid), n_valid, copy.first_asked())
        compiling.append(in_background(loudest_program(*arguments, geometry=geometry).compile))
    return copies, compiling


def _described(data: Any, place: SingleDeviceSharding | None) -> Any:
    """Return shapes, dtypes and sharding of the data at a place, for lowering a program; for None the data
    themselves."""
    if place is None:
        return data
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), data)


def _placed(part: Part, place: SingleDeviceSharding | None) -> Part:
    """Return a copy of a part at a place, except for a bank on the host; for None the part itself."""
    if place is None:
        return part
    try:
        data, bands = jax.device_put((part.data, part.toplist.bands), place)
        stack = jax.device_put(part.stack, place) if part.stack_is_on_device else part.stack
    except jax.errors.JaxRuntimeError as error:
        if not is_exhausted(error):
            raise
        (device,) = place.device_set
        raise ValueError(
            f"mesh holds {device}, whose free memory does not suffice for a copy of the data: leave it out, or prepare "
            "a narrower band."
        ) from error
    return part._replace(data=data, stack=stack, toplist=replace(part.toplist, bands=bands))


def run(copies: Sequence[Part], batches: np.ndarray, stop: Callable[[], int]) -> Iterator[Step]:
    """Compute batches of a part in order, and yield what was found in each.

    Parameters
    ----------
    copies : list of Part
        Copies from `made_ready`, made for all of these batches.
    batches : (n, 2) int ndarray
    stop : callable
        See `batches.steps`.
    """
    n = len(copies)
    workers = workers_for(device_of(copies[0].data), n)
    free: SimpleQueue[Part] = SimpleQueue()
    for i in range(max(workers, n)):
        free.put(copies[i % n])

    def state(batch: np.ndarray) -> State:
        part = free.get()
        try:
            return _state(part, *map(int, batch))
        finally:
            free.put(part)

    # some more than are computed, so that the other devices need not wait for the slowest
    for found in in_order(state, batches, min(len(batches), workers), ahead=2 * n - 1):
        yield found, stop()


def _state(part: Part, start: int, n_valid: int) -> State:
    """Return what was found in a batch."""
    points, keep = part.points(start, n_valid), part.first_asked()
    while True:
        found = loudest(*part.arguments(points, n_valid, keep))
        if not part.toplist.overflows(np.asarray(found.twoF), keep, part.n_values):
            return part.state(start, found)
        keep = min(4 * keep, part.n_values)
