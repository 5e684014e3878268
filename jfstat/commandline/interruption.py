"""Ctrl-C while the program starts."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""
MESSAGE = "interrupted"


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """While packages are imported, Ctrl-C ends the process with one line.

    An exception would go through whatever C code is being initialised, which crashes or is left half made. Nothing has
    been written yet. Only where Python's own handler is in place.
    """

    def leave(*_: object) -> None:
        os.write(2, f"jfstat: error: {MESSAGE}\n".encode())
        os._exit(INTERRUPTED)

    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
