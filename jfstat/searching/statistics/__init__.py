"""List the statistics that a search can maximise, one file each; a new one is added to `STATISTICS`."""

from __future__ import annotations

from typing import Any

from jfstat.candidates.tables import Meta
from jfstat.data.checks import check_data
from jfstat.data.normalised import NormalisedSFTs
from jfstat.searching.statistic import Statistic
from jfstat.searching.statistics.bestpath import BestPath
from jfstat.searching.statistics.bsgl import BSGL
from jfstat.searching.statistics.bsgltl import BSGLtL
from jfstat.searching.statistics.coherent import TwoF
from jfstat.searching.statistics.interpolated import Interpolated
from jfstat.searching.statistics.mean import MeanTwoF
from jfstat.searching.statistics.trackpower import TrackPower
from jfstat.searching.statistics.transient import Transient
from jfstat.validation import shown

STATISTICS: tuple[type[Statistic], ...] = (
    TwoF,
    MeanTwoF,
    Interpolated,
    BestPath,
    Transient,
    BSGL,
    BSGLtL,
    TrackPower,
)


def statistic_for(data: Any, asked: Any = None) -> Statistic:
    """Return the statistic that is asked for.

    By default it is 2F or, for data with segments, its mean; for normalised SFTs the power along tracks.

    Raises
    ------
    TypeError
        If there is no such statistic, or it does not take data of this kind.
    """
    if not isinstance(data, NormalisedSFTs):
        check_data(data, or_segments=True)
    if asked is None:
        if isinstance(data, NormalisedSFTs):
            return TrackPower()
        return TwoF() if data.n_segments is None else MeanTwoF()
    if not isinstance(asked, Statistic):
        raise TypeError(f"statistic must be one of jfstat's, such as jfstat.TwoF(), or None, not {shown(asked)}.")
    if not isinstance(data, asked.takes):
        raise TypeError(
            f"statistic {asked.name} needs {asked.takes.__name__} and data are {type(data).__name__}: jfstat.prepare "
            "makes FstatData of SFTs, and jfstat.normalise NormalisedSFTs for jfstat.TrackPower()."
        )
    return asked


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
