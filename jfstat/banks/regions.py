"""From boxes, discs and polygons on the sky to one interface: what lies inside, where the boundary runs.

Positions are equatorial unit vectors, (..., 3) float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Region(Protocol):
    """A part of the sky.

    Attributes
    ----------
    cap : (3,) float64, float
        Centre and radius in rad of a spherical cap that holds the region.
    """

    @property
    def cap(self) -> tuple[np.ndarray, float]: ...

    def contains(self, n: np.ndarray) -> np.ndarray:
        """Whether positions (..., 3) lie inside: (...) bool."""
        ...

    def boundary(self, step: float) -> list[np.ndarray]:
        """Closed lines around the region, points (k, 3) each, the first repeated, no further apart than `step` rad."""
        ...


def unit_vector(alpha: np.ndarray | float, delta: np.ndarray | float) -> np.ndarray:
    """Unit vectors (..., 3) to right ascensions and declinations in rad."""
    alpha, delta = np.broadcast_arrays(alpha, delta)
    return np.stack([np.cos(delta) * np.cos(alpha), np.cos(delta) * np.sin(alpha), np.sin(delta)], axis=-1)


def angles(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right ascensions in [0, 2 pi) and declinations of vectors (..., 3), rad."""
    return np.arctan2(n[..., 1], n[..., 0]) % (2 * np.pi), np.arctan2(n[..., 2], np.hypot(n[..., 0], n[..., 1]))


def tangents(n: np.ndarray) -> np.ndarray:
    """Two unit vectors, (2, 3), at right angles to each other and to one position, (3,)."""
    first = np.cross([0.0, 0.0, 1.0] if abs(n[2]) < 0.9 else [1.0, 0.0, 0.0], n)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(n, first)])


@dataclass(frozen=True)
class WholeSky:
    """All positions."""

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        return np.array([0.0, 0.0, 1.0]), np.pi

    def contains(self, n: np.ndarray) -> np.ndarray:
        return np.ones(n.shape[:-1], dtype=bool)

    def boundary(self, step: float) -> list[np.ndarray]:
        return []


@dataclass(frozen=True)
class Disc:
    """All positions within `radius` rad, at most pi, of the `centre`, (3,)."""

    centre: np.ndarray
    radius: float

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        return self.centre, self.radius

    def contains(self, n: np.ndarray) -> np.ndarray:
        # the chord keeps its digits for small angles
        return np.linalg.norm(n - self.centre, axis=-1) <= 2 * np.sin(0.5 * self.radius)

    def boundary(self, step: float) -> list[np.ndarray]:
        return [circle(self.centre, np.cos(self.radius), step, np.sin(self.radius))]


@dataclass(frozen=True)
class Box:
    """Right ascensions from `alpha` on over `width` eastwards, declinations from `south` to `north`, rad."""

    alpha: float
    width: float
    south: float
    north: float

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        centre = unit_vector(self.alpha + 0.5 * self.width, 0.5 * (self.south + self.north))
        if self.contains(-centre):
            return centre, np.pi
        # the largest distance is one from a corner, from a pole or from where a side is nearest to the antipode
        reach = np.concatenate(self.boundary(0.01))
        return centre, float(np.max(2 * np.arcsin(np.minimum(0.5 * np.linalg.norm(reach - centre, axis=-1), 1.0))))

    def contains(self, n: np.ndarray) -> np.ndarray:
        alpha, delta = angles(n)
        east = (alpha - self.alpha) % (2 * np.pi)
        return (east <= self.width) & (delta >= self.south) & (delta <= self.north)

    def boundary(self, step: float) -> list[np.ndarray]:
        sides = [np.linspace(0, 1, steps(self.width * np.cos(delta), step)) for delta in (self.south, self.north)]
        south, north = (
            unit_vector(self.alpha + self.width * x, delta)
            for x, delta in zip(sides, (self.south, self.north), strict=True)
        )
        if self.width >= 2 * np.pi:
            return [south, north]
        upwards = np.linspace(self.south, self.north, steps(self.north - self.south, step))
        east, west = unit_vector(self.alpha + self.width, upwards), unit_vector(self.alpha, upwards[::-1])
        return [np.concatenate([south, east, north[::-1], west])]


