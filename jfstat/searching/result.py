"""The table that a search returns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from jfstat.candidates.bounds import outside
from jfstat.candidates.clusters import clustered, explained
from jfstat.candidates.details import Details, compile_columns, detail_columns, kept_columns
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.leakage import Sampling
from jfstat.candidates.lineflags import crossed_lines, lines_meta
from jfstat.candidates.semicoherent import (
    compile_semicoherent_columns,
    semicoherent_columns,
    semicoherent_details,
)
from jfstat.candidates.tables import Meta, PlainTable
from jfstat.candidates.transienttable import transient_meta
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.observation import Observation
from jfstat.data.workers import ensure_started, on_callers_device
from jfstat.metrics.phasemetric import flat_metric
from jfstat.processor import processor_kind
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Identity, TransientSearch, Work
from jfstat.searching.reduce.keep import Keep, Peaks
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.searching.tracks import track_columns, track_meta
from jfstat.searching.transients import found_name, transient_columns
from jfstat.signal.parameters import columns as parameter_values
from jfstat.signal.parameters import varied_parameters, with_fields
from jfstat.signal.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

SUBBAND_KEYS = ("start", "stop", "twoF")
"""Keys of ``meta["loudest_per_subband"]``: first frequency and end of each sub-band, Hz, and its loudest 2F."""
OWN_KEYS = ("unit", "identity", "parts", "metric", "sampling")
"""Keys of meta that only the tables of units have, for `merge`."""


class Frequencies(NamedTuple):
    """The frequencies that were searched: `n` of them from `first` on, `step` apart, Hz."""

    first: float
    step: float
    n: int

    def at(self, index: np.ndarray) -> np.ndarray:
        """Elements of ``data.frequencies``, equal to the last bit, without computing all of them: there may be 1e8."""
        return self.first + index.astype(float) * self.step


@contextmanager
def compiling_columns(work: Work, details: Details) -> Iterator[Thread | None]:
    """While the body searches, a thread compiles what `result_table` will call: XLA takes seconds for it.

    The body gets the thread and should start it once its own program is traced, which XLA then compiles while the
    thread traces: Python traces one at a time. In an interpolating search, whose plan and segments' values come first
    and take longer than tracing, it is started already. None if there is nothing to compile. Where the body raises an
    error, nobody waits for the thread, which ends by itself.
    """
    data, stack, thread = work.data, work.stack, None
    usual = work.track is None and work.transient is None and stack.model is None
    wanted = details.wanted or work.coherent_mismatch is not None
    if usual and wanted and work.keep.threshold is None:  # none may reach a threshold
        leaves, kind = jax.tree.flatten((data, jax.tree.map(lambda x: x[0], stack)))
        shapes = tuple((np.shape(x), x.dtype) for x in leaves)
        same = (kind, shapes, device_of(data), details.amplitudes)
        if same not in _COMPILED:
            compiling = on_callers_device(_compile)
            thread = Thread(target=compiling, args=(data, stack, details.amplitudes, same), name="jfstat-details")
    if work.coherent_mismatch is not None:
        ensure_started(thread)
    yield thread
    ensure_started(thread)  # a finished checkpoint leaves nothing to trace
    if thread is not None:
        thread.join()


_COMPILED: set[Hashable] = set()
"""For what this process did so: to find that nothing is left to do takes milliseconds."""


def _compile(data: FstatData, stack: Doppler, amplitudes: bool, same: Hashable) -> None:
    with suppress(Exception):  # what fails here fails again where it is needed
        (compile_columns if data.n_segments is None else compile_semicoherent_columns)(data, stack, amplitudes)
        _COMPILED.add(same)


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
    data = work.data
    frequencies = Frequencies(float(data.fmin), float(data.dfreq), data.layout.n_frequencies)
    peaks = candidates(work.stack, state.peaks, frequencies)
    if work.track is not None:
        columns = track_columns(data, work.track, work.stack, peaks, state.peaks, details)
    elif work.transient is not None:
        columns = transient_columns(data, work.transient, peaks, state.peaks, details)
    else:
        compute = kept_columns if data.n_segments is None else semicoherent_columns
        # what was interpolated is computed again
        again = work.coherent_mismatch is not None
        kept = compute(data, peaks, details.amplitudes) if details.wanted or again else None
        columns = result_columns(data.observation, peaks, kept, state.peaks, details, again)
    meta = result_meta(data.observation, work.stack, frequencies, work.keep, state, details) | {
        **coherent_meta(work, plan),
        **({} if work.track is None else track_meta(work.track)),
        **({} if work.transient is None else _transient_meta(work.transient, work.keep.threshold)),
        "engine": plan.engine,
        "processor": processor_of(data),
        "batch_size": plan.batch_size,
        "device_bytes": plan.device_bytes,
        "unit": work.unit,
        "identity": own,
        "parts": {
            "bands": [list(band) for band in plan.bands],
            "same_source": plan.same_source,
            "groups": None if work.coherent_mismatch is None else [list(group) for group in plan.groups],
        },
    }
    found = finished(columns, meta) if work.share is None else PlainTable(columns, meta)
    return found.in_units


def _transient_meta(searched: TransientSearch, threshold: float | None) -> Meta:
    """What the table says of a search for transient signals."""
    own = None if threshold is None else float(searched.loudness(np.array(threshold)))
    return {"transient": transient_meta(searched.windows), "threshold": own}


def processor_of(data: object) -> str:
    """Kind of the processor that holds data of any kind: a GPU's, or the CPU's and a digest of its instruction sets."""
    device = device_of(data)
    return "{} ({})".format(*processor_kind()) if device.platform == "cpu" else device.device_kind


def coherent_meta(work: Work, plan: SearchPlan) -> Meta:
    """What the table says of an interpolating search alone."""
    if work.coherent_mismatch is None or plan.n_coherent is None:
        return {}
    n_coherent = plan.n_coherent * work.data.layout.n_frequencies
    return {"coherent_mismatch": work.coherent_mismatch, "n_coherent": n_coherent}


def candidates(stack: Doppler, peaks: Peaks, frequencies: Frequencies) -> Doppler:
    """The templates of the peaks, with their frequencies; NumPy leaves (k, ...)."""
    found = jax.tree.map(lambda x: x[peaks.template], stack)
    fkdot = np.concatenate([frequencies.at(peaks.frequency)[:, None], found.fkdot[:, 1:]], axis=1)
    return jax.tree.map(np.asarray, with_fields(found, fkdot=fkdot))


def result_columns(
    observation: Observation,
    found: Doppler,
    kept: dict[str, np.ndarray] | None,
    peaks: Peaks,
    details: Details,
    interpolated: bool = False,
) -> dict[str, np.ndarray]:
    """The columns of the candidates, (k,) each, before they are clustered and sorted.

    Parameters
    ----------
    observation : Observation
    found : Doppler
        From `candidates`.
    kept : dict of (k,) float64 ndarrays or None
        What was computed for each candidate, as by `kept_columns`.
    peaks : Peaks
    details : Details
    interpolated : bool
        Whether the peaks are of an interpolating search.
    """
    n_segments = observation.n_segments
    columns = parameter_values(found) | {loudness(n_segments, interpolated): peaks.twoF.astype(np.float64)}
    if n_segments is not None and kept is not None:
        own = semicoherent_details(kept, observation.detectors, n_segments, details)
        columns |= {name: x for name, x in own.items() if name not in columns}
    elif kept is not None:
        columns |= detail_columns(kept, observation.detectors, columns["twoF"], details)
    columns["template"] = peaks.template
    if details.lines is not None:
        columns["line"] = crossed_lines(observation, found, details.lines)
    return columns


def loudness(n_segments: int | None, interpolated: bool) -> str:
    """Name of the column with the values that a search found, of data with segments or without."""
    if n_segments is None:
        return "twoF"
    return "mean_twoF_interpolated" if interpolated else "mean_twoF"


def loudness_in(meta: Meta) -> str:
    """The same, from the meta of a table."""
    if "transient" in meta and "ranking" in meta:  # tables of single points have no ranking
        return found_name(meta["ranking"])
    return "log_likelihood" if "transitions" in meta else loudness(meta.get("n_segments"), "coherent_mismatch" in meta)


def exact_name(meta: Meta) -> str:
    """Name of the column that the table is sorted by, of what was computed again for each candidate."""
    if "transient" in meta:
        return "log10BtSG" if meta["ranking"] == "BtSG" else "max_twoF"
    return "mean_twoF"


def result_meta(
    observation: Observation, stack: Doppler, frequencies: Frequencies, keep: Keep, state: State, details: Details
) -> Meta:
    """What the table says about the search, apart from how it was computed, with what `finished` needs.

    Parameters
    ----------
    observation : Observation
    stack : Doppler
        All templates, NumPy leaves.
    frequencies : Frequencies
    keep : Keep
    state : State
        After the last batch.
    details : Details
    """
    from jfstat.version import __version__

    reftime = observation.reftime.common if stack.reftime is None else stack.reftime.common
    start, end = observation.ends
    n_segments = observation.n_segments
    spread = 1.0 if n_segments is None else np.sqrt(n_segments)  # of the histogram, see `loudest_means`
    fmax = float(frequencies.at(np.array(frequencies.n - 1)))
    varied = (*varied_parameters(stack), *details.bounds)
    ends = np.array(list(state.subbands), np.int64).reshape(-1, 2)
    subbands = dict(zip(map(tuple, frequencies.at(ends).tolist()), state.subbands.values(), strict=True))
    meta = {
        "version": __version__,
        "reftime": reftime.plain,
        "detectors": list(observation.detectors),
        "ephemeris": observation.ephemeris,
        "start": int(np.asarray(observation.epoch).min()),
        "tspan": float(observation.tspan) if n_segments is None else end - start,
        "parameters": [x for x in parameter_values(stack) if x in varied],
        "n_templates": len(stack.alpha),
        "n_twoF": state.n_twoF,
        "twoF_edges": (4 + (HISTOGRAM_EDGES - 4) / spread).tolist(),
        "twoF_histogram": state.histogram.tolist(),
        "loudest_per_subband": subband_columns(subbands),
        "fmin": frequencies.first,
        "fmax": fmax,
        "dfreq": frequencies.step,
        "tsft": float(np.asarray(observation.tsft).max()),
        "sqrt_sx": observation.mean_sqrt_sx,
        "n_sfts": observation.n_sfts,
        "top": keep.top,
        "threshold": keep.threshold,
        "ranking": details.ranking,
        "bsgl_threshold": None if keep.lines is None else keep.lines.threshold,
        "Fstar0": details.fstar0,
        "oLGX": None if details.olgx is None else list(details.olgx),
        "cluster": details.cluster,
        "bounds": {name: list(pair) for name, pair in details.bounds.items()},
    }
    if n_segments is not None:
        meta |= {"n_segments": n_segments, "segment_tspan": float(np.max(observation.tspan))}
    if details.cluster is not None:
        if n_segments is None:
            meta["sampling"] = Sampling.of(observation).plain
        meta["metric"] = flat_metric(observation, stack.fkdot.shape[1] - 1, reftime, fmax).tolist()
    if details.lines is not None:
        meta |= {"lines": lines_meta(details.lines), "veto_lines": details.veto_lines}
    return meta


def finished(columns: dict[str, np.ndarray], meta: Meta) -> PlainTable:
    """The table of a whole search: clustered if asked for, and with the false-alarm probability of the loudest.

    Parameters
    ----------
    columns : dict of (k,) ndarrays
        Candidates, loudest first.
    meta : dict
        As in a unit's table; keys that only units have are dropped.
    """
    n_segments = meta.get("n_segments")
    twoF = columns[loudness_in(meta)]
    if "coherent_mismatch" in meta or "transient" in meta:  # sorted by what was computed again
        order = np.argsort(-columns[exact_name(meta)], kind="stable")
        columns = {name: x[order] for name, x in columns.items()}
    if meta["cluster"] is not None:
        metric = np.array(meta["metric"])
        leader = clustered(columns, metric, meta["cluster"])
        if n_segments is None:
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
    if not len(twoF):
        alarm = None
    elif "transitions" in meta:  # the column is that of a single template
        rate = np.fmin.reduce(columns["false_alarm"])  # NaN where not known
        alarm = float(-np.expm1(meta["n_templates"] * np.log1p(-min(rate, 1 - 1e-15))))
    elif "transient" in meta:  # an upper bound, for windows that were independent
        number = meta["n_twoF"] * meta["transient"]["n_windows"]
        alarm = None if meta["ranking"] == "BtSG" else float(false_alarm(twoF.max(), number))
    else:
        alarm = float(false_alarm(twoF.max(), meta["n_twoF"], n_segments or 1))
    meta = {name: x for name, x in meta.items() if name not in OWN_KEYS} | {"false_alarm": alarm}
    return PlainTable(columns, meta)


def subband_columns(loudest: dict[tuple[float, float], float]) -> dict[str, list[float]]:
    """``meta["loudest_per_subband"]`` from the loudest 2F by first frequency and end, Hz."""
    rows = sorted((*ends, twoF) for ends, twoF in loudest.items())
    return {key: [row[i] for row in rows] for i, key in enumerate(SUBBAND_KEYS)}
