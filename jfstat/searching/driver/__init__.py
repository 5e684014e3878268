"""Divide a search into parts of the band and batches of templates, and compute them on devices."""
