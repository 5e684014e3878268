"""Simulated instrumental lines: steady, drifting, swinging and wandering ones, and combs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.fft import next_fast_len

from jfstat import kinds
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.windows import samples_of
from jfstat.signal.times import TimeLike, gps_time
from jfstat.signal.transientwindow import TransientWindow
from jfstat.simulate.artefacts import DAY, Disturbance, set_fields
from jfstat.simulate.signals import OVERSAMPLING
from jfstat.simulate.simulate import check_within_sfts
from jfstat.validation import DurationLike, FrequencyLike, NumberLike, is_whole, number, positive_seconds, shown

NUMBERS = dict(freq="Hz", h0="", phi0="rad", f1dot="Hz/s", period="s", swing="", swing_phase="rad")
"""Fields of an Artefact that are numbers, and their units."""
SIDEREAL_DAY = 86164.0905
"""s."""
STEPS = 4
"""Steps of a random walk in an SFT."""
Track = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Artefact(Disturbance):
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
        if self.window is not None and self.window.t0.ndim:
            raise ValueError("window must be one window, not a stack: make an Artefact for each.")
        if self.reftime is not None:
            gps_time(self.reftime, "reftime")
        set_fields(self, values)

    def disturbed(self, data: np.ndarray, series: SFTSeries, sfts: SFTs) -> np.ndarray:
        """Return bins with the artefact; see `Disturbance.disturbed`."""
        if self.window is not None:
            check_within_sfts(self.window, sfts, f"artefacts: the window of the one at {self.freq:g} Hz")
        freq, h0, phi0, f1dot, period, swing, swing_phase = (float(getattr(self, name)) for name in NUMBERS)
        epoch, rate = sfts.start, 2 * np.pi / period
        reference = 0.0 if self.reftime is None else float(gps_time(self.reftime, "reftime").since(epoch))

        def turn(t: np.ndarray) -> np.ndarray:
            """Return the phase of the swing at times in s since the epoch, rad."""
            return rate * (t + epoch % period) + swing_phase

        def track(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            since, swung = t - reference, turn(t)
            cycles = (freq + 0.5 * f1dot * since) * since
            cycles = cycles + swing * (np.sin(swung) - np.sin(turn(np.asarray(reference))))
            return freq + f1dot * since + rate * swing * np.cos(swung), cycles

        def amplitude(t: np.ndarray) -> np.ndarray | float:
            size = h0 * np.sin(turn(t)) if self.varies else h0
            if self.window is None:
                return size
            start, half = t[0], 0.5 * (t[1] - t[0])
            low, high = (np.clip(t + x, start, start + sfts.tsft) for x in (-half, half))
            return size * np.asarray(self.window.mean(jnp.asarray(low), jnp.asarray(high), epoch))

        return data + line_bins(series, sfts, track, amplitude, phi0)


@dataclass(frozen=True)
class WanderingLine(Disturbance):
    """An instrumental line whose frequency wanders at random, in each detector by itself.

    The strain is h0 sin(phase). Its frequency is a random walk that begins at freq with the data, with a standard
    deviation of its change of wander sqrt(t) after a time t; between steps, each a quarter of an SFT, it is linear.

    Parameters
    ----------
    freq : float or Quantity
        Frequency at the start of the SFTs, Hz.
    h0 : float
        Strain amplitude, not negative.
    wander : float
        Standard deviation of the change of the frequency in a day, Hz.
    phi0 : float
        Phase at the start, rad.
    seed : int
        Of the random walk; those of detectors differ.
    detectors : sequence of str, optional
        Prefixes of the detectors that have it; by default all.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.WanderingLine(60.0, 1e-23, wander=1e-3).wander
    0.001
    """

    freq: FrequencyLike
    h0: NumberLike
    wander: NumberLike
    phi0: NumberLike = 0.0
    seed: int = 0
    detectors: Sequence[str] | None = None

    def __post_init__(self) -> None:
        names = {"freq": "Hz", "h0": "", "wander": "Hz", "phi0": "rad"}
        values = {name: number(getattr(self, name), name, "one number", unit) for name, unit in names.items()}
        if values["freq"] <= 0 or values["h0"] < 0 or values["wander"] < 0:
            raise ValueError(
                f"freq={values['freq']:g} must be positive, and h0={values['h0']:g} and wander={values['wander']:g} "
                "not negative: correct it."
            )
        set_fields(self, values, self.seed)

    def disturbed(self, data: np.ndarray, series: SFTSeries, sfts: SFTs) -> np.ndarray:
        """Return bins with the line; see `Disturbance.disturbed`."""
        freq, h0, wander, phi0 = (float(getattr(self, name)) for name in ("freq", "h0", "wander", "phi0"))
        step = sfts.tsft / STEPS
        n = int(np.ceil((sfts.end - sfts.start) / step)) + 1
        walk = self.random(series).normal(0.0, wander * np.sqrt(step / DAY), n).cumsum()
        at = freq + np.concatenate([[0.0], walk])
        turns = np.concatenate([[0.0], np.cumsum(0.5 * (at[1:] + at[:-1]) * step)])

        def track(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            k = np.minimum((t / step).astype(int), n - 1)
            since = t - k * step
            slope = (at[k + 1] - at[k]) / step
            return at[k] + slope * since, turns[k] + (at[k] + 0.5 * slope * since) * since

        return data + line_bins(series, sfts, track, lambda t: h0, phi0)


@host
def comb(
    spacing: FrequencyLike,
    harmonics: Sequence[int],
    h0: NumberLike,
    offset: FrequencyLike = 0.0,
    detectors: Sequence[str] | None = None,
) -> list[Artefact]:
    """Return the lines of a comb: at offset + n spacing for harmonics n, all with one amplitude.

    Parameters
    ----------
    spacing, offset : float or Quantity
        Hz.
    harmonics : sequence of int
        Numbers n, at least 1.
    h0 : float
        Strain amplitude of each line.
    detectors : sequence of str, optional
        Prefixes of the detectors that have it; by default all.

    Returns
    -------
    list of Artefact

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> [line.freq for line in jfstat.comb(0.5, range(200, 203), 1e-24, offset=0.1)]
    [100.1, 100.6, 101.1]
    """
    step, first = number(spacing, "spacing", "one number", "Hz"), number(offset, "offset", "one number", "Hz")
    kinds.sequence(harmonics, "harmonics")
    numbers = list(harmonics)
    if not step > 0:
        raise ValueError(f"spacing must be positive, not {step:g}: give the distance of the lines in Hz.")
    wrong = [n for n in numbers if not is_whole(n) or n < 1]
    if wrong or not numbers:
        raise ValueError(f"harmonics must be whole numbers of at least 1, not {shown(wrong[0] if wrong else numbers)}.")
    return [Artefact(first + int(n) * step, h0, detectors=detectors) for n in numbers]


def line_bins(
    series: SFTSeries, sfts: SFTs, track: Track, amplitude: Callable[[np.ndarray], np.ndarray | float], phi0: float
) -> np.ndarray:
    """Return the bins of a line: the Fourier integral of its strain over each SFT, (n_sfts, n_bins) complex128.

    As for signals, its part at negative frequencies is neglected.

    Parameters
    ----------
    series : SFTSeries
    sfts : SFTs
    track : callable
        Frequency, Hz, and cycles at times in s since the start of the SFTs.
    amplitude : callable
        Strain amplitude at these times.
    phi0 : float
        Phase where the cycles are 0, rad.
    """
    tsft, n_bins, band = sfts.tsft, sfts.n_bins, sfts.frequencies
    n = int(next_fast_len(max(OVERSAMPLING * n_bins, 256)))  # type: ignore[arg-type]
    window = samples_of(series.window, n)
    centre, bins = sfts.first_bin + n_bins // 2, np.arange(n_bins) - n_bins // 2
    within = tsft * np.arange(n + 1) / n
    out = np.empty((len(series), n_bins), np.complex128)
    for row, start in enumerate(series.since(sfts.start)):
        t = start + within
        local, cycles = track(t)
        if local.min() < band[0] or local.max() > band[-1]:
            raise ValueError(
                f"artefacts: one at {local.min():.10g} to {local.max():.10g} Hz leaves the SFTs' band of "
                f"{band[0]:.10g} to {band[-1]:.10g} Hz: widen the band or move it."
            )
        wave = -0.5j * amplitude(t) * np.exp(2j * np.pi * ((cycles - centre / tsft * within) % 1.0) + 1j * phi0)
        x = wave[:-1] * window
        x[0] += 0.5 * (wave[-1] * window[-1] - x[0])  # trapezoidal rule, as for signals
        out[row] = np.fft.fft(x)[bins] * (tsft / n)
    return out
