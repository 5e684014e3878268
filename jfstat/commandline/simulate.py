"""`jfstat simulate`: SFT files and frame files with simulated noise and signals."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.overwriting import inputs_of
from jfstat.commandline.sources import ARTEFACT, COMMAND_LINE, KEYS, Format, Signal, artefact, read_sources, signal
from jfstat.commandline.spellings import (
    AMPLITUDE,
    EPHEMERIS,
    ORBIT_OPTIONS,
    SPINS,
    TRANSIENT,
    add,
    detectors,
    ephemeris,
    find_files,
    floors,
    timestamps,
    whole_sfts,
)
from jfstat.commandline.words import gps, number, numbers, window_name, words

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

NOISE_SFTS, IN_FRAMES = "--noiseSFTs", "--inFrames"
STATED = {
    NOISE_SFTS: (
        *("inFrames", "IFOs", "startTime", "duration", "timestampsFiles", "fmin", "Band", "sqrtSX", "Tsft"),
        *("SFTWindowType", "SFTWindowParam", "randSeed"),
    ),
    IN_FRAMES: ("timestampsFiles", "sqrtSX", "randSeed"),
}
"""What files already say: options that have no effect beside the one that names these files."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "simulate",
        help="simulate SFT files or frame files: Gaussian noise and signals",
        description="Simulate SFT files or frame files: Gaussian noise, signals, or signals in the SFTs of --noiseSFTs "
        "or the strain of --inFrames. Options are named as Makefakedata_v5's.",
    )
    data = parser.add_argument_group("data")
    data.add_argument("--outSFTdir", "-n", metavar="DIR", help="where to write SFT files")
    data.add_argument(
        "--outFrameDir",
        "-F",
        metavar="DIR",
        help="where to write frame files (.gwf, needs LALSuite): the strain of the SFTs, zero outside the band",
    )
    data.add_argument(
        "--outFrChannels",
        type=words,
        metavar="NAME,...",
        help="the channel of each detector in frame files (default H1:JFSTAT_STRAIN and so on)",
    )
    data.add_argument("--outLabel", default="", metavar="WORD", help="description in the files' names")
    add(data, "IFOs", help="detectors")
    add(data, "detectorFiles")
    data.add_argument("--startTime", "-G", type=gps, metavar="GPS", help="start, GPS s or UTC")
    data.add_argument("--duration", type=number, metavar="S", help="length, s; SFTs cover all of it")
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
    data.add_argument(
        "--inFrames",
        "-C",
        type=words,
        metavar="PATTERN,...",
        help="add the signals to SFTs of the strain in these files, of the band alone: for each detector a name, "
        "folder or glob of frame files (.gwf) or GWOSC's HDF5 (needs h5py), several joined by ';', or list:FILE",
    )
    data.add_argument(
        "--inFrChannels",
        "-N",
        type=words,
        metavar="NAME,...",
        help="the channel of each of --inFrames (default: the only one named ..STRAIN)",
    )
    one = parser.add_argument_group("one signal")
    add(one, "Alpha", "Delta")
    add(one, "Freq", help="frequency at --refTime in the SSB, Hz")
    add(one, *SPINS)
    add(one, "refTime", type=gps, help="reference time in the SSB, GPS s or UTC (default: start)")
    add(one, *AMPLITUDE, *ORBIT_OPTIONS, *TRANSIENT)
    parser.add_argument_group("any number of signals").add_argument(
        "--injectionSources",
        metavar="SOURCES",
        help="files, or '{Alpha=1; Delta=0.3; Freq=100; refTime=1167458304; h0=1e-24; cosi=0; ...}', comma-separated; "
        "keys and units as the options for one signal, and f4dot, f5dot, f6dot, transientTauDays (d)",
    )
    parser.add_argument_group("artefacts of instruments").add_argument(
        "--artefacts",
        metavar="SOURCES",
        help="files, or '{Freq=60; h0=1e-23; detectors=H1; ...}', comma-separated; keys Freq (Hz), h0, phi0 (rad), "
        "f1dot (Hz/s), refTime; of a frequency that swings period (s), swing (cycles) and swingPhase (rad), and "
        "varies=true if the amplitude does too; detectors (default: all); transientWindowType, "
        "transientStartTime, transientTau (s), transientTauDays (d)",
    )
    add(parser.add_argument_group("ephemeris"), *EPHEMERIS)
    parser.set_defaults(plan=plan)


