"""Decide when to write the next checkpoint, and measure how fast a search runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 0.05
"""Largest fraction of the time spent writing checkpoints."""
LONGEST = 10.0
"""Longest time between two writes, s, however slow the disk is: this much work may be lost."""


class Pace:
    """Clock of one run of a search.

    Parameters
    ----------
    n_twoF : int
        Number of values of 2F that earlier runs computed.
    """

    def __init__(self, n_twoF: int):
        self._began, self._before = time.monotonic(), n_twoF
        self._ready = self._began

    def due(self) -> bool:
        """Return whether to write a checkpoint now.

        Every batch is saved unless saving would take more than the fraction `SHARE` of the time; `LONGEST` seconds
        after a write, the next one is due in any case.
        """
        return time.monotonic() >= self._ready

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Measure how long a write takes: the body of the ``with`` block."""
        began = time.monotonic()
        yield
        now = time.monotonic()
        self._ready = now + min((now - began) / SHARE, LONGEST)

    def rate(self, n_twoF: int) -> float:
        """Return the values of 2F per second since this run began, from the number computed so far."""
        return (n_twoF - self._before) / max(time.monotonic() - self._began, 1e-9)
