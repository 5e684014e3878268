"""2F of one template from narrow data, as the table of `search`: `search_template`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat.candidates.linerobust import log10_bsgl
from jfstat.candidates.tables import PlainTable
from jfstat.data.narrowdata import NarrowData
from jfstat.lines.doppler import checked_lines, lines_near
from jfstat.searching.driver.work import stacked_bank
from jfstat.searching.reduce.keep import NO_PEAKS, Keep, Peaks
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.searching.result import Frequencies, candidates, finished, processor_of, result_columns, result_meta
from jfstat.searching.search import line_cut, wanted_details
from jfstat.signal.parameters import AMPLITUDE_COLUMNS
from jfstat.statistic.fstat import central_values

if TYPE_CHECKING:
    from astropy.table import QTable

ENGINE = "narrow"
"""What tables say computed 2F."""


def search_template(
    data: NarrowData,
    top: int | None = 1000,
    threshold: float | None = None,
    *,
    per_detector: bool = True,
    fstar0: float = 0.0,
    olgx: Sequence[float] | None = None,
    ranking: str = "F",
    bsgl_threshold: float | None = None,
    cluster: float | None = None,
    lines: QTable | None = None,
) -> PlainTable:
    """Search narrow data at their central template alone.

    Parameters
    ----------
    data : NarrowData
    top, threshold, per_detector, fstar0, olgx, ranking, bsgl_threshold, cluster, lines
        As for `search`.

    Returns
    -------
    PlainTable
        That of `search` with a bank of this template and a band of its frequency: one row, or none if 2F or log10BSGL
        is below its threshold. 2F is that of `fstat`, and ``meta["engine"]`` is "narrow".

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    stack = stacked_bank(data.centre)
    observation, freq = data.observation, float(stack.fkdot[0, 0])
    cut = line_cut(data, per_detector, ranking, bsgl_threshold, fstar0, olgx)
    keep = Keep(top, threshold, cut)
    known = None if lines is None else lines_at_template(data, lines)
    details = wanted_details(per_detector, None, fstar0, olgx, ranking, cluster, lines=known)
    details.check(len(data.detectors))

    values = np.asarray(central_values(data))
    twoF, each = values[0], values[1 : 1 + len(data.detectors)]
    counts = np.zeros(len(HISTOGRAM_EDGES), np.int64)
    counts[max(0, int(np.searchsorted(HISTOGRAM_EDGES, twoF, side="right")) - 1)] = 1
    kept = cut is None or float(log10_bsgl(twoF, each, cut.fstar0, olgx)) >= cut.threshold
    peaks = Peaks(values[:1], np.zeros(1, np.int64), np.zeros(1, np.int64)) if kept else NO_PEAKS
    state = State(1, keep.merged(NO_PEAKS, peaks), counts, {(0, 1): float(twoF)})

    frequencies = Frequencies(freq, 0.5 / float(observation.tspan), 1)
    found = candidates(stack, state.peaks, frequencies)
    names = [*(f"twoF_{name}" for name in data.detectors), *AMPLITUDE_COLUMNS]
    rows = {name: np.full(len(state.peaks.twoF), x) for name, x in zip(names, values[1:], strict=True)}
    columns = result_columns(observation, found, rows if details.wanted else None, state.peaks, details)
    meta = result_meta(observation, stack, frequencies, keep, state, details) | {
        "engine": ENGINE,
        "processor": processor_of(data),
        "batch_size": 1,
        "device_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(data)),
    }
    return finished(columns, meta)


def lines_at_template(data: NarrowData, lines: object) -> QTable:
    """Those of a user's lines that could affect the central template of narrow data.

    Raises
    ------
    TypeError, ValueError
        As `checked_lines`.
    """
    stack = stacked_bank(data.centre)
    freq = float(stack.fkdot[0, 0])
    return lines_near(checked_lines(lines), data.observation, stack, freq, freq)
