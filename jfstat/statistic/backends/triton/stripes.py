"""From the radices of a transform to the stripes of entries that its last radix gives, and the parts of these."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 48
"""Parts of the whole spectrum, at most, unless the last radix alone gives more."""


def parts_of_stripe(radices: Sequence[int]) -> int:
    """Parts into which the digit of the last radix but one cuts each stripe: as many as possible, often 1.

    Each takes an even number of the digit's values, so that two neighbouring rows of `passes.last` lie in one part.
    """
    *_, digits, radix = radices
    return max([m for m in range(1, MOST // radix + 1) if digits % (2 * m) == 0], default=1)


def rows_together(radices: Sequence[int]) -> int:
    """Consecutive rows of `passes.last` that lie in one part, a power of two; any number do if stripes are not cut."""
    parts = parts_of_stripe(radices)
    if parts == 1:
        return 1 << 30
    rows = radices[-2] // parts
    return rows & -rows
