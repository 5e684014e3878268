"""Barycentric positions of the Earth and the Sun as smooth functions of time, from ephemeris files or arrays."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain, islice
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jfstat.files import opened, stamp_of
from jfstat.signal.constants import ASTRONOMICAL_UNIT, SPEED_OF_LIGHT

if TYPE_CHECKING:
    from scipy.interpolate import BPoly, PPoly

BODIES = ("earth", "sun")
YEARS = "00-40"
"""Years covered, as in the names of installed files."""
PIECE = 5e6
"""Length of the pieces in which rows are read and cached, 58 d, so that data of similar times share them, s."""
SHIFT = 1e-3
"""Largest error of a row's time, in units of the step between rows."""
WORDS, OLD_LINES = 10, 4
"""Numbers in a row, and lines that a row takes in older files."""
FARTHEST = 2 * ASTRONOMICAL_UNIT / SPEED_OF_LIGHT
"""Upper bound on the distances of Earth and Sun from the SSB, light-seconds."""


class Table(NamedTuple):
    """Positions of one body at some times, and the derivatives that are known.

    Attributes
    ----------
    gps : (n,) float64
        Times in increasing order, s.
    position : (n, k, 3) float64
        Position, with k > 1 also velocity, and with k > 2 also acceleration; in light-seconds, per s, per s^2.
    """

    gps: np.ndarray
    position: np.ndarray

    def track(self, what: str, start: float, end: float, epoch: int) -> Quintics | PPoly | BPoly:
        """Interpolate the position as a function of the time since `epoch`, between two GPS times.

        Between two rows the position is the polynomial that matches position and all known derivatives of both rows;
        without derivatives it is a cubic spline. LALSuite, where accelerations are known, expands to second order about
        the nearest row instead, which jumps by up to 6e-8 s half-way between two rows of the Earth's file.

        Raises
        ------
        ValueError
            If the rows do not cover the times.
        """
        low = int(np.searchsorted(self.gps, start, side="right")) - 1
        high = int(np.searchsorted(self.gps, end))
        if low < 0 or high >= len(self.gps):
            raise ValueError(
                f"the ephemeris {what} covers GPS {self.gps[0]:.0f} to {self.gps[-1]:.0f}, not all of {start:.0f} to "
                f"{end:.0f} that the data need: use another ephemeris or other times."
            )
        low, high = (low, high) if self.position.shape[1] > 1 else (0, len(self.gps) - 1)
        rows = slice(low, high + 1)
        times, values = self.gps[rows] - epoch, self.position[rows]
        if values.shape[1] > 2:
            return Quintics.through(times, values)
        from scipy.interpolate import BPoly, CubicSpline  # takes 0.15 s to import

        if values.shape[1] > 1:
            return BPoly.from_derivatives(times, values)
        return CubicSpline(times, values[:, 0])


class Quintics(NamedTuple):
    """Piecewise polynomials of degree 5, like SciPy's BPoly, whose import takes 0.15 s.

    Attributes
    ----------
    times : (n + 1,) float64
        Ends of the pieces, s.
    bernstein : (6, n, 3) float64
        Coefficients in Bernstein's basis over each piece.
    """

    times: np.ndarray
    bernstein: np.ndarray

    @classmethod
    def through(cls, times: np.ndarray, derivatives: np.ndarray) -> Quintics:
        """Make the polynomials with given positions, velocities and accelerations, (n + 1, 3, 3), at both ends."""
        (f0, v0, a0), (f1, v1, a1) = (np.moveaxis(x, 1, 0) for x in (derivatives[:-1], derivatives[1:]))
        h = np.diff(times)[:, None]
        low = [f0, f0 + h * v0 / 5, f0 + 2 * h * v0 / 5 + h**2 * a0 / 20]
        high = [f1 - 2 * h * v1 / 5 + h**2 * a1 / 20, f1 - h * v1 / 5, f1]
        return cls(times, np.stack([*low, *high]))

    def __call__(self, t: ArrayLike) -> np.ndarray:
        """Return values at times within the pieces, (..., 3)."""
        t = np.asarray(t, np.float64)
        piece = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        u = ((t - self.times[piece]) / (self.times[piece + 1] - self.times[piece]))[..., None]
        basis = (comb(5, k) * u**k * (1 - u) ** (5 - k) for k in range(6))
        return np.sum([weight * own[piece] for weight, own in zip(basis, self.bernstein, strict=True)], axis=0)


