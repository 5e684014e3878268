"""`jfstat search`: SFT files searched with a bank of templates, to a file of candidates."""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.lineveto import line_veto
from jfstat.candidates.schema import column_of
from jfstat.candidates.tables import AnyTable
from jfstat.commandline.banks import EXACT_POINTS, add_templates, band_edges, templates_of
from jfstat.commandline.inputs import add_data_files, add_lines, known_lines, read_band
from jfstat.commandline.options import (
    add_preparation,
    ephemeris,
    noise,
    number,
    numbers,
    option_type,
    reference_time,
)
from jfstat.commandline.points import bank_table, check_points, point_table
from jfstat.commandline.pulsars import add_pulsars, run_pulsars
from jfstat.commandline.segments import add_segments, given_segments, segments_option
from jfstat.commandline.single import template_data
from jfstat.commandline.tracks import loudest_track, tracks_of
from jfstat.commandline.transients import (
    add_transients,
    check_transients,
    points_of_bank,
    transient_range,
    wants_windows,
)
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import observation
from jfstat.data.prepare import prepare
from jfstat.data.segments import segment_observations
from jfstat.engines.choice import NAMES
from jfstat.geometry.doppler import largest_doppler_speed
from jfstat.io.candidates import check_writable, write_candidates
from jfstat.io.lal.loudest import write_loudest
from jfstat.io.lal.transients import write_stats
from jfstat.searching.driver.cost import estimated_seconds
from jfstat.searching.driver.interpolation import interpolation_plan, largest_shift
from jfstat.searching.driver.plan import search_plan
from jfstat.searching.driver.work import Share, Work, stacked_bank
from jfstat.searching.reduce.keep import Keep
from jfstat.searching.search import (
    RANKINGS,
    engine_with_veto,
    line_cut,
    lines_crossed,
    search,
    transient_search,
    vetoed_bands,
)
from jfstat.searching.session.processes import first_does, is_first
from jfstat.searching.single import lines_at_template, search_template

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from astropy.table import QTable

    from jfstat.commandline.banks import Templates
    from jfstat.commandline.options import OptionGroup, Subparsers
    from jfstat.data.fstatdata import FstatData
    from jfstat.data.observation import Observation
    from jfstat.data.segments import SegmentsLike
    from jfstat.signal.times import TimeLike

    Say: TypeAlias = Callable[[object], None]


@option_type("a unit of work: give 3/64 for the third of 64")
def _unit(word: str) -> tuple[int, int]:
    """(i, n) from i/n."""
    found = re.fullmatch(r"(\d+)/(\d+)", word)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError
    return int(found[1]), int(found[2])


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "search",
        help="search SFT files for signals over a band and a bank of templates",
        description="Search SFT files over a frequency band and a bank of templates: a flat grid, a metric lattice or "
        "a table; print and write the loudest candidates. Or, by --gridType=6, compute 2F and amplitudes at exactly "
        "the points of a file. Options are named as ComputeFstatistic_v2's. Frequencies are spaced by 1/(2T), T being "
        "the data's span, and spin-downs of flat grids by 1/(2T^2), 1/(2T^3), ... unless a step is given.",
    )
    data = parser.add_argument_group("data")
    add_data_files(data)
    add_preparation(data)
    _add_segments(data)
    bank = parser.add_argument_group("templates: each parameter from its value to value + band, which may be negative")
    bank.add_argument(
        "--Freq", "-f", type=number, metavar="HZ", help="lowest frequency, Hz; needed unless files hold the templates"
    )
    bank.add_argument(
        "--FreqBand", "-b", type=number, default=0.0, metavar="HZ", help="frequency band, Hz (default 0: one frequency)"
    )
    add_pulsars(bank)
    bank.add_argument(
        "--dFreq",
        "-r",
        type=number,
        metavar="HZ",
        help="spacing of the frequencies, Hz: finer ones cost more in proportion (default 1/(2T))",
    )
    add_reference_time(bank)
    add_templates(bank)
    add_transients(parser.add_argument_group("transient signals, at each template and frequency"))
    _add_output(parser.add_argument_group("output"))
    add_work(parser.add_argument_group("the work and its division"))
    parser.set_defaults(run=partial(run, parser), jumps=None)


def _add_segments(data: OptionGroup) -> None:
    """Add the options of a semi-coherent search."""
    add_segments(data)
    data.add_argument(
        "--cohMaxMismatch",
        type=number,
        metavar="M",
        help="with segments: read each segment's 2F from a lattice of its own with this mismatch, no unit, as Weave's "
        "--coh-max-mismatch (default: compute every segment at every template)",
    )


