"""`jfstat track`: SFT files searched for signals whose frequency wanders, by the best path through segments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.background import Background, add_background, background_of
from jfstat.commandline.band import Band, add_band, band_of, planned, say_noise
from jfstat.commandline.spellings import ODDS, add, kept, line_prior, segments_option
from jfstat.commandline.words import natural, number, numbers
from jfstat.commandline.work import TABLES, Division, add_work, check_outputs, division_of, write_all

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

ROUNDED = 0.011
"""Largest error of the sum of probabilities, which are written with few digits."""
MOST_JUMP = 5000
"""Most bins of a jump."""
PATH_META = ("version", "reftime", "detectors", "ephemeris", "segment_tspan", "dfreq")
PATH_META += ("transitions", "amplitude", "subband")
"""Entries of a search's meta that the file of its loudest path has, too."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "track",
        help="search SFT files for signals whose frequency wanders",
        description="Search SFT files for signals whose frequency wanders from segment to segment, as those of neutron "
        "stars in binaries: 2F of each segment over a frequency band, at each template of a bank, and the best path "
        "through them by the Viterbi algorithm. Options are named as those of jfstat search. Frequencies are spaced by "
        "1/(2T), T being the length of a segment, unless a step is given.",
    )
    add_band(parser)
    path = parser.add_argument_group("paths")
    path.add_argument(
        "--maxJump",
        type=natural,
        metavar="W",
        help="jumps of up to W bins from one segment to the next, all equally probable (default 1)",
    )
    path.add_argument(
        "--jumpProbabilities",
        type=numbers,
        metavar="P,P,...",
        help="instead: probabilities of jumps from -W to W bins upwards, an odd number of them",
    )
    path.add_argument(
        "--subband",
        type=number,
        metavar="HZ",
        help="a row for the best path that ends in each sub-band of this width, Hz, of each template (default: one row "
        "for each template)",
    )
    known = parser.add_argument_group("a signal of known amplitude, instead of any amplitude in each segment")
    add(known, "h0", "cosi", "psi")
    out = parser.add_argument_group("output")
    add(
        out,
        "outputFstat",
        help="a row for each template, or each sub-band of each, with its best path: .ecsv, .hdf5, or anything else "
        "for ComputeFstatistic_v2's text format, in which 2F is the mean along the path",
    )
    out.add_argument(
        "--outputTrack", metavar="FILE", help="the loudest path, .ecsv or .hdf5: frequency and 2F in each segment"
    )
    add(
        out,
        "NumCandidatesToKeep",
        help="keep at most this many paths (default 1000, or all above --logLikelihoodThreshold; 0: all above it)",
    )
    out.add_argument(
        "--logLikelihoodThreshold",
        type=number,
        metavar="L",
        help="keep only paths with a log-likelihood, the sum of 2F/2, or of the log-likelihood ratios of a known "
        "amplitude, and of the logarithms of the jumps' probabilities, at or above this, no unit",
    )
    add(out, *ODDS, "noDetails")
    add_background(parser.add_argument_group("the background, measured"))
    add_work(parser.add_argument_group("the work and its division"), engines=False)
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the search for paths that the options ask for."""
    if segments_option(arguments) is None:
        raise ValueError("--segmentDuration is missing: give it, --segments or --segmentList.")
    path = arguments.outputTrack
    if path is not None and not path.endswith(TABLES):
        raise ValueError("--outputTrack must end with .ecsv or .hdf5: the text format is for candidates.")
    if path is not None and arguments.unit is not None:
        raise ValueError("--outputTrack needs the whole search: leave it out of units.")
    jumps, chosen = _jumps(arguments), kept(arguments, "logLikelihoodThreshold")
    division = division_of(arguments)
    band = band_of(arguments)
    statistic = jfstat.BestPath(jumps, _amplitude(arguments), arguments.subband)
    robust = len(band.files.times.detectors) > 1 and not arguments.noDetails
    details = jfstat.Details(not arguments.noDetails, line_prior=line_prior(arguments) if robust else None)
    measured = background_of(arguments)
    check_outputs((arguments.outputFstat, path, arguments.outputBackground), division.together)
    keep = jfstat.Keep(bounds=band.templates.bounds or None)
    how: Any = dict(keep=keep, details=details, run=division.run)
    return partial(_run, division, band, statistic, chosen, how, (arguments.outputFstat, path), measured)


def _jumps(arguments: Arguments) -> Any:
    """Return the jumps as `jfstat.BestPath` takes them: their largest number of bins, or log-probabilities."""
    if arguments.maxJump is not None and arguments.jumpProbabilities is not None:
        raise ValueError("--maxJump and --jumpProbabilities are two ways to give the jumps: give one.")
    if arguments.jumpProbabilities is not None:
        given = np.array(arguments.jumpProbabilities)
        if not np.all(given >= 0) or len(given) % 2 == 0:
            raise ValueError("--jumpProbabilities must be an odd number of probabilities, such as 0.25,0.5,0.25.")
        total = float(np.sum(given))
        if not abs(total - 1) <= ROUNDED:
            raise ValueError(
                f"--jumpProbabilities must add up to 1, not to {total:.6g}: give fractions, such as 0.25,0.5,0.25."
            )
        with np.errstate(divide="ignore"):
            return np.log(given / total)
    jumps = 1 if arguments.maxJump is None else arguments.maxJump
    if not 0 <= jumps <= MOST_JUMP:
        raise ValueError(f"--maxJump must be a number of bins from 0 to {MOST_JUMP}, not {jumps}.")
    return jumps


def _amplitude(arguments: Arguments) -> jfstat.Amplitude | None:
    """Return the known amplitude, if there is one."""
    given = arguments.read("h0", "cosi")
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given) and arguments.psi is None:
        return None
    if missing:
        raise ValueError(f"--{missing[0]} is missing: a known amplitude has --h0 and --cosi.")
    return jfstat.Amplitude(given["h0"], given["cosi"], arguments.psi or 0.0)


def _run(
    division: Division,
    band: Band,
    statistic: jfstat.BestPath,
    chosen: tuple[int | None, float | None],
    how: dict[str, Any],
    paths: tuple[str | None, str | None],
    measured: Background | None,
) -> None:
    """Prepare and search; write the tables and print the loudest candidate."""
    data, bank = band.prepared()
    say_noise(division, data, data.observation)
    if measured is not None:
        measured.check_room(data, bank)
    plan = jfstat.plan_search(data, bank, statistic, *chosen, division.checkpoint, **how)
    done = planned(division, plan, data.n_segments)
    if done is None or not division.is_first:
        return
    found, seconds = done
    if measured is not None:
        found = measured.judged(division, found, (data, bank, statistic), how["keep"])
    said = write_all(
        (paths[0], partial(jfstat.write_candidates, found), f"{len(found)} candidates"),
        (paths[1] if len(found) else None, partial(_write_track, data, found, statistic), "the path of the first"),
    )
    print(f"{found.meta['n_twoF']} values of 2F for {found.meta['n_templates']} template(s) in {seconds:.1f} s")
    print("\n".join([jfstat.summary(found), *said]))


def _write_track(data: jfstat.FstatData, found: Any, statistic: jfstat.BestPath, path: str) -> Any:
    """Write the first candidate's path, a row for each segment: its middle, the path's frequencies, and 2F."""
    from astropy.table import QTable
    from astropy.units import Quantity

    own = jfstat.track(data, found[0], np.asarray(statistic.transitions))
    values = {"gps": own.gps, "freq": own.frequencies, "freq_at_gps": own.instantaneous, "twoF": own.twoF}
    units = {"gps": "s", "freq": "Hz", "freq_at_gps": "Hz"}
    plain = {name: np.asarray(x, np.float64) for name, x in values.items()}
    meta = {key: found.meta[key] for key in PATH_META if key in found.meta}
    columns = {name: Quantity(x, units[name]) if name in units else x for name, x in plain.items()}
    return jfstat.write_candidates(QTable(columns, meta=meta), path)
