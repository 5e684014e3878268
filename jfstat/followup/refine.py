"""From prepared data and a table of candidates to a table of refined ones: `refine`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.tables import column_unit
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import narrow_plan
from jfstat.followup.batches import Batch, batches, group_sizes, reaches, too_many_nodes
from jfstat.followup.candidates import Candidates, misfits, read_rows, usual_names
from jfstat.followup.follow import Peak, focus, follow
from jfstat.followup.results import CELLS, ENDINGS, Results, ending, results_table
from jfstat.followup.starts import trial_points
from jfstat.maths.newton import CONVERGED, LEFT, NOWHERE
from jfstat.parameters import check_parameters, in_usual_order, with_fields
from jfstat.searching.session.progress import progress_bar
from jfstat.statistic.check import check_data
from jfstat.templates import ORBIT_FIELDS, Doppler
from jfstat.validation import in_unit

if TYPE_CHECKING:
    from astropy.table import QTable

CLIMBS = 3
"""Trial points from which to climb."""
ROUNDS = 4
"""How often to begin anew at the edge of the narrow data's reach."""
MOST_TRIALS = 1024
"""Trial points at most by default."""


def refine(
    data: FstatData,
    found: Any,
    *,
    parameters: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    starts: int | None = None,
    reftime: Any = None,
    progress: bool = True,
) -> QTable:
    """Refine candidates by gradients: climb to the peak of 2F next to each, and give error bars.

    Around each candidate the data are compressed (`narrow`) and the parameters whitened by the metric (`whiten`); from
    the best of some trial points a trust-region Newton method climbs with the exact gradient and Hessian of 2F, in
    which, at its end, the errors are read. A candidate that can't be refined gets a row that says why, and spoils no
    other.

    Parameters
    ----------
    data : FstatData
        For the band that holds the candidates; the finest data there are, not those of the search if they were fewer.
    found : QTable, Table or Doppler
        Candidates: columns ``freq``, ``alpha``, ``delta``, any of ``f1dot``, ``f2dot``, ..., and ``asini``, ``period``,
        ``tp``, ``ecc``, ``argp`` together or not at all (the last two may be missing), with or without units, as
        `search` and `read_candidates` return; asini = 0 is no orbit. Frequencies hold at ``meta["reftime"]``. Or a
        template or a stack of templates.
    parameters : sequence of str, optional
        Columns to refine, the others being fixed, and errors conditional on them. By default all there are but ``ecc``
        and ``argp``; derivatives of the frequency from the second on only if one is not zero, since text files always
        hold them.
    bounds : mapping of str to (low, high), optional
        Limits of parameters, in Hz, Hz/s, ..., rad, s, or as Quantities, the same for all candidates. Those of
        ``alpha`` are compared with the candidate's own value, however it counts. Bounds on a frequency or on the sky
        keep it from being straightened (`whiten`): long peaks are then found less surely.
    starts : int, optional
        Trial points around a candidate, a power of two; more find peaks farther away, in the region where a fifth
        of 2F or more is left. 1 climbs from the candidate alone. By default 2^(p+3) for p parameters, and 1024 at most.
    reftime : int or Time, optional
        GPS time at which frequencies hold if `found` does not say; the data's if None.
    progress : bool
        Whether to show a progress bar, if tqdm is installed.

    Returns
    -------
    QTable
        A row for each candidate, in their order: the parameters, refined; ``<name>_error`` of those that were fitted,
        one sigma, NaN where there is none; ``twoF`` and ``twoF_H1``, ... there (`fstat` on narrow data: right to 1e-6);
        ``start_twoF``; ``noise_chance``, that Gaussian noise gives as much in as many independent templates as were
        tried, times those of the search if the table's ``meta["n_twoF"]`` has them; ``moved``, the distance from the
        start in whitened coordinates, where 1 is about a peak's radius; ``steps``, the number of gradients and Hessians
        computed; ``converged``; ``message``, a sentence on how it ended; ``covariance``, (p, p) in the order of
        ``meta["parameters"]`` and the columns' units; and the columns of `found` that are none of these. Meta: version,
        reftime, detectors, ephemeris, start, tspan, parameters.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind, or the table as a whole is no table of candidates.

    Notes
    -----
    Errors come from the observed curvature of 2F at the peak, in whitened coordinates, carried over to the parameters
    to second order; other peaks that were climbed and are nearly as high count in them, by Laplace's approximation.
    Where parameters are strongly bent (data of a day or less), the covariance is right for errors and correlations, but
    the posterior is no ellipsoid: see `log_posterior`.
    """
    check_data(data)
    candidates = read_rows(data, found, reftime)
    given = usual_names(candidates.given) if parameters is None else check_parameters(candidates.points, parameters)
    names = in_usual_order(candidates.points, given)
    bounded, low, high = _bounds(names, bounds)
    n_trials = min(MOST_TRIALS, default_trials(len(names))) if starts is None else starts
    if not (isinstance(n_trials, (int, np.integer)) and n_trials >= 1 and n_trials & (n_trials - 1) == 0):
        raise ValueError(f"starts must be a power of two, not {starts!r}: 1 climbs from the candidate alone.")
    searched = float(getattr(found, "meta", {}).get("n_twoF") or 1)
    results = Results.blank(candidates, len(names), len(data.detectors))
    _refuse(data, results, candidates, bounded, low, high)
    with progress_bar(int(np.sum(results.open)), progress, "refine", "candidates") as advance:
        for _ in range(ROUNDS):
            for batch in batches(data, results.points, np.flatnonzero(results.open)):
                _follow_batch(data, results, batch, names, bounded, low, high, int(n_trials), searched)
                advance(int(np.sum(~results.open[batch.rows])))
        advance(int(np.sum(results.open)))
    for row in np.flatnonzero(results.open):
        results.close(row, ENDINGS[LEFT])
    return results_table(data, found, candidates, results, names)


