"""`jfstat predict`: the expected 2F of a signal, for SFT files or for detectors, times and noise floors."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.sources import amplitude, window
from jfstat.commandline.spellings import (
    AMPLITUDE,
    DATA,
    EPHEMERIS,
    NOISE,
    TRANSIENT,
    add,
    data_files,
    detectors,
    ephemeris,
    floors,
    noise,
    read_band,
    timestamps,
    whole_sfts,
)
from jfstat.commandline.words import gps, number

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

GUARD = 0.1
"""Hz around --Freq over which the noise floor is estimated: with both sides more bins than the running median has."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "predict",
        help="expected 2F of a signal",
        description="Print the expected 2F = 4 + rho^2 of a signal at its true template, and its standard deviation, "
        "for the SFTs of --DataFiles or for detectors, times and noise floors. Options are named as PredictFstat's.",
    )
    source = parser.add_argument_group("signal; without one, pure noise")
    add(source, "Alpha", "Delta", *AMPLITUDE, *TRANSIENT)
    data = parser.add_argument_group("SFT files, or detectors (--IFOs), times (--minStartTime) and --assumeSqrtSX")
    add(data, *DATA)
    add(data, "Freq", help="with --DataFiles, without --assumeSqrtSX: frequency of the noise floor, Hz")
    data.add_argument(
        "--startTime", "-G", dest="minStartTime", type=gps, metavar="GPS", help="the same as --minStartTime"
    )
    data.add_argument(
        "--duration", type=number, metavar="S", help="without --DataFiles: length, s; SFTs cover all of it"
    )
    add(data, "timestampsFiles", help="without --DataFiles: a file a detector with lines of GPS s and ns")
    data.add_argument(
        "--Tsft",
        "-t",
        type=number,
        default=1800.0,
        metavar="S",
        help="without --DataFiles: length of an SFT, s (default 1800)",
    )
    add(data, *NOISE)
    add(parser.add_argument_group("ephemeris"), *EPHEMERIS)
    parser.add_argument_group("output").add_argument(
        "--PureSignal", "-P", action="store_true", help="print rho^2, the 2F of the signal without noise"
    )
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the prediction that the options ask for."""
    signal = _signal(arguments)
    observed = _from_files(arguments) if arguments.DataFiles is not None else _from_times(arguments)
    return partial(_run, observed, signal, arguments.PureSignal)


def _signal(arguments: Arguments) -> tuple[Any, ...] | None:
    """Return template, amplitude and window of the signal; None for pure noise."""
    if not arguments.first_given(*AMPLITUDE[:4], *TRANSIENT):
        return None
    for name in ("Alpha", "Delta"):
        if getattr(arguments, name) is None:
            raise ValueError(f"--{name} is missing: give the sky position of the signal.")
    own = amplitude(arguments.read(*AMPLITUDE)), window(arguments.read(*TRANSIENT))
    return jfstat.Doppler(arguments.Alpha, arguments.Delta, [1.0]), *own


def _run(observed: jfstat.Observation, signal: tuple[Any, ...] | None, pure: bool) -> None:
    """Print the expected 2F and its standard deviation."""
    rho2 = 0.0 if signal is None else float(jfstat.predict_twoF(observed, *signal)) - 4
    if pure:
        print(f"rho^2              {rho2:12.4f}")
        return
    # 2F is chi^2 with 4 degrees of freedom and non-centrality rho^2
    print(f"expected 2F        {4 + rho2:12.4f}")
    print(f"standard deviation {math.sqrt(8 + 4 * rho2):12.4f}")


def _from_files(arguments: Arguments) -> jfstat.Observation:
    """Return the observation of ``--DataFiles``."""
    unused = next((name for name in ("duration", "timestampsFiles", "Tsft") if arguments.is_given(name)), None)
    if unused:
        raise ValueError(f"--{unused} does not go with --DataFiles, which have their times: leave it out.")
    f, floor, tables = arguments.Freq, noise(arguments), ephemeris(arguments) or "DE405"
    if f is None and floor.sqrt_sx is None:
        raise ValueError(
            "--Freq is missing: say at which frequency, in Hz, to take the noise floor of --DataFiles, or give it by "
            "--assumeSqrtSX."
        )
    files = data_files(arguments)
    if f is None:
        times = {x.detector: np.stack([x.gps, x.gps_ns], axis=-1) for x in files.times}
        how: Any = dict(timestamps=times, tsft=files.times.tsft, sqrt_sx=floor, ephemeris=tables)
        return jfstat.observation([x.site for x in files.times], **how)
    sfts = read_band(files, f, f, GUARD, noise_bins=floor.reach)
    return jfstat.observation(sfts, sqrt_sx=floor, ephemeris=tables, fmin=f, fmax=f)


def _from_times(arguments: Arguments) -> jfstat.Observation:
    """Return the observation of detectors at some times."""
    files = arguments.timestampsFiles
    times = ("timestampsFiles",) if files else ("minStartTime", "duration")
    missing = [name for name in ("IFOs", *times, "assumeSqrtSX") if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: give it, or --DataFiles.")
    if files and arguments.first_given("minStartTime", "duration"):
        given = arguments.first_given("minStartTime", "duration")
        raise ValueError(f"{given} does not go with --timestampsFiles, which hold the times: leave it out.")
    if arguments.is_given("maxStartTime"):
        raise ValueError("--maxStartTime goes with --DataFiles only: give --duration instead.")
    when: dict[str, Any] = dict(start=arguments.minStartTime)
    when |= dict(duration=whole_sfts(arguments.duration, arguments.Tsft))
    if files:
        when = dict(timestamps=timestamps(arguments))
    how: Any = dict(tsft=arguments.Tsft, sqrt_sx=floors(arguments), ephemeris=ephemeris(arguments) or "DE405")
    return jfstat.observation(detectors(arguments) or [], **when, **how)
