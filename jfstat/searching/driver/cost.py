"""Estimate how long a search will take, by timing a few of its batches."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import numpy as np

from jfstat.data.memory import device_of
from jfstat.data.workers import workers_for
from jfstat.searching.driver.devices import made_ready, run
from jfstat.searching.driver.part import Part
from jfstat.signal.templates import Doppler

ROUNDS = 3
"""Batches timed for each thread."""
CANDIDATES = 32
"""Number of templates whose columns are timed."""


def seconds_a_batch(part: Callable[[], Part], batches: np.ndarray) -> float:
    """Return the mean time of a batch on one device, s, without compilation, measured on the first few batches."""
    ready = made_ready(part(), batches)
    list(run(ready, batches[:1], lambda: 0))
    some = batches[: ROUNDS * workers_for(device_of(ready[0].data))]
    return seconds_of(lambda: list(run(ready, some, lambda: 0))) / len(some)


def seconds_a_candidate(compute: Callable[[Doppler], object], stack: Doppler) -> float:
    """Return the time per candidate, s, of a function of a stack, measured on the first templates of the bank."""
    some = jax.tree.map(lambda x: x[:CANDIDATES], stack)
    compute(some)  # compiled
    return seconds_of(lambda: compute(some)) / len(some.alpha)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the time that a call takes, s."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
