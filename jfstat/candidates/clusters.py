"""Clusters of neighbouring candidates, each represented by its loudest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jfstat.maths.vectors import unit_vector
from jfstat.parameters import ORBIT_FIELDS, spin_names


def clustered(columns: Mapping[str, np.ndarray], metric: np.ndarray, radius: float) -> np.ndarray:
    """For each candidate, the leader of its cluster.

    The loudest candidate leads all that lie within the radius of it; the loudest of the remaining ones leads all of
    these within the radius of it; and so on. Distances are d^T metric d, to second order the fraction of rho^2 that a
    signal at one candidate loses at the other (`jfstat.mismatch` is exact). Radii far below 1 divide peaks, and the
    side lobes of a strong signal lie beyond 1. Candidates whose orbits differ in any element never share a cluster,
    however close the orbits are.

    Parameters
    ----------
    columns : mapping of str to (k,) ndarray
        Candidates in falling order of 2F: ``freq`` (Hz), ``f1dot`` (Hz/s), ..., ``alpha``, ``delta`` (rad), and any of
        ``asini``, ``period``, ``tp``, ``ecc``, ``argp``, all at the reference time of the metric. Other columns are
        ignored.
    metric : (1 + s + 3, 1 + s + 3) ndarray
        In frequency, s derivatives and the equatorial unit vector to the source, from `flat_metric`: with the three
        components of the unit vector as coordinates it is the same all over the sky. Positions that the phase cannot
        tell apart, such as mirror images about the ecliptic in short data, are close.
    radius : float
        The largest distance from a cluster's leader, above 0.

    Returns
    -------
    (k,) int64
        Index of each candidate's leader, which for a leader is its own. Of several leaders within the radius it is the
        loudest, not the closest.

    Raises
    ------
    ValueError
        If columns are missing or of different lengths, the metric does not fit them or is not finite, or the radius is
        not a positive number.
    """
    spins = spin_names(tuple(columns))
    names = [*spins, "alpha", "delta"]
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"columns lack {missing[0]!r}: give candidates as jfstat.search does.")
    values = [np.asarray(columns[name], np.float64) for name in names]
    orbits = [np.asarray(columns[name], np.float64) for name in ORBIT_FIELDS if name in columns]
    if any(x.ndim != 1 or len(x) != len(values[0]) for x in values + orbits):
        raise ValueError("columns must be one-dimensional and of one length: give one value a candidate.")
    metric = np.asarray(metric, np.float64)
    if metric.shape != (len(spins) + 3,) * 2 or not np.isfinite(metric).all():
        raise ValueError(
            f"metric must be finite and of shape {(len(spins) + 3,) * 2}, for frequency, {len(spins) - 1} "
            f"derivative(s) and the unit vector to the source, not {metric.shape}: make it by "
            "jfstat.metrics.phasemetric.flat_metric."
        )
    if not (np.ndim(radius) == 0 and np.isfinite(radius) and radius > 0):
        raise ValueError(f"radius must be a positive number, not {radius!r}: 1 is where all of rho^2 is lost.")
    *doppler, alpha, delta = values
    points = _whitened(np.column_stack([*doppler, unit_vector(alpha, delta)]), metric)
    if orbits and len(alpha):
        # an additional coordinate, in which different orbits are further apart than the radius
        group = np.unique(np.stack(orbits, axis=-1), axis=0, return_inverse=True)[1].reshape(-1)
        points = np.column_stack([points, 4 * np.sqrt(radius) * group])
    return _led(points, np.sqrt(radius))


def _whitened(points: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Coordinates (k, p) in which the metric is the identity.

    No inverse is needed, so the metric may be singular: all candidates are close in directions that do not change 2F.
    """
    size = np.sqrt(np.diagonal(metric))
    scale = np.where(size > 0, size, 1.0)
    # parameters differ by many orders of magnitude: the small eigenvalues of a correlation matrix keep their digits
    square, axes = np.linalg.eigh(metric / np.outer(scale, scale))
    middle = points.mean(axis=0) if len(points) else 0.0
    return ((points - middle) * scale) @ (axes * np.sqrt(np.maximum(square, 0.0)))


def _led(points: np.ndarray, radius: float) -> np.ndarray:
    """Index of each point's leader, (k,) int64, when points (k, p) become leaders in their order; see `clustered`."""
    from scipy.spatial import KDTree  # takes 0.2 s to import

    tree = KDTree(points)
    leader = np.full(len(points), -1, np.int64)
    for i, point in enumerate(points):
        if leader[i] < 0:
            near = np.array(tree.query_ball_point(point, radius))
            leader[near[leader[near] < 0]] = i
    return leader
