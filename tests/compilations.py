"""Counting what XLA compiles, for tests."""

from __future__ import annotations

from contextlib import contextmanager

import jax

COMPILED: list[list[str]] = []
"""Lists to which each compilation is added while they are here."""


def _listen(event, duration, fun_name="?", **kwargs):
    if event == "/jax/core/compile/backend_compile_duration":
        for names in COMPILED:
            names.append(fun_name)


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextmanager
def counted_compilations():
    """A list to which every program that is compiled while the block runs adds the name of its function."""
    names = []
    COMPILED.append(names)
    try:
        yield names
    finally:
        COMPILED.remove(names)
