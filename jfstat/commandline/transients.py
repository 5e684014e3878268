"""Options for transient signals and atoms, named as ComputeFstatistic_v2's, and the files that they ask for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat.candidates.tables import in_units, parameter_columns, point_in, points_from
from jfstat.commandline.inputs import detectors_to_read
from jfstat.commandline.options import ephemeris, gps, number
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import reference_time, unweighted
from jfstat.io.candidates import check_writable
from jfstat.io.lal.atoms import doppler_string, write_atoms
from jfstat.searching.driver.work import stacked_bank
from jfstat.sfts.reading import find_sfts
from jfstat.signal.values import columns as parameter_values
from jfstat.signal.values import with_fields
from jfstat.statistic.atoms import atoms
from jfstat.statistic.transients import TransientRange

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.commandline.banks import Templates
    from jfstat.commandline.options import OptionGroup
    from jfstat.signal.times import TimeLike

WINDOWS = ("none", "rect", "exp")
"""LALSuite's names."""
RANGE = (
    *("transient_t0Epoch", "transient_t0Offset", "transient_t0Band", "transient_dt0"),
    *("transient_tau", "transient_tauBand", "transient_dtau", "outputTransientStats"),
)
"""Options that go with a window."""
OPTIONS = ("transient_WindowType", *RANGE, "outputFstatAtoms")
MOST_POINTS, MOST_FILES = 1_000_000, 10_000
"""Most points that are computed one by one, and most files of atoms."""


def add_transients(group: OptionGroup) -> None:
    """Add the options for transient signals and atoms."""
    group.add_argument(
        "--transient-WindowType",
        choices=WINDOWS,
        default="none",
        help="search for transient signals too, at each template and frequency: rect from t0 to t0 + tau, or exp, "
        "exp(-(t - t0)/tau) to t0 + 3 tau (default none)",
    )
    group.add_argument(
        "--transient-t0Epoch", type=gps, metavar="GPS", help="earliest start time, GPS s or UTC (default: data start)"
    )
    group.add_argument(
        "--transient-t0Offset", type=number, metavar="S", help="instead: earliest start time after the data's start, s"
    )
    for name, what in (("t0", "start times"), ("tau", "time scales")):
        group.add_argument(
            f"--transient-{name}Band", type=number, default=0.0, metavar="S", help=f"range of {what}, s (default 0)"
        )
        group.add_argument(
            f"--transient-d{name}", type=number, metavar="S", help=f"step of {what}, s (default: length of an SFT)"
        )
    group.add_argument("--transient-tau", type=number, metavar="S", help="smallest time scale, s; needed with a window")
    group.add_argument(
        "--outputTransientStats",
        metavar="FILE",
        help="the windows of largest 2F, Bayes factors (natural logarithm) and most probable times of the points that "
        "are kept, in ComputeFstatistic_v2's format; .ecsv and .hdf5 files of --outputFstat have them too",
    )
    group.add_argument(
        "--outputFstatAtoms",
        metavar="BASE",
        help="write Fa, Fb and the antenna matrix of each SFT's time, a file BASE_<template>.dat for each template and "
        "frequency, in ComputeFstatistic_v2's format",
    )


def wants_windows(arguments: argparse.Namespace) -> bool:
    """Whether the options ask for transient signals."""
    return arguments.transient_WindowType != "none"