def plan(arguments: Arguments) -> Work:
    """Return the simulation that the options ask for."""
    if arguments.outSFTdir is None and arguments.outFrameDir is None:
        raise ValueError("--outSFTdir is missing: give it, or --outFrameDir.")
    signals, artefacts = _signals(arguments), arguments.artefacts
    tables = (ephemeris(arguments) or "DE405") if signals else "DE405"
    made = next((spelled for spelled in STATED if arguments.is_given(spelled[2:])), None)
    if made is not None:
        unused = next((name for name in STATED[made] if arguments.is_given(name)), None)
        if unused:
            raise ValueError(f"{made} already says what --{unused} would: leave --{unused} out.")
    make: Callable[[], jfstat.SFTs]
    if made is not None and not signals and artefacts is None:
        raise ValueError(
            f"{made} needs a signal to add: give --Alpha, --Delta, --Freq, ... or --injectionSources, or give "
            "--artefacts."
        )
    if made == IN_FRAMES:
        make = partial(_of_strain, **_strain(arguments))
    elif made == NOISE_SFTS:
        make = partial(jfstat.read_sfts, arguments.noiseSFTs, _own_sites(arguments))
    else:
        make = partial(jfstat.simulate_sfts, **_noise(arguments))
    if signals:
        make = partial(_with_signals, make, signals, tables)
    if artefacts is not None:
        own = read_sources(artefacts, "--artefacts", Format((*ARTEFACT, *TRANSIENT, "transientTauDays"), artefact))
        make = partial(_with_artefacts, make, own)
    return partial(_run, make, _outputs(arguments))


def _outputs(arguments: Arguments) -> list[Callable[[jfstat.SFTs], list[Path]]]:
    """Return what writes the files that are asked for."""
    sources, label = inputs_of(arguments), arguments.outLabel
    if arguments.outFrameDir is not None and not re.fullmatch(r"\w{0,100}", label, re.ASCII):
        raise ValueError(
            f"--outLabel={label!r} must be of up to 100 ASCII letters, digits and underscores: choose another."
        )
    outputs: list[Callable[[jfstat.SFTs], list[Path]]] = []
    if arguments.outFrameDir is not None:
        how = {"channels": arguments.outFrChannels, "sources": sources} | ({"description": label} if label else {})
        outputs.append(partial(jfstat.write_frames, directory=arguments.outFrameDir, **how))
    if arguments.outSFTdir is not None:
        outputs.append(partial(jfstat.write_sfts, directory=arguments.outSFTdir, description=label, sources=sources))
    return outputs


def _with_artefacts(make: Callable[[], jfstat.SFTs], artefacts: list[jfstat.Artefact]) -> jfstat.SFTs:
    """Return SFTs with artefacts added."""
    sfts = make()
    within = [one for one in artefacts if not _is_outside(one.window, sfts)]
    sfts = jfstat.inject_artefacts(sfts, within)
    print(f"added {len(artefacts)} artefact(s){_beyond(len(artefacts) - len(within))}")
    return sfts


def _with_signals(make: Callable[[], jfstat.SFTs], signals: list[Signal], tables: Any) -> jfstat.SFTs:
    """Return SFTs with signals added."""
    sfts = make()
    within = [own for own in signals if not _is_outside(own[2], sfts)]
    sfts = jfstat.inject(sfts, within, tables)
    print(f"added {len(signals)} signal(s){_beyond(len(signals) - len(within))}")
    return sfts


def _beyond(outside: int) -> str:
    """Return what is said of signals or artefacts that a population may have beyond the data, and `inject` refuses."""
    return f", {outside} of them with a window that holds no part of the data" if outside else ""


def _is_outside(window: jfstat.TransientWindow | None, sfts: jfstat.SFTs) -> bool:
    """Return whether a transient signal ends before the SFTs or begins after them."""
    if window is None:
        return False
    first, *_, last = np.asarray(window.breaks)
    return bool(last <= sfts.start or first >= sfts.end)


def _own_sites(arguments: Arguments) -> list[jfstat.Detector] | None:
    """Return the detectors of ``--noiseSFTs``, if one of them is the user's own."""
    if arguments.detectorFiles is None:
        return None
    return [series.site for series in find_files(arguments, arguments.noiseSFTs).times]