def _segments(arguments: argparse.Namespace) -> SegmentsLike | None:
    """The segments that the options ask for, as `prepare` takes them."""
    given = given_segments(arguments)
    if given is None and arguments.cohMaxMismatch is not None:
        raise ValueError("--cohMaxMismatch goes with --segments, --segmentDuration or --segmentList: give one.")
    if given is not None and arguments.vetoLines:
        raise ValueError("--vetoLines is for searches without segments: --linefiles alone names what candidates cross.")
    if given is not None and arguments.BSGLthreshold is not None:
        raise ValueError("--BSGLthreshold is for searches without segments: --RankingStatistic=BSGL sorts by it.")
    if given is not None and wants_windows(arguments):
        own = segments_option(arguments)
        raise ValueError(f"{own} does not go with --transient-WindowType: leave one of them out.")
    if given is not None and arguments.lineVeto:
        raise ValueError("--lineVeto is for searches of all data at once: leave it out, or the segments.")
    return given


def _add_output(out: OptionGroup) -> None:
    """Add the options for what is kept, and how it is sorted and written."""
    out.add_argument(
        "--outputFstat",
        metavar="FILE",
        help="candidates: .ecsv, .hdf5, or anything else for ComputeFstatistic_v2's text format",
    )
    out.add_argument(
        "--outputLoudest",
        metavar="FILE",
        help="the first candidate of the table with Fa, Fb, the antenna matrix, amplitudes, their errors and Fisher "
        "matrix, as lines 'name = value;' in ComputeFstatistic_v2's format",
    )
    out.add_argument(
        "--NumCandidatesToKeep",
        type=int,
        metavar="N",
        help="keep at most this many, the loudest (default 1000, or all above --TwoFthreshold; 0: all above it)",
    )
    out.add_argument("--TwoFthreshold", "-F", type=number, metavar="2F", help="keep only 2F at or above this, no unit")
    out.add_argument(
        "--cluster",
        type=number,
        metavar="M",
        help="keep only the loudest of candidates within this mismatch of it by the metric, no unit, such as 1, and of "
        "those that one signal explains",
    )
    add_odds(out)
    out.add_argument(
        "--RankingStatistic",
        choices=RANKINGS,
        default="F",
        help="what the candidates, the loudest in 2F in either case, are sorted by: 2F or log10BSGL (default F); use "
        "--BSGLthreshold to keep lines from filling the table; BtSG, with --transient-WindowType: search for the "
        "largest log10 B_tS/G, which --TwoFthreshold is then of, instead of the largest 2F of a window",
    )
    out.add_argument(
        "--BSGLthreshold",
        type=number,
        metavar="LOG10B",
        help="keep only candidates with log10BSGL at or above this, no unit: lines in one detector fill no table then",
    )
    add_lines(out)
    out.add_argument(
        "--vetoLines",
        action="store_true",
        help="leave out, for each template, the frequencies that --linefiles affect: they never become candidates",
    )
    out.add_argument(
        "--lineVeto",
        action="store_true",
        help="add a column line_veto: the detectors whose 2F alone is larger than that of all, and DM-off if 2F is "
        "larger with the Doppler modulation switched off, for each candidate",
    )
    add_no_details(out, "candidate")


def add_reference_time(bank: OptionGroup) -> None:
    """Add the option for the time at which the templates hold."""
    bank.add_argument(
        "--refTime",
        type=reference_time,
        metavar="GPS",
        help="reference time of frequency and spin-down in the SSB, GPS s or UTC (default: data start)",
    )


def add_odds(out: OptionGroup) -> None:
    """Add the options of log10BSGL."""
    out.add_argument(
        "--Fstar0", type=number, default=0.0, metavar="F", help="log10BSGL: the transition scale, no unit (default 0)"
    )
    out.add_argument(
        "--oLGX", type=numbers, metavar="X,...", help="log10BSGL: prior line odds of each detector (default: equal)"
    )


def add_no_details(out: OptionGroup, what: str) -> None:
    """Add the option to leave out what is computed for each candidate, of this kind, apart."""
    out.add_argument(
        "--noDetails",
        action="store_true",
        help=f"leave out what is computed for each {what} apart: each detector's own 2F, log10BSGL, amplitudes",
    )


