"""Make the table that a search returns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jfstat.candidates.bounds import outside
from jfstat.candidates.clusters import clustered, explained
from jfstat.candidates.details import Details
from jfstat.candidates.leakage import Sampling
from jfstat.candidates.lineflags import crossed_lines, lines_meta
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import Meta, PlainTable
from jfstat.data.memory import device_of
from jfstat.data.workers import compile_together, ensure_started, in_callers_context
from jfstat.metrics.phasemetric import flat_metric
from jfstat.processor import processor_kind
from jfstat.searching.division import Division
from jfstat.searching.options import Keep
from jfstat.searching.reduce.state import State, louder
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.session.identity import Identity
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.statistic import Statistic, Task
from jfstat.searching.statistics import statistic_of
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.signal.values import varied_parameters, with_fields

if TYPE_CHECKING:
    from astropy.table import QTable

SUBBAND_KEYS = ("start", "stop", "twoF")
"""Keys of ``meta["loudest_per_subband"]``: first frequency and end of each sub-band, Hz, and the loudest 2F in it."""
SAME_KIND = (
    "statistic",
    "detectors",
    "ephemeris",
    "start",
    "tspan",
    "tsft",
    "n_sfts",
    "n_segments",
    "dfreq",
    "reftime",
)
SAME_KIND += ("veto_lines", "transitions", "amplitude", "subband", "transient", "bins", "mismatch")
"""Keys of meta in which searches of the same data by one statistic agree, whatever their templates and bands."""
COLUMNS_TOGETHER = 4096
"""Number of candidates whose columns are computed at a time, between two reports of progress."""
OWN_KEYS = ("unit", "identity", "parts", "metric", "sampling")
"""Keys of meta that only the tables of units have, for `merge`."""


class Frequencies(NamedTuple):
    """Frequencies that were searched: `n` of them from `first` on, `step` apart, Hz."""

    first: float
    step: float
    n: int

    @classmethod
    def of(cls, data: Any) -> Frequencies:
        """Return the frequencies of data that can be searched."""
        return cls(float(data.fmin), float(data.dfreq), data.layout.n_frequencies)

    def at(self, index: np.ndarray) -> np.ndarray:
        """Return elements of ``data.frequencies``, equal to the last bit, without computing all of them: there may be
        1e8."""
        return self.first + index.astype(float) * self.step


@contextmanager
def compiling_columns(task: Task, details: Details) -> Iterator[Thread | None]:
    """Compile, in a thread while the body searches, the programs that `result_table` will run: XLA takes seconds for
    it.

    The body gets the thread, or None if there is nothing to compile. It should start the thread once its own program is
    traced: XLA then compiles that program while the thread traces, since Python traces one at a time. If dividing the
    search takes longer than tracing, the thread already runs. If the body raises an error, nobody waits for the thread,
    which ends by itself.
    """
    data, stack, thread = task.data, task.stack, None
    if task.toplist.threshold is None and stack.model is None:  # none may reach a threshold
        leaves, kind = jax.tree.flatten((data, jax.tree.map(lambda x: x[0], stack)))
        shapes = tuple((np.shape(x), x.dtype) for x in leaves)
        same = (kind, shapes, device_of(data), task.statistic.name, details.wanted, details.with_amplitudes)
        if same not in _COMPILED:
            compiling = in_callers_context(_compile)
            thread = Thread(target=compiling, args=(task, details, same), name="jfstat-details")
    if task.statistic.plan_computes:
        ensure_started(thread)
    yield thread
    ensure_started(thread)  # a finished checkpoint leaves nothing to trace
    if thread is not None:
        thread.join()


_COMPILED: set[Hashable] = set()
"""Searches for which this process has compiled the programs already: finding nothing left to compile takes
milliseconds."""


def _compile(task: Task, details: Details, same: Hashable) -> None:
    with suppress(Exception):  # what fails here fails again where it is needed
        compile_together(task.statistic.column_programs(task.data, task.stack, details))
        _COMPILED.add(same)


class Asked(NamedTuple):
    """Options and known lines that decide what the table of a search holds.

    Attributes
    ----------
    keep : Keep
    details : Details
    unit : (int, int) or None
        See `Run`.
    lines : QTable or None
        The known lines that any template can cross in the band.
    varied : tuple of str
        Names of the parameters over whose ranges the bank was asked to extend, however few templates cover them.
    """

    keep: Keep
    details: Details
    unit: tuple[int, int] | None
    lines: QTable | None
    varied: tuple[str, ...]


def result_table(
    task: Task, division: Division, state: State, asked: Asked, own: Identity, progress: bool = False
) -> QTable:
    """Return the table that `search` returns.

    Parameters
    ----------
    task : Task
    division : Division
    state : State
        After the last batch.
    asked : Asked
    own : Identity
        Identity of the search, needed for the tables of units only.
    progress : bool
        Whether to show the progress of candidates' columns that take long.
    """
    statistic, frequencies = task.statistic, Frequencies.of(task.data)
    found = candidates(task.stack, state.peaks, frequencies)
    columns = _columns(task._replace(progress=progress), found, state.peaks, asked.details)
    columns |= {"template": state.peaks.template}
    if asked.lines is not None:
        columns["line"] = crossed_lines(task.data.observation, found, asked.lines)
    meta = search_meta(task, division, state, asked) | {
        "batch_size": division.batch_size,
        "device_bytes": division.device_bytes,
        "unit": None if asked.unit is None else list(asked.unit),
        "identity": own,
        "parts": {
            "bands": [list(band) for band in division.bands],
            "same_source": division.same_source,
            "groups": None if division.same_source else [list(group) for group in division.groups],
        },
    }
    finished_table = finished(columns, meta, type(statistic)) if asked.unit is None else PlainTable(columns, meta)
    return finished_table.in_units


def _columns(task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
    """Return the statistic's columns of all candidates, computed for some of them at a time."""
    k = len(peaks.template)
    size = COLUMNS_TOGETHER if task.statistic.columns_in_parts else max(k, 1)
    parts = []
    with progress_bar(k, task.progress and k > size, "details", "candidates") as advance:
        for first in range(0, max(k, 1), size):
            own = slice(first, first + size)
            points, kept = jax.tree.map(lambda x, own=own: x[own], (found, peaks))
            parts.append(task.statistic.columns(task, points, kept, details))
            advance(len(kept.template))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def search_meta(task: Task, division: Division, state: State, asked: Asked) -> Meta:
    """Return the meta of a search, apart from how it was divided."""
    return result_meta(task, Frequencies.of(task.data), state, asked) | {
        "statistic": task.statistic.name,
        **task.statistic.meta(task, division),
        "engine": division.engine,
        "processor": processor_of(task.data),
    }


