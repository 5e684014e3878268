"""Compute the false-alarm probability of the loudest of many values of 2F."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def false_alarm(twoF: ArrayLike, n_twoF: ArrayLike, n_segments: int = 1) -> np.ndarray:
    """Return the probability that the loudest of n independent values of 2F in Gaussian noise reaches a given value.

    The probability is p = 1 - (1 - p_1)^n, where p_1 is the upper tail of a chi-squared distribution with 4 degrees of
    freedom. No digits are lost, however small p_1 and p are. Neighbouring templates of a bank are correlated, so fewer
    values are independent than are computed. If n is the number computed, p is therefore an upper bound.

    Parameters
    ----------
    twoF : float or array_like
        The loudest value.
    n_twoF : float or array_like
        Number of independent values, 0 or more; broadcast against `twoF`.
    n_segments : int
        Number of segments over which the values are means of 2F: their sum has 4 degrees of freedom per segment.

    Returns
    -------
    ndarray or float64
        Probability, 0 to 1; NaN where an argument is NaN.

    Raises
    ------
    ValueError
        If `n_twoF` is negative.
    """
    n = np.asarray(n_twoF, np.float64)
    if np.any(n < 0):
        raise ValueError(f"n_twoF must not be negative, but one value is {n.min()}: give numbers of templates.")
    # at 2F = 0 the tail is 1 and log(1 - tail) infinite: take the next smaller float64
    # the tail of 2 m degrees of freedom at x is Q(m, x/2); for 4, which need no SciPy, (1 + x/2) exp(-x/2)
    half = 0.5 * n_segments * np.asarray(twoF, np.float64)
    if n_segments == 1:
        half = np.clip(half, 0.0, 1000.0)  # beyond, the tail is 0 in float64
        tail = (1 + half) * np.exp(-half)
    else:
        from scipy.special import gammaincc

        tail = gammaincc(2 * n_segments, np.maximum(half, 0.0))
    return in_trials(tail, n)


def in_trials(p: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Return the probability that any of n independent trials succeeds, given the probability p of each: 1 - (1-p)^n.

    No digits are lost, however small p is.
    """
    return -np.expm1(n * np.log1p(-np.minimum(p, np.nextafter(1.0, 0.0))))
