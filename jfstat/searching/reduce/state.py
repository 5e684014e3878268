"""Hold what a search has found so far: the loudest values, a histogram of all, and the loudest of each sub-band."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np

from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.searching.reduce.toplist import NO_PEAKS, Peaks, Toplist

Interval = TypeVar("Interval")


class State(NamedTuple):
    """Results of some batches, which do not depend on the order or division in which they were searched.

    Attributes
    ----------
    done : int
        Number of batches; a batch counts once for each part of the band.
    peaks : Peaks
    histogram : (H,) int64
        Number of values of 2F in each bin of `tally.HISTOGRAM_EDGES`.
    subbands : dict of (int, int) to float
        Largest 2F in each sub-band where 2F was computed. A sub-band is given by the index of its first frequency in
        ``data.frequencies`` and the index after its last.
    """

    done: int
    peaks: Peaks
    histogram: np.ndarray
    subbands: dict[tuple[int, int], float]

    @property
    def n_twoF(self) -> int:
        """Number of values of 2F that were computed."""
        return int(self.histogram.sum())

    def joined(self, other: State, toplist: Toplist) -> State:
        """Return the state after the batches of both."""
        return State(
            self.done + other.done,
            toplist.merged(self.peaks, other.peaks),
            self.histogram + other.histogram,
            louder(self.subbands, other.subbands),
        )


NOTHING_FOUND = State(0, NO_PEAKS, np.zeros(len(HISTOGRAM_EDGES), np.int64), {})


def louder(first: dict[Interval, float], second: dict[Interval, float]) -> dict[Interval, float]:
    """Return the larger of two values for each sub-band."""
    return first | {key: max(twoF, first.get(key, -np.inf)) for key, twoF in second.items()}
