"""From prepared data and a bank of templates to a table of the loudest candidates: `search`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.linerobust import log10_bsgl
from jfstat.candidates.tables import bank_from_table
from jfstat.data.fstatdata import FstatData
from jfstat.searching.driver.batches import Step, check_mesh, run, spans_processes, task_for
from jfstat.searching.driver.plan import SearchPlan, search_plan, share, stacked_bank
from jfstat.searching.reduce.result import Extras, Lines, result_table
from jfstat.searching.reduce.state import State, initial_state, merge_peaks
from jfstat.searching.session.checkpoint import (
    checkpoint_bytes,
    checkpoint_path,
    differences,
    identity,
    read_checkpoint,
    write_checkpoint,
)
from jfstat.searching.session.pace import Pace
from jfstat.searching.session.processes import agreed_plan, first_does, is_first
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.session.stop import SearchStopped, StopRequest, stop_requests
from jfstat.statistic.check import check_data, check_point, fit
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

FAILED = 1 << 16
"""Stop request of a process that cannot go on: larger than any signal's number, since the largest is told to all."""


def search(
    data: FstatData,
    bank: Doppler | QTable,
    top: int | None = 1000,
    threshold: float | None = None,
    checkpoint: str | os.PathLike | None = None,
    mesh: Mesh | None = None,
    progress: bool = True,
    *,
    batch_size: int | None = None,
    per_detector: bool = True,
    amplitudes: bool | None = None,
    fstar0: float = 0.0,
    olgx: Sequence[float] | None = None,
    cluster: float | None = None,
    unit: tuple[int, int] | None = None,
) -> QTable:
    """Search all frequencies of the data with every template of a bank, and keep the loudest.

    Batches of templates are computed on the device, and only a batch's loudest values and tallies leave it: the values
    are those of `twoF_band`. A band that is too wide for the device's memory is searched in parts, one after the other.
    Templates that follow one another and differ in spin-down only share one resampled series, so banks should be
    ordered by sky position, as those of `grid` are.

    Parameters
    ----------
    data : FstatData
    bank : Doppler or QTable
        A stack of n templates, as from `grid`, or one template; ``fkdot[..., 0]`` is ignored. Or a table with columns
        ``alpha``, ``delta``, and any of ``f1dot``, ..., and those of an orbit; ``meta["reftime"]`` counts. Orbits
        should be those that `prepare` was told of: others cost much more, and bins that they take out of the band are
        left out.
    top : int or None
        How many candidates to keep at most; None, with a threshold, keeps all above it.
    threshold : float, optional
        Keep candidates with 2F at or above this only; with `top`, the loudest `top` of them.
    checkpoint : path, optional
        File to hold the state of the search, replaced whole after each batch; if it is there, the search goes on where
        it stopped, and ends in the same table, bit for bit. Ctrl-C and SIGTERM then stop the search after the batches
        under way, with `SearchStopped`, a KeyboardInterrupt; a second one stops it at once.
    mesh : jax.sharding.Mesh, optional
        Devices to divide the templates among, whatever its axes, of this process or, after
        ``jax.distributed.initialize()``, of several, which then all call `search` alike and all get the table. The
        table does not depend on it. See ``jax.make_mesh``.
    progress : bool
        Whether to show a progress bar with the rate and the time left, if tqdm is installed.
    batch_size : int, optional
        Templates computed at a time on each device; by default few on a CPU, whose caches they should not leave, and
        on an accelerator as many as fit into most of the free memory.
    per_detector : bool
        Whether to add each detector's own 2F, and with several detectors the line-robust ``log10BSGL`` (see
        `linerobust.log10_bsgl`), for which the data are narrowed around each candidate.
    amplitudes : bool, optional
        Whether to add estimates of the amplitude parameters and their errors, which with `per_detector` cost nothing;
        as `per_detector` if None.
    fstar0 : float
        Of ``log10BSGL``: the transition scale F*0, as ComputeFstatistic_v2's ``--Fstar0``; -inf compares a signal with
        lines alone.
    olgx : sequence of float, optional
        Of ``log10BSGL``: prior odds of a line in each detector, in the order of ``data.detectors``; equal by default.
    cluster : float, optional
        Keep, of candidates that the metric puts within this mismatch of a louder one, only the loudest: 1 joins what
        one strong signal makes loud in its neighbourhood; see `clusters.clustered`. They count in ``n_members``.
        Clusters form among the `top` candidates.
    unit : (int, int), optional
        Do unit i of n only, 1 <= i <= n: a range of batches. `merge` makes of all units' tables the table of the
        whole search.

    Returns
    -------
    QTable
        One row a candidate, a pair of template and frequency, loudest first; neighbours of a loud candidate are
        candidates too, unless clustered. Columns ``freq`` (Hz), ``f1dot`` (Hz/s), ... at the time ``meta["reftime"]``,
        ``alpha``, ``delta`` (rad), with orbits ``asini``, ``period``, ``tp`` (s), ``ecc``, ``argp`` (rad), then
        ``twoF`` from `twoF_band`; as asked for, ``twoF_H1``, ... as from `fstat`, ``log10BSGL``, ``h0``, ``cosi``,
        ``psi``, ``phi0`` and their ``_error``; and ``template``, the index into the bank. Meta: version, reftime,
        detectors, ephemeris, start (GPS s), tspan (s), n_templates, n_twoF, the number of values of 2F computed,
        batch_size, device_bytes, the memory allowed for on the device (see `search_plan`), fmin, fmax, dfreq (Hz), tsft
        (s), n_sfts of each detector, top, threshold, cluster, Fstar0, oLGX, false_alarm, the probability that noise
        alone has so loud a loudest candidate (an upper bound, as values are correlated), twoF_histogram, the numbers of
        values in bins of 2F that start at twoF_edges, the last open above, and loudest_per_subband.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind or range, a template does not fit the data, or a checkpoint is of another
        search, data set, bank or version, or cannot be written.
    SearchStopped
        If asked to stop while there is a checkpoint.
    """
    check_data(data)
    if not isinstance(bank, Doppler) and hasattr(bank, "colnames"):
        bank = bank_from_table(bank)
    stack = stacked_bank(bank)
    check_worst_templates(data, stack)
    check_mesh(mesh)
    _check_options(top, threshold, batch_size, unit, cluster)
    lines = Lines(float(fstar0), None if olgx is None else tuple(float(x) for x in olgx))
    if per_detector and len(data.detectors) > 1:
        log10_bsgl(np.empty(0), np.empty((0, len(data.detectors))), *lines)  # refuses what is wrong before the search
    path = None if checkpoint is None else checkpoint_path(checkpoint)
    # plain numbers, which JSON can hold
    asked = Asked(
        data,
        stack,
        None if top is None else int(top),
        None if threshold is None else float(threshold),
        None if unit is None else (int(unit[0]), int(unit[1])),
        path,
        mesh,
        bool(progress),
    )
    own = {} if path is None and unit is None else identity(data, stack, asked.top, asked.threshold, asked.unit)
    batch_size = None if batch_size is None else int(batch_size)
    state, plan = _resumed(asked, own, batch_size)
    if plan is None:
        plan = agreed_plan(data, stack, search_plan(data, stack, batch_size), asked.together)
    while True:
        try:
            state = _searched(asked, plan, state, own)
            break
        except DeviceFull as full:
            if batch_size is not None or mesh is not None or plan.batch_size == 1 or (path and full.done):
                kept = f" {full.done} batches are kept in {str(path)!r};" if path else ""
                raise ValueError(
                    f"{plan.batch_size} template(s) at a time exhaust the device's memory, of which others may hold a "
                    f"part:{kept} free some, give a smaller batch_size or prepare a narrower band."
                ) from full
        # others may use the device too: half as many templates at a time, from the start, since batches shape results
        state, plan = None, plan._replace(batch_size=plan.batch_size // 2)
    cluster = None if cluster is None else float(cluster)
    amplitudes = per_detector if amplitudes is None else amplitudes
    extras = Extras(bool(per_detector), bool(amplitudes), lines, cluster)
    return result_table(data, stack, plan, state, asked.top, asked.threshold, extras, asked.unit, own)


class Asked(NamedTuple):
    """What `search` was asked for, checked: its arguments, with the bank as a stack on the host."""

    data: FstatData
    stack: Doppler
    top: int | None
    threshold: float | None
    unit: tuple[int, int] | None
    path: Path | None
    mesh: Mesh | None
    progress: bool

    @property
    def together(self) -> bool:
        """Whether several processes work on it."""
        return spans_processes(self.mesh)

    @property
    def is_first(self) -> bool:
        """Whether this process is the one of them to write files and to show progress."""
        return not self.together or is_first()


class DeviceFull(Exception):
    """The device's memory is exhausted, after so many batches."""

    def __init__(self, done: int):
        super().__init__(done)
        self.done = done


def all_fit(data: FstatData, stack: Doppler) -> bool:
    """Whether all templates of a stack can belong to the data."""
    return bool(jnp.all(_beyond(data, stack) <= 0))


def _beyond(data: FstatData, stack: Doppler) -> jax.Array:
    """What of each template does not fit, (n,), positive if something does not; see `fit`."""
    return jnp.max(jnp.stack(jax.vmap(fit, (None, 0, None))(data, stack, True)), axis=0)


def check_worst_templates(data: FstatData, stack: Doppler) -> None:
    """Raise a ValueError if any template of a stack cannot belong to the data, for the first that cannot."""
    first = int(jnp.argmax(_beyond(data, stack) > 0))
    check_point(data, jax.tree.map(lambda x: jnp.asarray(x[first]), stack), band=True)


def _check_options(top: Any, threshold: Any, batch_size: Any, unit: Any, cluster: Any) -> None:
    if top is None and threshold is None:
        raise ValueError("top and threshold are both None: give one, or everything would be kept.")
    if top is not None and (not _whole(top) or top < 1):
        raise ValueError(f"top must be a whole number of at least 1, not {top!r}: say how many candidates to keep.")
    if threshold is not None and not (np.ndim(threshold) == 0 and np.isreal(threshold) and np.isfinite(threshold)):
        raise ValueError(f"threshold must be a finite number or None, not {threshold!r}: give a value of 2F.")
    if batch_size is not None and (not _whole(batch_size) or batch_size < 1):
        raise ValueError(f"batch_size must be a whole number of at least 1, not {batch_size!r}, or None.")
    if cluster is not None and not (np.ndim(cluster) == 0 and np.isreal(cluster) and 0 < cluster < np.inf):
        raise ValueError(f"cluster must be a positive number or None, not {cluster!r}: give a mismatch, such as 1.")
    if unit is not None:
        pair = isinstance(unit, tuple) and len(unit) == 2 and all(map(_whole, unit))
        if not pair or not 1 <= unit[0] <= unit[1]:
            raise ValueError(f"unit must be (i, n) with 1 <= i <= n, not {unit!r}: (3, 64) is the third of 64.")


def _whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _resumed(asked: Asked, own: dict[str, Any], batch_size: int | None) -> tuple[State | None, SearchPlan | None]:
    """State and plan of the search that stopped; None each if there was none.

    Raises
    ------
    ValueError
        If the checkpoint cannot be written or read, or is of another search.
    """
    path = asked.path
    if path is None:
        return None, None
    content = first_does(lambda: checkpoint_bytes(path), asked.together)
    if content is None:
        return None, None
    state, plan, theirs = read_checkpoint(content, path, asked.stack)
    differing = differences(theirs, own)
    if batch_size is not None and batch_size != plan.batch_size:
        differing = ", ".join(filter(None, [differing, f"batch_size ({plan.batch_size} there, {batch_size} here)"]))
    if differing:
        raise ValueError(
            f"checkpoint {str(path)!r} is of another search: what differs is {differing}; name another file."
        )
    return state, plan


def _searched(asked: Asked, plan: SearchPlan, state: State | None, own: dict[str, Any]) -> State:
    """All batches of the plan, or of a unit of it, from a state on to the last.

    Raises
    ------
    DeviceFull
        If the device's memory does not suffice.
    """
    batches, n_parts = plan.batches, len(plan.bands)
    first_job, last_job = share(len(batches) * n_parts, asked.unit)
    state = initial_state(n_parts) if state is None else state
    templates = np.tile(batches[:, 1], n_parts)[first_job:last_job]
    begun, show = int(templates[: state.done].sum()), asked.progress and asked.is_first
    bar = progress_bar(int(templates.sum()), show, "search", "templates", begun)
    pace, failure = Pace(state.n_twoF), None
    with stop_requests(asked.path is not None) as request, bar as advance:
        for part in range(n_parts):
            begin = max(first_job + state.done - part * len(batches), 0)
            end = min(last_job - part * len(batches), len(batches))
            if begin >= end:
                continue
            # nothing here holds the last part's data while the next are made
            for step in _steps(asked, plan, part, batches[begin:end], request, state.done):
                state = _taken_in(state, part, step, asked)
                advance(sum(found.n_templates for found in step.found), _note(state, pace))
                ended = state.done == last_job - first_job
                due = failure is None and (ended or step.stop or pace.due())
                if asked.path is not None and asked.is_first and due:
                    try:
                        with pace.writing():
                            write_checkpoint(asked.path, state, plan, own)
                    except ValueError as error:
                        if not asked.together:
                            raise
                        # the others wait in the next step, whose stop request tells them
                        request.signal, failure = FAILED, error
                if step.stop and not ended:
                    raise failure or _stopped(step.stop, state.done, last_job - first_job, asked.path)
    if failure is not None:
        raise failure
    return state


def _steps(
    asked: Asked, plan: SearchPlan, part: int, batches: np.ndarray, request: StopRequest, done: int
) -> Iterator[Step]:
    """Batches of a part of the band; `done` were done before."""
    try:
        task = task_for(asked.data, asked.stack, plan, part, asked.top, asked.threshold, asked.mesh)
        for step in run(task, batches, asked.mesh, request):
            yield step
            done += len(step.found)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise DeviceFull(done) from error


def _taken_in(state: State, part: int, step: Step, asked: Asked) -> State:
    peaks, histogram, subbands = state.peaks, state.histogram, list(state.subbands)
    own = subbands[part].with_edges(step.edges)
    for batch in step.found:
        peaks = merge_peaks(peaks, batch.peaks, asked.top, asked.threshold)
        histogram = histogram + batch.histogram
        own = own._replace(twoF=np.maximum(own.twoF, batch.subbands))
    subbands[part] = own
    return State(state.done + len(step.found), peaks, histogram, tuple(subbands))


def _stopped(number: int, done: int, total: int, path: Path | None) -> BaseException:
    if number == FAILED:
        return ValueError("another process could not write the checkpoint: see its message.")
    return SearchStopped(
        f"search stopped after {done} of {total} batches, kept in {str(path)!r}: the same call goes on from there.",
        number,
    )


def _note(state: State, pace: Pace) -> str:
    """What to show of a search under way."""
    loudest = f", loudest {state.peaks.twoF[0]:.1f}" if len(state.peaks.twoF) else ""
    return f"{pace.rate(state.n_twoF):.2e} 2F/s{loudest}"
