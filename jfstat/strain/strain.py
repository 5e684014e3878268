"""Strain over time: samples at a whole rate on whole GPS seconds, with gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from jfstat.geometry.detector import Detector


class Strain(Protocol):
    """Strain of one detector, as samples counted from the GPS second `origin`; some may be NaN.

    Attributes
    ----------
    site : Detector
    origin : int
        GPS time of sample 0, s.
    rate : int
        Samples per second.
    stretches : list of (int, int)
        First sample and end of each stretch without a gap, in order; samples in them that are not finite are gaps too.
    """

    @property
    def site(self) -> Detector: ...
    @property
    def origin(self) -> int: ...
    @property
    def rate(self) -> int: ...
    @property
    def stretches(self) -> list[tuple[int, int]]: ...

    def read(self, first: int, stop: int) -> np.ndarray:
        """Return samples from `first` up to `stop`, within one stretch: (stop - first,) float64."""
        ...


@dataclass(frozen=True, eq=False)
class StrainArray:
    """Strain in memory, an implementation of `Strain`; `x` holds the samples from `first` on."""

    site: Detector
    origin: int
    rate: int
    x: np.ndarray
    first: int

    @property
    def stretches(self) -> list[tuple[int, int]]:
        return [(self.first, self.first + len(self.x))]

    def read(self, first: int, stop: int) -> np.ndarray:
        return self.x[first - self.first : stop - self.first].astype(np.float64)
