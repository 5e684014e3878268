"""From SFTs to their noise floor, and from that to the weights of SFTs and detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import median_filter

from jfstat.sfts.container import SFTSeries

MEDIAN_BINS = 101
"""Width of the running median, as in ComputeFstatistic_v2."""


def median_bias(n: int) -> float:
    """Median over mean of the median of `n` (odd) exponential variables (LALSuite: XLALRngMedBias)."""
    k = np.arange(1, n + 1)
    return float(np.sum((-1.0) ** (k + 1) / k))


def whitened_power(n: int) -> float:
    """Mean of a bin's power over its running median of `n` (odd) bins, the bin among them, in Gaussian noise.

    The median is right in the mean, but what is divided by it is not: the mean of 1/median exceeds 1, for 101 bins by
    2 %, half of which the bin's own part in its median takes back. LALSuite leaves this in, and its 2F has mean 4.04.
    By symmetry among the bins the mean wanted is that of (mean of all bins)/median. Given the median m of exponential
    variables, the bins below it are exponential ones cut at m, those above are m plus exponential ones.
    """
    half = n // 2
    m = np.linspace(1e-3, 3.0, 30001)
    log_density = half * np.log1p(-np.exp(-m)) - (half + 1) * m
    density = np.exp(log_density - log_density.max())
    below = 1 - m / np.expm1(m)
    mean = (half * below + m + half * (m + 1)) / n
    return float(median_bias(n) * np.sum(density * mean / m) / np.sum(density))


def running_median_psd(sft: np.ndarray, tsft: float, bins: int = MEDIAN_BINS) -> np.ndarray:
    """Single-sided noise PSD of one SFT from the running median of its periodogram.

    Values within half a window of either edge copy the nearest full window's (LALSuite: XLALPeriodoToRngmed).

    Parameters
    ----------
    sft : (n_bins,) complex64
    tsft : float
        s.

    Returns
    -------
    (n_bins,) float64 ndarray, strain^2/Hz.
    """
    x = sft.astype(np.complex128)
    median = median_filter(x.real**2 + x.imag**2, bins)
    half = bins // 2
    median[:half] = median[half]
    median[len(median) - half :] = median[len(median) - half - 1]
    return median * (2.0 / (tsft * median_bias(bins)))


@dataclass(frozen=True, eq=False)
class NoiseFloor:
    """Noise floor of one detector's SFTs around the searched band, a row at a time.

    Attributes
    ----------
    series : SFTSeries
    tsft : float
    sqrt_sx : float or None
        A given noise floor in 1/sqrt(Hz), or None for the running median.
    bins : slice
        Columns of the SFTs to whiten.
    band : slice
        Columns of the searched band, within `bins`: the SFTs' weights follow their noise there.
    """

    series: SFTSeries
    tsft: float
    sqrt_sx: float | None
    bins: slice
    band: slice

    @cached_property
    def whitened_power(self) -> float:
        """Mean power of a bin that is divided by its estimated noise floor; 1 for a given floor."""
        return 1.0 if self.sqrt_sx is not None else whitened_power(MEDIAN_BINS)

    def psd(self, row: int) -> np.ndarray:
        """Single-sided PSD of one SFT over `bins`, strain^2/Hz: (n_bins,) float64.

        Raises
        ------
        ValueError
            If a bin is not finite or the running median vanishes somewhere.
        """
        half, row_data = MEDIAN_BINS // 2, self.series.data[row]
        low, high = max(0, self.bins.start - half), min(len(row_data), self.bins.stop + half)
        if not np.isfinite(row_data[low:high]).all():
            raise ValueError(
                f"the SFT of {self.series.detector} at GPS {self.series.gps[row]} has bins that are not finite: leave "
                "it out."
            )
        if self.sqrt_sx is not None:
            return np.full(self.bins.stop - self.bins.start, self.sqrt_sx**2)
        psd = running_median_psd(row_data[low:high], self.tsft)[self.bins.start - low : self.bins.stop - low]
        if not psd.min() > 0:
            raise ValueError(
                f"the SFT of {self.series.detector} at GPS {self.series.gps[row]} has all-zero bins and so no noise "
                "floor: leave it out, or give sqrt_sx."
            )
        return psd

    def band_mean(self, psd: np.ndarray) -> float:
        """Mean over the searched band of what `psd` gave.

        LALSuite's XLALComputeMultiNoiseWeights takes the mean over all bins that it loaded and a full window reaches.
        """
        return float(np.mean(psd[self.band.start - self.bins.start : self.band.stop - self.bins.start]))


def noise_weights(mean_psd: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """Weights of the SFTs from their band-mean PSDs (LALSuite: XLALComputeMultiNoiseWeights).

    Parameters
    ----------
    mean_psd : sequence of (n_sfts,) float64 ndarrays
        One a detector, single-sided, strain^2/Hz.

    Returns
    -------
    weights : list of (n_sfts,) float64 ndarrays
        Proportional to 1/S; their mean over all SFTs of all detectors is 1.
    mean_inverse : float
        Mean of 1/S over all SFTs, Hz/strain^2; times Tsft it is LALSuite's ``Sinv_Tsft``.
    """
    inverse = [1.0 / s for s in mean_psd]
    mean_inverse = float(np.mean(np.concatenate(inverse)))
    return [x / mean_inverse for x in inverse], mean_inverse
