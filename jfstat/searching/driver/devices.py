"""Computing the batches of a part on a device of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import Any

import numpy as np

from jfstat.data.memory import device_of
from jfstat.data.workers import in_background, in_order, workers_for
from jfstat.searching.driver.part import Part, Step
from jfstat.searching.reduce.loudest import geometry_program, loudest, loudest_program
from jfstat.searching.reduce.state import State


def made_ready(part: Part, batch: np.ndarray, later: Thread | None = None) -> Part:
    """See `batches.made_ready`.

    The programs are compiled too, each as soon as it is traced and all at the same time: a millisecond where they are
    already.
    """
    part, compiling = _compiling(part, batch)
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


def run(part: Part, batches: np.ndarray, stop: Callable[[], int]) -> Iterator[Step]:
    """See `batches.run`. A batch at each step."""

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
