"""Form clusters of candidates that one signal explains, each represented by its loudest."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.leakage import Sampling, leaked
from jfstat.candidates.tables import points_from
from jfstat.maths.ball import ball_points
from jfstat.maths.vectors import angles, tangents, unit_vector
from jfstat.signal.parameters import ORBIT_FIELDS, is_parameter, spin_names
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.signal.times import TimeLike

LOUD = 0.01
"""False-alarm probability below which a candidate is taken for a signal."""
MOST_MEMBERS = 64
"""Largest number of a cluster's members, the loudest, to which a signal is fitted, `leakage.CHUNK` at a time."""
TRIALS, RADII = 256, (1.0, 0.4)
"""Number of trial places of a signal, and the successive distances by the metric within which they lie."""
LEAST_SHOWN = 0.4
"""Smallest fraction of its rho^2 that a signal shows at the loudest template of its cluster."""
MOST_SIGNALS = 100
"""Largest number of signals fitted, so that clustering takes no longer than searching; the rest of a table stays as
is."""
SKY_CURVATURE = 4.0
"""Term added to the metric of the sky, 1/rad^2, so that trial places stay in the neighbourhood in short data."""
SHARE, SIGMAS = 0.2, 3.5
"""Smallest fraction of a candidate's rho^2 that a signal must predict, and largest excess of sqrt(2F) over the
prediction."""


def clustered(columns: Mapping[str, np.ndarray], metric: np.ndarray, radius: float) -> np.ndarray:
    """Return the leader of each candidate's cluster.

    The loudest candidate leads all candidates within the radius of it, the loudest remaining one leads all remaining
    ones within the radius of it, and so on. Distances are d^T metric d, to second order the fraction of rho^2 that a
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
        Metric in frequency, s derivatives and the equatorial unit vector to the source, from `flat_metric`: in the
        three components of the unit vector it is constant over the sky. Positions that the phase cannot tell apart,
        such as mirror images about the ecliptic in short data, are close.
    radius : float
        The largest distance from a cluster's leader, above 0.

    Returns
    -------
    (k,) int64
        Index of each candidate's leader; a leader has its own index. Among several leaders within the radius the
        loudest counts, not the closest.

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


def explained(
    columns: Mapping[str, np.ndarray],
    metric: np.ndarray,
    sampling: Sampling,
    reftime: TimeLike,
    leader: np.ndarray,
    n_twoF: float,
) -> np.ndarray:
    """Return the leaders of clusters after joining clusters that are side lobes of one signal, whatever their orbits.

    A leader that noise alone hardly reaches is taken for a signal. Its place and rho^2 are fitted to the 2F of the
    whole cluster, since a bank's loudest template may lie beside the signal, where side lobes differ. The signal's
    leader then leads every other leader that the signal's rho^2 (1 - mismatch) explains: it is at least the fraction
    `SHARE` of the other's rho^2, and the other's sqrt(2F), whose standard deviation is about 1, exceeds the expectation
    by at most `SIGMAS`. With ``log10BSGL``, a leader below 0, more likely a line, leads none above 0.

    Parameters
    ----------
    columns : mapping of str to (k,) ndarray
        Columns as for `clustered`, with ``twoF``; ``cosi`` and ``psi`` make the prediction exact.
    metric : (1 + s + 3, 1 + s + 3) ndarray
        Metric as for `clustered`.
    sampling : Sampling
    reftime : number or GPSTime
        GPS time at which the frequencies hold, s.
    leader : (k,) int64
        Leaders from `clustered`.
    n_twoF : float
        Number of values of 2F from which the candidates were chosen.

    Returns
    -------
    (k,) int64
    """
    leader, twoF = leader.copy(), np.asarray(columns["twoF"], np.float64)
    points = points_from({name: x for name, x in columns.items() if is_parameter(name)}, None)
    waiting = np.unique(leader)
    loud = false_alarm(twoF, n_twoF) < LOUD
    moves, few = _moves(columns), sampling.few
    for _ in range(MOST_SIGNALS):
        if len(waiting) < 2 or not loud[waiting[0]]:
            break
        first, waiting = waiting[0], waiting[1:]
        amplitude = _amplitude(columns, first)
        members = np.flatnonzero(leader == first)[:MOST_MEMBERS]
        signal, rho2 = _fitted(_rows(points, members), twoF[members], moves, metric, few, reftime, amplitude)
        left = rho2 * leaked(sampling, reftime, signal, _rows(points, waiting), amplitude)[0]
        side_lobe = (left >= SHARE * (twoF[waiting] - 4)) & (np.sqrt(twoF[waiting]) <= np.sqrt(4 + left) + SIGMAS)
        if "log10BSGL" in columns and columns["log10BSGL"][first] < 0:  # a line explains no signal
            side_lobe &= columns["log10BSGL"][waiting] < 0
        leader[np.isin(leader, waiting[side_lobe])] = first
        waiting = waiting[~side_lobe]
    return leader


def _fitted(
    own: Doppler,
    twoF: np.ndarray,
    moves: np.ndarray,
    metric: np.ndarray,
    few: Sampling,
    reftime: TimeLike,
    amplitude: Amplitude | None,
) -> tuple[Doppler, float]:
    """Return the signal that best explains the 2F of a cluster, a stack of one, and its rho^2.

    In clusters with too few members to locate the signal, it lies at the leader, the first member.
    """
    signal, rho2 = _rows(own, np.arange(1)), twoF[0] - 4
    if len(twoF) < np.count_nonzero(moves) + 2 or not np.any(moves):
        return signal, rho2
    for radius in RADII:
        trials = _around(signal, metric, radius, moves)
        shown = leaked(few, reftime, trials, own, amplitude)
        fitted = shown @ (twoF - 4) / np.maximum(np.sum(shown**2, axis=1), 1e-12)
        fitted = np.clip(fitted, 0.0, (np.sqrt(twoF[0]) + 2) ** 2)
        off = np.sqrt(twoF) - np.sqrt(4 + fitted[:, None] * shown)
        # the signal is not far from its loudest template, and near it if nothing distinguishes places
        misfit = np.where(shown[:, 0] >= LEAST_SHOWN, np.sum(off**2, axis=1) + (1 - shown[:, 0]), np.inf)
        best = int(np.argmin(misfit))
        if np.isfinite(misfit[best]):
            signal, rho2 = _rows(trials, np.array([best])), float(fitted[best])
    return signal, rho2


def _moves(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return which of frequency, derivatives and the two directions on the sky differ among candidates, bool."""
    spins = [np.ptp(columns[name]) > 0 for name in spin_names(tuple(columns))]
    sky = np.ptp(columns["alpha"]) > 0 or np.ptp(columns["delta"]) > 0
    return np.array([*spins, sky, sky])


