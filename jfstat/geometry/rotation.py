"""The rotation of the Earth: sidereal time, precession, nutation and the position of a detector.

The model is LALSuite's (lalpulsar/lib/LALBarycenter.c: XLALBarycenterEarth and XLALBarycenter). It takes UTC for UT1,
uses the leading terms of precession and nutation (Explanatory Supplement 3.212 and 3.225-2) and neglects polar motion.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import jax
import numpy as np

from jfstat.geometry.detector import Detector
from jfstat.maths.arrays import module_for
from jfstat.signal.constants import ARCSEC, DAY, SPEED_OF_LIGHT

Array = TypeVar("Array", jax.Array, np.ndarray)
GPS_OF_2000 = 630720013
"""GPS time of 2000-01-01 00:00:00 UTC, s."""
DAYS_PER_CENTURY = 36525.0
DEGREE = np.pi / 180.0
OBLIQUITY = 0.40909280422232891
"""Obliquity of the ecliptic at J2000, rad."""


def leap_seconds() -> tuple[np.ndarray, np.ndarray]:
    """Return the GPS times at which leap seconds start, and GPS - UTC from then on, s; both (n,) int64.

    Like LALSuite, this counts the leap second itself, 23:59:60, with the time after it.
    """
    import erfa

    table = erfa.leap_seconds.get()
    table = table[table["year"] >= 1981]
    gps_minus_utc = table["tai_utc"].astype(int) - 19
    dates = [datetime(int(y), int(m), 1) for y, m in zip(table["year"], table["month"], strict=True)]
    days = np.array([(date - datetime(1980, 1, 6)).days for date in dates])
    return days * 86400 + gps_minus_utc - 1, gps_minus_utc


def _seconds_since_2000(epoch: int | jax.Array, t: Array) -> tuple[Array, Array]:
    """Return seconds since 2000-01-01 00:00 on the UTC clock (taken for UT1) and on the GPS clock, shaped like `t`."""
    xp = module_for(epoch, t)
    starts, gps_minus_utc = map(xp.asarray, leap_seconds())
    which = xp.searchsorted((starts - epoch).astype(float), t, side="right") - 1
    offset = xp.where(which >= 0, gps_minus_utc[which], 0).astype(float)
    gps = xp.asarray(epoch - GPS_OF_2000).astype(float) + xp.asarray(t, float)
    return gps - (offset - 13), gps


def sidereal_time(epoch: int | jax.Array, t: Array) -> Array:
    """Return Greenwich mean sidereal time in rad, not reduced modulo 2 pi, shaped like `t` (s since GPS `epoch`)."""
    ut, _ = _seconds_since_2000(epoch, t)
    day = module_for(ut).floor(ut / DAY)
    midnight = (day - 0.5) / DAYS_PER_CENTURY  # centuries since J2000, at the last midnight
    now = (ut - 43200.0) / (DAY * DAYS_PER_CENTURY)
    since = (ut - day * DAY) / (DAY * DAYS_PER_CENTURY)
    at_midnight = 24110.54841 + midnight * (8640184.812866 + midnight * (0.093104 - midnight * 6.2e-6))
    rate = DAY * DAYS_PER_CENTURY + 8640184.812866 + 0.093104 * (now + midnight)
    rate = rate - 6.2e-6 * (now * now + now * midnight + midnight * midnight)
    return (at_midnight + since * rate) * np.pi / 43200.0 + 2 * np.pi * day  # continuous across midnight


def detector_offset(detector: Detector, epoch: int, t: np.ndarray) -> np.ndarray:
    """Return a detector's position relative to the Earth's centre, light-seconds, (n, 3), equatorial J2000 axes."""
    return offset_of(np.asarray(detector.location), epoch, t)


def offset_of(location: np.ndarray, epoch: int | jax.Array, t: Array) -> Array:
    """Return the vector to a `location`, (3,) m in the Earth-fixed frame: light-seconds, (n, 3), equatorial J2000 axes.

    LALSuite applies precession and nutation to the source. For every source, its projection on the source's direction
    equals the projection of the vector returned here. It is linear in the location. Epoch and times may be traced.
    """
    xp = module_for(epoch, t)
    x, y, z = location / SPEED_OF_LIGHT
    ut, gps = _seconds_since_2000(epoch, t)
    century = (ut - 43200.0) / (DAY * DAYS_PER_CENTURY)
    zeta = century * (2306.2181 + (0.30188 + 0.017998 * century) * century) * ARCSEC
    z_a = century * (2306.2181 + (1.09468 + 0.018203 * century) * century) * ARCSEC
    theta = century * (2004.3109 - (0.42665 + 0.041833 * century) * century) * ARCSEC

    days = (xp.floor(gps) - 43200.0) / DAY
    node, sun = (125.0 - 0.05295 * days) * DEGREE, (200.9 + 1.97129 * days) * DEGREE
    d_psi = (-0.0048 * xp.sin(node) - 4e-4 * xp.sin(sun)) * DEGREE
    d_eps = (0.0026 * xp.cos(node) + 2e-4 * xp.cos(sun)) * DEGREE
    sin_eps, cos_eps = np.sin(OBLIQUITY), np.cos(OBLIQUITY)

    longitude, equatorial = np.arctan2(y, x), np.hypot(x, y)
    nutated = sidereal_time(epoch, t) + d_psi * cos_eps + longitude
    u, v = equatorial * xp.cos(nutated - z_a), equatorial * xp.sin(nutated - z_a)
    u_nut, v_nut = equatorial * xp.cos(nutated), equatorial * xp.sin(nutated)
    sin_zeta, cos_zeta, sin_theta, cos_theta = xp.sin(zeta), xp.cos(zeta), xp.sin(theta), xp.cos(theta)
    axial = u * cos_theta + z * sin_theta
    return xp.stack(
        [
            axial * cos_zeta + v * sin_zeta + d_psi * (z * sin_eps + v_nut * cos_eps),
            -axial * sin_zeta + v * cos_zeta - u_nut * d_psi * cos_eps + z * d_eps,
            -u * sin_theta + z * cos_theta - u_nut * d_psi * sin_eps - v_nut * d_eps,
        ],
        axis=-1,
    )
