"""Candidates anywhere in the band of SFT files: read and prepared for one group of neighbours after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.tables import AnyTable, parameter_columns, point_in, points_from, stacked
from jfstat.data.noise import Noise, NoiseLike
from jfstat.data.prepare import prepare
from jfstat.followup.band import CandidateBand, sharing_data
from jfstat.followup.candidates import NEEDED, SearchedWith, impossible, usual_names
from jfstat.followup.checkpoint import finished_in, identity
from jfstat.followup.fstattable import fstat_table
from jfstat.followup.ladder import followed, ladder_of
from jfstat.followup.options import Fit, Stages, checked_fit
from jfstat.followup.refine import refine
from jfstat.followup.rungs import joined
from jfstat.followup.windowfile import check_lines, maps_of, maps_written
from jfstat.io.lal.atoms import doppler_string, write_atoms
from jfstat.public import host
from jfstat.searching.session.checkpoint import checkpoint_path
from jfstat.sfts.reading import SFTFiles
from jfstat.signal.values import varied_parameters, with_fields
from jfstat.statistic.atoms import atoms
from jfstat.statistic.transients import TransientRange
from jfstat.validation import guard_band

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.data.fstatdata import FstatData
    from jfstat.data.segments import SegmentsLike
    from jfstat.geometry.ephemeris import EphemerisLike
    from jfstat.signal.times import TimeLike
    from jfstat.statistic.linerobust import LinePrior

APART = 0.5
"""Points further apart in frequency than this, Hz, are computed from bands of their own."""
KINDS: dict[str, Any] = dict(files=kinds.instance(SFTFiles), ephemeris=kinds.ephemeris)
"""Kinds of arguments that all functions here have."""


@host(**KINDS, found=kinds.table)
def refine_files(
    files: SFTFiles,
    found: AnyTable,
    fit: Fit | None = None,
    *,
    segments: SegmentsLike | None = None,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: float = 1.0,
    progress: bool = True,
) -> QTable:
    """Refine candidates that lie anywhere in the band of SFT files; see `refine`.

    Neighbours in frequency share prepared data, for which the part of the files around them is read.

    Parameters
    ----------
    files : SFTFiles
        From `find_sfts`.
    found : QTable
        Candidates, as for `refine`.
    fit : Fit, optional
        What is fitted, and how far around the candidates. Parameters are chosen once, for all candidates.
    segments, sqrt_sx, ephemeris, guard
        As for `prepare`.
    progress : bool
        Whether to show progress.

    Returns
    -------
    QTable
        A row for each candidate, in the order given, as from `refine`. The message of one for which no data can be
        prepared says why.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError, ValueError
        If an argument is of another kind or out of range, or no candidate can be refined.
    """
    fit, noise, width = checked_fit(fit), Noise.of(sqrt_sx), guard_band(guard)
    columns, reftime = _columns_of(found, fit.reftime)
    if fit.parameters is None:  # chosen once, so that all groups have the same
        fit = replace(fit, parameters=usual_names(columns, SearchedWith.of(found, ()).parameters))
    problems = impossible(columns)
    waiting = sharing_data(columns["freq"], np.array([not problem for problem in problems]))
    tables, rows = [], []
    data, error = None, ValueError("found holds no sound candidate: see its columns.")
    while waiting:
        members = waiting.pop(0)
        band = CandidateBand.of({name: x[members] for name, x in columns.items()})
        try:
            sfts = _read(files, band, width + band.margin, reftime, noise)
            data = band.prepared(sfts, reftime, noise, ephemeris, width, segments)
        except ValueError as problem:
            error = problem
            if len(members) == 1:
                problems[members[0]] = f"not refined: {problem}"
            else:  # the reason may be a single one of them
                waiting[:0] = np.array_split(members, 2)
            continue
        tables.append(refine(data, found[members], fit=fit, progress=progress))
        rows.append(members)
    if data is None:
        raise error
    rest = np.array([row for row, problem in enumerate(problems) if problem], int)
    if len(rest):  # they fit no data: any data give them a row
        table = refine(data, found[rest], fit=fit, progress=False)
        table["message"] = [problems[row] for row in rest]
        tables.append(table)
        rows.append(rest)
    return stacked(tables)[np.argsort(np.concatenate(rows))]  # type: ignore[return-value]


@host(**KINDS, found=kinds.table, progress=kinds.flag)
def follow_up_files(
    files: SFTFiles,
    found: AnyTable,
    stages: Sequence[int] | Stages | None = None,
    fit: Fit | None = None,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: float = 1.0,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
) -> QTable:
    """Follow up candidates that lie anywhere in the band of SFT files; see `follow_up`.

    Neighbours in frequency share SFTs, the part of the files around them.

    Parameters
    ----------
    files : SFTFiles
        From `find_sfts`.
    found, stages, fit, sqrt_sx, ephemeris, guard, checkpoint, progress
        As for `follow_up`. Stages are chosen once, for all candidates, and one checkpoint holds all of them.

    Returns
    -------
    QTable
        As from `follow_up`; candidates that the files do not suit are left out with a warning.

    Raises
    ------
    OSError
        If a file cannot be read, or the checkpoint cannot be read or written.
    TypeError, ValueError
        If an argument is of another kind or out of range, no candidate can be followed up, or the checkpoint is of
        another follow-up or in use.

    Warns
    -----
    UserWarning
        If some candidates cannot be followed up; the message says why.
    """
    import warnings

    fit, noise, ladder, width = checked_fit(fit), Noise.of(sqrt_sx), Stages.of(stages), guard_band(guard)
    columns, reftime = _columns_of(found, fit.reftime)
    problems = impossible(columns)
    sound = np.array([not problem for problem in problems])
    if not np.any(sound):
        raise ValueError(f"found holds no sound candidate: {next(iter(problems), 'it is empty')}.")
    how = noise, ephemeris, width
    tables, error = [], ValueError("no candidate can be followed up.")
    path = None if checkpoint is None else checkpoint_path(checkpoint)
    kept = nullcontext() if path is None else finished_in(path, identity(files.times, found, ladder, fit, *how))
    with kept as finished:
        for members in sharing_data(columns["freq"], sound):
            band = CandidateBand.of({name: x[members] for name, x in columns.items()})
            try:
                sfts = _read(files, band, width + band.margin, reftime, noise)
                own = ladder_of(sfts, found[members], ladder, fit, *how)
                table: Any = joined(followed(own, finished, progress), own)
            except ValueError as problem:
                error = problem
                warnings.warn(
                    f"not followed up: {len(members)} candidate(s) from {band.low:.6f} Hz on: {problem}", stacklevel=3
                )
                continue
            table["candidate"] = members[np.asarray(table["candidate"])]
            tables.append(table)
            ladder = replace(ladder, numbers=table.meta["stages"])
    if not tables:
        raise error
    together: Any = stacked(tables)
    return together[np.lexsort([np.asarray(together["stage"]), np.asarray(together["candidate"])])]


@host(**KINDS, points=kinds.table)
def fstat_table_files(
    files: SFTFiles,
    points: AnyTable,
    *,
    line_prior: LinePrior | None = None,
    transient: TransientRange | None = None,
    segments: SegmentsLike | None = None,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: float = 1.0,
    progress: bool = True,
) -> QTable:
    """Compute 2F and amplitudes at exactly the given templates, anywhere in the band of SFT files; see `fstat_table`.

    Templates within 0.5 Hz of one another share prepared data, for which the part of the files around them is read.

    Parameters
    ----------
    files : SFTFiles
        From `find_sfts`.
    points : QTable
        Templates, as for `fstat_table`.
    line_prior, transient
        As for `fstat_table`.
    segments, sqrt_sx, ephemeris, guard
        As for `prepare`.
    progress : bool
        Whether to show progress.

    Returns
    -------
    QTable
        As from `fstat_table`, in the order given. Noise floors, which each group of templates has of its own, are in
        the meta only if all templates are of one group.

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError, ValueError
        If an argument is of another kind or out of range, or a row is no possible template or not in the files' band.
    """
    noise = Noise.of(sqrt_sx)

    def table(data: FstatData, rows: np.ndarray) -> QTable:
        return fstat_table(data, points[rows], line_prior=line_prior, transient=transient, progress=progress)

    groups, tables = _by_bands(files, points, noise, ephemeris, guard, table, segments)
    if len(tables) == 1:
        return tables[0][np.argsort(groups[0])]
    from astropy.table import vstack

    joined: Any = vstack(tables, metadata_conflicts="silent")[np.argsort(np.concatenate(groups))]
    n, meta = len(joined), dict(tables[0].meta)
    meta.pop("sqrt_sx")
    stack = points_from(parameter_columns(joined, "points", NEEDED), None)
    meta["parameters"] = list(varied_parameters(with_fields(stack, varied=tuple(meta["parameters"]))))
    loudest = np.max(joined["twoF" if segments is None else "mean_twoF"])
    n_twoF = max(n, meta["n_twoF"])
    chance = float(false_alarm(loudest, n_twoF, meta.get("n_segments") or 1))
    meta |= {"n_templates": n, "n_twoF": n_twoF, "false_alarm": chance}
    joined.meta = meta
    return joined


@host(**KINDS, points=kinds.table, path=kinds.path)
def write_atoms_files(
    files: SFTFiles,
    points: AnyTable,
    path: str,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: float = 1.0,
) -> list[Path]:
    """Write the atoms of each of some templates, as long as an SFT, in ComputeFstatistic_v2's format.

    Parameters
    ----------
    files : SFTFiles
        From `find_sfts`.
    points : QTable
        Templates, as for `fstat_table`.
    path : str
        How the files' names begin; ComputeFstatistic_v2's name of the template and ``.dat`` follow.
    sqrt_sx, ephemeris, guard
        As for `prepare`.

    Returns
    -------
    list of Path
        The files, by group of neighbours in frequency.

    Raises
    ------
    OSError
        If a file cannot be read or written.
    TypeError, ValueError
        As `fstat_table_files`.
    """

    def written(data: FstatData, rows: np.ndarray) -> list[Path]:
        own = points[rows]
        stack = points_from(parameter_columns(own, "points", NEEDED), own.meta.get("reftime", data.reftime))
        each = [point_in(stack, row) for row in range(len(own))]
        tsft = float(data.observation.tsft)
        return [write_atoms(atoms(data, point, tsft), f"{path}_{doppler_string(point)}.dat") for point in each]

    groups = _by_bands(files, points, Noise.of(sqrt_sx), ephemeris, guard, written)[1]
    return [path for paths in groups for path in paths]


@host(**KINDS, points=kinds.table, path=kinds.path, transient=kinds.instance(TransientRange))
def write_transient_maps_files(
    files: SFTFiles,
    points: AnyTable,
    path: str | os.PathLike,
    transient: TransientRange,
    *,
    sqrt_sx: NoiseLike | None = None,
    ephemeris: EphemerisLike = "DE405",
    guard: float = 1.0,
) -> Path:
    """Write 2F of all windows at each of some templates as ComputeFstatistic_v2's ``--outputTransientStatsAll``.

    Parameters
    ----------
    files : SFTFiles
        From `find_sfts`.
    points : QTable
        Templates, as for `fstat_table`.
    path : str or path
    transient : TransientRange
        The windows: a line for each, with its template, t0 (GPS s), tau (s) and 2F.
    sqrt_sx, ephemeris, guard
        As for `prepare`.

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If a file cannot be read or written.
    TypeError, ValueError
        As `fstat_table_files`, or if there would be more than ten million lines.
    """
    check_lines(points, transient)

    def maps(data: FstatData, rows: np.ndarray) -> dict[int, np.ndarray]:
        return {int(rows[row]): values for row, values in maps_of(data, points[rows], transient).items()}

    groups = _by_bands(files, points, Noise.of(sqrt_sx), ephemeris, guard, maps)[1]
    found = {row: values for group in groups for row, values in group.items()}
    return maps_written(points, found, transient, path)


def _columns_of(
    found: AnyTable, reftime: TimeLike | None, name: str = "found"
) -> tuple[dict[str, np.ndarray], TimeLike | None]:
    """Return the parameters in a table, and when its frequencies hold; None for the start of the data.

    Raises
    ------
    ValueError
        If a column is missing or has another unit, or the templates have a phase model.
    """
    columns = parameter_columns(found, name, NEEDED, "prepare data, and use refine(model=)")
    return columns, found.meta.get("reftime", reftime)


def _read(files: SFTFiles, band: CandidateBand, guard: float, reftime: TimeLike | None, noise: Noise) -> Any:
    """Return the SFTs around some candidates."""
    how: Any = dict(orbit=band.orbit, fdots=band.fdots, reftime=reftime, noise_bins=noise.reach)
    return files.read_band(band.low, band.high, guard, **how)


def _by_bands(
    files: SFTFiles,
    points: Any,
    noise: Noise,
    ephemeris: EphemerisLike,
    guard: float,
    work: Callable[[FstatData, np.ndarray], Any],
    segments: SegmentsLike | None = None,
) -> tuple[list[np.ndarray], list[Any]]:
    """Return the rows of each group of templates by rising frequency, and what `work` makes of its data and rows."""
    columns, reftime = _columns_of(points, None, "points")
    bad = next(((row, problem) for row, problem in enumerate(impossible(columns)) if problem), None)
    if bad is not None:
        raise ValueError(f"points: {bad[1].removeprefix('not refined: ')} in row {bad[0]}, counted from 0; correct it.")
    order = np.argsort(columns["freq"], kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(columns["freq"][order]) > APART) + 1)
    results = []
    for rows in groups:
        band = CandidateBand.of({name: x[rows] for name, x in columns.items()})
        sfts = _read(files, band, guard, reftime, noise)
        how: Any = dict(orbit=band.orbit, fdots=band.fdots or None, segments=segments, filters=False)
        results.append(work(prepare(sfts, band.low, band.high, reftime, noise, ephemeris, guard, **how), rows))
    return groups, results
