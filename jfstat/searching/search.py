"""From prepared data and a bank of templates to a table of the loudest candidates: `search`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.subband import subband
from jfstat.geometry.orbit import orbit_speed
from jfstat.searching.loudest import Method, loudest, method_for
from jfstat.searching.memory import most_templates, needed_bytes, parts_needed
from jfstat.searching.progress import progress_bar
from jfstat.searching.tables import candidates_table
from jfstat.searching.workers import in_order, workers_for
from jfstat.statistic.check import check_data, check_point, fit
from jfstat.statistic.fstat import fstat
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

CANDIDATES = 64
"""Candidates at most whose 2F per detector is computed at a time."""
PADDED = 1.5
"""Templates computed for each one asked for, at most, for that to pay."""
SPIN_DOWNS = 4
"""Spin-downs a sky position, in the mean, from which on it pays to resample once for all of them."""


class Peaks(NamedTuple):
    """Loudest values found, in falling order.

    Attributes
    ----------
    twoF : (k,) float32
    template : (k,) int64
        Index into the bank.
    frequency : (k,) int64
        Index into ``data.frequencies``.
    """

    twoF: np.ndarray
    template: np.ndarray
    frequency: np.ndarray


NO_PEAKS = Peaks(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))


def search(
    data: FstatData,
    bank: Doppler,
    top: int = 1000,
    threshold: float | None = None,
    checkpoint: None = None,
    mesh: None = None,
    progress: bool = True,
    *,
    batch_size: int | None = None,
    per_detector: bool = True,
) -> QTable:
    """Search all frequencies of the data with every template of a bank, and keep the loudest.

    Batches of templates are computed on the device, and only a batch's loudest values leave it: the values are those
    of `twoF_band`. A band that is too wide for the device's memory is searched in parts, one after the other.
    Templates that follow one another and differ in spin-down only share one resampled series, so banks should be
    ordered by sky position, as those of `grid` are.

    Parameters
    ----------
    data : FstatData
    bank : Doppler
        A stack of n templates, as from `grid`, or one template; ``fkdot[..., 0]`` is ignored. Orbits should be those
        that `prepare` was told of: others cost much more, and bins that they take out of the band are left out.
    top : int
        How many candidates to keep at most.
    threshold : float, optional
        Keep candidates with 2F at or above this only; with `top`, the loudest `top` of them.
    checkpoint, mesh : None
        Reserved: resuming and several devices are not there yet, and anything but None is refused.
    progress : bool
        Whether to show a progress bar, if tqdm is installed.
    batch_size : int, optional
        Templates computed at a time; by default few on a CPU, whose caches they should not leave, and on an accelerator
        as many as fit into most of the free memory.
    per_detector : bool
        Whether to add each detector's own 2F, which costs a direct sum over the data for each candidate.

    Returns
    -------
    QTable
        One row a candidate, a pair of template and frequency, loudest first; neighbours of a loud candidate are
        candidates too. Columns ``freq`` (Hz), ``f1dot`` (Hz/s), ... at the time ``meta["reftime"]``, ``alpha``,
        ``delta`` (rad), with orbits ``asini``, ``period``, ``tp`` (s), ``ecc``, ``argp`` (rad), then ``twoF`` from
        `twoF_band` and ``twoF_H1``, ... from `fstat`. Meta: version, reftime, detectors, ephemeris, start (GPS s),
        tspan (s), n_templates, n_twoF, the number of values of 2F computed, batch_size, and device_bytes, the memory
        allowed for on the device; see `search_plan`.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind or range, or a template does not fit the data.
    """
    check_data(data)
    stack = _stacked(bank)
    check_worst_templates(data, stack)
    for name, value in (("checkpoint", checkpoint), ("mesh", mesh)):
        if value is not None:
            raise ValueError(f"{name} is not supported yet: leave it None.")
    if not _whole(top) or top < 1:
        raise ValueError(f"top must be a whole number of at least 1, not {top!r}: say how many candidates to keep.")
    if threshold is not None and not (np.ndim(threshold) == 0 and np.isreal(threshold) and np.isfinite(threshold)):
        raise ValueError(f"threshold must be a finite number or None, not {threshold!r}: give a value of 2F.")
    if batch_size is not None and (not _whole(batch_size) or batch_size < 1):
        raise ValueError(f"batch_size must be a whole number of at least 1, not {batch_size!r}, or None.")

    n_templates = stack.alpha.shape[0]
    plan = search_plan(data, stack, batch_size)
    best = NO_PEAKS
    with progress_bar(n_templates * len(plan.bands), progress, "search", "templates") as advance:
        for band in plan.bands:
            part, plan = _search_band(data, stack, plan, band, int(top), threshold, batch_size is None, advance)
            best = merge_peaks(best, part, int(top), threshold)
    found = _candidates(data, stack, best)
    per = _twoF_per_detector(data, found, best.twoF) if per_detector else None
    meta = {
        "reftime": data.reftime if stack.reftime is None else stack.reftime,
        "detectors": list(data.detectors),
        "ephemeris": data.ephemeris,
        "start": data.epoch,
        "tspan": data.tspan,
        "n_templates": n_templates,
        "n_twoF": n_templates * data.layout.n_frequencies,
        "batch_size": plan.batch_size,
        "device_bytes": plan.device_bytes,
    }
    return candidates_table(found, best.twoF, per, meta)


def default_batch_size(n: int, most: int) -> int:
    """Length of the batches in which to do n things, at most `most` at a time.

    A power of two where one batch holds all: a little padding costs less than to compile for each n anew.
    """
    return min(most, 1 << (n - 1).bit_length())


class SearchPlan(NamedTuple):
    """How a search is cut up, known before anything is computed.

    Attributes
    ----------
    method : Method
    batch_size : int
        Templates computed at a time; the last batch of a group is padded.
    groups : list of (int, int)
        Ranges of templates that batches do not straddle.
    same_source : bool
        Whether all templates of a group have one sky position and orbit, and share a resampled series.
    bands : list of (int, int)
        First frequency and number of frequencies of the parts of the band.
    device_bytes : int
        Memory that it takes on the device, about, data included.
    """

    method: Method
    batch_size: int
    groups: list[tuple[int, int]]
    same_source: bool
    bands: list[tuple[int, int]]
    device_bytes: int


def search_plan(data: FstatData, bank: Doppler, batch_size: int | None = None) -> SearchPlan:
    """How `search` would cut up a search, and the memory that it would take; nothing is run.

    Parameters
    ----------
    data : FstatData
    bank : Doppler
        A stack of templates.
    batch_size : int, optional
        As for `search`.

    Raises
    ------
    ValueError
        If the device's memory suffices for no part of the band.
    """
    stack = _stacked(bank)
    method = method_for(data)
    n_parts = parts_needed(data, stack, method)
    # all of one width, so that one compilation serves them; the last overlaps with the one before
    width = -(-data.layout.n_frequencies // n_parts)
    bands = [(min(i * width, data.layout.n_frequencies - width), width) for i in range(n_parts)]

    n = len(stack.alpha)
    source = np.stack([stack.alpha, stack.delta, *(() if stack.orbit is None else jax.tree.leaves(stack.orbit))])
    starts = np.flatnonzero(np.r_[True, (source[:, 1:] != source[:, :-1]).any(axis=0)]).tolist()
    most = most_templates(data, stack, method, n_parts)
    groups = list(pairwise([*starts, n]))
    lengths = np.diff([*starts, n])
    size = int(batch_size or default_batch_size(int(lengths.max()), most))
    # worth it where positions have several spin-downs each and little is padded
    same_source = bool(
        n >= SPIN_DOWNS * len(starts) and stack.fkdot.shape[1] > 1 and np.sum(-(-lengths // size)) * size <= PADDED * n
    )
    if not same_source:
        groups, size = [(0, n)], int(batch_size or default_batch_size(n, most))
    return SearchPlan(method, size, groups, same_source, bands, needed_bytes(data, stack, method, n_parts, size))


def merge_peaks(first: Peaks, second: Peaks, top: int, threshold: float | None) -> Peaks:
    """The loudest `top` of two sets at or above a threshold; equal values in the order of template and frequency.

    What is in both counts once: parts of a band may overlap.
    """
    both = Peaks(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    if threshold is not None:
        both = Peaks(*(x[both.twoF >= threshold] for x in both))
    order = np.lexsort((both.frequency, both.template, -both.twoF))
    _, once = np.unique((both.template << 32) + both.frequency, return_index=True)
    order = order[np.isin(order, once)] if len(once) < len(order) else order
    return Peaks(*(x[order[:top]] for x in both))


def check_worst_templates(data: FstatData, stack: Doppler) -> None:
    """Raise a ValueError if any template of a stack cannot belong to the data, for the first that cannot."""
    beyond = jnp.stack(jax.vmap(fit, (None, 0, None))(data, stack, True))
    first = int(jnp.argmax(jnp.max(beyond, axis=0) > 0))
    check_point(data, jax.tree.map(lambda x: jnp.asarray(x[first]), stack), band=True)


def _whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _stacked(bank: Any) -> Doppler:
    """The bank with NumPy leaves of exactly one leading axis, on the host, where batches are cut."""
    if not isinstance(bank, Doppler):
        raise ValueError(f"bank must be a jfstat.Doppler, one or a stack, not {type(bank).__name__}: see jfstat.grid.")
    if np.size(bank.alpha) == 0:
        raise ValueError("bank holds no templates: give at least one.")
    return jax.tree.map(
        lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(bank.alpha) :]), bank
    )  # a Doppler's leaves have the same batch axes


def _with_numpy_leaves(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _search_band(
    data: FstatData,
    stack: Doppler,
    plan: SearchPlan,
    band: tuple[int, int],
    top: int,
    threshold: float | None,
    may_shrink: bool,
    advance: Any,
) -> tuple[Peaks, SearchPlan]:
    """Loudest values of a part of the band, and the plan with batches that fitted into the device's memory."""
    first, n_frequencies = band
    whole = len(plan.bands) == 1 and bool(data.bank)
    part = data if whole else subband(data, first, n_frequencies, _margin(data, stack))
    while True:
        best, done = NO_PEAKS, 0
        try:
            for peaks, n_done in _batch_peaks(part, stack, plan, top):
                best = merge_peaks(best, peaks._replace(frequency=peaks.frequency + first), top, threshold)
                done += n_done
                advance(n_done)
            return best, plan
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            if not may_shrink or plan.batch_size == 1:
                raise ValueError(
                    f"{plan.batch_size} template(s) at a time exhaust the device's memory, of which others may hold a "
                    "part: free some, leave out batch_size or prepare a narrower band."
                ) from error
        # others may use the device too: half as many templates at a time, from the start of this part
        advance(-done)
        plan = plan._replace(batch_size=plan.batch_size // 2)


def _margin(data: FstatData, stack: Doppler) -> float:
    """How far orbits may move a signal, Hz: room for it in each part, whether `prepare` was told of them or not."""
    return 0.0 if stack.orbit is None else float(np.max(orbit_speed(stack.orbit)) * data.frequencies[-1])


def _batch_peaks(data: FstatData, stack: Doppler, plan: SearchPlan, top: int) -> Iterator[tuple[Peaks, int]]:
    """Loudest values of each batch and the batch's number of templates."""
    size = plan.batch_size
    keep = min(top, size * data.layout.n_frequencies)

    def peaks_of(batch: tuple[int, int]) -> tuple[Peaks, int]:
        start, n_valid = batch
        rows = np.minimum(np.arange(start, start + size), start + n_valid - 1)
        points = jax.tree.map(lambda x: x[rows], stack)
        found = loudest(data, points, n_valid, keep, plan.method, plan.same_source)
        twoF = np.asarray(found.twoF)
        real = twoF > -np.inf  # neither padding of the batch nor beyond the band
        template, frequency = np.asarray(found.template, np.int64)[real], np.asarray(found.frequency, np.int64)[real]
        return Peaks(twoF[real], start + template, frequency), n_valid

    batches = [(start, min(size, stop - start)) for first, stop in plan.groups for start in range(first, stop, size)]
    yield from in_order(peaks_of, batches, min(len(batches), workers_for(device_of(data))))


def _candidates(data: FstatData, stack: Doppler, peaks: Peaks) -> Doppler:
    """Templates of the peaks, with their frequencies; NumPy leaves (k, ...)."""
    found = jax.tree.map(lambda x: x[peaks.template], stack)
    fkdot = np.concatenate([data.frequencies[peaks.frequency][:, None], found.fkdot[:, 1:]], axis=1)
    return _with_numpy_leaves(Doppler(found.alpha, found.delta, fkdot, found.reftime, found.orbit))


def _twoF_per_detector(data: FstatData, found: Doppler, twoF: np.ndarray) -> np.ndarray:
    """2F of each detector alone at each candidate, (k, D) float64, in chunks of one shape."""
    n, n_detectors = len(twoF), len(data.detectors)
    values = np.empty((n, n_detectors))
    if n == 0:
        return values
    if n_detectors == 1:
        return twoF[:, None].astype(np.float64)
    size = default_batch_size(n, min(CANDIDATES, most_templates(data, found, Method.LIBRARY, 1)))
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        chunk = _per_detector(data, jax.tree.map(lambda x, rows=rows: x[rows], found))
        values[start : start + size] = np.asarray(chunk)[: n - start]
    return values


@jax.jit
def _per_detector(data: FstatData, points: Doppler) -> jax.Array:
    return jax.vmap(lambda point: fstat(data, point).twoF_per_detector)(points)
