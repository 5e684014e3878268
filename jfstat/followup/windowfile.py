"""Write 2F of all windows of transient signals at each of some templates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.candidates.tables import AnyTable, parameter_columns, point_in, points_from
from jfstat.candidates.transienttable import transient_maps
from jfstat.data.checks import check_data, check_point
from jfstat.data.fstatdata import FstatData
from jfstat.followup.candidates import NEEDED
from jfstat.io.lal.transients import map_text
from jfstat.public import host
from jfstat.statistic.transients import TransientRange

MOST_LINES = 10**7
"""Most lines of a file of all windows."""


@host(points=kinds.table, path=kinds.path, transient=kinds.instance(TransientRange))
def write_transient_maps(data: FstatData, points: AnyTable, path: str | os.PathLike, transient: TransientRange) -> Path:
    """Write 2F of all windows at each of some templates as ComputeFstatistic_v2's ``--outputTransientStatsAll``.

    Parameters
    ----------
    data : FstatData
        Data of a band that contains all templates, without segments.
    points : QTable
        Templates, as for `fstat_table`.
    path : str or path
    transient : TransientRange
        The windows: a line for each, with its template, t0 (GPS s), tau (s) and 2F, the values of `transient_map`.

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError, ValueError
        As `fstat_table`, or if there would be more than ten million lines.
    """
    check_data(data)
    check_lines(points, transient)
    return maps_written(points, maps_of(data, points, transient), transient, path)


def check_lines(points: AnyTable, transient: TransientRange) -> None:
    """Raise a ValueError if a file of all windows would have too many lines."""
    if len(points) * np.size(transient.t0) * np.size(transient.tau) > MOST_LINES:
        raise ValueError(f"points times windows of transient must be at most {MOST_LINES} lines: give fewer of either.")


def maps_of(data: FstatData, points: AnyTable, transient: TransientRange) -> dict[int, np.ndarray]:
    """Return 2F by start time and time scale of each template by its row, (n, m) float64 each.

    Raises
    ------
    ValueError
        If a template does not fit the data, or the atoms of the range are too short for the data.
    """
    columns = parameter_columns(points, "points", NEEDED, "use jfstat.transient_map for each template")
    stack = points_from(columns, points.meta.get("reftime", data.reftime))
    for row in range(len(points)):
        check_point(data, point_in(stack, row))
    return dict(transient_maps(data, stack, transient))


def maps_written(
    points: AnyTable, maps: Mapping[int, np.ndarray], transient: TransientRange, path: str | os.PathLike
) -> Path:
    """Write the maps of some templates by row, and return the file; see `write_transient_maps`."""
    return written_to(Path(path), map_text(points, maps, np.asarray(transient.t0), np.asarray(transient.tau)).encode())
