"""Reading of timing solutions from .par files and catalogues."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jfstat import kinds
from jfstat.files import text_of
from jfstat.public import public
from jfstat.pulsars.entries import Entries, named, par_entries
from jfstat.pulsars.pulsar import Pulsar, pulsar_of

CATALOGUES = (".csv", ".ecsv", ".tsv")
"""Suffixes of tables of pulsars."""


@public(path=kinds.path)
def read_par(path: str | os.PathLike) -> Pulsar:
    """Read the timing solution of a pulsar from a .par file of TEMPO, TEMPO2 or PINT.

    Supported entries are the position (RAJ, DECJ, or ELONG, ELAT with ECL) with proper motion and POSEPOCH, F0 to F12
    (or P0, P1) at PEPOCH, binaries of the models BT, DD and ELL1 and their variants, glitches, and UNITS TDB or TCB.
    Epochs are MJD in TDB, kept to the nanosecond. ``pulsar.doppler(start, end)`` is the template of the pulsar's
    signal, and ``pulsar.phase_error(start, end)`` gives the phase errors from effects that the template neglects.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Pulsar

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is not a .par file, or an entry is missing or malformed.
    """
    path = Path(path)
    return pulsar_of(par_entries(path), str(path))


@public(paths=kinds.paths)
def read_pulsars(paths: str | os.PathLike | Iterable[str | os.PathLike]) -> list[Pulsar]:
    """Read the timing solutions of many pulsars, from .par files and from tables such as the ATNF catalogue.

    Parameters
    ----------
    paths : str, path or several
        Files or globs such as ``"pulsars/*.par"``; a directory stands for the ``*.par`` in it. Files that end in
        .csv, .tsv or .ecsv are tables with a pulsar in each row and columns named as the parameters of the ATNF
        catalogue (psrcat; Manchester et al. 2005): JNAME, RAJ, DECJ, F0, F1, PEPOCH, BINARY, PB, A1, T0, ...; cells
        without a value are empty or ``*``.

    Returns
    -------
    list of Pulsar
        Pulsars in the order of the files' names, for each pattern, and of the rows in tables.

    Raises
    ------
    FileNotFoundError
        If a pattern matches no file.
    ValueError
        If a file or all rows of a table cannot be parsed, or two pulsars have the same name.

    Warns
    -----
    UserWarning
        If some rows of a table cannot be parsed; they are left out.
    """
    single = isinstance(paths, (str, os.PathLike))
    files = [file for pattern in ([paths] if single else paths) for file in _files(os.fspath(pattern))]  # type: ignore[union-attr]
    pulsars = []
    for file in files:
        pulsars += _catalogue(file) if file.suffix.lower() in CATALOGUES else [read_par(file)]
    names = [pulsar.name for pulsar in pulsars]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"paths hold the pulsar {twice} twice: leave one of its solutions out.")
    return pulsars


def _files(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        pattern = os.path.join(glob.escape(pattern), "*.par")
    files = [path] if path.is_file() else [Path(name) for name in sorted(glob.glob(pattern))]
    if not files:
        raise FileNotFoundError(f"no .par file matches {pattern!r}: name files, a directory or a pattern.")
    return files


def _catalogue(path: Path) -> list[Pulsar]:
    """Return the pulsars of a table."""
    rows = _rows(path)
    missing = [row for row, entries in enumerate(rows) if "NAME" not in entries]
    if missing:
        raise ValueError(f"{path}: row {missing[0] + 1} has no name: give a column JNAME or NAME.")
    pulsars, problems = [], []
    for entries in rows:
        try:
            pulsars.append(pulsar_of(entries, entries["NAME"]))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        text = f"{len(problems)} of {len(rows)} pulsars of {path} cannot be used, the first because of {problems[0]}"
        if not pulsars:
            raise ValueError(text)
        warnings.warn(f"{text} They are left out.", stacklevel=4)
    return pulsars


def _rows(path: Path) -> list[Entries]:
    """Return the entries of each row of a table, as words: epochs have more digits than a float64."""
    from astropy.io import ascii

    lines = [line for line in text_of(path).splitlines() if line.strip()]
    if path.suffix.lower() == ".ecsv":
        lines = [line for line in lines if not line.startswith("#")]
    delimiter = next((x for x in (";", ",", "\t") if lines and x in lines[0]), " ")
    try:
        table = ascii.read(
            lines,
            format="basic",
            delimiter=delimiter,
            fill_values=[],
            converters={"*": [ascii.convert_numpy(str)]},
            fast_reader=False,
            comment="#",
        )
    except (ValueError, ascii.InconsistentTableError) as error:
        raise ValueError(f"path {str(path)!r} is not a table of pulsars ({error}): see read_pulsars.") from None
    columns: Any = table
    # the ATNF catalogue's EDOT is the spin-down luminosity; its ECCDOT is called EDOT in timing programs
    names = {name: "EDOT" if name.upper() == "ECCDOT" else name for name in columns.colnames if name.upper() != "EDOT"}
    rows = [named({own: str(row[name]) for name, own in names.items()}) for row in columns]
    # psrcat writes a line of units below the names
    units = bool(rows) and {rows[0].get(name, "").strip("()").lower() for name in ("F0", "P0")} & {"hz", "s"}
    return rows[1:] if units else rows
