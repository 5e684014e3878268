"""SFTs from a strain time series in memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from jfstat import kinds
from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DetectorLike, get_detector
from jfstat.public import host
from jfstat.sfts.container import SFTs
from jfstat.signal.times import TimeLike
from jfstat.strain.making import Conditioning, Making, checked_starts, sfts_of
from jfstat.strain.strain import StrainArray
from jfstat.validation import DurationLike, FrequencyLike, gps_seconds, seconds

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


@host(timestamps=kinds.sequence)
def sfts_from_strain(
    series: TimeSeries | tuple[ArrayLike, TimeLike, DurationLike],
    detector: DetectorLike | None = None,
    tsft: DurationLike = 1800,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    timestamps: Sequence[TimeLike] | None = None,
    conditioning: Conditioning | None = None,
) -> SFTs:
    """Make SFTs from one detector's strain.

    SFTs are ``dt * DFT / rms(window)``, phases referred to each SFT's start. They do not overlap and start at whole GPS
    seconds. Stretches of samples that are masked or not finite are gaps; after a gap the next SFT starts at the first
    whole second.

    Parameters
    ----------
    series : gwpy.timeseries.TimeSeries or (array, t0, dt)
        Real strain; any object with ``value``, ``t0`` and ``dt`` is accepted. In a tuple, `t0` is the GPS time of the
        first sample and `dt` the spacing, s. The rate must be a whole number of Hz, with samples on whole GPS seconds.
    detector : str or Detector, optional
        Prefix, such as ``"H1"``, or a user's own detector. None takes it from the series' ``channel`` or ``name``, such
        as ``"H1:GDS-CALIB_STRAIN"``.
    tsft : float or Quantity
        Length of an SFT, s, a whole number of samples.
    fmin, fmax : float or Quantity, optional
        Band, Hz: bins from fmin on and below fmax. By default from zero to the Nyquist frequency.
    timestamps : sequence of int or Time, optional
        GPS start times of the SFTs, whole seconds. By default as many SFTs as fit, one after the other.
    conditioning : Conditioning, optional
        Window, high-pass filter and gating; by default a Tukey window alone.

    Returns
    -------
    SFTs

    Raises
    ------
    TypeError
        If `series` is neither a TimeSeries nor (array, t0, dt), or `conditioning` is not a Conditioning.
    ValueError
        If an argument is out of range, no SFT fits, there are no data at one of the `timestamps`, or the detector is
        neither given nor named by the series, or differs from the one that the series names.

    Examples
    --------
    >>> strain = np.random.default_rng(0).standard_normal(256 * 3600)
    >>> jfstat.sfts_from_strain((strain, start, 1 / 256), detector='H1', tsft=1800, fmin=50, fmax=60)
    SFTs of H1
      SFTs    2 of H1, 1800 s each
      span    GPS 1167458304 to 1167461904, 0.0417 d
      band    50 to 59.99944444 Hz, 18000 bins
      memory  288 kB
    """
    x, t0, dt = _unpack(series)
    site = _site(series, detector)
    rate = round(1 / dt) if dt > 0 else 0
    if rate < 1 or abs(rate * dt - 1) > 1e-12:
        raise ValueError(
            f"the samples' spacing must be 1/rate with a whole rate in Hz, not {dt} s: resample the series."
        )
    making = Making.of(rate, tsft, fmin, fmax, conditioning)
    # index of the first sample, counted from a whole second
    second = math.floor(t0)
    first = round((t0 - second) * rate)
    if abs((t0 - second) - first / rate) > TIME_TOLERANCE:
        raise ValueError(f"no sample of the series from GPS {t0!r} on lies on a whole second: resample the series.")
    starts = None if timestamps is None else checked_starts(timestamps, making.tsft)
    return sfts_of(StrainArray(site, second, rate, x, first), making, starts)


def _unpack(series: Any) -> tuple[np.ndarray, float, float]:
    """Return samples, GPS time of the first one, and spacing in s."""
    parts = [series.value, series.t0, series.dt] if all(hasattr(series, k) for k in ("value", "t0", "dt")) else series
    if not isinstance(parts, (list, tuple)) or len(parts) != 3:
        raise TypeError(f"series must be a GWpy TimeSeries or (array, t0, dt), not {type(series).__name__}.")
    masked = np.ma.is_masked(parts[0])
    x = np.ma.asarray(parts[0]) if masked else np.asarray(parts[0])
    if x.ndim != 1 or x.dtype.kind not in "fiu":
        raise ValueError(f"the series must hold real samples in one dimension, not {x.dtype} of shape {x.shape}.")
    if masked:  # these samples are gaps
        x = np.ma.filled(x.astype(np.float64), np.nan)
    return x, gps_seconds(parts[1], "t0"), seconds(parts[2], "dt")


def _site(series: Any, detector: DetectorLike | None) -> Detector:
    """Return the detector that was given or that the series names; these must not contradict each other."""
    named = next(filter(None, (channel_prefix(getattr(series, key, None)) for key in ("channel", "name"))), None)
    if detector is None:
        if named is None:
            raise ValueError(
                "detector is missing, and the series names none by its channel or name: give a prefix such as 'H1'."
            )
        return get_detector(named)
    site = get_detector(detector)
    if named is not None and site.prefix != named:
        raise ValueError(f"detector is {site.prefix}, but the series is of {named}: leave detector out, or correct it.")
    return site


def channel_prefix(channel: object) -> str | None:
    """Return the detector's prefix in a channel's name, such as ``L1:GDS-CALIB_STRAIN``; None if it has none."""
    found = re.match(r"([A-Z]\d):", "" if channel is None else str(channel))
    return None if found is None else found[1]
