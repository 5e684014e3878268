"""`jfstat follow-up`: candidates of a semi-coherent search followed up to full coherence with SFT files."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.tables import AnyTable, parameter_columns, stacked
from jfstat.commandline.candidates import given_candidates, given_reftime, print_candidate
from jfstat.commandline.inputs import add_data_files, add_lines, known_lines, read_band
from jfstat.commandline.options import (
    add_preparation,
    ephemeris,
    noise,
    number,
    option_type,
    reference_time,
    words,
)
from jfstat.followup.band import CandidateBand, sharing_data
from jfstat.followup.candidates import NEEDED, impossible
from jfstat.followup.distinct import distinct
from jfstat.followup.ladder import follow_up, last_stage
from jfstat.followup.neighbourhood import MISMATCH
from jfstat.followup.options import FALSE_ALARM, VETO, Fit, Stages
from jfstat.io.candidates import HDF5_SUFFIXES, write_candidates

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.commandline.options import Subparsers
    from jfstat.signal.times import TimeLike

SAME_TWOF = 0.01
"""2F by which the ends of climbs to one peak may differ."""


@option_type("falling whole numbers, such as 50,10,1")
def stage_numbers(word: str) -> tuple[int, ...]:
    """Numbers of segments from a comma-separated list."""
    return tuple(int(part) for part in words(word))


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "follow-up",
        help="follow candidates of a semi-coherent search up to full coherence",
        description="Take each candidate of a file through stages of ever fewer and longer segments, each refined "
        "within the errors of the one before, and reject those whose 2F grows too little for a signal. Candidates may "
        "lie anywhere in the band of the SFT files.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    add_preparation(data)
    ladder = parser.add_argument_group("candidates and stages")
    ladder.add_argument(
        "--candidates",
        "-c",
        required=True,
        metavar="FILE",
        help="what jfstat search or refine wrote, .ecsv, .hdf5, or ComputeFstatistic_v2's text format",
    )
    ladder.add_argument(
        "--NumCandidatesToKeep",
        type=int,
        metavar="N",
        help="follow up the first N, the loudest of a search (default: all)",
    )
    ladder.add_argument(
        "--stages",
        type=stage_numbers,
        metavar="N,...,1",
        help="numbers of segments, falling, such as 50,10,1 (default: from those of the search on, by the metric)",
    )
    ladder.add_argument(
        "--parameters",
        type=words,
        metavar="freq,...",
        help="columns to refine, others stay fixed (default: those that the search varied, or all if the file does not "
        "say; without ecc and argp)",
    )
    ladder.add_argument(
        "--refTime",
        type=reference_time,
        metavar="GPS",
        help="reference time of the candidates if their file does not name it, GPS s or UTC (default: data start)",
    )
    ladder.add_argument(
        "--mismatch",
        type=number,
        default=MISMATCH,
        metavar="M",
        help="first stage: cover templates up to this mismatch around each candidate (default: %(default)s)",
    )
    ladder.add_argument(
        "--bins",
        type=number,
        metavar="N",
        help="first stage: cover frequencies up to N bins of 1/T off, T of a segment (default: by the sky, 4 to 32)",
    )
    ladder.add_argument(
        "--veto",
        type=number,
        default=VETO,
        metavar="P",
        help="probability with which a stage rejects a signal because its 2F grows too little (default: %(default)s)",
    )
    ladder.add_argument(
        "--falseAlarm",
        type=number,
        default=FALSE_ALARM,
        metavar="P",
        help="probability with which noise near a candidate passes the last stage (default: %(default)s)",
    )
    out = parser.add_argument_group("output")
    add_lines(out)
    out.add_argument(
        "--outputFstat",
        metavar="FILE",
        help="all stages of all candidates: .ecsv or .hdf5; or anything else for the last stage of each in "
        "ComputeFstatistic_v2's text format, without errors and messages",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, follow up band by band, write and print."""
    found = given_candidates(arguments, "followed up")
    reftime = given_reftime(arguments, found)
    if arguments.stages is None and found.meta.get("n_segments") is None:
        raise ValueError(f"--stages is missing: {arguments.candidates} does not say how many segments its search had.")
    began = time.perf_counter()
    table: Any = _by_bands(arguments, found, reftime)
    elapsed = time.perf_counter() - began
    path = None
    if arguments.outputFstat is not None:
        everything = arguments.outputFstat.lower().endswith((".ecsv", *HDF5_SUFFIXES))
        path = write_candidates(table if everything else last_stage(table), arguments.outputFstat)
    _print_stages(table, elapsed)
    ends: Any = last_stage(table)
    ends = ends[np.asarray(ends["passed"])]
    peaks = f", and end on {len(distinct(ends, 'mean_twoF'))} peak(s)" if len(ends) > 1 else ""
    print(f"{len(ends)} of {len(found)} candidate(s) passed all stages{peaks}")
    if len(ends):
        twoF = np.asarray(ends["mean_twoF"])
        best = int(np.argmax(twoF > twoF.max() - SAME_TWOF))  # the first of those that end on the highest peak
        _print_growth(table[table["candidate"] == ends["candidate"][best]])
        print_candidate(ends, best)
    if path is not None:
        print(f"wrote {path}")


