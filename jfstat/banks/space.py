"""The parameter space of a bank: ranges of spin-down, and the metric over spin-downs and the sky."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from jfstat.maths.boxes import MetricBox
from jfstat.maths.lattices import flipped
from jfstat.metrics.phasemetric import drift, restricted

SKY_FLOOR = 1 / 0.12
"""Constant added to the metric of the sky, in mismatches per rad^2: no template covers more than 0.35 rad, however
short the data are."""

MAX_TEMPLATES = 200_000_000
"""Largest number of templates of a bank."""


class Templates(NamedTuple):
    """Templates without frequency and orbit; templates of one sky position follow one another.

    Attributes
    ----------
    alpha, delta : (n,) float64
        Right ascension and declination, rad.
    spins : (n, s) float64
        Values of f1dot, f2dot, ..., Hz/s^k.
    """

    alpha: np.ndarray
    delta: np.ndarray
    spins: np.ndarray


@dataclass(frozen=True)
class ParameterSpace:
    """Ranges of spin-down, the phase metric over them and the sky, and the largest mismatch.

    A lattice need not extend over all spin-downs. Spin-downs that it covers are called tiled. The others are fixed at
    the middle of their ranges, which uses up a part of the mismatch.

    Attributes
    ----------
    factor : (1 + s + 3, 1 + s + 3) float64
        Factor of the metric in frequency, spin-downs and sky; see `jfstat.metrics.phasemetric.factor`.
    low, high : (s,) float64
        Ranges of f1dot, f2dot, ..., Hz/s^k.
    mismatch : float
    tiled : tuple of int
        Orders k of the tiled spin-downs, ascending.
    """

    factor: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mismatch: float
    tiled: tuple[int, ...] = ()

    def choices(self) -> Iterator[ParameterSpace]:
        """Yield this space with each choice of tiled spin-downs, fewest first."""
        varying = self._varying
        for n in range(len(varying) + 1):
            for tiled in combinations(varying, n):
                yield replace(self, tiled=tiled)

    @property
    def fixed(self) -> list[int]:
        """Orders of the spin-downs that have a range and are not tiled."""
        return [k for k in self._varying if k not in self.tiled]

    @property
    def _varying(self) -> list[int]:
        return [k for k, wide in enumerate(self.high > self.low, 1) if wide]

    @property
    def _tiled_columns(self) -> list[int]:
        """Indices of the tiled spin-downs, highest order first: the order of a lattice's coordinates."""
        return [k - 1 for k in self.tiled[::-1]]

    @cached_property
    def ordered_factor(self) -> np.ndarray:
        """Upper triangular factor of the metric in frequency, tiled spin-downs, sky and fixed spin-downs."""
        s = len(self.low)
        return restricted(self.factor, [0, *self.tiled, s + 1, s + 2, s + 3, *self.fixed])

    @property
    def seen_sky(self) -> np.ndarray:
        """Upper triangular factor, (3, 3), of the metric on the sky, maximised over frequency and tiled spin-downs."""
        k = len(self.tiled)
        return self.ordered_factor[1 + k : 4 + k, 1 + k : 4 + k]

    @cached_property
    def sky(self) -> np.ndarray:
        """Factor `seen_sky` with the constant metric `SKY_FLOOR` added in all directions."""
        floor = np.sqrt(SKY_FLOOR * self.mismatch)
        return np.linalg.qr(np.concatenate([self.seen_sky, floor * np.eye(3)]))[1]

    @property
    def least_seen_direction(self) -> np.ndarray:
        """Unit vector, (3,), of the direction in which the metric on the sky is smallest."""
        return np.linalg.svd(self.seen_sky)[2][-1]

    @cached_property
    def spins(self) -> np.ndarray:
        """Lower triangular factor, (k, k), of the metric in the tiled spin-downs at one sky position."""
        k = len(self.tiled)
        return flipped(self.ordered_factor[1 : 1 + k, 1 : 1 + k])

    @cached_property
    def drift(self) -> np.ndarray:
        """Change of the tiled spin-downs that best reproduces the phase effect of a change of position, (k, 3)."""
        k = len(self.tiled)
        return drift(self.ordered_factor, 1 + k)[:0:-1, :3]

    @property
    def centre(self) -> np.ndarray:
        """Middle of the ranges, (s,)."""
        return 0.5 * (self.low + self.high)

    @property
    def tiled_centre(self) -> np.ndarray:
        """Middle of the tiled spin-downs' ranges, (k,)."""
        return self.centre[self._tiled_columns]

    @cached_property
    def corners(self) -> np.ndarray:
        """Corners of the ranges of the fixed spin-downs, relative to their middle: (2^n, n)."""
        half = 0.5 * (self.high - self.low)[[k - 1 for k in self.fixed]]
        return np.array(list(product(*((-x, x) for x in half)))).reshape(2 ** len(half), len(half))

    def tiled_box(self, factor: np.ndarray, radius: float, padding: np.ndarray) -> MetricBox:
        """Return the ranges of the tiled spin-downs, enlarged by `padding`, (k,), on either side."""
        columns = self._tiled_columns
        return MetricBox(self.low[columns] - padding, self.high[columns] + padding, factor, radius)

    def tiled_values(self, spins: np.ndarray) -> np.ndarray:
        """Return the tiled spin-downs, (n, k), among all spin-downs, (n, s)."""
        return spins[:, self._tiled_columns]

    def with_fixed(self, points: np.ndarray) -> np.ndarray:
        """Return all spin-downs, (n, s), from the tiled ones, (n, k), with the others fixed."""
        spins = np.tile(self.centre, (len(points), 1))
        spins[:, self._tiled_columns] = points
        return spins
