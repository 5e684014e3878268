"""Simulated SFTs: Gaussian noise, with signals, and signals added to SFTs at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.detectors import get_detector
from jfstat.geometry.ephemeris import load_ephemeris
from jfstat.geometry.source import spin_drift
from jfstat.geometry.trajectory import SEGMENT, detector_trajectory
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.windows import window_samples
from jfstat.simulate.signals import signal_bins
from jfstat.templates import Amplitude, Doppler
from jfstat.validation import frequency, given_sqrt_sx, gps_time, seconds


def simulate_sfts(
    detectors: Sequence[str] | str,
    start: Any = None,
    duration: Any = None,
    fmin: Any = None,
    fmax: Any = None,
    tsft: Any = 1800,
    sqrt_sx: Any = 4e-24,
    signals: Iterable[tuple[Doppler, Amplitude]] = (),
    timestamps: Any = None,
    window: str = "rectangular",
    seed: int = 0,
    ephemeris: Any = "DE405",
) -> SFTs:
    """Simulate SFTs of Gaussian noise with signals.

    Parameters
    ----------
    detectors : str or sequence of str
        Prefixes, such as ``["H1", "L1"]``.
    start : int or Time
        GPS time of the first SFT, s. Not needed with `timestamps`.
    duration : float or Quantity
        Filled with as many whole SFTs as fit, one after the other, s. Not needed with `timestamps`.
    fmin, fmax : float or Quantity
        Band, Hz: bins from fmin on and below fmax.
    tsft : float or Quantity
        Length of an SFT, s.
    sqrt_sx : float, sequence, mapping or None
        Noise floor in 1/sqrt(Hz), one or one a detector in the order of `detectors`; None or 0 for no noise.
    signals : sequence of (Doppler, Amplitude)
        Signals to add. A Doppler without reference time refers to the start of the data.
    timestamps : sequence or mapping, optional
        GPS start times of the SFTs instead of `start` and `duration`, for gaps: a mapping of detectors to times, or one
        sequence for all detectors. Times are numbers, or pairs (seconds, nanoseconds) where a number is too coarse.
    window : str
        ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``; windowed data are normalised by the window's rms.
    seed : int
        Of the noise; each detector draws from a stream of its own, whatever the others.
    ephemeris : str or two paths
        See `load_ephemeris`.

    Returns
    -------
    SFTs

    Raises
    ------
    ValueError
        If an argument is out of range, SFTs overlap, or a signal lies outside the band.
    """
    names = (detectors,) if isinstance(detectors, str) else tuple(detectors)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"detectors must be different prefixes such as ['H1', 'L1'], not {detectors!r}.")
    for name in names:
        get_detector(name)
    floors = _floors(names, sqrt_sx)  # a sequence is in the order of the detectors as given
    names = tuple(sorted(names))
    length = seconds(tsft, "tsft")
    if length <= 0:
        raise ValueError(f"tsft must be positive, not {length}: give the length of an SFT in s.")
    low, high = frequency(fmin, "fmin"), frequency(fmax, "fmax")
    if not 0 <= low < high:
        raise ValueError(f"fmin={low} and fmax={high} must be ordered: give 0 <= fmin < fmax in Hz.")
    first = int(np.floor(low * length + 1e-6))
    n_bins = int(np.ceil(high * length - 1e-6)) - first
    try:
        seeds = [int(x) for x in np.atleast_1d(np.asarray(seed))]
        np.random.default_rng(seeds)
    except (TypeError, ValueError):
        raise ValueError(f"seed must be a whole number, not negative, or several, not {seed!r}.") from None
    times = _start_times(names, start, duration, timestamps, length)
    series = []
    for name in names:
        gps, gps_ns = times[name]
        rng = np.random.default_rng([*seeds, *name.encode()])
        data = _noise(rng, len(gps), n_bins, length, floors[name], window)
        series.append(SFTSeries(name, gps, gps_ns, data, window))
    sfts = SFTs(tuple(series), length, first)
    signals = _listed(signals)
    return inject(sfts, signals, ephemeris) if signals else sfts


def inject(sfts: SFTs, signals: Iterable[tuple[Doppler, Amplitude]], ephemeris: Any = "DE405") -> SFTs:
    """Add signals to SFTs; the SFTs given stay as they are.

    Parameters
    ----------
    sfts : SFTs
        Simulated or read from files. Windows are respected; an unknown one is taken as rectangular.
    signals : sequence of (Doppler, Amplitude)
        Isolated sources or binaries. A Doppler without reference time refers to the start of the data.
    ephemeris : str or two paths
        See `load_ephemeris`.

    Returns
    -------
    SFTs
        New ones.

    Raises
    ------
    ValueError
        If a signal is not a pair of one Doppler and one Amplitude, or its frequency, orbit and Earth's motion aside,
        lies outside the SFTs' band at the start or end of the data.
    """
    signals = _listed(signals)
    f = sfts.frequencies
    for pair in signals:
        try:
            doppler, amplitude = pair
            good = isinstance(doppler, Doppler) and isinstance(amplitude, Amplitude)
        except (TypeError, ValueError):
            good = False
        if not good:
            raise ValueError(f"signals must be pairs (Doppler, Amplitude), not {pair!r}: write [(doppler, amplitude)].")
        if doppler.alpha.ndim or amplitude.h0.ndim or doppler.fkdot.ndim != 1:
            raise ValueError("signals must hold single sources: write stacks as a list of pairs.")
        since = np.array([0.0, sfts.end - sfts.start]) - _reference(doppler, sfts.start)
        during = float(doppler.fkdot[0]) + np.asarray(spin_drift(doppler.fkdot, jnp.asarray(since)))
        if during.min() < f[0] or during.max() > f[-1]:
            raise ValueError(
                f"a signal at {during.min()} to {during.max()} Hz during the data lies outside the SFTs' band of "
                f"{f[0]} to {f[-1]} Hz: widen the band or move the signal."
            )
    epoch, end = sfts.start, sfts.end - sfts.start
    reach = 2 * MAX_DELAY
    tables = load_ephemeris(ephemeris, epoch - reach - 2 * SEGMENT, epoch + end + reach + 2 * SEGMENT, epoch)
    series = []
    for s in sfts:
        detector = get_detector(s.detector)
        trajectory = detector_trajectory(detector, tables, -reach, end + reach)
        data = s.data.astype(np.complex128)
        for doppler, amplitude in signals:
            reference = _reference(doppler, epoch)
            data += signal_bins(trajectory, jnp.asarray(detector.response), doppler, amplitude, s.since(epoch),
                                reference, sfts.tsft, sfts.first_bin, sfts.n_bins, s.window)  # fmt: skip
        series.append(SFTSeries(s.detector, s.gps, s.gps_ns, data.astype(np.complex64), s.window))
    return SFTs(tuple(series), sfts.tsft, sfts.first_bin)


def _reference(doppler: Doppler, epoch: int) -> float:
    """Reference time of a signal, s since the epoch; by default the epoch."""
    return 0.0 if doppler.reftime is None else float(doppler.reftime - epoch)


def _listed(signals: Any) -> list[Any]:
    try:
        return list(signals)
    except TypeError:
        raise ValueError(f"signals must be a list of pairs (Doppler, Amplitude), not {signals!r}.") from None


def _start_times(
    names: tuple[str, ...], start: Any, duration: Any, timestamps: Any, tsft: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Whole seconds and nanoseconds of the SFTs' start times, by detector."""
    if timestamps is None:
        if start is None or duration is None:
            raise ValueError("start and duration are missing: give both, or timestamps.")
        count = int(seconds(duration, "duration") // tsft)
        if count < 1:
            raise ValueError(f"duration is shorter than one SFT of {tsft:g} s: give at least that.")
        times = dict.fromkeys(names, gps_time(start, "start") + tsft * np.arange(count))
    elif isinstance(timestamps, Mapping):
        if set(timestamps) != set(names):
            raise ValueError(f"timestamps are of {sorted(timestamps)}, detectors of {list(names)}: give the same ones.")
        times = {name: np.asarray(timestamps[name]) for name in names}
    else:
        times = dict.fromkeys(names, np.asarray(timestamps))
    split = {}
    for name, t in times.items():
        if t.ndim == 2 and t.shape[1] == 2 and t.dtype.kind in "iu":
            gps, gps_ns = t[:, 0].astype(np.int64), t[:, 1].astype(np.int64)
            t = gps + 1e-9 * gps_ns
            good = np.all((gps_ns >= 0) & (gps_ns < 10**9))
        else:
            t = np.asarray(t, float)
            gps = np.floor(np.nan_to_num(t) + 5e-10).astype(np.int64)
            gps_ns, good = np.round(np.maximum(np.nan_to_num(t) - gps, 0) * 1e9).astype(np.int64), True
        if not good or t.ndim != 1 or len(t) == 0 or not np.isfinite(t).all():
            raise ValueError(f"timestamps of {name} must be a sequence of finite GPS times in s, or of pairs (s, ns).")
        if np.any(np.diff(t) < tsft - 1e-6):
            raise ValueError(f"timestamps of {name} must increase by at least tsft={tsft:g} s: SFTs must not overlap.")
        split[name] = gps, gps_ns
    return split


def _floors(names: tuple[str, ...], sqrt_sx: Any) -> dict[str, float]:
    """Noise floor by detector; 0 for none."""
    if sqrt_sx is None or (np.ndim(sqrt_sx) == 0 and not isinstance(sqrt_sx, Mapping) and float(sqrt_sx) == 0):
        return dict.fromkeys(names, 0.0)
    return {name: float(x or 0.0) for name, x in zip(names, given_sqrt_sx(names, sqrt_sx), strict=True)}


def _noise(rng: np.random.Generator, n_sfts: int, n_bins: int, tsft: float, sqrt_sx: float, window: str) -> np.ndarray:
    """SFTs of white Gaussian noise, (n_sfts, n_bins) complex64: bins of variance Tsft S / 2."""
    sigma = sqrt_sx * np.sqrt(tsft / 4)
    if window == "rectangular" or sqrt_sx == 0:
        data = np.empty((n_sfts, n_bins), np.complex64)
        for row in data:
            row[:] = sigma * rng.standard_normal(2 * n_bins).view(np.complex128)
        return data
    # a window correlates neighbouring bins: make the noise in time, with spare bins at the edges
    spare = 64
    n = n_bins + 2 * spare
    samples = window_samples(window, n)
    data = np.empty((n_sfts, n_bins), np.complex64)
    for row in data:
        x = rng.standard_normal(2 * n).view(np.complex128) * samples
        row[:] = sigma / np.sqrt(n) * np.fft.fft(x)[spare : spare + n_bins]
    return data
