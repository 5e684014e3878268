"""Ctrl-C while the program starts, and where Python would forget it."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""
MESSAGE = "interrupted"
AGAIN = 0.05
"""Time after which a lost Ctrl-C is raised again, s."""


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


@contextmanager
def never_lost() -> Iterator[None]:
    """Within the ``with`` block, raise a KeyboardInterrupt again that Python ignored.

    It ignores exceptions in what it calls by itself, such as the callbacks of its garbage collector, of which JAX has
    one, and would go on with the work.
    """
    usual, again = sys.unraisablehook, list[threading.Timer]()

    def hook(lost: Any) -> None:
        if lost.exc_type is not None and issubclass(lost.exc_type, KeyboardInterrupt):
            again.append(threading.Timer(AGAIN, _thread.interrupt_main))  # at once it would be lost like the first
            again[-1].daemon = True
            again[-1].start()
        else:
            usual(lost)

    sys.unraisablehook = hook
    try:
        yield
        if any(timer.is_alive() for timer in again):
            raise KeyboardInterrupt
    finally:
        for timer in again:
            timer.cancel()
        sys.unraisablehook = usual
