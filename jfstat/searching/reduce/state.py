"""What a search has found so far: the loudest values, a histogram of all, the loudest of each sub-band."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.searching.reduce.tally import HISTOGRAM_EDGES


class Peaks(NamedTuple):
    """Loudest values found, in falling order.

    Attributes
    ----------
    twoF : (k,) float32
    template : (k,) int64
        Index into the bank.
    frequency : (k,) int64
        Index into ``data.frequencies``.
    """

    twoF: np.ndarray
    template: np.ndarray
    frequency: np.ndarray


NO_PEAKS = Peaks(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))


class Subbands(NamedTuple):
    """The loudest of each sub-band of a part of the band; empty until the part was begun.

    Attributes
    ----------
    edges : (S + 1,) int64
        First frequency of each, counted from the part's first, and the end of the last.
    twoF : (S,) float32
        -inf where nothing was computed yet.
    """

    edges: np.ndarray
    twoF: np.ndarray

    def with_edges(self, edges: np.ndarray) -> Subbands:
        """The same, or, of a part just begun, with room for what will be found."""
        return self if len(self.edges) else Subbands(edges, np.full(len(edges) - 1, -np.inf, np.float32))


NO_SUBBANDS = Subbands(np.empty(0, np.int64), np.empty(0, np.float32))


class State(NamedTuple):
    """Where a search stands; whatever order or division its batches were done in, the end is the same.

    Attributes
    ----------
    done : int
        Jobs done, a job being a batch of templates on a part of the band.
    peaks : Peaks
    histogram : (H,) int64
        Values of 2F in each bin of `tally.HISTOGRAM_EDGES`.
    subbands : tuple of Subbands
        Of each part of the band.
    """

    done: int
    peaks: Peaks
    histogram: np.ndarray
    subbands: tuple[Subbands, ...]

    @property
    def n_twoF(self) -> int:
        """Values of 2F computed."""
        return int(self.histogram.sum())


def initial_state(n_parts: int) -> State:
    """Nothing done, nothing found."""
    histogram = np.zeros(len(HISTOGRAM_EDGES), np.int64)
    return State(0, NO_PEAKS, histogram, (NO_SUBBANDS,) * n_parts)


def merge_peaks(first: Peaks, second: Peaks, top: int | None, threshold: float | None) -> Peaks:
    """The loudest `top` of two sets at or above a threshold; equal values in the order of template and frequency.

    What is in both counts once.
    """
    both = Peaks(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    if threshold is not None:
        both = Peaks(*(x[both.twoF >= threshold] for x in both))
    order = np.lexsort((both.frequency, both.template, -both.twoF))
    _, once = np.unique((both.template << 32) + both.frequency, return_index=True)
    order = order[np.isin(order, once)] if len(once) < len(order) else order
    return Peaks(*(x[order[:top]] for x in both))
