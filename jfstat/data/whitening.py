"""Divide bins of SFTs by their noise floor, and estimate the floor at a signal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jfstat.data.noise import MEDIAN_BINS, Noise, median_bias, of_both_sides, side_bins, whitened_power
from jfstat.maths.products import product


@dataclass(frozen=True, eq=False)
class OffSource:
    """Noise floor of some SFTs of a detector from off-source bins, see `noise.off_source_psd`.

    Attributes
    ----------
    power : (n, n_bins) float32 ndarray
        Squares of the bins over some unit, finite.
    first_bin : int
        Bin of the first column.
    left_out : int
        Number of bins on each side that are left out.
    side : int
        Number of bins on each side that are taken, odd.
    scale : float
        S in strain^2/Hz over the mean of `power`.
    """

    power: np.ndarray
    first_bin: int
    left_out: int
    side: int
    scale: float

    def at(self, bins: np.ndarray) -> np.ndarray:
        """Return S at bins that all SFTs share, (m,), or at bins of each, (n, m): (n, m) float64, strain^2/Hz.

        S is the harmonic mean of the medians on both sides, or the median of one side where the other does not fit.
        """
        side, n_bins = self.side, self.power.shape[1]
        column = bins - self.first_bin
        low, high = column - self.left_out - side, column + self.left_out + 1
        medians = [_medians(self.power, start, side) for start in np.clip([low, high], 0, n_bins - side)]
        return of_both_sides(medians, (low >= 0, high + side <= n_bins)) * (self.scale / median_bias(side))


@dataclass(frozen=True, eq=False)
class Whitened:
    """Whitened bins of some SFTs of a detector, and their noise floor.

    Attributes
    ----------
    real, imag : (n, n_bins) float32 ndarrays
        Bins divided by sqrt(S Tsft/2), S being the noise floor: in noise their power is 1.
    inverse : (n, n_windows) float64 ndarray
        1/sqrt(S), S in strain^2/Hz, at the centres of windows of about `MEDIAN_BINS` bins.
    first_bin : int
        Bin of the first column.
    width : int
        Bins of a window; 0 if the floor was given.
    at : (m,) int ndarray
        Bins of `estimates`, ascending.
    estimates : (n, m) float64 ndarray
        S at the bins `at` by the running median or from off-source bins, as `prepare` has it. The windows of `inverse`
        depend on what was read, these do not. Near the ends the nearest full window gives the running median.
    expected : float
        Mean ratio of a bin's power to such an estimate, in noise; 1 for a given floor.
    off_source : OffSource or None
        For estimates from off-source bins at any bin: those next to a loud signal's bin have it in them.
    """

    real: np.ndarray
    imag: np.ndarray
    inverse: np.ndarray
    first_bin: int
    width: int
    at: np.ndarray
    estimates: np.ndarray
    expected: float
    off_source: OffSource | None = None

    def inverse_at(self, bins: np.ndarray) -> np.ndarray:
        """Return 1/sqrt(S) of each SFT at a bin of its own, (n,) float64."""
        windows = self.inverse.shape[1] / self.real.shape[1]
        return _between_columns(self.inverse, (bins - self.first_bin + 0.5) * windows - 0.5)

    def floors(self, bins: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the noise floor that weighs each SFT, and the factor for its whitened bins, (n,) float64 each.

        Parameters
        ----------
        bins : (n,) float64 ndarray
            The signal's bin in each SFT.
        at : (k,) int ndarray
            Those bins of `self.at` that the signal's band has, evenly spaced: their mean weighs, as in `prepare`, and
            whitened bins get the floor at the signal's own.

        Returns
        -------
        psd : (n,) float64 ndarray
            S, strain^2/Hz.
        relative : (n,) float64 ndarray
        """
        estimates = self.estimates[:, np.searchsorted(self.at, at)]
        if self.off_source is None:
            own = _between_columns(estimates, (bins - at[0]) / max(at[-1] - at[0], 1) * (len(at) - 1))
        else:
            own = self.off_source.at(np.round(bins).astype(int)[:, None])[:, 0]
        relative = 1 / (np.sqrt(own) * self.inverse_at(np.round(bins)))
        if self.width:
            relative *= np.sqrt(whitened_power(self.width) / self.expected)
        return np.mean(estimates, axis=1), relative


