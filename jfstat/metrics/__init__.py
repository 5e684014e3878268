"""The parameter-space metric, the mismatch of two templates, and coordinates in which the metric is the identity."""
