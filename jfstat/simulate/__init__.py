"""Simulated signals and noise, and SFTs made from these."""
