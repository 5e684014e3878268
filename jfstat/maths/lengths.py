"""Whole numbers with only small prime factors, and factors and divisors of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def smooth_lengths(low: float, high: float, factors: Sequence[int] = (2, 3, 5, 7)) -> np.ndarray:
    """Return all whole numbers from `low` to `high` with no other prime factors than `factors`, ascending."""
    products = np.ones(1, np.int64)
    for factor in factors:
        powers = factor ** np.arange(int(np.log(max(high, 1)) / np.log(factor) + 1e-9) + 1, dtype=np.int64)
        products = (products[:, None] * powers).ravel()
        products = products[products <= high]
    return np.sort(products[products >= low])


def smooth_length(n: float, factors: Sequence[int] = (2, 3, 5, 7)) -> int:
    """Return the smallest whole number >= n with no other prime factors than `factors`, for which FFTs are fast."""
    return int(smooth_lengths(n, 2 * max(n, 1), factors)[0])


def smooth_part(n: int, factors: Sequence[int] = (2, 3, 5, 7)) -> int:
    """Return the largest divisor of n with no other prime factors than `factors`."""
    part = 1
    for factor in factors:
        while n % (part * factor) == 0:
            part *= factor
    return part


def largest_divisor(n: int, limit: float) -> int:
    """Return the largest divisor of n that is at most `limit`, or 1."""
    limit = int(max(1, min(n, limit)))
    return next(d for d in range(limit, 0, -1) if n % d == 0)
