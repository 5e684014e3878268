"""What a search will cost, measured on a few of its batches."""

from __future__ import annotations

import time

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.searching.driver.batches import run, task_for
from jfstat.searching.driver.plan import SearchPlan, stacked_bank
from jfstat.searching.driver.workers import workers_for
from jfstat.searching.session.stop import StopRequest
from jfstat.templates import Doppler

ROUNDS = 3
"""Batches that are timed, for each that is under way at a time."""


def estimated_seconds(data: FstatData, bank: Doppler, plan: SearchPlan, top: int = 1000) -> float:
    """Seconds that a search takes on one device without compilation, from the time that its first batches take.

    Parameters
    ----------
    data : FstatData
    bank : Doppler
        A stack of templates.
    plan : SearchPlan
        From `search_plan`.
    top : int
        How many candidates it shall keep.
    """
    task = task_for(data, stacked_bank(bank), plan, 0, top, None)
    batches = plan.batches
    workers = workers_for(device_of(data))
    list(run(task, batches[:1], None, StopRequest()))
    some = batches[: ROUNDS * workers]
    began = time.perf_counter()
    list(run(task, some, None, StopRequest()))
    return (time.perf_counter() - began) / len(some) * len(batches) * len(plan.bands)
