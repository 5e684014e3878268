"""Barycentric positions of the Earth and the Sun as smooth functions of time, from ephemeris files."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.interpolate import BPoly

YEARS = "00-40"
"""In the names of installed files."""
EphemerisLike = str | os.PathLike | Sequence[str | os.PathLike]
"""Name of an ephemeris, or the files of Earth and Sun."""


@dataclass(frozen=True, eq=False)
class Ephemeris:
    """Positions of Earth and Sun relative to the solar system's barycentre (SSB).

    Attributes
    ----------
    name : str
        Such as ``"DE405"``, or the names of the files.
    epoch : int
        GPS time from which the functions count time, s.
    earth, sun : callable
        Time since `epoch` in s, shape (n,), to the position in light-seconds, shape (n, 3), equatorial J2000 axes.
    """

    name: str
    epoch: int
    earth: BPoly
    sun: BPoly


def ephemeris_files(ephemeris: EphemerisLike) -> tuple[str, Path, Path]:
    """Name and the two files (Earth, Sun) of an ephemeris given by name or by its two files.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If the name is unknown.
    """
    if isinstance(ephemeris, str):
        folder, known = _installed()
        name = ephemeris.upper()
        if name not in known:
            raise ValueError(
                f"ephemeris {ephemeris!r} is unknown: use one of {', '.join(known)}, or (earth_file, sun_file)."
            )
        earth, sun = (folder / body / f"{body}{YEARS}-{name}.dat.gz" for body in ("earth", "sun"))
        return name, earth, sun
    try:
        earth, sun = (Path(os.fspath(p)) for p in ephemeris)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise ValueError(f"ephemeris must be a name such as 'DE405' or two files, not {ephemeris!r}.") from None
    for path in (earth, sun):
        if not path.is_file():
            raise FileNotFoundError(f"ephemeris file {path} does not exist: give (earth_file, sun_file).")
    return f"{earth.name} {sun.name}", earth, sun


def installed_ephemerides() -> list[str]:
    """Names of the ephemerides of the package ``solar_system_ephemerides``; none if it is not installed."""
    return [] if find_spec("solar_system_ephemerides") is None else _installed()[1]


def _installed() -> tuple[Path, list[str]]:
    """Folder of the files of ``solar_system_ephemerides``, whose import takes 0.5 s, and the names that are there."""
    spec = find_spec("solar_system_ephemerides")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("ephemeris names need the package solar_system_ephemerides: install it, or give two files.")
    folder = Path(spec.submodule_search_locations[0]) / "ephemerides"
    files = sorted((folder / "earth").glob(f"earth{YEARS}-DE*.dat.gz"))
    return folder, [path.name.removesuffix(".dat.gz").rpartition("-")[2] for path in files]


def _read_body(path: Path, start: float, end: float, epoch: int) -> BPoly:
    """The track of one body between two GPS times, from a file in LALSuite's format.

    The format is that of XLALInitBarycenter: comment lines with ``#``, a header ``start step count`` and rows
    ``gps x y z vx vy vz ax ay az`` in light-seconds, per s, per s^2. Between two rows the track is the quintic with
    the positions, velocities and accelerations of both. LALSuite expands to second order about the nearest row
    instead, which jumps by up to 6e-8 s half-way between two rows of the Earth's file.

    Raises
    ------
    ValueError
        If the file is malformed or does not cover the times.
    """
    from scipy.interpolate import BPoly  # takes 0.15 s to import

    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        lines = content.splitlines()
        header = next(i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(b"#"))
        first, step, count = (float(word) for word in lines[header].split())
        rows = lines[header + 1 :]
        if len(rows) != int(count):  # comments or blank lines among them
            rows = [line for line in rows if line.strip() and not line.lstrip().startswith(b"#")]
        if step <= 0 or len(rows) != int(count):
            raise ValueError("its header does not fit its rows")
        low = int(np.floor((start - first) / step))
        high = int(np.ceil((end - first) / step))
        covered = low >= 0 and high < len(rows)
        table = np.array([row.split() for row in rows[low : high + 1]], dtype=float) if covered else np.empty((0, 10))
        if table.shape[1:] != (10,) or not np.isfinite(table).all():
            raise ValueError("a row does not hold ten finite numbers")
    except (OSError, EOFError, ValueError, IndexError, StopIteration, zlib.error) as error:
        raise ValueError(f"{path} is not an ephemeris file in LALSuite's format: {error}.") from None
    if not covered:
        raise ValueError(
            f"the ephemeris {path.name} covers GPS {first:.0f} to {first + (len(rows) - 1) * step:.0f}, not all of "
            f"{start:.0f} to {end:.0f} that the data need: use another ephemeris or other times."
        )
    derivatives = table[:, 1:].reshape(-1, 3, 3)
    return BPoly.from_derivatives(table[:, 0] - epoch, derivatives)


def load_ephemeris(ephemeris: EphemerisLike, start: float, end: float, epoch: int) -> Ephemeris:
    """Load the tracks of Earth and Sun between two GPS times.

    Parameters
    ----------
    ephemeris : str or two paths
        Name known to the package ``solar_system_ephemerides`` (``"DE405"`` is LALSuite's default), or the files of
        Earth and Sun.
    start, end : float
        GPS times to cover, s.
    epoch : int
        GPS time from which the tracks count their time, s.

    Raises
    ------
    ValueError
        If the ephemeris is unknown, a file is missing or malformed, or the times are not covered.
    """
    name, earth, sun = ephemeris_files(ephemeris)
    return Ephemeris(name, epoch, _read_body(earth, start, end, epoch), _read_body(sun, start, end, epoch))
