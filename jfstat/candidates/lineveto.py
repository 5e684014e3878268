"""Find candidates that behave like instrumental lines rather than signals: `line_veto`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.details import kept_columns
from jfstat.candidates.provenance import reftime_of
from jfstat.candidates.tables import AnyTable, parameter_columns, point_in, points_from
from jfstat.candidates.transienttable import window_of_table, window_problem, windows_in
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.public import host
from jfstat.signal.templates import Doppler
from jfstat.signal.transientwindow import Shape, TransientWindow, end_of
from jfstat.statistic.dmoff import dm_off_twoF
from jfstat.statistic.windowed import windowed

if TYPE_CHECKING:
    from astropy.table import QTable

DM_OFF = "DM-off"
"""Entry of the column ``line_veto`` for candidates that are louder without Doppler modulation."""


@host(found=kinds.table)
def line_veto(data: FstatData, found: AnyTable, transient: Shape | None = None) -> QTable:
    """Add columns to a table of candidates that say which candidates behave like lines.

    Two properties of a signal that lines do not have are tested at each candidate's own parameters:

    - a signal is in all detectors: 2F of all is larger than 2F of any one alone (the F-statistic consistency veto of
      Aasi et al. 2013, Phys. Rev. D 87, 042001). 2F of each detector is from its own atoms. Where only one detector has
      data there is nothing to compare.
    - a signal is Doppler modulated: 2F falls with the modulation switched off (`dm_off_twoF`; Zhu, Papa & Walsh 2017,
      Phys. Rev. D 96, 124007).

    Candidates of transient signals are tested within their windows: 2F of all detectors is then `transient_twoF` with
    the row's ``t0`` and ``tau``. In a table from `refine` it is the column ``twoF``. In a table from a search for
    `Transient` signals or from ``fstat_table(transient=)`` it is ``max_twoF``, apart from samples at the ends of
    windows, since ``twoF`` there is for a persistent signal.

    Parameters
    ----------
    data : FstatData
        Data of a band that contains the candidates, without segments; ``prepare(..., filters=False)`` is enough.
    found : QTable or Table
        Candidates, as for `refine`.
    transient : str or callable, optional
        Shape of the windows of transient signals, see `TransientWindow`, whose start times and time scales are in the
        columns ``t0`` and ``tau``; by default the shape of the search, if `found` is from a search for `Transient`
        signals, from ``fstat_table(transient=)`` or from `refine` of either.

    Returns
    -------
    QTable
        A copy with the columns

        - ``dm_off_twoF``;
        - ``line_veto``: the detectors whose 2F alone exceeds 2F of all, and ``DM-off`` if ``dm_off_twoF`` exceeds it,
          joined by commas; empty for candidates that behave like signals.

        Weak candidates may be vetoed by chance: in noise, 2F of one of two equal detectors exceeds 2F of both in three
        quarters of all cases, less often but not rarely among the loudest, and ``dm_off_twoF`` is the largest of as
        many values as there are frequencies. Loud signals are not vetoed if detectors are about equally sensitive. If
        one hardly adds to rho^2, signals are louder in the other alone now and then, up to 2F of some hundreds.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If the data have segments, or a column is missing or has another unit, or a row does not fit the data.
    """
    check_data(data)
    window = window_of_table(data, found, transient)
    given = parameter_columns(found, "found", ("freq", "alpha", "delta"))
    points = points_from(given, reftime_of(found, data.reftime))
    own_table: Any = found
    table = own_table.copy()
    words, off = [], np.full(len(found), np.nan)
    windows = None if window is None else windows_in(found)
    for row in range(len(found)):
        own = data
        if window is not None and windows is not None:
            problem = window_problem(windows[row])
            if problem:
                raise ValueError(f"found has no window in row {row}, counted from 0: {problem}; leave it out.")
            shape, end = window
            own = windowed(data, TransientWindow(shape, *windows[row], end=end_of(shape, end)))
        off[row] = float(dm_off_twoF(own, point_in(points, row)))
        twoF, *each = _twoF_and_each(own, jax.tree.map(lambda x, row=row: x[row : row + 1], points))
        there = np.asarray(own.observation.has_data)
        alone = zip(data.detectors, each, there, strict=True) if sum(there) > 1 else ()
        louder = [name for name, x, has_data in alone if has_data and x > twoF]
        words.append(", ".join([*louder, DM_OFF] if off[row] > twoF else louder))
    table["dm_off_twoF"] = off
    table["line_veto"] = np.array(words, str)
    return table


def _twoF_and_each(data: FstatData, points: Doppler) -> list[float]:
    """Return 2F of all detectors and of each, of a stack of one template."""
    # with amplitudes, since a search has compiled this program
    columns = kept_columns(data, points, True)
    return [float(columns[name][0]) for name in ("twoF", *(f"twoF_{detector}" for detector in data.detectors))]
