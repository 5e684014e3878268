"""The candidates that `jfstat refine` and `jfstat follow-up` start from, and how they print what they end at."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from jfstat.candidates.provenance import reftime_of
from jfstat.candidates.schema import column_of
from jfstat.candidates.tables import AnyTable
from jfstat.io.candidates import check_writable, read_candidates
from jfstat.signal.parameters import AMPLITUDE_FIELDS, WINDOW_COLUMNS, is_parameter, spin_order
from jfstat.signal.times import TimeLike
from jfstat.validation import NumberLike


def given_candidates(arguments: argparse.Namespace, done: str) -> Any:
    """The table of ``--candidates``, up to ``--NumCandidatesToKeep``; `done` says what is done with them.

    Raises
    ------
    ValueError
        If none is given or found.
    OSError
        If they cannot be read, or ``--outputFstat`` cannot be written.
    """
    if arguments.NumCandidatesToKeep is not None and arguments.NumCandidatesToKeep < 1:
        raise ValueError(f"--NumCandidatesToKeep must be at least 1, not {arguments.NumCandidatesToKeep}.")
    found: Any = read_candidates(arguments.candidates)[: arguments.NumCandidatesToKeep]
    if len(found) == 0:
        raise ValueError(f"--candidates {arguments.candidates} holds no candidates: nothing is to be {done}.")
    if arguments.outputFstat is not None:
        check_writable(arguments.outputFstat)
    return found


def given_reftime(arguments: argparse.Namespace, found: Any) -> TimeLike | None:
    """When the candidates' frequencies hold: as their file or ``--refTime`` says; None for the start of the data.

    Raises
    ------
    ValueError
        If neither does and frequencies change.
    """
    reftime = reftime_of(found, arguments.refTime)
    if reftime is None and any((spin_order(name) or 0) > 0 and np.any(found[name] != 0) for name in found.colnames):
        raise ValueError(f"--refTime is missing: {arguments.candidates} does not say when its frequencies hold.")
    return reftime


def print_candidate(table: AnyTable, index: int) -> None:
    """Print a row of refined candidates, each parameter on a line with its error and unit."""
    print(f"parameters at reference time GPS {table.meta['reftime']}:")
    for name in table.colnames:
        value, own = table[name][index], column_of(name)
        if name.startswith(("twoF", "mean_twoF")) or name == "log10BSGL":
            print(f"  {name:9s} {own.text(value)}")
        elif is_parameter(name) or name in (*WINDOW_COLUMNS, *AMPLITUDE_FIELDS):
            said = f"{_plain(value):{own.digits}} {_error_of(table, index, name)} {own.unit}"
            print(f"  {name:9s} {said}".rstrip())
    print(f"  {table['message'][index]}")


def _plain(x: NumberLike) -> float:
    """A number without its unit."""
    return float(getattr(x, "value", x))


def _error_of(table: AnyTable, index: int, name: str) -> str:
    """A parameter's error in words."""
    if f"{name}_error" not in table.colnames:
        return "(fixed)"
    error = _plain(table[f"{name}_error"][index])
    return f"+- {error:.2g}" if np.isfinite(error) else "(no error)"
