"""Where detectors and sources are: ephemerides, delays, orbits, antenna patterns."""
