"""`jfstat simulate`: SFT files with simulated noise and signals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.sources import KEYS, Signal, read_sources, signal
from jfstat.commandline.spellings import (
    AMPLITUDE,
    EPHEMERIS,
    ORBIT_OPTIONS,
    SPINS,
    add,
    detectors,
    ephemeris,
    find_files,
    floors,
    timestamps,
)
from jfstat.commandline.words import gps, number, numbers

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

OF_FILES = (
    *("IFOs", "startTime", "duration", "timestampsFiles", "fmin", "Band", "sqrtSX", "Tsft", "SFTWindowType"),
    *("SFTWindowParam", "randSeed"),
)
"""Options that have no effect where SFTs are given."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "simulate",
        help="simulate SFT files: Gaussian noise and signals",
        description="Simulate SFT files: Gaussian noise, signals, or signals in the SFTs of --noiseSFTs. Options are "
        "named as Makefakedata_v5's.",
    )
    data = parser.add_argument_group("data")
    data.add_argument("--outSFTdir", "-n", required=True, metavar="DIR", help="where to write the SFT files")
    data.add_argument("--outLabel", default="", metavar="WORD", help="description in the files' names")
    add(data, "IFOs", help="detectors")
    add(data, "detectorFiles")
    data.add_argument("--startTime", "-G", type=gps, metavar="GPS", help="start, GPS s or UTC")
    data.add_argument("--duration", type=number, metavar="S", help="length, s")
    add(
        data,
        "timestampsFiles",
        help="instead of --startTime and --duration: a file a detector with lines of GPS s and ns",
    )
    data.add_argument("--fmin", type=number, metavar="HZ", help="lowest frequency, Hz")
    data.add_argument("--Band", type=number, metavar="HZ", help="width of the band, Hz")
    data.add_argument(
        "--Tsft", "-t", type=number, default=1800.0, metavar="S", help="length of an SFT, s (default 1800)"
    )
    data.add_argument(
        "--sqrtSX",
        type=numbers,
        metavar="X,...",
        help="noise floor, 1/sqrt(Hz), one or one a detector of --IFOs (default: no noise)",
    )
    data.add_argument(
        "--SFTWindowType",
        default="rectangular",
        metavar="NAME",
        help="rectangular, hann or tukey (default rectangular)",
    )
    data.add_argument(
        "--SFTWindowParam", type=number, metavar="BETA", help="tapered fraction of a tukey window, 0 to 1"
    )
    add(data, "randSeed")
    data.add_argument(
        "--noiseSFTs", "-D", metavar="PATTERN", help="add the signals to these SFTs instead of simulating noise"
    )
    one = parser.add_argument_group("one signal")
    add(one, "Alpha", "Delta")
    add(one, "Freq", help="frequency at --refTime in the SSB, Hz")
    add(one, *SPINS)
    add(one, "refTime", type=gps, help="reference time in the SSB, GPS s or UTC (default: start)")
    add(one, *AMPLITUDE, *ORBIT_OPTIONS)
    one.add_argument(
        "--transientWindowType", choices=("none", "rect", "exp"), help="a transient signal: rect or exp (default none)"
    )
    one.add_argument("--transientStartTime", type=gps, metavar="GPS", help="its start, GPS s or UTC")
    one.add_argument(
        "--transientTau", type=number, metavar="S", help="its duration, or for exp its decay time, s; exp ends at 3 tau"
    )
    parser.add_argument_group("any number of signals").add_argument(
        "--injectionSources",
        metavar="SOURCES",
        help="files, or '{Alpha=1; Delta=0.3; Freq=100; refTime=1167458304; h0=1e-24; cosi=0; ...}', comma-separated; "
        "keys and units as the options for one signal",
    )
    add(parser.add_argument_group("ephemeris"), *EPHEMERIS)
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the simulation that the options ask for."""
    signals = _signals(arguments)
    tables = (ephemeris(arguments) or "DE405") if signals else "DE405"
    if arguments.noiseSFTs is None:
        make: Callable[[], jfstat.SFTs] = partial(jfstat.simulate_sfts, **_noise(arguments), signals=signals)
        make = partial(make, ephemeris=tables)
    else:
        unused = next((name for name in OF_FILES if arguments.is_given(name)), None)
        if unused:
            raise ValueError(f"--noiseSFTs already says what --{unused} would: leave --{unused} out.")
        if not signals:
            raise ValueError(
                "--noiseSFTs needs a signal to add: give --Alpha, --Delta, --Freq, ... or --injectionSources."
            )
        make = partial(_with_signals, arguments.noiseSFTs, _own_sites(arguments), signals, tables)
    return partial(_run, make, arguments.outSFTdir, arguments.outLabel)


def _own_sites(arguments: Arguments) -> list[jfstat.Detector] | None:
    """Return the detectors of ``--noiseSFTs``, if one of them is the user's own."""
    if arguments.detectorFiles is None:
        return None
    return [series.site for series in find_files(arguments, arguments.noiseSFTs).times]


def _with_signals(pattern: str, sites: Any, signals: list[Signal], tables: Any) -> jfstat.SFTs:
    """Return the SFTs of some files with signals added."""
    return jfstat.inject(jfstat.read_sfts(pattern, sites), signals, tables)


def _noise(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments of `jfstat.simulate_sfts` apart from signals and ephemeris."""
    times = ("timestampsFiles",) if arguments.timestampsFiles else ("startTime", "duration")
    missing = [name for name in ("IFOs", *times, "fmin", "Band") if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: give it, or --noiseSFTs to add signals to SFTs at hand.")
    if not arguments.Band > 0:
        raise ValueError(f"--Band must be positive, not {arguments.Band:g}: give the width of the band in Hz.")
    window = arguments.SFTWindowType.lower()
    if arguments.SFTWindowParam is not None:
        window = f"{window}:{arguments.SFTWindowParam:g}"
    how = dict(fmin=arguments.fmin, fmax=arguments.fmin + arguments.Band)
    when = dict(start=arguments.startTime, duration=arguments.duration)
    if arguments.timestampsFiles is not None:
        when["timestamps"] = timestamps(arguments)
    floor = floors(arguments, "sqrtSX")
    seed = {} if floor is None else {"seed": arguments.randSeed}
    more = dict(tsft=arguments.Tsft, sqrt_sx=floor, window=window, **seed)
    return dict(detectors=detectors(arguments)) | when | how | more


def _signals(arguments: Arguments) -> list[Signal]:
    """Return the signals of ``--injectionSources``, and the one that options describe, if they do."""
    signals = [] if arguments.injectionSources is None else read_sources(arguments.injectionSources)
    if arguments.first_given(*(key for key in KEYS if key not in ("psi", "phi0"))):
        signals.append(signal(arguments.read(*KEYS), "on the command line"))
    return signals


def _run(make: Callable[[], jfstat.SFTs], directory: str, label: str) -> None:
    """Write SFT files of noise and signals."""
    sfts = make()
    files = jfstat.write_sfts(sfts, directory, description=label)
    print(sfts)
    for path in files:
        print(f"wrote {path}")
