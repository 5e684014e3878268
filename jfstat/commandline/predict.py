"""`jfstat predict`: the expected 2F of a signal, for SFT files or for detectors, times and noise floors."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from jfstat.commandline.inputs import add_data_files, chosen_detectors, read_band
from jfstat.commandline.options import (
    add_amplitude,
    add_ephemeris,
    add_median_window,
    add_sky,
    ephemeris,
    gps,
    noise,
    number,
    numbers,
    words,
)
from jfstat.commandline.sources import amplitude
from jfstat.data.observation import Observation, observation
from jfstat.io.lal.times import read_timestamps
from jfstat.signal.templates import Doppler
from jfstat.statistic.fstat import predict_twoF

if TYPE_CHECKING:
    from jfstat.commandline.options import Subparsers

GUARD = 0.1
"""Hz around --Freq over which the noise floor is estimated: with both sides more bins than the running median has."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "predict",
        help="expected 2F of a signal",
        description="Print the expected 2F = 4 + rho^2 of a signal at its true template, and its standard deviation, "
        "for the SFTs of --DataFiles or for detectors, times and noise floors. Options are named as PredictFstat's.",
    )
    source = parser.add_argument_group("signal")
    add_sky(source)
    add_amplitude(source)
    data = parser.add_argument_group("SFT files, or detectors (--IFOs), times (--minStartTime) and --assumeSqrtSX")
    add_data_files(data, required=False)
    data.add_argument(
        "--Freq",
        "-f",
        type=number,
        metavar="HZ",
        help="with --DataFiles: frequency at which the noise floor is estimated, Hz",
    )
    data.add_argument(
        "--startTime", "-G", dest="minStartTime", type=gps, metavar="GPS", help="the same as --minStartTime"
    )
    data.add_argument("--duration", type=number, metavar="S", help="without --DataFiles: length, s")
    data.add_argument(
        "--timestampsFiles",
        type=words,
        metavar="FILE,...",
        help="without --DataFiles: a file a detector with lines of GPS s and ns",
    )
    data.add_argument(
        "--Tsft",
        "-t",
        type=number,
        default=1800.0,
        metavar="S",
        help="without --DataFiles: length of an SFT, s (default 1800)",
    )
    data.add_argument(
        "--assumeSqrtSX",
        type=numbers,
        metavar="X,...",
        help="noise floor, 1/sqrt(Hz), one or one a detector (default: estimated from --DataFiles)",
    )
    add_median_window(data)
    add_ephemeris(parser.add_argument_group("ephemeris"))
    parser.add_argument_group("output").add_argument(
        "--PureSignal", "-P", action="store_true", help="print rho^2, the 2F of the signal without noise"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the expected 2F and its standard deviation."""
    source = amplitude(vars(arguments))
    observed = _from_files(arguments) if arguments.DataFiles is not None else _from_times(arguments)
    expected = float(predict_twoF(observed, Doppler(arguments.Alpha, arguments.Delta, [1.0]), source))
    rho2 = expected - 4
    if arguments.PureSignal:
        print(f"rho^2              {rho2:12.4f}")
        return
    # 2F is chi^2 with 4 degrees of freedom and non-centrality rho^2
    print(f"expected 2F        {expected:12.4f}")
    print(f"standard deviation {math.sqrt(8 + 4 * rho2):12.4f}")


def _from_files(arguments: argparse.Namespace) -> Observation:
    unused = [o for o in ("duration", "timestampsFiles") if getattr(arguments, o) is not None]
    if unused:
        raise ValueError(f"--{unused[0]} does not go with --DataFiles, which have their times: leave it out.")
    if arguments.Freq is None:
        raise ValueError("--Freq is missing: say at which frequency, in Hz, to take the noise floor of --DataFiles.")
    f = arguments.Freq
    sfts = read_band(arguments, f, f, GUARD)
    return observation(
        sfts,
        sqrt_sx=noise(arguments),
        ephemeris=ephemeris(arguments),
        fmin=f,
        fmax=f,
    )


def _from_times(arguments: argparse.Namespace) -> Observation:
    times = ("timestampsFiles",) if arguments.timestampsFiles else ("minStartTime", "duration")
    missing = [option for option in ("IFOs", *times, "assumeSqrtSX") if getattr(arguments, option) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: give it, or --DataFiles.")
    if arguments.timestampsFiles:
        for option in ("minStartTime", "duration"):
            if getattr(arguments, option) is not None:
                raise ValueError(f"--{option} does not go with --timestampsFiles, which hold the times: leave it out.")
    if arguments.maxStartTime is not None:
        raise ValueError("--maxStartTime goes with --DataFiles only: give --duration instead.")
    timestamps = arguments.timestampsFiles
    return observation(
        chosen_detectors(arguments),
        arguments.minStartTime,
        arguments.duration,
        timestamps=None if timestamps is None else read_timestamps(timestamps, arguments.IFOs),
        tsft=arguments.Tsft,
        sqrt_sx=noise(arguments),
        ephemeris=ephemeris(arguments),
    )
