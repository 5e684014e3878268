"""Search narrow data at a single template: `search_template`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.details import Details, detail_columns
from jfstat.candidates.lineflags import crossed_lines
from jfstat.candidates.tables import PlainTable
from jfstat.data.narrowdata import NarrowData
from jfstat.lines.doppler import lines_near
from jfstat.public import host
from jfstat.searching.bank import stacked_bank
from jfstat.searching.options import Keep
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.searching.reduce.toplist import NO_PEAKS, Peaks, Toplist
from jfstat.searching.result import Asked, Frequencies, candidates, finished, processor_of, result_meta
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import check_ranking
from jfstat.searching.statistics.coherent import TwoF
from jfstat.signal.parameters import AMPLITUDE_COLUMNS
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.fstat import central_values

if TYPE_CHECKING:
    from astropy.table import QTable

ENGINE = "narrow"
"""Name of the engine in tables from narrow data."""


@host(
    "use jfstat.twoF or jfstat.twoF_band there",
    data=kinds.instance(NarrowData),
    keep=kinds.instance(Keep, or_none=True),
    details=kinds.instance(Details, or_none=True),
    units=kinds.flag,
)
def search_template(
    data: NarrowData,
    top: int | None = 1000,
    threshold: float | None = None,
    keep: Keep | None = None,
    details: Details | None = None,
    units: bool = True,
) -> QTable | PlainTable:
    """Search narrow data at their central template alone.

    Parameters
    ----------
    data : NarrowData
    top, threshold, keep, details
        As for `search`; lines cannot be vetoed at a single frequency.
    units : bool
        Whether to return a QTable. If not, a table with the same names of columns and meta, of arrays without units,
        which `write_candidates` and `summary` take too, without the quarter of a second that importing astropy takes.

    Returns
    -------
    QTable
        Table as from `search` with a bank of this template and a band of its frequency: one row, or none if 2F or
        log10BSGL is below its threshold. 2F is as from `fstat`, and ``meta["engine"]`` is "narrow".

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    keep, details = keep or Keep(), details or Details()
    statistic, stack, detectors = TwoF(), stacked_bank(data.centre), data.detectors
    check_ranking(data, keep, details)
    if keep.veto_lines:
        raise ValueError("veto_lines is for bands of frequency: leave it out, lines says which lines are crossed.")
    if keep.bsgl_threshold is not None and len(detectors) < 2:
        raise ValueError("bsgl_threshold compares detectors, of which data have one: leave it out.")
    details.check(len(detectors), keep.bsgl_threshold is not None)
    observation, freq = data.observation, float(stack.fkdot[0, 0])
    known = None if keep.lines is None else lines_near(keep.lines, observation, stack, freq, freq)
    toplist = Toplist(top, threshold)
    values = np.asarray(central_values(data))
    twoF, each = values[0], values[1 : 1 + len(detectors)]
    counts = np.zeros(len(HISTOGRAM_EDGES), np.int64)
    counts[max(0, int(np.searchsorted(HISTOGRAM_EDGES, twoF, side="right")) - 1)] = 1
    least, prior = keep.bsgl_threshold, details.prior
    kept = least is None or prior.log10_odds(twoF, list(each), np) >= least
    peaks = Peaks(values[:1], np.zeros(1, np.int64), np.zeros(1, np.int64)) if kept else NO_PEAKS
    state = State(1, toplist.merged(NO_PEAKS, peaks), counts, {(0, 1): float(twoF)})

    frequencies = Frequencies(freq, 0.5 / float(observation.tspan), 1)
    found = candidates(stack, state.peaks, frequencies)
    columns = parameter_values(found) | {"twoF": state.peaks.twoF.astype(np.float64)}
    if details.wanted:
        names = [*(f"twoF_{name}" for name in detectors), *(AMPLITUDE_COLUMNS if details.with_amplitudes else ())]
        rows = {name: np.full(len(state.peaks.twoF), x) for name, x in zip(names, values[1:], strict=False)}
        columns |= detail_columns(rows, detectors, columns["twoF"], details)
    columns["template"] = state.peaks.template
    if known is not None:
        columns["line"] = crossed_lines(observation, found, known)
    task: Any = Task(data, stack, statistic, toplist)  # type: ignore[arg-type]
    meta = result_meta(task, frequencies, state, Asked(keep, details, None, known, ())) | {
        "statistic": statistic.name,
        "engine": ENGINE,
        "processor": processor_of(data),
        "batch_size": 1,
        "device_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(data)),
    }
    found = finished(columns, meta, TwoF)
    return found.in_units if units else found
