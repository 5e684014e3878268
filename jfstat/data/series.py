"""Make one continuous, heterodyned time series from the SFTs of a detector."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from jfstat.data.bandseries import Grid
from jfstat.data.noise import NoiseFloor

BATCH = 256
"""Number of SFTs transformed at once."""
DELAYS = 8
"""Number of delays of SFTs relative to the grid whose phase factors are kept at a time."""


def heterodyned_series(
    noise: NoiseFloor, first_bin: int, centre: int, grid: Grid
) -> tuple[np.ndarray, np.ndarray, list[slice]]:
    """Place the whitened SFTs on a regular grid, with zeros in gaps and one continuous heterodyne phase.

    The trigonometric sum over the bins of an SFT is evaluated at the grid's times within its span, so that SFTs may
    start at any time. Whitening divides by sqrt(Tsft S / 2), the standard deviation of the bins, so that noise has unit
    power whether S is given or estimated.

    Parameters
    ----------
    noise : NoiseFloor
        With the detector's SFTs and the columns to use.
    first_bin : int
        Bin of the SFTs' first column: its frequency is ``first_bin / tsft``.
    centre : int
        The column that becomes zero frequency.
    grid : Grid
        Its `dt` must be ``tsft / n`` with integer n, at least the number of bins used.

    Returns
    -------
    series : (grid.n,) complex64 ndarray
        Heterodyned at the column `centre`: the phase removed is 0 at the grid's epoch.
    mean_psd : (n_sfts,) float64 ndarray
        Band-mean noise floor of each SFT, strain^2/Hz.
    places : list of slices
        Samples of each SFT in the series.
    """
    sfts, tsft, bins = noise.series, noise.tsft, noise.bins
    n_samples = round(tsft / grid.dt)
    since_start = sfts.since(grid.epoch) - grid.start
    first_sample = np.ceil(since_start / grid.dt - 1e-6).astype(int)
    # from the SFT's start to its first sample; in whole ns, so that SFTs at regular times have the same
    late = np.round(first_sample * grid.dt - since_start, 9)
    # the bin times whole seconds is exact in float64, so whole turns are removed exactly
    cycles = np.fmod(np.float64(first_bin + centre) * (sfts.gps - grid.epoch), tsft) / tsft
    cycles = cycles + (first_bin + centre) / tsft * 1e-9 * sfts.gps_ns

    variance = 0.5 * tsft * noise.whitened_power
    series = np.zeros(grid.n, np.complex64)
    mean_psd = np.empty(len(sfts))
    offsets = np.arange(bins.start, bins.stop) - centre
    turns = lru_cache(DELAYS)(lambda delay: np.exp(2j * np.pi * (offsets * (delay / tsft))))
    whole_turns = np.exp(-2j * np.pi * cycles)
    for low in range(0, len(sfts), BATCH):
        rows = range(low, min(low + BATCH, len(sfts)))
        spectrum = np.zeros((len(rows), n_samples), np.complex128)
        for i, (row, psd) in enumerate(zip(rows, noise.psds(rows), strict=True)):
            mean_psd[row] = noise.band_mean(psd)
            whitened = sfts.data[row, bins] * turns(late[row]) * (whole_turns[row] / np.sqrt(variance * psd))
            spectrum[i, offsets] = whitened  # negative offsets index from the end, which is FFT order
        samples = np.fft.ifft(spectrum, axis=1) * (n_samples / tsft)
        for i, row in enumerate(rows):
            series[first_sample[row] : first_sample[row] + n_samples] = samples[i]
    return series, mean_psd, [slice(f, f + n_samples) for f in first_sample]