def _between_columns(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Interpolate each row linearly at a place of its own, constant beyond the ends: (n,) from (n, m) and (n,)."""
    last = values.shape[1] - 1
    place = np.clip(place, 0, last)
    low = np.minimum(place.astype(int), max(last - 1, 0))
    high, part, row = np.minimum(low + 1, last), place - low, np.arange(len(place))
    return (1 - part) * values[row, low] + part * values[row, high]


def whitened(
    bins: NDArray[np.complex64],
    first_bin: int,
    tsft: float,
    sqrt_sx: float | None,
    at: np.ndarray,
    detector: str,
    gps: np.ndarray,
    noise: Noise,
) -> Whitened:
    """Divide bins of SFTs by the noise floor: a given one, or medians of windows, interpolated between their centres.

    Parameters
    ----------
    bins : (n, n_bins) complex64 ndarray
    first_bin : int
    tsft : float
        s.
    sqrt_sx : float or None
        A given noise floor, 1/sqrt(Hz).
    at : (m,) int ndarray
        Bins, ascending, where the running median, or the estimate from off-source bins, is wanted.
    detector, gps : str, (n,) int ndarray
        Detector and start times of the SFTs, for error messages.
    noise : Noise
        How the floor at the bins `at` is estimated.

    Raises
    ------
    ValueError
        If a bin is not finite, or a window has no noise and the floor is not given.
    """
    n, n_bins = bins.shape
    n_windows = max(n_bins // MEDIAN_BINS, 1)
    if sqrt_sx is not None:
        if not np.isfinite(bins.sum()):
            raise _not_finite(bins, detector, gps)
        inverse = np.full((n, n_windows), 1 / sqrt_sx)
        scale = np.float32(1 / (sqrt_sx * np.sqrt(0.5 * tsft)))
        estimates = np.full((n, len(at)), sqrt_sx**2)
        return Whitened(bins.real * scale, bins.imag * scale, inverse, first_bin, 0, at, estimates, 1.0)
    # windows of equal width that cover all bins
    edges = np.linspace(0, n_bins, n_windows + 1).astype(int)
    width = int(np.diff(edges).min()) // 2 * 2 - 1
    unit = np.float32(np.max(np.abs(bins), initial=0.0)) or np.float32(1.0)  # float32 holds no squares of 1e-23
    if not np.isfinite(unit):
        raise _not_finite(bins, detector, gps)
    real, imag = bins.real * (1 / unit), bins.imag * (1 / unit)
    del bins
    power = np.square(real)
    power += np.square(imag)
    median = _medians(power, edges[:-1], width)
    floors = None
    wide, scale = noise.median_bins, float(unit) ** 2 * 2.0 / tsft
    if noise.off_source is None:
        centred = np.clip(at - first_bin - wide // 2, 0, n_bins - wide)
        estimates = _medians(power, centred, wide) * (scale / median_bias(wide))
    else:
        floors = OffSource(power, first_bin, noise.off_source, side_bins(wide), scale)
        estimates = floors.at(at)
    del power
    least = np.minimum(median.min(axis=1), estimates.min(axis=1))
    if not least.min() > 0:
        start = gps[np.argmin(least)]
        raise ValueError(
            f"the SFT of {detector} at GPS {start} has all-zero bins and so no noise floor: leave it out, or give "
            "sqrt_sx."
        )
    inverse = 1 / np.sqrt(median * (2.0 / (tsft * median_bias(width)))) / unit
    correction = 1 / np.sqrt(0.5 * tsft * whitened_power(width))
    factor = product((inverse * (correction * unit)).astype(np.float32), _linear(n_windows, n_bins))
    real *= factor
    imag *= factor
    return Whitened(real, imag, inverse, first_bin, width, at, estimates, noise.whitened_power, floors)


def _medians(power: NDArray[np.float32], starts: np.ndarray, width: int) -> np.ndarray:
    """Return medians of windows of an odd number of columns: (n, n_windows) float64.

    Numbers that are not negative sort like the integers with the same bits, whose median NumPy finds in half the time.

    Parameters
    ----------
    power : (n, n_bins) float32
        Finite, at least 0.
    starts : (n_windows,) or (n, n_windows) int
        First columns, of all rows or of each.
    width : int
    """
    result = np.empty((len(power), starts.shape[-1]))
    for k, start in enumerate(np.moveaxis(starts, -1, 0)):
        if np.ndim(start):  # windows of each row
            window = np.take_along_axis(power, start[:, None] + np.arange(width), axis=1).view(np.int32)
        else:
            window = power[:, start : start + width].copy().view(np.int32)
        window.partition(width // 2, axis=1)
        result[:, k] = window[:, width // 2].view(np.float32)
    return result


def _not_finite(values: np.ndarray, detector: str, gps: np.ndarray) -> ValueError:
    start = gps[np.argmin(np.isfinite(values).all(axis=1))]
    return ValueError(f"the SFT of {detector} at GPS {start} has bins that are not finite: leave it out.")


@lru_cache(maxsize=8)
def _linear(n_windows: int, n_bins: int) -> np.ndarray:
    """Return the matrix that interpolates from windows' centres to bins, (n_windows, n_bins) float32."""
    place = (np.arange(n_bins) + 0.5) * (n_windows / n_bins) - 0.5
    return np.stack([np.interp(place, np.arange(n_windows), row) for row in np.eye(n_windows)]).astype(np.float32)
