"""Simulation of SFTs of Gaussian noise with signals, and injection of signals into existing SFTs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.detectors import DetectorLike, get_detectors
from jfstat.geometry.doppler import MODEL_TIMES, drift_during
from jfstat.geometry.ephemeris import EphemerisLike, load_ephemeris
from jfstat.geometry.source import Source, source
from jfstat.geometry.trajectory import SEGMENT, detector_trajectory
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts, refuse_bad_sfts
from jfstat.sfts.timestamps import TimestampsLike, start_times
from jfstat.sfts.windows import window_samples
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.signal.times import TimeLike
from jfstat.signal.transientwindow import TransientWindow
from jfstat.simulate.signals import Bins, signal_bins
from jfstat.validation import (
    DurationLike,
    FrequencyLike,
    SqrtSxLike,
    frequency,
    given_sqrt_sx,
    is_number,
    is_whole,
    sft_seconds,
    shown,
)

Signals = Iterable[tuple[Doppler, Amplitude] | tuple[Doppler, Amplitude, TransientWindow | None]]
"""Signals to add: pairs of Doppler and Amplitude, or triples with a window for transient signals."""
LAST_BIN = 2**31 - 1
"""Largest index of a bin: SFT files number their bins by 32-bit integers."""


@host(start=kinds.time, window=kinds.text, ephemeris=kinds.ephemeris)
def simulate_sfts(
    detectors: Sequence[DetectorLike] | DetectorLike,
    start: TimeLike | None = None,
    duration: DurationLike | None = None,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    tsft: DurationLike = 1800,
    sqrt_sx: SqrtSxLike | None = 4e-24,
    signals: Signals = (),
    timestamps: TimestampsLike | None = None,
    window: str = "rectangular",
    seed: int | Sequence[int] = 0,
    ephemeris: EphemerisLike = "DE405",
) -> SFTs:
    """Simulate SFTs of Gaussian noise with signals.

    Parameters
    ----------
    detectors : str, Detector or sequence of these
        Prefixes, such as ``["H1", "L1"]``, or users' own detectors.
    start : int or Time
        GPS time of the first SFT, s. Not needed with `timestamps`.
    duration : float or Quantity
        Time to fill with whole SFTs, one after the other, s. Not needed with `timestamps`.
    fmin, fmax : float or Quantity
        Band, Hz: bins from fmin on and below fmax.
    tsft : float or Quantity
        Length of an SFT, s.
    sqrt_sx : float, sequence, mapping or None
        Noise floor in 1/sqrt(Hz), one for all detectors or one for each, in the order of `detectors`; None or 0 for no
        noise.
    signals : sequence of (Doppler, Amplitude) or (Doppler, Amplitude, TransientWindow)
        Signals to add; those with a window are transient. A Doppler without reference time refers to the start of the
        data.
    timestamps : sequence or mapping, optional
        GPS start times of the SFTs, instead of `start` and `duration`, for data with gaps: a mapping of detectors to
        times, or one sequence for all detectors. Times are numbers, or pairs (seconds, nanoseconds) where a number is
        too coarse. If `start` and `duration` are given too, all SFTs must lie within.
    window : str
        ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``; windowed data are normalised by the window's rms.
    seed : int
        Seed of the noise, a whole number or several; the noise of a detector does not depend on the others. One seed
        gives the same noise at any `start` and `fmin`: stretches or bands that are used together need seeds of their
        own, such as ``seed=[1, start]``.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.

    Returns
    -------
    SFTs

    Raises
    ------
    ValueError
        If an argument is out of range, SFTs overlap, or a signal lies outside the band or its window outside of the
        SFTs' times.

    Examples
    --------
    >>> jfstat.simulate_sfts('H1', start, 7200, fmin=50, fmax=51, sqrt_sx=1e-23, seed=1)
    SFTs of H1
      SFTs    4 of H1, 1800 s each
      span    GPS 1167458304 to 1167465504, 0.0833 d
      band    50 to 50.99944444 Hz, 1800 bins
      memory  57.6 kB
    """
    given = get_detectors(detectors)
    names = tuple(site.prefix for site in given)
    floors = _floors(names, sqrt_sx)  # a sequence is in the order of the detectors as given
    sites = sorted(given, key=lambda site: site.prefix)
    length = sft_seconds(tsft)
    low, high = frequency(fmin, "fmin"), frequency(fmax, "fmax")
    if not 0 <= low < high:
        raise ValueError(f"fmin={low} and fmax={high} must be ordered: give 0 <= fmin < fmax in Hz.")
    first = int(np.floor(low * length + 1e-6))
    n_bins = int(np.ceil(high * length - 1e-6)) - first
    if first + n_bins > LAST_BIN:
        raise ValueError(f"fmin={low:g} and fmax={high:g} Hz ask for bins beyond {LAST_BIN}: lower fmax.")
    seeds = list(seed) if isinstance(seed, (list, tuple, range, np.ndarray)) and getattr(seed, "ndim", 1) else [seed]
    if not seeds or not all(is_whole(x) and x >= 0 for x in seeds):
        raise ValueError(f"seed must be a whole number, not negative, or several, not {shown(seed)}.")
    times = start_times(tuple(site.prefix for site in sites), start, duration, timestamps, length)
    series = []
    for site in sites:
        gps, gps_ns = times[site.prefix]
        rng = np.random.default_rng([*seeds, *site.prefix.encode()])
        with np.errstate(over="ignore", invalid="ignore"):
            data = white_noise(rng, (len(gps), n_bins), length, floors[site.prefix], window)
        data = single(data, "sqrt_sx", "the noise")
        series.append(SFTSeries.of(site, gps, gps_ns, data, window))
    sfts = SFTs(tuple(series), length, first)
    signals = _listed(signals)
    return inject(sfts, signals, ephemeris) if signals else sfts


@host("use jfstat.add_signal with prepared data there", ephemeris=kinds.ephemeris)
def inject(sfts: SFTs, signals: Signals, ephemeris: EphemerisLike = "DE405") -> SFTs:
    """Add signals to SFTs; the given SFTs are not changed.

    Parameters
    ----------
    sfts : SFTs
        SFTs to add signals to. Their windows are applied to the signals; an unknown window is taken as rectangular.
    signals : sequence of (Doppler, Amplitude) or (Doppler, Amplitude, TransientWindow)
        Isolated sources or binaries; those with a window are transient. A Doppler without reference time refers to the
        start of the data.
    ephemeris : str, two paths or Ephemeris
        See `load_ephemeris`.

    Returns
    -------
    SFTs
        New SFTs with the signals.

    Raises
    ------
    TypeError
        If `signals` is not a sequence.
    ValueError
        If a signal is not a pair of one Doppler and one Amplitude, or these and a TransientWindow; its frequency at the
        source lies outside the SFTs' band during the data; its window lies wholly before or after the SFTs; it is too
        strong for complex64; the SFTs are not in order; or a signal is traced: `add_signal` works under jit and vmap.

    Examples
    --------
    >>> louder = jfstat.inject(sfts, [(point, amplitude)])
    >>> more = jfstat.prepare(louder, fmin=100.0, fmax=100.02, guard=0.3, sqrt_sx=4e-24)
    >>> float(jfstat.twoF(more, point) / jfstat.twoF(data, point)) > 2
    True
    """
    check_sfts(sfts)
    check_finite(sfts)
    signals = _listed(signals)
    f = sfts.frequencies
    signals = [_parts(signal) for signal in signals]
    for number, (doppler, amplitude, window) in enumerate(signals):
        batched = window is not None and window.t0.ndim
        if doppler.alpha.ndim or amplitude.h0.ndim or doppler.fkdot.ndim != 1 or batched:
            raise ValueError("signals must hold single sources: write stacks as a list of pairs.")
        if window is not None:
            check_within_sfts(window, sfts, f"signals[{number}]: the window")
        since = float(_source(doppler, sfts).middle) - float(_reference(doppler, sfts.start))
        half = 0.5 * (sfts.end - sfts.start)
        drifts = _drift_during(doppler.fkdot, since - half, since + half, doppler.model)
        low, high = (float(doppler.fkdot[0]) + float(x) for x in drifts)
        if doppler.model is not None:
            _check_model(doppler.model, since - half, since + half)
        if low < f[0] or high > f[-1]:
            raise ValueError(
                f"a signal at {low} to {high} Hz during the data lies outside the SFTs' band of "
                f"{f[0]} to {f[-1]} Hz: widen the band or move the signal."
            )
    epoch, end = sfts.start, sfts.end - sfts.start
    reach = 2 * MAX_DELAY
    tables = load_ephemeris(ephemeris, epoch - reach - 2 * SEGMENT, epoch + end + reach + 2 * SEGMENT, epoch)
    series = []
    for s in sfts:
        trajectory = detector_trajectory(s.site, tables, -reach, end + reach)
        data = s.data.astype(np.complex128)
        for doppler, amplitude, transient in signals:
            own = Bins(s.since(epoch), sfts.tsft, sfts.first_bin, sfts.n_bins, s.window)
            response = jnp.asarray(s.site.response)
            data += signal_bins(trajectory, response, _source(doppler, sfts), amplitude, own, epoch, transient)
        series.append(replace(s, data=single(data, "signals", "h0")))
    return SFTs(tuple(series), sfts.tsft, sfts.first_bin)


def check_within_sfts(window: TransientWindow, sfts: SFTs, words: str) -> None:
    """Raise a ValueError, which begins with words for the window, if it ends before the SFTs or begins after them."""
    first, *_, last = np.asarray(window.breaks)
    if last <= sfts.start or first >= sfts.end:
        raise ValueError(
            f"{words}, from GPS {first:.10g} to {last:.10g} s, holds no part of the SFTs, from GPS {sfts.start:.10g} "
            f"to {sfts.end:.10g} s: correct t0 and tau, or leave it out."
        )


_drift_during = jax.jit(drift_during)  # one program instead of one for each operation


def _check_model(model: PhaseModel, first: float, last: float) -> None:
    """Raise a ValueError unless a model is a phase, and finite between two times, s since the reference time."""
    model.check()
    if not np.isfinite(np.asarray(model.cycles(jnp.linspace(first, last, MODEL_TIMES)))).all():
        raise ValueError("the phase model of a signal is not finite during the data: make it so at all times.")


def _reference(doppler: Doppler, epoch: int) -> jax.Array:
    """Return the reference time of a signal, s since the epoch; by default the epoch."""
    return jnp.zeros(()) if doppler.reftime is None else doppler.reftime.since(epoch)


def _source(doppler: Doppler, sfts: SFTs) -> Source:
    """Return the source of a signal, with times since the start of the SFTs."""
    middle = jnp.asarray(0.5 * (sfts.end - sfts.start))
    return source(doppler, jnp.asarray(sfts.start, jnp.int64), _reference(doppler, sfts.start), middle)


def check_finite(sfts: SFTs) -> None:
    """Raise a ValueError if a bin is not finite."""
    for series in sfts:
        bad = np.any(~np.isfinite(series.data), axis=1)
        refuse_bad_sfts(series.detector, series.gps, bad, "bins that are not finite: leave it out")


def single(data: np.ndarray, name: str, what: str) -> np.ndarray:
    """Return bins in complex64, the precision of SFTs; raise a ValueError if they are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = data.astype(np.complex64, copy=False)
    if not np.isfinite(single).all():
        raise ValueError(f"{name}: bins are too large for SFTs' single precision: lower {what}.")
    return single


