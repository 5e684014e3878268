"""Compute the line-robust statistic, and cut by it for every value of 2F in a search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.validation import float64_of, plain_number, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array = TypeVar("Array", jax.Array, np.ndarray)


@dataclass(frozen=True)
class LinePrior:
    """Prior knowledge of lines that the line-robust statistic log10BSGL compares a signal with.

    See Keitel, Prix, Papa, Leaci & Siddiqi 2014, Phys. Rev. D 89, 064023, and LALSuite's XLALCreateBSGLSetup.

    Parameters
    ----------
    fstar0 : float
        Transition scale F*_0, no unit: below it a signal is compared with Gaussian noise, above it with lines; -inf
        compares it with lines only. ComputeFstatistic_v2's ``--Fstar0`` and, for a sum over segments, Weave's
        ``--lrs-Fstar0sc``. Noise alone has a mean F of 2 in each segment, so that 0, the default as in LALSuite, nearly
        always compares with lines. That costs some signals in Gaussian noise, over segments more than without. A scale
        that the loudest of all n values of a search rarely exceeds costs hardly any, such as
        ``scipy.stats.chi2.isf(0.1 / n, 4 * n_segments) / 2``.
    olgx : (D,) array_like, optional
        Prior odds of a line in each detector against Gaussian noise, in the order of the data's detectors; 1/D each by
        default, as in LALSuite.

    Raises
    ------
    ValueError
        If `fstar0` is no number, NaN or +inf, or `olgx` are no numbers.

    Examples
    --------
    >>> jfstat.LinePrior(fstar0=10.0, olgx=[0.1, 0.3])
    LinePrior(fstar0=10.0, olgx=(0.1, 0.3))
    """

    fstar0: float = 0.0
    olgx: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        scale, odds = plain_odds(self.fstar0, self.olgx)
        object.__setattr__(self, "fstar0", scale)
        object.__setattr__(self, "olgx", odds)

    def odds(self, n_detectors: int) -> tuple[float, ...]:
        """Return the prior odds of a line in each of some detectors.

        Raises
        ------
        ValueError
            If there is only one detector, the number of odds is another, or they leave no alternative to a signal.
        """
        return checked_odds(n_detectors, self.fstar0, self.olgx)

    def log10_odds(self, twoF: Array, each: Sequence[Array], xp: ModuleType = jnp) -> Array:
        """Return log10BSGL from 2F of all detectors together and of each alone; see `log10_odds`.

        Raises
        ------
        ValueError
            See `odds`.
        """
        return log10_odds(twoF, each, self.fstar0, self.odds(len(each)), xp)

    @property
    def meta(self) -> dict[str, float | list[float] | None]:
        """Entries for the prior in the meta of a table, by ComputeFstatistic_v2's names."""
        return {"Fstar0": self.fstar0, "oLGX": None if self.olgx is None else list(self.olgx)}


def checked_prior(line_prior: object, n_detectors: int | None = None) -> LinePrior:
    """Return the argument `line_prior` of a function, by default `LinePrior()`, which must fit so many detectors.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If it does not fit the detectors, or there is only one, for which it would have no effect.
    """
    prior = LinePrior() if line_prior is None else line_prior
    if not isinstance(prior, LinePrior):
        raise TypeError(f"line_prior must be a jfstat.LinePrior or None, not {shown(prior)}.")
    if n_detectors == 1 and line_prior is not None:
        raise ValueError("line_prior has no effect: log10BSGL needs several detectors, so leave it out.")
    if n_detectors is not None and n_detectors > 1:
        prior.odds(n_detectors)
    return prior


@dataclass(frozen=True)
class LineCut:
    """Cut that drops values of 2F whose log10BSGL is below a threshold; a static argument of compiled programs.

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
    """Return log10 of the odds of a signal against Gaussian noise or a line in one of the detectors; traceable.

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