def default_trials(p: int) -> int:
    """Trial points for p parameters."""
    return 2 ** (p + 3)


def _bounds(
    names: tuple[str, ...], bounds: Mapping[str, tuple[Any, Any]] | None
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names of bounded parameters, their low and high limits, (m,) each."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise ValueError(f"bounds must be a mapping from parameters to (low, high), not {type(bounds).__name__}.")
    limits = []
    for name, pair in (bounds or {}).items():
        if name not in names:
            raise ValueError(f"bounds has {name!r}, which is not refined: choose from {', '.join(names)}.")
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"bounds of {name} must be (low, high), not {pair!r}.")
        low, high = (float(in_unit(x, f"bounds of {name}", column_unit(name))) for x in pair)
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"bounds of {name} must be finite and low < high, not {low} and {high}: fix it instead.")
        limits.append((low, high))
    pairs = np.array(limits, np.float64).reshape(-1, 2)
    return tuple(bounds or ()), pairs[:, 0], pairs[:, 1]


def _refuse(
    data: FstatData,
    results: Results,
    candidates: Candidates,
    bounded: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    """Close rows that start beyond the bounds, or whose orbit is beyond what can be computed."""
    for name, lower, upper in zip(bounded, low, high, strict=True):
        x = candidates.given[name]
        for row in np.flatnonzero(results.open & ~((x >= lower) & (x <= upper))):
            results.close(row, f"not refined: {name} starts outside its bounds")
    for row in np.flatnonzero(results.open & too_many_nodes(data, reaches(data, results.points))):
        results.close(row, "not refined: the orbit turns too often during the data")


def _follow_batch(
    data: FstatData,
    results: Results,
    batch: Batch,
    names: tuple[str, ...],
    bounded: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
    n_trials: int,
    searched: float,
) -> None:
    """Follow up a batch and write down how its rows ended; those that left the narrow data's reach stay open."""
    rows, points = batch.rows, batch.points
    if points.orbit is None:  # an isolated candidate among binaries
        names, all_names = tuple(name for name in names if name not in ORBIT_FIELDS), names
        used = np.array([name in names for name in bounded], bool)
        bounded, low, high = tuple(name for name in bounded if name in names), low[used], high[used]
        if not names:
            for row in rows:
                results.close(row, "not refined: it has none of the parameters that are to be refined")
            return
        places = np.array([all_names.index(name) for name in names])
    else:
        places = np.arange(len(names))
    trials = trial_points(len(names), n_trials)
    plan = narrow_plan(data, points, batch.reach)
    n_climbs = min(CLIMBS, len(trials))
    groups = group_sizes(data, len(points.alpha), len(plan.first), n_climbs, len(trials))
    near, coordinates = focus(data, points, batch.reach, plan, names, bounded, groups.compressed)
    ends = follow(near, coordinates, low, high, trials, bounded, n_climbs, groups.climbing, groups.tried)
    lost = misfits(data, ends.point)
    peaks: Peak = jax.tree.map(lambda x: np.asarray(x)[: len(rows)], ends)

    first = results.steps[rows] == 0
    results.start_twoF[rows[first]] = peaks.start_twoF[first]
    results.steps[rows] += peaks.steps
    known = peaks.status != NOWHERE
    kept = rows[known]
    results.twoF[kept] = peaks.twoF[known]
    results.twoF_per_detector[kept] = peaks.twoF_per_detector[known]
    results.covariance[np.ix_(kept, places, places)] = peaks.covariance[known]
    results.moved[kept] += peaks.moved[known]
    results.points = _moved(results.points, kept, peaks.point, np.asarray(known))
    # a climb from one start tries what is around it as well
    templates = CELLS * np.maximum(peaks.tried, default_trials(len(names))) * searched
    for i, row in enumerate(rows):
        status = int(peaks.status[i])
        if lost[i] and known[i]:
            results.close(row, "not converged: left the data's band, or what they were prepared for")
            continue
        results.converged[row] = status == CONVERGED
        results.open[row] = status == LEFT
        results.noise_chance[row] = false_alarm(peaks.twoF[i], templates[i]) if known[i] else np.nan
        held = [name for name, at in zip(bounded, peaks.at_limit[i], strict=True) if at]
        has_errors = bool(held) or bool(np.isfinite(np.asarray(peaks.covariance[i])).all())
        results.messages[row] = ending(
            status, float(results.noise_chance[row]), has_errors, float(peaks.share[i]), held
        )


def _moved(points: Doppler, rows: np.ndarray, ends: Doppler, known: np.ndarray) -> Doppler:
    """A stack with other templates in some rows; those of isolated candidates leave the orbits as they are."""

    def with_rows(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        copy = np.array(old)
        copy[rows] = new[known]
        return copy

    if ends.orbit is None and points.orbit is not None:
        alone = jax.tree.map(with_rows, with_fields(points, orbit=None), ends)
        return with_fields(alone, orbit=points.orbit)
    return jax.tree.map(with_rows, points, ends)