@dataclass(frozen=True, init=False, eq=False)
class Ephemeris:
    """A solar-system ephemeris from arrays: positions of Earth and Sun relative to the barycentre (SSB).

    Wherever jfstat takes the name of an ephemeris, it takes an Ephemeris too.

    Parameters
    ----------
    earth, sun : sequence (times, position[, velocity[, acceleration]])
        Positions of the Earth's and the Sun's centre, each at its own times. Times: GPS s, (n,), increasing, n > 1, or
        an astropy Time. Positions: (n, 3), equatorial J2000 (ICRS) axes, in light-seconds, velocities per s,
        accelerations per s^2; or Quantities, or astropy's CartesianRepresentations, as ``get_body_barycentric_posvel``
        returns them.
    name : str
        Name of the ephemeris in the meta of tables.

    Raises
    ------
    TypeError
        If `earth` or `sun` is not a sequence of this form.
    ValueError
        If an array has a wrong shape or unit, is not finite, or is larger than the solar system (the wrong unit).

    Notes
    -----
    Positions are interpolated by polynomials that match all given derivatives at both neighbouring rows, or by cubic
    splines if there are no derivatives. The Earth's position is then accurate to 4e-11 light-seconds with velocities
    every 2 h, to 6e-10 with velocities and accelerations every 12 h, and to 3e-7 with velocities every day; the Sun's
    to 1e-11 in all these cases.
    """

    earth: Table
    sun: Table
    name: str

    def __init__(self, earth: Sequence[Any], sun: Sequence[Any], name: str = "arrays"):
        object.__setattr__(self, "earth", _table(earth, "earth"))
        object.__setattr__(self, "sun", _table(sun, "sun"))
        object.__setattr__(self, "name", str(name))

    @classmethod
    def of_tables(cls, earth: Table, sun: Table, name: str) -> Ephemeris:
        """Make an ephemeris of two tables, which are not checked."""
        own = object.__new__(cls)
        for field, value in (("earth", earth), ("sun", sun), ("name", name)):
            object.__setattr__(own, field, value)
        return own

    def __repr__(self) -> str:
        return f"Ephemeris({self.name!r}; GPS {self.earth.gps[0]:.0f} to {self.earth.gps[-1]:.0f})"


EphemerisFiles = str | os.PathLike | Sequence[str | os.PathLike]
"""Name of an ephemeris, or the files of Earth and Sun."""
EphemerisLike = EphemerisFiles | Ephemeris
"""Name of an ephemeris, the files of Earth and Sun, or their positions as arrays."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Positions of Earth and Sun relative to the SSB as functions of time.

    Attributes
    ----------
    name : str
        Name of the ephemeris, such as ``"DE405"``, or the names of its files.
    epoch : int
        GPS time from which the functions count time, s.
    earth, sun : callable
        Time since `epoch` in s, shape (n,), to the position in light-seconds, shape (n, 3), equatorial J2000 axes.
    """

    name: str
    epoch: int
    earth: Callable[[ArrayLike], np.ndarray]
    sun: Callable[[ArrayLike], np.ndarray]


