"""Regions of the sky: tests of whether positions lie inside, and their boundaries.

Positions are equatorial unit vectors, (..., 3) float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from jfstat.maths.vectors import angles, tangents, unit_vector

FINE_STEP = 1e-4
"""Distance of points of a boundary, rad, below which a whole parallel would have many more than cross a region."""
ROUNDING = 1e-7
"""Angle, rad, of which the cosine is hardly less than 1 in double precision."""


class Region(Protocol):
    """A part of the sky that is to be searched."""

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        """Centre, (3,), and radius, rad, of a spherical cap that contains the region."""
        ...

    def contains(self, n: np.ndarray) -> np.ndarray:
        """Return whether positions (..., 3) lie inside: (...) bool."""
        ...

    def boundary(self, step: float) -> list[np.ndarray]:
        """Return lines that together bound the region, as points (k, 3) no further apart than `step` rad.

        Closed lines end at their first point.
        """
        ...


@dataclass(frozen=True)
class WholeSky:
    """The whole sky."""

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        return np.array([0.0, 0.0, 1.0]), np.pi

    def contains(self, n: np.ndarray) -> np.ndarray:
        return np.ones(n.shape[:-1], dtype=bool)

    def boundary(self, step: float) -> list[np.ndarray]:
        return []


@dataclass(frozen=True)
class Disc:
    """The positions within `radius` rad, at most pi, of the `centre`, (3,)."""

    centre: np.ndarray
    radius: float

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        return self.centre, self.radius

    def contains(self, n: np.ndarray) -> np.ndarray:
        # the chord is precise for small angles too, where a scalar product is not
        return np.linalg.norm(n - self.centre, axis=-1) <= 2 * np.sin(0.5 * self.radius)

    def boundary(self, step: float) -> list[np.ndarray]:
        return [circle(self.centre, np.cos(self.radius), step, np.sin(self.radius))]


@dataclass(frozen=True)
class Box:
    """Right ascensions from `alpha` to `alpha` + `width`, declinations from `south` to `north`, rad."""

    alpha: float
    width: float
    south: float
    north: float

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        centre = unit_vector(self.alpha + 0.5 * self.width, 0.5 * (self.south + self.north))
        if self.contains(-centre):
            return centre, np.pi
        # the position furthest from the centre lies on the boundary
        edge = np.concatenate(self.boundary(0.01))
        return centre, float(np.max(2 * np.arcsin(np.minimum(0.5 * np.linalg.norm(edge - centre, axis=-1), 1.0))))

    def contains(self, n: np.ndarray) -> np.ndarray:
        alpha, delta = angles(n)
        east = (alpha - self.alpha) % (2 * np.pi)
        return (east <= self.width) & (delta >= self.south) & (delta <= self.north)

    def boundary(self, step: float) -> list[np.ndarray]:
        sides = [np.linspace(0, 1, _n_points(self.width * np.cos(delta), step)) for delta in (self.south, self.north)]
        south, north = (
            unit_vector(self.alpha + self.width * x, delta)
            for x, delta in zip(sides, (self.south, self.north), strict=True)
        )
        if self.width >= 2 * np.pi:
            return [south, north]
        upwards = np.linspace(self.south, self.north, _n_points(self.north - self.south, step))
        east, west = unit_vector(self.alpha + self.width, upwards), unit_vector(self.alpha, upwards[::-1])
        return [np.concatenate([south, east, north[::-1], west])]


@dataclass(frozen=True)
class Polygon:
    """The region that the great circles between consecutive `corners`, (k, 3), enclose.

    The region must lie within 90 degrees of the mean of its corners.
    """

    corners: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        mean = np.mean(self.corners, axis=0)
        return mean / np.linalg.norm(mean)

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        chord = np.max(np.linalg.norm(self.corners - self.centre, axis=-1))
        return self.centre, float(2 * np.arcsin(0.5 * chord))

    def gnomonic(self, n: np.ndarray) -> np.ndarray:
        """Return gnomonic coordinates about the centre, (..., 2), in which great circles are straight."""
        return (n @ tangents(self.centre).T) / (n @ self.centre)[..., None]

    def contains(self, n: np.ndarray) -> np.ndarray:
        ahead = n @ self.centre > 1e-6
        x, y = np.moveaxis(self.gnomonic(np.where(ahead[..., None], n, self.centre)), -1, 0)
        ends = self.gnomonic(self.corners)
        odd = np.zeros(n.shape[:-1], dtype=bool)
        # a ray from a point inside crosses an odd number of edges
        for (x1, y1), (x2, y2) in zip(ends, np.roll(ends, -1, axis=0), strict=True):
            if y1 != y2:
                odd ^= ((y1 > y) != (y2 > y)) & (x < x1 + (x2 - x1) * (y - y1) / (y2 - y1))
        return odd & ahead

    def boundary(self, step: float) -> list[np.ndarray]:
        edges = [arc(a, b, step) for a, b in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True)]
        return [np.concatenate(edges)]


@dataclass(frozen=True)
class Zone:
    """The part of a region between two parallel planes, low <= n . axis <= high."""

    region: Region
    axis: np.ndarray
    low: float
    high: float

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        return self.region.cap

    def between(self, n: np.ndarray) -> np.ndarray:
        """Return whether positions (..., 3) lie between the planes."""
        height = np.clip(n @ self.axis, -1.0, 1.0)  # rounded, it may exceed a plane that touches the sphere
        return (self.low <= height) & (height <= self.high)

    def contains(self, n: np.ndarray) -> np.ndarray:
        return self.region.contains(n) & self.between(n)

    def boundary(self, step: float) -> list[np.ndarray]:
        lines = [piece for line in self.region.boundary(step) for piece in _pieces(line, self.between(line))]
        for height in (self.low, self.high):
            if abs(height) >= 1:  # the plane does not cut the sphere
                continue
            turns = (0.0, 2 * np.pi) if step > FINE_STEP else _turns_near(self.axis, height, *self.cap)
            if turns is not None:
                line = circle(self.axis, height, step, turns=turns)
                lines += _pieces(line, self.region.contains(line))
        return lines


def _pieces(line: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Return the pieces of a line, points (k, 3), that consist of consecutive chosen points; `chosen` is (k,) bool."""
    breaks = np.flatnonzero(np.diff(chosen)) + 1
    return np.split(line, breaks)[0 if chosen[0] else 1 :: 2]


