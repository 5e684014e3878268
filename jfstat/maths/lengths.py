"""Lengths of Fourier transforms: numbers of small prime factors, chosen by the cost of their transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

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
    lengths = smooth_lengths(n, 1.5 * n + GRANULE, (2, 3, 5))
    # of equal costs the shortest, which takes the least memory
    return int(lengths[np.argmin(cost(lengths))])


RADICES = (4, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 27, 30, 32, 36)
"""Lengths of the butterflies that one pass of the fused GPU transform does; longer ones take minutes to compile."""
LARGEST_LAST = 32
"""Largest of the last pass, which needs the most registers."""
GRANULE = 128
"""Lengths are multiples of it where they can be, so that they can be cut into blocks and runs."""
LIBRARY_PASSES = 36.0
"""Passes over memory of the whole path with the library's transform, measured on an H200; see docs/performance.md."""


def block_length(n_fft: int, limit: float) -> int:
    """Longest block of at most `limit` samples that tiles n_fft; whole granules, if there are any.

    Vectors and tiles of samples then never straddle blocks.
    """
    granule = GRANULE if n_fft % GRANULE == 0 and limit >= GRANULE else 1
    return granule * largest_divisor(n_fft // granule, limit / granule)


@lru_cache(maxsize=4096)
def radices_for(n_fft: int) -> tuple[int, ...] | None:
    """Radices whose product is n_fft, as few and then as small as possible; None if there are none.

    The first and the last, whose kernels do more than a butterfly, are the smallest.
    """

    def factorisations(n: int, count: int, largest: int) -> list[tuple[int, ...]]:
        if count == 1:
            return [(n,)] if n in RADICES and n <= largest else []
        return [
            (r, *rest) for r in RADICES if r <= largest and n % r == 0 for rest in factorisations(n // r, count - 1, r)
        ]

    for count in range(3, 7):
        if n_fft > RADICES[-1] ** count:
            continue
        found = [f for f in factorisations(n_fft, count, RADICES[-1]) if f[-1] <= LARGEST_LAST]
        if found:
            *middle, second, smallest = min(found, key=lambda f: (sum(f), f))
            return second, *middle, smallest
    return None


def transform_cost(lengths: np.ndarray) -> np.ndarray:
    """Relative cost of a template for transforms of these lengths: length times passes over memory on a GPU.

    The kernels of `statistic.backends.triton` write and read a template's four series once between two radices; a CPU's
    FFT costs nearly the same for all smooth lengths.
    """
    passes = []
    for n in lengths.tolist():
        radices = radices_for(n) if n % GRANULE == 0 else None
        cost = LIBRARY_PASSES if radices is None else 10.0 + 4.5 * (len(radices) - 2)
        passes.append(cost if n % GRANULE == 0 else 2 * cost)
    return lengths * np.array(passes)
