"""Compute the line-robust statistic log10BSGL, which a disturbance in a single detector does not raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jfstat.statistic.linerobust import LinePrior

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def bsgl_column(twoF: ArrayLike, twoF_per_detector: ArrayLike, prior: LinePrior) -> dict[str, np.ndarray]:
    """Return the column ``log10BSGL`` of a table by its name, or no column for a single detector; see `log10_bsgl`.

    For data with segments, values of 2F are sums over the segments.
    """
    return {"log10BSGL": log10_bsgl(twoF, twoF_per_detector, prior)} if np.shape(twoF_per_detector)[-1] > 1 else {}


def log10_bsgl(twoF: ArrayLike, twoF_per_detector: ArrayLike, prior: LinePrior) -> np.ndarray:
    """Return log10 of the odds of a signal against either Gaussian noise or a line in one of the detectors.

    ln B = F - ln(exp(C) + sum_X p_X exp(F_X)), F = 2F/2, C = F*_0 - ln(1 + o), p_X = o_X/(1 + o), o = sum of the o_X
    (Keitel, Prix, Papa, Leaci & Siddiqi 2014, Phys. Rev. D 89, 064023; LALSuite: XLALCreateBSGLSetup and
    XLALComputeBSGL with the logarithmic correction, for one segment).

    Parameters
    ----------
    twoF : (...) array_like
        2F of all detectors together.
    twoF_per_detector : (..., D) array_like
        2F of each detector alone. D must be at least 2, as in LALSuite: a single detector cannot distinguish lines from
        signals.
    prior : LinePrior
        Transition scale F*_0 and prior odds o_X of lines.

    Returns
    -------
    (...) float64
        log10 of the odds; NaN where a value of 2F is NaN.

    Raises
    ------
    ValueError
        If there is only one detector, the shapes do not fit, or the prior is for another number of detectors, has
        negative odds or leaves no alternative to a signal.
    """
    total, each = np.asarray(twoF, np.float64), np.asarray(twoF_per_detector, np.float64)
    if each.ndim == 0 or each.shape[:-1] != total.shape:
        raise ValueError(
            f"twoF_per_detector has shape {each.shape}, not {(*total.shape, 'D')}: give one value for each detector."
        )
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        return prior.log10_odds(total, list(np.moveaxis(each, -1, 0)), np)
