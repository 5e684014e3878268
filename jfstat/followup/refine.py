"""Refining a table of candidates by gradients of 2F: `refine`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.lineflags import lines_from_meta
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import narrow_plan
from jfstat.followup.batches import Batch, batches, climbing_for, compressed_together, reaches, too_many_nodes
from jfstat.followup.candidates import Candidates, SearchedWith, misfits, read_rows, usual_names
from jfstat.followup.distinct import distinct
from jfstat.followup.follow import Peak, focus, follow
from jfstat.followup.free import FreeParameters
from jfstat.followup.results import CELLS, ENDINGS, Results, Rivals, ending, results_table
from jfstat.lines.doppler import checked_lines
from jfstat.maths.ball import ball_points
from jfstat.maths.newton import CONVERGED, LEFT, NOWHERE
from jfstat.parameters import ORBIT_FIELDS, check_parameters, in_usual_order, with_fields
from jfstat.searching.session.progress import progress_bar
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.candidates.tables import AnyTable
    from jfstat.phasemodel import PhaseModel
    from jfstat.times import TimeLike
    from jfstat.validation import NumberLike

RADIUS = 1.6
"""Radius of the ball of trial points: beyond it, the candidate's own peak has less than a fifth of its rho^2."""
CLIMBS = 3
"""Number of trial points from which to climb."""
ROUNDS = 4
"""How often candidates are followed up at most: those that leave the narrow data's reach go on in new ones."""
FAR = 1.6
"""Distance in whitened coordinates from which a wide climb is followed by another one."""
MOST_TRIALS = 1024
"""Largest number of trial points by default."""