def add_work(work: OptionGroup, engines: bool = True) -> None:
    """Add the options for the division of the work, and for stopping and going on."""
    work.add_argument(
        "--countTemplates",
        action="store_true",
        help="count the templates, time some of them, print what the search would cost, and stop",
    )
    work.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the state of the search here after each batch, and go on from it if it is there; Ctrl-C and SIGTERM "
        "then stop after the batch, with exit status 128 + signal",
    )
    work.add_argument(
        "--unit", type=_unit, metavar="I/N", help="do the I-th of N parts of the work; jfstat merge joins their files"
    )
    work.add_argument("--batchSize", type=int, metavar="N", help="templates at a time on a device (default: by memory)")
    if engines:
        work.add_argument(
            "--engine",
            choices=NAMES,
            help="what computes 2F: library runs everywhere, cuda on NVIDIA GPUs (default: the fastest that is usable)",
        )
    work.add_argument(
        "--devices", type=int, metavar="N", help="divide the work among the first N devices of this machine; 0: all"
    )
    work.add_argument(
        "--distributed",
        action="store_true",
        help="divide it among the devices of all processes, which run this same command: as found by JAX under Slurm "
        "and MPI, or as told by the next three",
    )
    work.add_argument("--coordinator", metavar="HOST:PORT", help="address of the first process")
    work.add_argument("--numProcesses", type=int, metavar="N", help="number of processes")
    work.add_argument("--processId", type=int, metavar="I", help="which of them this is, from 0")


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Read, prepare and search; write the table and print the loudest candidate."""
    given = [name for name, value in vars(arguments).items() if value != parser.get_default(name)]
    if arguments.par is not None:
        run_pulsars(arguments, given)
        return
    if arguments.gridType == EXACT_POINTS:
        _run_points(arguments, given)
        return
    if arguments.Freq is None:
        raise ValueError(
            "--Freq is missing: give the lowest frequency in Hz, points of a file by --gridType=6, or pulsars by --par."
        )
    fmin, fmax = band_edges(arguments.Freq, arguments.FreqBand)
    if not fmin > 0:
        raise ValueError(f"--Freq must be positive, and the band too, not {fmin:g}: give frequencies in Hz.")
    if arguments.unit is not None and not str(arguments.outputFstat).endswith((".ecsv", ".hdf5", ".h5")):
        raise ValueError("--unit needs --outputFstat with .ecsv or .hdf5: jfstat merge reads these.")
    if arguments.unit is not None and arguments.distributed:
        raise ValueError("--unit and --distributed are two ways to divide the work: give one.")
    keep = _keep(arguments)
    if arguments.vetoLines and arguments.linefiles is None:
        raise ValueError("--vetoLines needs --linefiles: name the lists of lines.")
    segments = _segments(arguments)
    lines = known_lines(arguments.linefiles)
    mesh = _mesh(arguments)  # before JAX computes anything
    arguments.track = tracks_of(arguments)
    templates = templates_of(arguments)
    # fail now rather than after the search
    outputs = (arguments.outputFstat, arguments.outputLoudest, arguments.track and arguments.outputTrack)
    for file in filter(None, outputs):
        first_does(lambda file=file: check_writable(file), arguments.distributed)
    say = print if is_first() else lambda words: None
    reftime = arguments.refTime
    if templates.table is not None and templates.table.reftime is not None:
        own = templates.table.reftime.common
        if reftime is not None and own != reftime:
            raise ValueError(f"--refTime is {reftime} and --gridFile's {own.plain}: leave --refTime out.")
        reftime = own
    if arguments.track is None:
        check_transients(arguments, given)
        alone = fmin == fmax and not any(name in NO_TRANSIENTS for name in given)
        if arguments.outputFstatAtoms is not None or (wants_windows(arguments) and alone):
            _run_transients(arguments, given, templates, (fmin, fmax), reftime)
            return
    several = segments is not None or arguments.track is not None or wants_windows(arguments) or arguments.lineVeto
    narrow = None if several else template_data(arguments, given, templates, reftime)
    if narrow is not None:
        found, data, seconds = _at_one_template(arguments, keep, lines, say, *narrow)
    else:
        done = _over_a_band(arguments, (fmin, fmax), templates, reftime, keep, lines, mesh, say, segments)
        if done is None:
            return
        found, data, seconds = done
    if not is_first():
        return
    if arguments.lineVeto and not isinstance(data, NarrowData):
        vetoed: Any = line_veto(data, found)
        found = vetoed
    said = []  # files first: nothing that is printed may stand in their way
    if arguments.outputFstat is not None:
        said.append(f"wrote {len(found)} candidates to {write_candidates(found, arguments.outputFstat)}")
    if arguments.outputLoudest is not None:
        said.append(f"wrote the first to {write_loudest(data, found, arguments.outputLoudest)}")
    if arguments.track is not None and arguments.outputTrack is not None and len(found):
        path = write_candidates(loudest_track(data, found, arguments.track), arguments.outputTrack)
        said.append(f"wrote the path of the first to {path}")
    if arguments.outputTransientStats is not None:
        said.append(f"wrote their windows to {write_stats(found, arguments.outputTransientStats)}")
    print(f"{found.meta['n_twoF']} values of 2F for {found.meta['n_templates']} template(s) in {seconds:.1f} s")
    print_loudest(found)
    for line in said:
        print(line)


def _at_one_template(
    arguments: argparse.Namespace, keep: Keep, lines: QTable | None, say: Say, data: NarrowData, text: str
) -> tuple[Any, NarrowData, float]:
    """The candidate of narrow data, these data, and the seconds that it took."""
    _say_noise(say, text, data.observation)
    if lines is not None:
        lines = lines_at_template(data, lines)
        _say_lines(say, lines)
    began = time.perf_counter()
    found: Any = search_template(data, keep.top, keep.threshold, lines=lines, **_details(arguments))
    _say_work(say, 1, 1, found.meta["device_bytes"], 1)
    return found, data, time.perf_counter() - began


def _over_a_band(
    arguments: argparse.Namespace,
    band: tuple[float, float],
    templates: Templates,
    reftime: TimeLike | None,
    keep: Keep,
    lines: QTable | None,
    mesh: Mesh | None,
    say: Say,
    segments: SegmentsLike | None,
) -> tuple[Any, FstatData, float] | None:
    """The candidates of a band, its data, and the seconds that the search took; None if templates are only counted."""
    fmin, fmax = band
    sfts = read_band(arguments, fmin, fmax, arguments.guard, templates.extremes, templates.fdots, reftime)
    floors, tables, fdots = noise(arguments), ephemeris(arguments), templates.fdots
    bank, orbit = None, templates.extremes
    if templates.mismatch is not None:
        # the lattice first: it extends beyond its ranges by up to a cell, and the band must be prepared for that
        how: Any = dict(sqrt_sx=floors, reftime=reftime, ephemeris=tables, fmin=fmin, fmax=fmax)
        observed = observation(sfts, **how) if segments is None else segment_observations(sfts, segments, **how)
        bank = templates.bank(observed, (fmin, fmax))
        fdots = [(float(x.min()), float(x.max())) for x in np.asarray(bank.fkdot)[:, 1:].T]
        if bank.orbit is not None and largest_doppler_speed(bank.orbit) > largest_doppler_speed(orbit):
            orbit = bank.orbit
            sfts = read_band(arguments, fmin, fmax, arguments.guard, orbit, fdots, reftime, sfts)
        orbit = bank.orbit
        if arguments.cohMaxMismatch is not None:
            # values at the edges are read from beyond them
            own = stacked_bank(bank)
            reference = observed.reftime.common if own.reftime is None else own.reftime.common
            margin = largest_shift(observed, own, reference, fmax, arguments.cohMaxMismatch)
            fmin, fmax = fmin - margin, fmax + margin
            sfts = read_band(arguments, fmin, fmax, arguments.guard, orbit, fdots, reftime, sfts)
    data = prepare(
        sfts,
        fmin,
        fmax,
        reftime,
        floors,
        tables,
        arguments.guard,
        orbit=orbit,
        fdots=fdots,
        dfreq=arguments.dFreq,
        segments=segments,
    )
    bank = templates.bank(data) if bank is None else bank
    del sfts  # prepared data are all that is needed; SFTs may fill the memory
    _say_noise(say, data, data.observation)
    track = arguments.track
    choice = (arguments.RankingStatistic, arguments.BSGLthreshold, arguments.Fstar0, arguments.oLGX)
    keep = replace(keep, lines=line_cut(data, not arguments.noDetails, *choice))
    if lines is not None:
        stack = stacked_bank(bank)
        lines = lines_crossed(data, stack, lines)
        _say_lines(say, lines)
        keep = replace(keep, bands=vetoed_bands(data, stack, lines, arguments.vetoLines))
    engine = engine_with_veto(arguments.engine, keep.bands)
    share = None if arguments.unit is None else Share.of(arguments.unit)
    windows = transient_range(arguments, data)
    searched = None if windows is None else transient_search(data, windows, arguments.RankingStatistic)
    wanted = keep if searched is None else replace(keep, threshold=searched.threshold(keep.threshold))
    work = Work(data, stacked_bank(bank), wanted, share, arguments.cohMaxMismatch, track, searched)
    if arguments.cohMaxMismatch is None:
        plan = search_plan(
            data, bank, arguments.batchSize, engine=engine, lines=keep.lines, track=track, transient=searched
        )
    else:
        plan = interpolation_plan(work, arguments.batchSize, engine)
        n_coherent = plan.n_coherent or 0
        ratio = len(work.stack.alpha) * (data.n_segments or 1) / n_coherent
        say(f"{n_coherent} template(s) of the segments; the bank has {ratio:.1f} times as many as a segment")
    parts = "" if len(plan.bands) == 1 else f", the band in {len(plan.bands)} parts"
    n = len(np.asarray(bank.alpha))
    _say_work(say, n, n * data.layout.n_frequencies, plan.device_bytes, plan.batch_size, parts)
    if arguments.countTemplates:
        seconds = estimated_seconds(work, plan, not arguments.noDetails)
        say(f"would take {seconds:.3g} s ({seconds / 3600:.3g} h) on one {jax.devices()[0].device_kind} device")
        return None
    began = time.perf_counter()
    found: Any = search(
        data,
        bank,
        keep.top,
        keep.threshold,
        arguments.checkpoint,
        mesh,
        True,
        batch_size=arguments.batchSize,
        unit=arguments.unit,
        bounds=templates.bounds,
        engine=engine,
        lines=lines,
        veto_lines=arguments.vetoLines,
        coherent_mismatch=arguments.cohMaxMismatch,
        track=None if track is None else track.transitions,
        amplitude=None if track is None else track.known,
        transient=windows,
        **_details(arguments),
    )
    return found, data, time.perf_counter() - began


def _details(arguments: argparse.Namespace) -> dict[str, Any]:
    """What to compute for each candidate, and how to sort them, as `search` takes it."""
    return dict(
        per_detector=not arguments.noDetails,
        fstar0=arguments.Fstar0,
        olgx=arguments.oLGX,
        ranking=arguments.RankingStatistic,
        bsgl_threshold=arguments.BSGLthreshold,
        cluster=arguments.cluster,
    )


def _say_noise(say: Say, data: object, observed: Observation) -> None:
    """Describe the data and their noise floors."""
    say(data)
    noise = zip(observed.detectors, observed.mean_sqrt_sx, strict=True)
    say("noise floor " + ", ".join(f"{name} {floor:.3g}" for name, floor in noise) + " /sqrt(Hz)")


def _say_lines(say: Say, lines: QTable) -> None:
    say(f"{len(lines)} known line(s) in the band and its Doppler shifts")


def _say_work(say: Say, n: int, n_values: int, n_bytes: int, batch_size: int, parts: str = "") -> None:
    """Say how many templates and values of 2F there are, and what the search needs."""
    say(f"{n} template(s), {n_values:.3e} values of 2F")
    say(f"needs {n_bytes / 1e9:.2f} GB of memory, {batch_size} template(s) at a time{parts}")


NO_TRANSIENTS = (
    *("segments", "segmentDuration", "segmentList", "cohMaxMismatch", "metricMismatch", "skyRegion", "skyRadius"),
    *(
        "strictSpindownBounds",
        "outputLoudest",
        "cluster",
        "lineVeto",
        "RankingStatistic",
        "BSGLthreshold",
        "linefiles",
        "vetoLines",
    ),
    *("noDetails", "countTemplates", "checkpoint", "unit", "batchSize", "engine", "devices", "distributed"),
    *("coordinator", "numProcesses", "processId"),
)
"""Options of searches over a band that mean nothing if every point is computed by itself."""


def _run_transients(
    arguments: argparse.Namespace,
    given: list[str],
    templates: Templates,
    band: tuple[float, float],
    reftime: TimeLike | None,
) -> None:
    """Compute the windows or atoms of all templates at all frequencies; write the tables, and print the loudest."""
    refused = next((name for name in given if name in NO_TRANSIENTS), None)
    if refused is not None:
        which = "--transient-WindowType" if wants_windows(arguments) else "--outputFstatAtoms"
        raise ValueError(f"--{refused} does not go with {which}, which computes every point by itself: leave it out.")
    keep = _keep(arguments)
    began = time.perf_counter()
    found = bank_table(arguments, points_of_bank(arguments, templates, band, reftime), keep.top)
    _write_points(arguments, found, began, "candidates")


def _write_points(arguments: argparse.Namespace, found: Any, began: float, what: str) -> None:
    """Write the tables of points, then say what was found."""
    said = []
    if arguments.outputFstat is not None:
        said.append(f"wrote {len(found)} {what} to {write_candidates(found, arguments.outputFstat)}")
    if arguments.outputTransientStats is not None:
        said.append(f"wrote their windows to {write_stats(found, arguments.outputTransientStats)}")
    print(f"{found.meta['n_twoF']} values of 2F in {time.perf_counter() - began:.1f} s")
    column = "max_twoF" if "max_twoF" in found.colnames else "twoF"
    loudest = int(np.argmax(found[column])) if len(found) else 0
    print_loudest(found[loudest : loudest + 1], len(found))
    for line in said:
        print(line)


def _run_points(arguments: argparse.Namespace, given: list[str]) -> None:
    """Compute points of a file; write the table, in the order of the file, and print the loudest."""
    check_points(arguments, given)
    if arguments.outputFstat is not None:
        check_writable(arguments.outputFstat)
    began = time.perf_counter()
    found = point_table(arguments)
    if found is None:
        return
    _write_points(arguments, found, began, "points")


def _keep(arguments: argparse.Namespace) -> Keep:
    """Which candidates to keep."""
    top, threshold = arguments.NumCandidatesToKeep, arguments.TwoFthreshold
    if top == 0 and threshold is None:
        raise ValueError("--NumCandidatesToKeep 0 keeps all at or above --TwoFthreshold: give that as well.")
    return Keep(1000 if top is None and threshold is None else top or None, threshold)


def print_loudest(found: AnyTable, total: int | None = None) -> None:
    """Print the first candidate, each parameter on a line with its unit, and the false-alarm probability.

    `total` is the number of candidates, if the table does not hold all.
    """
    meta = found.meta
    if len(found) == 0:
        value = "log-likelihood" if "transitions" in meta else "2F"
        cuts = {value: meta.get("threshold"), "log10BSGL": meta.get("bsgl_threshold")}
        listed = " and ".join(f"{name} >= {least:g}" for name, least in cuts.items() if least is not None)
        print(f"no candidate with {listed}" if listed else "no candidate")
        return
    first = "highest log10BSGL" if meta.get("ranking") == "BSGL" else "loudest"
    number = len(found) if total is None else total
    print(f"{first} of {number} candidates, at reference time GPS {meta['reftime']}:")
    for name in (
        x
        for x in found.colnames
        if x not in ("outside", "line", "line_veto") and found[x].dtype.kind in "fiu" and found[x].ndim == 1
    ):
        print(f"  {name:8s} {column_of(name).text(found[name][0])}")
    if "line" in found.colnames:
        n_crossing = int(np.sum(np.asarray(found["line"]) != ""))
        print(f"  crosses {found['line'][0] or 'no known line'}; {n_crossing} of {len(found)} cross a known line")
    if "line_veto" in found.colnames:
        n_vetoed = int(np.sum(np.asarray(found["line_veto"]) != ""))
        print(f"  line veto: {found['line_veto'][0] or 'none'}; {n_vetoed} of {len(found)} are vetoed")
    if "outside" in found.colnames:
        print(
            f"  {int(np.sum(found['outside']))} of {len(found)} lie outside the ranges of {', '.join(meta['bounds'])}"
            ", as templates at their edges may: refine shows where signals are"
        )
    if "transient" in meta:
        print(f"  the largest of {meta['transient']['n_windows']} windows at each point")
    if meta.get("false_alarm") is not None:
        what = "best path of all templates" if "transitions" in meta else "largest 2F"
        print(f"  false-alarm probability of the {what} in Gaussian noise {meta['false_alarm']:.3g}")


def _mesh(arguments: argparse.Namespace) -> Mesh | None:
    """The devices among which to divide the work; None for a single one."""
    if arguments.distributed:
        jax.distributed.initialize(arguments.coordinator, arguments.numProcesses, arguments.processId)
        return Mesh(np.array(jax.devices()), ("templates",))
    for name in ("coordinator", "numProcesses", "processId"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name} goes with --distributed: give both.")
    if arguments.devices is None:
        return None
    devices = jax.local_devices()
    if not 0 <= arguments.devices <= len(devices):
        raise ValueError(f"--devices must be 0 to {len(devices)}, not {arguments.devices}: that many are here.")
    return Mesh(np.array(devices[: arguments.devices or None]), ("templates",))
