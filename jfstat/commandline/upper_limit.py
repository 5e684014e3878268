"""`jfstat upper-limit`: the h0 that a search would have found, by injections into SFT files."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.spellings import (
    DATA,
    PREPARATION,
    SEGMENTS,
    add,
    data_files,
    preparation,
    read_band,
    segments,
)
from jfstat.commandline.words import count, number

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

SLACK = 1e-9
"""Hz by which rounding may put the frequency of a candidate outside the band."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "upper-limit",
        help="strain amplitude that would have been found, by injections",
        description="Inject signals into SFT files and print the h0 above which a given share of them exceeds a "
        "threshold, and what it would be in Gaussian noise of the same floor by formula.",
    )
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:], *PREPARATION, *SEGMENTS)
    signals = parser.add_argument_group("signals: isotropic positions and orientations by default")
    add(signals, "Freq", required=True)
    add(signals, "FreqBand", default=0.01, help="frequency band, Hz (default 0.01)")
    add(signals, "Alpha", "Delta")
    add(signals, "f1dot", "f1dotBand", default=0.0)
    add(signals, "cosi", help="cosine of the inclination (default: isotropic)")
    found = parser.add_argument_group("what counts as found")
    add(found, "TwoFthreshold", help="2F, or the mean over segments, no unit")
    add(found, "candidates", help="instead: 2F of the loudest of these in the band, from a search with these segments")
    found.add_argument("--confidence", type=number, default=0.95, metavar="P", help="share (default %(default)s)")
    found.add_argument(
        "--mismatch",
        type=number,
        default=0.0,
        metavar="M",
        help="fraction of rho^2 that the search loses between its templates: the mean mismatch of its bank plus 0.065 "
        "of the frequencies 1/(2T) apart (default 0, right only for known templates)",
    )
    found.add_argument("--injections", type=count, default=1000, metavar="N", help="their number (default %(default)s)")
    add(found, "randSeed")
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the estimate that the options ask for."""
    if (arguments.TwoFthreshold is None) == (arguments.candidates is None):
        raise ValueError("--TwoFthreshold or --candidates must say what counts as found: give one of them.")
    if (arguments.Alpha is None) != (arguments.Delta is None):
        raise ValueError("--Alpha and --Delta are a position together: give both, or neither for the whole sky.")
    if arguments.FreqBand < 0:
        raise ValueError("--FreqBand must not be negative: signals lie between --Freq and --Freq + --FreqBand.")
    band = arguments.Freq, arguments.Freq + arguments.FreqBand
    parts, path = segments(arguments), arguments.candidates
    threshold, searched = arguments.TwoFthreshold, dict[str, Any]()
    if path is not None:
        threshold, searched = _loudest(path, *band, parts is not None)
    how = preparation(arguments, searched)
    spins = tuple(sorted((arguments.f1dot, arguments.f1dot + arguments.f1dotBand)))
    sky: dict[str, Any] = {} if arguments.Alpha is None else {"alpha": arguments.Alpha, "delta": arguments.Delta}
    orientation: dict[str, Any] = {} if arguments.cosi is None else {"cosi": arguments.cosi}
    population = jfstat.Population(**sky, **orientation, freq=band, fdots=[spins])
    files = data_files(arguments)

    def prepared() -> jfstat.FstatData:
        sfts = read_band(files, *band, how["guard"], fdots=[spins], noise_bins=how["sqrt_sx"].reach)
        data = jfstat.prepare(sfts, *band, **how, segments=parts, fdots=[spins], filters=False)
        if path is not None:
            _check_search(path, searched, data, how["sqrt_sx"])
        return data

    chosen: Any = dict(confidence=arguments.confidence, mismatch=arguments.mismatch, seed=arguments.randSeed)
    return partial(_run, prepared, threshold, population, arguments.injections, chosen)


def _run(prepared: Any, threshold: Any, population: Any, injections: int, chosen: dict[str, Any]) -> None:
    """Prepare, inject and print."""
    data = prepared()
    if chosen["mismatch"] == 0:
        print(
            "jfstat: note: --mismatch is 0: the limit is too low unless the search computed 2F at the signals' very "
            "templates",
            file=sys.stderr,
        )
    limit = jfstat.upper_limit(data, threshold, population, injections=injections, **chosen)
    expected = jfstat.sensitivity(data, threshold, population, **chosen)
    statistic = "2F" if data.n_segments is None else f"mean 2F of {data.n_segments} segments"
    share = f"{100 * limit.confidence:g} % of {injections} injections"
    print(f"threshold          {threshold:12.4f}  {statistic}")
    print(f"h0                 {limit.h0:12.3e}  +- {limit.h0_error:.1e}: {share} are louder than the threshold")
    print(f"by formula         {expected:12.3e}  in Gaussian noise")
    print(f"sensitivity depth  {float(jfstat.sensitivity_depth(data, limit.h0)):12.3f}  1/sqrt(Hz)")


def _check_search(path: str, searched: dict[str, Any], data: jfstat.FstatData, noise: jfstat.Noise) -> None:
    """Raise a ValueError if a search, by what its table says, was of other data or with another noise floor."""
    observed = data.observation
    here: dict[str, Any] = dict(n_segments=data.n_segments, detectors=list(observed.detectors), n_sfts=observed.n_sfts)
    here |= dict(noise=noise.words)
    if noise.sqrt_sx is not None and None not in searched.get("sqrt_sx", [None]):
        here |= dict(sqrt_sx=observed.mean_sqrt_sx)
    for name, own in here.items():
        there = searched.get(name, own)
        if not (np.allclose(there, own, rtol=1e-6, atol=0.0) if name == "sqrt_sx" else there == own):
            raise ValueError(
                f"--candidates={path} is of a search with {name} = {there}, and here it is {own}: give the data, "
                "segments and noise floor of that search."
            )


def _loudest(path: str, fmin: float, fmax: float, segmented: bool) -> tuple[float, dict[str, Any]]:
    """Return the largest 2F, or mean of 2F, of candidates in a band, and what the table says of its search.

    Raises
    ------
    ValueError
        If the table is of another kind of search, or has no such candidate.
    """
    table: Any = jfstat.read_candidates(path)
    given = f"--candidates={path}"
    if "transient" in table.meta or {"max_twoF", "t0", "tau"} & set(table.colnames):
        raise ValueError(f"{given} is of transient signals, and the injections are persistent: give another table.")
    if "transitions" in table.meta or "log_likelihood" in table.colnames:
        raise ValueError(
            f"{given} is of signals whose frequency wanders, and that of the injections does not: use "
            "jfstat.path_upper_limit in Python."
        )
    if "power" in table.colnames:
        raise ValueError(f"{given} is of power along tracks, which is not 2F: give the table of another search.")
    kinds = ("twoF", "mean_twoF")
    wanted, other = kinds[::-1] if segmented else kinds
    if wanted not in table.colnames and other in table.colnames:
        hint = "is of a search without segments: leave out" if segmented else "is of a search with segments: give its"
        raise ValueError(f"{given} {hint} --segments, --segmentDuration or --segmentList.")
    if not {wanted, "freq"} <= set(table.colnames):
        raise ValueError(f"{given} lacks the column freq or {wanted}: give the table of a search.")
    searched = {name: x for name, x in table.meta.items() if x is not None}
    if "n_segments" in table.colnames and len(table):
        numbers = set(np.asarray(table["n_segments"]).astype(int).tolist())
        if len(numbers) > 1:
            raise ValueError(f"{given} has candidates of several numbers of segments: give those of one.")
        searched |= {"n_segments": numbers.pop()}
    freq, twoF = (np.asarray(getattr(table[name], "value", table[name]), np.float64) for name in ("freq", wanted))
    inside = twoF[(freq >= fmin - SLACK) & (freq <= fmax + SLACK)]
    if not np.any(np.isfinite(inside)):
        raise ValueError(
            f"{given} has no candidate from --Freq={fmin:.10g} to {fmax:.10g} Hz: give the band that was searched."
        )
    return float(np.nanmax(inside)), searched
