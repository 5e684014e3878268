"""Show the progress of long work: tqdm's bar on terminals and in notebooks, and lines in the logs of batch jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_LINE, MOST_BETWEEN = 10.0, 300.0
"""Seconds until the first line of a log, and the longest time between lines; intervals double up to that."""


@contextmanager
def progress_bar(total: int, show: bool, what: str, unit: str, done: int = 0) -> Iterator[Callable[..., None]]:
    """Return a function to call with how many more items are done, and with a note to show beside the rate and time
    left.

    Parameters
    ----------
    total : int
        Number of items.
    show : bool
        Whether to show anything: on a terminal and in a notebook a bar, if tqdm is installed; otherwise, as in the logs
        of batch jobs, a line on stderr now and then.
    what, unit : str
        Names of the work and of an item.
    done : int
        Number of items that an earlier run has done, which do not count in the rate.
    """
    if not show:
        yield lambda n, note="": None
        return
    tqdm = _tqdm()
    if tqdm is None:
        yield _Lines(total, what, unit, done).advance
        return
    with tqdm(total=total, initial=done, desc=what, unit=f" {unit}") as bar:

        def advance(n: int, note: str = "") -> None:
            if note:
                bar.set_postfix_str(note, refresh=False)
            bar.update(n)

        yield advance


def _tqdm() -> Callable | None:  # type: ignore[type-arg]
    """Return tqdm's bar on a terminal or in a notebook; None elsewhere or without tqdm."""
    watched = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    if not watched:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


class _Lines:
    """Lines on stderr at intervals that double."""

    def __init__(self, total: int, what: str, unit: str, done: int):
        self.total, self.what, self.unit = total, what, unit
        self.done = self.first = done
        self.began = time.monotonic()
        self.next = FIRST_LINE

    def advance(self, n: int, note: str = "") -> None:
        self.done += n
        passed = time.monotonic() - self.began
        if passed < self.next or self.done == self.first or sys.stderr is None:
            return
        self.next = passed + min(passed, MOST_BETWEEN)
        left = passed * (self.total - self.done) / (self.done - self.first)
        share = 100 * self.done / max(self.total, 1)
        text = f"{self.what}: {self.done} of {self.total} {self.unit} ({share:.0f} %), {left:.0f} s left"
        print(", ".join(filter(None, (text, note))), file=sys.stderr, flush=True)
