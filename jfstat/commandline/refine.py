"""`jfstat refine`: candidates of a file refined with SFT files."""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.candidates import add_fit, fit_of, given_candidates
from jfstat.commandline.spellings import DATA, PREPARATION, SEGMENTS, add, data_files, preparation, segments
from jfstat.commandline.words import words

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

PARAMETERS = r"freq|f\d+dot|alpha|delta|pmra|pmdec|asini|period|tp|ecc|argp"
"""Columns that hold parameters of templates."""
NUMBERS = r"(?<![\w-])-?\d[-+.e\d]*(?!F)"
"""What differs among messages of one kind."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "refine",
        help="refine candidates of a search by gradients, with error bars",
        description="Climb from each candidate of a file to the peak of 2F next to it and write parameters, errors and "
        "how it ended. Candidates may lie anywhere in the band of the SFT files.",
    )
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:], *PREPARATION, *SEGMENTS)
    fit = parser.add_argument_group("candidates and what to fit")
    add_fit(fit, "refine", "")
    fit.add_argument(
        "--bounds",
        type=words,
        action="append",
        default=[],
        metavar="NAME=LOW:HIGH",
        help="limits of a parameter, Hz, Hz/s, ..., rad, s; may be repeated",
    )
    fit.add_argument(
        "--keepAll",
        action="store_true",
        help="keep a row for each candidate (default: of those that end on one peak, the row with the highest 2F)",
    )
    out = parser.add_argument_group("output")
    add(out, "linefiles")
    add(
        out,
        "outputFstat",
        help="refined candidates: .ecsv or .hdf5 with errors and messages, or anything else for ComputeFstatistic_v2's "
        "text format, without",
    )
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the refinement that the options ask for."""
    found = given_candidates(arguments, "refined")
    parts = segments(arguments)  # refuses options that contradict each other, before any data are read
    fit = fit_of(arguments, found, _bounds(arguments.bounds))
    how = dict(segments=parts, **preparation(arguments, found.meta))
    refined = partial(jfstat.refine_files, data_files(arguments), found, fit, **how)
    return partial(_run, refined, arguments.keepAll, arguments.outputFstat)


def _run(refine: Any, keep_all: bool, output: str | None) -> None:
    """Refine, write and print."""
    began = time.perf_counter()
    found = refine()
    elapsed, n_candidates = time.perf_counter() - began, len(found)
    refined: Any = found if keep_all else jfstat.distinct(found)
    path = None if output is None else jfstat.write_candidates(refined, output)
    fitted, converged = refined.meta["parameters"], np.asarray(refined["converged"])
    held = [name for name in refined.colnames if re.fullmatch(PARAMETERS, name) and name not in fitted]
    print(f"fitted {', '.join(fitted)}; held {', '.join(held) or 'nothing'}")
    merged = "" if keep_all else f", merged to {len(refined)} by their peaks,"
    print(f"{n_candidates} candidate(s){merged} in {elapsed:.1f} s; {int(np.sum(converged))} row(s) converged")
    numberless = [re.sub(NUMBERS, "...", message) for message in refined["message"]]
    for message, count in Counter(numberless).most_common():
        print(f"  {count:6d} {message}")
    if np.any(converged):
        statistic = "mean_twoF" if "mean_twoF" in refined.colnames else "twoF"
        loudest = int(np.argmax(np.where(converged, refined[statistic], -np.inf)))
        print("loudest:")
        print(jfstat.summary(refined, loudest))
    if path is not None:
        print(f"wrote {len(refined)} candidates to {path}")


def _bounds(texts: list[list[str]]) -> dict[str, tuple[float, float]]:
    """Return limits of parameters, from words such as ``f1dot=-1e-9:0``."""
    limits = {}
    for text in (word for given in texts for word in given):
        found = re.fullmatch(r"(\w+)=([^=]+?):([^:=]+)", text)
        try:
            if found is None:
                raise ValueError
            limits[found[1]] = float(found[2]), float(found[3])
        except ValueError:
            raise ValueError(f"--bounds must be NAME=LOW:HIGH with two numbers, not {text!r}.") from None
    return limits