def refine(
    data: FstatData,
    found: AnyTable | Doppler,
    *,
    parameters: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[NumberLike, NumberLike]] | None = None,
    starts: int | None = None,
    wide: bool = False,
    merge: bool = False,
    reftime: TimeLike | None = None,
    model: PhaseModel | None = None,
    progress: bool = True,
    lines: QTable | None = None,
) -> QTable:
    """Refine candidates by gradients: climb to the peak of 2F next to each, and give error bars.

    Around each candidate the data are compressed (`narrow`) and the parameters whitened by the metric (`whiten`). A
    trust-region Newton method climbs from the best of some trial points, with the exact gradient and Hessian of 2F; the
    errors follow from the Hessian at the peak. The row of a candidate that can't be refined says why; the other
    candidates are not affected.

    Parameters
    ----------
    data : FstatData
        Of a band that contains the candidates. Use all the data there are, even if the search used fewer.
    found : QTable, Table or Doppler
        Candidates, as `search` and `read_candidates` return them: columns ``freq``, ``alpha``, ``delta``, any of
        ``f1dot``, ``f2dot``, ..., and ``asini``, ``period``, ``tp``, ``ecc``, ``argp`` together or not at all (the last
        two may be missing), with or without units. asini = 0 means no orbit. Frequencies hold at ``meta["reftime"]``.
        Or a template or a stack of templates.
    parameters : sequence of str, optional
        Columns to refine. The others are fixed, and the errors are for these fixed values. By default those that the
        search varied, which tables of `search` and text files of ComputeFstatistic_v2 say, without ``ecc``, ``argp``
        and the parameters of a phase model (``model.df``, ...; see `PhaseModel`): where a search held a known sky
        position, so does this. If `found` does not say, all columns but these, and without second and higher
        derivatives of the frequency that are zero in all rows. ``meta["parameters"]`` of the result says which they
        were.
    bounds : mapping of str to (low, high), optional
        Limits of parameters, in Hz, Hz/s, ..., rad, s, or as Quantities, the same for all candidates. Limits of
        ``alpha`` apply to the value in the candidate's row, without adding multiples of 2 pi. With bounds on a
        frequency or on the sky, coordinates are not adapted to curved peaks (`whiten`), and long peaks may be missed.
    starts : int, optional
        Number of trial points around a candidate, a power of two. More find peaks that are further away, within the
        region where a fifth of rho^2 or more is left. 1 climbs from the candidate only. By default 2^(p+3) for p
        parameters, at most 1024.
    wide : bool
        Whether to climb from wherever 2F is highest at up to 32 frequency bins of 1/T around the trial points, rather
        than next to the candidate, and to look around again from where a climb went far. For uncertain starts: with a
        wrong sky position, the highest 2F of a signal is first shifted in frequency, by 1e-4 of it for each radian. A
        louder signal nearby takes the place of a weak one.
    merge : bool
        Whether to return one row for each peak instead of one for each candidate: of those that ended on one peak the
        row with the highest 2F, and ``n_merged``, their number; see `distinct.distinct`.
    reftime : float, str, Time or GPSTime, optional
        GPS time at which frequencies hold, if `found` does not say; by default that of the data.
    model : PhaseModel, optional
        Phase model of the candidates of a table, which cannot hold a function; its parameters are taken from columns
        such as ``model.df`` where the table has them. Templates have models of their own.
    progress : bool
        Whether to show progress, as `search` does.
    lines : QTable, optional
        Known lines, from `read_lines`, for a column ``line`` that names those that the refined candidate crosses; by
        default those of the search, if its table has them.

    Returns
    -------
    QTable
        A row for each candidate, in the same order, unless merged. Columns:

        - the refined parameters, and ``<name>_error`` of those that were fitted, one sigma, NaN where there is none;
        - ``twoF`` and ``twoF_H1``, ... at the peak (`fstat` on narrow data: right to 1e-6), with several detectors
          ``log10BSGL`` there, with the search's Fstar0 and oLGX (equal odds if it had other detectors), and
          ``start_twoF``; ``outside`` if the search had bounds, and ``line`` if lines are known;
        - ``h0``, ``cosi``, ``psi``, ``phi0`` and their errors, from `estimate_amplitude` at the peak;
        - ``noise_chance``, an upper bound on the probability that Gaussian noise alone reaches this 2F, in as many
          templates as were tried here and in the search (``meta["n_twoF"]``, which text files of others lack);
        - ``peak_probability``, the probability that a signal lies on this peak rather than on another that was seen:
          the other peaks that were climbed, by Laplace's approximation, and, unless ``freq`` is held, the highest 2F at
          up to 32 frequency bins to either side of 16 of the trial points, as far as twice the reach of narrow data.
          Peaks further away are not seen: if the start is less certain than that, search first. NaN if the climb did
          not converge;
        - ``moved``, the distance from the start in whitened coordinates, where a peak has a radius of about 1, added
          over the rounds if the climb took several;
        - ``steps``, the number of gradients and Hessians computed; ``converged``; ``message``, a sentence on how it
          ended;
        - ``covariance``, (p, p), in the order of ``meta["parameters"]`` and the columns' units;
        - other columns of `found` that do not depend on the template, such as names; ``template`` and ``n_members``
          tell where the candidate came from.

        Meta: version, reftime, detectors, ephemeris, start, tspan, parameters, n_twoF, Fstar0, oLGX, bounds.

    Raises
    ------
    TypeError
        If `data`, `found` or `bounds` is of the wrong kind.
    ValueError
        If another argument makes no sense, or a column of `found` is missing or has a wrong unit.

    Notes
    -----
    Errors come from the curvature of 2F at the peak, in whitened coordinates, transformed to the parameters to second
    order. They span all peaks of similar height that were climbed, weighted by Laplace's approximation. In data of a
    day or less the parameters are strongly curved functions of the coordinates: the covariance is then still right for
    errors and correlations, but the posterior is no ellipsoid; see `log_posterior`.
    """
    check_data(data)
    candidates = read_rows(data, found, reftime, model)
    known = lines_from_meta(getattr(found, "meta", {})) if lines is None else checked_lines(lines)
    searched = SearchedWith.of(found, data.detectors)
    names = parameters if parameters is not None else usual_names(candidates.given, searched.parameters)
    names = in_usual_order(candidates.points, check_parameters(candidates.points, names))
    free = FreeParameters.within(names, bounds)
    n_trials = min(MOST_TRIALS, _default_trials(len(names))) if starts is None else starts
    if not (isinstance(n_trials, (int, np.integer)) and n_trials >= 1 and n_trials & (n_trials - 1) == 0):
        raise ValueError(f"starts must be a power of two, not {starts!r}: 1 climbs from the candidate alone.")
    results = Results.blank(candidates, len(names), len(data.detectors))
    _refuse(data, results, candidates, free, bool(wide))
    trying = Trying(int(n_trials), bool(wide), searched.n_twoF)
    with progress_bar(int(np.sum(results.open)), progress, "refine", "candidates") as advance:
        for _ in range(ROUNDS):
            for batch in batches(data, results.points, np.flatnonzero(results.open), trying.wide):
                _follow_batch(data, results, batch, free, trying)
                advance(int(np.sum(~results.open[batch.rows])))
        advance(int(np.sum(results.open)))
    for row in np.flatnonzero(results.open & ~results.converged):
        results.close(row, ENDINGS[LEFT])
    table = results_table(data, found, candidates, results, names, searched, known)
    return distinct(table) if merge else table


