"""Compute the F-statistic: 2F at one template, 2F at all frequencies of a band, amplitudes."""
