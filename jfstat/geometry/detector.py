"""A ground-based detector: its position and the directions of its arms."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.geometry.detectorfile import read_ifo
from jfstat.validation import AngleLike, NumberLike, float64_of, in_unit, number, require_known, shown

if TYPE_CHECKING:
    from astropy.coordinates import EarthLocation

Vector = tuple[float, float, float]
LEAST_RADIUS, MOST_RADIUS = 6.3e6, 6.4e6
"""Smallest and largest distance of a ground-based detector from the Earth's centre, m."""
PARALLEL = 1e-6
"""Sine of the angle between two arms below which an interferometer would see nothing."""


@dataclass(frozen=True, init=False)
class Detector:
    """A ground-based detector, given by its position and the directions of its arms.

    Wherever jfstat takes the name of a detector, such as ``"H1"``, it takes a Detector too. `from_geodetic` and
    `from_earth_location` build one from azimuths of the arms, `read` from a file.

    Parameters
    ----------
    prefix : str
        Two characters, a capital letter and a digit: the name of the detector in SFT files, tables and messages.
        LALSuite reads files of a detector that it does not know only if the prefix is X0 to Z9 and registered by
        ``lalpulsar.RegisterSpecialCWDetector``.
    location : EarthLocation, Quantity or sequence of 3 float
        Position where the arms meet, in the Earth-fixed frame (ITRS), m.
    arms : sequence of 1 or 2 vectors
        Directions of the arms in the Earth-fixed frame, of any length: two for an interferometer, at any angle, or one
        for a resonant bar.
    name : str
        Full name, for display.

    Attributes
    ----------
    prefix, name : str
    location : tuple of 3 float
        Position in the Earth-fixed frame, m.
    arms : tuple of 1 or 2 unit vectors, tuples of 3 float

    Raises
    ------
    ValueError
        If an argument is malformed, the position is not on the Earth's surface, or the arms are parallel.

    Examples
    --------
    >>> jfstat.Detector.from_geodetic('Z1', longitude=0.16, latitude=0.7, height=400.0, azimuths=[1.23, 2.28]).prefix
    'Z1'
    """

    prefix: str
    location: Vector
    arms: tuple[Vector, ...]
    name: str

    def __init__(
        self,
        prefix: str,
        location: EarthLocation | NumberLike | Sequence[float],
        arms: Sequence[Sequence[float]] | np.ndarray,
        name: str = "",
    ):
        if not isinstance(prefix, str) or not re.fullmatch("[A-Z][0-9]", prefix, re.ASCII):
            raise ValueError(
                f"prefix must be a capital letter and a digit, not {shown(prefix)}: name the detector like Z1."
            )
        geocentric = getattr(location, "geocentric", None)  # of an EarthLocation
        place = location if geocentric is None else [float(x.to_value("m")) for x in geocentric]
        place = _vectors(in_unit(place, "location", "m"), "location")
        if place.shape != (3,):
            raise ValueError(f"location must be three numbers in m or an EarthLocation, not {shown(location)}.")
        radius = float(np.linalg.norm(place))
        if not LEAST_RADIUS < radius < MOST_RADIUS:
            raise ValueError(
                f"location lies {radius:.6g} m from the Earth's centre, not on its surface: give x, y, z in m (ITRS)."
            )
        ends = _vectors(arms, "arms")
        if ends.shape not in ((1, 3), (2, 3)) or not np.linalg.norm(ends, axis=1).all():
            raise ValueError(f"arms must be one or two vectors (x, y, z) that are not zero, not {shown(arms)}.")
        ends = ends / np.linalg.norm(ends, axis=1, keepdims=True)
        if len(ends) == 2 and np.linalg.norm(np.cross(*ends)) < PARALLEL:
            raise ValueError("arms are parallel, and such an interferometer would see nothing: give two directions.")
        values = {"prefix": prefix, "location": tuple(place.tolist()), "name": str(name) or prefix}
        for key, value in (values | {"arms": tuple(tuple(end) for end in ends.tolist())}).items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_geodetic(
        cls,
        prefix: str,
        longitude: AngleLike,
        latitude: AngleLike,
        height: NumberLike,
        azimuths: Sequence[AngleLike] | AngleLike,
        tilts: Sequence[AngleLike] | AngleLike = 0.0,
        name: str = "",
    ) -> Detector:
        """Make a detector at a geodetic position (WGS 84), as in LALSuite's FrDetector.

        Parameters
        ----------
        prefix, name : str
            See `Detector`.
        longitude, latitude : float, Quantity or Angle
            Geodetic coordinates, rad, north and east positive.
        height : float or Quantity
            Height above the ellipsoid, m.
        azimuths : sequence of 1 or 2 float, Quantities or Angles
            Azimuths of the arms, rad, from north through east. (Bilby counts from east through north.)
        tilts : float or sequence of the same length
            Altitudes of the arms above the horizontal, rad.

        Raises
        ------
        ValueError
            See `Detector`; also if an angle is malformed.
        """
        from astropy.coordinates import EarthLocation

        lon, lat, h = (
            number(x, name, f"one number in {unit}", unit)
            for x, name, unit in (
                (longitude, "longitude", "rad"),
                (latitude, "latitude", "rad"),
                (height, "height", "m"),
            )
        )
        if abs(lat) > np.pi / 2:
            raise ValueError(f"latitude must be within [-pi/2, pi/2], not {lat}: give it in rad, north positive.")
        place: Any = EarthLocation.from_geodetic(np.degrees(lon), np.degrees(lat), h)
        location = [float(x.to_value("m")) for x in place.geocentric]
        return cls(prefix, location, _arms(lon, lat, azimuths, tilts), name)

    @classmethod
    def from_earth_location(
        cls,
        prefix: str,
        location: EarthLocation,
        azimuths: Sequence[AngleLike] | AngleLike,
        tilts: Sequence[AngleLike] | AngleLike = 0.0,
        name: str = "",
    ) -> Detector:
        """Make a detector at an astropy EarthLocation; see `from_geodetic` for the other parameters.

        Raises
        ------
        TypeError
            If `location` is not an EarthLocation.
        ValueError
            See `Detector`; also if an angle is malformed.
        """
        if not hasattr(location, "geodetic"):
            raise TypeError(f"location must be an astropy EarthLocation, not {type(location).__name__}: build one.")
        where: Any = location.geodetic
        longitude, latitude = float(where.lon.to_value("rad")), float(where.lat.to_value("rad"))
        return cls(prefix, location, _arms(longitude, latitude, azimuths, tilts), name)

    @classmethod
    def read(cls, path: str | os.PathLike, prefix: str | None = None) -> Detector:
        """Read a detector from a file in the format of Bilby's ``.ifo`` files.

        The file has lines ``key = value``. These keys are used: ``latitude``, ``longitude``, ``xarm_azimuth`` and
        ``yarm_azimuth`` in degrees, azimuths from east through north; ``elevation`` in m; ``xarm_tilt`` and
        ``yarm_tilt`` in rad, optional; ``name``; and ``prefix``, which Bilby does not know. Numbers may be sums and
        products.

        Parameters
        ----------
        path : str or path
        prefix : str, optional
            Two characters, needed if the file has no line ``prefix = 'Z1'`` and its name is not such a prefix.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If a line is malformed or missing; see also `Detector`.
        """
        kinds.path(path, "path")
        words, numbers = read_ifo(path)
        word = words.get("prefix", words["name"]) if prefix is None else prefix
        azimuths = [np.pi / 2 - np.radians(numbers[f"{arm}arm_azimuth"]) for arm in "xy"]
        tilts = [numbers[f"{arm}arm_tilt"] for arm in "xy"]
        longitude, latitude = np.radians(numbers["longitude"]), np.radians(numbers["latitude"])
        return cls.from_geodetic(word, longitude, latitude, numbers["elevation"], azimuths, tilts, words["name"])

    @property
    def response(self) -> np.ndarray:
        """Response tensor in the Earth-fixed frame, (3, 3) float64.

        (x x - y y)/2 for an interferometer with arms along x and y, x x for a bar along x (LALSuite:
        XLALCreateDetector, which rounds it to float32).
        """
        if len(self.arms) == 1:
            return np.outer(self.arms[0], self.arms[0])
        return 0.5 * (np.outer(self.arms[0], self.arms[0]) - np.outer(self.arms[1], self.arms[1]))


