"""Make one continuous, heterodyned time series from the SFTs of a detector."""

from __future__ import annotations

import numpy as np

from jfstat.data.bandseries import Grid
from jfstat.data.noise import NoiseFloor


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
    whole_turns = np.exp(-2j * np.pi * cycles)
    # arrays of many SFTs, since segments are prepared in threads, which Python runs one at a time
    for rows, psds in noise.psds():
        mean_psd[rows] = noise.band_means(psds)
        delays, delay_of = np.unique(late[rows], return_inverse=True)
        turns = np.exp(2j * np.pi * (offsets * (delays[:, None] / tsft)))
        whitened = sfts.data[rows, bins] * (turns if len(delays) == 1 else turns[delay_of])
        whitened *= whole_turns[rows, None] / np.sqrt(variance * psds)
        spectra = np.zeros((len(whitened), n_samples), np.complex128)
        spectra[:, offsets] = whitened  # negative offsets index from the end, which is FFT order
        samples = np.fft.ifft(spectra, axis=1) * (n_samples / tsft)
        for first, of_sft in zip(first_sample[rows], samples, strict=True):
            series[first : first + n_samples] = of_sft
    return series, mean_psd, [slice(f, f + n_samples) for f in first_sample]
