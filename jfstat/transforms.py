"""Lengths of the Fourier transforms: their cost with each backend, and the choice of one that suits all backends.

Data may be prepared on one machine and searched on another, so `prepare` chooses lengths for all backends without
importing any of them. A new backend adds its costs to `PASSES`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfstat.maths.lengths import fewest_factors, largest_divisor, smooth_lengths

GRANULE = 128
"""Lengths are multiples of this number where possible, so that they can be cut into blocks and runs."""
TRITON_RADICES = (4, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 27, 30, 32, 36)
"""Radices of the `triton` backend's kernels; larger ones take minutes to compile."""
TRITON_LARGEST_LAST = 32
"""Largest radix of the last kernel, which needs the most registers."""
MOST_SECTIONS = 48
"""Largest number of sections, unless the last radix alone is larger."""


def triton_radices(n_fft: int) -> tuple[int, ...] | None:
    """Radices of the `triton` backend's transform of a length, in the order of its kernels; None if there are none.

    The first and the last kernel do more than a butterfly, so they get the smallest radices.
    """
    factors = fewest_factors(n_fft, TRITON_RADICES, TRITON_LARGEST_LAST, range(3, 7))
    if factors is None:
        return None
    *middle, second, smallest = factors
    return second, *middle, smallest


def _library_passes(n_fft: int) -> float:
    """Passes over memory of a template with XLA's transform, measured on an H200; see docs/performance.md.

    On a CPU, the FFT costs nearly the same for all smooth lengths.
    """
    return 36.0


def _triton_passes(n_fft: int) -> float:
    """The same for the `triton` backend: a template's four series are written and read once between two radices."""
    radices = triton_radices(n_fft) if n_fft % GRANULE == 0 else None
    return np.inf if radices is None else 10.0 + 4.5 * (len(radices) - 2)


PASSES = {"library": _library_passes, "triton": _triton_passes}
"""Passes over memory for a length, by backend; infinite if the backend cannot transform it."""


def transform_length(n: float) -> int:
    """The length, at least n, with the cheapest transform by any backend."""
    lengths = smooth_lengths(n, 1.5 * n + GRANULE, (2, 3, 5))
    passes = [
        (1 if length % GRANULE == 0 else 2) * min(of_backend(length) for of_backend in PASSES.values())
        for length in lengths.tolist()
    ]
    # among equal costs the first and shortest, which takes the least memory
    return int(lengths[np.argmin(lengths * np.array(passes))])


def block_length(n_fft: int, limit: float) -> int:
    """Longest block of at most `limit` samples that divides n_fft; a multiple of GRANULE where possible.

    Vectors and tiles of samples then never straddle blocks.
    """
    granule = GRANULE if n_fft % GRANULE == 0 and limit >= GRANULE else 1
    return granule * largest_divisor(n_fft // granule, limit / granule)


def section_count(n_fft: int) -> int:
    """Number of equal sections of a spectrum of n_fft entries; every backend gives the largest 2F of each.

    Searches report the maxima of sub-bands, which are made of sections. The number depends only on the length, so that
    searches with all backends give the same result. It is the number that costs the `triton` kernels nothing, if they
    can transform this length.
    """
    radices = triton_radices(n_fft)
    return largest_divisor(n_fft, MOST_SECTIONS) if radices is None else radices[-1] * sections_per_digit(radices)


def sections_per_digit(radices: Sequence[int]) -> int:
    """Sections in each stripe of the last kernel's outputs: as many as possible, often 1.

    The digit of the last radix but one gives the section of an entry within its stripe. Each section takes an even
    number of this digit's values, so that two neighbouring rows of the last kernel lie in one section.
    """
    *_, digits, radix = radices
    return max([m for m in range(1, MOST_SECTIONS // radix + 1) if digits % (2 * m) == 0], default=1)
