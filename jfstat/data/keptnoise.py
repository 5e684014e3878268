"""Keep the noise floors of SFTs that are prepared several times, so that each is estimated once."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from jfstat.data.noise import TOGETHER, Noise
from jfstat.sfts.container import SFTs, SFTSeries

MOST_BYTES = 1 << 31
"""Largest size of SFTs whose noise floors are kept: these take as much memory as the bins that were prepared."""
COLUMNS = 64
"""Number of neighbouring columns whose floors are estimated together."""


class Floors:
    """Noise floors of one detector's SFTs, estimated for all of them where they are first asked for.

    Parameters
    ----------
    noise : Noise
        How they are estimated.
    series : SFTSeries
    tsft : float
        Length of the SFTs, s.
    """

    def __init__(self, noise: Noise, series: SFTSeries, tsft: float):
        self._noise, self._series, self._tsft = noise, series, tsft
        self._times = _nanoseconds(series)
        self._psds = np.empty(series.data.shape)  # takes memory where it is written only
        self._known = np.zeros((len(series), -(-series.data.shape[1] // COLUMNS)), bool)
        self._asked = np.zeros(self._known.shape[1], bool)
        self._lock = Lock()

    def of(self, series: SFTSeries, bins: slice) -> np.ndarray:
        """Return the PSDs of some of the SFTs at some columns; see `Noise.psds`."""
        times = _nanoseconds(series)
        first = int(np.searchsorted(self._times, times[0]))
        rows = slice(first, first + len(series))
        if not np.array_equal(self._times[rows], times):
            return self._noise.psds(series, bins, self._tsft)
        groups = slice(bins.start // COLUMNS, -(-bins.stop // COLUMNS))
        with self._lock:  # the median filter runs in one thread at a time anyway
            missing = np.flatnonzero(~self._asked[groups]) + groups.start
            if len(missing):
                self._estimate(slice(int(missing[0]), int(missing[-1]) + 1))
        if np.all(self._known[rows, groups]):
            return self._psds[rows, bins]
        return self._noise.psds(series, bins, self._tsft)

    def _estimate(self, groups: slice) -> None:
        """Estimate the floors of all SFTs whose bins in some groups of columns, and about them, are finite."""
        n_bins = self._series.data.shape[1]
        bins = slice(groups.start * COLUMNS, min(groups.stop * COLUMNS, n_bins))
        used = self._noise.around(bins, n_bins)
        together = max(1, TOGETHER // (used.stop - used.start))
        for start in range(0, len(self._series), together):
            rows = slice(start, start + together)
            some = self._series[rows]
            if np.all(np.isfinite(some.data[:, used])):
                self._psds[rows, bins] = self._noise.psds(some, bins, self._tsft)
                self._known[rows, groups] = True
        self._asked[groups] = True


@dataclass(frozen=True, eq=False)
class KeptNoise(Noise):
    """How the noise floors of some SFTs are estimated, and the floors that have been.

    Parameters
    ----------
    kept : dict of Floors
        By detector.
    """

    kept: dict[str, Floors] = field(default_factory=dict)

    @classmethod
    def of_sfts(cls, noise: Noise, sfts: SFTs) -> Noise:
        """Return a noise that keeps the floors of SFTs and of any parts of them; large ones' are not kept."""
        if noise.sqrt_sx is not None or sfts.nbytes > MOST_BYTES:
            return noise
        kept = {series.detector: Floors(noise, series, sfts.tsft) for series in sfts}
        return cls(noise.sqrt_sx, noise.median_bins, noise.off_source, kept)

    def psds(self, series: SFTSeries, bins: slice, tsft: float) -> np.ndarray:
        return self.kept[series.detector].of(series, bins)


def _nanoseconds(series: SFTSeries) -> np.ndarray:
    """Return the starts of SFTs, GPS ns, (n_sfts,) int64; a detector has one SFT at a time."""
    return series.gps.astype(np.int64) * 10**9 + series.gps_ns