def check_transients(arguments: argparse.Namespace, given: list[str]) -> None:
    """Check the options before any data are read.

    Raises
    ------
    OSError, ValueError
        If one is missing, out of range or without meaning, or a file cannot be written.
    """
    alone = next((name for name in RANGE if name in given), None)
    if not wants_windows(arguments):
        if alone is not None:
            raise ValueError(f"{option(alone)} needs --transient-WindowType: give rect or exp.")
    elif arguments.transient_tau is None:
        raise ValueError("--transient-tau is missing: give the smallest time scale in s.")
    if arguments.transient_t0Epoch is not None and arguments.transient_t0Offset is not None:
        raise ValueError("--transient-t0Epoch and --transient-t0Offset exclude each other: give one.")
    for name in ("transient_dt0", "transient_dtau", "transient_tau"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise ValueError(f"{option(name)} must be positive, not {value:g}: give it in s.")
    for name in ("transient_t0Band", "transient_tauBand"):
        if getattr(arguments, name) < 0:
            raise ValueError(f"{option(name)} must not be negative, not {getattr(arguments, name):g}: give it in s.")
    if arguments.outputTransientStats is not None:
        check_writable(arguments.outputTransientStats)
    if arguments.outputFstatAtoms is not None:
        check_writable(f"{arguments.outputFstatAtoms}_atoms.dat")


def option(name: str) -> str:
    """An option as users write it."""
    return "--" + name.replace("transient_", "transient-")


def transient_range(arguments: argparse.Namespace, data: FstatData) -> TransientRange | None:
    """The windows that the options ask for, for atoms as long as an SFT; None without a window."""
    if not wants_windows(arguments):
        return None
    tsft = float(data.observation.tsft)
    first = arguments.transient_t0Epoch
    if first is None:
        first = data.observation.ends[0] + (arguments.transient_t0Offset or 0.0)
    dt0, dtau = arguments.transient_dt0 or tsft, arguments.transient_dtau or tsft
    t0 = first + dt0 * np.arange(int(arguments.transient_t0Band / dt0 + 1e-9) + 1)
    tau = arguments.transient_tau + dtau * np.arange(int(arguments.transient_tauBand / dtau + 1e-9) + 1)
    return TransientRange(arguments.transient_WindowType, t0, tau, duration=tsft)


def points_of_bank(
    arguments: argparse.Namespace, templates: Templates, band: tuple[float, float], reftime: TimeLike | None
) -> QTable:
    """All templates of the options at all frequencies of the band, as a table of points.

    Raises
    ------
    OSError, ValueError
        If the files cannot be read, or there are too many points.
    """
    parts = find_sfts(arguments.DataFiles, detectors_to_read(arguments), arguments.minStartTime, arguments.maxStartTime)
    reference = reference_time(reftime, parts.times.start)
    observation = unweighted(parts.times, reference, ephemeris(arguments))
    stack = stacked_bank(templates.bank(observation))
    step = arguments.dFreq or 0.5 / float(observation.tspan)
    freq = band[0] + step * np.arange(int((band[1] - band[0]) / step + 1e-6) + 1)
    n = len(stack.alpha) * len(freq)
    if n > MOST_POINTS:
        raise ValueError(
            f"{len(stack.alpha)} templates at {len(freq)} frequencies are {n} points, more than {MOST_POINTS}: narrow "
            "--FreqBand or the other bands."
        )
    points = jax.tree.map(lambda x: np.repeat(np.asarray(x), len(freq), axis=0), stack)
    fkdot = np.array(points.fkdot)
    fkdot[:, 0] = np.tile(freq, len(stack.alpha))
    return in_units(parameter_values(with_fields(points, fkdot=fkdot)), {"reftime": reference.plain})


def write_atom_files(data: FstatData, points: Any, base: str) -> list[Path]:
    """Write the atoms of each point of a table, as long as an SFT.

    Raises
    ------
    OSError
        If a file cannot be written.
    ValueError
        If there are more than `MOST_FILES` points.
    """
    if len(points) > MOST_FILES:
        raise ValueError(
            f"--outputFstatAtoms would write {len(points)} files, more than {MOST_FILES}: narrow the bands."
        )
    reftime = points.meta.get("reftime", data.reftime)
    stack = points_from(parameter_columns(points, "points", ("freq", "alpha", "delta")), reftime)
    paths = []
    for row in range(len(points)):
        point = point_in(stack, row)
        path = f"{base}_{doppler_string(point)}.dat"
        paths.append(write_atoms(atoms(data, point, float(data.observation.tsft)), path))
    return paths
