"""Compress the data around a batch of candidates."""

from __future__ import annotations

from dataclasses import replace

import jax

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, narrowed
from jfstat.data.narrowdata import NarrowData
from jfstat.followup.groups import in_groups
from jfstat.signal.templates import Doppler


@jit_with(NO_TRIALS, kept=True, static_argnames="at_once")
def focus(
    data: FstatData, points: Doppler, reach: float, plan: NarrowPlan, n: int | jax.Array, at_once: int
) -> NarrowData:
    """Return narrow data around the first n of a stack of N templates that fit the data, stacked.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack of N templates.
    reach : float
        Reach of the narrow data, Hz.
    plan : NarrowPlan
    n : () int32
    at_once : int, static
        Number of templates whose data are compressed together, a divisor of N.
    """

    def one(point: Doppler) -> NarrowData:
        # all candidates have the same observation: what follows puts it back
        return replace(narrowed(data, point, reach, plan), observation=None)

    return in_groups(jax.vmap(one), points, at_once, n)
