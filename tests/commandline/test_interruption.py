"""Ctrl-C is not lost where Python ignores exceptions."""

import gc
import signal
import sys
import time

import pytest

from jfstat.commandline.interruption import never_lost


def test_an_interruption_in_a_callback_of_the_garbage_collector_is_raised_again():
    """JAX has such a callback."""
    rung = []

    def callback(*_):
        if not rung:
            rung.append(True)
            signal.raise_signal(signal.SIGINT)

    usual, handler = sys.unraisablehook, signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.callbacks.append(callback)
    try:
        with pytest.raises(KeyboardInterrupt), never_lost():
            gc.collect()
            for _ in range(100):
                time.sleep(0.05)
    finally:
        gc.callbacks.remove(callback)
        signal.signal(signal.SIGINT, handler)
    assert rung and sys.unraisablehook is usual


def test_other_exceptions_are_shown_as_ever(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: shown.append(lost.exc_type))

    class Failing:
        def __del__(self):
            raise ValueError

    with never_lost():
        one = Failing()
        del one
        gc.collect()
    assert shown == [ValueError]
