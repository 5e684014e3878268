"""List the statistics that a search can maximise, one file each; a new one is added to `STATISTICS`."""

from __future__ import annotations

from jfstat.candidates.tables import Meta
from jfstat.data.fstatdata import FstatData
from jfstat.searching.statistic import Statistic
from jfstat.searching.statistics.bestpath import BestPath
from jfstat.searching.statistics.bsgltl import BSGLtL
from jfstat.searching.statistics.coherent import TwoF
from jfstat.searching.statistics.interpolated import Interpolated
from jfstat.searching.statistics.mean import MeanTwoF
from jfstat.searching.statistics.transient import Transient

STATISTICS: tuple[type[Statistic], ...] = (
    TwoF,
    MeanTwoF,
    Interpolated,
    BestPath,
    Transient,
    BSGLtL,
)


def default_statistic(data: FstatData) -> Statistic:
    """Return the default statistic for some data: 2F, or its mean over segments if the data have any."""
    return TwoF() if data.n_segments is None else MeanTwoF()


def statistic_of(meta: Meta) -> type[Statistic]:
    """Return the kind of statistic that a table holds, by its meta; 2F or its mean if the table does not say.

    Raises
    ------
    ValueError
        If the table is of a statistic that is not known here.
    """
    name = meta.get("statistic", "TwoF" if meta.get("n_segments") is None else "MeanTwoF")
    for kind in STATISTICS:
        if kind.__name__ == name:
            return kind
    raise ValueError(
        f"table is of the statistic {name!r}, which is not known here: read it with the jfstat that made it."
    )
