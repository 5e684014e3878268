"""Simulated glitches: short bursts at random times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.windows import samples_of
from jfstat.simulate.artefacts import DAY, Disturbance, set_fields
from jfstat.validation import NumberLike, number, shown

SAMPLES = 4096
"""Number of samples of an SFT's window."""


@dataclass(frozen=True)
class Glitches(Disturbance):
    """Sine-Gaussian bursts at random times, in each detector by itself.

    Each is h exp(-(t/tau)^2) sin(2 pi f t + phi) about its time, with tau = quality / (sqrt(2) pi f). Its frequency f
    is drawn log-uniformly from the band, its phase uniformly, and its peak h from the distribution in which a fraction
    of (h0/h)^2 exceeds h: most are weak and a few loud, as in real detectors. In SFTs, which are much longer, a burst
    is white noise for one SFT.

    Parameters
    ----------
    rate : float
        Mean number per day.
    h0 : float
        Smallest peak strain, not negative.
    band : (float, float)
        Lowest and highest frequency, Hz; it may reach beyond the SFTs.
    quality : float
        Number of cycles in a burst, about.
    seed : int
        Of the bursts; those of detectors differ.
    detectors : sequence of str, optional
        Prefixes of the detectors that have them; by default all.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.Glitches(rate=30.0, h0=1e-21, band=(60.0, 300.0)).quality
    9.0
    """

    rate: NumberLike
    h0: NumberLike
    band: tuple[NumberLike, NumberLike]
    quality: NumberLike = 9.0
    seed: int = 0
    detectors: Sequence[str] | None = None

    def __post_init__(self) -> None:
        names = "rate", "h0", "quality"
        values = {name: number(getattr(self, name), name, "one number", "") for name in names}
        if values["rate"] < 0 or values["h0"] < 0 or values["quality"] <= 0:
            raise ValueError(
                f"quality={values['quality']:g} must be positive, and rate={values['rate']:g} and h0={values['h0']:g} "
                "not negative: correct it."
            )
        if not isinstance(self.band, tuple | list) or len(self.band) != 2:
            raise ValueError(f"band must be (low, high) in Hz, not {shown(self.band)}.")
        low, high = (number(x, "band", "a pair of numbers", "Hz") for x in self.band)
        if not 0 < low <= high:
            raise ValueError(f"band=({low:g}, {high:g}) must be positive and ordered: give the lowest frequency first.")
        set_fields(self, {**values, "band": (low, high)}, self.seed)

    def disturbed(self, data: np.ndarray, series: SFTSeries, sfts: SFTs) -> np.ndarray:
        """Return bins with the bursts; see `Disturbance.disturbed`."""
        rng, span = self.random(series), float(sfts.end - sfts.start)
        n = int(rng.poisson(float(self.rate) * span / DAY))
        time = rng.uniform(0, span, n)
        low, high = (float(x) for x in self.band)
        f = np.exp(rng.uniform(np.log(low), np.log(high), n))
        phase, peak = rng.uniform(0, 2 * np.pi, n), float(self.h0) / np.sqrt(1 - rng.uniform(size=n))
        tau = float(self.quality) / (np.sqrt(2) * np.pi * f)
        window = samples_of(series.window, SAMPLES)
        starts, bins, out = series.since(sfts.start), sfts.frequencies, data.copy()
        row = np.searchsorted(starts, time, side="right") - 1
        for k in np.flatnonzero((row >= 0) & (time < starts[np.maximum(row, 0)] + sfts.tsft)):
            since = time[k] - starts[row[k]]
            size = peak[k] * tau[k] * np.sqrt(np.pi) * window[int(since / sfts.tsft * SAMPLES)]
            wave = -0.5j * size * np.exp(1j * phase[k] - (np.pi * tau[k] * (bins - f[k])) ** 2)
            out[row[k]] += wave * np.exp(-2j * np.pi * ((bins * since) % 1.0))
        return out
