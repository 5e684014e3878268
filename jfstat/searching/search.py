"""Searching prepared data with a bank of templates, for a table of the loudest candidates: `search`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Thread
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.bounds import checked_bounds
from jfstat.candidates.details import Details
from jfstat.candidates.tables import bank_from_table
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of, is_exhausted
from jfstat.data.narrowdata import NarrowData
from jfstat.engines.choice import engine_for, sums_for
from jfstat.lines.doppler import LineBands, checked_lines, line_bands, lines_near
from jfstat.public import public
from jfstat.searching.driver.batches import steps
from jfstat.searching.driver.interpolation import interpolation_plan
from jfstat.searching.driver.mesh import check_mesh, spans_processes
from jfstat.searching.driver.plan import SearchPlan, search_plan
from jfstat.searching.driver.work import Share, TransientSearch, Work, check_all_fit, stacked_bank
from jfstat.searching.reduce.keep import Keep, checked_threshold
from jfstat.searching.reduce.state import NOTHING_FOUND, State
from jfstat.searching.result import compiling_columns, result_table
from jfstat.searching.session.checkpoint import Checkpoint, checkpoint_path, identity
from jfstat.searching.session.pace import Pace
from jfstat.searching.session.processes import agreed_plan, is_first
from jfstat.searching.session.progress import progress_bar
from jfstat.searching.session.stop import SearchStopped, stop_requests
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.statistic.linerobust import LineCut, checked_odds, plain_fstar0, plain_odds
from jfstat.statistic.transients import TransientRange
from jfstat.tracking.engine import Tracks
from jfstat.validation import is_number, is_whole, shown

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.tracking.transitions import TransitionsLike
    from jfstat.validation import NumberLike

MOST_TOGETHER = 10**6
"""Most templates of a batch, which is filled up by repeating the last one."""
RANKINGS = ("F", "BSGL", "BtSG")
FAILED = 1 << 16
"""Stop request of a process that failed: above the number of any signal, because all obey the largest request."""


@public
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
    ranking: str = "F",
    bsgl_threshold: float | None = None,
    cluster: float | None = None,
    unit: tuple[int, int] | None = None,
    bounds: Mapping[str, tuple[NumberLike, NumberLike]] | None = None,
    engine: str | None = None,
    lines: QTable | None = None,
    veto_lines: bool = False,
    coherent_mismatch: float | None = None,
    track: TransitionsLike | None = None,
    amplitude: Amplitude | None = None,
    transient: TransientRange | None = None,
) -> QTable:
    """Search all frequencies of the data with every template of a bank, and keep the loudest candidates.

    Of data with segments the mean over segments of 2F is searched; see the notes.

    Templates are computed in batches on the device, and only the loudest values and the tallies of a batch leave it.
    The values are those of `twoF_band`. A band that is too wide for the device's memory is searched in parts, one after
    the other. Consecutive templates that differ only in spin-down share a resampled series, so banks should be ordered
    by sky position, as those of `template_bank` are.

    Parameters
    ----------
    data : FstatData
    bank : Doppler or QTable
        A stack of n templates, as from `template_bank`, or one; ``fkdot[..., 0]`` is ignored. They may have a phase
        model, whose parameters are columns ``model...`` of the result. Or a table with columns
        ``alpha``, ``delta``, optionally ``f1dot``, ... and those of an orbit, and the reference time in
        ``meta["reftime"]``. Orbits should be among those given to `prepare`: others cost much more, and frequencies
        that they shift out of the band are left out.
    top : int or None
        Largest number of candidates to keep. None, which needs a threshold, keeps all candidates above it.
    threshold : float, optional
        Keep only candidates with 2F at or above this; with `top`, the loudest `top` of them.
    checkpoint : path, optional
        File that holds the state of the search. It is replaced as a whole after each batch. If it exists, the search
        continues from there and ends in the same table, bit for bit. With a checkpoint, Ctrl-C and SIGTERM stop the
        search after the current batches, with `SearchStopped`, a KeyboardInterrupt; a second one stops it at once.
    mesh : jax.sharding.Mesh, optional
        Devices among which to divide the templates, whatever the mesh's axes; see ``jax.make_mesh``. They belong to
        this process, where each batch is computed by the one that is free first, or, after
        ``jax.distributed.initialize()``, to several; then all processes must call `search` with the same arguments. All
        get the table, which does not depend on the mesh.
    progress : bool
        Whether to show the rate and the time left: a bar on terminals and in notebooks if tqdm is installed, and
        otherwise, as in the logs of batch jobs, a line now and then.
    batch_size : int, optional
        Number of templates computed at a time on each device. By default few on a CPU, so that they stay in its caches,
        and on an accelerator as many as fit into most of the free memory.
    per_detector : bool
        Whether to add 2F of each detector and, with several detectors, the line-robust statistic ``log10BSGL`` (see
        `linerobust.log10_bsgl`), by a sum over all data for each candidate, equal to `fstat`'s to 1e-7.
    amplitudes : bool, optional
        Whether to add estimates of the amplitude parameters and their errors, which cost nothing more with
        `per_detector`; by default the same as `per_detector`.
    fstar0 : float
        For ``log10BSGL``: the transition scale F*0, as ComputeFstatistic_v2's ``--Fstar0``; -inf compares a signal only
        with lines.
    olgx : sequence of float, optional
        For ``log10BSGL``: prior odds of a line in each detector, in the order of ``data.detectors``; equal by default.
    ranking : "F", "BSGL" or "BtSG"
        What the table is sorted by: 2F, or ``log10BSGL``, which needs several detectors and `per_detector`. The `top`
        candidates are the loudest in 2F in either case: use `bsgl_threshold` against lines that would fill the table.
        With `transient`, the largest 2F of the windows or, ``"BtSG"``, ``log10BtSG``, which `threshold` is then of.
    bsgl_threshold : float, optional
        Keep only candidates whose ``log10BSGL`` is at or above this, computed for every value of 2F on the device. It
        takes the transforms of each detector as well, and so three times the time with two; of the engines, the
        library can. The histogram and the loudest of each sub-band are still of all values.
    cluster : float, optional
        Of all candidates within this mismatch of a louder one, by the metric, keep only the loudest; see
        `clusters.clustered`. Then join what one signal explains: its side lobes, neighbours in other orbits; see
        `clusters.explained`; not so with segments. A value of 1 is usual. The column ``n_members`` counts the members
        of each cluster.
        Clusters form among the `top` candidates.
    unit : (int, int), optional
        Do only unit i of n, 1 <= i <= n, which is a range of batches. `merge` turns the tables of all units into the
        table of the whole search.
    bounds : mapping of str to (low, high), optional
        The ranges of parameters that were asked for, in Hz/s, ..., rad, s, or as Quantities. Lattices extend beyond
        theirs: a column ``outside`` then says which candidates lie outside. All are kept.
    engine : str, optional
        What computes 2F: ``"xla"``, which is XLA and runs everywhere, or ``"cuda"``, kernels for NVIDIA GPUs. By
        default the fastest one that the data's device can use. Tables of different engines agree to rounding. For data
        with segments only the sums of interpolating searches have kernels.
    lines : QTable, optional
        Known lines, from `read_lines`: a column ``line`` names those that each candidate crosses; see `flag_lines`.
    veto_lines : bool
        Whether to leave out, for each template, the frequency bins that `lines` affect: they are not counted and never
        become candidates, so that lines fill no table. Computed on the device, for each template from its own Doppler
        shifts, spin-down and orbit; of the engines, the library can.
    coherent_mismatch : float, optional
        Of data with segments: interpolate, with so large a mismatch between each template and the template of the
        segment's own lattice from which its value is read. None computes every segment at every template.
    track : int or array_like, optional
        Of data with segments: search for signals whose frequency wanders, by the best path through the segments of
        each template (the Viterbi algorithm). Log-probabilities of jumps from -w to w bins from one segment to the
        next, or w, for equal ones; see `viterbi` and the notes.
    amplitude : Amplitude, optional
        With `track`: use the log-likelihood of a signal with this h0, cosi and psi in place of 2F/2; see
        `log_likelihood_by_segment`.
    transient : TransientRange, optional
        Search for transient signals: over all its windows at each template and frequency; see the notes.

    Returns
    -------
    QTable
        One row per candidate, a pair of template and frequency, sorted by `ranking`; unless clustered, neighbours of a
        loud candidate are candidates too. Columns:

        - ``freq`` (Hz), ``f1dot`` (Hz/s), ... at the time ``meta["reftime"]``, ``alpha``, ``delta`` (rad), and with
          orbits ``asini``, ``period``, ``tp`` (s), ``ecc``, ``argp`` (rad);
        - ``twoF`` from `twoF_band`;
        - as asked for, ``twoF_H1``, ... as from `fstat`, ``log10BSGL``, and ``h0``, ``cosi``, ``psi``, ``phi0`` and
          their errors ``h0_error``, ...;
        - ``template``, the index into the bank; with `bounds`, ``outside``; with `lines`, ``line``.

        Meta: version, reftime, detectors, ephemeris, start (GPS s), tspan (s), parameters (those that the search
        varied: the frequency and those that differ among templates), n_templates, n_twoF (the number of values of 2F
        that were computed), engine, batch_size, device_bytes (the memory needed on the device), fmin, fmax, dfreq
        (Hz), tsft (s), n_sfts and sqrt_sx (1/sqrt(Hz), harmonic mean over SFTs) of each detector, top, threshold,
        ranking, bsgl_threshold, cluster, bounds, Fstar0, oLGX, false_alarm (the probability that the loudest value in
        noise alone is as loud, an upper bound because values are correlated), twoF_histogram (the number of values in
        bins of 2F that begin at twoF_edges, the last of which has no upper end), and loudest_per_subband. With `lines`
        also lines (detector, fmin, fmax and name of those that any template can cross) and veto_lines.

    Raises
    ------
    OSError
        If the checkpoint cannot be read or written.
    TypeError
        If `data`, `bank`, `mesh` or `checkpoint` is of the wrong kind.
    ValueError
        If an argument is out of range, a template does not fit the data, the engine cannot be used here, or a
        checkpoint is of another search, data set, bank, engine or version, or in use by another.
    SearchStopped
        If a search with a checkpoint is asked to stop.

    Notes
    -----
    For data with segments the columns are ``mean_twoF`` in place of ``twoF``, the mean over segments (Weave's
    ``mean2F``), ``mean_twoF_H1``, ... over the segments in which a detector has data, and ``log10BSGL`` of the sums
    over segments, with `fstar0` the transition scale of the sum (Weave's ``--lrs-Fstar0sc``). Amplitudes are those of
    `semicoherent_amplitude`. `threshold` is one of the mean. ``twoF_histogram`` and ``loudest_per_subband`` are of the
    mean too, ``twoF_edges`` such that bins are as wide as the noise requires, and values below the first edge are in
    the first bin; ``false_alarm`` is for sums with 4 degrees of freedom a segment. Meta has n_segments and
    segment_tspan, s.

    With a `coherent_mismatch` each segment's 2F is computed at the points of a coarser lattice only, and for each
    template of the bank read at the nearest of them, at the nearest frequency (Prix & Shaltev 2012, Phys. Rev. D 85,
    084010; Wette 2015, Phys. Rev. D 92, 082003; LALSuite's Weave). On average the losses of both lattices add. The
    nearest frequency costs each segment as much again as the spacing of frequencies does in any search. Some bins at
    the edges of the band cannot be summed: they do not count, so prepare the band a little wider. Candidates are the
    loudest of these sums, in the column ``mean_twoF_interpolated``. Their ``mean_twoF`` is computed exactly at their
    own parameters, and the table is sorted by it. Meta then has coherent_mismatch and n_coherent, the number of values
    of the segments' 2F that the sums are made of (Weave's ``NCOHTPL``), as planned for the whole search.

    With `track` there is at most one candidate for each template, its best path, and the columns are

    - ``freq`` and ``freq_start``, the path's last and first frequency, Hz, at the reference time: `track` with the
      template gives those of all segments;
    - ``log_likelihood`` of the path, which the table is sorted by and which `threshold` is of: the sum of 2F/2 along
      the path, or of the log-likelihoods of a known `amplitude`, and of the log-probabilities of its transitions;
    - ``score``, the Viterbi score, see `ViterbiPath`;
    - ``false_alarm``, the probability that the best path of one template is as likely in Gaussian noise, from
      `viterbi_null` at the sky position of the bank's first template; with a known `amplitude`, for which it depends on
      the position, NaN at others; that of meta is for all templates, as if they were at that position;
    - ``mean_twoF``, ``mean_twoF_H1``, ..., ``log10BSGL`` and amplitudes along the path, by exact sums.

    ``twoF_histogram`` and ``loudest_per_subband`` are of the log-likelihoods of the best paths that end at each
    frequency, times two and divided by the number of segments, and of the log-likelihoods themselves. (With a known
    `amplitude`, those of the histogram are less the log-probability of the likeliest jumps, and 4 is added, so that the
    noise is in the same bins if the amplitude is weak.) ``n_twoF`` counts pairs of template and last frequency; meta
    also has ``transitions`` and ``amplitude``, h0, cosi and psi or None.

    With `transient`, what is searched for each template and frequency is the largest 2F of all windows, or with
    `ranking` ``"BtSG"`` log10 B_tS/G (Prix, Giampanis & Messenger 2011, Phys. Rev. D 84, 023007). The sums over the
    slices of time between starts and ends of windows come from one short transform of the resampled series for each
    slice. Rectangular windows whose t0 and tau are at equal steps are differences of two such sums; others weight
    slices of about the range's `duration`, at a cost that grows with their number. The columns are

    - ``max_twoF_band`` or ``log10BtSG_band``, what the search found and `threshold` is of;
    - ``max_twoF``, ``t0``, ``tau``, ``log10BtSG``, ``t0_MP`` and ``tau_MP``, as from `fstat_table`: from the
      candidate's own atoms. The table is sorted by the first or the fourth;
    - ``twoF``, ``twoF_H1``, ..., ``log10BSGL`` and amplitudes, of a persistent signal in all data.

    The search cuts slices at the exact time and atoms at whole samples of the prepared series: the two differ by about
    a sample over the length of a window. ``twoF_histogram`` and ``loudest_per_subband`` are of ``max_twoF_band``, or of
    2 ln of the mean of exp(F) over the windows. ``false_alarm`` is for as many independent values as there are
    windows, templates and frequencies: an upper bound, far above the truth because windows overlap (see
    `transient_null`); None for ``"BtSG"``. Meta also has ``transient``.

    Examples
    --------
    >>> bank = jfstat.template_bank((2.0, 2.2, 0.1), 0.47, f1dot=[-1e-10], data=data)
    >>> found = jfstat.search(data, bank, top=3, progress=False)
    >>> found.colnames[:5], len(found)
    (['freq', 'f1dot', 'alpha', 'delta', 'twoF'], 3)
    """
    check_data(data, or_segments=True)
    searched = None if transient is None else transient_search(data, transient, ranking)
    if searched is not None:
        check_options_of_transients(track, coherent_mismatch, cluster, bsgl_threshold, engine)
        threshold = searched.threshold(checked_threshold(threshold))
    elif ranking == "BtSG":
        raise ValueError("ranking 'BtSG' needs transient: give a jfstat.TransientRange.")
    if track is not None:
        check_options_of_tracks(data, coherent_mismatch, ranking, engine, cluster, lines)
    elif amplitude is not None:
        raise ValueError("amplitude is for paths of a known signal: give track as well.")
    if data.n_segments is not None:
        check_options_of_segments(bsgl_threshold, veto_lines)
    if coherent_mismatch is not None:
        coherent_mismatch = checked_coherent_mismatch(data, bank, coherent_mismatch)
    if not isinstance(bank, Doppler) and hasattr(bank, "colnames"):
        bank = bank_from_table(bank)
    stack = stacked_bank(bank)
    check_all_fit(data, stack)
    check_mesh(mesh)
    if stack.model is not None and cluster is not None:
        raise ValueError("cluster does not know the templates' phase model: leave it out, and refine(..., merge=True).")
    cut = line_cut(data, per_detector, ranking, bsgl_threshold, fstar0, olgx)
    known = None if lines is None else lines_crossed(data, stack, lines)
    bands = vetoed_bands(data, stack, known, veto_lines)
    share = None if unit is None else Share.of(unit)
    tracks = None if track is None else Tracks.of(track, amplitude)
    work = Work(data, stack, Keep(top, threshold, cut, bands), share, coherent_mismatch, tracks, searched, {})
    batch_size = _checked_batch_size(batch_size)
    engine = engine_with_veto(engine, bands)
    if engine is not None and coherent_mismatch is None:  # refuses what is wrong before the search
        engine_for(data, engine, cut)
    elif engine is not None:
        sums_for(device_of(data), engine)
    details = wanted_details(
        per_detector, amplitudes, fstar0, olgx, ranking, cluster, bounds=bounds, lines=known, veto_lines=veto_lines
    )
    details.check(len(data.detectors))

    together = spans_processes(mesh)
    path = None if checkpoint is None else checkpoint_path(checkpoint)
    own = {} if path is None and unit is None else identity(work)
    stored = None if path is None else Checkpoint(path, own, together)
    with nullcontext() if stored is None else stored.in_use(), compiling_columns(work, details) as later:
        plan, state = _planned_and_searched(work, stored, batch_size, engine, mesh, progress, later)
    return result_table(work, plan, state, details, own)


def _planned_and_searched(
    work: Work,
    stored: Checkpoint | None,
    batch_size: int | None,
    engine: str | None,
    mesh: Mesh | None,
    progress: bool,
    later: Thread | None,
) -> tuple[SearchPlan, State]:
    """The plan of the search, that of the checkpoint if there is one, and what all batches contain.

    The thread `later`, of `compiling_columns`, is started when the search's program is traced.

    Raises
    ------
    ValueError
        If the checkpoint is of another search, or the device's memory does not suffice.
    """
    data, stack, together = work.data, work.stack, spans_processes(mesh)
    resumed = None if stored is None else stored.resumed(stack, batch_size, engine)
    if resumed is None:
        if work.coherent_mismatch is None:
            own_plan = search_plan(
                data,
                stack,
                batch_size,
                engine=engine,
                lines=work.keep.lines,
                track=work.track,
                transient=work.transient,
            )
        else:
            own_plan = interpolation_plan(work, batch_size, engine)
        resumed = NOTHING_FOUND, agreed_plan(work, own_plan, together)
    state, plan = resumed
    while True:
        try:
            return plan, _searched(work, plan, state, stored, mesh, progress, later)
        except DeviceFull as full:
            if batch_size is not None or together or plan.batch_size == 1 or (stored and full.done):
                kept = f" {full.done} batches are kept in {str(stored.path)!r};" if stored else ""
                raise ValueError(
                    f"{plan.batch_size} template(s) at a time exhaust the device's memory, of which others may hold a "
                    f"part:{kept} free some, give a smaller batch_size or prepare a narrower band."
                ) from full
        # other programs may use the device too: try half as many templates at a time. Start again, because results
        # depend on the batch size to the last bit
        state, plan = NOTHING_FOUND, plan._replace(batch_size=plan.batch_size // 2)


class DeviceFull(Exception):
    """The device's memory was exhausted after `done` batches."""

    def __init__(self, done: int):
        super().__init__(done)
        self.done = done


def _searched(
    work: Work,
    plan: SearchPlan,
    state: State,
    stored: Checkpoint | None,
    mesh: Mesh | None,
    progress: bool,
    later: Thread | None,
) -> State:
    """What all batches of the work contain, given the state after the first `state.done` of them.

    Raises
    ------
    DeviceFull
        If the device's memory does not suffice.
    """
    first, last = work.jobs(plan.n_jobs)
    sizes = np.tile(plan.batches[:, 1], len(plan.bands))[first:last]
    jobs = range(first + state.done, last)
    show = bool(progress) and (is_first() or not spans_processes(mesh))
    bar = progress_bar(int(sizes.sum()), show, "search", "templates", int(sizes[: state.done].sum()))
    pace, failure = Pace(state.n_twoF), None
    with stop_requests(stored is not None) as request, bar as advance:
        try:
            for found, stop in steps(work, plan, jobs, mesh, lambda: request.signal, later):
                n_templates = int(sizes[state.done : state.done + found.done].sum())
                state = state.joined(found, work.keep)
                advance(n_templates, _note(state, pace))
                ended = state.done == len(sizes)
                if stored is not None and failure is None and (ended or stop or pace.due()):
                    with pace.writing():
                        failure = stored.written(state, plan)
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


def _stopped(number: int, done: int, total: int, stored: Checkpoint | None) -> BaseException:
    """The exception that ends a search that was asked to stop."""
    if number == FAILED:
        return OSError("another process could not write the checkpoint: see its message.")
    kept = "" if stored is None else f", kept in {str(stored.path)!r}"
    return SearchStopped(
        f"search stopped after {done} of {total} batches{kept}: the same call goes on from there.", number
    )


def _note(state: State, pace: Pace) -> str:
    """What the progress bar shows beside the time left."""
    loudest = f", loudest {state.peaks.twoF[0]:.1f}" if len(state.peaks.twoF) else ""
    return f"{pace.rate(state.n_twoF):.2e} 2F/s{loudest}"


def _checked_batch_size(batch_size: int | None) -> int | None:
    if batch_size is not None and (not is_whole(batch_size) or not 1 <= batch_size <= MOST_TOGETHER):
        raise ValueError(
            f"batch_size must be a whole number from 1 to {MOST_TOGETHER}, not {shown(batch_size)}, or None."
        )
    return None if batch_size is None else int(batch_size)


def wanted_details(
    per_detector: bool,
    amplitudes: bool | None,
    fstar0: float,
    olgx: Sequence[float] | None,
    ranking: str,
    cluster: float | None,
    *,
    bounds: Mapping[str, tuple[NumberLike, NumberLike]] | None = None,
    lines: QTable | None = None,
    veto_lines: bool = False,
) -> Details:
    """What these arguments of `search` ask to compute for each candidate; `lines` are from `lines_crossed`.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    return Details(
        bool(per_detector),
        bool(per_detector if amplitudes is None else amplitudes),
        *plain_odds(fstar0, olgx),
        _checked_cluster(cluster),
        checked_bounds(bounds),
        ranking,
        lines,
        bool(veto_lines),
    )


def line_cut(
    data: FstatData | NarrowData,
    per_detector: bool,
    ranking: str,
    bsgl_threshold: float | None,
    fstar0: float,
    olgx: Sequence[float] | None,
) -> LineCut | None:
    """The cut by the line-robust statistic that these arguments of `search` ask for; they are checked.

    Raises
    ------
    ValueError
        If one is out of range, or a ranking by log10BSGL is impossible.
    """
    if ranking not in RANKINGS:
        raise ValueError(f"ranking must be one of {', '.join(map(repr, RANKINGS))}, not {ranking!r}.")
    if ranking == "BSGL" and (not per_detector or len(data.detectors) < 2):
        raise ValueError("ranking 'BSGL' needs several detectors and per_detector: log10BSGL compares them.")
    if bsgl_threshold is None:
        return None
    if not is_number(bsgl_threshold):
        raise ValueError(f"bsgl_threshold must be a finite number or None, not {bsgl_threshold!r}.")
    odds = checked_odds(len(data.detectors), fstar0, olgx)
    return LineCut(float(bsgl_threshold), plain_fstar0(fstar0), odds)


def checked_coherent_mismatch(data: FstatData, bank: object, value: float) -> float:
    """The mismatch of the segments' lattices as a float.

    Raises
    ------
    ValueError
        If it is out of range, the data have no segments, or the templates have an orbit, a motion or a phase model.
    """
    if data.n_segments is None:
        raise ValueError("coherent_mismatch is for data with segments: leave it out, or prepare with segments=.")
    if not (is_number(value) and 0 < value < 1):
        raise ValueError(f"coherent_mismatch must be a number between 0 and 1, not {value!r}, or None: try 0.1.")
    if isinstance(bank, Doppler) and not (bank.orbit is None and bank.motion is None and bank.model is None):
        raise ValueError(
            "coherent_mismatch is for isolated sources at rest: leave it out for templates with an orbit, a proper "
            "motion or a phase model."
        )
    return float(value)


def check_options_of_segments(bsgl_threshold: float | None, veto_lines: bool) -> None:
    """Raise a ValueError for options of `search` that data with segments do not have."""
    for name, given in {"bsgl_threshold": bsgl_threshold is not None, "veto_lines": veto_lines}.items():
        if given:
            raise ValueError(f"{name} is for data without segments: leave it out.")


def check_options_of_tracks(
    data: FstatData,
    coherent_mismatch: float | None,
    ranking: str,
    engine: str | None,
    cluster: float | None,
    lines: object,
) -> None:
    """Raise a ValueError for data without segments, and for options of `search` that do not go with tracks."""
    if data.n_segments is None:
        raise ValueError("track is for data with segments: prepare with segments=.")
    if coherent_mismatch is not None:
        raise ValueError("track and coherent_mismatch do not go together: leave one out.")
    for name, value in {"cluster": cluster, "lines": lines}.items():
        if value is not None:
            raise ValueError(f"{name} does not go with track, whose frequencies wander: leave it out.")
    if ranking != "F":
        raise ValueError(f"ranking {ranking!r} does not go with track, whose table is sorted by log_likelihood.")
    if engine not in (None, "xla"):
        raise ValueError(f"engine {engine!r} cannot track: use the engine 'xla', or None.")


def transient_search(data: FstatData, transient: object, ranking: str) -> TransientSearch:
    """What these arguments of `search` ask for.

    Raises
    ------
    TypeError
        If `transient` is no range of windows.
    ValueError
        If the data have segments, no window holds any data, or the ranking is another.
    """
    if not isinstance(transient, TransientRange):
        raise TypeError(f"transient must be a jfstat.TransientRange or None, not {shown(transient)}.")
    if data.n_segments is not None:
        raise ValueError("transient is for data without segments: prepare without segments=.")
    if ranking not in ("F", "BtSG"):
        raise ValueError(f"ranking {ranking!r} does not go with transient: give 'F' or 'BtSG'.")
    start, end = data.observation.ends
    t0 = np.asarray(transient.t0)
    if not np.any((t0 < end) & (t0 + transient.end * np.asarray(transient.tau).max() > start)):
        raise ValueError(f"transient has no window within the data, from GPS {start:.0f} to {end:.0f} s.")
    return TransientSearch(transient, ranking == "BtSG")


def check_options_of_transients(
    track: object, coherent_mismatch: object, cluster: object, bsgl_threshold: object, engine: str | None
) -> None:
    """Raise a ValueError for options of `search` that do not go with transient signals."""
    given = {"track": track, "coherent_mismatch": coherent_mismatch, "cluster": cluster}
    for name, value in {**given, "bsgl_threshold": bsgl_threshold}.items():
        if value is not None:
            raise ValueError(f"transient and {name} do not go together: leave one out.")
    if engine not in (None, "xla"):
        raise ValueError(f"engine {engine!r} cannot search for transients: use the engine 'xla', or None.")


def lines_crossed(data: FstatData, stack: Doppler, lines: object) -> QTable:
    """Those of a user's lines that could affect any template of a stack in the band of the data.

    Raises
    ------
    TypeError, ValueError
        As `checked_lines`.
    """
    low = float(data.fmin)
    high = low + (data.layout.n_frequencies - 1) * float(data.dfreq)
    return lines_near(checked_lines(lines), data.observation, stack, low, high)


def vetoed_bands(data: FstatData, stack: Doppler, known: QTable | None, veto_lines: bool) -> LineBands | None:
    """The bands of lines that are vetoed; None if there are none.

    Raises
    ------
    ValueError
        If lines are to be vetoed and none were given.
    """
    if not veto_lines:
        return None
    if known is None:
        raise ValueError("veto_lines needs lines: give a table from jfstat.read_lines.")
    return line_bands(known, data.observation, stack) if len(known) else None


def engine_with_veto(engine: str | None, bands: LineBands | None) -> str | None:
    """The engine that was asked for, or the library if lines are vetoed, which no other can.

    Raises
    ------
    ValueError
        If another one was asked for.
    """
    if bands is None:
        return engine
    if engine not in (None, "xla"):
        raise ValueError(f"engine {engine!r} cannot veto lines: use the engine 'xla', or None.")
    return "xla"


def _checked_cluster(cluster: float | None) -> float | None:
    if cluster is not None and not (is_number(cluster) and cluster > 0):
        raise ValueError(f"cluster must be a positive number or None, not {cluster!r}: give a mismatch, such as 1.")
    return None if cluster is None else float(cluster)
