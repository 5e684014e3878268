"""The segments' templates that are nearest to those of a part of the bank, and where sums find their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jfstat.banks.coherent import Group, Nearest
from jfstat.banks.space import Templates
from jfstat.data.fstatdata import FstatData
from jfstat.data.workers import cores, in_order
from jfstat.statistic.backends.coherentbands import BITS, HALF_PIECE, Lookup
from jfstat.times import GPSTime


class Located(NamedTuple):
    """What each segment needs for a range of the bank.

    Attributes
    ----------
    lookup : Lookup
        Of all templates of the range, NumPy arrays; rows are counted from the first segment's first template on.
    templates : list of Templates
        Of each segment's lattice.
    change : float
        Largest change of a shift from one bin of the band to the next, in bins.
    furthest : float
        Upper limit of the shifts, in bins, at all frequencies of the band.
    """

    lookup: Lookup
    templates: list[Templates]
    change: float
    furthest: float

    @property
    def counts(self) -> list[int]:
        """Number of templates of each segment."""
        return [len(own.alpha) for own in self.templates]


def located(
    data: FstatData,
    group: Group,
    reftime: GPSTime,
    mismatch: float,
    fits: Callable[[int, float], bool] = lambda *_: True,
) -> Located | None:
    """The points of the segments' lattices that are nearest to a group of templates of the bank, on all cores.

    Parameters
    ----------
    data : FstatData
        With segments.
    group : Group
    reftime : GPSTime
        At which the spin-downs hold.
    mismatch : float
        Of the segments' lattices.
    fits : callable, optional
        Says of the number of templates and the largest shift of the first segments whether there is memory for their
        values. None is returned as soon as it says no.
    """
    fmax, dfreq = float(data.frequencies[-1]), float(data.dfreq)
    lookup = Lookup.empty(len(group.n), data.n_segments or 0)
    _ = group.pieces  # once, not in each thread

    def of_segment(i: int) -> tuple[Templates, float, float]:
        near: Nearest = group.nearest(data.observation.segment(i), reftime, fmax, mismatch)
        lookup.rows[:, i] = near.index
        per_bin = near.shift[:, 1] / fmax
        lookup.base[:, i] = np.rint((near.shift[:, 0] + per_bin * data.fmin) * (2**BITS / dfreq))
        lookup.step[:, i] = np.rint(per_bin * (HALF_PIECE * 2**BITS))
        furthest = float(np.max(np.sum(np.abs(near.shift), axis=1))) / dfreq
        return near.templates, float(np.max(np.abs(per_bin))), furthest

    found, n_coherent = Located(lookup, [], 0.0, 0.0), 0
    for i, (templates, change, furthest) in enumerate(in_order(of_segment, range(data.n_segments or 0), cores())):
        lookup.rows[:, i] += n_coherent
        n_coherent += len(templates.alpha)
        found.templates.append(templates)
        found = found._replace(change=max(found.change, change), furthest=max(found.furthest, furthest))
        if not fits(n_coherent, found.furthest):
            return None
    return found
