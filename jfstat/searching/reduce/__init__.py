"""Reduce all values of 2F to the loudest, a histogram, and the loudest of each sub-band."""
