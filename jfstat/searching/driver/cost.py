"""Estimating how long a search will take, by timing a few of its batches."""

from __future__ import annotations

import time

from jfstat.data.memory import device_of
from jfstat.searching.driver.batches import part_of, run
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Work
from jfstat.searching.driver.workers import workers_for

ROUNDS = 3
"""Batches timed for each thread."""


def estimated_seconds(work: Work, plan: SearchPlan) -> float:
    """Seconds that a search takes on one device without compilation, estimated from its first batches.

    Parameters
    ----------
    work : Work
        Its share of the search is estimated.
    plan : SearchPlan
        From `search_plan`.
    """
    part, batches = part_of(work, plan, 0), plan.batches
    list(run(part, batches[:1], None, lambda: 0))
    some = batches[: ROUNDS * workers_for(device_of(work.data))]
    began = time.perf_counter()
    list(run(part, some, None, lambda: 0))
    first, last = work.jobs(plan.n_jobs)
    return (time.perf_counter() - began) / len(some) * (last - first)
