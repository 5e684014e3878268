"""The noise floor of SFTs, and the weights of SFTs and detectors that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfstat.sfts.container import SFTSeries

MEDIAN_BINS = 101
"""Width of the running median, as in ComputeFstatistic_v2."""


def median_bias(n: int) -> float:
    """Expected median of `n` (odd) exponential variables over their mean (LALSuite: XLALRngMedBias)."""
    k = np.arange(1, n + 1)
    return float(np.sum((-1.0) ** (k + 1) / k))


def whitened_power(n: int) -> float:
    """Expected ratio, in Gaussian noise, of a bin's power to the running median of `n` (odd) bins around it.

    The median, corrected by `median_bias`, is unbiased, but the mean of its inverse exceeds 1, by 2 % for 101 bins.
    Half of that is compensated because the bin itself is part of the median. LALSuite does not correct for the rest,
    and its 2F has mean 4.04.

    By symmetry among the bins, this is the expected value of (mean of all bins)/median. Given the median m of
    exponential variables, the bins below it are exponential variables truncated at m, and those above it are m plus
    exponential variables.
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

    Within half a window of either edge the value is that of the nearest full window (LALSuite: XLALPeriodoToRngmed).

    Parameters
    ----------
    sft : (n_bins,) complex64
    tsft : float
        s.

    Returns
    -------
    (n_bins,) float64 ndarray, strain^2/Hz.
    """
    from scipy.ndimage import median_filter  # takes 0.1 s to import

    x = sft.astype(np.complex128)
    median = median_filter(x.real**2 + x.imag**2, bins)
    half = bins // 2
    median[:half] = median[half]
    median[len(median) - half :] = median[len(median) - half - 1]
    return median * (2.0 / (tsft * median_bias(bins)))


@dataclass(frozen=True, eq=False)
class NoiseFloor:
    """Noise floor of one detector's SFTs around the searched band, one SFT at a time.

    Attributes
    ----------
    series : SFTSeries
    tsft : float
    sqrt_sx : float or None
        A given noise floor in 1/sqrt(Hz), or None for the running median.
    bins : slice
        Columns of the SFTs to whiten.
    band : slice
        Columns of the searched band, within `bins`: the noise there sets the SFTs' weights.
    """

    series: SFTSeries
    tsft: float
    sqrt_sx: float | None
    bins: slice
    band: slice

    @cached_property
    def whitened_power(self) -> float:
        """Mean ratio of a bin's power to its estimated noise floor; 1 for a given floor."""
        return 1.0 if self.sqrt_sx is not None else whitened_power(MEDIAN_BINS)

    def psd(self, row: int) -> np.ndarray:
        """Single-sided PSD of one SFT over `bins`, strain^2/Hz: (n_bins,) float64.

        Raises
        ------
        ValueError
            If a bin is not finite or the running median vanishes somewhere.
        """
        half, row_data = MEDIAN_BINS // 2, self.series.data[row]
        # a whole window also at the edges of the SFT
        low = max(0, min(self.bins.start - half, len(row_data) - MEDIAN_BINS))
        high = min(len(row_data), max(self.bins.stop + half, MEDIAN_BINS))
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
        """Mean over the searched band of a result of `psd`.

        LALSuite's XLALComputeMultiNoiseWeights takes the mean over all loaded bins that have a full window.
        """
        return float(np.mean(psd[self.band.start - self.bins.start : self.band.stop - self.bins.start]))


def noise_weights(mean_psd: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """Weights of the SFTs from their band-mean PSDs (LALSuite: XLALComputeMultiNoiseWeights).

    Parameters
    ----------
    mean_psd : sequence of (n_sfts,) float64 ndarrays
        One for each detector, single-sided, strain^2/Hz.

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
