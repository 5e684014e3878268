"""Computing the batches of a search and what is found in them, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread

import numpy as np
from jax.sharding import Mesh

from jfstat.searching.driver import devices, processes
from jfstat.searching.driver.mesh import spans_processes
from jfstat.searching.driver.part import Part, Step, interpolated_part, part_of
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Work


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
    if work.coherent_mismatch is not None:
        for start, end in plan.groups:
            own = batches[jobs.start : jobs.stop]
            own = own[(own[:, 0] >= start) & (own[:, 0] < end)]
            if len(own):
                part = partial(interpolated_part, work, plan, start, end, mesh)
                yield from _computed(part, own, mesh, stop, later)
        return
    for number in range(len(plan.bands)):
        begin, end = (min(max(job - number * len(batches), 0), len(batches)) for job in (jobs.start, jobs.stop))
        if begin < end:
            own = batches[begin:end]
            yield from _computed(partial(part_of, work, plan, number), own, mesh, stop, later)


def _computed(
    part: Callable[[], Part], batches: np.ndarray, mesh: Mesh | None, stop: Callable[[], int], later: Thread | None
) -> Iterator[Step]:
    """Compute batches of a part, in order; a row of `batches` is a first template and a number.

    The part is made here so that `run` alone holds its data, and their memory is free when the next part is made.
    """
    if spans_processes(mesh):
        return processes.run(processes.made_ready(part(), mesh, later), batches, mesh, stop)
    return devices.run(devices.made_ready(part(), batches, mesh, later), batches, stop)
