"""Simulated artefacts of instruments in SFTs: lines, drifting lines, and lines whose frequency swings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from scipy.fft import next_fast_len

from jfstat import kinds
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts
from jfstat.sfts.windows import window_samples
from jfstat.signal.times import TimeLike, gps_time
from jfstat.signal.transientwindow import TransientWindow
from jfstat.simulate.signals import OVERSAMPLING
from jfstat.simulate.simulate import single
from jfstat.validation import DurationLike, FrequencyLike, NumberLike, number, positive_seconds, shown

NUMBERS = dict(freq="Hz", h0="", phi0="rad", f1dot="Hz/s", period="s", swing="", swing_phase="rad")
"""Fields of an Artefact that are numbers, and their units."""
SIDEREAL_DAY = 86164.0905
"""s."""


@dataclass(frozen=True)
class Artefact:
    """An artefact of an instrument: strain that is no wave, with neither Doppler shifts nor antenna patterns.

    The strain is h0 sin(phase) in the detector, with a frequency of freq + f1dot (t - reftime) + 2 pi swing / period
    cos(2 pi t / period + swing_phase), t in GPS s. With ``swing = 0`` it is a line, as PyFstat's LineWriter makes, and
    otherwise what its FrequencyModulatedArtifactWriter makes, whose frequency however stays the same during each SFT.

    Parameters
    ----------
    freq : float or Quantity
        Frequency at `reftime`, Hz.
    h0 : float
        Strain amplitude, not negative.
    phi0 : float
        Phase at `reftime`, rad.
    f1dot : float
        Drift of the frequency, Hz/s.
    reftime : int, str or Time, optional
        GPS time at which freq and phi0 hold, s; by default the start of the SFTs.
    period : float or Quantity, optional
        Period of the swing, s; a sidereal day by default.
    swing : float
        Amplitude of the swing of the phase, cycles.
    swing_phase : float
        Phase of the swing at GPS 0, rad.
    varies : bool
        Whether the amplitude swings too, as sin(2 pi t / period + swing_phase), as of PyFstat's
        FrequencyAmplitudeModulatedArtifactWriter.
    detectors : sequence of str, optional
        Prefixes of the detectors that have it; by default all.
    window : TransientWindow, optional
        Amplitude over time, if it is transient.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.Artefact(60.0, 1e-23, detectors=['H1']).freq
    60.0
    """

    freq: FrequencyLike
    h0: NumberLike
    phi0: NumberLike = 0.0
    f1dot: NumberLike = 0.0
    reftime: TimeLike | None = None
    period: DurationLike = SIDEREAL_DAY
    swing: NumberLike = 0.0
    swing_phase: NumberLike = 0.0
    varies: bool = False
    detectors: Sequence[str] | None = None
    window: TransientWindow | None = None

    def __post_init__(self) -> None:
        values = {name: number(getattr(self, name), name, "one number", unit) for name, unit in NUMBERS.items()}
        positive_seconds(self.period, "period")
        if values["freq"] <= 0 or values["h0"] < 0:
            raise ValueError(
                f"freq={values['freq']:g} must be positive and h0={values['h0']:g} not negative: correct it."
            )
        kinds.flag(self.varies, "varies")
        if not (values["swing"] or self.varies) and (values["swing_phase"] or values["period"] != SIDEREAL_DAY):
            raise ValueError("period and swing_phase are of a swing: give swing, or varies, or leave them out.")
        kinds.instance(TransientWindow, or_none=True)(self.window, "window")
        if self.detectors is not None:
            kinds.names(self.detectors, "detectors")
            own = (self.detectors,) if isinstance(self.detectors, str) else tuple(self.detectors)
            object.__setattr__(self, "detectors", own)
        if self.window is not None and self.window.t0.ndim:
            raise ValueError("window must be one window, not a stack: make an Artefact for each.")
        if self.reftime is not None:
            gps_time(self.reftime, "reftime")
        for name, value in values.items():
            object.__setattr__(self, name, value)


@host(sfts=kinds.instance(SFTs))
def inject_artefacts(sfts: SFTs, artefacts: Sequence[Artefact]) -> SFTs:
    """Add artefacts of instruments to SFTs; the given SFTs are not changed.

    Parameters
    ----------
    sfts : SFTs
        Their windows are applied to the artefacts; an unknown window is taken as rectangular.
    artefacts : sequence of Artefact

    Returns
    -------
    SFTs
        New SFTs with the artefacts.

    Raises
    ------
    TypeError
        If `artefacts` is no sequence of Artefacts.
    ValueError
        If the frequency of one leaves the SFTs' band, it is of a detector that the SFTs are not of, or it is too strong
        for complex64.

    Examples
    --------
    >>> dirty = jfstat.inject_artefacts(sfts, [jfstat.Artefact(100.0, 1e-23, detectors=['H1'])])
    """
    check_sfts(sfts)
    kinds.sequence(artefacts, "artefacts")
    artefacts = list(artefacts)
    for one in artefacts:
        if not isinstance(one, Artefact):
            raise TypeError(f"artefacts must hold Artefacts, not {shown(one)}: make them by jfstat.Artefact.")
        unknown = sorted(set(one.detectors or ()) - set(sfts.detectors))
        if unknown:
            raise ValueError(f"artefacts: detectors has {unknown[0]}, and the SFTs are of {', '.join(sfts.detectors)}.")
    series = []
    for own in sfts:
        data = np.asarray(own.data, np.complex128)
        for one in artefacts:
            if one.detectors is None or own.detector in one.detectors:
                data = data + _bins(one, own, sfts)
        series.append(replace(own, data=single(data, "artefacts", "h0")))
    return SFTs(tuple(series), sfts.tsft, sfts.first_bin)


def _bins(one: Artefact, series: SFTSeries, sfts: SFTs) -> np.ndarray:
    """Return the bins of an artefact: the Fourier integral of its strain over each SFT, (n_sfts, n_bins) complex128.

    As for signals, its part at negative frequencies is neglected.
    """
    freq, h0, phi0, f1dot, period, swing, swing_phase = (float(getattr(one, name)) for name in NUMBERS)
    epoch, tsft, n_bins, band = sfts.start, sfts.tsft, sfts.n_bins, sfts.frequencies
    reference = 0.0 if one.reftime is None else float(gps_time(one.reftime, "reftime").since(epoch))
    n = int(next_fast_len(max(OVERSAMPLING * n_bins, 256)))  # type: ignore[arg-type]
    window = np.ones(n) if series.window in ("rectangular", "unknown") else window_samples(series.window, n)
    centre, bins = sfts.first_bin + n_bins // 2, np.arange(n_bins) - n_bins // 2
    within, rate = tsft * np.arange(n + 1) / n, 2 * np.pi / period

    def turn(t: np.ndarray) -> np.ndarray:
        """Return the phase of the swing at times in s since the epoch, rad."""
        return rate * (t + epoch % period) + swing_phase

    out = np.empty((len(series), n_bins), np.complex128)
    for row, start in enumerate(series.since(epoch)):
        t = start + within
        since, swung = t - reference, turn(t)
        local = freq + f1dot * since + rate * swing * np.cos(swung)
        if local.min() < band[0] or local.max() > band[-1]:
            raise ValueError(
                f"artefacts: one at {local.min():.10g} to {local.max():.10g} Hz leaves the SFTs' band of "
                f"{band[0]:.10g} to {band[-1]:.10g} Hz: widen the band or move it."
            )
        cycles = (freq + 0.5 * f1dot * since) * since + swing * (np.sin(swung) - np.sin(turn(np.asarray(reference))))
        wave = -0.5j * h0 * np.exp(2j * np.pi * ((cycles - centre / tsft * within) % 1.0) + 1j * phi0)
        if one.varies:
            wave *= np.sin(swung)
        if one.window is not None:
            half = 0.5 * tsft / n
            low, high = (np.clip(t + x, start, start + tsft) for x in (-half, half))
            wave *= np.asarray(one.window.mean(jnp.asarray(low), jnp.asarray(high), epoch))
        x = wave[:-1] * window
        x[0] += 0.5 * (wave[-1] * window[-1] - x[0])  # trapezoidal rule, as for signals
        out[row] = np.fft.fft(x)[bins] * (tsft / n)
    return out
