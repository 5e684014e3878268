"""Prepare SFTs for the statistic: noise weights, band series, timing, and data narrowed around one template."""
