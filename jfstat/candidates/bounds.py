"""Check the ranges of parameters that a search is meant to cover, and find candidates outside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jfstat.signal.parameters import is_parameter, unit
from jfstat.validation import in_unit, require_known

if TYPE_CHECKING:
    from jfstat.validation import NumberLike

SLACK, ROUNDING = 1e-9, 1e-14
"""Tolerances by which the ends of a range are widened for rounding, relative to its width and to its values."""


def checked_bounds(bounds: Mapping[str, tuple[NumberLike, NumberLike]] | None) -> dict[str, tuple[float, float]]:
    """Return ranges (low, high) of parameters as floats, in the units of `jfstat.signal.parameters.unit`.

    Raises
    ------
    TypeError
        If `bounds` is no mapping.
    ValueError
        If a name is no parameter, or a range is not (low, high) with finite low < high.
    """
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        raise TypeError(f"bounds must be a mapping from parameters to (low, high), not {type(bounds).__name__}.")
    ranges = {}
    for name, pair in bounds.items():
        if not is_parameter(name):
            raise ValueError(f"bounds has {name!r}, which is no parameter: they are freq, f1dot, alpha, ...")
        if isinstance(pair, str) or not np.iterable(pair) or len(pair) != 2:
            raise ValueError(f"bounds of {name} must be (low, high), not {pair!r}.")
        require_known(pair, f"bounds of {name}")
        low, high = (float(in_unit(x, f"bounds of {name}", unit(name))) for x in pair)
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"bounds of {name} must be finite and low < high, not {low} and {high}: fix it instead.")
        ranges[name] = low, high
    return ranges


def outside(columns: Mapping[str, np.ndarray], bounds: Mapping[str, tuple[float, float]]) -> np.ndarray:
    """Return whether any parameter of each candidate lies outside its range, (k,) bool.

    Right ascensions are compared up to multiples of 2 pi.
    """
    beyond = np.zeros(len(columns["freq"]), bool)
    for name, (low, high) in bounds.items():
        if name in columns:
            x = np.asarray(columns[name])
            if name == "alpha":
                x = low + np.mod(x - low + SLACK, 2 * np.pi) - SLACK
            slack = SLACK * (high - low) + ROUNDING * max(abs(low), abs(high))
            beyond |= (x < low - slack) | (x > high + slack)
    return beyond