def _table(given: Sequence[Any], name: str) -> Table:
    """Make the table of a body from a user's sequence."""
    if not isinstance(given, (list, tuple)) or len(given) not in (2, 3, 4):
        raise TypeError(f"{name} must be (times, position[, velocity[, acceleration]]), not {type(given).__name__}.")
    times, *arrays = given
    gps = _float64(getattr(times, "gps", times), f"{name}'s times", "s")
    if gps.ndim != 1 or len(gps) < 2 or not np.all(np.diff(gps) > 0):
        raise ValueError(f"{name}'s times must be two or more and increase: give GPS seconds or an astropy Time.")
    columns = []
    for values, what, power in zip(arrays, ("positions", "velocities", "accelerations"), range(3), strict=False):
        label = f"{name}'s {what}"
        xyz = getattr(values, "xyz", None)  # of a CartesianRepresentation
        unit = "m" if power == 0 else f"m / s{power}"
        column = _float64(values if xyz is None else xyz.T, label, unit, SPEED_OF_LIGHT)
        if column.shape != (len(gps), 3):
            raise ValueError(f"{label} have shape {column.shape}, not {(len(gps), 3)}: give a row for each time.")
        columns.append(column)
    if np.max(np.abs(columns[0])) > FARTHEST:
        raise ValueError(f"{name}'s positions exceed {FARTHEST:.0f} light-seconds: give light-seconds or Quantities.")
    return Table(gps, np.stack(columns, axis=1))


def _float64(x: Any, name: str, unit: str, one: float = 1.0) -> np.ndarray:
    """Return finite numbers as float64; Quantities are divided by `one` of `unit`."""
    if hasattr(x, "to_value"):
        try:
            x = x.to_value(unit) / one
        except (TypeError, ValueError) as error:  # astropy's UnitConversionError is both
            raise ValueError(f"{name} must be convertible to {unit}, not in {x.unit}: convert them.") from error
    try:
        values = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, not {type(x).__name__}: give arrays.") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite: leave out rows that are not.")
    return values


