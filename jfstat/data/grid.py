"""The regular times that the series of all detectors share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """Regular times that all detectors share: sample n is at ``start + n * dt``.

    Attributes
    ----------
    epoch : int
        GPS time from which times count, s.
    start : float
        Time of sample 0, s since `epoch`.
    dt : float
        Spacing, s.
    n : int
        Number of samples. The filters treat the series as periodic, so it must vanish at both ends.
    """

    epoch: int
    start: float
    dt: float
    n: int

    @property
    def length(self) -> float:
        """s."""
        return self.n * self.dt
