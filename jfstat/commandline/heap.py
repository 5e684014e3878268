"""How the program keeps memory that it will need again."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""Numbers of glibc's parameters, see mallopt(3)."""
MOST, PAD, LARGEST = 2**31 - 1, 64 << 20, 32 << 20
"""Bytes that are kept free at the heap's end, by which it grows, and of the largest arrays in it, as glibc allows."""


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, and not ask the kernel for fresh pages with every batch: some 4 % of a search on a
    CPU.

    A library must not do this, but a program may. Nothing is changed for users who have set glibc's variables
    themselves, nor where there is no glibc.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((TRIM_THRESHOLD, MOST), (TOP_PAD, PAD), (MMAP_THRESHOLD, LARGEST)):
            mallopt(parameter, value)
