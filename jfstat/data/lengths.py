"""Lengths of Fourier transforms: numbers of small prime factors, chosen by the cost of their transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def smooth_lengths(low: float, high: float, factors: Sequence[int] = (2, 3, 5, 7)) -> np.ndarray:
    """All whole numbers from `low` to `high` with no prime factor other than those given, rising."""
    products = np.ones(1, np.int64)
    for factor in factors:
        powers = factor ** np.arange(int(np.log(max(high, 1)) / np.log(factor) + 1e-9) + 1, dtype=np.int64)
        products = (products[:, None] * powers).ravel()
        products = products[products <= high]
    return np.sort(products[products >= low])


def smooth_length(n: float, factors: Sequence[int] = (2, 3, 5, 7)) -> int:
    """Smallest whole number >= n with no prime factor other than those given: FFTs of such lengths are fast."""
    return int(smooth_lengths(n, 2 * max(n, 1), factors)[0])


def largest_divisor(n: int, limit: float) -> int:
    """Largest divisor of n that is at most `limit`; 1 at least."""
    limit = int(max(1, min(n, limit)))
    return next(d for d in range(limit, 0, -1) if n % d == 0)


def transform_length(n: float, cost: Callable[[np.ndarray], np.ndarray]) -> int:
    """The length from n on whose transform costs least.

    Parameters
    ----------
    n : float
        Least length.
    cost : callable
        From lengths, rising, to the costs of their transforms, any unit.
    """
    lengths = smooth_lengths(n, 2 * n)
    # of equal costs the shortest, which takes the least memory
    return int(lengths[np.argmin(cost(lengths))])


GRANULE = 64
"""Lengths are multiples of it where they can be, so that they can be cut into blocks and runs."""


def transform_cost(lengths: np.ndarray) -> np.ndarray:
    """Relative cost of complex64 transforms of these lengths; provisional."""
    odd = lengths.copy()
    while (odd % 2 == 0).any():
        odd = np.where(odd % 2 == 0, odd // 2, odd)
    passes = np.where(np.isin(odd, [1, 3, 9, 27, 81]), 4.0, 5.2)
    return lengths * np.where(lengths % GRANULE == 0, passes, 2 * passes)
