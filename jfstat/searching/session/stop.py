"""Take Ctrl-C and SIGTERM as requests to stop, which a search obeys after the current batch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SearchStopped(KeyboardInterrupt):
    """Raised when a search with a checkpoint stopped because it was asked to; the same call continues from the
    checkpoint.

    Attributes
    ----------
    signal : int
        Number of the signal that asked it to stop.
    """

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.signal = number


class StopRequest:
    """Number of the signal that asked to stop; 0 for none."""

    signal: int = 0


@contextmanager
def stop_requests(active: bool) -> Iterator[StopRequest]:
    """Record the first signal within the ``with`` block; a second one interrupts at once, as usual.

    Signals reach only the main thread of a process. In other threads, and if not `active`, nothing changes.
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