@dataclass(frozen=True)
class Polygon:
    """What great circles between consecutive `corners`, (k, 3), enclose; within 90 degrees of the corners' mean."""

    corners: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        mean = np.mean(self.corners, axis=0)
        return mean / np.linalg.norm(mean)

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        chord = np.max(np.linalg.norm(self.corners - self.centre, axis=-1))
        return self.centre, float(2 * np.arcsin(0.5 * chord))

    def flat(self, n: np.ndarray) -> np.ndarray:
        """Gnomonic coordinates about the centre, (..., 2), in which great circles are straight."""
        return (n @ tangents(self.centre).T) / (n @ self.centre)[..., None]

    def contains(self, n: np.ndarray) -> np.ndarray:
        ahead = n @ self.centre > 1e-6
        x, y = np.moveaxis(self.flat(np.where(ahead[..., None], n, self.centre)), -1, 0)
        ends = self.flat(self.corners)
        odd = np.zeros(n.shape[:-1], dtype=bool)
        # a ray to the right of a point inside crosses an odd number of edges
        for (x1, y1), (x2, y2) in zip(ends, np.roll(ends, -1, axis=0), strict=True):
            if y1 != y2:
                odd ^= ((y1 > y) != (y2 > y)) & (x < x1 + (x2 - x1) * (y - y1) / (y2 - y1))
        return odd & ahead

    def boundary(self, step: float) -> list[np.ndarray]:
        edges = [arc(a, b, step) for a, b in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True)]
        return [np.concatenate(edges)]


@dataclass(frozen=True)
class Belt:
    """What a region has between two planes: |n . axis| <= height."""

    region: Region
    axis: np.ndarray
    height: float

    @property
    def cap(self) -> tuple[np.ndarray, float]:
        return self.region.cap

    def between(self, n: np.ndarray) -> np.ndarray:
        """Whether positions (..., 3) lie between the planes."""
        return np.abs(n @ self.axis) <= self.height

    def contains(self, n: np.ndarray) -> np.ndarray:
        return self.region.contains(n) & self.between(n)

    def boundary(self, step: float) -> list[np.ndarray]:
        lines = [run for line in self.region.boundary(step) for run in runs(line, self.between(line))]
        for height in (self.height, -self.height):
            line = circle(self.axis, height, step)
            lines += runs(line, self.region.contains(line))
        return lines


def runs(line: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """The parts of a line, (k, 3), that consist of chosen points, (k,) bool."""
    breaks = np.flatnonzero(np.diff(chosen)) + 1
    pieces = np.split(line, breaks)
    return pieces[0 if chosen[0] else 1 :: 2]


def circle(axis: np.ndarray, height: float, step: float, radius: float | None = None) -> np.ndarray:
    """Points (k, 3) of the circle n . axis = height, the first repeated, no further apart than `step` rad."""
    radius = float(np.sqrt(1 - height**2)) if radius is None else radius
    turn = np.linspace(0, 2 * np.pi, steps(2 * np.pi * radius, step, least=24))
    return height * axis + radius * (np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ tangents(axis))


def arc(start: np.ndarray, end: np.ndarray, step: float) -> np.ndarray:
    """Points (k, 3) of the great circle between two positions less than pi apart, ends included."""
    length = 2 * np.arcsin(min(1.0, 0.5 * float(np.linalg.norm(end - start))))
    # points of the chord, pushed out to the sphere, are at most pi/2 times further apart than evenly
    points = start + np.linspace(0, 1, steps(2 * np.tan(0.5 * min(length, 3.0)), step))[:, None] * (end - start)
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def steps(length: float, step: float, least: int = 2) -> int:
    """Number of points that divide a length in parts no longer than `step`."""
    return max(least, int(np.ceil(length / step)) + 1)
