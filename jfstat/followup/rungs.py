"""Take candidates that share data up through the stages of a follow-up, and judge each stage by the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from jfstat.candidates.tables import AnyTable, by_orbits, carry_over, in_units, plain_column, points_from, stacked
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import default_device, free_bytes
from jfstat.data.observation import Observation
from jfstat.data.workers import CompiledLater, in_background
from jfstat.followup.band import CandidateBand
from jfstat.followup.batches import DEVICE_SIZES, SIZES, batches
from jfstat.followup.candidates import Candidates, SearchedWith, read_rows, with_harmless_orbits
from jfstat.followup.foreseen import programs_of_next_stage
from jfstat.followup.free import FreeParameters
from jfstat.followup.growth import TOLERANCE, Before, Growth, noise_chance, stage_chance
from jfstat.followup.method import Method
from jfstat.followup.neighbourhood import Neighbourhood
from jfstat.followup.refine import Refining, refined
from jfstat.followup.results import CELLS, Results, most_climbs, results_table
from jfstat.followup.stages import stage_edges, tracks_regions
from jfstat.sfts.container import SFTs
from jfstat.signal.parameters import AMPLITUDE_COLUMNS, ORBIT_FIELDS, is_parameter, unit
from jfstat.signal.times import GPSTime

if TYPE_CHECKING:
    from astropy.table import QTable

LAST = (*AMPLITUDE_COLUMNS, "covariance")
"""Columns that end the table."""
AHEAD = 1 / 4
"""Largest size of the SFTs, as a share of an accelerator's free memory, if data are prepared ahead: a stage's data are
no larger, and mostly much smaller."""
UNKNOWN = 1e12
"""Number of templates from which candidates are taken to be chosen if their table does not say."""


class Ladder(NamedTuple):
    """Data and options of a follow-up of n candidates.

    Attributes
    ----------
    sfts : SFTs
    found : table
    given : dict of (n,) float64 ndarrays
        Parameters of the candidates.
    sound : (n,) bool
        Whether each candidate is a possible template in the band of the SFTs.
    around : Neighbourhood
        Region that the first stage covers around each candidate.
    tracks : Observation or None
        Times and weights of the SFTs if the candidates are of a search for power along tracks.
    divisions : tuple of int
        Numbers of equal segments into which the candidates' search may have cut the span of the SFTs; see
        `possible_divisions`.
    first : int
        Number of segments of the first stage.
    chosen : Future of tuple of int
        Numbers of segments of all stages; see `numbers`.
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
    around: Neighbourhood
    tracks: Observation | None
    divisions: tuple[int, ...]
    first: int
    chosen: Future[tuple[int, ...]]
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
    def numbers(self) -> tuple[int, ...]:
        """Numbers of segments of the stages, once they are chosen."""
        return self.chosen.result()

    @property
    def knows_templates(self) -> bool:
        """Whether the candidates' table says from how many templates they were chosen."""
        return (self.searched.n_twoF or 1) > 1

    @property
    def n_templates(self) -> float:
        """Number of templates from which the candidates were chosen."""
        return (self.searched.n_twoF or 1) if self.knows_templates else UNKNOWN

    @property
    def assumption(self) -> str:
        """What a message about chances says of the number of templates, if it is not known."""
        return "" if self.knows_templates else f" (of {UNKNOWN:g} templates, since the table has no n_twoF above 1)"

    @property
    def chosen_otherwise(self) -> float:
        """Number of templates from which candidates were chosen by another 2F than the first stage's, else 0.

        Candidates of unknown origin are taken to have been chosen by the first stage's 2F.
        """
        return self.n_templates if self.knows_templates and self.first not in self.divisions else 0.0


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


