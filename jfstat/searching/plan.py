"""Plan a search, say what it will cost, and run it: `plan_search`."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.details import Details
from jfstat.candidates.tables import Meta
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import is_exhausted
from jfstat.data.normalised import NormalisedSFTs
from jfstat.data.protocol import Searchable
from jfstat.display import Displayed, Facts, bytes_text
from jfstat.lines.doppler import LineBands, line_bands, lines_near, widened
from jfstat.public import host, public
from jfstat.searching.bank import stacked_bank
from jfstat.searching.division import Division
from jfstat.searching.driver.batches import steps
from jfstat.searching.driver.mesh import spans_processes
from jfstat.searching.options import Keep, Run
from jfstat.searching.reduce.state import NOTHING_FOUND, State
from jfstat.searching.reduce.toplist import Toplist, checked_threshold
from jfstat.searching.result import Asked, compiling_columns, result_table, search_meta
from jfstat.searching.session.checkpoint import Checkpoint, checkpoint_path
from jfstat.searching.session.identity import Identity, identity
from jfstat.searching.session.pace import Pace
from jfstat.searching.session.processes import agreed_division, is_first
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.session.stop import SearchStopped, stop_requests
from jfstat.searching.statistic import Statistic, Task
from jfstat.searching.statistics import statistic_for
from jfstat.signal.showing import beyond_asked
from jfstat.signal.templates import Doppler
from jfstat.statistic.linerobust import LineCut
from jfstat.validation import shown

if TYPE_CHECKING:
    from astropy.table import QTable

FAILED = 1 << 16
"""Stop request of a process that failed: above the number of any signal, because all obey the largest request."""


class SearchPlan(Displayed):
    """Search that can be run, and what it will cost; made by `jfstat.plan_search`.

    `seconds` says how long it takes here, `n_values` how many values of the statistic it computes, `device_bytes` how
    much memory it needs, and `run` runs it.

    Attributes
    ----------
    statistic : Statistic
        What is searched for.
    n_templates : int
        Number of templates of the bank.
    """

    def __init__(self, task: Task, asked: Asked, run: Run, checkpoint: Path | None, progress: bool):
        self._task, self._asked, self._run = task, asked, run
        self._checkpoint, self._progress = checkpoint, progress
        self.statistic, self.n_templates = task.statistic, len(task.stack.alpha)

    def _facts(self) -> Facts:
        rows = [("search", f"{self.statistic.name}: {self.n_templates} templates, {self.n_values:.3e} values")]
        if "_division" in self.__dict__:  # to find it may take long: not for a text
            own = self._division
            rows.append(("device", f"{own.batch_size} at a time by {own.engine}, {bytes_text(own.device_bytes)}"))
        beyond = ", ".join(name for name, _ in beyond_asked(self._task.stack))
        if beyond:
            rows.append(
                ("bank", f"reaches beyond the ranges asked for in {beyond}: templates there may be nearest to signals")
            )
        return Facts("SearchPlan", rows, many=True)

    @cached_property
    def _division(self) -> Division:
        return self._task.statistic.division(self._task, self._run)

    @property
    def engine(self) -> str:
        """Name of the engine that computes 2F."""
        return self._division.engine

    @property
    def batch_size(self) -> int:
        """Number of templates computed at a time on each device."""
        return self._division.batch_size

    @property
    def n_values(self) -> int:
        """Number of values of the statistic in the whole search."""
        return self.n_templates * self._task.data.layout.n_frequencies

    @property
    def n_parts(self) -> int:
        """Number of parts of the band, searched one after the other, into which the device's memory divides it."""
        return len(self._division.bands)

    @property
    def device_bytes(self) -> int:
        """Approximate memory needed on each device, data included, bytes."""
        return self._division.device_bytes

    @property
    def n_coherent(self) -> int | None:
        """Number of templates computed in the segments by `Interpolated`; None for other statistics."""
        return self._division.n_coherent

    @property
    def lines(self) -> QTable | None:
        """Known lines that any template can cross in the band; None if no lines were given."""
        return self._asked.lines

    def seconds(self) -> float:
        """Return how long the search, or its unit, takes on one device without compilation, s, by timing some batches.

        The candidates' details are included, for as many candidates as there will be in noise.
        """
        task, division = self._task, self._division
        first, last = self._run.jobs(division.n_jobs)
        share = (last - first) / division.n_jobs
        searching = task.statistic.seconds(task, division) * share
        if not self._asked.details.wanted:
            return searching
        return searching + task.statistic.candidate_seconds(task, self.n_values * share)

    @public
    def run(self) -> QTable:
        """Run the search and return its table; see `jfstat.search`.

        Raises
        ------
        OSError
            If the checkpoint cannot be read or written.
        ValueError
            If the device's memory does not suffice, or a checkpoint is of another search, data set, bank, engine or
            version, or in use by another.
        SearchStopped
            If a search with a checkpoint is asked to stop.
        """
        path, task = self._checkpoint, self._task
        own = {} if path is None and self._run.unit is None else self.identity()
        stored = None if path is None else Checkpoint(path, own, spans_processes(self._run.mesh))
        in_use = nullcontext() if stored is None else stored.in_use()
        with in_use, compiling_columns(task, self._asked.details) as later:
            division, state = self._divided_and_searched(stored, later)
        return result_table(task, division, state, self._asked, own, self._shows_progress)

    def loudest(self) -> tuple[dict[str, list[float]], Meta]:
        """Run the search for the loudest value of each sub-band alone; return them and the meta of the search.

        They are as in ``meta["loudest_per_subband"]``. No candidate's columns are computed.
        """
        division, state = self._divided_and_searched(None, None)
        meta = search_meta(self._task, division, state, self._asked)
        return meta["loudest_per_subband"], meta

    def identity(self) -> Identity:
        """Return what distinguishes this search from others."""
        return identity(self._task, self._run.unit)

    @property
    def _shows_progress(self) -> bool:
        """Whether this process shows progress."""
        return self._progress and (is_first() or not spans_processes(self._run.mesh))

    def _divided_and_searched(self, stored: Checkpoint | None, later: Thread | None) -> tuple[Division, State]:
        """Return the division of the search, from the checkpoint if there is one, and what all batches contain.

        The thread `later`, of `compiling_columns`, if any, is started when the search's program is traced.

        Raises
        ------
        ValueError
            If the checkpoint is of another search, or the device's memory does not suffice.
        """
        run, together = self._run, spans_processes(self._run.mesh)
        resumed = None if stored is None else stored.resumed(self._task.stack, run.batch_size, run.engine)
        if resumed is None:
            own = self._division
            resumed = NOTHING_FOUND, agreed_division(self._task, own) if together else own
        state, division = resumed
        while True:
            try:
                return division, self._searched(division, state, stored, later)
            except DeviceFull as full:
                if run.batch_size is not None or together or division.batch_size == 1 or (stored and full.done):
                    kept = f" {full.done} batches are kept in {str(stored.path)!r};" if stored else ""
                    raise ValueError(
                        f"{division.batch_size} template(s) at a time exhaust the device's memory, of which others may "
                        f"hold a part:{kept} free some, give a smaller batch_size or data of a narrower band."
                    ) from full
            # other programs may use the device too: try half as many templates at a time. Start again, because results
            # depend on the batch size to the last bit
            state, division = NOTHING_FOUND, division._replace(batch_size=division.batch_size // 2)

    def _searched(self, division: Division, state: State, stored: Checkpoint | None, later: Thread | None) -> State:
        """Return what all batches contain, given the state after the first `state.done` of them.

        Raises
        ------
        DeviceFull
            If the device's memory does not suffice.
        """
        mesh, toplist = self._run.mesh, self._task.toplist
        first, last = self._run.jobs(division.n_jobs)
        sizes = np.tile(division.batches[:, 1], len(division.bands))[first:last]
        jobs = range(first + state.done, last)
        bar = progress_bar(
            int(sizes.sum()), self._shows_progress, "search", "templates", int(sizes[: state.done].sum())
        )
        pace, failure = Pace(state.n_twoF), None
        with stop_requests(stored is not None) as request, bar as advance:
            try:
                for found, stop in steps(self._task, division, jobs, mesh, lambda: request.signal, later):
                    n_templates = int(sizes[state.done : state.done + found.done].sum())
                    state = state.joined(found, toplist)
                    advance(n_templates, _note(state, pace))
                    ended = state.done == len(sizes)
                    if stored is not None and failure is None and (ended or stop or pace.due()):
                        with pace.writing():
                            failure = stored.written(state, division)
                        if failure is not None:  # the others learn of it by the stop request of the next step
                            request.signal = FAILED
                    if stop and not ended:
                        raise failure or _stopped(stop, state.done, len(sizes), stored)
            except jax.errors.JaxRuntimeError as error:
                if not is_exhausted(error):
                    raise
                raise DeviceFull(state.done) from error
        if failure is not None:
            raise failure
        return state


class DeviceFull(Exception):
    """The device's memory was exhausted after `done` batches."""

    def __init__(self, done: int):
        super().__init__(done)
        self.done = done


@host("jax.vmap jfstat.twoF_band there", progress=kinds.flag)
def plan_search(
    data: FstatData | NormalisedSFTs,
    bank: Doppler | QTable,
    statistic: Statistic | None = None,
    top: int | None = 1000,
    threshold: float | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
    *,
    keep: Keep | None = None,
    details: Details | None = None,
    run: Run | None = None,
) -> SearchPlan:
    """Return the plan of a search: it checks all arguments and says what the search will cost, without computing 2F.

    Parameters
    ----------
    data, bank, statistic, top, threshold, checkpoint, progress, keep, details, run
        As for `search`.

    Returns
    -------
    SearchPlan
        ``plan.run()`` is the search.

    Raises
    ------
    TypeError, ValueError
        As `search`.

    Examples
    --------
    >>> bank = jfstat.template_bank((2.0, 2.2, 0.1), 0.47, f1dot=[-1e-10], data=data)
    >>> plan = jfstat.plan_search(data, bank)
    >>> plan.n_templates, plan.engine
    (3, 'xla')
    """
    for name, value, kind in (("keep", keep, Keep), ("details", details, Details), ("run", run, Run)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be a jfstat.{kind.__name__} or None, not {shown(value)}.")
    keep, details, run = keep or Keep(), details or Details(), run or Run()
    statistic = statistic_for(data, statistic)
    stack = stacked_bank(bank)
    statistic.check(data, stack, keep, details)
    if stack.model is not None and keep.cluster is not None:
        raise ValueError("cluster does not know the templates' phase model: leave it out, and refine(..., merge=True).")
    statistic.check_bank(data, stack)
    details.check(len(data.detectors), keep.bsgl_threshold is not None)
    known = None
    if keep.lines is not None:
        margin = statistic.line_margin(data)
        known = _lines_crossed(data, stack, widened(keep.lines, margin) if margin else keep.lines)
    threshold = statistic.threshold(checked_threshold(threshold))
    toplist = Toplist(top, threshold, _line_cut(data, keep, details), _vetoed(data, stack, known, keep))
    task = Task(data, stack, statistic, toplist, {})
    statistic.reduction(task, run.engine)  # raises for wrong arguments before the search begins
    path = None if checkpoint is None else checkpoint_path(checkpoint)
    return SearchPlan(task, Asked(keep, details, run.unit, known, stack.varied or ()), run, path, bool(progress))


def _line_cut(data: Searchable, keep: Keep, details: Details) -> LineCut | None:
    """Return the cut by the line-robust statistic that is asked for, if any."""
    if keep.bsgl_threshold is None:
        return None
    if len(data.detectors) < 2:
        raise ValueError("bsgl_threshold compares detectors, of which data have one: leave it out.")
    return LineCut(keep.bsgl_threshold, details.prior.fstar0, details.prior.odds(len(data.detectors)))


def _lines_crossed(data: Searchable, stack: Doppler, lines: QTable) -> QTable:
    """Return the known lines that could affect any template of a stack in the band of the data."""
    low = float(data.fmin)
    high = low + (data.layout.n_frequencies - 1) * float(data.dfreq)
    return lines_near(lines, data.observation, stack, low, high)


def _vetoed(data: Searchable, stack: Doppler, known: QTable | None, keep: Keep) -> LineBands | None:
    """Return the bands of lines that are vetoed; None if there are none."""
    if not keep.veto_lines or known is None or not len(known):
        return None
    return line_bands(known, data.observation, stack)


def _stopped(number: int, done: int, total: int, stored: Checkpoint | None) -> BaseException:
    """Return the exception that ends a search that was asked to stop."""
    if number == FAILED:
        return OSError("another process could not write the checkpoint: see its message.")
    kept = "" if stored is None else f", kept in {str(stored.path)!r}"
    return SearchStopped(
        f"search stopped after {done} of {total} batches{kept}: the same call goes on from there.", number
    )


def _note(state: State, pace: Pace) -> str:
    """Return what the progress bar shows beside the time left."""
    loudest = f", loudest {state.peaks.twoF[0]:.1f}" if len(state.peaks.twoF) else ""
    return f"{pace.rate(state.n_twoF):.2e} 2F/s{loudest}"
