"""Estimating how long a search will take, by timing a few of its batches."""

from __future__ import annotations

import time

import jax
import numpy as np

from jfstat.candidates.details import kept_columns
from jfstat.candidates.falsealarm import false_alarm
from jfstat.data.memory import device_of
from jfstat.data.workers import workers_for
from jfstat.searching.driver.batches import part_of, run
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Work

ROUNDS = 3
"""Batches timed for each thread."""
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
    part, batches = part_of(work, plan, 0), plan.batches
    list(run(part, batches[:1], None, lambda: 0))
    some = batches[: ROUNDS * workers_for(device_of(work.data))]
    began = time.perf_counter()
    list(run(part, some, None, lambda: 0))
    first, last = work.jobs(plan.n_jobs)
    searching = (time.perf_counter() - began) / len(some) * (last - first)
    return searching + (_detail_seconds(work, plan) if with_details else 0.0)


def _detail_seconds(work: Work, plan: SearchPlan) -> float:
    """Seconds that the details of the kept candidates take, estimated from those of the first templates."""
    first, last = work.jobs(plan.n_jobs)
    n_twoF = len(work.stack.alpha) * work.data.layout.n_frequencies * (last - first) / plan.n_jobs
    in_noise = false_alarm(work.keep.threshold or 0.0, 1) * n_twoF
    kept = min(float(in_noise), np.inf if work.keep.top is None else work.keep.top)
    some = jax.tree.map(lambda x: x[:DETAILS], work.stack)
    kept_columns(work.data, some, True)
    began = time.perf_counter()
    kept_columns(work.data, some, True)
    return (time.perf_counter() - began) / len(some.alpha) * kept
