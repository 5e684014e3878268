"""From a dimension or a metric to lower triangular factors, and from these and ranges to the points of a lattice.

With a lower triangular generator the first coordinates of a point depend on the first integers only: points are
enumerated one coordinate after the other.
"""

from __future__ import annotations

import numpy as np


def covering_lattice(n: int) -> np.ndarray:
    """Generator of the lattice A_n* whose balls of radius 1 just cover the space: points are ``generator @ integers``.

    A_n* is the thinnest covering known in up to five dimensions: evenly spaced, hexagonal, body-centred cubic, ...
    Its last basis vector is one of the shortest, along the last axis.

    Parameters
    ----------
    n : int
        Dimension.

    Returns
    -------
    (n, n) float64
        Lower triangular, positive diagonal.

    Notes
    -----
    Conway & Sloane, Sphere Packings, Lattices and Groups (1999), chapter 4, section 6.6: the Gram matrix is
    1 - 1/(n + 1) on the diagonal and -1/(n + 1) elsewhere, the covering radius squared n (n + 2) / (12 (n + 1)).
    """
    gram = np.eye(n) - 1.0 / (n + 1)
    return lower_factor(gram) / np.sqrt(n * (n + 2) / (12 * (n + 1)))


def lower_factor(g: np.ndarray) -> np.ndarray:
    """The lower triangular L with L^T L = g, for a positive definite (n, n) float64."""
    return flipped(np.linalg.cholesky(flipped(g)).T)


def flipped(matrix: np.ndarray) -> np.ndarray:
    """Rows and columns in reverse order: makes upper triangles lower ones, and coordinates run backwards."""
    return matrix[::-1, ::-1]


def back_substituted(upper: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x with upper @ x = b, for an upper triangular (n, n) and (n, k) float64.

    Row by row, for matrices so small that a linear algebra library's threads would take a thousand times as long.
    """
    x = np.empty(b.shape)
    for i in reversed(range(len(b))):
        x[i] = (b[i] - upper[i, i + 1 :] @ x[i + 1 :]) / upper[i, i]
    return x


def integers_between(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All integers from low[i] to high[i], for every i: which i, and the integer, (total,) int64 each.

    Parameters
    ----------
    low, high : (n,) float64
        None where low > high.
    """
    first, last = np.ceil(low).astype(np.int64), np.floor(high).astype(np.int64)
    count = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, first[which] + step


def distance_to_box(points: np.ndarray, low: np.ndarray, high: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Squared distance of points to the nearest point of a box, in the metric factor^T factor: (n,) float64.

    The nearest point lies on one of the 3^k faces, where the coordinates that are not fixed are at their best.

    Parameters
    ----------
    points : (n, k) float64
    low, high : (k,) float64
    factor : (k, k) float64
    """
    k = len(low)
    best = np.full(len(points), np.inf)
    slack = 1e-9 * (high - low)
    for face in np.ndindex(*(3,) * k):
        kind = np.array(face, dtype=int)
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
