"""`jfstat track`: SFT files searched for signals whose frequency wanders, by the best path through segments."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from jfstat.commandline.banks import EXACT_POINTS, add_templates
from jfstat.commandline.inputs import add_data_files
from jfstat.commandline.options import add_preparation, number, numbers
from jfstat.commandline.search import add_no_details, add_odds, add_reference_time, add_work, run
from jfstat.commandline.segments import add_segments, segments_option
from jfstat.tracking.transitions import MOST_JUMPS

if TYPE_CHECKING:
    from jfstat.commandline.options import OptionGroup, Subparsers

OTHERS = dict(par=None, cohMaxMismatch=None, outputLoudest=None, cluster=None, RankingStatistic="F", BSGLthreshold=None)
OTHERS |= dict(linefiles=None, vetoLines=False, outputFstatAtoms=None, outputTransientStats=None, engine=None)
OTHERS |= dict(lineVeto=False, transient_WindowType="none")
"""Options of `jfstat search` that tracks do not have, and their values."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "track",
        help="search SFT files for signals whose frequency wanders",
        description="Search SFT files for signals whose frequency wanders from segment to segment, as those of neutron "
        "stars in binaries: 2F of each segment over a frequency band, at each template of a bank, and the best path "
        "through them by the Viterbi algorithm. Options are named as those of jfstat search. Frequencies are spaced by "
        "1/(2T), T being the length of a segment, unless a step is given.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    add_preparation(data)
    add_segments(data)
    bank = parser.add_argument_group("templates: each parameter from its value to value + band, which may be negative")
    bank.add_argument("--Freq", "-f", type=number, metavar="HZ", help="lowest frequency of the paths, Hz")
    bank.add_argument("--FreqBand", "-b", type=number, default=0.0, metavar="HZ", help="frequency band, Hz")
    bank.add_argument("--dFreq", "-r", type=number, metavar="HZ", help="width of a bin, Hz (default 1/(2T))")
    add_reference_time(bank)
    add_templates(bank)
    path = parser.add_argument_group("paths")
    path.add_argument(
        "--maxJump",
        type=int,
        metavar="W",
        help="jumps of up to W bins from one segment to the next, all equally probable (default 1)",
    )
    path.add_argument(
        "--jumpProbabilities",
        type=numbers,
        metavar="P,P,...",
        help="instead: probabilities of jumps from -W to W bins upwards, an odd number of them",
    )
    known = parser.add_argument_group("a signal of known amplitude, instead of any amplitude in each segment")
    known.add_argument("--h0", type=number, metavar="H", help="strain amplitude, no unit")
    known.add_argument("--cosi", type=number, metavar="C", help="cosine of the inclination, -1 to 1")
    known.add_argument("--psi", type=number, metavar="RAD", help="polarisation angle, rad (default 0)")
    _add_output(parser.add_argument_group("output"))
    add_work(parser.add_argument_group("the work and its division"), engines=False)
    parser.set_defaults(run=partial(_run, parser), **OTHERS)


def _add_output(out: OptionGroup) -> None:
    """Add the options for what is kept, and how it is written."""
    out.add_argument(
        "--outputFstat",
        metavar="FILE",
        help="a row for each template, with its best path: .ecsv, .hdf5, or anything else for ComputeFstatistic_v2's "
        "text format, in which 2F is the mean along the path",
    )
    out.add_argument(
        "--outputTrack",
        metavar="FILE",
        help="the loudest path, .ecsv or .hdf5: frequency and 2F in each segment",
    )
    out.add_argument(
        "--NumCandidatesToKeep",
        type=int,
        metavar="N",
        help="keep at most this many templates (default 1000, or all above --logLikelihoodThreshold; 0: all above it)",
    )
    out.add_argument(
        "--logLikelihoodThreshold",
        dest="TwoFthreshold",
        type=number,
        metavar="L",
        help="keep only paths with a log-likelihood, the sum of 2F/2, or of the log-likelihood ratios of a known "
        "amplitude, and of the logarithms of the jumps' probabilities, at or above this, no unit",
    )
    add_odds(out)
    add_no_details(out, "path")


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Check the options of paths, and search."""
    if segments_option(arguments) is None:
        raise ValueError("--segmentDuration is missing: give it, --segments or --segmentList.")
    if arguments.gridType == EXACT_POINTS:
        raise ValueError("--gridType=6 is for points without a path: use jfstat search.")
    if arguments.maxJump is not None and arguments.jumpProbabilities is not None:
        raise ValueError("--maxJump and --jumpProbabilities are two ways to give the jumps: give one.")
    if arguments.outputTrack is not None and not arguments.outputTrack.endswith((".ecsv", ".hdf5", ".h5")):
        raise ValueError("--outputTrack must end with .ecsv or .hdf5: the text format is for candidates.")
    if arguments.outputTrack is not None and arguments.unit is not None:
        raise ValueError("--outputTrack needs the whole search: leave it out of units.")
    if arguments.NumCandidatesToKeep == 0 and arguments.TwoFthreshold is None:
        raise ValueError("--NumCandidatesToKeep 0 keeps all at or above --logLikelihoodThreshold: give that as well.")
    if arguments.jumpProbabilities is not None:
        given = np.array(arguments.jumpProbabilities)
        if not np.all(given >= 0) or not np.any(given > 0) or len(given) % 2 == 0:
            raise ValueError("--jumpProbabilities must be an odd number of probabilities, such as 0.25,0.5,0.25.")
        with np.errstate(divide="ignore"):
            jumps = np.log(given)
    else:
        jumps = 1 if arguments.maxJump is None else arguments.maxJump
        if not 0 <= jumps <= MOST_JUMPS // 2:
            raise ValueError(f"--maxJump must be a number of bins from 0 to {MOST_JUMPS // 2}, not {jumps}.")
    arguments.jumps = jumps
    run(parser, arguments)
