"""From prepared data and a table of candidates to a table of refined ones: `refine`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from scipy.stats import chi2

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.followup.candidates import Candidates, read_rows
from jfstat.followup.follow import Peak, focus, follow
from jfstat.followup.newton import CONVERGED, LEFT, NOWHERE, OUT_OF_STEPS, STALLED
from jfstat.followup.parameters import all_parameters, check_parameters, usual_parameters, values, with_fields
from jfstat.followup.starts import trial_points
from jfstat.searching.progress import progress_bar
from jfstat.searching.tables import column_unit, in_units
from jfstat.statistic.check import check_data
from jfstat.statistic.narrow import narrow_plan, usual_reach
from jfstat.statistic.nearby import NODES
from jfstat.templates import Doppler
from jfstat.validation import in_unit

if TYPE_CHECKING:
    from astropy.table import QTable

CLIMBS = 3
"""Trial points from which to climb."""
SIZES, DEVICE_SIZES = (1, 8, 32), (1, 16, 256)
"""Candidates in one call of compiled code, on a CPU and on an accelerator: few sizes, few compilations."""
LANES, DEVICE_LANES = 1 << 16, 1 << 23
"""Values of a phase computed at a time, over candidates, climbs or trial points and nodes: on a CPU as its caches hold,
on an accelerator as its memory does, where each takes some 3 kB of a Hessian of seven parameters."""
DEVICE_SAMPLES = 1 << 24
"""Samples of the data that an accelerator compresses together, for several candidates if one has fewer."""
ROUNDS = 4
"""How often to begin anew at the edge of the narrow data's reach."""
NOISE = 0.01
"""Chance that noise gives as much anywhere among the templates tried, above which a row says so."""
DEGREES = 4
"""Of freedom of 2F's chi-squared distribution in noise."""
ENDINGS = {
    STALLED: "not converged: no step gains any more, though the slope is not zero",
    OUT_OF_STEPS: "not converged: too many steps",
    LEFT: "not converged: wandered off for too long without meeting a maximum",
    NOWHERE: "not refined: 2F is not defined at the start",
}