def ephemeris_files(ephemeris: EphemerisFiles) -> tuple[str, Path, Path]:
    """Return the name and the two files (Earth, Sun) of an ephemeris given by name or by its two files.

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
        raise ValueError(
            f"ephemeris must be a name such as 'DE405', two files or a jfstat.Ephemeris, not {ephemeris!r}."
        ) from None
    for path in (earth, sun):
        if not path.is_file():
            raise FileNotFoundError(f"ephemeris file {path} does not exist: give (earth_file, sun_file).")
    return f"{earth.name} {sun.name}", earth, sun


def installed_ephemerides() -> list[str]:
    """List the ephemerides of the package ``solar_system_ephemerides``; none if it is not installed."""
    return [] if find_spec("solar_system_ephemerides") is None else _installed()[1]


def _installed() -> tuple[Path, list[str]]:
    """Return the folder of the files of ``solar_system_ephemerides`` and the names of its ephemerides.

    The package is not imported, which would take 0.5 s.
    """
    spec = find_spec("solar_system_ephemerides")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError("ephemeris names need the package solar_system_ephemerides: install it, or give two files.")
    folder = Path(spec.submodule_search_locations[0]) / "ephemerides"
    files = sorted((folder / "earth").glob(f"earth{YEARS}-DE*.dat.gz"))
    return folder, [path.name.removesuffix(".dat.gz").rpartition("-")[2] for path in files]


def _read_body(path: Path, start: float, end: float) -> Table:
    """Read the rows of one body that cover two GPS times from a file in LALSuite's format.

    The format is the one that XLALInitBarycenter reads: comment lines with ``#``, a header ``year step count`` and rows
    ``gps x y z vx vy vz ax ay az`` in light-seconds, per s, per s^2, each on one line or, in older files, on four. The
    year's GPS time may be days after the first row.

    Raises
    ------
    ValueError
        If the file is malformed or does not cover the times.
    """
    low, high = int(start // PIECE), int(end // PIECE)
    try:
        with opened(path) as file:
            stamp = stamp_of(file)
        first, last, rows = _rows_of_pieces(path, stamp, low, high)
    except (OSError, EOFError, ValueError, OverflowError, IndexError, StopIteration, zlib.error) as error:
        raise ValueError(f"{path} is not an ephemeris file in LALSuite's format: {error}.") from None
    if not first <= start <= end <= last:
        raise ValueError(
            f"the ephemeris {path.name} covers GPS {first:.0f} to {last:.0f}, not all of {start:.0f} to {end:.0f} that "
            "the data need: use another ephemeris or other times."
        )
    return rows


@lru_cache(maxsize=16)
def _rows_of_pieces(path: Path, stamp: int, low: int, high: int) -> tuple[float, float, Table]:
    """Return the first and last GPS time of a file, s, and its rows from piece `low` to the end of piece `high`.

    Rows are cached, because a file of decades takes 0.1 s to read up to the rows that are needed. A file whose
    `files.stamp_of` is no longer `stamp` is read again.
    """
    # line by line: the files hold decades, and most data need some months
    with opened(path) as file:
        raw: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        with io.BufferedReader(raw, 1 << 20) as text:
            lines = (line for line in text if line.strip()[:1] not in (b"", b"#"))
            _, step, count = (float(word) for word in next(lines).split())
            first = next(lines)
            start = float(first.split()[0])
            if not (np.isfinite((start, step, count)).all() and step > 0 and count >= 1):
                raise ValueError("its header does not fit its rows")
            last, each = int(count) - 1, 1 if len(first.split()) >= WORDS else OLD_LINES
            begin = min(max(int(np.floor((low * PIECE - start) / step)), 0), last)
            end = min(max(int(np.ceil(((high + 1) * PIECE - start) / step)), begin), last)
            own = list(islice(chain([first], lines), begin * each, (end + 1) * each))
    if len(own) != (end + 1 - begin) * each:
        raise ValueError("its header does not fit its rows")
    rows = [b" ".join(own[i : i + each]).split() for i in range(0, len(own), each)]
    if any(len(row) != WORDS for row in rows):
        raise ValueError("a row does not hold ten numbers")
    table = np.array(rows, dtype=float)
    if not np.isfinite(table).all():
        raise ValueError("a number is not finite")
    if np.max(np.abs(table[:, 0] - (start + step * np.arange(begin, end + 1)))) > SHIFT * step:
        raise ValueError(f"its rows are not {step:g} s apart, as its header says")
    table.setflags(write=False)
    return start, start + last * step, Table(table[:, 0], table[:, 1:].reshape(-1, 3, 3))


def read_ephemeris(ephemeris: EphemerisLike, start: float, end: float) -> Ephemeris:
    """Read the ephemeris between two GPS times as arrays, for use by many observations.

    An `Ephemeris` is returned unchanged.

    See `load_ephemeris` for arguments and errors.
    """
    if isinstance(ephemeris, Ephemeris):
        return ephemeris
    name, *files = ephemeris_files(ephemeris)
    earth, sun = (_read_body(path, start, end) for path in files)
    return Ephemeris.of_tables(earth, sun, name)


def load_ephemeris(ephemeris: EphemerisLike, start: float, end: float, epoch: int) -> Tracks:
    """Load the tracks of Earth and Sun between two GPS times.

    Parameters
    ----------
    ephemeris : str, two paths or Ephemeris
        Name known to the package ``solar_system_ephemerides`` (``"DE405"`` is LALSuite's default), the files of Earth
        and Sun, or arrays.
    start, end : float
        GPS times to cover, s.
    epoch : int
        GPS time from which the tracks count their time, s.

    Raises
    ------
    ValueError
        If the ephemeris is unknown, a file is missing or malformed, or the times are not covered.
    """
    tables = read_ephemeris(ephemeris, start, end)
    earth, sun = (getattr(tables, body).track(f"{tables.name} ({body})", start, end, epoch) for body in BODIES)
    return Tracks(tables.name, epoch, earth, sun)
