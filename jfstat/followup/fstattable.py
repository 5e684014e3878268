"""Compute 2F and amplitudes at exactly the templates of a table, frequency included: `fstat_table`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.linerobust import bsgl_column
from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import by_orbits, carry_over, in_units
from jfstat.candidates.transienttable import transient_meta, transient_values
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.narrow import narrow_plan, narrowed
from jfstat.data.narrowdata import NarrowData
from jfstat.followup.batches import batch_sizes, reaches, too_many_nodes
from jfstat.followup.candidates import SearchedWith, read_rows
from jfstat.followup.neighbours import Group, neighbours
from jfstat.followup.segmenttable import segment_columns
from jfstat.geometry.source import at_reftime
from jfstat.public import host
from jfstat.searching.session.progress import progress_bar
from jfstat.signal.parameters import AMPLITUDE_COLUMNS, TRANSIENT_COLUMNS
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime
from jfstat.signal.values import varied_parameters, with_fields
from jfstat.statistic.fstat import compiled_values, values_of
from jfstat.statistic.linerobust import LinePrior, checked_prior
from jfstat.statistic.transients import TransientRange, check_within
from jfstat.validation import shown

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.signal.times import TimeLike

UNDER_WAY = 16
"""Number of groups started on the device before the first group's values are needed."""


