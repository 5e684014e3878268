"""Start times of SFTs from a start and a duration, or from timestamps of each detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jfstat.signal.times import BILLION, LATEST, TimeLike, gps_time
from jfstat.validation import DurationLike, float64_of, refuse_rounded, seconds

MOST_SFTS = 1e8
"""Largest number of SFTs, 5000 years of 1800 s; more are taken for a mistake."""
TimestampsLike = ArrayLike | Mapping[str, ArrayLike]
"""Start times, GPS s or pairs (s, ns): one sequence for all detectors, or a mapping from detectors to sequences."""


def start_times(
    names: Sequence[str],
    start: TimeLike | None,
    duration: DurationLike | None,
    timestamps: TimestampsLike | None,
    tsft: float,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return whole seconds and nanoseconds of the SFTs' start times, by detector: (n,) int64 each.

    Parameters
    ----------
    names : sequence of str
    start, duration, timestamps
        See `jfstat.observation`.
    tsft : float
        Length of an SFT, s.

    Raises
    ------
    ValueError
        If times are missing, not numbers, or so close that SFTs overlap.
    """
    if timestamps is None:
        if start is None or duration is None:
            raise ValueError("start and duration are missing: give both, or timestamps.")
        length = seconds(duration, "duration")
        if length < tsft:
            raise ValueError(f"duration is shorter than one SFT of tsft={tsft:g} s: give at least that.")
        if length / tsft > MOST_SFTS:
            raise ValueError(
                f"duration must hold at most {MOST_SFTS:g} SFTs of tsft={tsft:g} s, not {length / tsft:g}."
            )
        count = int(length // tsft)
        times: dict[str, Any] = dict.fromkeys(names, float(gps_time(start, "start")) + tsft * np.arange(count))
    elif isinstance(timestamps, Mapping):
        if set(timestamps) != set(names):
            raise ValueError(f"timestamps are of {list(timestamps)}, detectors of {list(names)}: give the same ones.")
        times = {name: _array(timestamps[name], name) for name in names}
    else:
        times = dict.fromkeys(names, _array(timestamps, "all detectors"))
    split = {}
    for name, t in times.items():
        gps, gps_ns = _split(t)
        if gps is None or gps_ns is None:
            raise ValueError(
                f"timestamps of {name} must be a sequence of GPS times in s, or of pairs (s, ns): give finite ones, "
                f"up to {LATEST:g} s."
            )
        if np.any(np.diff(gps) + 1e-9 * np.diff(gps_ns) < tsft - 1e-6):
            raise ValueError(f"timestamps of {name} must increase by at least tsft={tsft:g} s: SFTs must not overlap.")
        split[name] = gps, gps_ns
    if timestamps is not None:
        _check_within(split, start, duration, tsft)
    return split


def _check_within(
    times: Mapping[str, tuple[np.ndarray, np.ndarray]],
    start: TimeLike | None,
    duration: DurationLike | None,
    tsft: float,
) -> None:
    """Raise a ValueError if SFTs at given times are not within a start and duration that are given too."""
    low = -np.inf if start is None else float(gps_time(start, "start"))
    first = min(gps[0] + 1e-9 * gps_ns[0] for gps, gps_ns in times.values()) if start is None else low
    high = np.inf if duration is None else first + seconds(duration, "duration")
    for name, (gps, gps_ns) in times.items():
        own = gps + 1e-9 * gps_ns
        if own[0] < low - 1e-6 or own[-1] + tsft > high + 1e-6:
            raise ValueError(
                f"timestamps of {name} have SFTs that are not between start and start + duration: leave start and "
                "duration out, or correct them."
            )


def _array(times: object, whose: str) -> np.ndarray:
    """Return times as an array of numbers; integers stay integers."""
    refuse_rounded(times, f"timestamps of {whose}")
    values = float64_of(times, f"timestamps of {whose}", "s")
    given = np.asarray(times)
    return given if given.dtype.kind in "iu" else values


def _split(times: np.ndarray) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    """Return whole seconds and nanoseconds, (n,) int64, of GPS seconds or pairs (s, ns).

    The result is (None, None) if the times are neither.
    """
    if times.ndim == 2 and times.shape[1] == 2 and times.dtype.kind in "iu":
        gps, gps_ns = times.T
        possible = (gps >= -LATEST) & (gps <= LATEST) & (gps_ns >= 0) & (gps_ns < BILLION)
        return (gps.astype(np.int64), gps_ns.astype(np.int64)) if len(gps) and possible.all() else (None, None)
    t = np.asarray(times, float)
    if t.ndim != 1 or len(t) == 0 or not (np.abs(t) <= LATEST).all():  # nor is NaN
        return None, None
    gps = np.floor(t + 5e-10).astype(np.int64)
    return gps, np.round(np.maximum(t - gps, 0) * 1e9).astype(np.int64)
