"""Compute the mean of 2F over segments, and amplitudes, at exactly given templates."""

from __future__ import annotations

import jax
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.tables import by_orbits
from jfstat.data.fstatdata import FstatData
from jfstat.searching.statistics.mean import exact_columns
from jfstat.signal.templates import Doppler
from jfstat.statistic.linerobust import LinePrior


def segment_columns(data: FstatData, points: Doppler, prior: LinePrior) -> dict[str, np.ndarray]:
    """Return the columns of `MeanTwoF` and its details at a stack of n templates, (n,) float64 each.

    Parameters
    ----------
    data : FstatData
        Data with segments.
    points : Doppler
        NumPy leaves (n, ...); asini = 0 means no orbit.
    prior : LinePrior
    """
    details, n = Details(line_prior=prior), len(points.alpha)
    columns: dict[str, np.ndarray] = {}
    for rows, own in list(by_orbits(points)) or [(np.arange(0), points)]:
        mine = jax.tree.map(lambda x, rows=rows: x[rows], own)
        for name, x in exact_columns(data, mine, details).items():
            columns.setdefault(name, np.full(n, np.nan))[rows] = x
    return columns
