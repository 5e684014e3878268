"""Choose how wide the narrow data around candidates are, and which frequencies are covered in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.followup.batches import are_small, in_steps, programs_cost_more, reaches, too_many_nodes
from jfstat.followup.neighbourhood import REGION_BINS, Neighbourhood
from jfstat.signal.templates import Doppler

RATIO = 2
"""Step of the reach, as a ratio: candidates whose reaches are rounded up to the same one share programs."""
REGION_RATIO = 4
"""The same in regions of a follow-up, whose sizes differ more from candidate to candidate."""
SHARED_RATIO = 40
"""The same in such regions where compiling costs more than computing, and their least reach: most calls then need one
reach."""

BALL_BINS = 8.0
"""Largest offset of the frequency that is usually covered around candidates of a search over segments, in units of 1/T;
see `Neighbourhood.frequency_bins`."""
BALL_SWING = 2.5
"""About the largest usual `Survey.swing` of these candidates, in units of 1/T."""


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
        Sizes of the programs that follow the candidate up.
    bins : float
        Largest covered offset of the frequency, in units of 1/T; what programs compute beyond it does not count.
    fewer : bool
        Whether less is covered than wanted, because the narrow data would be too large.
    """

    shared: Shared
    bins: float
    fewer: bool


def usual(
    data: FstatData, least: np.ndarray, names: tuple[str, ...], around: Neighbourhood, in_regions: bool
) -> Shared | None:
    """Return what candidates share on an accelerator at least, so that most calls need the same programs.

    It is known before the candidates are surveyed. A call needs others if a region needs more, or if narrow data of
    that reach would be large. None where candidates need too different ones: without regions, if the data have no
    segments or the frequency is held.

    Parameters
    ----------
    data : FstatData
    least : (n,) float64
        Least reach of each candidate, Hz.
    names : tuple of str
        Parameters to refine.
    around : Neighbourhood
    in_regions : bool
        Whether candidates are in regions that a stage of a follow-up left.
    """
    if in_regions:
        return Shared(SHARED_RATIO * float(np.min(least)), REGION_BINS[-1] if "freq" in names else 0.0)
    if data.n_segments is None or "freq" not in names:
        return None
    bins = BALL_BINS if around.bins is None else around.bins
    needed = np.maximum((bins + BALL_SWING) / float(data.tspan), least)
    return Shared(float(np.max(in_steps(needed, float(np.min(least)), RATIO))), bins)


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
    tspan = float(data.tspan)
    wanted = around.frequency_bins(swing, along, tspan) if "freq" in names else np.zeros(len(swing))
    least = reaches(data, points)
    needed = np.maximum(swing + wanted / tspan, least)
    reach = in_steps(needed, float(np.min(least)), REGION_RATIO if around.in_regions else RATIO)
    # what would be too large gets the least reach, and the frequencies that this has room for
    large = too_many_nodes(data, reach)
    room = np.floor(np.clip((least - swing) * tspan, 0.0, wanted))
    reach, bins = np.where(large, least, reach), np.where(large, room, wanted)
    computed = bins
    if programs_cost_more(data, len(swing)):
        at_least = usual(data, least, names, around, around.in_regions)
        if at_least is not None:
            ratio = SHARED_RATIO if around.in_regions else RATIO
            wide = in_steps(np.maximum(needed, at_least.reach), float(np.min(least)), ratio)
            reach = np.where(~large & are_small(data, wide), wide, reach)
            if "freq" in names and around.bins is None:
                computed = np.where(large, bins, np.maximum(bins, at_least.bins))
        joined = ~large & are_small(data, reach)
        reach = np.where(joined, np.max(reach[joined], initial=0.0), reach)
    shared = [Shared(float(own), float(most)) for own, most in zip(reach, computed, strict=True)]
    fewer = large & (bins < wanted)
    return [Coverage(*own) for own in zip(shared, bins.tolist(), fewer.tolist(), strict=True)]
