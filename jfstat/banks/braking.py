"""Ranges of f1dot and f2dot from the age and the braking index of a source, such as a young supernova remnant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jfstat.validation import DurationLike, NumberLike, float64_of, positive_seconds, shown, signal_frequency

FINE = 20
"""Number of points on the boundary of the region per covering radius of a template."""
MOST_POINTS = 1_000_000
"""Largest number of points on each part of the boundary; with fewer than FINE per radius, more templates are kept."""


@dataclass(frozen=True)
class Braking:
    """Age and braking index of a source, from which ranges of its f1dot and f2dot follow.

    f1dot lies between -f/((n_min - 1) tau) and -f/((n_max - 1) tau), and f2dot between n_min f1dot^2/f and
    n_max f1dot^2/f, for a frequency f anywhere in the band: search wide bands in parts. As ComputeFstatistic_v2's
    gridType 9, but for any reference time and with the metric of the sky too.

    Parameters
    ----------
    age : float or Quantity
        The age tau of the source, s.
    index : (float, float) or float
        n_min and n_max, above 1: 3 for magnetic dipole radiation, 5 for the mass quadrupole, 7 for r-modes.

    Raises
    ------
    ValueError
        If one is out of range.

    Examples
    --------
    >>> jfstat.Braking(age=3e10, index=(2, 7))
    Braking(age=30000000000.0, index=(2.0, 7.0))
    """

    age: DurationLike
    index: NumberLike | Sequence[NumberLike]

    def __post_init__(self) -> None:
        try:
            indices = float64_of(self.index, "index").reshape(-1)
        except (TypeError, ValueError):
            indices = np.empty(0)
        if len(indices) not in (1, 2) or not 1 < indices[0] <= indices[-1] < np.inf:
            raise ValueError(f"index must be (low, high) with 1 < low <= high, not {shown(self.index)}.")
        object.__setattr__(self, "age", positive_seconds(self.age, "age"))
        object.__setattr__(self, "index", (float(indices[0]), float(indices[-1])))

    def limits(self, fmin: float, fmax: float) -> list[tuple[float, float]]:
        """Return the lowest and the highest f1dot and f2dot in a band, Hz/s and Hz/s^2.

        Raises
        ------
        ValueError
            If the band makes no sense, or spin-downs are infinite.
        """
        return [(float(low), float(high)) for low, high in BrakingRegion.of(self, fmin, fmax).limits]


@dataclass(frozen=True)
class BrakingRegion:
    """The values of f1dot and f2dot of sources that spin down by a power law, at any frequency of a band.

    A source of age tau whose frequency changes as f1dot = -k f^n, with a braking index n from `least` to `most`, has
    -f1dot between f/((most - 1) tau) and f/((least - 1) tau), if it was born spinning much faster; and f2dot is n
    f1dot^2 / f (Wette et al. 2008, Class. Quantum Grav. 25, 235011; LALSuite:
    XLALSetLatticeTilingF1DotAgeBrakingBound and XLALSetLatticeTilingF2DotBrakingBound). The region is the union over
    all frequencies of the band.

    Attributes
    ----------
    fmin, fmax : float
        Band, Hz.
    age : float
        Age of the source, s.
    least, most : float
        Range of the braking index, above 1.
    """

    fmin: float
    fmax: float
    age: float
    least: float
    most: float

    @classmethod
    def of(cls, braking: Braking, fmin: float, fmax: float) -> BrakingRegion:
        """Return the region of a source in a band.

        Raises
        ------
        ValueError
            If the band makes no sense, or spin-downs are infinite.
        """
        low, high = signal_frequency(fmin, "freq"), signal_frequency(fmax, "freq")
        least, most = braking.index  # type: ignore[misc]
        own = cls(low, high, float(braking.age), least, most)  # type: ignore[arg-type]
        with np.errstate(all="ignore"):
            limits = own.limits
        if not np.all(np.isfinite(limits)):
            raise ValueError(f"age={own.age:g} s and index={own.most:g} make infinite spin-downs: give an age in s.")
        return own

    @property
    def limits(self) -> np.ndarray:
        """Lowest and highest f1dot and f2dot, (2, 2), Hz/s and Hz/s^2."""
        f1dot = -self.fmax / ((self.least - 1) * self.age), -self.fmin / ((self.most - 1) * self.age)
        return np.array([f1dot, (float(self.f2dot(f1dot[1])[0]), float(self.f2dot(f1dot[0])[1]))])

    def f2dot(self, f1dot: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and highest f2dot for values of f1dot within its limits."""
        speed = np.abs(f1dot)
        lowest = np.clip(speed * ((self.least - 1) * self.age), self.fmin, self.fmax)
        highest = np.clip(speed * ((self.most - 1) * self.age), self.fmin, self.fmax)
        return self.least * speed**2 / highest, self.most * speed**2 / lowest

    def contains(self, spins: np.ndarray) -> np.ndarray:
        """Return whether f1dot and f2dot, (n, 2), lie in the region: (n,) bool."""
        (low, high), _ = self.limits
        least, most = self.f2dot(np.clip(spins[:, 0], low, high))
        slack = 1e-12 * most
        inside = (spins[:, 1] >= least - slack) & (spins[:, 1] <= most + slack)
        return inside & (spins[:, 0] >= low * (1 + 1e-12)) & (spins[:, 0] <= high * (1 - 1e-12))

    def grid(self, df1dot: float, df2dot: float) -> np.ndarray:
        """Return a rectangular grid, (n, 2), that covers the region.

        Every point of the region is within half a step of a grid point in both spin-downs.
        """
        (low, high), _ = self.limits
        rows = []
        for x in _centred(low, high, df1dot):
            # f2dot must cover all f1dot within half a step, and both its limits grow with -f1dot
            steepest, flattest = np.clip([x - 0.5 * df1dot, x + 0.5 * df1dot], low, high)
            y = _centred(float(self.f2dot(flattest)[0]), float(self.f2dot(steepest)[1]), df2dot)
            rows.append(np.stack([np.full(len(y), x), y], axis=-1))
        return np.concatenate(rows)

    def is_near(self, spins: np.ndarray, factor: np.ndarray, radius: float) -> np.ndarray:
        """Return whether f1dot and f2dot, (n, 2), lie within a radius of the region by the metric L^T L: (n,) bool.

        Some points slightly further away are included too.
        """
        from scipy.spatial import KDTree  # takes 0.2 s to import

        near = self.contains(spins)
        (low, high), _ = self.limits
        x = np.linspace(low, high, 4001)
        ends = [np.stack([np.full(2, end), self.f2dot(end)], axis=-1) for end in (low, high)]
        lines = [*(np.stack([x, y], axis=-1) for y in self.f2dot(x)), *ends]
        step, points = 0.0, []
        for line in lines:
            place = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(line @ factor.T, axis=0), axis=1)))
            n = int(min(MOST_POINTS, np.ceil(FINE * place[-1] / radius))) + 2
            where = np.linspace(0.0, place[-1], n)
            points.append(np.stack([np.interp(where, place, line[:, i]) for i in (0, 1)], axis=-1))
            step = max(step, where[1])
        others = np.flatnonzero(~near)
        distance, _ = KDTree(np.concatenate(points) @ factor.T).query(spins[others] @ factor.T)
        near[others] = distance <= radius + step
        return near


def _centred(low: float, high: float, step: float) -> np.ndarray:
    """Return the fewest values with a spacing such that none from low to high is further away than half of it."""
    n = max(1, int(np.ceil((high - low) / step * (1 - 1e-12))))
    return 0.5 * (low + high) + step * (np.arange(n) - 0.5 * (n - 1))
