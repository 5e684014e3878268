"""Compute the batches of a search, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread

import numpy as np
from jax.sharding import Mesh

from jfstat.searching.division import Division
from jfstat.searching.driver import devices, processes
from jfstat.searching.driver.mesh import spans_processes
from jfstat.searching.driver.part import Part, Step
from jfstat.searching.statistic import Task


def steps(
    task: Task,
    division: Division,
    jobs: range,
    mesh: Mesh | None,
    stop: Callable[[], int],
    later: Thread | None = None,
) -> Iterator[Step]:
    """Compute some jobs in order, which `Statistic.parts` defines, and yield what was found in them.

    Parameters
    ----------
    task : Task
    division : Division
    jobs : range
    mesh : Mesh or None
    stop : callable
        Function that returns the number of the signal that asked this process to stop; 0 for none.
    later : Thread, optional
        Thread to start once the program of the batches is traced, unless it already runs.
    """
    for part, batches in task.statistic.parts(task, division, jobs, mesh):
        yield from _computed(part, batches, mesh, stop, later)


def _computed(
    part: Callable[[], Part], batches: np.ndarray, mesh: Mesh | None, stop: Callable[[], int], later: Thread | None
) -> Iterator[Step]:
    """Compute batches of a part in order; each row of `batches` holds a first template and a number of templates.

    The part is made here so that `run` alone holds its data, and their memory is free when the next part is made.
    """
    if spans_processes(mesh):
        return processes.run(processes.made_ready(part(), mesh, later), batches, mesh, stop)
    return devices.run(devices.made_ready(part(), batches, mesh, later), batches, stop)
