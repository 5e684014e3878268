"""Find refined candidates that ended on the same peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import plain_column
from jfstat.public import public
from jfstat.searching.statistics import statistic_of
from jfstat.validation import shown

if TYPE_CHECKING:
    from astropy.table import QTable

SAME_PEAK = 0.1
"""Largest squared distance, in standard deviations, between the ends of climbs that count as one peak."""


@public(refined=kinds.table)
def distinct(refined: QTable, statistic: str | None = None) -> QTable:
    """Return one row for each peak of a table from `refine`: the candidate with the highest 2F that ended on it.

    Two candidates ended on one peak if both converged and their parameters differ by less than a third of the standard
    deviation of the louder one, in every direction. Candidates that did not converge, and those without errors, stay.

    Parameters
    ----------
    refined : QTable
        Table from `refine`, or the last stages of a table from `follow_up`.
    statistic : str, optional
        Name of the column of 2F; by default as the table's meta says.

    Returns
    -------
    QTable
        The rows that stay, in their order, with the column ``n_merged``, the number of candidates that ended there.

    Raises
    ------
    TypeError, ValueError
        If `refined` is no such table, or has no such column.
    """
    names = Provenance.of(refined, "parameters", name="refined").parameters or ()
    meta = refined.meta or {}
    loud = statistic_of(meta).loudness(meta) if statistic is None else statistic
    if not isinstance(loud, str) or loud not in refined.colnames:
        raise ValueError(f"statistic must be a column of the table, not {shown(loud)}: give that of 2F.")
    if not names or not {"covariance", "converged"} <= set(refined.colnames):
        raise ValueError("refined lacks parameters, covariance or converged: give a table from jfstat.refine.")
    place = np.column_stack([plain_column(refined, name) for name in names])
    covariance, twoF = np.asarray(refined["covariance"]), np.asarray(refined[loud])
    converged = np.asarray(refined["converged"]) & np.isfinite(covariance).all(axis=(1, 2))
    first = np.arange(len(refined))
    waiting = [row for row in np.argsort(-twoF, kind="stable") if converged[row]]
    while waiting:
        leader, *rest = waiting
        off = place[rest] - place[leader]
        if "alpha" in names:
            i = names.index("alpha")
            off[:, i] = np.mod(off[:, i] + np.pi, 2 * np.pi) - np.pi
        scale = np.sqrt(np.diagonal(covariance[leader]))
        inverse = np.linalg.pinv(covariance[leader] / np.outer(scale, scale), hermitian=True)
        same = np.einsum("ki,ij,kj->k", off / scale, inverse, off / scale) < SAME_PEAK
        first[np.asarray(rest, int)[same]] = leader
        waiting = [row for row, own in zip(rest, same, strict=True) if not own]
    table: Any = refined[first == np.arange(len(refined))]
    table["n_merged"] = np.bincount(first, minlength=len(refined))[first == np.arange(len(refined))]
    return table
