"""What an SFT data set is in memory: per detector the start times and the complex bins of one common band."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class SFTSeries:
    """The SFTs of one detector, in time order.

    Attributes
    ----------
    detector : str
        Two-character prefix, such as ``"H1"``.
    gps : (n_sfts,) int64 ndarray
        Start times, whole GPS seconds.
    gps_ns : (n_sfts,) int64 ndarray
        Nanoseconds to add to `gps`, 0 to 999999999.
    data : (n_sfts, n_bins) complex64 ndarray
        ``dt * DFT`` of the strain, in strain/Hz (LIGO-T040164).
    window : str
        ``"rectangular"``, ``"hann"``, ``"tukey:<beta>"`` or ``"unknown"``.
    """

    detector: str
    gps: np.ndarray
    gps_ns: np.ndarray
    data: np.ndarray
    window: str = "rectangular"

    def __len__(self) -> int:
        return len(self.gps)

    def since(self, epoch: int) -> np.ndarray:
        """Start times in s since a GPS second, (n_sfts,) float64: whole seconds are subtracted as integers."""
        return (self.gps - epoch) + 1e-9 * self.gps_ns


@dataclass(frozen=True, eq=False)
class SFTs:
    """Short Fourier transforms of one or more detectors over one common band.

    Attributes
    ----------
    series : tuple of SFTSeries
        One entry a detector, in the order of the detectors' names.
    tsft : float
        Length of an SFT in s.
    first_bin : int
        Index of the first bin; bin k lies at frequency ``k / tsft``.
    """

    series: tuple[SFTSeries, ...]
    tsft: float
    first_bin: int

    @property
    def detectors(self) -> tuple[str, ...]:
        return tuple(s.detector for s in self.series)

    @property
    def n_bins(self) -> int:
        return self.series[0].data.shape[1]

    @property
    def frequencies(self) -> np.ndarray:
        """Frequencies of the bins, (n_bins,) float64, Hz."""
        return (self.first_bin + np.arange(self.n_bins)) / self.tsft

    @property
    def start(self) -> int:
        """GPS second in which the earliest SFT starts."""
        return int(min(s.gps[0] for s in self.series))

    @property
    def end(self) -> float:
        """GPS time at which the latest SFT ends."""
        return float(max(s.gps[-1] + 1e-9 * s.gps_ns[-1] for s in self.series)) + self.tsft

    def __getitem__(self, detector: str) -> SFTSeries:
        for s in self.series:
            if s.detector == detector:
                return s
        raise KeyError(f"no SFTs of detector {detector!r}; there are {', '.join(self.detectors)}")

    def __iter__(self) -> Iterator[SFTSeries]:
        return iter(self.series)

    def __len__(self) -> int:
        """Number of SFTs of all detectors together."""
        return sum(len(s) for s in self.series)

    def __repr__(self) -> str:
        f = self.frequencies
        counts = ", ".join(f"{s.detector}: {len(s)}" for s in self.series)
        return f"SFTs({counts}; {self.tsft:g} s each, {f[0]:g} to {f[-1]:g} Hz, GPS {self.start} to {self.end:.0f})"
