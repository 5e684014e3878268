"""Pause Python's garbage collector while JAX traces a program."""

from __future__ import annotations

import gc
from threading import Lock


class _Paused:
    """Context in which Python looks for no garbage; contexts may overlap, in threads too, and whoever has switched the
    collector off finds it off.

    Tracing makes objects by the million, nearly all of which stay in use, and each few hundred make Python look for
    dead ones among them: a seventh of the time of a first `refine`. What is freed without the collector, as most
    objects are, is freed as always.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._was_on = Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_on:
                gc.enable()


no_collection = _Paused()
"""The collector is the process's, so there is one context for all programs."""
