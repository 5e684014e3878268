"""The table that a search returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat.candidates.bounds import outside
from jfstat.candidates.clusters import clustered, explained
from jfstat.candidates.details import Details, detail_columns
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.leakage import Sampling
from jfstat.candidates.lineflags import crossed_lines, lines_meta
from jfstat.candidates.tables import Meta, in_units
from jfstat.data.fstatdata import FstatData
from jfstat.metrics.phasemetric import flat_metric
from jfstat.parameters import columns as parameter_values
from jfstat.parameters import varied_parameters, with_fields
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Identity, Work
from jfstat.searching.reduce.keep import Peaks
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

SUBBAND_KEYS = ("start", "stop", "twoF")
"""Keys of ``meta["loudest_per_subband"]``: first frequency and end of each sub-band, Hz, and its loudest 2F."""
OWN_KEYS = ("unit", "identity", "parts", "metric", "sampling")
"""Keys of meta that only the tables of units have, for `merge`."""


def result_table(work: Work, plan: SearchPlan, state: State, details: Details, own: Identity) -> QTable:
    """The table that `search` returns.

    Parameters
    ----------
    work : Work
    plan : SearchPlan
    state : State
        After the last batch.
    details : Details
    own : Identity
        Needed for the tables of units only.
    """
    from jfstat.version import __version__

    data, stack, peaks = work.data, work.stack, state.peaks
    found = _candidates(data, stack, peaks)
    columns = parameter_values(found) | {"twoF": peaks.twoF.astype(np.float64)}
    columns |= detail_columns(data, found, columns["twoF"], details) | {"template": peaks.template}
    if details.lines is not None:
        columns["line"] = crossed_lines(data.observation, found, details.lines)
    fmax = float(_frequencies(data, np.array(data.layout.n_frequencies - 1)))
    meta = {
        "version": __version__,
        "reftime": work.reftime.plain,
        "detectors": list(data.detectors),
        "ephemeris": data.ephemeris,
        "start": int(data.observation.epoch),
        "tspan": float(data.tspan),
        "parameters": [x for x in parameter_values(found) if x in (*varied_parameters(stack), *details.bounds)],
        "n_templates": len(stack.alpha),
        "n_twoF": state.n_twoF,
        "backend": plan.backend,
        "batch_size": plan.batch_size,
        "device_bytes": plan.device_bytes,
        "twoF_edges": HISTOGRAM_EDGES.tolist(),
        "twoF_histogram": state.histogram.tolist(),
        "loudest_per_subband": _subbands(data, state),
        "unit": work.unit,
        "identity": own,
        "fmin": float(data.band.fmin),
        "fmax": fmax,
        "dfreq": float(data.dfreq),
        "tsft": float(data.observation.tsft),
        "sqrt_sx": data.observation.mean_sqrt_sx,
        "n_sfts": np.sum(np.asarray(data.observation.weight) > 0, axis=1).tolist(),
        "top": work.keep.top,
        "threshold": work.keep.threshold,
        "ranking": details.ranking,
        "bsgl_threshold": None if work.keep.lines is None else work.keep.lines.threshold,
        "Fstar0": details.fstar0,
        "oLGX": None if details.olgx is None else list(details.olgx),
        "parts": {"bands": [list(band) for band in plan.bands], "same_source": plan.same_source},
        "cluster": details.cluster,
        "bounds": {name: list(pair) for name, pair in details.bounds.items()},
        "sampling": None if details.cluster is None else Sampling.of(data.observation).plain,
        "metric": flat_metric(data.observation, stack.fkdot.shape[1] - 1, work.reftime, fmax).tolist(),
    }
    if details.lines is not None:
        meta |= {"lines": lines_meta(details.lines), "veto_lines": details.veto_lines}
    return finished(columns, meta) if work.share is None else in_units(columns, meta)


def finished(columns: dict[str, np.ndarray], meta: Meta) -> QTable:
    """The table of a whole search: clustered if asked for, and with the false-alarm probability of the loudest.

    Parameters
    ----------
    columns : dict of (k,) ndarrays
        Candidates, loudest first.
    meta : dict
        As in a unit's table; keys that only units have are dropped.
    """
    twoF = columns["twoF"]
    if meta["cluster"] is not None:
        metric = np.array(meta["metric"])
        leader = clustered(columns, metric, meta["cluster"])
        sampling = Sampling.from_plain(meta["sampling"])
        leader = explained(columns, metric, sampling, meta["reftime"], leader, meta["n_twoF"])
        leads = leader == np.arange(len(twoF))
        members = np.bincount(leader, minlength=len(twoF))
        columns = {name: x[leads] for name, x in (columns | {"n_members": members}).items()}
    if meta["ranking"] == "BSGL":
        order = np.argsort(-columns["log10BSGL"], kind="stable")
        columns = {name: x[order] for name, x in columns.items()}
    if meta["bounds"]:
        columns = columns | {"outside": outside(columns, meta["bounds"])}
    alarm = float(false_alarm(twoF.max(), meta["n_twoF"])) if len(twoF) else None
    meta = {name: x for name, x in meta.items() if name not in OWN_KEYS} | {"false_alarm": alarm}
    return in_units(columns, meta)


def subband_columns(loudest: dict[tuple[float, float], float]) -> dict[str, list[float]]:
    """``meta["loudest_per_subband"]`` from the loudest 2F by first frequency and end, Hz."""
    rows = sorted((*ends, twoF) for ends, twoF in loudest.items())
    return {key: [row[i] for row in rows] for i, key in enumerate(SUBBAND_KEYS)}


def _candidates(data: FstatData, stack: Doppler, peaks: Peaks) -> Doppler:
    """The templates of the peaks, with their frequencies; NumPy leaves (k, ...)."""
    found = jax.tree.map(lambda x: x[peaks.template], stack)
    fkdot = np.concatenate([_frequencies(data, peaks.frequency)[:, None], found.fkdot[:, 1:]], axis=1)
    return jax.tree.map(np.asarray, with_fields(found, fkdot=fkdot))


def _frequencies(data: FstatData, index: np.ndarray) -> np.ndarray:
    """Elements of ``data.frequencies``, equal to the last bit, without computing all of them: there may be 1e8."""
    return float(data.band.fmin) + index.astype(float) * float(data.dfreq)


def _subbands(data: FstatData, state: State) -> dict[str, list[float]]:
    """The loudest 2F of each sub-band in which some was computed."""
    ends = np.array(list(state.subbands), np.int64).reshape(-1, 2)
    frequencies = map(tuple, _frequencies(data, ends).tolist())
    return subband_columns(dict(zip(frequencies, state.subbands.values(), strict=True)))
