"""Refine a table of candidates by gradients of 2F: `refine`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.lineflags import lines_from_meta
from jfstat.candidates.transienttable import window_of_table
from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.data.workers import CompiledLater, begin_in_turns, compile_together
from jfstat.followup.batches import (
    Batch,
    batch_size,
    batches,
    compared_together,
    narrow_batch_size,
    programs_cost_more,
    reaches,
    suited,
    too_many_nodes,
)
from jfstat.followup.candidates import Candidates, SearchedWith, fitted_names, misfits, read_rows
from jfstat.followup.coverage import Coverage, coverages
from jfstat.followup.distinct import distinct
from jfstat.followup.free import FreeParameters
from jfstat.followup.groups import in_groups
from jfstat.followup.look import Surroundings
from jfstat.followup.method import NEWTON, Method
from jfstat.followup.neighbourhood import Neighbourhood, Survey, frequency_shifts
from jfstat.followup.options import Fit, checked_fit
from jfstat.followup.peak import on_host
from jfstat.followup.peakvalues import PeakValues
from jfstat.followup.programs import Foreseen, Programs, foresee, surveying
from jfstat.followup.results import CELLS, ENDINGS, Results, Rivals, ending, results_table
from jfstat.followup.transientfit import refined_with_windows
from jfstat.maths.newton import CONVERGED, LEFT, NOWHERE
from jfstat.metrics.mismatch import mismatch as mismatch_of
from jfstat.public import host
from jfstat.searching.session.progress import progress_bar
from jfstat.signal.parameters import ORBIT_FIELDS
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields

if TYPE_CHECKING:
    import optax
    from astropy.table import QTable

    from jfstat.candidates.tables import AnyTable
    from jfstat.signal.phasemodel import PhaseModel
    from jfstat.signal.transientwindow import Shape

ROUNDS = 4
"""Largest number of rounds: candidates that leave the reach of their narrow data continue in new narrow data."""
OUTSIDE = 0.6
"""Distance beyond the covered region, across the frequency, from which the surroundings of a peak are covered as
well."""


@host("maximise jfstat.twoF of narrow data there", found=kinds.row_as_table, merge=kinds.flag, progress=kinds.flag)
def refine(
    data: FstatData,
    found: AnyTable | Doppler,
    optimizer: optax.GradientTransformation | None = None,
    fit: Fit | None = None,
    *,
    merge: bool = False,
    model: PhaseModel | None = None,
    transient: Shape | None = None,
    progress: bool = True,
) -> QTable:
    """Refine candidates by gradients: climb to the highest peak of 2F around each, and give error bars.

    Around each candidate the data are compressed (`narrow`) and the parameters whitened by the metric (`whiten`). 2F is
    computed over the whole neighbourhood of signals that could cause the candidate: at the points of a lattice that
    follows the curvature of the sky, each at many frequencies. A trust-region Newton method climbs from the best of
    them, with the exact gradient and Hessian of 2F, or an optimiser of optax with the gradient; the errors follow from
    the Hessian at the peak. If a candidate can't be refined, its row says why; other candidates are not affected.

    With data of several segments the mean of 2F over segments is climbed (`mean_twoF`), in coordinates whitened by
    its metric.

    Parameters
    ----------
    data : FstatData
        Data of a band that contains the candidates; may have a leading axis of segments. Use all available data, even
        if the search used fewer.
    found : QTable, Table, Row or Doppler
        Candidates, as `search` and `read_candidates` return them: columns ``freq``, ``alpha``, ``delta``, any of
        ``f1dot``, ``f2dot``, ..., and ``asini``, ``period``, ``tp``, ``ecc``, ``argp`` together or not at all (the last
        two may be missing), with or without units. asini = 0 means no orbit. Frequencies hold at ``meta["reftime"]``.
        Or one row of such a table, or a template or a stack of templates.
    optimizer : optax.GradientTransformation, optional
        Optimiser to use in place of Newton's method, from the same starts, in the same coordinates and within the same
        bounds: ``optax.lbfgs(1.0, linesearch=None)``, ``optax.adam(0.05)``, ... It minimises -2F divided by 2F at the
        start of the climb, in whitened coordinates, where a peak has a radius of about 1: learning rates are in these
        units, and a rate near 0.5 makes gradient descent take about Newton's step. See Notes, and docs/followup.md for
        which one to take. Optimisers made anew in a loop reuse compiled programs if all their functions are optax's.
        Define your own functions, such as a schedule, once before the loop: each new one means a compilation.
    fit : Fit, optional
        Which parameters are fitted, within which bounds, and how far around each candidate to look for the highest
        peak.
    merge : bool
        Whether to return one row for each peak instead of one for each candidate: of candidates that ended on one peak
        the row with the highest 2F, and ``n_merged``, the number of candidates; see `distinct.distinct`.
    model : PhaseModel, optional
        Phase model of the candidates of a table, which cannot hold a function; its parameters are taken from columns
        such as ``model.df`` where the table has them. Templates have models of their own.
    transient : str or callable, optional
        Shape of the windows of transient signals, see `TransientWindow`, whose start times and time scales are in the
        columns ``t0`` and ``tau`` and are fitted too. By default the shape of the search, if `found` is from a search
        for `Transient` signals or from ``fstat_table(transient=)``; remove ``transient`` from the table's meta to
        refine its candidates as persistent signals.
    progress : bool
        Whether to show progress, as `search` does.

    Returns
    -------
    QTable
        A row for each candidate, in the same order, unless merged. Columns:

        - the refined parameters, and ``<name>_error`` of each fitted one, one sigma, NaN where it is unknown;
        - ``twoF`` and ``twoF_H1``, ... at the peak (`fstat` on narrow data: right to 1e-6), with several detectors
          ``log10BSGL`` there, with the search's `LinePrior` (equal odds if it had other detectors), and ``start_twoF``,
          2F at the candidate; ``outside`` if the search had bounds, and ``line`` if lines are known;
        - ``h0``, ``cosi``, ``psi``, ``phi0`` and their errors, from `estimate_amplitude` at the peak, with the fitted
          parameters held there: ``phi0`` changes by many cycles within the parameters' errors, unless the position is
          known;
        - ``noise_chance``, an upper bound on the probability that Gaussian noise alone reaches this 2F, in as many
          templates as were tried here and in the search (``meta["n_twoF"]``, which text files of other programs lack);
        - ``peak_probability``, the probability that a signal lies on this peak rather than on another one that was
          seen: all peaks that were climbed, by Laplace's approximation, and the highest 2F elsewhere in the covered
          neighbourhood and, unless ``freq`` is held, up to 32 bins to either side of 16 of its points, as far as twice
          the reach of narrow data. Peaks further away are not seen: if the start is less certain than that, give more
          ``fit.bins``, or search first. NaN if the climb did not converge;
        - ``start_mismatch``, the loss of rho^2 between the peak and the candidate (`jfstat.mismatch`). Near 1 the
          candidate hardly shows this signal, and may owe its 2F to another one or to noise;
        - ``moved``, the distance from the start in whitened coordinates, where a peak has a radius of about 1, summed
          over rounds if the climb took several;
        - ``steps``, the number of gradients and Hessians computed in all climbs, or of an optimiser's steps;
          ``converged``; ``message``, a sentence on how it ended;
        - ``covariance``, (p, p), in the order of ``meta["parameters"]`` and the columns' units;
        - with segments ``mean_twoF``, ``mean_twoF_H1``, ... (over the segments in which the detector has data) and
          ``start_mean_twoF`` in place of the columns of 2F; amplitudes from `semicoherent_amplitude`, without phi0;
          log10BSGL and ``noise_chance`` of the sum, which has four degrees of freedom for each segment;
        - other columns of `found` that do not depend on the template, such as names; ``template`` and ``n_members``
          show where the candidate came from;
        - with `transient`, ``t0`` and ``tau`` (s) of the window of largest 2F, with ``t0_error`` and ``tau_error``, the
          root-mean-square distances from ``t0`` and ``tau`` by the posterior exp(F), marginalised over the refined
          parameters. All other columns are for the data times this window (`windowed`): ``twoF`` is `transient_twoF`,
          and amplitudes hold while the signal lasts. Only ``start_twoF`` is for the window that `found` gives.
          ``covariance`` and the errors of the refined parameters include the uncertainty of the window; errors of the
          amplitudes are for this window and these parameters, and therefore too small. ``moved`` and ``steps`` are
          summed over alternate climbs and window fits. See docs/transients.md for how often these errors cover the
          truth.

        Meta: version, reftime, detectors, ephemeris, start, tspan, parameters, n_twoF, Fstar0, oLGX, bounds, optimizer
        (what it consists of, with its numbers), max_steps; with segments n_segments and segment_tspan, the length of
        the longest; with `transient` the search's ``transient``, whose windows n_twoF counts.

    Raises
    ------
    TypeError
        If `data`, `found` or `fit` is of the wrong kind.
    ValueError
        If another argument makes no sense, `optimizer` included, if a column of `found` is missing or has a wrong unit,
        if `found` is a table of templates with a phase model and `model` is None, if segments overlap in time, or if
        there are so many parameters that a neighbourhood of ``fit.mismatch`` can't be covered.

    Notes
    -----
    One rule ends all climbs: a climb has converged if the Hessian is negative definite and predicts that a Newton step
    gains less than 1e-9 (1 + 2F). With optax's optimisers the Hessian is computed only where the gradient suggests
    convergence, usually once. Steps are at most 1 long in whitened coordinates; a climb that has fallen 5 % below its
    highest point returns to it, and the optimiser restarts, as it does where a bound is reached or left. A step with a
    line search counts as one of ``fit.max_steps``, however many gradients it takes.

    Errors come from the curvature of 2F at the peak, in whitened coordinates, transformed to the parameters to second
    order. They span all peaks of similar height that were climbed, weighted by Laplace's approximation. In data of a
    day or less the parameters are strongly curved functions of the coordinates: the covariance is then still right for
    errors and correlations, but the posterior is no ellipsoid; see `log_posterior`.

    With K segments that are alike the covariance from the Hessian of the sum of 2F is divided by 1 - 4 K / sum, and
    differences of 2F between peaks are multiplied by it in ``peak_probability``, because the amplitudes are free in
    each segment and fit its noise; see `jfstat.statistic.total.shrinkage`. For other segments K is their effective
    number, an average over the parameters; see `Coordinates.effective_segments`.

    The first call compiles programs, which takes tens of seconds. On a CPU up to 8 candidates get programs that compile
    in less time but run more slowly, so many candidates take less time in one call than in many.
    """
    check_data(data, or_segments=True)
    wanted = checked_fit(fit)
    window = window_of_table(data, found, transient)

    def persistent(
        own: FstatData, some: AnyTable | Doppler, shown: bool, given: AnyTable | None = None, problem: str = ""
    ) -> QTable:
        around = wanted.neighbourhood
        candidates = read_rows(own, some, wanted.reftime, model)
        if problem:
            candidates = candidates._replace(problems=[own_problem or problem for own_problem in candidates.problems])
        searched = SearchedWith.of(some, own.detectors)
        names = fitted_names(candidates.points, candidates.given, searched, wanted.parameters)
        known = lines_from_meta(getattr(some, "meta", {})) if wanted.lines is None else wanted.lines
        free = FreeParameters.within(names, wanted.bounds)
        around.check_size(sum(name != "freq" for name in names))
        method = Method.checked(optimizer, wanted.max_steps, len(names))
        with progress_bar(int(np.sum(candidates.sound)), shown, "refine", "candidates") as advance:
            starts = None if given is None else read_rows(own, given, wanted.reftime, model).points
            results = refined(own, candidates, Refining(free, around, searched.n_twoF or 1, method), advance, starts)
        return results_table(own, some, candidates, results, names, searched, known, method)

    if window is None:
        table = persistent(data, found, progress)
    else:
        table = refined_with_windows(
            data, found, window, lambda own, some, *given: persistent(own, some, False, *given), progress, model
        )
    return distinct(table) if merge else table


class Refining(NamedTuple):
    """What is refined of candidates, and how.

    Attributes
    ----------
    free : FreeParameters
    around : Neighbourhood
    n_twoF : int or None
        Number of templates that the search tried; see `SearchedWith`. With None the caller must judge whether
        candidates are noise.
    method : Method
    """

    free: FreeParameters
    around: Neighbourhood
    n_twoF: int | None = None
    method: Method = NEWTON

    def of(self, isolated: bool) -> Refining:
        """Return what is refined of candidates in binaries, or of isolated ones, which have no orbit."""
        return self._replace(free=self.free.without(ORBIT_FIELDS)) if isolated else self


def refined(
    data: FstatData,
    candidates: Candidates,
    how: Refining,
    advance: Callable[[int], object],
    starts: Doppler | None = None,
    later: Sequence[CompiledLater] = (),
) -> Results:
    """Refine candidates, and return what is known of each.

    Parameters
    ----------
    data : FstatData
    candidates : Candidates
    how : Refining
    advance : callable
        Function that is called with how many more candidates are done.
    starts : Doppler, optional
        Stack of templates with which the peaks are compared for ``start_mismatch``; by default the candidates.
    later : sequence of CompiledLater
        Programs that the caller needs later, which begin to compile beside those of the candidates.
    """
    results = Results.blank(candidates, how.free.names, len(data.detectors), data.n_segments)
    _refuse(data, results, candidates, how.free)
    advance(int(np.sum(candidates.sound & ~results.open)))
    if not np.any(results.open):
        return results
    starts, in_regions = candidates.points if starts is None else starts, how.around.in_regions
    n_open = int(np.sum(results.open))
    comparing = CompiledLater(programs_of_mismatches(data, (results.points, starts), n_open, in_regions))
    for isolated in (True, False):
        rows = np.flatnonzero(results.open & (candidates.isolated == isolated))
        own = how.of(isolated)
        foreseen = _foreseen(data, results, rows, isolated, own)
        _follow_all(data, results, Alike(rows, isolated, own, comparing, foreseen, later), advance)
    for row in np.flatnonzero(results.open & ~results.converged):
        results.close(row, ENDINGS[LEFT])
    comparing.wait()
    results.compare_with(_start_mismatch(data, starts, results, in_regions), in_regions)
    return results


def _refuse(data: FstatData, results: Results, candidates: Candidates, free: FreeParameters) -> None:
    """Close candidates that start outside the bounds, or whose orbit is too fast for narrow data."""
    for name, lower, upper in zip(free.bounded, free.low, free.high, strict=True):
        x = candidates.given[name]
        for row in np.flatnonzero(results.open & ~((x >= lower) & (x <= upper))):
            results.close(row, f"not refined: {name} starts outside its bounds")
    for row in np.flatnonzero(results.open & too_many_nodes(data, reaches(data, results.points))):
        results.close(row, "not refined: the orbit turns too often during the data")
    if not free.without(ORBIT_FIELDS).names:
        for row in np.flatnonzero(results.open & candidates.isolated):
            results.close(row, "not refined: it has none of the parameters that are to be refined")


class Alike(NamedTuple):
    """Group of n candidates that are all isolated or all in binaries, and how they are followed up.

    Attributes
    ----------
    rows : (n,) int64 ndarray
    isolated : bool
    how : Refining
    comparing : CompiledLater
        Programs that compare the candidates with their peaks: Python lowers them while XLA compiles `survey`.
    foreseen : Foreseen or None
        Programs that the candidates most likely need: Python lowers them while XLA compiles `survey`.
    later : sequence of CompiledLater
        Programs that the caller needs later: Python lowers them while XLA compiles those of the candidates.
    """

    rows: np.ndarray
    isolated: bool
    how: Refining
    comparing: CompiledLater
    foreseen: Foreseen | None
    later: Sequence[CompiledLater]

    def batch_size(self, data: FstatData) -> int:
        """Return the size of the batches in which the candidates are followed up."""
        return batch_size(data, len(self.rows), self.how.around.in_regions)


def points_of(points: Doppler, rows: np.ndarray, isolated: bool) -> Doppler:
    """Return some templates of a stack, without the orbits, of no meaning, of isolated ones."""
    some = jax.tree.map(lambda x: x[rows], points)
    return with_fields(some, orbit=None) if isolated else some


def _foreseen(data: FstatData, results: Results, rows: np.ndarray, isolated: bool, how: Refining) -> Foreseen | None:
    """Return the programs that some candidates most likely need; None if computing takes longer than compiling."""
    if not (len(rows) and programs_cost_more(data, len(rows))):
        return None
    in_regions = how.around.in_regions
    filled = np.resize(rows, batch_size(data, len(rows), in_regions))
    return foresee(data, points_of(results.points, filled, isolated), how.free, how.around, in_regions, how.method)


def _follow_all(data: FstatData, results: Results, alike: Alike, advance: Callable[[int], object]) -> None:
    """Follow up candidates round after round until each has ended."""
    rows, (free, around, *_), size = alike.rows, alike.how, alike.batch_size(data)
    spread, peaks = around.spread, around.peaks
    if spread is not None and peaks is not None:  # only the parameters that these candidates have
        at = [results.names.index(name) for name in free.names]
        spread, peaks = spread[:, at][:, :, at], peaks[:, :, at]
    covered: dict[int, tuple[Coverage, np.ndarray]] = {}
    for _ in range(ROUNDS):
        left = rows[results.open[rows]]
        if not len(left):
            return
        points = points_of(results.points, left, alike.isolated)
        parts = []
        for batch in batches(left, np.zeros(len(left)), lambda *_: size):
            some = jax.tree.map(lambda x, b=batch: x[b.places], points)
            own = None if spread is None or peaks is None else (spread[left[batch.places]], peaks[left[batch.places]])
            program, arguments = surveying(data, some, free, around.mismatch, own, len(batch.rows))
            if not parts:
                own_programs = [] if alike.foreseen is None else [alike.foreseen.compiled, *alike.later]
                compile_together([program.lower(*arguments)], [*own_programs, alike.comparing])
            parts.append(jax.tree.map(lambda x, b=batch: np.asarray(x)[: len(b.rows)], program(*arguments)))
        known: Survey = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        if not covered:  # later rounds keep this value: another one would need a compilation
            swing, along = np.asarray(known.swing), np.asarray(known.along)
            found = coverages(data, points, free.names, swing, along, around)
            trials, results.covered[left] = around.trial_points(known)
            covered = dict(zip(left.tolist(), zip(found, trials, strict=True), strict=True))
        _follow_round(data, results, alike, left, known, covered, advance)
    advance(int(np.sum(results.open[rows])))


def _follow_round(
    data: FstatData,
    results: Results,
    alike: Alike,
    left: np.ndarray,
    known: Survey,
    covered: dict[int, tuple[Coverage, np.ndarray]],
    advance: Callable[[int], object],
) -> None:
    """Follow up the candidates `left`, batch after batch, in their surveyed surroundings.

    Parameters
    ----------
    data, results, alike
    left : (n,) int64 ndarray
        Rows of the candidates.
    known : Survey
        Stacked, NumPy leaves.
    covered : dict
        By row, the candidate's coverage and trial points.
    advance
    """
    how = alike.how
    groups = list(dict.fromkeys(own.shared for own, _ in covered.values()))
    group = np.array([groups.index(covered[row][0].shared) for row in left])
    size = alike.batch_size(data)
    each = list(batches(left, group, lambda kind, n: narrow_batch_size(data, groups[kind].reach, n, size)))
    foreseen, n_trials = alike.foreseen, len(covered[int(left[0])][1])
    if foreseen is not None and any(foreseen.serve(shared, n_trials) for shared in groups):
        begin_in_turns(alike.later)
        foreseen.compiled.wait()  # they are found compiled below, but not while that still goes on

    def programs_for(batch: Batch) -> tuple[Programs, Surroundings]:
        coordinates = jax.tree.map(lambda x: x[batch.places], known.coordinates)
        here, trials = zip(*(covered[row] for row in left[batch.places]), strict=True)
        widest = np.array([frequency_shifts(own.bins, float(data.tspan))[-1] for own in here])
        shared, trials = here[0].shared, np.stack(trials)
        own = Programs.of(data, coordinates.centre, shared, trials.shape[1], how.free.names, how.method)
        return own, Surroundings(coordinates, how.free, trials, own.shifts, widest)

    firsts = {int(group[batch.places[0]]): batch for batch in reversed(each)}  # the first batch of each group
    if len(firsts) > 1:  # whose programs are compiled at the same time
        chosen = map(programs_for, firsts.values())
        compile_together(lowered for programs, around in chosen for lowered in programs.lowered(around))
    for batch in each:
        edges = np.linalg.norm(known.axes[batch.places], axis=1).max(axis=-1, initial=0.0)
        edges += np.linalg.norm(known.offsets[batch.places], axis=2).max(axis=1)
        _follow_batch(data, results, alike, batch, *programs_for(batch), edges)
        for row in batch.rows:
            own, _ = covered[row]
            if own.fewer:
                results.messages[row] += f"; only frequencies within {own.bins:.0f} bins of 1/T were covered"
        advance(int(np.sum(~results.open[batch.rows])))


def _follow_batch(
    data: FstatData,
    results: Results,
    alike: Alike,
    batch: Batch,
    programs: Programs,
    around: Surroundings,
    edges: np.ndarray,
) -> None:
    """Follow up a batch and note how each candidate ended; candidates that left the narrow data's reach stay open.

    Parameters
    ----------
    data, results, alike, batch, programs
    around : Surroundings
    edges : (size,) float64
        Distance to the edge of the covered region, in whitened coordinates across the frequency.
    """
    rows, own, n_twoF = batch.rows, alike.how.free, alike.how.n_twoF
    names_at = np.array([results.names.index(name) for name in own.names])
    values, peaks = programs.run(around, len(rows), alike.later)
    found: PeakValues = jax.tree.map(lambda x: np.asarray(x)[: len(rows)], values)
    peaks = on_host(peaks, len(rows))
    lost = misfits(data, found.point)

    first = results.steps[rows] == 0
    results.start_twoF[rows[first]] = found.start_twoF[first]
    results.steps[rows] += peaks.steps
    # a climb from a single start also covers templates around it
    results.tried[rows] += np.maximum(found.tried, 2 ** (len(own.names) + 3))
    known = peaks.status != NOWHERE
    kept = rows[known]
    results.twoF[kept] = found.twoF[known]
    results.twoF_per_detector[kept] = found.twoF_per_detector[known]
    results.amplitudes[kept] = found.amplitude[known]
    results.covariance[np.ix_(kept, names_at, names_at)] = peaks.covariance[known]
    results.spread[np.ix_(kept, names_at, names_at)] = peaks.spread[known]
    results.rivals[np.ix_(kept, np.arange(peaks.rivals.shape[1]), names_at)] = peaks.rivals[known]
    results.moved[kept] += peaks.moved[known]
    results.points = _moved(results.points, kept, found.point, np.asarray(known))
    for i, row in enumerate(rows):
        status = int(peaks.status[i])
        if lost[i] and known[i]:
            results.close(row, "not converged: left the data's band, or what they were prepared for")
            continue
        results.converged[row] = status == CONVERGED
        # after a climb that left the covered region, the surroundings of its end are covered once more
        results.open[row] = status == LEFT or (status == CONVERGED and peaks.across[i] > edges[i] + OUTSIDE)
        rivals = Rivals(
            float(peaks.share[i]), float(found.other_freq[i]), float(found.other_twoF[i]), float(found.shrinkage[i])
        )
        twoF = float(found.twoF[i])
        if known[i]:
            n_segments = data.n_segments or 1
            if n_twoF is not None:
                tried = n_twoF + CELLS * results.tried[row]
                results.noise_chance[row] = false_alarm(twoF / n_segments, tried, n_segments)
            results.peak_probability[row] = rivals.peak_probability(twoF) if status == CONVERGED else np.nan
        held = [name for name, at in zip(own.bounded, peaks.at_limit[i], strict=True) if at]
        has_errors = bool(held) or bool(np.isfinite(np.asarray(peaks.covariance[i])).all())
        chance = 0.0 if n_twoF is None else float(results.noise_chance[row])
        results.messages[row] = ending(status, twoF, chance, has_errors, rivals, held, data.n_segments)


def _start_mismatch(data: FstatData, starts: Doppler, results: Results, in_regions: bool) -> np.ndarray:
    """Return the loss of rho^2 between each candidate and its peak, (n,) float64; NaN where it was not refined."""
    lost = np.full(len(results.twoF), np.nan)
    rows = np.flatnonzero(np.isfinite(results.twoF))
    size, seen = batch_size(data, len(rows), in_regions), data.observation.in_few_sizes
    program, together = suited(_mismatches, data, size), compared_together(data, size)
    for batch in batches(rows, np.zeros(len(rows)), lambda *_: size):
        pair = jax.tree.map(lambda x, at=rows[batch.places]: x[at], (results.points, starts))
        lost[batch.rows] = np.asarray(program(seen, *pair, np.int32(len(batch.rows)), together))[: len(batch.rows)]
    return lost


def programs_of_mismatches(
    data: FstatData, stacks: tuple[Doppler, Doppler], n: int, in_regions: bool
) -> Iterator[jax.stages.Lowered]:
    """Yield the program that compares n candidates with their peaks, of which both are in such stacks."""
    size = batch_size(data, n, in_regions)
    pair = jax.tree.map(lambda x: jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype), stacks)
    program, together = suited(_mismatches, data, size), compared_together(data, size)
    yield program.lower(data.observation.in_few_sizes, *pair, np.int32(size), together)


@jit_with(NO_TRIALS, kept=True, static_argnames="together")
def _mismatches(
    observation: Observation, points: Doppler, others: Doppler, n: int | jax.Array, together: int
) -> jax.Array:
    """Return the `mismatch` of each of the first n pairs of templates of two stacks of N, (N,) float64, so many of them
    at a time."""
    each = jax.vmap(lambda pair: mismatch_of(observation, *pair))
    return in_groups(each, (points, others), together, n)


def _moved(points: Doppler, rows: np.ndarray, ends: Doppler, known: np.ndarray) -> Doppler:
    """Return a stack with the templates of some rows replaced; for isolated candidates the orbits stay."""

    def with_rows(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        copy = np.array(old)
        copy[rows] = new[known]
        return copy

    if ends.orbit is None and points.orbit is not None:
        alone = jax.tree.map(with_rows, with_fields(points, orbit=None), ends)
        return with_fields(alone, orbit=points.orbit)
    return jax.tree.map(with_rows, points, ends)