@host(
    "use jfstat.fstat there",
    points=kinds.no_row,
    reftime=kinds.time,
    transient=kinds.instance(TransientRange, or_none=True),
    progress=kinds.flag,
)
def fstat_table(
    data: FstatData,
    points: QTable | Doppler,
    *,
    reftime: TimeLike | None = None,
    line_prior: LinePrior | None = None,
    transient: TransientRange | None = None,
    progress: bool = True,
) -> QTable:
    """Compute the F-statistic and the amplitudes at exactly the given templates, frequency included.

    Use it for known sources, candidates of other searches and grids of your own, like ComputeFstatistic_v2 with
    ``--gridType=6`` and PyFstat's SearchOverGridFile; `search` computes 2F at the frequencies of the data instead.
    Values agree with `fstat` and `estimate_amplitude` to 1e-6. Neighbouring templates share narrow data (`narrow`), and
    cost about ten microseconds each.

    Parameters
    ----------
    data : FstatData
        Data of a band that contains all templates; ``prepare(..., filters=False)`` is enough. With segments, the mean
        of 2F over them is computed.
    points : QTable, Table or Doppler
        Templates: a table with columns ``freq``, ``alpha``, ``delta``, any of ``f1dot``, ``f2dot``, ..., and ``asini``,
        ``period``, ``tp``, ``ecc``, ``argp`` together or not at all (the last two may be missing), with or without
        units, as from `read_templates`, `read_candidates`, `search` or `refine`. asini = 0 means no orbit. Frequencies
        hold at ``meta["reftime"]``. Or a template or a stack of templates. If templates have different reference times,
        the result has the first template's, with frequencies and derivatives at that time.
    reftime : float, str, Time or GPSTime, optional
        GPS time at which frequencies hold, if `points` do not say; by default the data's reference time.
    line_prior : LinePrior, optional
        Prior of lines for ``log10BSGL``.
    transient : TransientRange, optional
        Windows of a transient signal over which 2F is mapped at each template; see `transient_map`. This takes about
        ten milliseconds per template for each 10 d and 0.1 Hz, because atoms are made from the whole series. Not with
        segments.
    progress : bool
        Whether to show progress, as `search` does.

    Returns
    -------
    QTable
        A row for each template, in the order given. Columns:

        - the template's parameters, as in tables of `search`;
        - ``twoF``, and ``twoF_H1``, ... of each detector alone; with several detectors ``log10BSGL``;
        - ``h0``, ``cosi``, ``psi``, ``phi0`` (rad, at the table's reference time) and their errors ``h0_error``, ...;
        - with `transient`, the largest 2F of the map ``max_twoF`` and its window ``t0`` (GPS s) and ``tau`` (s),
          ``log10BtSG``, the odds of a transient signal against Gaussian noise (`TransientMap.log10_bayes_factor`), and
          ``t0_MP`` and ``tau_MP``, the start time and the time scale with the largest marginal posterior;
        - with segments ``mean_twoF``, ``mean_twoF_H1``, ... instead of 2F, and no ``phi0``, as in tables of `search`;
        - other columns of `points` that do not depend on templates and data, such as names.

        Meta: version, reftime, detectors, ephemeris, start, tspan, tsft, n_sfts, sqrt_sx, parameters (names of the
        frequency, of all that differ among the rows, and of those that the points' own meta names), n_templates,
        n_twoF (the number of rows, or of the values of 2F from which a search chose them), Fstar0, oLGX and
        false_alarm, as in tables of `search`, and bounds if the points' meta has them; with `transient`, the range of
        windows; with segments, n_segments and segment_tspan.

    Raises
    ------
    TypeError
        If `data`, `points`, `line_prior` or `transient` is of another kind.
    ValueError
        If a column is missing or has another unit, a row is no possible template or does not fit the data, or
        `line_prior` is for another number of detectors, or no window of `transient` is within the data, or a table is
        of templates with a phase model, whose function it cannot hold, or has meta of several tables in one. No row is
        left out.

    Examples
    --------
    >>> table = jfstat.fstat_table(data, point, progress=False)
    >>> table.colnames[:5]
    ['freq', 'f1dot', 'alpha', 'delta', 'twoF']
    """
    check_data(data, or_segments=True)
    if transient is not None and data.n_segments is not None:
        raise ValueError("transient does not go with data of segments: leave it out, or prepare data without.")
    if transient is not None and not isinstance(transient, TransientRange):
        raise TypeError(f"transient must be a jfstat.TransientRange or None, not {shown(transient)}.")
    if transient is not None:
        check_within("transient", data.observation.ends, transient.t0, transient.tau, transient.end)
    prior = checked_prior(line_prior, len(data.detectors))
    searched = SearchedWith.of(points, data.detectors, "points")
    rows = read_rows(data, _at_one_time(points) if isinstance(points, Doppler) else points, reftime, name="points")
    _require_all(rows.problems)
    n = len(rows.problems)
    if data.n_segments is None:
        columns = _columns(data, rows.points, prior, progress)
    else:
        columns = segment_columns(data, rows.points, prior)
    columns = rows.given | columns
    if transient is not None:
        maps = np.empty((n, len(TRANSIENT_COLUMNS)))
        with progress_bar(n, progress, "transient maps", "templates") as advance:
            for row, found in transient_values(data, rows.points, transient):
                maps[row] = found[1:]
                advance(1)
        columns |= dict(zip(TRANSIENT_COLUMNS, maps.T.copy(), strict=True))
    varied = varied_parameters(with_fields(rows.points, varied=searched.parameters))
    meta = Provenance.from_observation(data.observation, rows.reftime, varied).meta
    # candidates of a search were chosen from more values
    n_twoF = max(n, searched.n_twoF or 0)
    meta |= {"n_templates": n, "n_twoF": n_twoF} | prior.meta
    if searched.bounds:
        meta["bounds"] = {name: list(pair) for name, pair in searched.bounds.items()}
    twoF = columns["twoF" if data.n_segments is None else "mean_twoF"]
    meta["false_alarm"] = float(false_alarm(twoF.max(), n_twoF, data.n_segments or 1)) if n else None
    if transient is not None:
        meta["transient"] = transient_meta(transient)
    table = in_units(columns, meta)
    if not isinstance(points, Doppler):
        carry_over(table, points)
    return table


