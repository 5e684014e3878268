"""`jfstat search`: SFT files searched over a band with a bank of templates, to a file of candidates."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jfstat
from jfstat.commandline.background import Background, add_background, background_of
from jfstat.commandline.band import Band, add_band, band_of, planned, say_noise
from jfstat.commandline.spellings import (
    ODDS,
    WINDOWS,
    add,
    check_veto,
    kept,
    known_lines,
    line_prior,
    segments_option,
    windows,
)
from jfstat.commandline.work import Division, add_work, check_outputs, division_of, write_all

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

WIDE = (
    *("dFreq", "RngMedWindow", "vetoLines", "lineVeto", "countTemplates", "checkpoint", "unit", "batchSize", "engine"),
    *("devices", "distributed", "backgroundPositions"),
)
"""Options for which one template too is searched in the series of a band, not in the bins around it alone."""

MOST_ROWS = 1_000_000
"""Most rows of a file of templates."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "search",
        help="search SFT files for signals over a band and a bank of templates",
        description="Search SFT files over a frequency band and a bank of templates: a flat grid, a metric lattice or "
        "a table; print and write the loudest candidates: of 2F, its mean over segments, or the largest 2F of windows "
        "of transient signals. Options are named as ComputeFstatistic_v2's. Frequencies are spaced by 1/(2T), T being "
        "the data's span, and spin-downs of flat grids by 1/(2T^2), 1/(2T^3), ... unless a step is given.",
    )
    data, _ = add_band(parser)
    add(data, "cohMaxMismatch")
    add(parser.add_argument_group("transient signals, at each template and frequency"), *WINDOWS)
    out = parser.add_argument_group("output")
    add(out, "outputFstat", "outputLoudest", "NumCandidatesToKeep", "TwoFthreshold", "cluster", *ODDS)
    add(out, "outputGrid", "RankingStatistic", "BSGLthreshold", "linefiles", "vetoLines", "lineVeto", "noDetails")
    add_background(parser.add_argument_group("the background, measured"))
    add_work(parser.add_argument_group("the work and its division"))
    parser.set_defaults(plan=plan)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What to search for, which candidates to keep, and where to write them.

    Attributes
    ----------
    statistic : one of jfstat's statistics, or None
    top, threshold, keep, details
        As for `jfstat.plan_search`.
    line_veto : bool
    background : Background or None
    table, loudest, stats, maps : str or None
        Files.
    """

    statistic: Any
    top: int | None
    threshold: float | None
    keep: jfstat.Keep
    details: jfstat.Details
    line_veto: bool
    background: Background | None
    table: str | None
    loudest: str | None
    stats: str | None
    maps: str | None


def plan(arguments: Arguments) -> Work:
    """Return the search that the options ask for."""
    if arguments.outputGrid is not None:
        check_outputs([arguments.outputGrid])
        return partial(_write_grid, band_of(arguments), arguments.outputGrid)
    top, threshold = kept(arguments)
    check_veto(arguments)
    _check_segments(arguments)
    division = division_of(arguments)
    band = band_of(arguments)
    wanted = Wanted(
        _statistic(arguments, band),
        top,
        threshold,
        _keep(arguments, band),
        _details(arguments, band),
        arguments.lineVeto,
        background_of(arguments),
        arguments.outputFstat,
        arguments.outputLoudest,
        arguments.outputTransientStats,
        arguments.outputTransientStatsAll,
    )
    own = None if wanted.background is None else wanted.background.path
    check_outputs((wanted.table, wanted.loudest, wanted.stats, wanted.maps, own), division.together)
    alone = band.low == band.high and band.templates.single and wanted.statistic is None and band.segments is None
    alone = alone and arguments.first_given(*WIDE) is None
    return partial(_run, division, band, wanted, alone)


def _check_segments(arguments: Arguments) -> None:
    """Raise a ValueError for options that do not go with segments, or go with them alone."""
    own = segments_option(arguments)
    if own is None:
        if arguments.is_given("cohMaxMismatch"):
            raise ValueError("--cohMaxMismatch goes with --segments, --segmentDuration or --segmentList: give one.")
        return
    if arguments.transient_WindowType != "none":
        raise ValueError(f"{own} does not go with --transient-WindowType: leave one of them out.")
    if arguments.is_given("BSGLthreshold") and arguments.is_given("cohMaxMismatch"):
        raise ValueError("--BSGLthreshold does not go with --cohMaxMismatch: leave one of them out.")
    for name, instead in {
        "vetoLines": "--linefiles alone names what candidates cross",
        "lineVeto": "leave it out, or the segments",
        "outputLoudest": "leave it out, or the segments",
    }.items():
        if arguments.is_given(name):
            raise ValueError(f"--{name} is for searches without segments: {instead}.")


def _statistic(arguments: Arguments, band: Band) -> Any:
    """Return the statistic that the options ask for; None for the usual one."""
    times = band.files.times
    start = times.start + min(float(series.since(times.start)[0]) for series in times)
    shape, ranking = windows(arguments, start, times.tsft), arguments.RankingStatistic
    if shape is not None:
        if ranking not in ("F", "BtSG"):
            raise ValueError(f"--RankingStatistic={ranking} does not go with --transient-WindowType: use F or BtSG.")
        return jfstat.Transient(shape, ranking)
    if ranking == "BtSG":
        raise ValueError("--RankingStatistic=BtSG needs --transient-WindowType: give rect or exp.")
    if ranking == "BSGLtL":
        if band.segments is None or arguments.is_given("cohMaxMismatch"):
            raise ValueError(
                "--RankingStatistic=BSGLtL needs segments, each computed at every template: give --segments, "
                "--segmentDuration or --segmentList, and no --cohMaxMismatch."
            )
        if arguments.is_given("BSGLthreshold"):
            raise ValueError("--BSGLthreshold does not go with --RankingStatistic=BSGLtL: use --TwoFthreshold.")
        return jfstat.BSGLtL(line_prior(arguments))
    if band.segments is None or arguments.cohMaxMismatch is None:
        return None
    return jfstat.Interpolated(arguments.cohMaxMismatch)


def _keep(arguments: Arguments, band: Band) -> jfstat.Keep:
    """Return which candidates are kept, and how they are sorted."""
    ranking = arguments.RankingStatistic
    return jfstat.Keep(
        ranking if ranking == "BSGL" else "F",  # the others are statistics
        arguments.BSGLthreshold,
        arguments.cluster,
        known_lines(arguments.linefiles),
        arguments.vetoLines,
        band.templates.bounds or None,
    )


def _details(arguments: Arguments, band: Band) -> jfstat.Details:
    """Return what is computed for each candidate; odds of lines are read only if log10BSGL is computed."""
    robust = len(band.files.times.detectors) > 1 and (not arguments.noDetails or arguments.BSGLthreshold is not None)
    return jfstat.Details(not arguments.noDetails, line_prior=line_prior(arguments) if robust else None)


def _run(division: Division, band: Band, wanted: Wanted, alone: bool) -> None:
    """Prepare and search; write the table and print the loudest candidate."""
    done = _at_one_template(division, band, wanted) if alone else None
    done = _over_the_band(division, band, wanted) if done is None else done
    if done is None or not division.is_first:
        return
    found, loudest, data, seconds = done
    found.meta["noise"] = band.how["sqrt_sx"].words
    if "false_alarm" in found.meta:  # the last key, as in a table that is merged from units
        found.meta["false_alarm"] = found.meta.pop("false_alarm")
    if wanted.line_veto:
        vetoed: Any = jfstat.line_veto(data, found)
        found = vetoed
    ranges: Any = getattr(wanted.statistic, "windows", None)
    maps = partial(jfstat.write_transient_maps, data, found, transient=ranges)
    said = write_all(  # files first: nothing that is printed may stand in their way
        (wanted.table, partial(jfstat.write_candidates, found), f"{len(found)} candidates"),
        (wanted.loudest, partial(jfstat.write_loudest, data, found if loudest is None else loudest), "the first"),
        (wanted.stats, partial(jfstat.write_transient_stats, found), "their windows"),
        (wanted.maps, maps, "all windows of them"),
    )
    print(f"{found.meta['n_twoF']} values of 2F for {found.meta['n_templates']} template(s) in {seconds:.1f} s")
    print("\n".join([jfstat.summary(found), *said]))


def _write_grid(band: Band, path: str) -> None:
    """Write the templates at all frequencies of a band."""
    data, bank = band.prepared()
    n = bank.alpha.size * len(data.frequencies)
    if n > MOST_ROWS:
        raise ValueError(f"--outputGrid would hold {n} rows, more than {MOST_ROWS}: narrow the bands.")
    table: Any = jfstat.template_table(bank, data.frequencies)
    table.meta.setdefault("reftime", data.reftime)
    print(f"wrote {n} points to {jfstat.write_templates(table, path)}")


def _at_one_template(division: Division, band: Band, wanted: Wanted) -> tuple[Any, None, Any, float] | None:
    """Return the candidate of the only template from the bins around it, None, these data, and how many s it took.

    None if the files hold less than that needs: the series of a band says what is wrong, or does with less.
    """
    point = band.templates.template(band.low, band.reftime)
    try:
        data = jfstat.narrow_files(band.files, point, **band.how)
    except ValueError:
        return None
    say_noise(division, data, data.observation)
    began = time.perf_counter()
    found: Any = jfstat.search_template(data, wanted.top, wanted.threshold, wanted.keep, wanted.details, False)
    if wanted.keep.lines is not None:
        division.say(f"{len(found.meta['lines'])} known line(s) in the band and its Doppler shifts")
    division.say("1 template(s), 1.000e+00 values of 2F")
    division.say(f"needs {found.meta['device_bytes'] / 1e9:.2f} GB of memory, 1 template(s) at a time")
    return found, None, data, time.perf_counter() - began


def _over_the_band(division: Division, band: Band, wanted: Wanted) -> tuple[Any, Any, Any, float] | None:
    """Return the candidates of the band, the loudest persistent one, the data, and how many s it took.

    The loudest is searched for only if those of the table are transient, and a file is to hold it; None otherwise. All
    is None if templates are only counted.
    """
    data, bank = band.prepared(wanted.statistic)
    say_noise(division, data, data.observation)
    if wanted.background is not None:
        wanted.background.check_room(data, bank)
    how: Any = dict(keep=wanted.keep, details=wanted.details, run=division.run)
    chosen = wanted.statistic, wanted.top, wanted.threshold, division.checkpoint
    done = planned(division, jfstat.plan_search(data, bank, *chosen, **how), data.n_segments)
    if done is None:
        return None
    found, loudest = done[0], None
    if wanted.background is not None:
        found = wanted.background.judged(division, found, (data, bank, wanted.statistic), wanted.keep)
    if wanted.loudest is not None and isinstance(wanted.statistic, jfstat.Transient):
        loudest = jfstat.plan_search(data, bank, top=1, **how).run()
    return found, loudest, data, done[1]
