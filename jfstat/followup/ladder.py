"""Follow candidates up through stages of fewer and longer segments: `follow_up`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.lineflags import lines_from_meta
from jfstat.candidates.provenance import Provenance, reftime_of
from jfstat.candidates.tables import AnyTable, in_units, parameter_columns, plain_column, points_from, stacked
from jfstat.data.noise import Noise
from jfstat.data.observation import reference_time
from jfstat.followup.band import CandidateBand, sharing_data
from jfstat.followup.candidates import NEEDED, SearchedWith, fitted_names, impossible, read_rows
from jfstat.followup.free import FreeParameters
from jfstat.followup.growth import TOLERANCE, Before, Growth, noise_chance, stage_chance
from jfstat.followup.method import Method
from jfstat.followup.neighbourhood import Neighbourhood
from jfstat.followup.options import Fit, Stages, checked_fit
from jfstat.followup.refine import refined
from jfstat.followup.results import CELLS, Results, results_table
from jfstat.followup.stages import checked_stages, follow_up_stages, stage_edges
from jfstat.public import host, public
from jfstat.searching.session.progress import progress_bar
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.signal.parameters import AMPLITUDE_COLUMNS, ORBIT_FIELDS, is_parameter, unit
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime, TimeLike
from jfstat.signal.values import columns
from jfstat.validation import guard_band

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.data.noise import NoiseLike
    from jfstat.geometry.ephemeris import EphemerisLike
    from jfstat.validation import FrequencyLike

UNKNOWN = 1e12
"""Number of templates from which candidates are taken to be chosen if their table does not say."""


@host(
    "maximise jfstat.twoF of narrow data there",
    found=kinds.row_as_table,
    ephemeris=kinds.ephemeris,
    progress=kinds.flag,
)
def follow_up(
    sfts: SFTs,
    found: AnyTable | Doppler,
    stages: Sequence[int] | Stages | None = None,
    fit: Fit | None = None,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: FrequencyLike = 1.0,
    progress: bool = True,
) -> QTable:
    """Follow candidates of a semi-coherent search up to full coherence, through ever fewer and longer segments.

    In each stage the data are cut into the stage's number of segments, and the candidates are refined (`refine`) within
    the errors that the previous stage left, so that the region shrinks while the resolution grows. Candidates whose 2F
    does not grow as a signal's would are rejected on the way.

    Parameters
    ----------
    sfts : SFTs
        SFTs of a band that contains the candidates.
    found : QTable, Table, Row or Doppler
        Candidates, as for `refine`: from `search` or `refine`, with or without segments, or one row of it;
        or a template or a stack.
    stages : sequence of int or Stages, optional
        Decreasing numbers of segments, such as ``(50, 10, 1)``, of equal length over the span of the data, by default
        from `follow_up_stages`; or a `Stages` object, with the rates at which candidates are rejected.
    fit : Fit, optional
        Parameters to fit, and the region that the first stage covers around each candidate. Later stages cover 4.3
        standard deviations around the peaks of the stage before, and up to its metric's unit ball where noise dominates
        2F; the second stage also covers as much around the candidate itself.
    sqrt_sx, ephemeris, guard
        As for `prepare`.
    progress : bool
        Whether to show progress, as `search` does.

    Returns
    -------
    QTable
        A row for each candidate and stage, up to the stage that rejects it; candidate by candidate, in the order of
        `found`. `last_stage` takes the last row of each. Columns:

        - ``candidate``, the row in `found`, from 0; ``stage``, from 0; ``n_segments``, the number of segments with
          data;
        - the refined parameters and their errors ``<name>_error``;
        - ``mean_twoF``, the mean over segments at the peak, 2F itself for one segment; ``expected_mean_twoF``, the
          expectation for a signal with the 2F of the stage before, with ``expected_low`` and ``expected_high``, below
          and above which a signal's value lies with the probability ``stages.veto``; these three are NaN in the first
          stage;
        - ``signal_chance``, the probability that a signal's 2F grows as little as observed or less;
        - ``noise_chance``, an upper bound on the probability that a candidate from Gaussian noise is as unlikely in any
          stage so far: the smallest chance of these stages times their number. In the first stage the chance counts all
          templates that were tried, for each of the ``meta["n_twoF"]`` of the search, taken as 1e12 if `found` does not
          say or says 1. In a later stage it is for the highest of the templates tried around a candidate that the stage
          before has chosen by its 2F; it is 1 if the number of segments does not divide the previous one. If the search
          had another number of segments than the first stage, candidates were chosen by another 2F, and
          ``meta["n_twoF"]`` counts in every stage;
        - ``passed``, whether the climb converged, ``signal_chance`` is at least ``stages.veto`` and, in a stage of one
          segment, ``noise_chance`` at most ``stages.false_alarm``;
        - ``converged``, ``message``, and other columns as from `refine`, with ``mean_twoF_H1``, ... and
          ``start_mean_twoF`` in all stages; ``phi0`` and its error are NaN in stages of several segments.

        Meta as from `refine`, with ``stages``, ``veto`` and ``false_alarm`` in place of n_segments.

    Raises
    ------
    TypeError
        If `sfts`, `found` or `fit` is of the wrong kind.
    ValueError
        If an argument makes no sense, or a column of `found` is missing or has a wrong unit.

    Notes
    -----
    If K segments are joined to K', the sums over segments S of 2F at a signal's template obey S_K = S_K' + D, with D
    chi-squared with 4 (K - K') degrees of freedom whatever the signal. ``signal_chance`` is the probability of the fall
    from one stage's peak to the next one's, with what the maximisation adds to either (`jfstat.followup.growth`). A
    signal that was chosen because noise had raised its 2F falls by more than this. Tenorio, Keitel & Sintes (2021,
    Phys. Rev. D 104, 084012) compare the two stages in the same way, with widths calibrated by injections.
    """
    check_sfts(sfts)
    wanted, rates = checked_fit(fit), Stages.of(stages)
    table, time = _as_table(found, wanted.reftime)
    given = parameter_columns(table, "found", NEEDED)
    searched = SearchedWith.of(found, sfts.detectors)
    problems = impossible(given)
    in_band = (given["freq"] >= sfts.frequencies[0]) & (given["freq"] <= sfts.frequencies[-1])
    sound = np.array([not problem for problem in problems], bool) & in_band
    if not np.any(sound):
        why = next(filter(None, problems), "not refined: outside the SFTs' band").removeprefix("not refined: ")
        raise ValueError(f"found holds no candidate that can be followed up; the first: {why}.")
    when = reference_time(time, sfts.start)
    first = points_from({name: x[np.flatnonzero(sound)[:1]] for name, x in given.items()}, when)
    names = fitted_names(first, given, searched, wanted.parameters)
    chosen = rates.numbers
    if chosen is None:
        n_segments = Provenance.of(table).n_segments
        if n_segments is None:
            raise ValueError("stages is missing, and found does not say how many segments its search had: give them.")
        point = jax.tree.map(lambda x: x[0], first)
        chosen = follow_up_stages(sfts, point, n_segments, parameters=names, ephemeris=ephemeris)
    numbers = checked_stages(chosen, len(sfts))
    noise = Noise.of(sqrt_sx)
    noise.floors(sfts.detectors)  # raises here, not in the first stage
    own = _Ladder(
        sfts=sfts,
        found=table,
        given=given,
        sound=sound,
        reftime=when,
        free=FreeParameters.within(names, wanted.bounds),
        method=Method.checked(None, wanted.max_steps, len(names)),
        searched=searched,
        lines=lines_from_meta(table.meta) if wanted.lines is None else wanted.lines,
        preparation={
            "noise": noise,
            "ephemeris": ephemeris,
            "guard": guard_band(guard),
        },
        shortest=(sfts.end - sfts.start) / numbers[0],
        veto=rates.veto,
        false_alarm=rates.false_alarm,
    )
    with progress_bar(len(table) * len(numbers), progress, "follow-up", "stages of candidates") as advance:
        rungs = _climbed(own, numbers, wanted.neighbourhood, advance)
    return _joined(rungs, own, numbers)


@public(table=kinds.table)
def last_stage(table: QTable) -> QTable:
    """Return the row of each candidate's last stage, from a table of `follow_up`.

    Candidates that passed all stages are ``rows[rows["passed"]]``.

    Parameters
    ----------
    table : QTable
        Table from `follow_up`.

    Returns
    -------
    QTable
        A row for each candidate, in their order.

    Raises
    ------
    ValueError
        If the table has no stages.
    """
    if "candidate" not in table.colnames or "stage" not in table.colnames:
        raise ValueError("table has no columns 'candidate' and 'stage': give one that jfstat.follow_up made.")
    candidate, stage = np.asarray(table["candidate"]), np.asarray(table["stage"])
    order = np.lexsort([stage, candidate])
    last = np.append(candidate[order][1:] != candidate[order][:-1], True)[: len(order)]
    rows: Any = table[order[last]]
    return rows


class _Ladder(NamedTuple):
    """Data and options that all stages share, for n candidates.

    Attributes
    ----------
    sfts : SFTs
    found : table
    given : dict of (n,) float64 ndarrays
        Parameters of the candidates.
    sound : (n,) bool
        Whether each candidate is a possible template in the band of the SFTs.
    reftime : GPSTime
        Reference time of the parameters.
    free : FreeParameters
        Parameters to refine.
    method : Method
    searched : SearchedWith
    lines : QTable or None
    preparation : dict
        Arguments of `CandidateBand.prepared`.
    shortest : float
        Length of the first stage's segments, s.
    veto, false_alarm : float
    """

    sfts: SFTs
    found: AnyTable
    given: dict[str, np.ndarray]
    sound: np.ndarray
    reftime: GPSTime
    free: FreeParameters
    method: Method
    searched: SearchedWith
    lines: QTable | None
    preparation: dict[str, Any]
    shortest: float
    veto: float
    false_alarm: float

    @property
    def n_templates(self) -> float:
        """Number of templates from which the candidates were chosen."""
        return self.searched.n_twoF if self.searched.n_twoF > 1 else UNKNOWN

    def chosen_otherwise(self, first: Sequence[int]) -> float:
        """Return the number of templates from which candidates were chosen by another 2F than the first stage's, else
        0.

        `first` holds the first stage's numbers of segments, with and without segments that hold no data. Candidates of
        unknown origin are taken to have been chosen by the first stage's 2F.
        """
        known = self.searched.n_twoF > 1
        return self.n_templates if known and (Provenance.of(self.found).n_segments or 1) not in first else 0.0


class _Rung(NamedTuple):
    """Results of one stage for n candidates.

    Attributes
    ----------
    rows : (n,) int64
        Which candidates.
    n_segments : int
        Number of segments that hold data.
    table : QTable
        Table as from `refine`, with the columns that `_judged` adds.
    chances : (k, n) float64
        Probability of noise in this and all previous stages, each given the one before it.
    spread, rivals : (n, p, p), (n, c, p) float64
        As in `Results`.
    """

    rows: np.ndarray
    n_segments: int
    table: QTable
    chances: np.ndarray
    spread: np.ndarray
    rivals: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Sum of 2F over segments, (n,)."""
        return self.n_segments * np.asarray(self.table["mean_twoF"])


def _as_table(found: AnyTable | Doppler, reftime: TimeLike | None) -> tuple[AnyTable, TimeLike | None]:
    """Return candidates as a table, and the time at which their frequencies hold; None for the start of the data."""
    if isinstance(found, Doppler):
        if found.model is not None:
            raise ValueError("found has a phase model, which follow_up does not know: use jfstat.refine in each stage.")
        values = {name: np.array(x, np.float64).reshape(-1) for name, x in columns(found).items()}
        return in_units(values, {}), reftime if found.reftime is None else found.reftime.common
    if not hasattr(found, "colnames"):
        raise TypeError(
            f"found must be a table of candidates, as from jfstat.search, or a Doppler, not {type(found).__name__}."
        )
    return found, reftime_of(found, reftime)


def _climbed(
    own: _Ladder, numbers: Sequence[int], around: Neighbourhood, advance: Callable[[int], object]
) -> list[_Rung]:
    """Return the results of all stages, each with the candidates that reached it."""
    groups = sharing_data(own.given["freq"], own.sound)
    # the other candidates fit no data: any data give them a row
    groups[0] = np.sort(np.concatenate([groups[0], np.flatnonzero(~own.sound)]))
    rungs: list[_Rung] = []
    starts: Any = own.found
    rows = np.arange(len(own.found))
    for stage, segments in enumerate(stage_edges(own.sfts, numbers)):
        parts = []
        for group in groups:
            at = np.flatnonzero(np.isin(rows, group))
            if len(at):
                spread = None if around.spread is None else around.spread[at]
                parts.append(
                    _refined(own, rows[at], starts[at], around._replace(spread=spread), segments, groups, advance)
                )
        rung = _judged(own, parts, rungs, numbers)
        rungs.append(rung)
        going_on = np.asarray(rung.table["passed"])
        advance(int(np.sum(~going_on)) * (len(numbers) - stage - 1))
        rows, starts = rung.rows[going_on], rung.table[going_on]
        if not len(rows):
            break
        peaks = rung.rivals[going_on]
        if stage == 0:  # a weak signal may be nearer to the candidate than to any peak
            candidates = np.stack([own.given[name][rows] for name in own.free.names], axis=1)
            peaks = np.concatenate([peaks, candidates[:, None]], axis=1)
        around = Neighbourhood(spread=rung.spread[going_on], peaks=peaks)
    return rungs


class _Part(NamedTuple):
    """Results of a stage for n candidates that share data.

    Attributes
    ----------
    rows : (n,) int64
    n_segments : int
    table : QTable
        As from `refine`.
    results : Results
    """

    rows: np.ndarray
    n_segments: int
    table: QTable
    results: Results


def _refined(
    own: _Ladder,
    rows: np.ndarray,
    starts: AnyTable,
    around: Neighbourhood,
    segments: list[tuple[float, float]] | None,
    groups: list[np.ndarray],
    advance: Callable[[int], object],
) -> _Part:
    """Return a stage's results for candidates that share data, given their start rows `starts`."""
    ranges = [np.ptp(own.given["freq"][group[own.sound[group]]]) for group in groups]
    members = rows[own.sound[rows]]
    shared = members if len(members) else np.flatnonzero(own.sound)[:1]
    own_columns = {name: x[shared] for name, x in own.given.items()}
    band = CandidateBand.of(own_columns, float(max(ranges)))  # one width, so that all arrays have the same shapes
    low, high = own.sfts.frequencies[[0, -1]]
    if band.low - band.margin < low or band.high + band.margin > high:
        band = CandidateBand.of(own_columns)
    data = band.prepared(own.sfts, own.reftime, segments=segments, shortest=own.shortest, **own.preparation)
    candidates = read_rows(data, starts, own.reftime)
    results = refined(data, candidates, own.free, around, None, advance, own.method)
    advance(int(np.sum(~candidates.sound)))
    given: Any = own.found[rows]
    table = results_table(data, given, candidates, results, own.free.names, own.searched, own.lines, own.method)
    return _Part(rows, data.n_segments or 1, table, results)


def _judged(own: _Ladder, parts: list[_Part], rungs: list[_Rung], numbers: Sequence[int]) -> _Rung:
    """Return a stage's results for all candidates, with the columns that compare them with the previous stages."""
    stage = len(rungs)
    rows, n = np.concatenate([part.rows for part in parts]), parts[0].n_segments
    order = np.argsort(rows)
    table: Any = stacked([part.table for part in parts])[order]
    rows = rows[order]
    if n == 1:
        for name in [name for name in table.colnames if name.removeprefix("start_").startswith("twoF")]:
            table.rename_column(name, name.replace("twoF", "mean_twoF"))
    tried, covered, spread, rivals = (
        np.concatenate([getattr(part.results, name) for part in parts])[order]
        for name in ("tried", "covered", "spread", "rivals")
    )
    total, trials = n * np.asarray(table["mean_twoF"]), CELLS * tried
    low = expected = high = chance = np.full(len(rows), np.nan)
    if rungs:
        at = np.searchsorted(rungs[-1].rows, rows)
        before = Before(rungs[-1].total[at], rungs[-1].n_segments)
        growth = Growth.expected(before.total, before.n_segments, n, len(own.free.names))
        expected = (before.total - growth.mean) / n
        low, high = ((before.total - growth.fall(tail)) / n for tail in (own.veto, 1 - own.veto))
        chance = growth.chance(before.total - (1 + TOLERANCE) * total)
        if numbers[stage - 1] % numbers[stage]:  # its segments are not joined segments of the stage before
            this = np.ones_like(total)
        else:
            this = stage_chance(total, n, trials + own.chosen_otherwise((numbers[0], rungs[0].n_segments)), before)
        chances = np.vstack([rungs[-1].chances[:, at], this])
    else:
        # a climb could have begun at each of the search's templates
        chances = stage_chance(total, n, own.n_templates * trials)[None]
    noise = noise_chance(chances)
    last = stage == len(numbers) - 1
    table["noise_chance"] = noise
    grown = ~(chance < own.veto)
    silent = ~(noise <= own.false_alarm) & np.isfinite(total) if n == 1 else np.zeros(len(rows), bool)
    converged, region = np.asarray(table["converged"]), np.bool_(last) | _has_errors(table, spread, own.free.names)
    passed = converged & grown & ~silent & region
    notes = [
        (covered < 1, "only the inner {0:.2g} of the errors' region was covered", covered),
        (~grown, "2F grows as little as this for a signal with a chance of {0:.2g}", chance),
        (silent, "noise alone explains it with a chance of {0:.2g}", noise),
        (converged & ~region, "without errors there is no region for the next stage", noise),
    ]
    messages = [str(message) for message in table["message"]]
    for where, text, values in notes:
        for i in np.flatnonzero(where):
            messages[i] += "; " + text.format(values[i])
    table["message"] = np.array(messages, dtype=str)
    stages = {"candidate": rows, "stage": np.full(len(rows), stage), "n_segments": np.full(len(rows), n)}
    said = {"expected_mean_twoF": expected, "expected_low": low, "expected_high": high, "signal_chance": chance}
    table = _arranged(table, stages, said | {"noise_chance": noise, "passed": passed})
    return _Rung(rows, n, table, chances, spread, rivals)


def _has_errors(table: AnyTable, spread: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Return whether all parameters that were fitted to a candidate have errors, (n,) bool."""
    fitted = np.ones((len(table), len(names)), bool)
    if "asini" in table.colnames:
        orbital = np.array([name in ORBIT_FIELDS for name in names])
        fitted = ~orbital | (plain_column(table, "asini") != 0)[:, None]
    known = np.isfinite(spread)
    return np.all(known | ~(fitted[:, :, None] & fitted[:, None]), axis=(1, 2))


def _arranged(table: QTable, first: dict[str, np.ndarray], said: dict[str, np.ndarray]) -> QTable:
    """Return the table of a stage with ordered columns: what identifies a row, fitted parameters, the verdict, the
    rest."""
    from astropy.table import QTable
    from astropy.units import Quantity

    source: Any = table
    fitted = [name for name in source.colnames if is_parameter(name) or is_parameter(name.removesuffix("_error"))]
    verdict = ["mean_twoF", *said, "converged", "message"]
    last = [*AMPLITUDE_COLUMNS, "covariance"]
    others = [name for name in source.colnames if name not in (*fitted, *verdict, *last, *first)]
    arranged: Any = QTable(first, meta=table.meta)
    for name in [*fitted, *verdict, *others, *last]:
        if name in said:
            arranged[name] = said[name]
        elif name in source.colnames:
            arranged[name] = source[name]
        else:  # the initial phase is free in each of several segments
            arranged[name] = Quantity(np.full(len(table), np.nan), unit(name))
    return arranged


def _joined(rungs: list[_Rung], own: _Ladder, numbers: Sequence[int]) -> QTable:
    """Return all stages in one table, candidate by candidate."""
    table: Any = stacked([rung.table for rung in rungs])
    table = table[np.lexsort([np.asarray(table["stage"]), np.asarray(table["candidate"])])]
    for name in ("n_segments", "segment_tspan"):
        table.meta.pop(name, None)
    table.meta |= {"stages": list(numbers), "veto": own.veto, "false_alarm": own.false_alarm}
    return table