def refine(
    data: FstatData,
    found: Any,
    *,
    parameters: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    starts: int | None = None,
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
        `search` and `read_candidates` return. Frequencies hold at ``meta["reftime"]``, or else the data's. Or a
        template or a stack of templates.
    parameters : sequence of str, optional
        Columns to refine, the others being fixed. By default all there are but ``ecc`` and ``argp``; derivatives of the
        frequency from the second on only if one is not zero, since text files always hold them.
    bounds : mapping of str to (low, high), optional
        Limits of parameters, in Hz, Hz/s, ..., rad, s, or as Quantities, the same for all candidates. Those of
        ``alpha`` count from -pi to 3 pi as the candidate's own value does.
    starts : int, optional
        Trial points around a candidate, a power of two; more find peaks farther away, in the region where a fifth
        of 2F or more is left. 1 climbs from the candidate alone. By default 2^(p+3) for p parameters, and 1024 at most.
    progress : bool
        Whether to show a progress bar, if tqdm is installed.

    Returns
    -------
    QTable
        A row for each candidate, in their order: the parameters, refined; ``<name>_error`` of those that were fitted,
        one sigma, NaN where there is none; ``twoF`` and ``twoF_H1``, ... there (`fstat` on narrow data: right to 1e-6);
        ``start_twoF``; ``steps``, the number of gradients and Hessians computed; ``converged``; ``message``, a sentence
        on how it ended; ``covariance``, (p, p) in the order of ``meta["parameters"]`` and the columns' units; and the
        columns of `found` that are none of these. Meta: version, reftime, detectors, ephemeris, start, tspan,
        parameters.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind, or the table as a whole is no table of candidates.

    Notes
    -----
    Errors are those of the likelihood's quadratic at its peak: Cramer and Rao's bound with the observed curvature. They
    are no guide where they exceed the scale on which parameters act linearly, as for sky positions from a day or less.
    """
    check_data(data)
    candidates = read_rows(data, found)
    names = _fitted(candidates.points, parameters)
    bounded, low, high = _bounds(names, bounds)
    n_trials = min(1024, 2 ** (len(names) + 3)) if starts is None else starts
    if not (isinstance(n_trials, (int, np.integer)) and n_trials >= 1 and n_trials & (n_trials - 1) == 0):
        raise ValueError(f"starts must be a power of two, not {starts!r}: 1 climbs from the candidate alone.")
    results = Results.blank(candidates, names, len(data.detectors))
    _refuse_outside(results, candidates, bounded, low, high)
    trials = trial_points(len(names), int(n_trials))
    with progress_bar(int(np.sum(results.open)), progress, "refine", "candidates") as advance:
        for _ in range(ROUNDS):
            before = int(np.sum(results.open))
            for rows, reach in _alike(data, results):
                _follow_rows(data, results, rows, reach, names, bounded, low, high, trials)
            advance(before - int(np.sum(results.open)))
    for row in np.flatnonzero(results.open):
        results.messages[row] = ENDINGS[LEFT]
    return _table(data, found, candidates, results, names)


@dataclass
class Results:
    """What is known of n candidates, filled in as they are followed up; NumPy arrays.

    Attributes
    ----------
    points : Doppler
        Stack; as given, then refined.
    open : (n,) bool
        Whether there is more to do.
    messages : list of n str
    covariance : (n, p, p) float64
    twoF, start_twoF : (n,) float64
    twoF_per_detector : (n, D) float64
    steps : (n,) int64
    converged : (n,) bool
    """

    points: Doppler
    open: np.ndarray
    messages: list[str]
    covariance: np.ndarray
    twoF: np.ndarray
    start_twoF: np.ndarray
    twoF_per_detector: np.ndarray
    steps: np.ndarray
    converged: np.ndarray

    @classmethod
    def blank(cls, candidates: Candidates, names: tuple[str, ...], n_detectors: int) -> Results:
        """Before anything was done; rows with problems are closed."""
        n, p = len(candidates.problems), len(names)
        return cls(
            points=candidates.points,
            open=np.array([not problem for problem in candidates.problems], bool),
            messages=list(candidates.problems),
            covariance=np.full((n, p, p), np.nan),
            twoF=np.full(n, np.nan),
            start_twoF=np.full(n, np.nan),
            twoF_per_detector=np.full((n, n_detectors), np.nan),
            steps=np.zeros(n, int),
            converged=np.zeros(n, bool),
        )


def _fitted(points: Doppler, parameters: Sequence[str] | None) -> tuple[str, ...]:
    return usual_parameters(points) if parameters is None else check_parameters(points, parameters)


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
        try:
            low, high = (float(in_unit(x, f"bounds of {name}", column_unit(name))) for x in pair)
        except TypeError:
            raise ValueError(f"bounds of {name} must be (low, high), not {pair!r}.") from None
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"bounds of {name} must be finite and low < high, not {low} and {high}: fix it instead.")
        limits.append((low, high))
    pairs = np.array(limits, np.float64).reshape(-1, 2)
    return tuple(bounds or ()), pairs[:, 0], pairs[:, 1]


def _refuse_outside(
    results: Results, candidates: Candidates, bounded: tuple[str, ...], low: np.ndarray, high: np.ndarray
) -> None:
    """Close rows that start beyond the bounds."""
    for name, lower, upper in zip(bounded, low, high, strict=True):
        x = candidates.given[name]
        for row in np.flatnonzero(results.open & ~((x >= lower) & (x <= upper))):
            results.messages[row] = f"not refined: {name} starts outside its bounds"
            results.open[row] = False


def on_cpu(data: FstatData) -> bool:
    """Whether the data lie on a CPU."""
    return device_of(data).platform == "cpu"


def batch_sizes(data: FstatData) -> tuple[int, ...]:
    """Numbers of candidates to compute at a time, rising."""
    return SIZES if on_cpu(data) else DEVICE_SIZES


class GroupSizes(NamedTuple):
    """How much of a batch is computed at a time; powers of two.

    Attributes
    ----------
    compressed, climbing : int
        Candidates.
    tried : int
        Trial points of each of those.
    """

    compressed: int
    climbing: int
    tried: int


def group_sizes(data: FstatData, size: int, n_blocks: int, n_climbs: int, n_trials: int) -> GroupSizes:
    """What caches or memory hold of a batch of `size` candidates whose narrow data have `n_blocks` blocks of time."""
    nodes = len(data.detectors) * n_blocks * NODES
    lanes = LANES if on_cpu(data) else DEVICE_LANES
    # the slowest climb of a group keeps the others waiting, which a CPU can avoid
    climbing = min(size, batch_sizes(data)[1 if on_cpu(data) else -1], _power_of_two(lanes // (n_climbs * nodes)))
    compressed = 1 if on_cpu(data) else min(size, _power_of_two(DEVICE_SAMPLES // data.series.size))
    return GroupSizes(compressed, climbing, min(n_trials, _power_of_two(lanes // (climbing * nodes))))


def _power_of_two(n: int) -> int:
    """The largest power of two up to n; 1 at least."""
    return 1 << (max(n, 1).bit_length() - 1)


def _alike(data: FstatData, results: Results) -> Iterator[tuple[np.ndarray, float]]:
    """Open rows in batches that one reach serves well, with that reach, Hz."""
    rows = np.flatnonzero(results.open)
    if len(rows) == 0:
        return
    size = batch_sizes(data)[-1]
    least = usual_reach(data, with_fields(results.points, orbit=None))
    reaches = np.array([usual_reach(data, jax.tree.map(lambda x, row=row: x[row], results.points)) for row in rows])
    octaves = np.ceil(np.log2(reaches / least) - 1e-9).astype(int)
    for octave in np.unique(octaves):
        members = rows[octaves == octave]
        for start in range(0, len(members), size):
            yield members[start : start + size], least * 2.0**octave


def _follow_rows(
    data: FstatData,
    results: Results,
    rows: np.ndarray,
    reach: float,
    names: tuple[str, ...],
    bounded: tuple[str, ...],
    low: np.ndarray,
    high: np.ndarray,
    trials: np.ndarray,
) -> None:
    """Follow up a batch and write down how its rows ended; those that left the narrow data's reach stay open."""
    n = len(rows)
    size = next(size for size in batch_sizes(data) if size >= n)
    padded = rows[np.minimum(np.arange(size), n - 1)]
    points = jax.tree.map(lambda x: x[padded], results.points)
    plan = narrow_plan(data, points, reach)
    n_climbs = min(CLIMBS, len(trials))
    groups = group_sizes(data, size, len(plan.first), n_climbs, len(trials))
    near, coordinates = focus(data, points, reach, plan, names, bounded, groups.compressed)
    ends = follow(near, coordinates, low, high, trials, bounded, n_climbs, groups.climbing, groups.tried)
    peaks: Peak = jax.tree.map(lambda x: np.asarray(x)[:n], ends)
    first = results.steps[rows] == 0
    results.start_twoF[rows[first]] = peaks.start_twoF[first]
    results.steps[rows] += peaks.steps
    known = peaks.status != NOWHERE
    kept = rows[known]
    results.twoF[kept] = peaks.twoF[known]
    results.twoF_per_detector[kept] = peaks.twoF_per_detector[known]
    results.covariance[kept] = peaks.covariance[known]
    results.points = jax.tree.map(lambda old, new: _with_rows(old, kept, new[known]), results.points, peaks.point)
    results.converged[rows] = peaks.status == CONVERGED
    results.open[rows] = peaks.status == LEFT
    for i, row in enumerate(rows):
        held = [name for name, at in zip(bounded, peaks.at_limit[i], strict=True) if at]
        results.messages[row] = ending(
            int(peaks.status[i]), float(peaks.twoF[i]), np.asarray(peaks.covariance[i]), held, int(peaks.tried[i])
        )


def _with_rows(old: np.ndarray, rows: np.ndarray, new: np.ndarray) -> np.ndarray:
    copy = np.array(old)
    copy[rows] = new
    return copy


def ending(status: int, twoF: float, covariance: np.ndarray, held: Sequence[str], tried: int) -> str:
    """A sentence on how a candidate ended.

    Parameters
    ----------
    status : int
        See `Maximum`.
    twoF : float
    covariance : (p, p) float64 ndarray
    held : sequence of str
        Parameters at their bounds.
    tried : int
        Templates tried.
    """
    if status != CONVERGED:
        return ENDINGS[status]
    sentence = "converged"
    if held:
        sentence += f", with {' and '.join(held)} at the bound"
    chance = -np.expm1(tried * np.log1p(-chi2.sf(twoF, DEGREES)))
    if chance > NOISE:
        sentence += f"; but noise alone reaches this 2F with a chance of {chance:.2g}"
    elif not held and not np.isfinite(covariance).all():
        sentence += "; but 2F is too flat for error bars"
    return sentence


def _table(data: FstatData, found: Any, candidates: Candidates, results: Results, names: tuple[str, ...]) -> QTable:
    from jfstat import __version__

    columns: dict[str, Any] = {}
    bad = np.array([bool(problem) for problem in candidates.problems], bool)
    everything = all_parameters(results.points)
    refined = np.asarray(values(results.points, everything))
    errors = np.sqrt(np.diagonal(results.covariance, axis1=1, axis2=2))
    for i, name in enumerate(everything):
        x = np.where(bad, candidates.given[name], refined[:, i])
        columns[name] = np.where(bad, x, np.mod(np.where(bad, 0.0, x), 2 * np.pi)) if name == "alpha" else x
    columns |= {f"{name}_error": errors[:, i] for i, name in enumerate(names)}
    columns["twoF"] = results.twoF
    columns |= {f"twoF_{name}": results.twoF_per_detector[:, d] for d, name in enumerate(data.detectors)}
    columns |= {"start_twoF": results.start_twoF, "steps": results.steps, "converged": results.converged}
    columns |= {"message": np.array(results.messages, dtype=str), "covariance": results.covariance}
    meta = {
        "version": __version__,
        "reftime": results.points.reftime,
        "detectors": list(data.detectors),
        "ephemeris": data.ephemeris,
        "start": data.epoch,
        "tspan": data.tspan,
        "parameters": list(names),
    }
    table = in_units(columns, meta)
    for name in getattr(found, "colnames", ()):
        if name not in table.colnames and not name.startswith("twoF"):
            table[name] = found[name]
    return table
