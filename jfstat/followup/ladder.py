"""Follow candidates up through stages of fewer and longer segments: `follow_up`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jfstat import kinds
from jfstat.candidates.lineflags import lines_from_meta
from jfstat.candidates.provenance import Provenance, reftime_of
from jfstat.candidates.tables import AnyTable, in_units, parameter_columns, points_from
from jfstat.data.keptnoise import KeptNoise
from jfstat.data.memory import default_device
from jfstat.data.noise import Noise
from jfstat.data.normalised import NormalisedSFTs
from jfstat.data.observation import reference_time, unweighted
from jfstat.data.workers import in_background
from jfstat.followup.band import sharing_data
from jfstat.followup.candidates import NEEDED, SearchedWith, fitted_names, impossible, with_harmless_orbits
from jfstat.followup.checkpoint import Finished, finished_in, identity, share_keys
from jfstat.followup.free import FreeParameters
from jfstat.followup.method import Method
from jfstat.followup.options import Fit, Stages, checked_fit
from jfstat.followup.rungs import Ladder, climbed, joined, preparation, prepared_ahead
from jfstat.followup.stages import (
    TRIALS,
    Steps,
    check_n_segments,
    checked_stages,
    follow_up_stages,
    possible_divisions,
)
from jfstat.public import host, public
from jfstat.searching.session.checkpoint import checkpoint_path
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.statistics import STATISTICS
from jfstat.sfts.container import SFTs, check_sfts
from jfstat.signal.parameters import WINDOW_COLUMNS
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns
from jfstat.validation import guard_band

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.data.noise import NoiseLike
    from jfstat.geometry.ephemeris import EphemerisLike
    from jfstat.validation import FrequencyLike

SHARE, DEVICE_SHARE = 256, 16384
"""Largest numbers of candidates that are followed up before the next ones, and a checkpoint is written, on a CPU and on
an accelerator: several batches, and for 10 d of data some minutes."""


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
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
) -> QTable:
    """Follow candidates of a semi-coherent search up to full coherence, through ever fewer and longer segments.

    In each stage the data are cut into the stage's number of segments, and the candidates are refined (`refine`) within
    the errors that the previous stage left, so that the region shrinks while the resolution grows. Candidates whose 2F
    does not grow as a signal's would are rejected on the way. Millions of candidates can be given: they are followed
    up in shares, so that memory grows with the table only.

    Parameters
    ----------
    sfts : SFTs
        SFTs of a band that contains the candidates.
    found : QTable, Table, Row or Doppler
        Candidates, as for `refine`: from `search` or `refine`, with or without segments, or one row of it;
        or a template or a stack. Transient candidates and paths are refused: joined segments need not add to their 2F.
    stages : sequence of int or Stages, optional
        Decreasing numbers of segments, such as ``(50, 10, 1)``, of equal length over the span of the data, by default
        from `follow_up_stages`; or a `Stages` object, with the rates at which candidates are rejected.
    fit : Fit, optional
        Parameters to fit, and the region that the first stage covers around each candidate: up to ``fit.mismatch`` by
        the metric of this stage or, after a search with `TrackPower`, of tracks, if this takes at most 4096 trial
        points and 32 bins. Later stages cover 4.3
        standard deviations around the peaks of the stage before, and up to its metric's unit ball where noise dominates
        2F; the second stage also covers as much around the candidate itself.
    sqrt_sx, ephemeris, guard
        As for `prepare`.
    checkpoint : path, optional
        File that keeps the candidates that are done, after at most 256 of them, or 16384 on an accelerator. If it
        exists, the follow-up continues from there, and its table is the same. Ctrl-C loses what was done since.
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
          had other segments than the first stage, candidates were chosen by another 2F, and ``meta["n_twoF"]`` counts
          in every stage;
        - ``passed``, whether the climb converged, ``signal_chance`` is at least ``stages.veto`` and, in a stage of one
          segment, ``noise_chance`` at most ``stages.false_alarm``;
        - ``converged``, ``message``, and other columns as from `refine`, with ``mean_twoF_H1``, ... and
          ``start_mean_twoF`` in all stages; ``phi0`` and its error are NaN in stages of several segments.

        Meta as from `refine`, with ``stages``, ``veto`` and ``false_alarm`` in place of n_segments.

    Raises
    ------
    OSError
        If the checkpoint cannot be read or written.
    TypeError
        If `sfts`, `found` or `fit` is of the wrong kind.
    ValueError
        If an argument makes no sense, a column of `found` is missing or has a wrong unit, or the checkpoint is no
        checkpoint of a follow-up, of another one, or in use.

    Notes
    -----
    If K segments are joined to K', the sums over segments S of 2F at a signal's template obey S_K = S_K' + D, with D
    chi-squared with 4 (K - K') degrees of freedom whatever the signal. ``signal_chance`` is the probability of the fall
    from one stage's peak to the next one's, with what the maximisation adds to either (`jfstat.followup.growth`). A
    signal that was chosen because noise had raised its 2F falls by more than this. Tenorio, Keitel & Sintes (2021,
    Phys. Rev. D 104, 084012) compare the two stages in the same way, with widths calibrated by injections.
    """
    check_sfts(sfts)
    wanted, rates, noise, width = checked_fit(fit), Stages.of(stages), Noise.of(sqrt_sx), guard_band(guard)
    table = _as_table(found)
    own = ladder_of(sfts, table, rates, wanted, noise, ephemeris, width)
    if checkpoint is None:
        return joined(followed(own, None, progress), own)
    path = checkpoint_path(checkpoint)
    with finished_in(path, identity(sfts, table, rates, wanted, noise, ephemeris, width)) as finished:
        return joined(followed(own, finished, progress), own)


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


def ladder_of(
    sfts: SFTs, found: AnyTable, rates: Stages, fit: Fit, noise: Noise, ephemeris: EphemerisLike, guard: float
) -> Ladder:
    """Return the data and options of a follow-up.

    Raises
    ------
    TypeError, ValueError
        See `follow_up`.
    """
    given = parameter_columns(found, "found", NEEDED, "use jfstat.refine(model=) in each stage")
    _refuse_others(found)
    searched = SearchedWith.of(found, sfts.detectors)
    problems = impossible(given)
    in_band = (given["freq"] >= sfts.frequencies[0]) & (given["freq"] <= sfts.frequencies[-1])
    sound = np.array([not problem for problem in problems], bool) & in_band
    if len(sound) == 0:
        raise ValueError("found holds no candidates: give a table with a row for each.")
    if not np.any(sound):
        why = next(filter(None, problems), "not refined: outside the SFTs' band").removeprefix("not refined: ")
        raise ValueError(f"found holds no candidate that can be followed up; the first: {why}.")
    when = reference_time(reftime_of(found, fit.reftime), sfts.start)
    one = {name: x[np.flatnonzero(sound)[:1]] for name, x in given.items()}
    first = points_from(with_harmless_orbits(one), when)
    names = fitted_names(first, given, searched, fit.parameters)
    point = jax.tree.map(lambda x: x[0], first)
    steps = Steps.of(sfts, point, names, ephemeris) if is_of_tracks(found) else None
    origin = Provenance.of(found)
    searched_in = origin.n_segments
    if searched_in is not None and rates.numbers is None and steps is None:
        check_n_segments(sfts, searched_in)
    divisions = possible_divisions(sfts, origin)
    choose: Callable[[], tuple[int, ...]]
    if rates.numbers is not None:
        numbers = checked_stages(rates.numbers, len(sfts))
        first_stage, choose = numbers[0], lambda: numbers
    elif steps is not None:
        numbers = _stages_after_tracks(steps, names)
        first_stage, choose = numbers[0], lambda: numbers
    elif searched_in is not None:
        first_stage = next((n for n in divisions if n <= len(sfts)), searched_in)
        choose = partial(follow_up_stages, sfts, point, first_stage, parameters=names, ephemeris=ephemeris)
    else:
        raise ValueError(
            "stages is missing, and found is of a coherent search or does not say how many segments its search "
            "had: give the numbers of segments, such as stages=(10, 1)."
        )
    covered = steps is not None and fit.mismatch > 0 and steps.covers_tracks(first_stage, fit.mismatch, fit.bins)
    noise.floors(sfts.detectors)  # raises here, not in the first stage
    return Ladder(
        sfts=sfts,
        found=found,
        given=given,
        sound=sound,
        around=fit.neighbourhood,
        tracks=unweighted(sfts, when, ephemeris) if covered else None,
        divisions=divisions,
        first=first_stage,
        reftime=when,
        free=FreeParameters.within(names, fit.bounds),
        method=Method.checked(None, fit.max_steps, len(names)),
        searched=searched,
        lines=lines_from_meta(found.meta) if fit.lines is None else fit.lines,
        preparation={"noise": KeptNoise.of_sfts(noise, sfts), "ephemeris": ephemeris, "guard": guard},
        shortest=(sfts.end - sfts.start) / first_stage,
        veto=rates.veto,
        false_alarm=rates.false_alarm,
        chosen=in_background(choose),  # last, when nothing else raises
    )


def _refuse_others(found: AnyTable) -> None:
    """Raise a ValueError for candidates of signals that end, or whose frequency wanders: 2F of those need not grow."""
    if all(name in found.colnames for name in WINDOW_COLUMNS) or "max_twoF" in found.colnames:
        raise ValueError(
            "found is of transient signals, whose windows would be ignored: use refine, or remove the columns t0, tau "
            "and max_twoF to follow up signals that last for all of the data."
        )
    if "transitions" in found.meta or "log_likelihood" in found.colnames:
        raise ValueError(
            "found is of paths, whose frequency wanders, and stages are of signals whose frequency does not: remove "
            "the column log_likelihood and meta['transitions'] to follow up such signals at the paths' frequencies."
        )


def is_of_tracks(found: AnyTable) -> bool:
    """Return whether candidates are of a search for power along tracks."""
    return found.meta.get("statistic") in [kind.__name__ for kind in STATISTICS if kind.takes is NormalisedSFTs]


def _stages_after_tracks(steps: Steps, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the stages after a search for power along tracks.

    Raises
    ------
    ValueError
        If it leaves too much open.
    """
    first = steps.first_after_tracks(TRIALS)
    if first is None:
        raise ValueError(
            f"stages is missing: power along tracks leaves too much open in {', '.join(names)} to choose the first; "
            "give them, from segments of a few SFTs on, or fit fewer parameters."
        )
    return steps.stages(first, TRIALS)


def followed(own: Ladder, finished: Finished | None, progress: bool) -> list[QTable]:
    """Return a table for each share of the candidates, from the checkpoint for those that are finished."""
    groups = sharing_data(own.given["freq"], own.sound)
    width = max(float(np.ptp(own.given["freq"][group])) for group in groups)
    # the other candidates fit no data: any data give them a row
    groups[0] = np.sort(np.concatenate([groups[0], np.flatnonzero(~own.sound)]))
    shares = [(group, share) for group in groups for share in _divided(group)]
    keys = [""] * len(shares) if finished is None else share_keys(own, [share for _, share in shares])
    done = [finished is not None and key in finished for key in keys]
    left = [own_share for own_share, known in zip(shares, done, strict=True) if not known]
    last, prepared, begun, tables = None, None, [], []
    try:
        if left:  # its data are prepared while the stages are still being chosen
            last = left[0][0]
            prepared = preparation(own, last, width, len(last) > DEVICE_SHARE)
            begun.append(prepared_ahead(own, prepared, 0))
        items = [len(share) * len(own.numbers) for _, share in shares]
        n_done = sum(n for n, known in zip(items, done, strict=True) if known)
        with progress_bar(sum(items), progress, "follow-up", "stages of candidates", n_done) as advance:
            for (group, share), key, known in zip(shares, keys, done, strict=True):
                if finished is not None and known:
                    tables.append(finished.table(key))
                    continue
                if prepared is None or group is not last:
                    last, prepared = group, preparation(own, group, width, len(group) > DEVICE_SHARE)
                tables.append(climbed(own, share, prepared, begun, advance))
                if finished is not None:
                    finished.add(key, tables[-1])
    finally:
        wait(filter(None, begun))  # whoever prepares data next finds nothing under way
    return tables


def _divided(group: np.ndarray) -> list[np.ndarray]:
    """Return the shares of candidates that share data: rows that are followed up together."""
    size = SHARE if default_device().platform == "cpu" else DEVICE_SHARE
    return [np.sort(group[first : first + size]) for first in range(0, len(group), size)]


def _as_table(found: AnyTable | Doppler) -> AnyTable:
    """Return candidates as a table."""
    if isinstance(found, Doppler):
        if found.model is not None:
            raise ValueError("found has a phase model, which follow_up does not know: use jfstat.refine in each stage.")
        values = {name: np.array(x, np.float64).reshape(-1) for name, x in columns(found).items()}
        return in_units(values, {} if found.reftime is None else {"reftime": found.reftime.common})
    if not hasattr(found, "colnames"):
        raise TypeError(
            f"found must be a table of candidates, as from jfstat.search, or a Doppler, not {type(found).__name__}."
        )
    return found
