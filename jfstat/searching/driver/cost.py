"""Estimating how long a search will take, by timing a few of its batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jfstat.candidates.details import kept_columns
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.semicoherent import semicoherent_columns
from jfstat.candidates.transienttable import transient_values
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.workers import workers_for
from jfstat.engines.coherentbands import PAIR_BYTES, Lookup
from jfstat.searching.driver.devices import made_ready, run
from jfstat.searching.driver.interpolation import LOOKUP_BYTES, group_of
from jfstat.searching.driver.nearest import located
from jfstat.searching.driver.part import interpolated_part, part_of
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import TransientSearch, Work
from jfstat.signal.templates import Doppler

ROUNDS = 3
"""Batches timed for each thread."""
SAMPLE, MANY = 1024, 1 << 16
"""Templates of an interpolating search whose sums are timed, and whose nearest points are."""
DETAILS = 32
"""Templates whose details are timed."""


def estimated_seconds(work: Work, plan: SearchPlan, with_details: bool) -> float:
    """Seconds that a search takes on one device without compilation, estimated from its first batches.

    Parameters
    ----------
    work : Work
        Its share of the search is estimated.
    plan : SearchPlan
        From `search_plan`.
    with_details : bool
        Whether to include the time for the details of as many candidates as will be kept in noise.
    """
    if work.coherent_mismatch is not None:
        searching = _interpolating_seconds(work, plan)
        return searching + (_detail_seconds(work, plan) if with_details else 0.0)
    batches = plan.batches
    ready = made_ready(part_of(work, plan, 0), batches)
    list(run(ready, batches[:1], lambda: 0))
    some = batches[: ROUNDS * workers_for(device_of(work.data))]
    began = time.perf_counter()
    list(run(ready, some, lambda: 0))
    first, last = work.jobs(plan.n_jobs)
    searching = (time.perf_counter() - began) / len(some) * (last - first)
    return searching + (_detail_seconds(work, plan) if with_details else 0.0)


def _interpolating_seconds(work: Work, plan: SearchPlan) -> float:
    """Seconds of an interpolating search, from the segments' templates and the sums of its first templates."""
    start, stop = plan.groups[0]
    stop = min(stop, start + SAMPLE)
    few = plan._replace(batch_size=min(plan.batch_size, stop - start))
    batches = np.array([[i, min(few.batch_size, stop - i)] for i in range(start, stop, few.batch_size)])
    list(run(made_ready(interpolated_part(work, few, start, stop, None), batches), batches, lambda: 0))
    nearest = _seconds(lambda: _nearest(work, start, stop))
    began = time.perf_counter()
    part = interpolated_part(work, few, start, stop, None)
    values = max(0.0, time.perf_counter() - began - nearest)
    ready = made_ready(part, batches)
    sums = _seconds(lambda: list(run(ready, batches, lambda: 0)))
    assert isinstance(part.stack, Lookup)
    coherent = values * (plan.n_coherent or 0) / len(np.unique(part.stack.rows))
    # the lattices of a part take a time of their own, and every template's points some more; both once more for the
    # plan, unless what it looks up is kept
    first, last = plan.groups[0][0], min(plan.groups[0][1], start + MANY)
    _nearest(work, first, last)  # compiled
    more = _seconds(lambda: _nearest(work, first, last)) - nearest
    each = max(0.0, more) / max(1, last - stop)
    n = len(work.stack.alpha)
    kept = PAIR_BYTES * (work.data.n_segments or 1) * n <= LOOKUP_BYTES
    points = (1 if kept else 2) * (nearest * len(plan.groups) + each * n)
    first_job, last_job = work.jobs(plan.n_jobs)
    share = (last_job - first_job) / plan.n_jobs
    return (coherent + points + sums * n / (stop - start)) * share


def _nearest(work: Work, start: int, stop: int) -> None:
    """Look up the points nearest to some templates in all segments' lattices."""
    assert work.coherent_mismatch is not None
    located(work.data, group_of(work.stack, start, stop, device_of(work.data)), work.reftime, work.coherent_mismatch)


def _seconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _windows(searched: TransientSearch) -> Callable[[FstatData, Doppler, bool], object]:
    """What computes the maps of candidates."""
    return lambda data, points, _: list(transient_values(data, points, searched.windows))


def _detail_seconds(work: Work, plan: SearchPlan) -> float:
    """Seconds that the details of the kept candidates take, estimated from those of the first templates."""
    first, last = work.jobs(plan.n_jobs)
    n_twoF = len(work.stack.alpha) * work.data.layout.n_frequencies * (last - first) / plan.n_jobs
    n_segments = work.data.n_segments
    compute: Any = kept_columns if n_segments is None else semicoherent_columns
    in_noise = false_alarm(work.keep.threshold or 0.0, 1, n_segments or 1) * n_twoF
    if work.transient is not None:  # at most as many as if windows were independent
        windows = work.transient.windows
        compute = _windows(work.transient)
        in_noise = min(in_noise * windows.t0.size * windows.tau.size, n_twoF)
    kept = min(float(in_noise), np.inf if work.keep.top is None else work.keep.top)
    some = jax.tree.map(lambda x: x[:DETAILS], work.stack)
    compute(work.data, some, True)
    began = time.perf_counter()
    compute(work.data, some, True)
    return (time.perf_counter() - began) / len(some.alpha) * kept
