"""Gating of strain: fading it out around loud glitches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jfstat.strain.filters import band_passed
from jfstat.validation import DurationLike, FrequencyLike, NumberLike, frequency, positive_number, positive_seconds

SETTLING = 4.0
"""Length of a band-pass filter's transient, in periods of the lowest frequency of the band."""
NORMAL = 0.674489750196
"""Median of |x| of a normal variable with unit standard deviation."""


@dataclass(frozen=True)
class Gating:
    """Options of gating: how loud glitches are removed from strain by inverse Tukey windows.

    Strain is multiplied by windows that are 0 within `tzero` of each sample that is too loud, and rise to 1 over the
    next `tpad`. Continuous-wave searches of O3 used strain gated in this way (Zweizig & Riles, LIGO-T2000384; also
    Steltner, Papa & Eggenstein 2022, arXiv:2105.09933), as PyCBC does (Usman et al. 2016, arXiv:1508.02357). `tzero`
    and `tpad` have the names and defaults of GWpy's ``TimeSeries.gate``.

    A sample is too loud if it exceeds `threshold` standard deviations in one of the `bands`. The standard deviation is
    estimated for the strain of each SFT from the median of the absolute values, which glitches hardly change.

    Attributes
    ----------
    threshold : float
        Threshold in standard deviations. Gaussian noise never exceeds the default.
    bands : sequence of (low, high)
        Frequency bands, Hz. By default one in which glitches of scattered light are loud and one in which most others
        are. More than one band is needed because the spectrum of strain is steep.
    tzero : float
        Half-width of the interval that is set to zero, s.
    tpad : float
        Length of the taper on each side, s.
    most_gated : float
        Largest fraction of an SFT that may be set to zero; other SFTs are left out. The default is the one for LVK's
        SFTs of O3, 30 s of 1800 s (LIGO-T2300068).

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    threshold: NumberLike = 10.0
    bands: Sequence[tuple[FrequencyLike, FrequencyLike]] = ((25.0, 50.0), (70.0, 110.0))
    tzero: DurationLike = 1.0
    tpad: DurationLike = 0.5
    most_gated: NumberLike = 1 / 60

    def __post_init__(self) -> None:
        try:
            pairs = [(frequency(low, "bands"), frequency(high, "bands")) for low, high in self.bands]
        except (TypeError, ValueError):
            raise ValueError("bands must be pairs (low, high) of frequencies in Hz, such as [(25, 50)].") from None
        if not pairs or any(not 0 < low < high for low, high in pairs):
            raise ValueError(f"bands must be pairs with 0 < low < high, not {pairs}: give frequencies in Hz.")
        for name, value in (
            ("threshold", positive_number(self.threshold, "threshold", "a number of standard deviations")),
            ("bands", tuple(pairs)),
            ("tzero", positive_seconds(self.tzero, "tzero")),
            ("tpad", positive_seconds(self.tpad, "tpad")),
            ("most_gated", positive_number(self.most_gated, "most_gated", "a fraction of an SFT")),
        ):
            object.__setattr__(self, name, value)

    @property
    def reach(self) -> float:
        """Largest distance from an SFT at which strain can change the gates within it, s."""
        return self.tzero + self.tpad + SETTLING / min(low for low, _ in self.bands)  # type: ignore[operator, return-value]


def gate_window(x: np.ndarray, rate: int, gating: Gating) -> np.ndarray:
    """Return the product of the inverse Tukey windows of a stretch of strain: 0 in gates, 1 far from them.

    Parameters
    ----------
    x : (n,) float64 ndarray
        Finite samples.
    rate : int
        Samples per second.
    gating : Gating

    Returns
    -------
    (n,) float64 ndarray

    Raises
    ------
    ValueError
        If a band lies beyond the Nyquist frequency.
    """
    loud = np.zeros(len(x), bool)
    for low, high in gating.bands:
        if low >= 0.5 * rate:
            raise ValueError(
                f"gating has the band {low:g} to {high:g} Hz, beyond the Nyquist frequency {rate / 2:g} Hz."
            )
        y = np.abs(band_passed(x, rate, float(low), float(high)))
        sigma = np.median(y) / NORMAL
        loud |= y > gating.threshold * sigma
    if not loud.any():
        return np.ones(len(x))
    # distance of each sample from the nearest loud one, in samples
    places, every = np.flatnonzero(loud), np.arange(len(x))
    after = np.searchsorted(places, every)
    nearest = np.minimum(
        np.abs(places[np.minimum(after, len(places) - 1)] - every), np.abs(every - places[np.maximum(after - 1, 0)])
    )
    into = np.clip((nearest / rate - gating.tzero) / gating.tpad, 0.0, 1.0)
    return np.sin(0.5 * np.pi * into) ** 2
