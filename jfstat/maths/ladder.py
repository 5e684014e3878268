"""Array sizes in geometric steps: arrays of similar sizes are padded to one size and share a compiled program."""

from __future__ import annotations

STEPS = 16
"""Sizes per octave: consecutive sizes differ by 1/32 to 1/16."""


def padded_size(n: int, steps: int = STEPS) -> int:
    """Return the smallest allowed size that is at least n: m 2^k with steps <= m < 2 steps; n itself up to 2 steps.

    `steps`, a power of two, is the number of sizes per octave; 1 gives the powers of two.
    """
    step = 1 << max(0, (max(n, 1) - 1).bit_length() - (2 * steps - 1).bit_length())
    size = -(-n // step) * step
    return max(size, 1)


def coarse_size(n: int, least: int) -> int:
    """Return the smallest power of four that is at least n and `least`."""
    exponent = (max(n, least) - 1).bit_length()
    return 1 << (exponent + exponent % 2)
