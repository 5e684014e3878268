"""From options that name data to SFTs and times: reading of SFT files around a band, and of timestamps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jfstat.commandline.options import gps, words
from jfstat.data.plan import drift_range
from jfstat.geometry.barycenter import DOPPLER
from jfstat.geometry.orbit import orbit_speed
from jfstat.sfts.container import SFTs
from jfstat.sfts.headers import scan_file
from jfstat.sfts.patterns import find_files
from jfstat.sfts.reading import read_sfts
from jfstat.templates import Orbit


def add_data_files(group: Any, required: bool = True) -> None:
    """Add the options that choose SFT files, detectors and times."""
    group.add_argument(
        "--DataFiles",
        "-D",
        metavar="PATTERN",
        required=required,
        help="SFT files: a name or glob, several joined by ';', or list:FILE",
    )
    group.add_argument("--IFOs", "-I", type=words, metavar="H1,L1", help="detectors; with --DataFiles, all by default")
    group.add_argument("--minStartTime", type=gps, metavar="GPS", help="use SFTs from this time on, GPS s or UTC")
    group.add_argument("--maxStartTime", type=gps, metavar="GPS", help="use SFTs before this time, GPS s or UTC")


def read_band(
    arguments: Any,
    fmin: float,
    fmax: float,
    guard: float,
    orbit: Orbit | None = None,
    fdots: list[tuple[float, float]] | None = None,
    reftime: int | None = None,
) -> SFTs:
    """Read of the SFT files of `add_data_files` what a search of a band needs, rather than all that they hold.

    Parameters
    ----------
    arguments : Namespace
    fmin, fmax : float
        Band in the SSB, Hz.
    guard : float
        See `jfstat.prepare`, which gets the guard as far as the files go.
    orbit : Orbit, optional
        Widens the band by its Doppler shift.
    fdots, reftime : optional
        Ranges of f1dot, f2dot, ... at a GPS time, the files' first if None: widen the band by the drift they cause.

    Raises
    ------
    ValueError
        If the files lack the band or cannot be read.
    """
    files = find_files(arguments.DataFiles)
    table = np.concatenate([scan_file(path) for path in files])
    speed = DOPPLER if orbit is None else DOPPLER + 1.001 * float(np.max(orbit_speed(orbit)))
    since = int(table["gps"].min()) if reftime is None else reftime
    drift = drift_range(fdots, float(table["gps"].min()) - since, float((table["gps"] + table["tsft"]).max()) - since)
    reach = speed * fmax + max(guard, 0.0) + 4 / float(table["tsft"].min())
    low = float((table["first_bin"] / table["tsft"]).min())
    high = float(((table["first_bin"] + table["n_bins"]) / table["tsft"]).max())
    if fmin < low or fmax > high:
        raise ValueError(
            f"--DataFiles cover {low:.10g} to {high:.10g} Hz, not all of {fmin:.10g} to {fmax:.10g} Hz: choose other "
            "frequencies or name other files."
        )
    return read_sfts(
        arguments.DataFiles,
        detectors=arguments.IFOs,
        start=arguments.minStartTime,
        end=arguments.maxStartTime,
        fmin=max(fmin + drift[0] - reach, low),
        fmax=min(fmax + drift[1] + reach, high),
    )


def read_timestamps(files: list[str], detectors: list[str]) -> dict[str, np.ndarray]:
    """Start times of SFTs by detector, (n, 2) int64 seconds and nanoseconds.

    From files with lines ``<seconds> [<nanoseconds>]`` as for Makefakedata_v5.

    Raises
    ------
    ValueError
        If there is not a file for each detector or one is malformed.
    """
    if len(files) != len(detectors):
        raise ValueError(
            f"--timestampsFiles names {len(files)} files for {len(detectors)} detectors: give one for each."
        )
    times = {}
    for detector, name in zip(detectors, files, strict=True):
        try:
            lines = [line.split() for line in Path(name).read_text().splitlines()]
            rows = [line for line in lines if line and line[0][0] not in "#%"]
            times[detector] = np.array([(int(s), int(ns[0]) if ns else 0) for s, *ns in rows], np.int64)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"--timestampsFiles: {name} cannot be used ({error}): give lines of GPS s and ns."
            ) from None
    return times
