"""`jfstat follow-up`: candidates of a semi-coherent search followed up to full coherence with SFT files."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.candidates import add_fit, fit_of, given_candidates
from jfstat.commandline.spellings import DATA, PREPARATION, add, data_files, preparation
from jfstat.commandline.words import number, stage_numbers
from jfstat.commandline.work import TABLES

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

SAME_TWOF = 0.01
"""2F by which the ends of climbs to one peak may differ."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "follow-up",
        help="follow candidates of a semi-coherent search up to full coherence",
        description="Take each candidate of a file through stages of ever fewer and longer segments, each refined "
        "within the errors of the one before, and reject those whose 2F grows too little for a signal. Candidates may "
        "lie anywhere in the band of the SFT files.",
    )
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:], *PREPARATION)
    ladder = parser.add_argument_group("candidates and stages")
    add_fit(ladder, "follow up", "first stage: ")
    ladder.add_argument(
        "--stages",
        type=stage_numbers,
        metavar="N,...,1",
        help="numbers of segments, falling, such as 50,10,1 (default: from those of the search on, by the metric)",
    )
    ladder.add_argument(
        "--veto",
        type=number,
        metavar="P",
        help="probability with which a stage rejects a signal because its 2F grows too little (default: 0.001)",
    )
    ladder.add_argument(
        "--falseAlarm",
        type=number,
        metavar="P",
        help="probability with which noise near a candidate passes the last stage (default: 0.001)",
    )
    work = parser.add_argument_group("work")
    work.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the candidates that are done here, after at most 256 of them, or 16384 on a GPU, and go on from "
        "there if the file exists",
    )
    out = parser.add_argument_group("output")
    add(out, "linefiles")
    add(
        out,
        "outputFstat",
        help="all stages of all candidates: .ecsv or .hdf5; or anything else for the last stage of each in "
        "ComputeFstatistic_v2's text format, without errors and messages",
    )
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the follow-up that the options ask for."""
    found = given_candidates(arguments, "followed up")
    fit = fit_of(arguments, found)
    known = found.meta.get("n_segments") is not None or found.meta.get("statistic") == "TrackPower"
    if arguments.stages is None and not known:
        raise ValueError(f"--stages is missing: {arguments.candidates} does not say how many segments its search had.")
    rates = {"veto": arguments.veto, "false_alarm": arguments.falseAlarm}
    stages = jfstat.Stages(arguments.stages, **{name: x for name, x in rates.items() if x is not None})
    how = dict(preparation(arguments, found.meta), checkpoint=arguments.checkpoint)
    follow = partial(jfstat.follow_up_files, data_files(arguments), found, stages, fit, **how)
    return partial(_run, follow, len(found), arguments.outputFstat)


def _run(follow_up: Any, n_candidates: int, output: str | None) -> None:
    """Follow up, write and print."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            table = follow_up()
        finally:
            for warning in caught:
                print(warning.message)
    elapsed = time.perf_counter() - began
    path = None
    if output is not None:
        everything = output.lower().endswith(TABLES)
        path = jfstat.write_candidates(table if everything else jfstat.last_stage(table), output)
    _print_stages(table, elapsed)
    ends: Any = jfstat.last_stage(table)
    ends = ends[np.asarray(ends["passed"])]
    peaks = f", and end on {len(jfstat.distinct(ends, 'mean_twoF'))} peak(s)" if len(ends) > 1 else ""
    print(f"{len(ends)} of {n_candidates} candidate(s) passed all stages{peaks}")
    if len(ends):
        twoF = np.asarray(ends["mean_twoF"])
        best = int(np.argmax(twoF > twoF.max() - SAME_TWOF))  # the first of those that end on the highest peak
        _print_growth(table[table["candidate"] == ends["candidate"][best]])
        print(jfstat.summary(ends, best))
    if path is not None:
        print(f"wrote {path}")


def _print_stages(table: Any, elapsed: float) -> None:
    """Print how many candidates there were in each stage."""
    print(f"fitted {', '.join(table.meta['parameters'])}; {elapsed:.1f} s")
    print(" stage  segments  candidates  passed")
    for stage in np.unique(table["stage"]):
        own = table[np.asarray(table["stage"]) == stage]
        print(f"{stage:6d}  {own['n_segments'][0]:8d}  {len(own):10d}  {int(np.sum(own['passed'])):6d}")


def _print_growth(rows: Any) -> None:
    """Print how 2F of a candidate grew."""
    print(f"loudest of these, candidate {rows['candidate'][0]}:")
    print(" segments   mean 2F  expected of a signal")
    for i in range(len(rows)):
        low, high = float(rows["expected_low"][i]), float(rows["expected_high"][i])
        expected = f"{low:.2f} to {high:.2f}" if np.isfinite(low) else "-"
        print(f"{rows['n_segments'][i]:9d}  {float(rows['mean_twoF'][i]):8.2f}  {expected}")
