"""The continuous-wave hardware injections of LIGO's observing runs: `hardware_injections`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jfstat import kinds
from jfstat.public import host
from jfstat.signal.parameters import AMPLITUDE_FIELDS, ORBIT_FIELDS, SKY, unit
from jfstat.signal.templates import Amplitude, Doppler, Orbit
from jfstat.signal.times import TimeLike, gps_time
from jfstat.validation import shown

if TYPE_CHECKING:
    from astropy.table import QTable

SOURCE = "CWInPy's .par files (commit 2cbb5be1), which follow the tables of gwosc.org"
DETECTORS = ("H1", "H2", "L1")
"""Detectors that have injections."""
SETS = ("S5", "S6", "O1", "O2", "O3", "O4")
"""Sets of amplitudes."""
COLUMNS = (
    *("name", "freq", "f1dot", "alpha", "delta", "reftime", *ORBIT_FIELDS),
    *("cosi", "psi", "phi0", *(f"h0_{name}" for name in SETS)),
)
"""Columns of hardware_injections.csv."""


class Run(NamedTuple):
    """An observing run with injections.

    Attributes
    ----------
    amplitudes : str
        One of `SETS`.
    ephemeris : str
        Solar-system ephemeris with which the signals were made.
    start, end : int
        GPS times between which there were injections, s.
    """

    amplitudes: str
    ephemeris: str
    start: int
    end: int


RUNS = {
    "S5": Run("S5", "DE200", 829412600, 875232014),
    "S6": Run("S6", "DE200", 931035615, 971622015),
    "O1": Run("O1", "DE405", 1126051217, 1137254417),
    "O2": Run("O2", "DE405", 1164556817, 1187733618),
    "O3": Run("O3", "DE405", 1238166018, 1269363618),
    "O3a": Run("O3", "DE405", 1238166018, 1253977218),
    "O3b": Run("O3", "DE405", 1256655618, 1269363618),
    "O4a": Run("O4", "DE405", 1368975618, 1389456018),
}
"""Runs by name; their times are those of CWInPy's ``HW_INJ_RUNTIMES``. For O4a the files name no ephemeris."""


@dataclass(frozen=True, eq=False)
class Injection:
    """One hardware injection in one run.

    Attributes
    ----------
    name : str
        Such as ``PULSAR03``.
    point : Doppler
        Template at the injection's own reference time.
    amplitude : Amplitude
        Amplitudes at this time.
    """

    name: str
    point: Doppler
    amplitude: Amplitude


@host(run=kinds.time)
def hardware_injections(run: str | TimeLike) -> QTable:
    """Return the parameters of the continuous-wave hardware injections of an observing run.

    LIGO's mirrors are moved as the wave of a rotating neutron star would move them, at known frequencies, through most
    of each run: the signals are in the strain of GWOSC, and an analysis that works finds them. Virgo's strain has none.

    Parameters
    ----------
    run : str, float, Time or GPSTime
        Name of the run, S5, S6, O1, O2, O3, O3a, O3b or O4a, or a GPS time in it.

    Returns
    -------
    QTable
        A row for each injection, with ``name``; ``freq``, ``f1dot``, ``alpha``, ``delta`` and ``phi0`` at ``reftime``,
        a GPS time in the solar-system barycentre, which differs between injections; for runs with injections in
        binaries the orbit ``asini``, ``period``, ``tp``, ``ecc``, ``argp``, with asini = 0 for isolated ones; ``h0``,
        ``cosi``, ``psi``. Frequencies and phases are the wave's, not the rotation's. `Doppler.from_row` makes the
        template of a row. meta: ``run``, ``ephemeris``, ``start`` and ``end`` of the injections (GPS s), ``source``.

    Raises
    ------
    ValueError
        If there is no such run, or no run at this time.

    Notes
    -----
    The parameters are those of CWInPy's .par files (Pitkin 2022, J. Open Source Softw. 7, 4568), which hold half of the
    wave's frequency and phase, read by `read_par`; reference times are rounded from MJD to whole GPS seconds. For S5
    they are those of its longest part, s5try3. In O1 to O4a the pulsars 00 to 12 of earlier runs have other h0 only.

    Examples
    --------
    >>> table = jfstat.hardware_injections("O3")
    >>> print(len(table), table["name"][3], table["freq"][3])
    18 PULSAR03 108.8571594 Hz
    """
    from astropy.table import QTable
    from astropy.units import Quantity

    name = run_of(run)
    own, injections = RUNS[name], injections_of(name)
    points, amplitudes = [x.point for x in injections], [x.amplitude for x in injections]
    values: dict[str, list] = {"freq": [x.fkdot[0] for x in points], "f1dot": [x.fkdot[1] for x in points]}
    values |= {column: [getattr(x, column) for x in points] for column in SKY}
    values["reftime"] = [x.reftime for x in points]
    if any(x.orbit is not None for x in points):
        values |= {
            column: [0.0 if x.orbit is None else getattr(x.orbit, column) for x in points] for column in ORBIT_FIELDS
        }
    values |= {column: [getattr(x, column) for x in amplitudes] for column in AMPLITUDE_FIELDS}
    columns = {column: np.array([float(x) for x in own_values]) for column, own_values in values.items()}
    meta = {"run": name, "ephemeris": own.ephemeris, "start": own.start, "end": own.end, "source": SOURCE}
    units = {column: "s" if column == "reftime" else unit(column) for column in columns}
    table = {column: Quantity(x, units[column]) if units[column] else x for column, x in columns.items()}
    return QTable({"name": [x.name for x in injections], **table}, meta=meta)


def run_of(run: str | TimeLike) -> str:
    """Return the name of a run that is given by its name or by a GPS time in it.

    Raises
    ------
    ValueError
        If there is none.
    """
    if isinstance(run, str) and not run.strip().replace(".", "", 1).isdigit():
        by_name = {name.lower(): name for name in RUNS}
        if run.lower() not in by_name:
            raise ValueError(f"run must be one of {', '.join(RUNS)}, or a GPS time, not {shown(run)}.")
        return by_name[run.lower()]
    time = float(gps_time(run, "run"))
    found = run_between(time, time)
    if found is None:
        known = ", ".join(f"{name} (GPS {own.start} to {own.end})" for name, own in RUNS.items())
        raise ValueError(f"run is GPS {time:.10g}, which is in no run with known injections: there are {known}.")
    return found


def run_between(start: float, end: float) -> str | None:
    """Return the name of the run that holds all data between two GPS times, None if there is none."""
    return next((name for name, own in RUNS.items() if own.start <= start <= end <= own.end), None)


def injections_of(run: str) -> list[Injection]:
    """Return the injections of a run by its name in `RUNS`."""
    column = f"h0_{RUNS[run].amplitudes}"
    return [_injection(row, column) for row in _rows() if row[column]]


@lru_cache(maxsize=1)
def _rows() -> list[dict[str, str]]:
    """Return the lines of the table, by its columns."""
    text = files("jfstat.pulsars").joinpath("hardware_injections.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _injection(row: dict[str, str], column: str) -> Injection:
    """Return the injection of a line of the table, with the amplitude in a column."""
    value = {name: float(word) for name, word in row.items() if name != "name" and word}
    sky, spins = (value["alpha"], value["delta"]), [value["freq"], value["f1dot"]]
    orbit = Orbit(*(value[name] for name in ORBIT_FIELDS)) if "asini" in value else None
    point = Doppler(*sky, spins, gps_time(int(row["reftime"]), "reftime"), orbit)
    return Injection(row["name"], point, Amplitude(value[column], value["cosi"], value["psi"], value["phi0"]))
