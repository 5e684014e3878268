"""From a lattice's generator and a box of spin-downs to the lattice points that the box needs."""

from __future__ import annotations

from itertools import combinations
from math import gamma, pi
from typing import NamedTuple

import numpy as np

from jfstat.maths.lattices import distance_to_box, integers_between


class PaddedBox(NamedTuple):
    """The ranges that a lattice has to cover, of k spin-downs in the order of enumeration: the highest first.

    Attributes
    ----------
    low, high : (k,) float64
        Hz/s^j; with what the spin-downs that the lattice leaves out ask for on top.
    factor : (k, k) float64
        Lower triangular: of the metric in the spin-downs once frequency and sky are maximised over.
    radius : float
        Covering radius, the square root of the mismatch.
    """

    low: np.ndarray
    high: np.ndarray
    factor: np.ndarray
    radius: float

    @property
    def reach(self) -> np.ndarray:
        """How far a template's ball extends in each spin-down, (k,)."""
        if not len(self.low):
            return np.empty(0)
        size = 1.0 / np.diag(self.factor)
        return self.radius * np.linalg.norm(np.linalg.inv(self.factor * size) * size[:, None], axis=1)

    @property
    def log_volume(self) -> float:
        """Log of the volume of all points within a radius of the box, by Steiner's formula for convex bodies."""
        k = len(self.low)
        edges = self.factor * (self.high - self.low)
        total = 0.0
        for j in range(k + 1):
            ball = pi ** (0.5 * (k - j)) / gamma(0.5 * (k - j) + 1) * self.radius ** (k - j)
            for some in combinations(range(k), j):
                total += ball * abs(np.prod(np.diag(np.linalg.qr(edges[:, some], mode="r"))))
        return float(np.log(total) - np.sum(np.log(np.abs(np.diag(self.factor)))))


def spin_points(box: PaddedBox, generator: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points offset[i] + generator @ integers within a radius of the box, for each i.

    Parameters
    ----------
    box : PaddedBox
    generator : (k, k) float64
        Lower triangular, positive diagonal.
    offset : (n, k) float64

    Returns
    -------
    which : (total,) int64
        The i of each point, ascending.
    points : (total, k) float64
    """
    n, k = offset.shape
    which, points, offset = np.arange(n), np.empty((n, 0)), offset
    reach = box.reach
    for i in range(k):
        # how far outside the box the coordinates so far are limits how far this one may be
        outside_low = np.maximum(points - box.high[:i], -reach[:i])
        outside_high = np.minimum(points - box.low[:i], reach[:i])
        a, b = outside_low * box.factor[i, :i], outside_high * box.factor[i, :i]
        least, most = np.sum(np.minimum(a, b), axis=1), np.sum(np.maximum(a, b), axis=1)
        below = np.maximum((-box.radius - most) / box.factor[i, i], -reach[i])
        above = np.minimum((box.radius - least) / box.factor[i, i], reach[i])
        step = generator[i, i]
        parent, integer = integers_between(
            (box.low[i] + below - offset[:, i]) / step, (box.high[i] + above - offset[:, i]) / step
        )
        which, offset = which[parent], offset[parent] + integer[:, None] * generator[:, i]
        points = np.concatenate([points[parent], offset[:, i : i + 1]], axis=1)
    if k:
        near = distance_to_box(points, box.low, box.high, box.factor) <= box.radius**2 * (1 + 1e-9)
        which, points = which[near], points[near]
    return which, points
