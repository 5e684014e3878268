"""Sizes in geometric steps: arrays of similar sizes are padded to the same one and use the same compiled program."""

from __future__ import annotations

STEPS = 16
"""Sizes per octave: consecutive ones differ by 1/32 to 1/16."""


def padded_size(n: int, steps: int = STEPS) -> int:
    """Smallest allowed size that is at least n: m 2^k with steps <= m < 2 steps; n itself up to 2 steps.

    With `steps`, a power of two, there are other numbers of sizes per octave; 1 gives the powers of two.
    """
    step = 1 << max(0, (max(n, 1) - 1).bit_length() - (2 * steps - 1).bit_length())
    size = -(-n // step) * step
    return max(size, 1)