def _turns_near(axis: np.ndarray, height: float, centre: np.ndarray, radius: float) -> tuple[float, float] | None:
    """Return between which angles the points of a `circle` lie in a cap; None if none does."""
    along, across = centre @ axis, tangents(axis) @ centre
    swing = float(np.sqrt(1 - height**2) * np.linalg.norm(across))
    excess = np.cos(min(radius + ROUNDING, np.pi)) - height * along
    if excess <= -swing:
        return 0.0, 2 * np.pi
    if excess > swing:
        return None
    middle, half = float(np.arctan2(across[1], across[0])), float(np.arccos(excess / swing))
    return middle - half, middle + half


def circle(
    axis: np.ndarray,
    height: float,
    step: float,
    radius: float | None = None,
    turns: tuple[float, float] = (0.0, 2 * np.pi),
) -> np.ndarray:
    """Return points (k, 3) of the circle n . axis = height, no further apart than `step` rad, between two angles.

    The last point of a whole circle equals the first.
    """
    radius = float(np.sqrt(1 - height**2)) if radius is None else radius
    turn = np.linspace(*turns, _n_points((turns[1] - turns[0]) * radius, step, least=24))
    return height * axis + radius * (np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ tangents(axis))


def arc(start: np.ndarray, end: np.ndarray, step: float) -> np.ndarray:
    """Return points (k, 3) of the great circle between two positions less than pi apart.

    The points are no further apart than `step` rad.
    """
    length = 2 * np.arcsin(min(1.0, 0.5 * float(np.linalg.norm(end - start))))
    # evenly spaced points of the chord, projected onto the sphere: the tangent allows for their unequal distances
    points = start + np.linspace(0, 1, _n_points(2 * np.tan(0.5 * min(length, 3.0)), step))[:, None] * (end - start)
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def _n_points(length: float, step: float, least: int = 2) -> int:
    """Return the number of points, ends included, that divide a length into parts no longer than `step`.

    The number is at least `least`.
    """
    return max(least, int(np.ceil(length / step)) + 1) if length > 0 else least
