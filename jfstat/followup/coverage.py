"""Choose how wide the narrow data around candidates are, and which frequencies are covered in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.followup.batches import in_steps, reaches, too_many_nodes
from jfstat.followup.neighbourhood import Neighbourhood
from jfstat.signal.templates import Doppler


class Coverage(NamedTuple):
    """Reach and covered frequencies of a candidate's narrow data.

    Attributes
    ----------
    reach : float
        Reach of the narrow data, Hz.
    bins : float
        Largest covered offset of the frequency, in units of 1/T.
    fewer : bool
        Whether less is covered than wanted, because the narrow data would be too large.
    """

    reach: float
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
    # regions differ between candidates: larger steps of the reach need fewer compilations
    ratio = 2 if around.spread is None else 4
    wanted = in_steps(np.maximum(swing + bins / tspan, least), float(np.min(least)), ratio)
    large = too_many_nodes(data, wanted)
    room = np.floor(np.clip((least - swing) * tspan, 0.0, bins))
    return [
        Coverage(float(a), float(b), bool(b < own)) if too_large else Coverage(float(w), float(own), False)
        for too_large, a, b, w, own in zip(large, least, room, wanted, bins, strict=True)
    ]
