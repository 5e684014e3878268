"""`jfstat refine`: candidates of a file refined with SFT files."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.tables import AnyTable, parameter_columns, stacked
from jfstat.commandline.candidates import given_candidates, given_reftime, print_candidate
from jfstat.commandline.inputs import add_data_files, add_lines, known_lines, read_band
from jfstat.commandline.options import (
    add_preparation,
    ephemeris,
    noise,
    reference_time,
    words,
)
from jfstat.commandline.segments import add_segments, given_segments
from jfstat.data.fstatdata import FstatData
from jfstat.followup.band import CandidateBand, sharing_data
from jfstat.followup.candidates import NEEDED, SearchedWith, impossible, usual_names
from jfstat.followup.distinct import distinct
from jfstat.followup.neighbourhood import MISMATCH
from jfstat.followup.options import Fit
from jfstat.followup.refine import refine
from jfstat.io.candidates import write_candidates
from jfstat.searching.statistics import statistic_of
from jfstat.signal.parameters import is_parameter
from jfstat.signal.times import TimeLike

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "refine",
        help="refine candidates of a search by gradients, with error bars",
        description="Climb from each candidate of a file to the peak of 2F next to it and write parameters, errors and "
        "how it ended. Candidates may lie anywhere in the band of the SFT files.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    add_preparation(data)
    add_segments(data)
    fit = parser.add_argument_group("candidates and what to fit")
    fit.add_argument(
        "--candidates",
        "-c",
        required=True,
        metavar="FILE",
        help="what jfstat search wrote, .ecsv, .hdf5, or ComputeFstatistic_v2's text format",
    )
    fit.add_argument(
        "--NumCandidatesToKeep",
        type=int,
        metavar="N",
        help="refine the first N, the loudest of a search (default: all)",
    )
    fit.add_argument(
        "--parameters",
        type=words,
        metavar="freq,...",
        help="columns to refine, others stay fixed (default: those that the search varied, or all if the file does not "
        "say; without ecc and argp)",
    )
    fit.add_argument(
        "--bounds",
        type=words,
        action="append",
        default=[],
        metavar="NAME=LOW:HIGH",
        help="limits of a parameter, Hz, Hz/s, ..., rad, s; may be repeated",
    )
    fit.add_argument(
        "--refTime",
        type=reference_time,
        metavar="GPS",
        help="reference time of the candidates if their file does not name it, GPS s or UTC (default: data start)",
    )
    fit.add_argument(
        "--mismatch",
        type=float,
        default=MISMATCH,
        metavar="M",
        help="cover templates up to this mismatch around each candidate (default: %(default)s)",
    )
    fit.add_argument(
        "--bins",
        type=float,
        metavar="N",
        help="cover frequencies up to N bins of 1/T off, more for uncertain starts (default: as many as the sky "
        "positions that are covered can make, 4 to 32)",
    )
    fit.add_argument(
        "--keepAll",
        action="store_true",
        help="keep a row for each candidate (default: of those that end on one peak, the row with the highest 2F)",
    )
    out = parser.add_argument_group("output")
    add_lines(out)
    out.add_argument(
        "--outputFstat",
        metavar="FILE",
        help="refined candidates: .ecsv or .hdf5 with errors and messages, or anything else for ComputeFstatistic_v2's "
        "text format, without",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, refine band by band, write and print."""
    found = given_candidates(arguments, "refined")
    given_segments(arguments)  # refuses options that contradict each other, before any data are read
    reftime = given_reftime(arguments, found)
    fit = Fit(
        arguments.parameters,
        _bounds(arguments.bounds),
        arguments.mismatch,
        arguments.bins,
        reftime=reftime,
        lines=known_lines(arguments.linefiles),
    )
    began = time.perf_counter()
    refined: Any = _refine_by_bands(arguments, found, fit)
    elapsed = time.perf_counter() - began
    n_candidates = len(refined)
    if not arguments.keepAll:
        refined = distinct(refined)
    path = None if arguments.outputFstat is None else write_candidates(refined, arguments.outputFstat)
    converged = np.asarray(refined["converged"])
    held = [name for name in refined.colnames if is_parameter(name) and name not in refined.meta["parameters"]]
    print(f"fitted {', '.join(refined.meta['parameters'])}; held {', '.join(held) or 'nothing'}")
    merged = "" if arguments.keepAll else f", merged to {len(refined)} by their peaks,"
    print(f"{n_candidates} candidate(s){merged} in {elapsed:.1f} s; {int(np.sum(converged))} row(s) converged")
    numberless = [re.sub(r"(?<![\w-])-?\d[-+.e\d]*(?!F)", "...", message) for message in refined["message"]]
    for message, count in Counter(numberless).most_common():
        print(f"  {count:6d} {message}")
    if np.any(converged):
        loudest = int(
            np.argmax(np.where(converged, refined[statistic_of(refined.meta).loudness(refined.meta)], -np.inf))
        )
        print("loudest:")
        print_candidate(refined, loudest)
    if path is not None:
        print(f"wrote {len(refined)} candidates to {path}")


def _refine_by_bands(arguments: argparse.Namespace, found: AnyTable, fit: Fit) -> QTable:
    """The table of all candidates, refined with data prepared for one narrow band after the other.

    Candidates outside the band of the files only get a message.

    Raises
    ------
    ValueError
        If no candidate can be refined.
    """
    columns = parameter_columns(found, "found", NEEDED)
    if fit.parameters is None:  # decided once, so that all bands have the same
        fit = replace(fit, parameters=usual_names(columns, SearchedWith.of(found, ()).parameters))
    problems = impossible(columns)
    sound = np.array([not problem for problem in problems])
    waiting = sharing_data(columns["freq"], sound)
    tables, rows = [], []
    data, error = None, ValueError(f"--candidates {arguments.candidates} holds no sound candidate: see its columns.")
    while waiting:
        members = waiting.pop(0)
        try:
            data = _prepared(arguments, {name: x[members] for name, x in columns.items()}, fit.reftime)
        except ValueError as problem:
            error = problem
            if len(members) == 1:
                problems[members[0]] = f"not refined: {problem}"
            else:  # the reason may be a single one of them
                waiting[:0] = np.array_split(members, 2)
            continue
        tables.append(refine(data, found[members], fit=fit, progress=True))
        rows.append(members)
    if data is None:
        raise error
    rest = np.array([row for row, problem in enumerate(problems) if problem], int)
    if len(rest):  # they fit no data: any data give them a row
        table = refine(data, found[rest], fit=fit, progress=False)
        table["message"] = [problems[row] for row in rest]
        tables.append(table)
        rows.append(rest)
    return stacked(tables)[np.argsort(np.concatenate(rows))]  # type: ignore[return-value]


def _prepared(arguments: argparse.Namespace, columns: dict[str, np.ndarray], reftime: TimeLike | None) -> FstatData:
    """Data of the band around some candidates, with room on both sides as far as the files allow.

    Parameters
    ----------
    arguments : Namespace
    columns : dict of (n,) float64 ndarrays
        From `parameter_columns`, sound rows only.
    reftime : number, GPSTime or None
        GPS time at which they hold.
    """
    band = CandidateBand.of(columns)
    sfts = read_band(arguments, band.low, band.high, arguments.guard + band.margin, band.orbit, band.fdots, reftime)
    return band.prepared(
        sfts,
        reftime,
        noise(arguments),
        ephemeris(arguments),
        arguments.guard,
        given_segments(arguments),
    )


def _bounds(texts: list[list[str]]) -> dict[str, tuple[float, float]]:
    """Limits of parameters, from words such as ``f1dot=-1e-9:0``."""
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