def _parts(signal: Any) -> tuple[Doppler, Amplitude, TransientWindow | None]:
    """Return Doppler, Amplitude and window (or None) of a signal; raise a ValueError if it is not a signal."""
    try:
        doppler, amplitude, *rest = signal
        window = None if not rest else rest[0]
        good = isinstance(doppler, Doppler) and isinstance(amplitude, Amplitude) and len(rest) < 2
        good = good and (window is None or isinstance(window, TransientWindow))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"signals must be pairs (Doppler, Amplitude), or with a TransientWindow, not {signal!r}: write "
            "[(doppler, amplitude)]."
        )
    return doppler, amplitude, window


def _listed(signals: Signals) -> list[Any]:
    try:
        return list(signals)
    except TypeError:
        raise TypeError(f"signals must be a list of pairs (Doppler, Amplitude), not {signals!r}.") from None


def _floors(names: tuple[str, ...], sqrt_sx: Any) -> dict[str, float]:
    """Return the noise floor by detector; 0 for no noise."""
    if sqrt_sx is None or (is_number(sqrt_sx) and float(sqrt_sx) == 0):
        return dict.fromkeys(names, 0.0)
    return {name: float(x or 0.0) for name, x in zip(names, given_sqrt_sx(names, sqrt_sx), strict=True)}


def white_noise(
    rng: np.random.Generator, shape: tuple[int, ...], tsft: float, sqrt_sx: float, window: str
) -> np.ndarray:
    """Draw SFTs of white Gaussian noise, complex64 of a shape (n_sfts, n_bins): bins of variance Tsft S / 2."""
    n_sfts, n_bins = shape
    sigma = sqrt_sx * np.sqrt(tsft / 4)
    if window == "rectangular" or sqrt_sx == 0:
        data = np.empty((n_sfts, n_bins), np.complex64)
        for row in data:
            row[:] = sigma * rng.standard_normal(2 * n_bins).view(np.complex128)
        return data
    # a window correlates neighbouring bins: generate the noise in the time domain, with spare bins at the edges
    spare = 64
    n = n_bins + 2 * spare
    samples = window_samples(window, n)
    data = np.empty((n_sfts, n_bins), np.complex64)
    for row in data:
        x = rng.standard_normal(2 * n).view(np.complex128) * samples
        row[:] = sigma / np.sqrt(n) * np.fft.fft(x)[spare : spare + n_bins]
    return data
