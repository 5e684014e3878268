"""`jfstat simulate`: SFT files with simulated noise and signals."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from jfstat.commandline.inputs import (
    add_detectors,
    chosen_detectors,
    detectors_of_files,
    headers_of,
)
from jfstat.commandline.options import (
    add_amplitude,
    add_ephemeris,
    add_orbit,
    add_sky,
    ephemeris,
    gps,
    number,
    numbers,
    one_or_list,
    words,
)
from jfstat.commandline.sources import KEYS, Signal, read_sources, signal
from jfstat.io.lal.times import read_timestamps
from jfstat.sfts.container import SFTs
from jfstat.sfts.reading import read_sfts
from jfstat.sfts.writing import write_sfts
from jfstat.simulate.simulate import inject, simulate_sfts

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers


def add_parser(subparsers: Subparsers) -> None:
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
    add_detectors(data, "detectors")
    data.add_argument("--startTime", "-G", type=gps, metavar="GPS", help="start, GPS s or UTC")
    data.add_argument("--duration", type=number, metavar="S", help="length, s")
    data.add_argument(
        "--timestampsFiles",
        type=words,
        metavar="FILE,...",
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
    data.add_argument("--randSeed", type=int, default=0, metavar="N", help="seed of the noise (default 0, a seed too)")
    data.add_argument(
        "--noiseSFTs", "-D", metavar="PATTERN", help="add the signals to these SFTs instead of simulating noise"
    )
    one = parser.add_argument_group("one signal")
    add_sky(one, required=False)
    one.add_argument("--Freq", "-f", type=number, metavar="HZ", help="frequency at --refTime in the SSB, Hz")
    for k in (1, 2, 3):
        unit = "Hz/s" if k == 1 else f"Hz/s^{k}"
        one.add_argument(
            f"--f{k}dot", type=number, metavar=unit.upper(), help=f"derivative {k} of the frequency, {unit}"
        )
    one.add_argument(
        "--refTime", type=gps, metavar="GPS", help="reference time in the SSB, GPS s or UTC (default: start)"
    )
    add_amplitude(one)
    add_orbit(one)
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
    add_ephemeris(parser.add_argument_group("ephemeris"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write SFT files of noise and signals."""
    signals = _signals(arguments)
    if arguments.noiseSFTs is not None:
        unused = [
            o
            for o in ("IFOs", "startTime", "duration", "timestampsFiles", "fmin", "Band", "sqrtSX")
            if getattr(arguments, o) is not None
        ]
        if unused:
            raise ValueError(f"--noiseSFTs already says what --{unused[0]} would: leave --{unused[0]} out.")
        if not signals:
            raise ValueError(
                "--noiseSFTs needs a signal to add: give --Alpha, --Delta, --Freq, ... or --injectionSources."
            )
        detectors = detectors_of_files(arguments, headers_of(arguments.noiseSFTs, arguments))
        sfts = inject(read_sfts(arguments.noiseSFTs, detectors), signals, ephemeris(arguments))
    else:
        sfts = _simulated(arguments, signals)
    files = write_sfts(sfts, arguments.outSFTdir, description=arguments.outLabel)
    print(sfts)
    for path in files:
        print(f"wrote {path}")


def _simulated(arguments: argparse.Namespace, signals: list[Signal]) -> SFTs:
    times = ("timestampsFiles",) if arguments.timestampsFiles else ("startTime", "duration")
    missing = [option for option in ("IFOs", *times, "fmin", "Band") if getattr(arguments, option) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: give it, or --noiseSFTs to add signals to SFTs at hand.")
    if not arguments.Band > 0:
        raise ValueError(f"--Band must be positive, not {arguments.Band:g}: give the width of the band in Hz.")
    window = arguments.SFTWindowType.lower()
    if arguments.SFTWindowParam is not None:
        window = f"{window}:{arguments.SFTWindowParam:g}"
    floors = one_or_list(arguments.sqrtSX)
    if isinstance(floors, list):
        if len(floors) != len(arguments.IFOs):
            raise ValueError(
                f"--sqrtSX has {len(floors)} values for {len(arguments.IFOs)} detectors: give one for each."
            )
        floors = dict(zip(arguments.IFOs, floors, strict=True))
    timestamps = arguments.timestampsFiles
    return simulate_sfts(
        chosen_detectors(arguments),
        arguments.startTime,
        arguments.duration,
        arguments.fmin,
        arguments.fmin + arguments.Band,
        tsft=arguments.Tsft,
        sqrt_sx=floors,
        signals=signals,
        timestamps=None if timestamps is None else read_timestamps(timestamps, arguments.IFOs),
        window=window,
        seed=arguments.randSeed,
        ephemeris=ephemeris(arguments),
    )


def _signals(arguments: argparse.Namespace) -> list[Signal]:
    signals = [] if arguments.injectionSources is None else read_sources(arguments.injectionSources)
    given = {key: getattr(arguments, key) for key in KEYS}
    if any(value is not None for key, value in given.items() if key not in ("psi", "phi0")):
        signals.append(signal(given, "on the command line"))
    return signals
