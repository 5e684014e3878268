"""Random numbers of simulated noise: others for each detector, stretch of time and band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def random_numbers(seeds: Sequence[int], detector: str, gps: np.ndarray, first_bin: int = 0) -> np.random.Generator:
    """Return a generator that follows from seeds and from the SFTs that get the numbers.

    Stretches of data that are simulated one by one are often joined: with the same numbers in each, their noise would
    add up like a signal.

    Parameters
    ----------
    seeds : sequence of int
    detector : str
    gps : (n,) int64 ndarray
        Start times of the SFTs, GPS s, of which the first counts.
    first_bin : int
        Of the SFTs.
    """
    return np.random.default_rng([*seeds, *detector.encode(), first_bin, *(abs(int(t)) for t in gps[:1])])
