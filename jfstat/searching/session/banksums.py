"""Sum over long columns of numbers, to tell two banks of templates apart without keeping either."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from jfstat.signal.templates import Doppler

PIECES = 8
"""Number of pieces of a column whose sums are compared one by one."""
SAME = 1e-11
"""Largest difference of single values that still count as equal, in units of the column's standard deviation: a bank
computed again on another kind of processor has far smaller errors, and neighbouring templates are much further
apart."""
ROUNDINGS = 8 * float(np.finfo(np.float64).eps)
"""Largest relative difference of single values that still count as equal, for values far from zero and close together,
such as GPS times."""
AT_ONCE = 1 << 20
"""Number of values summed at a time, which limits the memory."""


def bank_sums(stack: Doppler) -> list[float]:
    """Return sums over all columns of a bank, NumPy leaves of one leading axis; its frequencies are not used."""
    n = len(stack.alpha)
    leaves = jax.tree.leaves((stack.alpha, stack.delta, stack.fkdot[:, 1:], stack.motion, stack.orbit, stack.model))
    return column_sums(column for leaf in leaves for column in np.asarray(leaf, np.float64).reshape(n, -1).T)


def column_sums(columns: Iterable[np.ndarray]) -> list[float]:
    """Return, for each piece of each column, (n,) float64, the sum with random weights and the error it may have.

    Exchanging two rows, or changing one, changes a sum by the difference times a random number. Independent errors of
    the values add up to only the root of the sum of their squares. A change of one row in 1e5 is therefore seen if it
    exceeds 1e-9 of the column's standard deviation.
    """
    numbers = []
    for column in columns:
        spread = SAME * float(np.std(column))
        for number, piece in enumerate(np.array_split(column, PIECES)):
            rng = np.random.default_rng(number)
            parts = [piece[i : i + AT_ONCE] for i in range(0, len(piece), AT_ONCE)]
            total = math.fsum(float(np.sum((2 * rng.random(len(part)) - 1) * part)) for part in parts)
            numbers += [total, spread * math.sqrt(len(piece)) + ROUNDINGS * float(np.linalg.norm(piece))]
    return numbers


def same_sums(first: Any, second: list[float]) -> bool:
    """Return whether two results of `column_sums` belong to the same columns, up to the errors that the second
    states."""
    try:
        one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    except (TypeError, ValueError, OverflowError):  # no numbers, in a file that jfstat did not write
        return False
    if one.ndim != 1 or one.shape != other.shape or len(one) % 2 or not np.isfinite([one, other]).all():
        return False
    return bool(np.all(np.abs(one - other)[::2] <= other[1::2]))