def _strain(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments of `_of_strain`: the files of each detector, and how SFTs are made of them."""
    patterns, channels = arguments.inFrames, arguments.inFrChannels
    sites = detectors(arguments) if arguments.IFOs or arguments.detectorFiles else None
    for option, values in {"inFrChannels": channels, "IFOs": sites}.items():
        if values is not None and len(values) != len(patterns):
            raise ValueError(f"--{option} has {len(values)} values for {len(patterns)} of --inFrames: give as many.")
    nothing = [None] * len(patterns)
    files = list(zip(patterns, channels or nothing, sites or nothing, strict=True))
    start, duration = arguments.startTime, arguments.duration
    if (start is None) != (duration is None):
        raise ValueError("--startTime and --duration go together: give both, or none for all of --inFrames.")
    quality = jfstat.DataQuality(start=start, end=None if start is None else start + duration)
    conditioning = jfstat.Conditioning(_window(arguments))
    low, high = _band(arguments)
    return dict(files=files, quality=quality, how=(arguments.Tsft, low, high), conditioning=conditioning)


def _of_strain(
    files: list[tuple[str, str | None, jfstat.Detector | None]],
    quality: jfstat.DataQuality,
    how: tuple[float, float, float],
    conditioning: jfstat.Conditioning,
) -> jfstat.SFTs:
    """Return the SFTs of the strain of some detectors, and say how much of it fills none."""
    made: list[Any] = []
    for own in files:
        strain, tsft = jfstat.find_strain(*own, quality), how[0]
        sfts = [each.sfts for each in jfstat.each_sft(strain, *how, conditioning)]
        if not sfts:
            raise ValueError(f"there is no stretch of {tsft:g} s of good, finite samples: use a shorter tsft.")
        left = sum(stop - first for first, stop in strain.stretches) / strain.rate - len(sfts) * tsft
        if left > 0:
            print(f"{left:g} s of {strain.site.prefix} that fill no SFT of {tsft:g} s are left out")
        made += sfts
    return jfstat.join_sfts(made)


def _band(arguments: Arguments) -> tuple[float, float]:
    """Return lowest and highest frequency of the SFTs, Hz."""
    missing = [name for name in ("fmin", "Band") if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: SFTs are made of a band; only --noiseSFTs has its own.")
    if not arguments.Band > 0:
        raise ValueError(f"--Band must be positive, not {arguments.Band:g}: give the width of the band in Hz.")
    return arguments.fmin, arguments.fmin + arguments.Band


def _window(arguments: Arguments) -> str:
    """Return the window of the SFTs as `jfstat.simulate_sfts` takes it."""
    return window_name(arguments.SFTWindowType, arguments.SFTWindowParam, "--SFTWindowParam")


def _noise(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments of `jfstat.simulate_sfts` for noise alone."""
    times = ("timestampsFiles",) if arguments.timestampsFiles else ("startTime", "duration")
    missing = [name for name in ("IFOs", *times) if getattr(arguments, name) is None]
    if missing:
        raise ValueError(f"--{missing[0]} is missing: give it, or --noiseSFTs to add signals to SFTs at hand.")
    said = arguments.first_given("startTime", "duration") if arguments.timestampsFiles else None
    if said is not None:
        raise ValueError(f"{said} has no effect beside --timestampsFiles, which say when the SFTs start: leave it out.")
    low, high = _band(arguments)
    when = dict(start=arguments.startTime, duration=whole_sfts(arguments.duration, arguments.Tsft))
    if arguments.timestampsFiles is not None:
        when["timestamps"] = timestamps(arguments)
    floor = floors(arguments, "sqrtSX")
    seed = {} if floor is None else {"seed": arguments.randSeed}
    more = dict(tsft=arguments.Tsft, sqrt_sx=floor, window=_window(arguments), **seed)
    return dict(detectors=detectors(arguments), fmin=low, fmax=high) | when | more


def _signals(arguments: Arguments) -> list[Signal]:
    """Return the signals of ``--injectionSources``, and the one that options describe, if they do."""
    signals = [] if arguments.injectionSources is None else read_sources(arguments.injectionSources)
    if arguments.first_given(*(key for key in KEYS if key not in ("psi", "phi0"))):
        signals.append(signal(arguments.read(*KEYS), COMMAND_LINE))
    return signals


def _run(make: Callable[[], jfstat.SFTs], outputs: list[Callable[[jfstat.SFTs], list[Path]]]) -> None:
    """Write files of noise and signals."""
    sfts = make()
    print(sfts)
    for write in outputs:
        for path in write(sfts):
            print(f"wrote {path}")