def arm(longitude: float, latitude: float, azimuth: float, altitude: float) -> Vector:
    """Return the unit vector, in the Earth-fixed frame, of an arm at a geodetic position.

    The azimuth counts from north through east; all angles are in rad.
    """
    sin_lon, cos_lon = np.sin(longitude), np.cos(longitude)
    sin_lat, cos_lat = np.sin(latitude), np.cos(latitude)
    east = np.array([-sin_lon, cos_lon, 0.0])
    north = np.array([-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat])
    up = np.array([cos_lat * cos_lon, cos_lat * sin_lon, sin_lat])
    level = np.sin(azimuth) * east + np.cos(azimuth) * north
    x, y, z = (np.cos(altitude) * level + np.sin(altitude) * up).tolist()
    return x, y, z


def _arms(longitude: float, latitude: float, azimuths: Any, tilts: Any) -> list[Vector]:
    """Return the arms of a detector from a user's azimuths and tilts."""
    angles = np.atleast_1d(_numbers(azimuths, "azimuths"))
    altitudes = np.atleast_1d(_numbers(tilts, "tilts"))
    altitudes = np.repeat(altitudes, len(angles)) if len(altitudes) == 1 else altitudes
    if angles.ndim != 1 or len(angles) not in (1, 2) or altitudes.shape != angles.shape:
        raise ValueError("azimuths must be one or two angles in rad, and tilts one or as many: give those of each arm.")
    return [arm(longitude, latitude, *pair) for pair in zip(angles.tolist(), altitudes.tolist(), strict=True)]


def _numbers(x: Any, name: str) -> np.ndarray:
    """Return angles in rad, from numbers or Quantities, together or in a sequence."""
    if isinstance(x, (list, tuple)):
        return np.array([number(value, name, "one number in rad", "rad") for value in x])
    return _vectors(in_unit(x, name, "rad"), name)


def _vectors(x: Any, name: str) -> np.ndarray:
    """Return finite numbers as a float64 array."""
    require_known(x, name)
    try:
        value = float64_of(x, name)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, not {shown(x)}.") from None
    if not np.isfinite(value).all():
        raise ValueError(f"{name} must be finite, not {shown(x)}.")
    return value
