"""From candidates, loudest first, and a metric to clusters of neighbours, each led by its loudest."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from jfstat.templates import ORBIT_FIELDS


def clustered(columns: Mapping[str, np.ndarray], metric: np.ndarray, radius: float) -> np.ndarray:
    """Which candidate leads the cluster of each: the loudest left leads all that are left within a distance of it.

    Distances are d^T metric d, the part of rho^2 that a signal at one candidate loses at the other, to second order:
    radii far below 1 divide peaks, and a strong signal's side lobes lie beyond 1 (`jfstat.mismatch` is exact).
    Candidates of different orbits, in any element, never share a cluster, however close their orbits are.

    Parameters
    ----------
    columns : mapping of str to (k,) ndarray
        Candidates in falling order of 2F: ``freq`` (Hz), ``f1dot`` (Hz/s), ..., ``alpha``, ``delta`` (rad), and those
        of ``asini``, ``period``, ``tp``, ``ecc``, ``argp`` that there are, at one reference time, the metric's. Others
        are ignored.
    metric : (1 + s + 3, 1 + s + 3) ndarray
        In frequency, s derivatives and the equatorial unit vector to the source, from `flat_metric`: with the unit
        vector's three components as coordinates it is the same on all of the sky. Positions that the phase cannot tell
        apart, mirrored at the ecliptic in short data, are close.
    radius : float
        The largest distance from a cluster's leader, above 0.

    Returns
    -------
    (k,) int64
        Index of each candidate's leader, its own for leaders: of several in reach, the loudest, not the closest.

    Raises
    ------
    ValueError
        If columns are missing or of different lengths, the metric does not fit them or is not finite, or the radius is
        not a positive number.
    """
    spins = sorted((name for name in columns if re.fullmatch(r"f\d+dot", name)), key=lambda name: int(name[1:-3]))
    names = ["freq", *spins, "alpha", "delta"]
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"columns lack {missing[0]!r}: give candidates as jfstat.search does.")
    values = [np.asarray(columns[name], np.float64) for name in names]
    orbits = [np.asarray(columns[name], np.float64) for name in ORBIT_FIELDS if name in columns]
    if any(x.ndim != 1 or len(x) != len(values[0]) for x in values + orbits):
        raise ValueError("columns must be one-dimensional and of one length: give one value a candidate.")
    metric = np.asarray(metric, np.float64)
    if metric.shape != (len(spins) + 4,) * 2 or not np.isfinite(metric).all():
        raise ValueError(
            f"metric must be finite and of shape {(len(spins) + 4,) * 2}, for frequency, {len(spins)} derivative(s) "
            f"and the unit vector to the source, not {metric.shape}: make it by jfstat.metrics.phasemetric.flat_metric."
        )
    if not (np.ndim(radius) == 0 and np.isfinite(radius) and radius > 0):
        raise ValueError(f"radius must be a positive number, not {radius!r}: 1 is where all of rho^2 is lost.")
    *doppler, alpha, delta = values
    vector = [np.cos(delta) * np.cos(alpha), np.cos(delta) * np.sin(alpha), np.sin(delta)]
    points = _whitened(np.stack([*doppler, *vector], axis=-1), metric)
    if orbits and len(alpha):
        # another coordinate, in which different orbits are out of each other's reach
        group = np.unique(np.stack(orbits, axis=-1), axis=0, return_inverse=True)[1].reshape(-1)
        points = np.column_stack([points, 4 * np.sqrt(radius) * group])
    return _led(points, np.sqrt(radius))


def _whitened(points: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Coordinates (k, p) in which the metric is the identity.

    A metric that hardly sees some direction, or not at all, needs no inverse for that: there all are close.
    """
    size = np.sqrt(np.diagonal(metric))
    scale = np.where(size > 0, size, 1.0)
    # parameters differ by many orders of magnitude: the small eigenvalues of a correlation matrix keep their digits
    square, axes = np.linalg.eigh(metric / np.outer(scale, scale))
    middle = points.mean(axis=0) if len(points) else 0.0
    return ((points - middle) * scale) @ (axes * np.sqrt(np.maximum(square, 0.0)))


def _led(points: np.ndarray, radius: float) -> np.ndarray:
    """The greedy clusters of points (k, p) in their order, with balls of a radius: the leaders' indices, (k,) int64."""
    from scipy.spatial import KDTree  # takes 0.2 s to import

    tree = KDTree(points)
    leader = np.full(len(points), -1, np.int64)
    for i, point in enumerate(points):
        if leader[i] < 0:
            near = np.array(tree.query_ball_point(point, radius))
            leader[near[leader[near] < 0]] = i
    return leader