def climbed(
    own: Ladder,
    share: np.ndarray,
    prepared: Callable[[int], FstatData],
    begun: list[Future[FstatData] | None],
    advance: Callable[[int], object],
) -> QTable:
    """Return the table of all stages for the candidates `share`, rows of ``own.found``.

    Parameters
    ----------
    own : Ladder
    share : (n,) int64 ndarray
    prepared : callable
        Data for these candidates in the stage with a given index.
    begun : list of Future or None
        The first stage's data if they are being prepared; it is emptied, since a Future keeps its result.
    advance : callable
        Function that is called with how many more candidates and stages are done.
    """
    rungs: list[_Rung] = []
    starts: Any = own.found[share]
    rows, around = share, _first_region(own, share)
    waiting, later = [begun.pop() if begun else None], CompiledLater(())
    try:
        for stage in range(len(own.numbers)):
            this, coming = waiting[-1], None
            if stage + 1 < len(own.numbers):
                coming = prepared_ahead(own, prepared, stage + 1)
            waiting = [this, coming]
            data = prepared(stage) if this is None else this.result()
            later.wait()
            candidates = read_rows(data, starts, own.reftime)
            later = CompiledLater(_programs_ahead(own, candidates, coming, stage + 1))
            rung = _judged(own, _refined(own, rows, candidates, around, data, advance, later), rungs)
            rungs.append(rung)
            going_on = np.asarray(rung.table["passed"])
            advance(int(np.sum(~going_on)) * (len(own.numbers) - stage - 1))
            rows, starts = rung.rows[going_on], rung.table[going_on]
            if not len(rows):
                break
            peaks = rung.rivals[going_on]
            if _covers_candidates(stage + 1):
                peaks = np.concatenate([peaks, _places(own, rows)], axis=1)
            around = Neighbourhood(spread=rung.spread[going_on], peaks=peaks)
    finally:
        wait(filter(None, waiting))  # whoever prepares data next finds nothing under way
    return stacked([rung.table for rung in rungs])


def prepared_ahead(own: Ladder, prepared: Callable[[int], FstatData], stage: int) -> Future[FstatData] | None:
    """Begin to prepare a stage's data beside those of the stage before if an accelerator has memory for both; a CPU has
    no time for it."""
    device = default_device()
    free = free_bytes(device)
    if device.platform == "cpu" or (free is not None and own.sfts.nbytes > AHEAD * free):
        return None
    return in_background(partial(prepared, stage))


def _programs_ahead(
    own: Ladder, candidates: Candidates, coming: Future[FstatData] | None, stage: int
) -> Iterator[jax.stages.Lowered | None]:
    """Yield the programs of a stage for candidates of the stage before, and None as long as its data are not ready.

    They are ready if that stage's programs had to be compiled. Otherwise there is little to be gained.
    """
    while coming is not None and not coming.done():
        yield None
    if coming is not None and coming.exception() is None:
        n_peaks = most_climbs(len(own.free.names)) + int(_covers_candidates(stage))
        how = Refining(own.free, Neighbourhood(), method=own.method)
        yield from programs_of_next_stage(coming.result(), candidates, how, n_peaks)


def _covers_candidates(stage: int) -> bool:
    """Return whether a stage covers regions around the candidates themselves too, and not only around the peaks of the
    stage before: the second does, since a weak signal may be nearer to the candidate than to any peak of the first."""
    return stage == 1


def _places(own: Ladder, rows: np.ndarray) -> np.ndarray:
    """Return the fitted parameters of candidates, (n, 1, p)."""
    return np.stack([own.given[name][rows] for name in own.free.names], axis=1)[:, None]


def _first_region(own: Ladder, rows: np.ndarray) -> Neighbourhood:
    """Return the region that the first stage covers around candidates: for those of a search for power along tracks the
    ellipsoid of the tracks' metric."""
    if own.tracks is None:
        return own.around
    names, on_cpu = own.free.names, default_device().platform == "cpu"
    size = (SIZES if on_cpu else DEVICE_SIZES)[-1]
    spread = np.full((len(rows), len(names), len(names)), np.nan)
    sound = np.flatnonzero(own.sound[rows])
    given = with_harmless_orbits({name: x[rows[sound]] for name, x in own.given.items()})
    points = points_from(given, own.reftime)
    for some, stack in by_orbits(points):
        theirs = names if stack.orbit is not None else own.free.without(ORBIT_FIELDS).names
        at = np.array([names.index(name) for name in theirs])
        for batch in batches(sound[some], np.zeros(len(some)), lambda *_: size):
            chosen = jax.tree.map(lambda x, at=some[batch.places]: x[at], stack)
            n, together = np.int32(len(batch.rows)), 1 if on_cpu else size
            regions = np.asarray(tracks_regions(own.tracks, chosen, theirs, n, together))
            spread[np.ix_(batch.rows, at, at)] = regions[: len(batch.rows)]
    return own.around._replace(spread=np.sqrt(own.around.mismatch) * spread, peaks=_places(own, rows))


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


