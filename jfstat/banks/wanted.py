"""What is to be covered and with which metric; templates; how many a lattice has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from jfstat.banks.spinlattice import PaddedBox
from jfstat.maths.lattices import back_substituted, covering_lattice, flipped


@dataclass(frozen=True)
class Wanted:
    """What is to be covered, apart from the sky.

    Attributes
    ----------
    factor : (1 + s + 3, 1 + s + 3) float64
        Of the phase metric, see `jfstat.metrics.phasemetric.factor`.
    low, high : (s,) float64
        Ranges of f1dot, ..., Hz/s^k.
    mismatch : float
    """

    factor: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mismatch: float

    @property
    def centre(self) -> np.ndarray:
        """Middle of the ranges, (s,)."""
        return 0.5 * (self.low + self.high)

    @property
    def sky_columns(self) -> list[int]:
        """Of `factor`."""
        s = len(self.low)
        return [s + 1, s + 2, s + 3]

    def choices(self) -> Iterator[tuple[list[int], list[int]]]:
        """Ways to divide the spin-downs that vary into those with a lattice dimension and those held; few first."""
        varying = [k for k, wide in enumerate(self.high > self.low, 1) if wide]
        for n in range(len(varying) + 1):
            for kept in combinations(varying, n):
                yield list(kept), [k for k in varying if k not in kept]

    def corners(self, held: list[int]) -> np.ndarray:
        """Corners of the box of the spin-downs held, relative to its centre: (2^n, n)."""
        half = 0.5 * (self.high - self.low)[[k - 1 for k in held]]
        return np.array(list(product(*((-x, x) for x in half)))).reshape(2 ** len(held), len(held))

    def spin_box(self, kept: list[int], factor: np.ndarray, radius: float, pad: np.ndarray) -> PaddedBox:
        """The box of the spin-downs with a dimension, highest first; factor is upper triangular in the usual order."""
        index = [k - 1 for k in kept[::-1]]
        return PaddedBox(self.low[index] - pad[::-1], self.high[index] + pad[::-1], flipped(factor), radius)

    def filled(self, points: np.ndarray, kept: list[int]) -> np.ndarray:
        """All spin-downs (n, s) from those with a dimension, (n, k), highest first."""
        spins = np.tile(self.centre, (len(points), 1))
        spins[:, [k - 1 for k in kept[::-1]]] = points
        return spins


class Templates(NamedTuple):
    """Of n templates: right ascension and declination in rad, (n,) each, and spin-downs (n, s)."""

    alpha: np.ndarray
    delta: np.ndarray
    spins: np.ndarray


def generator_of(factor: np.ndarray, lattice: np.ndarray) -> np.ndarray:
    """What takes integers to parameters whose metric is factor^T factor; lower triangular, as its arguments."""
    size = 1.0 / np.diag(factor)
    return size[:, None] * flipped(back_substituted(flipped(factor * size), flipped(lattice)))


def expected_points(box: PaddedBox, n: int, log_density: float, sky_area: float = 1.0) -> float:
    """Points of an n-dimensional lattice in a volume of the sky and a box, from the metric's root of determinant."""
    cell = n * np.log(box.radius) + np.sum(np.log(np.diag(covering_lattice(n)))) if n else 0.0
    return float(sky_area * np.exp(min(box.log_volume + log_density - cell, 700.0)))
