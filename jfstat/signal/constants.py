"""Physical constants and units. `scipy.constants` has them too, but takes 0.1 s to import."""

from __future__ import annotations

from math import pi

SPEED_OF_LIGHT = 299792458.0
"""m/s, exact."""
ASTRONOMICAL_UNIT = 149597870700.0
"""m, exact (IAU 2012, resolution B2)."""
DAY = 86400.0
"""s."""
JULIAN_YEAR = 365.25 * DAY
"""s."""
ARCSEC = pi / 648000.0
"""rad."""
PARSEC = ASTRONOMICAL_UNIT / ARCSEC
"""m (IAU 2015, resolution B2)."""
