"""Keep the toplist of a search: the loudest values of all, the values above a threshold, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jfstat.lines.doppler import LineBands
from jfstat.maths.arrays import LEAST
from jfstat.statistic.linerobust import LineCut
from jfstat.validation import fits_float32, is_whole, shown

FIRST_KEPT = 1024
"""Number of values first asked for from a batch if only a threshold limits them; more are asked for if all exceed
it."""


def checked_threshold(threshold: float | None) -> float | None:
    """Return the threshold of a search; raise a ValueError unless it is None or a number that a float32 can be."""
    if threshold is not None and not fits_float32(threshold):
        raise ValueError(
            f"threshold must be a finite number or None, not {shown(threshold)}: give a value of 2F, or what the table "
            "has."
        )
    return threshold


class Peaks(NamedTuple):
    """Values of 2F that are kept, loudest first.

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


@dataclass(frozen=True)
class Toplist:
    """Rule for which values to keep: at most the `top` loudest, and none below `threshold`; one of the two may be None.

    Parameters
    ----------
    top : int or None
    threshold : float or None
    lines : LineCut or None
        If given, values whose log10BSGL is below its threshold are not kept.
    bands : LineBands or None
        If given, values that these known lines affect are not kept.

    Raises
    ------
    ValueError
        If both are None or one is out of range.
    """

    top: int | None
    threshold: float | None
    lines: LineCut | None = None
    bands: LineBands | None = None

    def __post_init__(self) -> None:
        top, threshold = self.top, self.threshold
        if top is None and threshold is None:
            raise ValueError("top and threshold are both None: give one, or everything would be kept.")
        if top is not None and (not is_whole(top) or top < 1):
            raise ValueError(f"top must be a whole number of at least 1, not {top!r}: say how many candidates to keep.")
        checked_threshold(threshold)
        # plain numbers, which JSON can hold
        object.__setattr__(self, "top", None if top is None else int(top))
        object.__setattr__(self, "threshold", None if threshold is None else float(threshold))

    def merged(self, first: Peaks, second: Peaks) -> Peaks:
        """Return the peaks to keep of two sets.

        Equal values are in the order of template and frequency, and a peak that is in both sets counts once, so the
        result of merging many sets does not depend on the order.
        """
        both = Peaks(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
        if self.threshold is not None:
            both = Peaks(*(x[both.twoF >= self.threshold] for x in both))
        order = np.lexsort((both.frequency, both.template, -both.twoF))
        _, once = np.unique((both.template << 32) + both.frequency, return_index=True)
        order = order[np.isin(order, once)] if len(once) < len(order) else order
        return Peaks(*(x[order[: self.top]] for x in both))

    def first_asked(self, n_values: int, spare: int = 0) -> int:
        """Return how many of a batch's values to ask the device for first: the top and `spare` more, or `FIRST_KEPT`
        without top."""
        return min(FIRST_KEPT if self.top is None else self.top + spare, n_values)

    def overflows(self, twoF: np.ndarray, asked: int, n_values: int) -> bool:
        """Return whether a batch may have more values to keep than the device was asked for.

        Parameters
        ----------
        twoF : (asked,) ndarray
            The loudest values of the batch, loudest first.
        asked, n_values : int
            How many values the device was asked for, and how many the batch has.
        """
        if asked >= n_values:
            return False
        if self.top is None:
            return bool(twoF[-1] >= self.threshold)
        # more may be equal to the last of the top than were asked for to tell which of them to keep
        return asked > self.top and bool(twoF[-1] == twoF[self.top - 1] > LEAST)