def _rows(points: Doppler, rows: np.ndarray) -> Doppler:
    return jax.tree.map(lambda x: x[rows], points)


def _amplitude(columns: Mapping[str, np.ndarray], row: int) -> Amplitude | None:
    """Return inclination and polarisation of a candidate, if they were estimated."""
    if "cosi" not in columns or not np.isfinite(columns["cosi"][row]):
        return None
    return Amplitude(1.0, np.clip(columns["cosi"][row], -1, 1), columns["psi"][row], 0.0)


def _around(signal: Doppler, metric: np.ndarray, radius: float, moves: np.ndarray) -> Doppler:
    """Return trial places of a signal within a distance by the metric, in the parameters that `_moves` selects."""
    n_spins = signal.fkdot.shape[1]
    here = np.asarray(unit_vector(signal.alpha, signal.delta))[0]
    # frequency, derivatives, and a plane tangent to the sky
    basis = np.zeros((n_spins + 3, n_spins + 2))
    basis[:n_spins, :n_spins] = np.eye(n_spins)
    basis[n_spins:, n_spins:] = tangents(here).T
    basis = basis[:, moves]
    own = basis.T @ metric @ basis + SKY_CURVATURE * (basis[n_spins:].T @ basis[n_spins:])
    scale = 1 / np.sqrt(np.diagonal(own))
    square, axes = np.linalg.eigh(own * np.outer(scale, scale))
    steps = ball_points(len(own), TRIALS, radius) / np.sqrt(np.maximum(square, 1e-12)) @ axes.T * scale
    place = steps @ basis.T
    alpha, delta = angles(here + place[:, n_spins:])
    orbit, motion = jax.tree.map(lambda x: np.repeat(x, TRIALS, axis=0), (signal.orbit, signal.motion))
    points = Doppler(alpha, delta, signal.fkdot + place[:, :n_spins], None, orbit, motion=motion)
    return jax.tree.map(np.asarray, points)


def _whitened(points: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Return coordinates (k, p) in which the metric is the identity.

    No inverse is needed, so the metric may be singular: all candidates are close in directions that do not change 2F.
    """
    size = np.sqrt(np.diagonal(metric))
    scale = np.where(size > 0, size, 1.0)
    # parameters differ by many orders of magnitude: the small eigenvalues of a correlation matrix keep their digits
    square, axes = np.linalg.eigh(metric / np.outer(scale, scale))
    middle = points.mean(axis=0) if len(points) else 0.0
    return ((points - middle) * scale) @ (axes * np.sqrt(np.maximum(square, 0.0)))


def _led(points: np.ndarray, radius: float) -> np.ndarray:
    """Return the index of each point's leader, (k,) int64, with points (k, p) considered as leaders in their order."""
    from scipy.spatial import KDTree  # takes 0.2 s to import

    tree = KDTree(points)
    leader = np.full(len(points), -1, np.int64)
    for i, point in enumerate(points):
        if leader[i] < 0:
            near = np.array(tree.query_ball_point(point, radius))
            leader[near[leader[near] < 0]] = i
    return leader