def processor_of(data: object) -> str:
    """Return the kind of processor that holds data: a GPU's name, or the CPU's with a digest of its instruction
    sets."""
    device = device_of(data)
    return "{} ({})".format(*processor_kind()) if device.platform == "cpu" else device.device_kind


def candidates(stack: Doppler, peaks: Peaks, frequencies: Frequencies) -> Doppler:
    """Return the templates of the peaks with their frequencies, NumPy leaves (k, ...)."""
    found = jax.tree.map(lambda x: x[peaks.template], stack)
    fkdot = np.concatenate([frequencies.at(peaks.frequency)[:, None], found.fkdot[:, 1:]], axis=1)
    return jax.tree.map(np.asarray, with_fields(found, fkdot=fkdot))


def result_meta(task: Task, frequencies: Frequencies, state: State, asked: Asked) -> Meta:
    """Return the meta that describes the search, apart from how it was computed, with the entries that `finished`
    needs.

    Parameters
    ----------
    task : Task
    frequencies : Frequencies
    state : State
        After the last batch.
    asked : Asked
    """
    observation, stack, toplist, keep = task.data.observation, task.stack, task.toplist, asked.keep
    fmax, bounds = float(frequencies.at(np.array(frequencies.n - 1))), keep.bounds or {}
    varied = (*varied_parameters(stack), *asked.varied, *bounds)
    ends = np.array(list(state.subbands), np.int64).reshape(-1, 2)
    subbands = dict(zip(map(tuple, frequencies.at(ends).tolist()), state.subbands.values(), strict=True))
    names = [x for x in parameter_values(stack) if x in varied]
    meta = Provenance.from_observation(observation, task.reftime, names).meta | {
        "n_templates": len(stack.alpha),
        "n_twoF": state.n_twoF,
        "twoF_edges": task.statistic.histogram_edges(observation.n_segments).tolist(),
        "twoF_histogram": state.histogram.tolist(),
        "loudest_per_subband": subband_columns(subbands),
        "fmin": frequencies.first,
        "fmax": fmax,
        "dfreq": frequencies.step,
        "top": toplist.top,
        "threshold": toplist.threshold,
        "ranking": keep.ranking,
        "bsgl_threshold": keep.bsgl_threshold,
        **asked.details.prior.meta,
        "cluster": keep.cluster,
        "bounds": {name: list(pair) for name, pair in bounds.items()},
    }
    if keep.cluster is not None:
        if task.statistic.joins_side_lobes:
            meta["sampling"] = Sampling.of(observation).plain
        meta["metric"] = flat_metric(observation, stack.fkdot.shape[1] - 1, task.reftime, fmax).tolist()
    if asked.lines is not None:
        meta |= {"lines": lines_meta(asked.lines), "veto_lines": keep.veto_lines}
    return meta


