"""Physical constants and units. `scipy.constants` has them too, but takes 0.1 s to import."""

from __future__ import annotations

from math import pi

SPEED_OF_LIGHT = 299792458.0
"""Speed of light, m/s, exact."""
GRAVITATIONAL_CONSTANT = 6.6743e-11
"""Constant of gravitation, m^3/(kg s^2) (CODATA 2018)."""
ASTRONOMICAL_UNIT = 149597870700.0
"""Astronomical unit, m, exact (IAU 2012, resolution B2)."""
DAY = 86400.0
"""Length of a day, s."""
JULIAN_YEAR = 365.25 * DAY
"""Length of a Julian year, s."""
ARCSEC = pi / 648000.0
"""Arcsecond, rad."""
MAS_PER_YEAR = 1e-3 * ARCSEC / JULIAN_YEAR
"""Milliarcsecond a year, rad/s."""
PARSEC = ASTRONOMICAL_UNIT / ARCSEC
"""Parsec, m (IAU 2015, resolution B2)."""
