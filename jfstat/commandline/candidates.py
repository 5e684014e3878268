"""The candidates that `jfstat refine` and `jfstat follow-up` start from, and the options that both have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.spellings import OptionGroup, add, known_lines, reftime_of
from jfstat.commandline.words import count, number, words
from jfstat.commandline.work import check_outputs

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments


def add_fit(group: OptionGroup, done: str, first: str) -> None:
    """Add the options of candidates and of what is fitted; `done` and `first` are words for the help."""
    add(group, "candidates", required=True)
    add(group, "NumCandidatesToKeep", type=count, help=f"{done} the first N, the loudest of a search (default: all)")
    group.add_argument(
        "--numTwoF",
        type=count,
        metavar="N",
        help="number of values of 2F, templates times frequencies, from which the search chose the candidates, if "
        "their file does not name it; noise_chance counts them",
    )
    group.add_argument(
        "--parameters",
        type=words,
        metavar="freq,...",
        help="columns to refine, others stay fixed (default: those that the search varied, or all if the file does not "
        "say; without ecc and argp)",
    )
    add(
        group,
        "refTime",
        help="reference time of the candidates if their file does not name it, GPS s or UTC (default: data start)",
    )
    group.add_argument(
        "--mismatch",
        type=number,
        metavar="M",
        help=f"{first}cover templates up to this mismatch around each candidate (default: 1)",
    )
    group.add_argument(
        "--bins",
        type=number,
        metavar="N",
        help=f"{first}cover frequencies up to N bins of 1/T off, more for uncertain starts (default: as many as the "
        "sky positions that are covered can make, 4 to 32)",
    )


def given_candidates(arguments: Arguments, done: str) -> Any:
    """Return the table of ``--candidates``, up to ``--NumCandidatesToKeep``; `done` says what is done with them.

    Raises
    ------
    ValueError
        If none is given or found.
    OSError
        If they cannot be read, or ``--outputFstat`` cannot be written.
    """
    found: Any = jfstat.read_candidates(arguments.candidates)
    n_rows = len(found)
    if "candidate" in found.colnames and "stage" in found.colnames:
        found = jfstat.last_stage(found)
        if len(found) < n_rows:
            print(f"{n_rows} rows of a follow-up: the last stage of each of its {len(found)} candidate(s) is taken")
    found = found[: arguments.NumCandidatesToKeep]
    if len(found) == 0:
        raise ValueError(f"--candidates {arguments.candidates} holds no candidates: nothing is to be {done}.")
    if arguments.numTwoF is not None:
        own = found.meta.get("n_twoF")
        if own is not None and own > n_rows:  # else it may be the number of rows alone
            raise ValueError(f"--numTwoF: {arguments.candidates} says n_twoF = {own}: leave the option out.")
        found.meta["n_twoF"] = arguments.numTwoF
    check_outputs([arguments.outputFstat])
    return found


def fit_of(arguments: Arguments, found: Any, bounds: Any = None) -> jfstat.Fit:
    """Return what is fitted to the candidates, and when their frequencies hold.

    Raises
    ------
    OSError, ValueError
        If neither the file nor ``--refTime`` says when, and frequencies change; if both do and differ; or an option is
        out of range.
    """
    reftime = reftime_of(arguments, found, "--candidates")
    if reftime is None:
        spins = [name for name in found.colnames if name.startswith("f") and name.endswith("dot")]
        if any(np.any(found[name] != 0) for name in spins):
            raise ValueError(f"--refTime is missing: {arguments.candidates} does not say when its frequencies hold.")
    given = arguments.read("parameters", "mismatch", "bins")
    chosen = {name: value for name, value in given.items() if value is not None}
    return jfstat.Fit(bounds=bounds, reftime=reftime, lines=known_lines(arguments.linefiles), **chosen)
