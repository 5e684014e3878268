"""How the program keeps memory that it will need again."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

TOP_PAD, TRIM_THRESHOLD = -2, -1
"""Numbers of glibc's parameters, see mallopt(3)."""
PAD, MOST = 256 << 20, 2**31 - 1
"""Bytes by which the heap grows, and that are kept at its end."""


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, and not ask the kernel for fresh pages with every batch: 5 % of a search on a CPU.

    A library must not do this, but a program may. Nothing is changed for users who have set glibc's variables
    themselves, nor where there is no glibc.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(TOP_PAD, PAD)
        mallopt(TRIM_THRESHOLD, MOST)
