"""Choose how wide the narrow data around candidates are, and which frequencies are covered in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.followup.batches import in_steps, narrow_nodes, programs_cost_more, reaches, too_many_nodes
from jfstat.followup.neighbourhood import REGION_BINS, Neighbourhood
from jfstat.signal.templates import Doppler

RATIO, REGION_RATIO, SHARED_RATIO = 2, 4, 64
"""Steps of the reach, as ratios: around candidates; in regions, which differ between candidates, so that larger steps
need fewer compilations; and in regions where programs cost more than what they compute."""
SHARED_NODES = 1 << 16
"""Largest number of nodes of narrow data that are as wide as `SHARED_RATIO` makes them."""


class Shared(NamedTuple):
    """What candidates have in common that are followed up by the same programs.

    Attributes
    ----------
    reach : float
        Reach of the narrow data, Hz.
    bins : float
        Largest offset of the frequency that programs compute, in units of 1/T.
    """

    reach: float
    bins: float


class Coverage(NamedTuple):
    """Reach and covered frequencies of a candidate's narrow data.

    Attributes
    ----------
    shared : Shared
    bins : float
        Largest covered offset of the frequency, in units of 1/T; what programs compute beyond it does not count.
    fewer : bool
        Whether less is covered than wanted, because the narrow data would be too large.
    """

    shared: Shared
    bins: float
    fewer: bool


def coverages(
    data: FstatData,
    points: Doppler,
    names: tuple[str, ...],
    swing: np.ndarray,
    along: np.ndarray,
    around: Neighbourhood,
) -> list[Coverage]:
    """Return the reach of narrow data and the frequencies covered in them, for each of a stack of candidates.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack of n templates.
    names : tuple of str
        Parameters to refine.
    swing, along : (n,) float64
        Swing and extent along the frequency of each candidate; see `Survey`.
    around : Neighbourhood
    """
    least, tspan = reaches(data, points), float(data.tspan)
    bins = around.frequency_bins(swing, along, tspan) if "freq" in names else np.zeros(len(swing))
    needed, in_regions = np.maximum(swing + bins / tspan, least), around.spread is not None
    reach = in_steps(needed, float(np.min(least)), REGION_RATIO if in_regions else RATIO)
    large = too_many_nodes(data, reach)
    room = np.floor(np.clip((least - swing) * tspan, 0.0, bins))
    reach, own = np.where(large, least, reach), np.where(large, room, bins)
    computed = own.copy()
    if programs_cost_more(data, len(swing)) and not np.all(large):
        # wider data and more frequencies for some, with one set of programs for all, whatever the candidates
        if in_regions and np.any(bins) and around.bins is None:
            computed[~large] = REGION_BINS[-1]
        wide = in_steps(needed, float(np.min(least)), SHARED_RATIO) if in_regions else reach
        small = ~large & (narrow_nodes(data, wide) <= SHARED_NODES)
        reach[small] = np.max(wide[small], initial=0.0)
    return [
        Coverage(Shared(float(a), float(c)), float(b), bool(few))
        for a, b, c, few in zip(reach, own, computed, large & (own < bins), strict=True)
    ]
