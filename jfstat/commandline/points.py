"""`jfstat points`: 2F, amplitudes, windows and atoms at exactly given templates, of a file or of a flat grid."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import jfstat
from jfstat.commandline.banks import GRID, flat_grid, read_grid
from jfstat.commandline.sources import read_sources
from jfstat.commandline.spellings import (
    DATA,
    ODDS,
    PREPARATION,
    SEGMENTS,
    WINDOWS,
    add,
    band_edges,
    check_band,
    data_files,
    frequency_step,
    line_prior,
    preparation,
    reftime_of,
    segments,
    segments_option,
    windows,
)
from jfstat.commandline.work import check_outputs, write_all

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments, Work

MOST_POINTS, MOST_FILES = 1_000_000, 10_000
"""Most points that are computed one by one, and most files of atoms."""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand and its options to the program."""
    parser = subparsers.add_parser(
        "points",
        help="2F and amplitudes at exactly the templates of a file or grid, windows of transient signals, atoms",
        description="Compute 2F, or its mean over segments, and amplitudes at exactly the points of a file, as "
        "ComputeFstatistic_v2 with --gridType=6, or of a flat grid, frequency included; search windows of transient "
        "signals at each, and write atoms.",
    )
    data = parser.add_argument_group("data")
    add(data, "DataFiles", required=True)
    add(data, *DATA[1:], *PREPARATION, *SEGMENTS)
    points = parser.add_argument_group("points: of a file, or each parameter from its value to value + band")
    add(
        points,
        "gridFile",
        help="a table of templates with their frequencies, .ecsv, .hdf5 or text as of ComputeFstatistic_v2 or "
        "PyFstat, with columns freq, alpha, delta, f1dot, ... and an orbit's; or sources in .cff files; or rows or "
        "sources between braces, '{50.1 1.1 0.2 0 0 0; ...}'",
    )
    add(points, "Freq", "FreqBand", "dFreq", "refTime", *GRID)
    add(parser.add_argument_group("transient signals, at each point"), *WINDOWS)
    out = parser.add_argument_group("output")
    add(out, "outputFstat", "outputFstatAtoms", "outputGrid")
    add(out, "NumCandidatesToKeep", help="keep at most this many, the loudest (default: all of a file, 1000 of a grid)")
    add(out, "TwoFthreshold", *ODDS)
    add(out, "countTemplates", help="count the points, and stop")
    parser.set_defaults(plan=plan)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Which points to keep, and where to write what.

    Attributes
    ----------
    top, threshold : number or None
    loudest_first : bool
        Whether to sort them, or to leave them in the order given.
    what : str
        What they are called.
    table, stats, atoms, maps : str or None
        Files, and how the names of those of atoms begin.
    """

    top: int | None
    threshold: float | None
    loudest_first: bool
    what: str
    table: str | None
    stats: str | None
    atoms: str | None
    maps: str | None


def plan(arguments: Arguments) -> Work:
    """Return the computation that the options ask for."""
    top = arguments.NumCandidatesToKeep
    from_file = arguments.gridFile is not None
    if not from_file and arguments.Freq is None:
        raise ValueError("--gridFile is missing: give it, or the points by --Freq, --Alpha, --Delta, ....")
    if from_file:
        given = arguments.first_given("Freq", "FreqBand", "dFreq", *GRID)
        if given:
            raise ValueError(f"{given} does not go with --gridFile, which holds single points: leave it out.")
    files = data_files(arguments)
    times = files.times
    start = times.start + min(float(series.since(times.start)[0]) for series in times)
    points = _points_of_file(arguments) if from_file else _points_of_grid(arguments, files)
    check_band(files, *(float(f(np.asarray(points["freq"]))) for f in (np.nanmin, np.nanmax)))
    how = preparation(arguments, points.meta)
    if arguments.outputGrid is not None:
        check_outputs([arguments.outputGrid])
        return partial(_run_grid, points, arguments.outputGrid)
    shape, parts = windows(arguments, start, times.tsft), segments(arguments)
    if parts is not None and (shape is not None or arguments.outputFstatAtoms is not None):
        other = "--transient-WindowType" if shape is not None else "--outputFstatAtoms"
        raise ValueError(f"{segments_option(arguments)} does not go with {other}: leave one of them out.")
    limit = 1000 if top is None and not from_file and arguments.TwoFthreshold is None else top or None
    names = arguments.outputFstat, arguments.outputTransientStats, arguments.outputFstatAtoms
    names += (arguments.outputTransientStatsAll,)
    threshold = arguments.TwoFthreshold
    wanted = Wanted(limit, threshold, not from_file, "points" if from_file else "candidates", *names)
    check_outputs((*names[:2], names[3], None if names[2] is None else f"{names[2]}_atoms.dat"))
    if wanted.atoms is not None and len(points) > MOST_FILES:
        raise ValueError(
            f"--outputFstatAtoms would write {len(points)} files, more than {MOST_FILES}: narrow the bands."
        )
    prior = line_prior(arguments) if len(times.detectors) > 1 else None
    count_only = arguments.countTemplates
    more = dict(line_prior=prior, transient=shape, segments=parts)
    return partial(_run, files, points, wanted, how, more, count_only)


def _run_grid(points: Any, path: str) -> None:
    """Write the points, and stop."""
    print(f"wrote {len(points)} point(s) to {jfstat.write_templates(points, path)}")


def _run(
    files: jfstat.SFTFiles, points: Any, wanted: Wanted, how: dict[str, Any], more: dict[str, Any], count_only: bool
) -> None:
    """Compute the points, write the tables, and print the loudest."""
    print(f"{len(points)} point(s)")
    if count_only:
        return
    began, said = time.perf_counter(), []
    if wanted.atoms is not None:
        paths = jfstat.write_atoms_files(files, points, wanted.atoms, **how)
        said.append(f"wrote {len(paths)} file(s) of atoms, the first {paths[0]}")
    found: Any = jfstat.fstat_table_files(files, points, **more, **how)
    twoF = np.asarray(found[next(name for name in ("max_twoF", "twoF", "mean_twoF") if name in found.colnames)])
    rows = np.argsort(-twoF, kind="stable")
    rows = rows[twoF[rows] >= (-np.inf if wanted.threshold is None else wanted.threshold)][: wanted.top]
    found = found[rows if wanted.loudest_first else np.sort(rows)]
    maps = partial(jfstat.write_transient_maps_files, files, found, transient=more["transient"], **how)
    said += write_all(
        (wanted.table, partial(jfstat.write_candidates, found), f"{len(found)} {wanted.what}"),
        (wanted.stats, partial(jfstat.write_transient_stats, found), "their windows"),
        (wanted.maps, maps, "all windows of them"),
    )
    print(f"{found.meta['n_templates']} values of 2F in {time.perf_counter() - began:.1f} s")
    first = 0 if wanted.loudest_first or not len(rows) else int(np.sum(rows < rows[0]))
    print("\n".join([jfstat.summary(found[first : first + 1], total=len(found)), *said]))


def _points_of_grid(arguments: Arguments, files: jfstat.SFTFiles) -> Any:
    """Return all templates of a flat grid at all frequencies of a band, as a table.

    Raises
    ------
    ValueError
        If options are missing or contradict each other, or there are too many points.
    """
    templates = flat_grid(arguments)
    low, high = band_edges(arguments.Freq, arguments.FreqBand)
    if not low > 0:
        raise ValueError(f"--Freq must be positive, and the band too, not {low:g}: give frequencies in Hz.")
    times = files.times
    starts = {series.detector: np.stack([series.gps, series.gps_ns], axis=-1) for series in times}
    how: Any = dict(timestamps=starts, tsft=times.tsft, reftime=arguments.refTime)
    observed = jfstat.observation([series.site for series in times], **how)
    bank = templates.bank(observed)
    step = frequency_step(arguments) or 0.5 / float(observed.tspan)
    n_freq = int((high - low) / step + 1e-6) + 1
    n = bank.alpha.size * n_freq
    if n > MOST_POINTS:
        raise ValueError(
            f"{bank.alpha.size} templates at {n_freq:.7g} frequencies are {n:.7g} points, more than {MOST_POINTS}: "
            "narrow --FreqBand or the other bands."
        )
    return jfstat.template_table(bank, low + step * np.arange(n_freq))


def _points_of_file(arguments: Arguments) -> Any:
    """Return the points of a file, or of files of sources as for Makefakedata_v5, at one reference time.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, or says another reference time than --refTime.
    """
    name, reftime = arguments.gridFile, arguments.refTime
    if name.strip().endswith(".cff") or re.match(r"\s*\{.*=", name, re.DOTALL):
        given = read_sources(name, "--gridFile")
        sources = [source[0] for source in given]
        transient = sum(len(source) > 2 and source[2] is not None for source in given)
        if transient:
            print(f"{transient} of {len(given)} source(s) are transient: their windows are not used")
        known = [point.reftime is not None for point in sources]
        if reftime is None and any(known) and not all(known):
            raise ValueError("--gridFile has sources with and without refTime: give --refTime for those without.")
        return jfstat.template_table(sources, reftime=reftime)
    table: Any = read_grid(name)
    reftime = reftime_of(arguments, table, "--gridFile")
    if "freq" not in table.colnames:
        raise ValueError(f"--gridFile lacks the column 'freq': {name} holds no points; jfstat search takes templates.")
    table.meta.pop("reftime", None)
    if reftime is not None:
        table.meta["reftime"] = reftime
    return table
