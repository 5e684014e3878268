"""Positions and motions of detectors and sources: ephemerides, delays, orbits, antenna patterns."""
