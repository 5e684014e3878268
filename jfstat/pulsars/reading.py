"""Reading of timing solutions from .par files and catalogues."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from jfstat import kinds
from jfstat.public import public
from jfstat.pulsars.catalogue import catalogue, is_catalogue
from jfstat.pulsars.entries import par_entries
from jfstat.pulsars.pulsar import Pulsar, pulsar_as_read


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
        If the file is not a .par file, an entry is missing or malformed, or P0 or P1 contradicts F0 or F1.
    """
    path = Path(path)
    return pulsar_as_read(par_entries(path), str(path))


@public(paths=kinds.paths)
def read_pulsars(paths: str | os.PathLike | Iterable[str | os.PathLike]) -> list[Pulsar]:
    """Read the timing solutions of many pulsars, from .par files and from tables such as the ATNF catalogue.

    Parameters
    ----------
    paths : str, path or several
        Files or globs such as ``"pulsars/*.par"``; a directory stands for the ``*.par`` in it. Files that end in
        .csv, .tsv or .ecsv are tables with a pulsar in each row and columns named as the parameters of the ATNF
        catalogue (psrcat; Manchester et al. 2005): JNAME, RAJ, DECJ, F0, F1, PEPOCH, BINARY, PB, A1, T0, ...; cells
        without a value are empty or ``*``. So are what psrcat prints and the tables of the catalogue's web page, with
        units, errors and references, whatever their names. Cells are separated by semicolons, commas or tabs, or
        stand under the names of their columns. A table without columns of orbits is of isolated pulsars.

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
    pulsars: dict[str, tuple[Pulsar, Path]] = {}
    for file in files:
        for pulsar in catalogue(file) if is_catalogue(file) else [read_par(file)]:
            if pulsar.name in pulsars:
                both = " and ".join(sorted({str(pulsars[pulsar.name][1]), str(file)}))
                raise ValueError(
                    f"paths hold the pulsar {pulsar.name} twice, in {both}: leave one of its solutions out."
                )
            pulsars[pulsar.name] = pulsar, file
    return [pulsar for pulsar, _ in pulsars.values()]


def _files(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        pattern = os.path.join(glob.escape(pattern), "*.par")
    files = [path] if path.is_file() else [Path(name) for name in sorted(glob.glob(pattern))]
    if not files:
        raise FileNotFoundError(f"no .par file matches {pattern!r}: name files, a directory or a pattern.")
    return files
