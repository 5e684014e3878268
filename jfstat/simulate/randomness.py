"""Random numbers of simulated noise: others for each purpose, detector, stretch of time and band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfstat.sfts.container import SFTSeries


def random_numbers(seeds: Sequence[int], purpose: str, series: SFTSeries, first_bin: int = 0) -> np.random.Generator:
    """Return a generator that follows from seeds and from the SFTs that get the numbers.

    Stretches of data that are simulated one by one are often joined: with the same numbers in each, their noise would
    add up like a signal.

    Parameters
    ----------
    seeds : sequence of int
    purpose : str
        What the numbers are for: noise that is added to noise must not repeat it.
    series : SFTSeries
        The detector's SFTs, of which the start of the first one counts.
    first_bin : int
        Of the SFTs, where numbers belong to bins.
    """
    words = [len(purpose), *purpose.encode(), *series.detector.encode()]
    start = [abs(int(x)) for own in (series.gps, series.gps_ns) for x in own[:1]]
    return np.random.default_rng([*seeds, *words, first_bin, *start])