def _default_trials(p: int) -> int:
    """Default number of trial points for p parameters."""
    return 2 ** (p + 3)


def _refuse(data: FstatData, results: Results, candidates: Candidates, free: FreeParameters, wide: bool) -> None:
    """Close candidates that start outside the bounds, or whose orbit turns too often for narrow data."""
    for name, lower, upper in zip(free.bounded, free.low, free.high, strict=True):
        x = candidates.given[name]
        for row in np.flatnonzero(results.open & ~((x >= lower) & (x <= upper))):
            results.close(row, f"not refined: {name} starts outside its bounds")
    for row in np.flatnonzero(results.open & too_many_nodes(data, reaches(data, results.points, wide))):
        results.close(row, "not refined: the orbit turns too often during the data")


class Trying(NamedTuple):
    """Where to start, and how many templates had been tried before.

    Attributes
    ----------
    starts : int
        Trial points.
    wide : bool
        As for `refine`.
    n_twoF : int
        See `SearchedWith`.
    """

    starts: int
    wide: bool
    n_twoF: int


def _follow_batch(data: FstatData, results: Results, batch: Batch, free: FreeParameters, trying: Trying) -> None:
    """Follow up a batch and note how each candidate ended; those that left the narrow data's reach stay open."""
    rows, points = batch.rows, batch.points
    own = free
    if points.orbit is None:  # an isolated candidate among binaries
        own = free.without(ORBIT_FIELDS)
        if not own.names:
            for row in rows:
                results.close(row, "not refined: it has none of the parameters that are to be refined")
            return
    places = np.array([free.names.index(name) for name in own.names])
    p = len(own.names)
    trials = ball_points(p, trying.starts, RADIUS)
    plan = narrow_plan(data, points, batch.reach)
    size = len(points.alpha)
    climbing = climbing_for(data, size, len(plan.first), min(CLIMBS, len(trials)), len(trials), trying.wide)
    near, coordinates = focus(data.for_one_template, points, batch.reach, plan, own, compressed_together(data, size))
    ends = follow(data.observation, near, coordinates, own, trials, climbing)
    lost = misfits(data, ends.point)
    peaks: Peak = jax.tree.map(lambda x: np.asarray(x)[: len(rows)], ends)

    first = results.steps[rows] == 0
    results.start_twoF[rows[first]] = peaks.start_twoF[first]
    results.steps[rows] += peaks.steps
    # a climb from a single start also covers templates around it
    results.tried[rows] += np.maximum(peaks.tried, _default_trials(p))
    known = peaks.status != NOWHERE
    kept = rows[known]
    results.twoF[kept] = peaks.twoF[known]
    results.twoF_per_detector[kept] = peaks.twoF_per_detector[known]
    results.amplitudes[kept] = peaks.amplitude[known]
    results.covariance[np.ix_(kept, places, places)] = peaks.covariance[known]
    results.moved[kept] += peaks.moved[known]
    results.points = _moved(results.points, kept, peaks.point, np.asarray(known))
    for i, row in enumerate(rows):
        status = int(peaks.status[i])
        if lost[i] and known[i]:
            results.close(row, "not converged: left the data's band, or what they were prepared for")
            continue
        results.converged[row] = status == CONVERGED
        # a wide climb that went far looks around once more from where it ended
        results.open[row] = status == LEFT or (trying.wide and status == CONVERGED and peaks.moved[i] > FAR)
        rivals = Rivals(float(peaks.share[i]), float(peaks.other_freq[i]), float(peaks.other_twoF[i]))
        twoF = float(peaks.twoF[i])
        if known[i]:
            results.noise_chance[row] = false_alarm(twoF, trying.n_twoF + CELLS * results.tried[row])
            results.peak_probability[row] = rivals.peak_probability(twoF) if status == CONVERGED else np.nan
        held = [name for name, at in zip(own.bounded, peaks.at_limit[i], strict=True) if at]
        has_errors = bool(held) or bool(np.isfinite(np.asarray(peaks.covariance[i])).all())
        chance = float(results.noise_chance[row])
        results.messages[row] = ending(status, twoF, chance, has_errors, rivals, held)


def _moved(points: Doppler, rows: np.ndarray, ends: Doppler, known: np.ndarray) -> Doppler:
    """A stack with the templates of some rows replaced; for isolated candidates the orbits stay."""

    def with_rows(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        copy = np.array(old)
        copy[rows] = new[known]
        return copy

    if ends.orbit is None and points.orbit is not None:
        alone = jax.tree.map(with_rows, with_fields(points, orbit=None), ends)
        return with_fields(alone, orbit=points.orbit)
    return jax.tree.map(with_rows, points, ends)