def _columns(data: FstatData, points: Doppler, prior: LinePrior, progress: bool) -> dict[str, np.ndarray]:
    """Return 2F, log10BSGL and amplitudes at a stack of n templates, (n,) float64 each."""
    n, names = len(points.alpha), ["twoF", *(f"twoF_{name}" for name in data.detectors), *AMPLITUDE_COLUMNS]
    values = np.full((n, len(names)), np.nan)
    with progress_bar(n, progress, "F-statistic", "templates") as advance:
        for done, found in _all_values(data, points):
            values[done] = found
            advance(len(done))
    own = dict(zip(names, values.T.copy(), strict=True))
    amplitudes = {name: own.pop(name) for name in AMPLITUDE_COLUMNS}
    n_detectors = len(data.detectors)
    return own | bsgl_column(own["twoF"], values[:, 1 : 1 + n_detectors], prior) | amplitudes


def _at_one_time(points: Doppler) -> Doppler:
    """Return the templates with the first one's reference time, and frequencies and derivatives at that time."""
    reftime = points.reftime
    if reftime is None or not np.size(points.alpha):
        return points
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[np.ndim(points.alpha) :]), points)
    first = GPSTime(flat.reftime.seconds[0], flat.reftime.nanoseconds[0])
    return at_reftime(flat, first) if np.any(np.asarray(first - flat.reftime)) else flat


def _require_all(problems: list[str]) -> None:
    """Raise a ValueError if a row is no template or does not fit the data; `problems` come from `read_rows`."""
    bad = [row for row, problem in enumerate(problems) if problem]
    if bad:
        why = problems[bad[0]].removeprefix("not refined: ")
        others = "" if len(bad) == 1 else f", the first of {len(bad)}"
        raise ValueError(
            f"points cannot be computed in row {bad[0]}{others}, counted from 0: {why}; correct or leave out such "
            "rows, or prepare a band, orbit= and fdots= that suit them."
        )


def _all_values(data: FstatData, points: Doppler) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and their values from `values_of`, for all templates of a stack with NumPy leaves."""
    reach = reaches(data, points)
    large = too_many_nodes(data, reach)
    for mine, own in by_orbits(points):
        for row in mine[large[mine]]:
            point = jax.tree.map(lambda x, row=row: x[row], own)
            yield np.array([row]), np.asarray(compiled_values(data.for_one_template, point))[None]
        near = mine[~large[mine]]
        for least in np.unique(reach[near]):
            rows = near[reach[near] == least]
            yield from _shared_values(data, own, neighbours(data, own, rows, float(least)))


def _shared_values(data: FstatData, points: Doppler, groups: list[Group]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and their values from narrow data around each group; templates beyond its reach get data of their
    own."""
    for first in range(0, len(groups), UNDER_WAY):
        started = [(group, _group_values(data, points, group)) for group in groups[first : first + UNDER_WAY]]
        for group, parts in started:
            found = np.concatenate([np.asarray(x) for x in parts])[: len(group.rows)]
            beyond = np.isnan(found[:, 0]) & (group.rows != group.centre)
            yield group.rows[~beyond], found[~beyond]
            alone = [Group(int(row), np.array([row]), group.reach) for row in group.rows[beyond]]
            yield from _shared_values(data, points, alone)


def _group_values(data: FstatData, points: Doppler, group: Group) -> list[jax.Array]:
    """Yield values of a group's templates, in parts, of which the last is padded."""
    centre = jax.tree.map(lambda x: x[group.centre], points)
    plan = narrow_plan(data, centre, group.reach)
    near = narrowed(data.for_one_template, centre, group.reach, plan)
    sizes, parts, start, n = batch_sizes(data), [], 0, len(group.rows)
    wasted = 2 if device_of(data).platform == "cpu" else sizes[1]  # an accelerator takes as long for fewer
    while start < n:
        left = n - start
        size = next((s for s in sizes if left <= s <= wasted * left), max(s for s in sizes if s <= left))
        rows = group.rows[np.minimum(np.arange(start, start + size), n - 1)]
        parts.append(_stack_values(near, jax.tree.map(lambda x, rows=rows: x[rows], points)))
        start += size
    return parts


@jax.jit
def _stack_values(near: NarrowData, points: Doppler) -> jax.Array:
    """Return values at each of a stack of templates, (n, n_columns) float64."""
    return jax.vmap(values_of, (None, 0))(near, points)
