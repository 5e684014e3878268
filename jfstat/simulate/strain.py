"""SFTs made from a strain time series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from jfstat.geometry.detectors import DetectorLike, get_detector
from jfstat.public import public
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.windows import window_samples
from jfstat.times import TimeLike
from jfstat.validation import DurationLike, FrequencyLike, frequency, gps_integer, gps_seconds, seconds, sft_seconds

TIME_TOLERANCE = 2e-7
"""Largest offset of samples from whole GPS seconds, s: the rounding error of a GPS time in float64."""


class TimeSeries(Protocol):
    """Regularly sampled strain, such as a GWpy TimeSeries: samples, time of the first one, spacing."""

    @property
    def value(self) -> np.ndarray: ...
    @property
    def t0(self) -> TimeLike: ...
    @property
    def dt(self) -> DurationLike: ...


@public
def sfts_from_strain(
    series: TimeSeries | tuple[ArrayLike, TimeLike, DurationLike],
    detector: DetectorLike = "H1",
    tsft: DurationLike = 1800,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    window: str = "tukey:0.001",
    timestamps: Sequence[TimeLike] | None = None,
) -> SFTs:
    """Make the SFTs of one detector's strain: ``dt * DFT / rms(window)``, phases referred to each SFT's start.

    The SFTs do not overlap and start at whole GPS seconds. Stretches of samples that are not finite are gaps; after a
    gap the next SFT starts at the first whole second.

    The strain is not filtered. Detector data are orders of magnitude louder below 10 Hz than in the sensitive band and
    leak into it; high-pass them first, as lalpulsar_MakeSFTs does.

    Parameters
    ----------
    series : gwpy.timeseries.TimeSeries or (array, t0, dt)
        Real strain; any object with ``value``, ``t0`` and ``dt`` is accepted. In a tuple, `t0` is the GPS time of the
        first sample and `dt` the spacing, s. The rate must be a whole number of Hz, with samples on whole GPS seconds.
    detector : str or Detector
        Prefix, such as ``"H1"``, or one's own detector.
    tsft : float or Quantity
        Length of an SFT, s, a whole number of samples.
    fmin, fmax : float or Quantity, optional
        Band, Hz: bins from fmin on and below fmax. By default from zero to the Nyquist frequency.
    window : str
        ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``. The default is that of the LIGO-Virgo-KAGRA collaboration's
        SFTs (lalpulsar_MakeSFTDAG): its ends fall to zero, which keeps loud low frequencies from leaking into the
        band, and its taper of 1/1000 of the SFT loses hardly any signal.
    timestamps : sequence of int or Time, optional
        GPS start times of the SFTs, whole seconds. By default as many SFTs as fit, one after the other.

    Returns
    -------
    SFTs

    Raises
    ------
    TypeError
        If `series` is neither a TimeSeries nor (array, t0, dt).
    ValueError
        If an argument is out of range, no SFT fits, or `timestamps` ask for data that are not there.

    Examples
    --------
    >>> strain = np.random.default_rng(0).standard_normal(256 * 3600)
    >>> jfstat.sfts_from_strain((strain, start, 1 / 256), detector='H1', tsft=1800, fmin=50, fmax=60)
    SFTs(H1: 2; 1800 s each, 50 to 59.9994 Hz, GPS 1167458304 to 1167461904)
    """
    x, t0, dt = _unpack(series)
    site = get_detector(detector)
    length = sft_seconds(tsft)
    rate = round(1 / dt) if dt > 0 else 0
    if rate < 1 or abs(rate * dt - 1) > 1e-12:
        raise ValueError(
            f"the samples' spacing must be 1/rate with a whole rate in Hz, not {dt} s: resample the series."
        )
    n = round(length * rate)
    if n < 1 or abs(n - length * rate) > 1e-6:
        raise ValueError(f"tsft={length:g} must be a whole number of samples of 1/{rate} s: choose another tsft.")
    # index of the sample at a whole second: offset + rate * second
    second = math.floor(t0)
    offset = round((second - t0) * rate)
    if abs((second - t0) - offset / rate) > TIME_TOLERANCE:
        raise ValueError(f"no sample of the series from GPS {t0!r} on lies on a whole second: resample the series.")

    low = 0.0 if fmin is None else frequency(fmin, "fmin")
    high = 0.5 * rate if fmax is None else frequency(fmax, "fmax")
    if not 0 <= low < high <= 0.5 * rate:
        raise ValueError(f"fmin={low} and fmax={high} must fulfil 0 <= fmin < fmax <= {0.5 * rate} Hz (Nyquist).")
    bins = slice(int(np.floor(low * length + 1e-6)), int(np.ceil(high * length - 1e-6)))
    if bins.stop <= bins.start:
        raise ValueError(
            f"the band from fmin={low} to fmax={high} Hz holds no bin of width {1 / length:g} Hz: widen it."
        )

    if timestamps is None:
        starts = list(_starts(x, n, offset, rate))
        if not starts:
            raise ValueError(f"the series has no stretch of {length:g} s of finite samples: use a shorter tsft.")
    else:
        starts = _given(timestamps, x, n, offset - rate * second, rate, length)
    samples = window_samples(window, n)
    data = np.empty((len(starts), bins.stop - bins.start), np.complex64)
    for row, start in zip(data, starts, strict=True):
        row[:] = np.fft.rfft(x[start : start + n] * samples)[bins] / rate
    gps = second + (np.array(starts, np.int64) - offset) // rate
    return SFTs((SFTSeries.of(site, gps, np.zeros_like(gps), data, window),), length, bins.start)


def _unpack(series: Any) -> tuple[np.ndarray, float, float]:
    """Samples, GPS time of the first one, and spacing in s."""
    parts = [series.value, series.t0, series.dt] if all(hasattr(series, k) for k in ("value", "t0", "dt")) else series
    if not isinstance(parts, (list, tuple)) or len(parts) != 3:
        raise TypeError(f"series must be a GWpy TimeSeries or (array, t0, dt), not {type(series).__name__}.")
    x = np.asarray(parts[0])
    if x.ndim != 1 or x.dtype.kind not in "fiu":
        raise ValueError(f"the series must hold real samples in one dimension, not {x.dtype} of shape {x.shape}.")
    return x, gps_seconds(parts[1], "t0"), seconds(parts[2], "dt")


def _starts(x: np.ndarray, n: int, offset: int, rate: int) -> Iterator[int]:
    """First samples of as many SFTs as fit between the gaps, one after the other."""
    start = offset % rate
    while start + n <= len(x):
        bad = np.flatnonzero(~np.isfinite(x[start : start + n]))
        if len(bad) == 0:
            yield start
        behind = start + n if len(bad) == 0 else start + int(bad[-1]) + 1
        start = behind + (offset - behind) % rate


def _given(timestamps: Sequence[TimeLike], x: np.ndarray, n: int, origin: int, rate: int, tsft: float) -> list[int]:
    """First samples of SFTs at given times; `origin` is the index that a sample at GPS 0 would have."""
    gps = [gps_integer(t, "timestamps") for t in timestamps]
    if not gps or any(b - a < tsft for a, b in pairwise(gps)):
        raise ValueError(
            f"timestamps must increase by at least tsft={tsft:g} s and not be empty: SFTs must not overlap."
        )
    starts = [origin + rate * t for t in gps]
    for t, start in zip(gps, starts, strict=True):
        if start < 0 or start + n > len(x) or not np.isfinite(x[start : start + n]).all():
            raise ValueError(
                f"timestamps: the series lacks finite samples of all of GPS {t} to {t + tsft:g}: leave it out."
            )
    return starts
