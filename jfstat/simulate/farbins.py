"""The SFT bins of a signal far from its frequency, which follow from the signal at the ends of an SFT."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np

from jfstat.geometry.orbit import periapsis_rate
from jfstat.geometry.source import Source
from jfstat.sfts.windows import samples_of

NEAR_BINS = 60
"""Least number of bins on either side of a signal that are not far."""
ACCURACY = 1e-3
"""Largest error of far bins in units of the signal's at the ends, as the frequency changes; see `near_bins`."""
EARTH_ACCELERATION = 1.5e-10
"""Largest acceleration of detectors by the Earth's rotation and orbit, in units of the speed of light, 1/s."""


class Bins(NamedTuple):
    """Times and frequencies of the bins of one detector's SFTs.

    Attributes
    ----------
    starts : (n_sfts,) float64 ndarray
        Start times, s since the epoch.
    tsft : float
        Length of an SFT, s.
    first, number : int
        First bin and number of bins.
    window : str
        Name of the SFTs' window.
    """

    starts: np.ndarray
    tsft: float
    first: int
    number: int
    window: str


class Ends(NamedTuple):
    """A signal at the start and at the end of SFTs, with times in units of Tsft.

    Attributes
    ----------
    central : (n_sfts,) float64
        Whole numbers of the bins that frequencies count from.
    strain, slope : (n_sfts, 2) complex128
        Strain and derivative of its amplitude, with the phase of the central bin taken out of both.
    frequency, drift : (n_sfts, 2) float64
        Frequency, and its derivative.
    """

    central: jax.Array
    strain: jax.Array
    slope: jax.Array
    frequency: jax.Array
    drift: jax.Array


def near_bins(source: Source, bins: Bins) -> int | None:
    """Return the number of bins around a persistent signal that are not far; None if no bin of the SFTs is.

    Bins are far, as `with_far_bins` takes them, if the window is constant, the phase smooth, and the frequency changes
    little: at n bins from the frequency each term is smaller than the one before by a factor of f1 Tsft^2/(2 pi n^2) or
    less, if f1 is the frequency's derivative. The number is a power of two, so that many signals share a program.
    """
    if np.ptp(samples_of(bins.window, 16)) > 0 or source.model is not None:
        return None
    derivatives = np.abs(np.asarray(source.evolution))[1:]
    away = np.max(np.abs(bins.starts + 0.5 * bins.tsft - float(source.middle)), initial=0.0)
    acceleration = EARTH_ACCELERATION
    if source.orbit is not None:
        acceleration += float(source.orbit.asini * periapsis_rate(source.orbit) ** 2)
    change = float(source.frequency) * acceleration
    change += sum(x * away**k / math.factorial(k) for k, x in enumerate(derivatives))
    reach = max(NEAR_BINS, bins.tsft * math.sqrt(change / (2 * math.pi * math.sqrt(ACCURACY))))
    reach += 0.5 * change * bins.tsft**2  # by so much the frequency moves away from its mean over an SFT
    near = 2 ** math.ceil(math.log2(2 * reach))
    return near if near < bins.number else None


def with_far_bins(near: np.ndarray, ends: Ends, bins: Bins) -> np.ndarray:
    """Return all bins of SFTs, given those near a signal.

    Far from its frequency the Fourier integral of a smooth signal A exp(2 pi i phase) over an SFT is, by partial
    integration, the difference between its end and its start of A/(2 pi i x) + A'/(2 pi x)^2 - A x'/(4 pi^2 x^3) times
    Tsft and the phase factor, where x is the distance of its frequency from the bin's, in bins.

    Parameters
    ----------
    near : (n_sfts, n_near) complex128
        Bins around `ends.central`.
    ends : Ends
    bins : Bins

    Returns
    -------
    (n_sfts, bins.number) complex128 ndarray
    """
    n_near = near.shape[1]
    central = np.asarray(ends.central).astype(int) - bins.first  # as a column of all bins
    first = central - n_near // 2
    column = np.arange(bins.number)
    beyond = (column < first[:, None]) | (column >= first[:, None] + n_near)
    out = np.zeros((len(near), bins.number), np.complex128)
    for sign, *own in zip((-1, 1), *(np.asarray(x).T for x in ends[1:]), strict=True):
        strain, slope, frequency, drift = (x[:, None] for x in own)
        inverse = 1 / np.where(beyond, 2j * np.pi * (frequency + central[:, None] - column), np.inf)
        out += sign * bins.tsft * inverse * (strain + inverse * (2j * np.pi * drift * strain * inverse - slope))
    for row, low in enumerate(first):
        begin, end = np.clip([low, low + n_near], 0, bins.number)
        out[row, begin:end] = near[row, begin - low : end - low]
    return out
