"""The parameter-space metric, the mismatch of two templates, and coordinates in which a peak is round."""
