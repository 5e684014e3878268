"""Points that fill or cover a ball evenly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from jfstat.maths.boxes import MetricBox
from jfstat.maths.lattices import covering_lattice


@lru_cache
def ball_points(p: int, n: int, radius: float) -> np.ndarray:
    """The origin and n - 1 points that fill the ball around it evenly, (n, p) float64: a Sobol sequence."""
    from scipy.special import ndtri
    from scipy.stats import qmc  # takes 0.2 s to import

    if n == 1:
        return np.zeros((1, p))
    sequence = qmc.Sobol(p + 1, rng=0).random_base2(int(np.ceil(np.log2(n))))[: n - 1]
    sequence = np.clip(sequence, 1e-12, 1 - 1e-12)
    direction = ndtri(sequence[:, :p])
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.concatenate([np.zeros((1, p)), radius * sequence[:, p:] ** (1 / p) * direction])


@lru_cache
def covering_points(p: int, radius: float, distance: float) -> np.ndarray:
    """Points of A_p* about the origin such that every point of a ball is within `distance` of one: (n, p) float64.

    The origin comes first, and the others follow by their distance from it; in dimension 0 there is only the origin.
    """
    ball = MetricBox(np.zeros(p), np.zeros(p), np.eye(p), radius + distance if radius > 0 else 0.0)
    _, points = ball.lattice_points(distance * covering_lattice(p), np.zeros((1, p)))
    return points[np.argsort(np.linalg.norm(points, axis=1), kind="stable")]
