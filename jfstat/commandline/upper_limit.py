"""`jfstat upper-limit`: the h0 that a search would have found, by injections into SFT files."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.tables import plain_column
from jfstat.commandline.inputs import add_data_files, read_band
from jfstat.commandline.options import add_preparation, add_sky, ephemeris, noise, number
from jfstat.commandline.segments import add_segments, given_segments
from jfstat.data.prepare import prepare
from jfstat.io.candidates import read_candidates
from jfstat.limits.analytic import sensitivity, sensitivity_depth
from jfstat.limits.injections import upper_limit
from jfstat.limits.population import Population
from jfstat.signal.parameters import TRANSIENT_COLUMNS

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers

SLACK = 1e-9
"""Hz by which rounding may put the frequency of a candidate outside the band."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "upper-limit",
        help="strain amplitude that would have been found, by injections",
        description="Inject signals into SFT files and print the h0 above which a given share of them exceeds a "
        "threshold, and what it would be in Gaussian noise of the same floor by formula.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    add_preparation(data)
    add_segments(data)
    signals = parser.add_argument_group("signals: isotropic positions and orientations by default")
    signals.add_argument("--Freq", "-f", type=number, required=True, metavar="HZ", help="lowest frequency, Hz")
    signals.add_argument(
        "--FreqBand", "-b", type=number, default=0.01, metavar="HZ", help="frequency band, Hz (default %(default)s)"
    )
    add_sky(signals, required=False)
    signals.add_argument("--f1dot", type=number, default=0.0, metavar="HZ/S", help="derivative 1, Hz/s (default 0)")
    signals.add_argument(
        "--f1dotBand", type=number, default=0.0, metavar="HZ/S", help="range in f1dot, Hz/s (default 0)"
    )
    signals.add_argument("--cosi", type=number, metavar="COS", help="cosine of the inclination (default: isotropic)")
    found = parser.add_argument_group("what counts as found")
    found.add_argument(
        "--TwoFthreshold", "-F", type=number, metavar="2F", help="2F, or the mean over segments, no unit"
    )
    found.add_argument(
        "--candidates",
        "-c",
        metavar="FILE",
        help="instead: 2F of the loudest of these in the band, from a search with the same segments",
    )
    found.add_argument("--confidence", type=number, default=0.95, metavar="P", help="share (default %(default)s)")
    found.add_argument(
        "--mismatch",
        type=number,
        default=0.0,
        metavar="M",
        help="fraction of rho^2 that the search loses between its templates: the mean mismatch of its bank plus 0.065 "
        "of the frequencies 1/(2T) apart (default 0, right only for known templates)",
    )
    found.add_argument("--injections", type=int, default=1000, metavar="N", help="their number (default %(default)s)")
    found.add_argument("--randSeed", type=int, default=0, metavar="N", help="seed of the draws, no unit (default 0)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, prepare, inject and print."""
    if (arguments.TwoFthreshold is None) == (arguments.candidates is None):
        raise ValueError("--TwoFthreshold or --candidates must say what counts as found: give one of them.")
    if (arguments.Alpha is None) != (arguments.Delta is None):
        raise ValueError("--Alpha and --Delta are a position together: give both, or neither for the whole sky.")
    if arguments.FreqBand < 0:
        raise ValueError("--FreqBand must not be negative: signals lie between --Freq and --Freq + --FreqBand.")
    fmin, fmax = arguments.Freq, arguments.Freq + arguments.FreqBand
    segments = given_segments(arguments)
    threshold, searched = arguments.TwoFthreshold, None
    if arguments.candidates is not None:
        threshold, searched = _loudest(arguments.candidates, fmin, fmax, segments is not None)
    spins = tuple(sorted((arguments.f1dot, arguments.f1dot + arguments.f1dotBand)))
    sky: dict[str, Any] = {} if arguments.Alpha is None else {"alpha": arguments.Alpha, "delta": arguments.Delta}
    orientation: dict[str, Any] = {} if arguments.cosi is None else {"cosi": arguments.cosi}
    population = Population(**sky, **orientation, freq=(fmin, fmax), fdots=[spins])
    sfts = read_band(arguments, fmin, fmax, arguments.guard, fdots=[spins])
    data = prepare(
        sfts,
        fmin,
        fmax,
        sqrt_sx=noise(arguments),
        ephemeris=ephemeris(arguments),
        guard=arguments.guard,
        segments=segments,
        fdots=[spins],
        filters=False,
    )
    if searched is not None and searched != data.n_segments:
        raise ValueError(
            f"--candidates={arguments.candidates} is of {searched} segments and the data have {data.n_segments}: give "
            "the segments of its search."
        )
    if arguments.mismatch == 0:
        print(
            "jfstat: note: --mismatch is 0: the limit is too low unless the search computed 2F at the signals' very "
            "templates",
            file=sys.stderr,
        )
    chosen: dict[str, Any] = {"confidence": arguments.confidence, "mismatch": arguments.mismatch}
    chosen["seed"] = arguments.randSeed
    limit = upper_limit(data, threshold, population, injections=arguments.injections, **chosen)
    expected = sensitivity(data, threshold, population, **chosen)
    statistic = "2F" if data.n_segments is None else f"mean 2F of {data.n_segments} segments"
    share = f"{100 * limit.confidence:g} % of {arguments.injections} injections"
    print(f"threshold          {threshold:12.4f}  {statistic}")
    print(f"h0                 {limit.h0:12.3e}  +- {limit.h0_error:.1e}: {share} are louder than the threshold")
    print(f"by formula         {expected:12.3e}  in Gaussian noise")
    print(f"sensitivity depth  {float(sensitivity_depth(data, limit.h0)):12.3f}  1/sqrt(Hz)")


def _loudest(path: str, fmin: float, fmax: float, segmented: bool) -> tuple[float, int | None]:
    """The largest 2F, or mean of 2F over segments, in a band of a file of candidates; its number of segments if told.

    Raises
    ------
    ValueError
        If the table is of another kind of search, or has no such candidate.
    """
    table: Any = read_candidates(path)
    given = f"--candidates={path}"
    if "transient" in table.meta or set(TRANSIENT_COLUMNS) & set(table.colnames):
        raise ValueError(f"{given} is of transient signals, and the injections are persistent: give another table.")
    kinds = ("twoF", "mean_twoF")
    wanted, other = kinds[::-1] if segmented else kinds
    if wanted not in table.colnames and other in table.colnames:
        hint = "is of a search without segments: leave out" if segmented else "is of a search with segments: give its"
        raise ValueError(f"{given} {hint} --segments, --segmentDuration or --segmentList.")
    if not {wanted, "freq"} <= set(table.colnames):
        raise ValueError(f"{given} lacks the column freq or {wanted}: give the table of a search.")
    numbers = {table.meta.get("n_segments")} - {None}
    if "n_segments" in table.colnames:
        numbers = set(plain_column(table, "n_segments").astype(int).tolist())
    if len(numbers) > 1:
        raise ValueError(f"{given} has candidates of several numbers of segments: give those of one.")
    freq, twoF = plain_column(table, "freq"), plain_column(table, wanted)
    inside = twoF[(freq >= fmin - SLACK) & (freq <= fmax + SLACK)]
    if not np.any(np.isfinite(inside)):
        raise ValueError(
            f"{given} has no candidate from --Freq={fmin:.10g} to {fmax:.10g} Hz: give the band that was searched."
        )
    return float(np.nanmax(inside)), next(iter(numbers), None)
