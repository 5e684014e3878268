"""Which cores a process has, and child processes on some of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TOP_PAD_": str(256 << 20),
    "MALLOC_ARENA_MAX": "1",
}
"""Environment in which glibc keeps the memory of large arrays instead of requesting its pages again in each call. All
processes on a CPU run in it, jfstat's and LALSuite's."""


def available() -> list[int]:
    """Numbers of the cores that this thread may use; empty if the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Restrict this thread, and the processes that it starts, to some cores; no restriction if none are given."""
    before = available()
    if not before or not cores:
        yield
        return
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
