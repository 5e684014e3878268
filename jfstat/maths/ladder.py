"""Sizes in geometric steps: arrays of similar sizes are padded to the same one and use the same compiled program."""

from __future__ import annotations

STEPS = 16
"""Sizes per octave: consecutive ones differ by 1/32 to 1/16."""


def padded_size(n: int) -> int:
    """Smallest allowed size that is at least n: m 2^k with STEPS <= m < 2 STEPS; n itself up to 2 STEPS."""
    step = 1 << max(0, (max(n, 1) - 1).bit_length() - (2 * STEPS - 1).bit_length())
    size = -(-n // step) * step
    return max(size, 1)


def power_of_two(n: int) -> int:
    """Smallest power of two that is at least n, for steps that are few rather than short."""
    return 1 << (max(n, 1) - 1).bit_length()
