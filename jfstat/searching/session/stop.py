"""Ctrl-C and SIGTERM as requests that a search obeys after the batch under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SearchStopped(KeyboardInterrupt):
    """A search with a checkpoint stopped because it was asked to; the same call goes on where it stopped.

    Attributes
    ----------
    signal : int
        Number of the signal that asked for it.
    """

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.signal = number


class StopRequest:
    """Whether, and by which signal, a stop was asked for; 0 is none."""

    signal: int = 0


@contextmanager
def stop_requests(active: bool) -> Iterator[StopRequest]:
    """While the block runs, the first signal is noted and a second one interrupts at once, as usual.

    Signals reach a process's main thread only: in others, and if not `active`, nothing changes.
    """
    request = StopRequest()
    if not active or threading.current_thread() is not threading.main_thread():
        yield request
        return
    usual = {number: signal.getsignal(number) for number in SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal = number
        restore()

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set from Python

    try:
        for number in SIGNALS:
            signal.signal(number, note)
        yield request
    finally:
        restore()
