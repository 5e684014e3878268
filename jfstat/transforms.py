"""Lengths of Fourier transforms: their cost with each engine, and the choice of lengths that suit all engines.

Data may be prepared on one machine and searched on another, so `prepare` chooses lengths for all engines without
importing any of them. A new engine adds its costs to `PASSES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from jfstat.maths.lengths import largest_divisor, smooth_lengths

GRANULE = 128
"""Divisor of transform lengths, where possible, so that they can be cut into blocks and runs."""
LEAST_GRANULE = 32
"""Divisor of the lengths of blocks that would otherwise be short: tiles then still do not straddle blocks."""
CUDA_TILE = 16
"""Number of columns that a block of the `cuda` engine's first kernel takes together; it divides their total number."""
CUDA_COLUMNS = {
    64: (8, 8),
    72: (12, 6),
    80: (20, 4),
    96: (8, 12),
    100: (10, 10),
    108: (9, 12),
    128: (16, 8),
    144: (12, 12),
    200: (20, 10),
    225: (15, 15),
    256: (16, 16),
    576: (24, 24),
}
"""Lengths of the `cuda` engine's first kernel, over columns, and their radices."""
CUDA_MIDDLE = {
    64: (8, 8),
    72: (12, 6),
    100: (10, 10),
    128: (16, 8),
    144: (12, 12),
    150: (10, 15),
    200: (20, 10),
    216: (12, 18),
    256: (16, 16),
    300: (15, 20),
}
"""Lengths of the `cuda` engine's middle kernel, for long transforms, and their radices."""
CUDA_ROWS = {
    64: (8, 8, 1),
    80: (20, 4, 1),
    128: (16, 8, 1),
    144: (12, 12, 1),
    256: (16, 16, 1),
    288: (24, 12, 1),
    400: (20, 20, 1),
    576: (24, 24, 1),
    864: (12, 12, 6),
    1024: (16, 16, 4),
    1600: (20, 20, 4),
    1728: (12, 12, 12),
    2048: (16, 16, 8),
    2304: (24, 24, 4),
    4096: (16, 16, 16),
    7680: (15, 16, 16),
    8192: (16, 16, 16),
}
"""Lengths of the `cuda` engine's last kernel, over rows, and their radices; a length is one or two times the product of
the radices."""
CUDA_LONG_ROWS = (256, 400, 576, 1024, 4096)
"""Lengths of the `cuda` engine's last kernel in transforms with a middle kernel."""
CUDA_COLUMN_PASSES = {
    64: 3.1,
    72: 3.2,
    80: 3.5,
    96: 3.4,
    100: 3.3,
    108: 3.6,
    128: 3.5,
    144: 3.3,
    200: 4.2,
    225: 3.6,
    256: 3.7,
    576: 4.9,
}
CUDA_ROW_PASSES = {
    64: 3.5,
    80: 4.8,
    128: 4.5,
    144: 3.5,
    256: 2.5,
    288: 3.8,
    400: 3.3,
    576: 3.2,
    864: 3.3,
    1024: 2.9,
    1600: 4.2,
    1728: 3.2,
    2048: 3.1,
    2304: 3.4,
    4096: 3.1,
    7680: 4.2,
    8192: 4.2,
}
CUDA_MIDDLE_PASSES = 4.5
"""Cost of the `cuda` engine's middle kernel in passes over memory; all kernels' costs were measured on an H200."""
MOST_SECTIONS = 48
"""Largest number of sections of a spectrum for lengths that the `cuda` engine cannot transform."""


@lru_cache(maxsize=4096)
def cuda_factors(n_fft: int) -> tuple[int, int, int] | None:
    """Return the lengths of a transform's kernels: columns, middle (1 without) and rows; None if it has none.

    The kernels' lengths have the product `n_fft`; the cheapest combination is returned.
    """
    found = [
        (columns, middle, rows)
        for columns in CUDA_COLUMNS
        for middle in (1, *CUDA_MIDDLE)
        for rows in (CUDA_ROWS if middle == 1 else CUDA_LONG_ROWS)
        if columns * middle * rows == n_fft and rows % CUDA_TILE == 0
    ]
    return min(found, key=_cuda_cost, default=None)


def _cuda_cost(factors: tuple[int, int, int]) -> float:
    columns, middle, rows = factors
    between = 0.0 if middle == 1 else CUDA_MIDDLE_PASSES
    return CUDA_COLUMN_PASSES[columns] + between + CUDA_ROW_PASSES[rows]


def _library_passes(n_fft: int) -> float:
    """Return the cost of a template with XLA's transform, in passes over memory, measured on an H200.

    See docs/performance.md. On a CPU, the FFT costs nearly the same for all smooth lengths.
    """
    return 36.0


def _cuda_passes(n_fft: int) -> float:
    """Return the cost of a template with the `cuda` engine's transform, in passes over memory."""
    factors = cuda_factors(n_fft) if n_fft % GRANULE == 0 else None
    return np.inf if factors is None else _cuda_cost(factors)


PASSES = {"xla": _library_passes, "cuda": _cuda_passes}
"""Functions that return the cost of a length in passes over memory, by engine; infinite if the engine cannot transform
it."""


def transform_length(n: float) -> int:
    """Return the length, at least n, with the cheapest transform by any engine."""
    lengths = smooth_lengths(n, 1.5 * n + GRANULE, (2, 3, 5))
    passes = [
        (1 if length % GRANULE == 0 else 2) * min(of_engine(length) for of_engine in PASSES.values())
        for length in lengths.tolist()
    ]
    # among equal costs the first and shortest, which takes the least memory
    return int(lengths[np.argmin(lengths * np.array(passes))])


def block_length(n_fft: int, limit: float) -> int:
    """Return the longest block of at most `limit` samples that divides n_fft; a multiple of GRANULE where possible.

    Vectors and tiles of samples then never straddle blocks. A multiple of LEAST_GRANULE is taken instead if it is much
    longer, because fewer blocks need less computation for each template.
    """
    longest = {
        granule: granule * largest_divisor(n_fft // granule, limit / granule)
        for granule in (GRANULE, LEAST_GRANULE, 1)
        if granule == 1 or (n_fft % granule == 0 and limit >= granule)
    }
    if GRANULE in longest and longest[LEAST_GRANULE] > 1.4 * longest[GRANULE]:
        return longest[LEAST_GRANULE]
    return longest[max(longest)]


def section_count(n_fft: int) -> int:
    """Return the number of equal sections of a spectrum of n_fft entries; engines give the largest 2F of each.

    Searches report the maxima of sub-bands, which are made of sections. The number depends only on the length, so that
    searches with all engines give the same result. If the `cuda` kernels can transform this length, it is the number
    that costs them no time: each value of a thread of the last kernel lies in a different section.
    """
    factors = cuda_factors(n_fft)
    return largest_divisor(n_fft, MOST_SECTIONS) if factors is None else cuda_threads(CUDA_ROWS[factors[2]])[1]


def cuda_threads(radices: Sequence[int]) -> tuple[int, int]:
    """Return the number of threads of a transform by the `cuda` kernels, and the number of results of each thread.

    Each thread takes one butterfly of the first radix, and for the other radices no more numbers than for the largest.
    """
    length, most = int(np.prod(radices)), max(radices)
    butterflies = [-(-length // (most // radix * radix)) for radix in radices[1:] if radix > 1]
    threads = max(length // radices[0], *butterflies)
    last = [radix for radix in radices if radix > 1][-1]
    return threads, last * -(-length // last // threads)
