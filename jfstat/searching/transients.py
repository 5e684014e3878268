"""The columns of a search for transient signals: the maps of the kept candidates, from their own atoms."""

from __future__ import annotations

import numpy as np

from jfstat.candidates.details import Details, detail_columns, kept_columns
from jfstat.candidates.lineflags import crossed_lines
from jfstat.candidates.transienttable import transient_values
from jfstat.data.fstatdata import FstatData
from jfstat.searching.driver.work import TransientSearch
from jfstat.searching.reduce.keep import Peaks
from jfstat.signal.parameters import TRANSIENT_COLUMNS
from jfstat.signal.parameters import columns as parameter_values
from jfstat.signal.templates import Doppler


def found_name(ranking: str) -> str:
    """Name of the column with the values that a search found at the frequencies of the band."""
    return "log10BtSG_band" if ranking == "BtSG" else "max_twoF_band"


def transient_columns(
    data: FstatData, searched: TransientSearch, found: Doppler, peaks: Peaks, details: Details
) -> dict[str, np.ndarray]:
    """The columns of the candidates, (k,) each, in the order of the peaks; see `search`.

    Parameters
    ----------
    data : FstatData
    searched : TransientSearch
    found : Doppler
        The templates, NumPy leaves (k, ...).
    peaks : Peaks
        Their values as of `Kind`.
    details : Details
    """
    columns = parameter_values(found)
    columns[found_name(details.ranking)] = searched.loudness(peaks.twoF.astype(np.float64))
    names = ("twoF", *TRANSIENT_COLUMNS)
    maps = np.full((len(found.alpha), len(names)), np.nan)
    for row, own in transient_values(data, found, searched.windows):
        maps[row] = own
    own = dict(zip(names, maps.T.copy(), strict=True))
    columns |= {name: own[name] for name in (*TRANSIENT_COLUMNS, "twoF")}
    if details.wanted:
        kept = kept_columns(data, found, details.amplitudes)
        columns |= detail_columns(kept, data.detectors, columns["twoF"], details)
    columns["template"] = peaks.template
    if details.lines is not None:
        columns["line"] = crossed_lines(data.observation, found, details.lines)
    return columns
