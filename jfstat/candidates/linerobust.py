"""The line-robust statistic log10BSGL, which a disturbance in a single detector does not raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jfstat.statistic.linerobust import log10_odds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def log10_bsgl(
    twoF: ArrayLike, twoF_per_detector: ArrayLike, fstar0: float = -np.inf, olgx: ArrayLike | None = None
) -> np.ndarray:
    """log10 of the odds of a signal against either Gaussian noise or a line in one of the detectors.

    ln B = F - ln(exp(C) + sum_X p_X exp(F_X)), F = 2F/2, C = F*_0 - ln(1 + o), p_X = o_X/(1 + o), o = sum of the o_X
    (Keitel, Prix, Papa, Leaci & Siddiqi 2014, Phys. Rev. D 89, 064023; LALSuite: XLALCreateBSGLSetup and
    XLALComputeBSGL with the logarithmic correction, for one segment).

    Parameters
    ----------
    twoF : (...) array_like
        2F of all detectors together.
    twoF_per_detector : (..., D) array_like
        2F of each detector alone. D must be at least 2, as in LALSuite: in a single detector a line looks like a
        signal.
    fstar0 : float
        Transition scale F*_0. Below it the signal is compared with Gaussian noise, above it with lines; -inf compares
        it with lines only.
    olgx : (D,) array_like, optional
        Prior odds o_X of a line in each detector against Gaussian noise; 1/D each by default, as in LALSuite.

    Returns
    -------
    (...) float64
        NaN where a value of 2F is NaN.

    Raises
    ------
    ValueError
        If there is only one detector, the shapes do not fit, `fstar0` is NaN or +inf, odds are negative or not finite,
        or there is no alternative to a signal, because `fstar0` is -inf and all odds are 0.
    """
    total, each = np.asarray(twoF, np.float64), np.asarray(twoF_per_detector, np.float64)
    if each.ndim == 0 or each.shape[:-1] != total.shape:
        raise ValueError(
            f"twoF_per_detector has shape {each.shape}, not {(*total.shape, 'D')}: give one value for each detector."
        )
    n_detectors = each.shape[-1]
    odds = checked_odds(n_detectors, fstar0, olgx)
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        return log10_odds(total, np.moveaxis(each, -1, 0), fstar0, odds, np)


def checked_odds(n_detectors: int, fstar0: float, olgx: ArrayLike | None) -> tuple[float, ...]:
    """Prior odds of a line in each detector, 1/D each by default; arguments as for `log10_bsgl`.

    Raises
    ------
    ValueError
        As `log10_bsgl`.
    """
    if n_detectors < 2:
        raise ValueError(
            f"twoF_per_detector is of {n_detectors} detector(s), in which a line looks like a signal: give two or more."
        )
    odds = np.full(n_detectors, 1 / n_detectors) if olgx is None else np.asarray(olgx, np.float64)
    if odds.shape != (n_detectors,) or not np.all((odds >= 0) & np.isfinite(odds)):
        raise ValueError(f"olgx must be {n_detectors} finite odds of at least 0, one a detector, not {olgx!r}.")
    if np.isnan(fstar0) or fstar0 == np.inf:
        raise ValueError(f"fstar0 must be a number or -inf, not {fstar0!r}: give the scale at which lines take over.")
    if fstar0 == -np.inf and not odds.any():
        raise ValueError("olgx are all 0 and fstar0 is -inf, which leaves no alternative to a signal: raise one.")
    return tuple(odds.tolist())
