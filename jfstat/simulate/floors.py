"""Simulated noise that is not stationary or not white: floors that drift, and broad lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.signal.transientwindow import TransientWindow
from jfstat.simulate.artefacts import Disturbance, set_fields
from jfstat.simulate.simulate import white_noise
from jfstat.validation import DurationLike, FrequencyLike, NumberLike, number, positive_seconds

WAVES = 8
"""Number of sinusoids of which a drift is made."""


@dataclass(frozen=True)
class FloorDrift(Disturbance):
    """A noise floor that drifts at random from SFT to SFT, in each detector by itself, and has a slope over frequency.

    All that is in the SFTs is multiplied by a factor. Its logarithm is a sum of eight sinusoids with periods between
    timescale / e and timescale e, plus a slope over the band, 0 in its middle.

    Parameters
    ----------
    size : float
        Standard deviation of the logarithm of the factor, not negative: 0.3 makes amplitudes drift by a third.
    timescale : float or Quantity
        Typical period, s.
    slope : float or Quantity
        Change of the logarithm of the factor, 1/Hz.
    seed : int
        Of the drift; those of detectors differ.
    detectors : sequence of str, optional
        Prefixes of the detectors that have it; by default all.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.FloorDrift(0.3, timescale=40000.0, slope=-0.1).size
    0.3
    """

    size: NumberLike
    timescale: DurationLike
    slope: NumberLike = 0.0
    seed: int = 0
    detectors: Sequence[str] | None = None

    def __post_init__(self) -> None:
        units = {"size": "", "slope": "1 / Hz"}
        values = {name: number(getattr(self, name), name, "one number", unit) for name, unit in units.items()}
        if values["size"] < 0:
            raise ValueError(f"size must not be negative, as {values['size']:g} is: 0.3 is a third.")
        values["timescale"] = positive_seconds(self.timescale, "timescale")
        set_fields(self, values, self.seed)

    def disturbed(self, data: np.ndarray, series: SFTSeries, sfts: SFTs) -> np.ndarray:
        """Return the bins times the factor; see `Disturbance.disturbed`."""
        rng, middle = self.random(series), series.since(sfts.start) + 0.5 * sfts.tsft
        period = float(self.timescale) * np.exp(rng.uniform(-1, 1, WAVES))  # type: ignore[arg-type]
        phase = rng.uniform(0, 2 * np.pi, WAVES)
        drift = float(self.size) * np.sqrt(2 / WAVES) * np.cos(2 * np.pi * middle[:, None] / period + phase).sum(axis=1)
        f = sfts.frequencies
        return data * np.exp(drift[:, None] + float(self.slope) * (f - 0.5 * (f[0] + f[-1])))


@dataclass(frozen=True)
class BroadLine(Disturbance):
    """A broad line: Gaussian noise about a frequency, beside the noise that is there.

    Its power spectral density is sqrt_sx^2 / (1 + (2 (f - freq)/width)^2), the resonance of an oscillator.

    Parameters
    ----------
    freq : float or Quantity
        Frequency of its peak, Hz.
    width : float or Quantity
        Full width at half of the peak's power, Hz; it should be larger than a bin.
    sqrt_sx : float
        Root of the power spectral density at the peak, 1/sqrt(Hz).
    window : TransientWindow, optional
        Amplitude over time, if it is transient.
    seed : int
        Of the noise; those of detectors differ.
    detectors : sequence of str, optional
        Prefixes of the detectors that have it; by default all.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.BroadLine(100.3, 0.05, 2e-23).width
    0.05
    """

    freq: FrequencyLike
    width: FrequencyLike
    sqrt_sx: NumberLike
    window: TransientWindow | None = None
    seed: int = 0
    detectors: Sequence[str] | None = None

    def __post_init__(self) -> None:
        units = {"freq": "Hz", "width": "Hz", "sqrt_sx": "Hz(-1/2)"}
        values = {name: number(getattr(self, name), name, "one number", unit) for name, unit in units.items()}
        if values["freq"] <= 0 or values["width"] <= 0 or values["sqrt_sx"] < 0:
            raise ValueError(
                f"freq={values['freq']:g} and width={values['width']:g} must be positive, and "
                f"sqrt_sx={values['sqrt_sx']:g} not negative: correct it."
            )
        kinds.instance(TransientWindow, or_none=True)(self.window, "window")
        if self.window is not None and self.window.t0.ndim:
            raise ValueError("window must be one window, not a stack: make a BroadLine for each.")
        set_fields(self, values, self.seed)

    def disturbed(self, data: np.ndarray, series: SFTSeries, sfts: SFTs) -> np.ndarray:
        """Return bins with the noise of the line; see `Disturbance.disturbed`."""
        floor, freq, width = float(self.sqrt_sx), float(self.freq), float(self.width)  # type: ignore[arg-type]
        rng = self.random(series, sfts.first_bin)
        noise = white_noise(rng, data.shape, sfts.tsft, floor, series.window).astype(np.complex128)
        noise /= np.sqrt(1 + (2 * (sfts.frequencies - freq) / width) ** 2)
        if self.window is not None:
            start = jnp.asarray(series.since(sfts.start))
            noise *= np.asarray(self.window.mean(start, start + sfts.tsft, sfts.start))[:, None]
        return data + noise
