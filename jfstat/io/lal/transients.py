"""Write the best windows of transient signals as ComputeFstatistic_v2's ``--outputTransientStats`` does."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.candidates.tables import AnyTable, parameter_columns
from jfstat.io.lal.candidates import comment_lines
from jfstat.public import public
from jfstat.signal.parameters import SKY, TRANSIENT_COLUMNS

if TYPE_CHECKING:
    from astropy.table import QTable

HEADER = (
    "%% Freq[Hz]            Alpha[rad]          Delta[rad]          fkdot[1]  fkdot[2]  fkdot[3]  t0_ML[s]    tau_ML[s]"
    "  maxTwoF     logBstat   t0_MP[s]        tau_MP[s]"
)
"""Header of a file of transient candidates (LALSuite: write_transientCandidate_to_fp)."""
HEADER_ALL = HEADER.partition("t0_ML")[0] + "t0[s]      tau[s]      twoF"
"""Header of a file of all windows."""


@public(found=kinds.table, path=kinds.path)
def write_transient_stats(found: QTable, path: str | os.PathLike) -> Path:
    """Write the best windows of transient signals as ComputeFstatistic_v2's ``--outputTransientStats``.

    Parameters
    ----------
    found : QTable
        With the columns of transient signals, from `search` with `Transient` or from `fstat_table`.
    path : str or path

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError, ValueError
        If `found` is no table, or lacks a column.
    """
    missing = [name for name in TRANSIENT_COLUMNS if name not in found.colnames]
    if missing:
        raise ValueError(f"found lacks the column {missing[0]!r} of transient signals: search for them first.")
    lines, starts = [*comment_lines(found.meta or {}), HEADER], _starts(found, "found")
    names = ("t0", "tau", "max_twoF", "log10BtSG", "t0_MP", "tau_MP")
    columns: Any = found
    values = (np.asarray(getattr(columns[name], "value", columns[name])) for name in names)
    t0, tau, twoF, bayes, t0_mp, tau_mp = values
    for i in range(len(found)):
        lines.append(
            f"{starts[i]} {t0[i]:10.10g} {tau[i]:10.10g} {twoF[i]:< 11.8g} {bayes[i] * math.log(10):< 11.8g} "
            f"{t0_mp[i]:15.4f} {tau_mp[i]:15.4f}"
        )
    return written_to(Path(path), "\n".join([*lines, ""]).encode())


def map_text(points: AnyTable, maps: Mapping[int, np.ndarray], t0: np.ndarray, tau: np.ndarray) -> str:
    """Return a file of 2F of all windows of each template (LALSuite: write_transientCandidateAll_to_fp).

    Parameters
    ----------
    points : QTable or Table
    maps : mapping of int to (n, m) float64
        2F by start time and time scale, of each row of `points`.
    t0, tau : (n,), (m,) float64
        Start times, GPS s, and time scales, s.
    """
    lines, starts = [*comment_lines(points.meta or {}), HEADER_ALL], _starts(points, "points")
    windows = [f"{t:10.10g} {x:10.10g}" for t in t0 for x in tau]
    for row, start in enumerate(starts):
        lines += [f"{start} {window} {y:< 11.8g}" for window, y in zip(windows, maps[row].ravel(), strict=True)]
    return "\n".join([*lines, ""])


def _starts(found: AnyTable, name: str) -> list[str]:
    """Return how the lines of each template begin."""
    points = parameter_columns(found, name, ("freq", *SKY), "write .ecsv or .hdf5, which keep the column")
    spins = [points.get(f"f{k}dot", np.zeros(len(found))) for k in (1, 2, 3)]
    return [
        f"  {points['freq'][i]:< 18.16f} {points['alpha'][i]:< 19.16f} {points['delta'][i]:< 19.16f} "
        f"{spins[0][i]:< 9.6g} {spins[1][i]:< 9.5g} {spins[2][i]:< 9.5g}"
        for i in range(len(found))
    ]