def _by_bands(arguments: argparse.Namespace, found: AnyTable, reftime: TimeLike | None) -> QTable:
    """The table of all candidates, from SFTs that are read for one band after the other.

    Raises
    ------
    ValueError
        If no candidate can be followed up.
    """
    columns = parameter_columns(found, "found", NEEDED)
    problems = impossible(columns)
    sound = np.array([not problem for problem in problems])
    if not np.any(sound):
        raise ValueError(f"--candidates {arguments.candidates} holds no sound candidate: {problems[0]}.")
    tables, error, numbers = [], None, arguments.stages
    fit = Fit(
        arguments.parameters,
        mismatch=arguments.mismatch,
        bins=arguments.bins,
        reftime=reftime,
        lines=known_lines(arguments.linefiles),
    )
    for members in sharing_data(columns["freq"], sound):
        band = CandidateBand.of({name: x[members] for name, x in columns.items()})
        try:
            sfts = read_band(
                arguments, band.low, band.high, arguments.guard + band.margin, band.orbit, band.fdots, reftime
            )
            table: Any = follow_up(
                sfts,
                found[members],
                Stages(numbers, arguments.veto, arguments.falseAlarm),
                fit,
                sqrt_sx=noise(arguments),
                ephemeris=ephemeris(arguments),
                guard=arguments.guard,
            )
        except ValueError as problem:
            error = problem
            print(f"not followed up: {len(members)} candidate(s) from {band.low:.6f} Hz on: {problem}")
            continue
        table["candidate"] = members[np.asarray(table["candidate"])]
        tables.append(table)
        numbers = table.meta["stages"]  # chosen once, so that all bands have the same
    if not tables:
        raise error or ValueError("no candidate can be followed up.")
    joined: Any = stacked(tables)
    return joined[np.lexsort([np.asarray(joined["stage"]), np.asarray(joined["candidate"])])]


def _print_stages(table: AnyTable, elapsed: float) -> None:
    """Print how many candidates there were in each stage."""
    print(f"fitted {', '.join(table.meta['parameters'])}; {elapsed:.1f} s")
    print(" stage  segments  candidates  passed")
    for stage in np.unique(table["stage"]):
        own = table[np.asarray(table["stage"]) == stage]
        print(f"{stage:6d}  {own['n_segments'][0]:8d}  {len(own):10d}  {int(np.sum(own['passed'])):6d}")


def _print_growth(rows: AnyTable) -> None:
    """Print how 2F of a candidate grew."""
    print(f"loudest of these, candidate {rows['candidate'][0]}:")
    print(" segments   mean 2F  expected of a signal")
    for i in range(len(rows)):
        low, high = float(rows["expected_low"][i]), float(rows["expected_high"][i])
        expected = f"{low:.2f} to {high:.2f}" if np.isfinite(low) else "-"
        print(f"{rows['n_segments'][i]:9d}  {float(rows['mean_twoF'][i]):8.2f}  {expected}")
