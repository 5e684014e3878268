"""Detectable signal strengths: sensitivity by formula, and upper limits by injections into the data."""
