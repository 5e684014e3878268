"""The phase metric in frequency, spin-downs and a three-vector for the sky position.

This is the supersky metric of Wette & Prix 2013 (Phys. Rev. D 88, 123005): if the components of the unit vector to the
source are free coordinates, the phase is linear in all coordinates, and one metric is valid on the whole sky.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from jfstat.data.observation import Observation
from jfstat.maths.lattices import back_substituted
from jfstat.metrics.segmentpower import time_over_noise
from jfstat.signal.times import GPSTime, gps_time


def flat_metric(observation: Observation, n_spins: int, reftime: GPSTime, frequency: float) -> np.ndarray:
    """Compute the metric g of the phase alone: an offset d loses the fraction d g d of rho^2, to second order.

    Parameters
    ----------
    observation : Observation
        Observation; with a leading axis of segments the weighted mean of their metrics is computed.
    n_spins : int
        Number of derivatives of the frequency, s.
    reftime : GPSTime
        GPS time in the SSB at which frequency and derivatives hold, s.
    frequency : float
        Frequency of the signal, Hz; the sky part of the metric grows with its square.

    Returns
    -------
    (1 + s + 3, 1 + s + 3) float64
        Metric in frequency, f1dot, ..., and the three free components of the equatorial unit vector n to the source,
        which have no unit; 1/Hz^2, ...
    """
    r = factor(observation, n_spins, reftime, frequency)
    return r.T @ r


def factor(observation: Observation, n_spins: int, reftime: GPSTime, frequency: float) -> np.ndarray:
    """Compute the upper triangular R with `flat_metric` = R^T R, precise for any reference time.

    See `flat_metric` for the arguments. The lower right block R_nn is the factor of the sky metric after maximising
    over frequency and derivatives.

    Notes
    -----
    The phase in cycles is f tau + f1dot tau^2/2 + ... with tau = t + n.r(t)/c - reftime, where r is the detector's
    position relative to the SSB. Its derivatives are tau^(k+1)/(k+1)!, with n.r/c neglected, and f r(t)/c. The metric
    is (2 pi)^2 times their covariance over the data.

    In each segment the mean of the derivatives over this segment is subtracted, because its initial phase is free. The
    mean of the metrics of segments (Wette 2015, Phys. Rev. D 92, 082003), weighted by their times over their noise, as
    the sum of 2F weights them, is S^T S, where S has the rows of all their factors, each times the root of the
    segment's share. The factors refer to the middle of all segments, because for a distant reference time the columns
    would be nearly collinear.
    """
    n = observation.n_segments
    if n is None:
        return _factor(observation, n_spins, reftime, frequency)
    parts = [observation.segment(i) for i in range(n)]
    middle = gps_time(round(np.mean([int(part.epoch) + float(part.middle) for part in parts])), "middle")
    powers = np.asarray(time_over_noise(observation))
    roots = np.sqrt(powers / np.sum(powers))
    rows = np.concatenate(
        [root * _factor(part, n_spins, middle, frequency) for root, part in zip(roots, parts, strict=True)]
    )
    size = np.linalg.norm(rows, axis=0)
    r = np.linalg.qr(rows / size, mode="r") * size
    later = float(middle - reftime)
    # frequency and derivatives at the middle, from those at the reference time
    shift = np.eye(n_spins + 4)
    for j in range(n_spins + 1):
        shift[j, j : n_spins + 1] = [later**k / math.factorial(k) for k in range(n_spins + 1 - j)]
    return r @ shift


def _factor(observation: Observation, n_spins: int, reftime: GPSTime, frequency: float) -> np.ndarray:
    """Compute `factor` for one segment."""
    time, weight = observation.phase_times()
    position = _positions(observation, time)
    t, w = np.asarray(time).reshape(-1), np.asarray(weight).reshape(-1)
    half = 0.5 * float(observation.tspan)
    middle = float(observation.middle)
    u = (t - middle) / half
    # powers about the data's middle are far from collinear; the constant comes first and removes the mean
    columns = [u**k for k in range(n_spins + 2)] + list(2 * np.pi * frequency * np.asarray(position).reshape(-1, 3).T)
    _, r = np.linalg.qr(np.sqrt(w / np.sum(w))[:, None] * np.stack(columns, axis=-1))
    # powers of tau = half (u + offset) in terms of powers of u, without the constant
    offset = (middle - float(reftime.since(observation.epoch))) / half
    orders = range(1, n_spins + 2)
    powers = np.array([[math.comb(k, j) * offset ** (k - j) if j <= k else 0.0 for k in orders] for j in orders])
    powers *= [2 * np.pi * half**k / math.factorial(k) for k in orders]
    shift = np.eye(n_spins + 4)
    shift[: n_spins + 1, : n_spins + 1] = powers
    return r[1:, 1:] @ shift


@jax.jit
def _positions(observation: Observation, time: jax.Array) -> jax.Array:
    """Return the positions of the detectors at times (D, n): (D, n, 3) float64, light-seconds."""
    return jax.vmap(lambda trajectory, t: trajectory(t).position)(observation.trajectory, time)


def restricted(r: np.ndarray, columns: list[int]) -> np.ndarray:
    """Return a factor of the metric of some coordinates, others fixed: upper triangular, diagonal >= 0, (p, p).

    Parameters
    ----------
    r : (m, n) float64
        Any factor of a metric, such as the result of `factor`.
    columns : list of p int
        Coordinates that remain, in the desired order; each row is maximised over the coordinates before it.
    """
    part = r[:, columns]
    size = np.linalg.norm(part, axis=0)
    size = np.where(size > 0, size, 1.0)
    upper = np.linalg.qr(part / size, mode="r")
    return np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None] * upper * size


def drift(r: np.ndarray, n_first: int) -> np.ndarray:
    """Compute the changes of the first coordinates that best mimic the phase effect of unit changes of the others.

    Parameters
    ----------
    r : (n, n) float64
        Upper triangular factor from `factor` or `restricted`.
    n_first : int
        Number of the first coordinates, 1 + s for frequency and derivatives.

    Returns
    -------
    (n_first, n - n_first) float64
    """
    scale = 1.0 / np.diag(r)[:n_first]
    return scale[:, None] * back_substituted(r[:n_first, :n_first] * scale, r[:n_first, n_first:])