def preparation(own: Ladder, group: np.ndarray, width: float, keep: bool) -> Callable[[int], FstatData]:
    """Return a function that prepares the data of candidates `group` for a stage.

    Their band has at least this width, Hz, if the SFTs hold it, so that arrays of all groups have the same shapes. The
    function holds the data of the last stage it prepared, so that three stages' data may be in memory at once; with
    `keep` those of all, which are then prepared once.
    """
    members = group[own.sound[group]]
    columns = {name: x[members] for name, x in own.given.items()}
    band = CandidateBand.of(columns, width)
    low, high = own.sfts.frequencies[[0, -1]]
    if band.low - band.margin < low or band.high + band.margin > high:
        band = CandidateBand.of(columns)

    @lru_cache(maxsize=None if keep else 1)
    def prepared(stage: int) -> FstatData:
        # the first stage's data are prepared while the others' are still being chosen
        edges = stage_edges(own.sfts, own.numbers if stage else (own.first,))[stage]
        how = dict(own.preparation, segments=edges, shortest=own.shortest)
        return band.prepared(own.sfts, own.reftime, **how)

    return prepared


def _refined(
    own: Ladder,
    rows: np.ndarray,
    candidates: Candidates,
    around: Neighbourhood,
    data: FstatData,
    advance: Callable[[int], object],
    later: CompiledLater,
) -> _Part:
    """Return a stage's results for candidates that share data, which are those of the rows `rows`."""
    results = refined(data, candidates, Refining(own.free, around, None, own.method), advance, later=(later,))
    advance(int(np.sum(~candidates.sound)))
    given = in_units({name: x[rows] for name, x in own.given.items()}, dict(own.found.meta))
    table = results_table(data, given, candidates, results, own.free.names, own.searched, own.lines, own.method)
    return _Part(rows, data.n_segments or 1, table, results)


def _judged(own: Ladder, part: _Part, rungs: list[_Rung]) -> _Rung:
    """Return a stage's results, with the columns that compare them with the previous stages."""
    stage, numbers = len(rungs), own.numbers
    rows, n, results = part.rows, part.n_segments, part.results
    table: Any = part.table
    if n == 1:
        for name in [name for name in table.colnames if name.removeprefix("start_").startswith("twoF")]:
            table.rename_column(name, name.replace("twoF", "mean_twoF"))
    covered, spread = results.covered, results.spread
    total, trials = n * np.asarray(table["mean_twoF"]), CELLS * results.tried
    low = expected = high = chance = np.full(len(rows), np.nan)
    if rungs:
        at = np.searchsorted(rungs[-1].rows, rows)
        before = Before(rungs[-1].total[at], rungs[-1].n_segments)
        growth = Growth.expected(before.total, before.n_segments, n, len(own.free.names))
        expected = (before.total - growth.mean) / n
        # the law of the fall has no end, but 2F is not negative
        low, high = (np.maximum(before.total - growth.fall(tail), 0.0) / n for tail in (own.veto, 1 - own.veto))
        chance = growth.chance(before.total - (1 + TOLERANCE) * total)
        if numbers[stage - 1] % numbers[stage]:  # its segments are not joined segments of the stage before
            this = np.ones_like(total)
        else:
            this = stage_chance(total, n, trials + own.chosen_otherwise, before)
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
        (silent, "noise alone explains it with a chance of {0:.2g}" + own.assumption, noise),
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
    return _Rung(rows, n, table, chances, spread, results.rivals)


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
    others = [name for name in source.colnames if name not in (*fitted, *verdict, *LAST, *first)]
    arranged: Any = QTable(first, meta=table.meta)
    for name in [*fitted, *verdict, *others, *LAST]:
        if name in said:
            arranged[name] = said[name]
        elif name in source.colnames:
            arranged[name] = source[name]
        else:  # the initial phase is free in each of several segments
            arranged[name] = Quantity(np.full(len(table), np.nan), unit(name))
    return arranged


def joined(tables: list[QTable], own: Ladder) -> QTable:
    """Return the stages of all candidates in one table, candidate by candidate."""
    table: Any = stacked(tables)
    table = table[np.lexsort([np.asarray(table["stage"]), np.asarray(table["candidate"])])]
    given: Any = own.found[np.asarray(table["candidate"])]
    first, last = [name for name in table.colnames if name not in LAST], [x for x in LAST if x in table.colnames]
    carry_over(table, given)
    table = table[[*first, *(name for name in table.colnames if name not in (*first, *last)), *last]]
    for name in ("n_segments", "segment_tspan"):
        table.meta.pop(name, None)
    table.meta |= {"stages": list(own.numbers), "veto": own.veto, "false_alarm": own.false_alarm}
    return table
