"""Points that fill or cover a ball or an ellipsoid evenly."""

from __future__ import annotations

from functools import lru_cache
from math import lgamma

import numpy as np

from jfstat.maths.boxes import MetricBox
from jfstat.maths.lattices import covering_lattice, expected_points


@lru_cache
def ball_points(p: int, n: int, radius: float) -> np.ndarray:
    """Return the origin and n - 1 points of a Sobol sequence that fill the ball around it evenly: (n, p) float64."""
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
    """Return points of the lattice A_p* that cover a ball about the origin: (n, p) float64.

    Every point of the ball is within `distance` of one of them.

    The origin comes first, and the others follow by their distance from it; in dimension 0 there is only the origin.
    """
    ball = MetricBox(np.zeros(p), np.zeros(p), np.eye(p), radius + distance if radius > 0 else 0.0)
    _, points = ball.lattice_points(distance * covering_lattice(p), np.zeros((1, p)))
    return points[np.argsort(np.linalg.norm(points, axis=1), kind="stable")]


def covering_ellipsoid(axes: np.ndarray, distance: float, most: int) -> tuple[np.ndarray, float]:
    """Return points of the lattice A_q* that cover an ellipsoid about the origin.

    Every point of the ellipsoid is within about `distance` of one of them.

    Parameters
    ----------
    axes : (q, q) float64
        Columns are the semi-axes, orthogonal to each other.
    distance : float
    most : int
        Approximate limit on the number of points: of a larger ellipsoid, only a smaller one of the same shape is
        covered.

    Returns
    -------
    points : (n, q) float64
        The origin comes first; the others follow by their distance from it, relative to the ellipsoid's surface.
    factor : float
        Size of the covered ellipsoid relative to the given one; 0 to 1.
    """
    q = len(axes)
    if q == 0:
        return np.zeros((1, 0)), 1.0
    radii = np.linalg.norm(axes, axis=0)
    turned = np.where(radii > 0, axes / np.where(radii > 0, radii, 1.0), np.eye(q))
    factor = 1.0
    while ellipsoid_count(factor * radii, distance) > most:
        factor *= 0.95
    room = factor * radii
    box = MetricBox(-room, room, np.eye(q), distance)
    _, points = box.lattice_points(distance * covering_lattice(q), np.zeros((1, q)))
    # a ball about a point of the surface reaches to about this larger ellipsoid
    far = np.sum((points / (room + distance)) ** 2, axis=1)
    points, far = points[far <= 1], far[far <= 1]
    return points[np.argsort(far, kind="stable")] @ turned.T, factor


def ellipsoid_count(radii: np.ndarray, distance: float) -> float:
    """Estimate how many points `covering_ellipsoid` takes for an ellipsoid with these semi-axes, (q,)."""
    q = len(radii)
    log_unit = 0.5 * q * np.log(np.pi) - lgamma(0.5 * q + 1)
    return expected_points(log_unit + float(np.sum(np.log(radii + distance))), q, distance)
