"""Define the parameters that are fitted to candidates, and the limits of some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat.candidates.bounds import checked_bounds

if TYPE_CHECKING:
    from jfstat.validation import NumberLike


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FreeParameters:
    """The p parameters to fit, and limits of m of them, equal for all candidates.

    Attributes
    ----------
    low, high : (m,) float64
        Limits, in the units of `jfstat.signal.parameters.unit`.
    names : tuple of p str, static
    bounded : tuple of m str, static
        Names of the parameters with limits.
    """

    low: np.ndarray | jax.Array
    high: np.ndarray | jax.Array
    names: tuple[str, ...] = field(metadata=dict(static=True))
    bounded: tuple[str, ...] = field(metadata=dict(static=True))

    @classmethod
    def within(
        cls, names: tuple[str, ...], bounds: Mapping[str, tuple[NumberLike, NumberLike]] | None
    ) -> FreeParameters:
        """Return the parameters `names` with the limits that a user gave.

        Raises
        ------
        TypeError
            If `bounds` is no mapping.
        ValueError
            If `bounds` hold anything but pairs low < high of finite numbers, or name another parameter.
        """
        ranges = checked_bounds(bounds)
        for name in ranges:
            if name not in names:
                raise ValueError(f"bounds has {name!r}, which is not refined: choose from {', '.join(names)}.")
        pairs = np.array(list(ranges.values()), np.float64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1], names, tuple(ranges))

    def without(self, dropped: tuple[str, ...]) -> FreeParameters:
        """Return the parameters to fit without some of them."""
        names = tuple(name for name in self.names if name not in dropped)
        kept = np.array([name in names for name in self.bounded], bool)
        bounded = tuple(name for name in self.bounded if name in names)
        return FreeParameters(self.low[kept], self.high[kept], names, bounded)
