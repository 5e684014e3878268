"""From a function and a sequence of jobs to the results in order, several jobs under way at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
MOST = 16
"""Jobs under way at a time, at most."""
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
"""Compiler options under which a computation on a CPU gives the same bits every time and on any number of cores.

On several threads XLA's FFT groups its transforms by the threads that happen to be free, and matrix products are cut
up by how many there are; both round differently each way. `in_order` keeps the cores busy all the same.
"""


def workers_for(device: Any) -> int:
    """How many computations a device should have under way.

    On a CPU as many as there are cores for this process, since XLA computes most of a template on one core, and one
    more to be at hand when one ends; elsewhere two, so that the device works on one while the host takes in the other.
    """
    if device.platform != "cpu":
        return 2
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 1, MOST) if cores > 1 else 1


def in_order(function: Callable[[Job], Result], jobs: Iterable[Job], workers: int) -> Iterator[Result]:
    """Results of `function` for all jobs, in their order, computed by `workers` threads; JAX computes outside of
    Python's lock.
    """
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Any] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(function, job))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:  # after an error, or when no more results are wanted
                future.cancel()
