"""The line-robust statistic, and the cut by it that a search can make for every value of 2F."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Array = TypeVar("Array", jax.Array, np.ndarray)


@dataclass(frozen=True)
class LineCut:
    """Values of 2F whose log10BSGL is below a threshold do not count; a static argument of compiled programs.

    Attributes
    ----------
    threshold, fstar0 : float
    odds : tuple of float
        See `log10_odds`.
    """

    threshold: float
    fstar0: float
    odds: tuple[float, ...]


def log10_odds(twoF: Array, each: Iterable[Array], fstar0: float, odds: Iterable[float], xp: ModuleType = jnp) -> Array:
    """log10 of the odds of a signal against Gaussian noise or a line in one of the detectors; traceable.

    See `jfstat.candidates.linerobust.log10_bsgl`, which checks its arguments.

    Parameters
    ----------
    twoF : (...) float
        2F of all detectors together.
    each : iterable of D (...) float
        2F of each detector alone.
    fstar0 : float
        Transition scale.
    odds : iterable of D float
        Prior odds of a line in each detector.
    xp : module
        jax.numpy or numpy, as the arrays are.
    """
    odds = tuple(odds)
    noise = xp.full_like(twoF, fstar0)
    lines = (0.5 * x + (math.log(o) if o > 0 else -math.inf) for x, o in zip(each, odds, strict=True))
    others = reduce(xp.logaddexp, lines, noise) - math.log1p(sum(odds))
    return (0.5 * twoF - others) / math.log(10)
