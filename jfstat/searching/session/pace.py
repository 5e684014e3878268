"""When it is time to write a checkpoint again, and how fast a search goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.05
"""Part of the time that writing may take: after batches shorter than 20 writes, not each is written."""
LONGEST = 10.0
"""Seconds of work that are at risk for that reason, at most, however slow the disk was."""


class Pace:
    """Clock of one run of a search.

    Parameters
    ----------
    n_twoF : int
        Values of 2F computed before.
    """

    def __init__(self, n_twoF: int):
        self._began, self._before = time.monotonic(), n_twoF
        self._ready = self._began

    def due(self) -> bool:
        """Whether to write: after every batch, unless the last write took more than `SHARE` of the time since.

        `LONGEST` seconds after a write it is time in any case.
        """
        return time.monotonic() >= self._ready

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Time a write."""
        began = time.monotonic()
        yield
        now = time.monotonic()
        self._ready = now + min((now - began) / SHARE, LONGEST)

    def rate(self, n_twoF: int) -> float:
        """Values of 2F a second since this run began."""
        return (n_twoF - self._before) / max(time.monotonic() - self._began, 1e-9)
