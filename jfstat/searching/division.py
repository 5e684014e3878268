"""Describe how a search is divided: parts of the band, groups of templates, batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Division(NamedTuple):
    """How a search is divided, known before any 2F is computed.

    Attributes
    ----------
    engine : str
        Name of the engine that computes 2F.
    batch_size : int
        Templates computed at a time; the last batch of a group is padded.
    groups : list of (int, int)
        Ranges of templates. Each batch lies within one.
    same_source : bool
        Whether all templates of a group have the same sky position and orbit, and share a resampled series.
    bands : list of (int, int)
        First frequency and number of frequencies of each part of the band.
    device_bytes : int
        Approximate memory needed on the device, data included.
    n_coherent : int or None
        For an interpolating search, number of templates computed in the segments, summed over all groups.
    """

    engine: str
    batch_size: int
    groups: list[tuple[int, int]]
    same_source: bool
    bands: list[tuple[int, int]]
    device_bytes: int
    n_coherent: int | None = None

    @property
    def batches(self) -> np.ndarray:
        """First template and number of templates of each batch, (n, 2) int64; each part of the band needs all
        batches."""
        size = self.batch_size
        cut = [
            np.stack([start, np.minimum(size, stop - start)], axis=-1)
            for first, stop in self.groups
            for start in [np.arange(first, stop, size)]
        ]
        return np.concatenate(cut)

    @property
    def n_jobs(self) -> int:
        """Number of batches, counted once for each part of the band."""
        return len(self.batches) * len(self.bands)

    def first_new(self, part: int) -> int:
        """Return the first frequency of a part of the band that the preceding part does not contain: parts may
        overlap."""
        first = self.bands[part][0]
        return first if part == 0 else max(first, sum(self.bands[part - 1]))
