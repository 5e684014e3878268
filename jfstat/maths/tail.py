"""Tail probabilities of a quantity from weighted samples, with a smooth fit that reaches small probabilities."""

from __future__ import annotations

import numpy as np

MOST_PROBABLE, GRID = 0.9, 200
"""Largest tail probability that is smoothed, and the number of points at which the smooth tail is kept."""
POINTS = 60
"""Number of samples that the smooth tail is fitted to."""
BOTH_ENDS = 16
"""Four times the number of largest samples that the fit leaves out, and eight times the stride of the samples kept
below it."""


def smooth_tail(
    values: np.ndarray, probability: np.ndarray, degree: int = 3, least: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a smooth tail to samples and their probabilities, such as from importance sampling.

    A tail is kept as rates: minus the logarithm of the probability to stay below a value. Rates of independent values
    add up. The logarithm of the rate is smooth and nearly linear: a polynomial fitted to many samples, weighted by
    their errors, is more precise than any single sample.

    Parameters
    ----------
    values, probability : (n,) float64
    degree : int
        Degree of the polynomial.
    least : float
        Samples with a smaller tail probability are left out.

    Returns
    -------
    value : (S,) float64
        Values in ascending order.
    log_rate : (S,) float64
        ln(-ln(1 - p)), where p is the probability of a value at least as large.
    """
    order = np.argsort(-values, kind="stable")
    values, probability = values[order], probability[order]
    p = np.minimum(np.cumsum(probability), 1 - 1e-9)
    error = np.sqrt(np.cumsum(probability**2)) / p
    rate = np.log(-np.log1p(-p))
    first = max(BOTH_ENDS // 4, int(np.searchsorted(p, least)))
    chosen = np.linspace(first, int(np.searchsorted(p, MOST_PROBABLE)) - 1, POINTS).astype(int)
    centre, scale = np.mean(values[chosen]), np.ptp(values[chosen]) / 2
    x = (values[chosen] - centre) / scale
    # the rate's logarithm changes by error (1 - p) p/(-log(1 - p)) ...: near 1 it is steeper than the logarithm of p
    steep = p[chosen] / ((1 - p[chosen]) * -np.log1p(-p[chosen]))
    line = np.polynomial.Polynomial.fit(x, rate[chosen], degree, domain=[-1, 1], w=1 / (error[chosen] * steep + 0.01))
    grid = np.linspace(values[chosen[-1]], values[chosen[0]], GRID)
    smooth = np.minimum.accumulate(line((grid - centre) / scale))
    # below, where p is nearly 1, the samples themselves
    below = np.flatnonzero(values < grid[0])[:: -max(1, BOTH_ENDS // 8)]
    return np.concatenate([values[below], grid]), np.concatenate([np.maximum(rate[below], smooth[0]), smooth])


def tail_slope(value: np.ndarray, log_rate: np.ndarray) -> float:
    """Return the rate at which the logarithm of the exceedance rate falls at the largest values of a tail."""
    n = GRID // 3
    return float((log_rate[-n] - log_rate[-1]) / (value[-1] - value[-n]))