def log10_odds_transient(
    twoF: jax.Array, each: jax.Array, fstar0: float, odds: Iterable[float], leading: bool = False
) -> jax.Array:
    """Return log10 of the odds of a signal against Gaussian noise, a line, or a line in one segment only; traceable.

    ln B = F - ln(exp(C) + sum_X p_X/2 [exp(F_X) + 1/N sum_l exp(F_Xl + (N - 1)/N F*_0)]), F, F_X sums over N segments l
    and the rest as in `log10_odds` (Keitel 2016, Phys. Rev. D 93, 084024, equation 23; LALSuite: XLALComputeBSGLtL).
    Half of the prior odds of a line in each detector are for lines in all segments, half for one in any single segment.

    Parameters
    ----------
    twoF : () float
        Sum over segments of 2F of all detectors together.
    each : (N, D) float
        2F of each segment and detector; -inf where a detector has no data, which then adds nothing.
    fstar0 : float
        Transition scale of the sum, N times the scale of a segment.
    odds : iterable of D float
    leading : bool
        Take only the largest term of the sum in the logarithm, as LALSuite does; B is then too large by up to the
        number of terms.
    """
    n_segments = each.shape[0]
    odds = jnp.asarray(tuple(odds))
    # jnp.log(0) is -inf without a warning; only its gradient, which is not taken here, is a problem
    log_prior = jnp.log(odds) - jnp.log1p(jnp.sum(odds)) - math.log(2)
    there = each > -jnp.inf
    persistent = log_prior + 0.5 * jnp.sum(jnp.where(there, each, 0.0), axis=0)
    one_segment = 0.0 if n_segments == 1 else fstar0 * (n_segments - 1) / n_segments
    transient = log_prior + 0.5 * each + one_segment - math.log(n_segments)
    gaussian = fstar0 - jnp.log1p(jnp.sum(odds))
    terms = jnp.concatenate([gaussian[None], persistent, transient.reshape(-1)])
    others = jnp.max(terms) if leading else jax.scipy.special.logsumexp(terms)
    return (0.5 * twoF - others) / math.log(10)


def plain_fstar0(fstar0: object) -> float:
    """Return the argument `fstar0` as a float.

    Raises
    ------
    ValueError
        If it is no number, NaN or +inf.
    """
    scale = plain_number(fstar0, "fstar0", "a number or -inf")
    if np.isnan(scale) or scale == np.inf:
        raise ValueError(f"fstar0 must be a number or -inf, not {scale!r}: give the scale at which lines take over.")
    return scale


def plain_odds(fstar0: object, olgx: object) -> tuple[float, tuple[float, ...] | None]:
    """Return the arguments `fstar0` and `olgx` as floats; None stays None for `olgx`.

    Raises
    ------
    ValueError
        If they are no numbers, or `fstar0` is NaN or +inf.
    """
    scale = plain_fstar0(fstar0)
    if olgx is None:
        return scale, None
    odds = _odds_given(olgx)
    if odds.ndim != 1:
        raise ValueError(f"olgx must be odds, one a detector, not {shown(olgx)}.")
    return scale, tuple(odds.tolist())


def _odds_given(olgx: object) -> np.ndarray:
    """Return numbers without a unit, of any shape, as float64."""
    return float64_of(olgx, "olgx")


def checked_odds(n_detectors: int, fstar0: float, olgx: ArrayLike | None) -> tuple[float, ...]:
    """Return the prior odds of a line in each detector, 1/D each by default; arguments as for `log10_bsgl`.

    Raises
    ------
    ValueError
        See `log10_bsgl`.
    """
    if n_detectors < 2:
        raise ValueError(
            f"twoF_per_detector is of {n_detectors} detector(s), in which a line looks like a signal: give two or more."
        )
    odds = np.full(n_detectors, 1 / n_detectors) if olgx is None else _odds_given(olgx)
    if odds.shape != (n_detectors,) or not np.all((odds >= 0) & np.isfinite(odds)):
        raise ValueError(f"olgx must be {n_detectors} finite odds of at least 0, one a detector, not {shown(olgx)}.")
    fstar0 = plain_fstar0(fstar0)
    if fstar0 == -np.inf and not odds.any():
        raise ValueError("olgx are all 0 and fstar0 is -inf, which leaves no alternative to a signal: raise one.")
    return tuple(odds.tolist())
