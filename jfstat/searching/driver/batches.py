"""Computing the batches of a search and what is found in them, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    # only `run` holds a part's data, so that their memory is free when the next part's are prepared
    if work.coherent_mismatch is not None:
        for start, end in plan.groups:
            own = batches[jobs.start : jobs.stop]
            own = own[(own[:, 0] >= start) & (own[:, 0] < end)]
            if len(own):
                yield from run(
                    made_ready(interpolated_part(work, plan, start, end, mesh), own, mesh, later), own, mesh, stop
                )
        return
    for number in range(len(plan.bands)):
        begin, end = (min(max(job - number * len(batches), 0), len(batches)) for job in (jobs.start, jobs.stop))
        if begin < end:
            own = batches[begin:end]
            yield from run(made_ready(part_of(work, plan, number), own, mesh, later), own, mesh, stop)


def made_ready(part: Part, batches: np.ndarray, mesh: Mesh | None, later: Thread | None = None) -> list[Part]:
    """The part with its data as the backend takes them, on every device of a mesh that is needed.

    Parameters
    ----------
    part : Part
        From `part_of` or `interpolated_part`.
    batches : (n, 2) int ndarray
        Those to be computed: first template, and number.
    mesh : Mesh or None
    later : Thread, optional
        See `steps`.

    Returns
    -------
    list of Part
        For `run`: one for each device of this process, or one for all devices of a mesh over several processes.

    Raises
    ------
    jax.errors.JaxRuntimeError
        If the device's memory does not suffice for the backend's form of the data.
    """
    if mesh is not None and spans_processes(mesh):
        return [processes.made_ready(part, mesh, later)]
    return devices.made_ready(part, batches, mesh, later)


def run(parts: list[Part], batches: np.ndarray, mesh: Mesh | None, stop: Callable[[], int]) -> Iterator[Step]:
    """Compute batches of a part, in order; arguments are those of `made_ready`, and what it returned."""
    if mesh is not None and spans_processes(mesh):
        return processes.run(parts[0], batches, mesh, stop)
    return devices.run(parts, batches, stop)
