"""From the times of the data to the metric of the phase in frequency, spin-downs and a free three-vector on the sky.

The supersky metric of Wette & Prix 2013 (Phys. Rev. D 88, 123005): with the unit vector to the source as three free
coordinates the phase is linear in all of them, so that one metric holds on the whole sky.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.maths.lattices import back_substituted
from jfstat.metrics.quadrature import quadrature


def flat_metric(data: FstatData, n_spins: int, reftime: int, frequency: float) -> np.ndarray:
    """The metric g of the phase alone: an offset d loses d g d of rho^2, to second order.

    Parameters
    ----------
    data : FstatData
    n_spins : int
        Number of derivatives of the frequency, s.
    reftime : int
        GPS time in the SSB at which frequency and derivatives hold, s.
    frequency : float
        Of the signal, Hz: what the sky costs grows with its square.

    Returns
    -------
    (1 + s + 3, 1 + s + 3) float64
        In frequency, f1dot, ..., and the equatorial unit vector n to the source, whose three components are free;
        1/Hz^2, ... and for n without unit.
    """
    r = factor(data, n_spins, reftime, frequency)
    return r.T @ r


def factor(data: FstatData, n_spins: int, reftime: int, frequency: float) -> np.ndarray:
    """The upper triangular R with `flat_metric` = R^T R, whose elements keep their digits however far the reference.

    Arguments as `flat_metric`. The lower right block R_nn is the factor of what is left for the sky once frequency and
    derivatives are maximised over.

    Notes
    -----
    The phase in cycles is f tau + f1dot tau^2/2 + ... with tau = t + n.r(t)/c - reftime, r being the detector's place
    in the solar system: its slopes are tau^(k+1)/(k+1)!, where n.r/c is left out, and f r(t)/c. The metric is their
    covariance over the data, times (2 pi)^2.
    """
    time, weight = quadrature(data, 1)
    position = jax.vmap(lambda trajectory, t: trajectory(t).position)(data.trajectory, time)
    t, w = np.asarray(time).reshape(-1), np.asarray(weight).reshape(-1)
    half = 0.5 * data.tspan
    middle = float(data.band.middle)
    u = (t - middle) / half
    # powers about the data's middle are far from collinear; the constant comes first and takes the mean off
    columns = [u**k for k in range(n_spins + 2)] + list(2 * np.pi * frequency * np.asarray(position).reshape(-1, 3).T)
    _, r = np.linalg.qr(np.sqrt(w / np.sum(w))[:, None] * np.stack(columns, axis=-1))
    # of the powers of tau = half (u + offset) in those of u, without the constant
    offset = (middle - (reftime - data.epoch)) / half
    orders = range(1, n_spins + 2)
    powers = np.array([[math.comb(k, j) * offset ** (k - j) if j <= k else 0.0 for k in orders] for j in orders])
    powers *= [2 * np.pi * half**k / math.factorial(k) for k in orders]
    shift = np.eye(n_spins + 4)
    shift[: n_spins + 1, : n_spins + 1] = powers
    return r[1:, 1:] @ shift


def restricted(r: np.ndarray, columns: list[int]) -> np.ndarray:
    """Factor of the metric with some coordinates only, the others held: upper triangular, diagonal >= 0, (p, p).

    Parameters
    ----------
    r : (m, n) float64
        Any factor of a metric, as `factor` gives it.
    columns : list of p int
        The coordinates that remain, in the order wanted: each row has those before it maximised over.
    """
    part = r[:, columns]
    size = np.linalg.norm(part, axis=0)
    size = np.where(size > 0, size, 1.0)
    upper = np.linalg.qr(part / size, mode="r")
    return np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None] * upper * size


def drift(r: np.ndarray, n_first: int) -> np.ndarray:
    """How the first coordinates would have to change to do to the phase what one unit of the others does, at best.

    Parameters
    ----------
    r : (n, n) float64
        Upper triangular, from `factor` or `restricted`.
    n_first : int
        Number of the first coordinates, 1 + s for frequency and derivatives.

    Returns
    -------
    (n_first, n - n_first) float64
    """
    scale = 1.0 / np.diag(r)[:n_first]
    return scale[:, None] * back_substituted(r[:n_first, :n_first] * scale, r[:n_first, n_first:])
