"""Boxes in a space with a constant metric: distances to them, their volumes, and lattice points near them."""

from __future__ import annotations

from itertools import combinations
from math import gamma, pi
from typing import NamedTuple

import numpy as np

from jfstat.maths.lattices import integers_between


class MetricBox(NamedTuple):
    """A box in k coordinates, to be covered by balls of one radius about the points of a lattice.

    Attributes
    ----------
    low, high : (k,) float64
        Lowest and highest corner of the box.
    factor : (k, k) float64
        Lower triangular factor L of the metric L^T L.
    radius : float
        Radius of the balls in the metric.
    """

    low: np.ndarray
    high: np.ndarray
    factor: np.ndarray
    radius: float

    @property
    def ball_extent(self) -> np.ndarray:
        """Half width of a ball in each coordinate, (k,)."""
        if not len(self.low):
            return np.empty(0)
        size = 1.0 / np.diag(self.factor)
        return self.radius * np.linalg.norm(np.linalg.inv(self.factor * size) * size[:, None], axis=1)

    @property
    def log_volume(self) -> float:
        """Logarithm of the coordinate volume of all points within a radius of the box.

        Steiner's formula for convex bodies sums, over all faces of the box of every dimension, the volume of the face
        times the volume of a ball in the remaining dimensions.
        """
        k = len(self.low)
        edges = self.factor * (self.high - self.low)
        total = 0.0
        for j in range(k + 1):
            ball = pi ** (0.5 * (k - j)) / gamma(0.5 * (k - j) + 1) * self.radius ** (k - j)
            for some in combinations(range(k), j):
                total += ball * abs(np.prod(np.diag(np.linalg.qr(edges[:, some], mode="r"))))
        return float(np.log(total) - np.sum(np.log(np.abs(np.diag(self.factor)))))

    def is_near(self, points: np.ndarray) -> np.ndarray:
        """Return whether points, (n, k), lie within a radius of the box: (n,) bool."""
        return distance_to_box(points, self.low, self.high, self.factor) <= self.radius**2 * (1 + 1e-9)

    def lattice_points(self, generator: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lattice points offset[i] + generator @ integers within a radius of the box, for each i.

        Parameters
        ----------
        generator : (k, k) float64
            Lower triangular, with a positive diagonal.
        offset : (n, k) float64

        Returns
        -------
        which : (total,) int64
            Index i of each point, ascending.
        points : (total, k) float64
        """
        n, k = offset.shape
        which, points = np.arange(n), np.empty((n, 0))
        for i in range(k):
            low, high = self._limits(points)
            parent, integer = integers_between(
                (low - offset[:, i]) / generator[i, i], (high - offset[:, i]) / generator[i, i]
            )
            which, offset = which[parent], offset[parent] + integer[:, None] * generator[:, i]
            points = np.concatenate([points[parent], offset[:, i : i + 1]], axis=1)
        if k:
            near = self.is_near(points)
            which, points = which[near], points[near]
        return which, points

    def _limits(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the limits, (n,) each, of the next coordinate of points with known first i coordinates, (n, i)."""
        i, extent = points.shape[1], self.ball_extent
        # the distance from the box in the known coordinates limits the distance in the next one
        outside_low = np.maximum(points - self.high[:i], -extent[:i])
        outside_high = np.minimum(points - self.low[:i], extent[:i])
        a, b = outside_low * self.factor[i, :i], outside_high * self.factor[i, :i]
        least, most = np.sum(np.minimum(a, b), axis=1), np.sum(np.maximum(a, b), axis=1)
        below = np.maximum((-self.radius - most) / self.factor[i, i], -extent[i])
        above = np.minimum((self.radius - least) / self.factor[i, i], extent[i])
        return self.low[i] + below, self.high[i] + above


def distance_to_box(points: np.ndarray, low: np.ndarray, high: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return the squared distance from points to the nearest point of a box.

    With a diagonal metric each coordinate is treated by itself. Otherwise the nearest point lies on one of the 3^k
    faces, which include the interior and the corners. On each face the free coordinates are solved for, and the
    solution counts if it lies on the face.

    Parameters
    ----------
    points : (n, k) float64
    low, high : (k,) float64
        Corners of the box.
    factor : (k, k) float64
        Any factor L of the metric L^T L.

    Returns
    -------
    (n,) float64
    """
    k, scale = len(low), np.diagonal(factor)
    if np.array_equal(factor, np.diag(scale)):
        return np.sum((scale * (points - np.clip(points, low, high))) ** 2, axis=1)
    best = np.full(len(points), np.inf)
    slack = 1e-9 * (high - low)
    for face in np.ndindex(*(3,) * k):
        kind = np.array(face, dtype=int)  # of each coordinate: 0 low, 1 high, 2 free
        fixed, free = np.flatnonzero(kind < 2), np.flatnonzero(kind == 2)
        offset = points[:, fixed] - np.where(kind == 0, low, high)[fixed]
        residual = offset @ factor[:, fixed].T
        inside = np.ones(len(points), dtype=bool)
        if len(free):
            size = np.linalg.norm(factor[:, free], axis=0)
            step = -(residual @ np.linalg.pinv(factor[:, free] / size).T) / size
            residual = residual + step @ factor[:, free].T
            nearest = points[:, free] - step
            inside = np.all((nearest >= (low - slack)[free]) & (nearest <= (high + slack)[free]), axis=1)
        best = np.where(inside, np.minimum(best, np.sum(residual**2, axis=1)), best)
    return best
