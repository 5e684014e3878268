"""From a loudest value of 2F and how many were computed to the chance that noise alone gives as much."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import chdtrc

DEGREES = 4
"""Of freedom of 2F's chi-squared distribution in noise."""


def false_alarm(twoF: Any, n_twoF: Any) -> np.ndarray:
    """Chance that the loudest of independent values of 2F in Gaussian noise is at or above a value.

    p = 1 - (1 - p_1)^n with p_1 the tail of a chi-squared distribution of 4 degrees of freedom, without loss of digits
    however small p_1 and p are. Neighbouring templates of a bank are correlated, so that fewer than all are
    independent: with the number of all, p is too large, which is the safe side.

    Parameters
    ----------
    twoF : float or array_like
    n_twoF : float or array_like
        How many independent values; 0 or more. Broadcast against `twoF`, elementwise.

    Returns
    -------
    ndarray or float64
        0 to 1; NaN where an argument is NaN.

    Raises
    ------
    ValueError
        If `n_twoF` is negative.
    """
    n = np.asarray(n_twoF, np.float64)
    if np.any(n < 0):
        raise ValueError(f"n_twoF must not be negative, but {n.min()} is among it: give a number of templates.")
    # a tail of 1, at 2F = 0, has no logarithm; this is the next float64 below
    tail = np.minimum(chdtrc(DEGREES, twoF), np.nextafter(1.0, 0.0))
    return -np.expm1(n * np.log1p(-tail))
