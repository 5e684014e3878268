"""Check the kinds of arguments of public functions, which their decorator names: a path, a flag, a table, ...

Each function raises a TypeError or ValueError that names the argument and says what it must be. It returns nothing, or
what stands for the value; see `jfstat.public.public`.
Numbers are checked by jfstat.validation where they are converted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from jfstat.maths.arrays import is_traced
from jfstat.validation import float64_of, shown

LONGEST_PATH = 4096
"""Most characters of a path, as in Linux."""


def path(x: Any, name: str) -> None:
    """Require the name of a file or folder."""
    if not isinstance(x, (str, os.PathLike)):
        raise TypeError(f"{name} must be the name of a file or folder, not {shown(x)}: give a string or a path.")
    if "\0" in os.fspath(x) or len(os.fspath(x)) > LONGEST_PATH:
        raise ValueError(f"{name} must be the name of a file or folder, not {shown(x)}: no file can have it.")


def paths(x: Any, name: str) -> None:
    """Require the name of a file, or a sequence of names."""
    if isinstance(x, (str, os.PathLike)):
        return path(x, name)
    if not isinstance(x, Iterable) or isinstance(x, (bytes, dict)):
        raise TypeError(f"{name} must be the name of a file, or a sequence of names, not {shown(x)}.")
    for one in _items(x, name):
        path(one, name)


def text(x: Any, name: str) -> None:
    """Require a string."""
    if not isinstance(x, str):
        raise TypeError(f"{name} must be a string, not {shown(x)}.")


def names(x: Any, name: str) -> None:
    """Require a name, or a sequence of names."""
    if isinstance(x, str):
        return
    if not isinstance(x, Iterable) or not all(isinstance(one, str) for one in _items(x, name)):
        raise TypeError(f"{name} must be a name or a sequence of names, not {shown(x)}.")


def flag(x: Any, name: str) -> None:
    """Require True or False."""
    if not isinstance(x, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {shown(x)}.")


def time(x: Any, name: str) -> None:
    """Require one GPS time: a number, a decimal string, or an object that has a GPS time."""
    if isinstance(x, str) or hasattr(x, "gps") or hasattr(x, "gpsSeconds") or hasattr(x, "nanoseconds"):
        return
    if np.ndim(x) if is_traced(x) else float64_of(x, name, "s").ndim:
        raise ValueError(f"{name} must be one GPS time in s, not {shown(x)}.")


def instance(kind: type, or_none: bool = False) -> Callable[[Any, str], None]:
    """Require an object of one of jfstat's classes; with `or_none`, None is accepted."""

    def check(x: Any, name: str) -> None:
        if not isinstance(x, kind) and not (or_none and x is None):
            what = f"a jfstat.{kind.__name__}{' or None' if or_none else ''}"
            raise TypeError(f"{name} must be {what}, not {shown(x)}: make one.")

    return check


def one_of(*choices: str) -> Callable[[Any, str], None]:
    """Require one of a few words."""

    def check(x: Any, name: str) -> None:
        if not isinstance(x, str) or x not in choices:
            raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, not {shown(x)}.")

    return check


def table(x: Any, name: str) -> None:
    """Require an astropy table."""
    if not hasattr(x, "colnames"):
        raise TypeError(f"{name} must be a table, such as jfstat.search returns, not {shown(x)}.")
    no_row(x, name)


def no_row(x: Any, name: str) -> None:
    """Refuse a row of a table, which has the table's columns but no length."""
    if hasattr(x, "colnames") and hasattr(x, "table") and hasattr(x, "index"):
        raise TypeError(f"{name} must be a table, not one of its rows: give a slice, such as table[0:1].")


def row_as_table(x: Any, name: str) -> Any:
    """Convert a row of a table to a table of this row; return None, which keeps the value, for anything else."""
    is_row = hasattr(x, "colnames") and hasattr(x, "table") and hasattr(x, "index")
    return x.table[x.index : x.index + 1] if is_row else None


def sequence(x: Any, name: str) -> None:
    """Require a sequence or an iterator, but not a string."""
    if not isinstance(x, Iterable) or isinstance(x, (str, bytes)):
        raise TypeError(f"{name} must be a sequence, not {shown(x)}.")
    _items(x, name)


def pulsars(x: Any, name: str) -> None:
    """Require a pulsar, or a sequence of pulsars."""
    if not hasattr(x, "doppler"):
        sequence(x, name)


def detectors(x: Any, name: str) -> None:
    """Require a detector or its prefix, or a sequence of them."""
    if isinstance(x, str) or hasattr(x, "prefix"):
        return
    sequence(x, name)
    if not all(isinstance(one, str) or hasattr(one, "prefix") for one in _items(x, name)):
        raise ValueError(f"{name} must be prefixes such as 'H1', or Detectors, not {shown(x)}.")


def ephemeris(x: Any, name: str) -> None:
    """Require the name of an ephemeris, its two files, or an Ephemeris."""
    if isinstance(x, (str, os.PathLike)) or hasattr(x, "earth"):
        return
    if not isinstance(x, (list, tuple)) or not all(isinstance(one, (str, os.PathLike)) for one in x):
        raise ValueError(f"{name} must be a name such as 'DE405', two files or an Ephemeris, not {shown(x)}.")


def _items(x: Iterable[Any], name: str) -> list[Any]:
    """Return the items of a sequence; none of an iterator, whose items are left to the function."""
    if isinstance(x, Iterator):
        return []
    try:
        return list(x)
    except Exception as error:  # whatever a foreign object raises
        raise TypeError(f"{name} must be a sequence, not {shown(x)}.") from error
