"""Simulated signals and noise, as SFTs."""
