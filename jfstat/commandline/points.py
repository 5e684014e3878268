"""`jfstat search --gridType=6`: 2F and amplitudes at exactly the points of a file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.tables import in_units, parameter_columns, points_from
from jfstat.commandline.inputs import read_band
from jfstat.commandline.options import ephemeris, line_prior, noise
from jfstat.commandline.sources import read_sources
from jfstat.commandline.transients import OPTIONS as TRANSIENT_OPTIONS
from jfstat.commandline.transients import check_transients, option, transient_range, write_atom_files
from jfstat.data.prepare import prepare
from jfstat.followup.candidates import NEEDED, impossible
from jfstat.followup.fstattable import fstat_table
from jfstat.geometry.source import at_reftime
from jfstat.io.templates import read_templates
from jfstat.signal.parameters import ORBIT_FIELDS, SKY, spin_names
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime, gps_time
from jfstat.signal.values import columns as parameter_values
from jfstat.signal.values import varied_parameters

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.signal.times import TimeLike

APART = 0.5
"""Points further apart in frequency than this, Hz, are computed from bands of their own."""
USED = (
    *("DataFiles", "IFOs", "detectorFiles", "minStartTime", "maxStartTime", "assumeSqrtSX", "guard", "RngMedWindow"),
    "offSourceBins",
    *("ephemeris", "ephemEarth", "ephemSun", "refTime", "gridType", "gridFile"),
    *("outputFstat", "NumCandidatesToKeep", "TwoFthreshold", "Fstar0", "oLGX", "countTemplates", "run"),
    *TRANSIENT_OPTIONS,
)
"""Options of `jfstat search` that mean something for single points."""


ISOLATED = dict(zip(ORBIT_FIELDS, (0.0, 1e6, 0.0, 0.0, 0.0), strict=True))
"""Orbit of isolated sources among binaries: asini = 0 means none."""


def check_points(arguments: argparse.Namespace, given: list[str]) -> None:
    """Check the options of `jfstat search --gridType=6`.

    Parameters
    ----------
    arguments : Namespace
    given : list of str
        Names of the options that differ from their defaults.

    Raises
    ------
    ValueError
        If one is missing, out of range or without meaning for points.
    """
    unused = [name for name in given if name not in USED]
    if unused:
        raise ValueError(
            f"{option(unused[0])} does not go with --gridType=6, whose file holds single points: leave it out."
        )
    if arguments.gridFile is None:
        raise ValueError("--gridFile is missing: --gridType=6 needs a file with the points.")
    check_transients(arguments, given)
    top = arguments.NumCandidatesToKeep
    if top is not None and top < 0:
        raise ValueError(f"--NumCandidatesToKeep must not be negative, not {top}: give a number, or 0 for all.")


def point_table(arguments: argparse.Namespace) -> Any:
    """The table of all points that are to be kept, in the order of the file; None if they are only counted.

    Raises
    ------
    ValueError
        If the file or the data do not suit.
    """
    points = _points(arguments.gridFile, arguments.refTime)
    reftime = points.meta.get("reftime", arguments.refTime)
    given = parameter_columns(points, "--gridFile", NEEDED)
    problems = impossible(given)
    bad = next((row for row, problem in enumerate(problems) if problem), None)
    if bad is not None:
        why = problems[bad].removeprefix("not refined: ")
        raise ValueError(f"--gridFile {arguments.gridFile}: {why} in row {bad}, counted from 0; correct it.")
    bands = _bands(given["freq"])
    print(f"{len(points)} point(s) in {len(bands)} band(s)")
    if arguments.countTemplates:
        return None
    found = _joined([_values(arguments, points, given, rows, reftime) for rows in bands], bands)
    return _kept(found, arguments.TwoFthreshold, arguments.NumCandidatesToKeep)


def bank_table(arguments: argparse.Namespace, points: Any, top: int | None) -> Any:
    """The table of the points of a bank in a band, those that are to be kept, the loudest window first."""
    print(f"{len(points)} point(s)")
    given = parameter_columns(points, "points", NEEDED)
    found = _values(arguments, points, given, np.arange(len(points)), points.meta["reftime"])
    kept = _kept(found, arguments.TwoFthreshold, top)
    return kept[np.argsort(-_loudness(kept), kind="stable")]


def _points(name: str, reftime: TimeLike | None) -> Any:
    """The points of a file, or of files of sources as for Makefakedata_v5, at one reference time.

    Raises
    ------
    ValueError
        If the file says another reference time than --refTime.
    """
    if name.strip().endswith(".cff"):
        return _sources(name, reftime)
    table: Any = read_templates(name)
    own = table.meta.get("reftime")
    if own is not None and reftime is not None and gps_time(reftime, "refTime") != gps_time(own, "reftime"):
        raise ValueError(f"--refTime is {reftime} and --gridFile's {own}: leave --refTime out.")
    if own is None:
        table.meta.pop("reftime", None)
    return table


def _sources(names: str, reftime: TimeLike | None) -> QTable:
    """The sources of .cff files as a table, at --refTime, or else at the reference time of the first."""
    sources = [doppler for doppler, *_ in read_sources(names, "--gridFile")]
    default = None if reftime is None else gps_time(reftime, "refTime")
    times = [default if point.reftime is None else point.reftime for point in sources]
    if any(x is None for x in times) and any(x is not None for x in times):
        raise ValueError("--gridFile has sources with and without refTime: give --refTime for those without.")
    n_spins = max(len(point.fkdot) for point in sources)
    fkdot = np.stack([np.pad(np.asarray(point.fkdot), (0, n_spins - len(point.fkdot))) for point in sources])
    orbit = None
    if any(point.orbit is not None for point in sources):
        orbits = [point.orbit for point in sources]
        orbit = Orbit(*(np.array([float(getattr(x, name, ISOLATED[name])) for x in orbits]) for name in ORBIT_FIELDS))
    alpha, delta = (np.array([float(getattr(point, name)) for point in sources]) for name in SKY)
    points, common = Doppler(alpha, delta, fkdot, None, orbit), default or times[0]
    if common is not None:
        each = GPSTime(*(jnp.array([float(getattr(x, part)) for x in times]) for part in ("seconds", "nanoseconds")))
        points = at_reftime(Doppler(alpha, delta, fkdot, each, orbit), common)
    return in_units(parameter_values(points), {} if common is None else {"reftime": common.plain})


def _bands(freq: np.ndarray) -> list[np.ndarray]:
    """Rows of the points of each band, by rising frequency, (n,) Hz."""
    order = np.argsort(freq, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(freq[order]) > APART) + 1)


def _values(
    arguments: argparse.Namespace,
    points: Any,
    given: dict[str, np.ndarray],
    rows: np.ndarray,
    reftime: TimeLike | None,
) -> QTable:
    """The table of the points of a band, from data prepared for these."""
    own = {name: x[rows] for name, x in given.items()}
    low, high = float(own["freq"].min()), float(own["freq"].max())
    fdots = [(float(own[name].min()), float(own[name].max())) for name in spin_names(list(own))[1:]]
    orbit = None
    if "asini" in own and np.any(own["asini"]):
        binary = own["asini"] != 0
        orbit = Orbit(*(own[name][binary] for name in ORBIT_FIELDS))
    sfts = read_band(arguments, low, high, arguments.guard, orbit, fdots, reftime)
    data = prepare(
        sfts,
        low,
        high,
        reftime,
        noise(arguments),
        ephemeris(arguments),
        arguments.guard,
        orbit=orbit,
        fdots=fdots or None,
        filters=False,
    )
    print(data)
    transient = transient_range(arguments, data)
    if arguments.outputFstatAtoms is not None:
        paths = write_atom_files(data, points[rows], arguments.outputFstatAtoms)
        print(f"wrote {len(paths)} file(s) of atoms, the first {paths[0]}")
    prior = line_prior(arguments)
    return fstat_table(data, points[rows], reftime=reftime, line_prior=prior, transient=transient)


def _joined(tables: list[Any], bands: list[np.ndarray]) -> Any:
    """The tables of all bands as one, in the order of the file."""
    if len(tables) == 1:
        return tables[0][np.argsort(bands[0])]
    from astropy.table import vstack

    joined = vstack(tables, metadata_conflicts="silent")[np.argsort(np.concatenate(bands))]
    n, meta = len(joined), dict(tables[0].meta)
    meta.pop("sqrt_sx")  # each band has its own
    given = parameter_columns(joined, "--gridFile", NEEDED)
    meta["parameters"] = list(varied_parameters(points_from(given, None)))
    meta |= {"n_templates": n, "n_twoF": n, "false_alarm": float(false_alarm(np.max(joined["twoF"]), n))}
    joined.meta = meta
    return joined


def _kept(found: Any, threshold: float | None, top: int | None) -> Any:
    """The points at or above a threshold, and of these the loudest `top`, in the order of the file."""
    twoF = _loudness(found)
    keep = np.flatnonzero(twoF >= (-np.inf if threshold is None else threshold))
    if top:
        keep = np.sort(keep[np.argsort(-twoF[keep], kind="stable")[:top]])
    return found[keep]


def _loudness(found: Any) -> np.ndarray:
    """2F of each point, (n,) float64; with windows, the largest of its map."""
    return np.asarray(found["max_twoF" if "max_twoF" in found.colnames else "twoF"])