def finished(columns: dict[str, np.ndarray], meta: Meta, kind: type[Statistic] | None = None) -> PlainTable:
    """Return the table of a whole search, sorted, clustered if asked for, and with the false-alarm probability.

    All tables of searches end here: undivided ones, merged units, and single templates. Columns that need the whole
    table, ``n_members`` and ``outside``, are added.

    Parameters
    ----------
    columns : dict of (k,) ndarrays
        Candidates, loudest first.
    meta : dict
        Meta of a unit's table; keys that only units have are dropped.
    kind : type of Statistic, optional
        Kind of the statistic, by default the one that the meta names.
    """
    statistic = statistic_of(meta) if kind is None else kind
    number = len(columns["template"])
    columns = _sorted(columns, statistic.sorted_by(meta))
    alarm = statistic.false_alarm(columns, meta) if number else None
    if meta["cluster"] is not None:
        metric = np.array(meta["metric"])
        leader = clustered(columns, metric, meta["cluster"])
        if statistic.joins_side_lobes and number:
            sampling = Sampling.from_plain(meta["sampling"])
            leader = explained(columns, metric, sampling, meta["reftime"], leader, meta["n_twoF"])
        leads = leader == np.arange(number)
        members = np.bincount(leader, minlength=number)
        columns = {name: x[leads] for name, x in (columns | {"n_members": members}).items()}
    if meta["ranking"] == "BSGL":
        columns = _sorted(columns, "log10BSGL")
    if meta["bounds"]:
        columns = columns | {"outside": outside(columns, meta["bounds"])}
    meta = {name: x for name, x in meta.items() if name not in OWN_KEYS} | {"false_alarm": alarm}
    return PlainTable(columns, meta)


def _sorted(columns: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return rows in falling order of a column; rows with equal values stay in their order."""
    order = np.argsort(-columns[name], kind="stable")
    return {name: x[order] for name, x in columns.items()}


def subband_columns(loudest: dict[tuple[float, float], float]) -> dict[str, list[float]]:
    """Return ``meta["loudest_per_subband"]``, given the loudest 2F by first frequency and end, Hz."""
    rows = sorted((*ends, twoF) for ends, twoF in loudest.items())
    return {key: [row[i] for row in rows] for i, key in enumerate(SUBBAND_KEYS)}


def summed_tallies(metas: Sequence[Meta]) -> Meta:
    """Return the entries of meta that count all values, of several searches or units together."""
    loudest: dict[tuple[float, float], float] = {}
    for meta in metas:
        rows = zip(*(meta["loudest_per_subband"][key] for key in SUBBAND_KEYS), strict=True)
        loudest = louder(loudest, {(start, stop): value for start, stop, value in rows})
    return {
        "n_twoF": sum(meta["n_twoF"] for meta in metas),
        "twoF_histogram": np.sum([meta["twoF_histogram"] for meta in metas], axis=0).tolist(),
        "loudest_per_subband": subband_columns(loudest),
    }
