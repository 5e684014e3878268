"""Lattices A_n* in spaces with a constant metric: generators, nearest points and numbers of points.

A metric g is given by its factor, a matrix L with L^T L = g, and a lattice by its generator, the matrix from integers
to points. Both are lower triangular here: the first coordinates of a point then depend only on the first integers, and
points can be enumerated coordinate by coordinate.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import numpy as np

from jfstat.maths.arrays import module_for

Array = TypeVar("Array", np.ndarray, jax.Array)


def covering_lattice(n: int) -> np.ndarray:
    """Return the generator of A_n*, scaled so that balls of radius 1 about its points just cover the space.

    A_n* is the thinnest lattice covering known in up to five dimensions: evenly spaced points, the hexagonal lattice,
    the body-centred cubic lattice, ... Its last basis vector, along the last axis, is one of its shortest vectors.

    Parameters
    ----------
    n : int
        Dimension.

    Returns
    -------
    (n, n) float64
        Lower triangular, with a positive diagonal; points are ``generator @ integers``.

    Notes
    -----
    Conway & Sloane, Sphere Packings, Lattices and Groups (1999), chapter 4, section 6.6: the Gram matrix is
    1 - 1/(n + 1) on the diagonal and -1/(n + 1) elsewhere, the covering radius squared n (n + 2) / (12 (n + 1)).
    """
    gram = np.eye(n) - 1.0 / (n + 1)
    return lower_factor(gram) / np.sqrt(n * (n + 2) / (12 * (n + 1)))


def lattice_generator(factor: np.ndarray, lattice: np.ndarray) -> np.ndarray:
    """Return the generator of a lattice in coordinates with a metric, from its Cartesian one: factor^-1 @ lattice.

    Parameters
    ----------
    factor : (k, k) float64
        Factor of the metric, lower triangular, with a positive diagonal.
    lattice : (k, n) float64
        The last k rows of a lower triangular generator, n >= k.

    Returns
    -------
    (k, n) float64
        Lower triangular in its last k columns.
    """
    size = 1.0 / np.diag(factor)
    return size[:, None] * flipped(back_substituted(flipped(factor * size), flipped(lattice)))


def expected_points(log_volume: float, n: int, radius: float) -> float:
    """Return the expected number of points of A_n* in a volume.

    Balls of `radius` about the points just cover the space.

    Parameters
    ----------
    log_volume : float
        Natural logarithm of the volume in the metric.
    n : int
        Dimension; in dimension 0 there is one point.
    radius : float
    """
    log_cell = n * np.log(radius) + log_determinant(covering_lattice(n)) if n else 0.0
    return float(np.exp(min(log_volume - log_cell, 700.0)))


def log_determinant(triangular: np.ndarray) -> float:
    """Return the natural logarithm of the determinant of a triangular matrix with a positive diagonal."""
    return np.sum(np.log(np.diag(triangular)))


def lower_factor(g: np.ndarray) -> np.ndarray:
    """Return the lower triangular L with L^T L = g, for a positive definite g, (n, n) float64."""
    return flipped(np.linalg.cholesky(flipped(g)).T)


def flipped(matrix: np.ndarray) -> np.ndarray:
    """Reverse the order of a matrix's rows and columns, which makes an upper triangle a lower one."""
    return matrix[::-1, ::-1]


def back_substituted(upper: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve upper @ x = b for x, (n, k) float64, with an upper triangular matrix (n, n).

    This works row by row: for matrices this small, the threads of a linear algebra library take a thousand times as
    long.
    """
    x = np.empty(b.shape)
    for i in reversed(range(len(b))):
        x[i] = (b[i] - upper[i, i + 1 :] @ x[i + 1 :]) / upper[i, i]
    return x


def integers_between(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all integers from low[i] to high[i], for every i.

    Parameters
    ----------
    low, high : (n,) float64 or int64
        Where low > high there are no integers.

    Returns
    -------
    which : (total,) int64
        Index i of each integer, ascending.
    integers : (total,) int64
        Ascending for each i.
    """
    first, last = np.ceil(low).astype(np.int64), np.floor(high).astype(np.int64)
    count = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, first[which] + step


def covering_radius(n: int) -> float:
    """Return the covering radius of A_n* as the projection of Z^(n+1), the scale that `nearest_points` uses."""
    return float(np.sqrt(n * (n + 2) / (12 * (n + 1))))


def _simplex_axes(n: int) -> np.ndarray:
    """Return an orthonormal basis, (n, n + 1), of the vectors whose n + 1 components add up to 0."""
    axes = np.zeros((n, n + 1))
    for i in range(n):
        axes[i, : i + 1] = 1.0
        axes[i, i + 1] = -(i + 1.0)
        axes[i] /= np.sqrt((i + 1.0) * (i + 2.0))
    return axes


def nearest_points(points: Array) -> Array:
    """Return the points of A_n* nearest to given points, as integers that `lattice_points` takes.

    Parameters
    ----------
    points : (k, n) float64
        Cartesian coordinates, with the scale in which the covering radius is `covering_radius`. May be traced.

    Returns
    -------
    (k, n) int64

    Notes
    -----
    A_n* is the projection of Z^(n+1) along (1, ..., 1). Its nearest point is one of n + 1 candidates: the coordinates
    rounded down, and the i largest remainders rounded up (Conway & Sloane 1999, chapter 20, section 3; McKilliam,
    Clarkson & Quinn 2008, IEEE Trans. Inf. Theory 54, 4378).
    """
    n, xp = points.shape[1], module_for(points)
    if n == 0:
        return points.astype(np.int64)
    # each of the n + 1 coordinates is an array of its own: each step is one loop over all points
    x = [sum(points[:, i] * own for i, own in enumerate(column)) for column in _simplex_axes(n).T]
    whole = [xp.floor(own) for own in x]
    rest = [own - floor for own, floor in zip(x, whole, strict=True)]
    rank = [xp.zeros(len(points), np.int8) for _ in rest]
    for i in range(n + 1):
        for j in range(i):
            later = rest[i] > rest[j]  # of equal remainders the first is rounded up first
            rank[j] = rank[j] + later.astype(np.int8)
            rank[i] = rank[i] + (~later).astype(np.int8)
    # squared distance with the i largest remainders rounded up, relative to rounding none up: only sums change
    total, up = sum(rest), 0.0
    nearest, least = xp.zeros(len(points), np.int8), -(total**2) / (n + 1)
    for i in range(1, n + 1):
        up = up + sum(xp.where(own == i - 1, 1 - 2 * left, 0.0) for own, left in zip(rank, rest, strict=True))
        distance = up - (total - i) ** 2 / (n + 1)
        nearest = xp.where(distance < least, np.int8(i), nearest)
        least = xp.minimum(distance, least)
    *integers, last = (floor + (own < nearest).astype(np.float64) for floor, own in zip(whole, rank, strict=True))
    return xp.stack([own - last for own in integers], axis=-1).astype(np.int64)


def lattice_points(integers: np.ndarray) -> np.ndarray:
    """Return the points of A_n*, (k, n) float64, that belong to integers, (k, n) int64, from `nearest_points`."""
    return _times(integers, _simplex_axes(integers.shape[1])[:, :-1].T)


def _times(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return rows @ matrix for many rows and a small matrix, (k, m), bit-identical on any number of threads."""
    return sum((rows[:, i, None] * own for i, own in enumerate(matrix)), np.zeros((len(rows), matrix.shape[1])))
