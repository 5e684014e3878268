"""From the end state of a search to its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jfstat.candidates.clusters import clustered
from jfstat.candidates.details import kept_columns
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.linerobust import log10_bsgl
from jfstat.candidates.tables import candidate_columns, in_units
from jfstat.data.fstatdata import FstatData
from jfstat.metrics.phasemetric import flat_metric
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.reduce.state import Peaks, State
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

SUBBAND_KEYS = ("start", "stop", "twoF")
"""Of ``meta["loudest_per_subband"]``: first frequency and end of each sub-band, Hz, and its loudest 2F."""
OWN_KEYS = ("unit", "identity", "parts", "metric")
"""What a unit's meta holds for `merge` and the table of the whole does not."""


class Lines(NamedTuple):
    """Of the line-robust statistic: F*0, and the odds of a line in each detector; see `linerobust.log10_bsgl`."""

    fstar0: float
    olgx: tuple[float, ...] | None


class Extras(NamedTuple):
    """What to tell of candidates besides where they are and how loud; as for `search`."""

    per_detector: bool
    amplitudes: bool
    lines: Lines
    cluster: float | None


def result_table(
    data: FstatData,
    stack: Doppler,
    plan: SearchPlan,
    state: State,
    top: int | None,
    threshold: float | None,
    extras: Extras,
    unit: tuple[int, int] | None,
    own: dict[str, Any],
) -> QTable:
    """The table that `search` returns."""
    from jfstat import __version__

    peaks = state.peaks
    found = _candidates(data, stack, peaks)
    columns = candidate_columns(found) | {"twoF": peaks.twoF.astype(np.float64)}
    if extras.per_detector or extras.amplitudes:
        kept = kept_columns(data, found, extras.amplitudes)
        each = {name: x for name, x in kept.items() if name.startswith("twoF_")}
        if len(data.detectors) == 1:
            each = {f"twoF_{data.detectors[0]}": columns["twoF"].copy()}
        if extras.per_detector:
            columns |= each
            if len(data.detectors) > 1:
                columns["log10BSGL"] = log10_bsgl(
                    columns["twoF"], np.stack(list(each.values()), axis=-1), *extras.lines
                )
        columns |= {name: x for name, x in kept.items() if not name.startswith("twoF_")}
    columns["template"] = peaks.template
    reftime = data.reftime if stack.reftime is None else stack.reftime
    n_spins = stack.fkdot.shape[1] - 1
    fmax = float(_frequencies(data, np.array(data.layout.n_frequencies - 1)))
    meta = {
        "version": __version__,
        "reftime": reftime,
        "detectors": list(data.detectors),
        "ephemeris": data.ephemeris,
        "start": data.epoch,
        "tspan": float(data.tspan),
        "n_templates": len(stack.alpha),
        "n_twoF": state.n_twoF,
        "batch_size": plan.batch_size,
        "device_bytes": plan.device_bytes,
        "twoF_edges": HISTOGRAM_EDGES.tolist(),
        "twoF_histogram": state.histogram.tolist(),
        "loudest_per_subband": _subbands(data, plan, state),
        "unit": None if unit is None else list(unit),
        "identity": own,
        "fmin": float(data.band.fmin),
        "fmax": fmax,
        "dfreq": 1 / (2 * float(data.tspan)),
        "tsft": float(data.coverage.tsft),
        "n_sfts": np.sum(np.asarray(data.coverage.weight) > 0, axis=1).tolist(),
        "top": top,
        "threshold": threshold,
        "Fstar0": extras.lines.fstar0,
        "oLGX": None if extras.lines.olgx is None else list(extras.lines.olgx),
        "parts": {"bands": [list(band) for band in plan.bands], "same_source": plan.same_source},
        "cluster": extras.cluster,
        "metric": flat_metric(data, n_spins, reftime, fmax).tolist(),
    }
    return finished(columns, meta) if unit is None else in_units(columns, meta)


def _candidates(data: FstatData, stack: Doppler, peaks: Peaks) -> Doppler:
    """Templates of the peaks, with their frequencies; NumPy leaves (k, ...)."""
    found = jax.tree.map(lambda x: x[peaks.template], stack)
    fkdot = np.concatenate([_frequencies(data, peaks.frequency)[:, None], found.fkdot[:, 1:]], axis=1)
    found = Doppler(found.alpha, found.delta, fkdot, found.reftime, found.orbit)
    return jax.tree.map(np.asarray, found)


def _frequencies(data: FstatData, index: np.ndarray) -> np.ndarray:
    """Some of ``data.frequencies``, of which there may be 1e8, to the last bit."""
    return float(data.band.fmin) + index.astype(float) / (2 * data.tspan)


def _subbands(data: FstatData, plan: SearchPlan, state: State) -> dict[str, list[float]]:
    """Of all sub-bands in which something was computed, those of the parts of the band one after the other."""
    rows = []
    for part, ((first, _), found) in enumerate(zip(plan.bands, state.subbands, strict=True)):
        edges = _frequencies(data, np.maximum(first + found.edges, plan.first_new(part))).tolist()
        rows += zip(edges[:-1], edges[1:], found.twoF.tolist(), strict=True)
    rows = [row for row in rows if row[2] > -np.inf]
    return {k: [row[i] for row in rows] for i, k in enumerate(SUBBAND_KEYS)}


def finished(columns: dict[str, np.ndarray], meta: dict[str, Any]) -> QTable:
    """The table of a whole search: clustered if wanted, with the loudest one's false-alarm probability."""
    twoF = columns["twoF"]
    if meta["cluster"] is not None:
        leader = clustered(columns, np.array(meta["metric"]), meta["cluster"])
        own = np.arange(len(twoF))
        members = np.bincount(leader, minlength=len(twoF))
        columns = {name: x[leader == own] for name, x in columns.items()}
        columns["n_members"] = members[leader == own]
    alarm = float(false_alarm(twoF[0], meta["n_twoF"])) if len(twoF) else None  # the loudest is not known
    meta = {name: x for name, x in meta.items() if name not in OWN_KEYS} | {"false_alarm": alarm}
    return in_units(columns, meta)
