"""Read and write files of templates: tables of jfstat, and the grid files of ComputeFstatistic_v2 and PyFstat."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.candidates.schema import known_column
from jfstat.candidates.tables import AnyTable, in_units, parameter_columns
from jfstat.files import text_of_named
from jfstat.io.candidates import HDF5_SUFFIXES, read_candidates, write_candidates
from jfstat.io.lal.candidates import comment_lines, is_complete, meta_from_comments, with_fixed_orbit
from jfstat.io.lal.weave import begins_as_fits
from jfstat.public import public
from jfstat.signal.parameters import SKY, is_parameter, spin_name

if TYPE_CHECKING:
    from astropy.table import QTable

FULL_GRID = ("freq", "alpha", "delta", "f1dot", "f2dot", "f3dot")
"""Columns of a grid file of ComputeFstatistic_v2's gridType 6 (XLALLoadFullGridFile)."""
WITHOUT_NAMES = {len(SKY): SKY, len(FULL_GRID): FULL_GRID}
"""Columns of files without column names, by their number; sky grids (gridType 3) hold the position alone."""
PYFSTAT = {"F0": "freq", "Alpha": "alpha", "Delta": "delta"} | {f"F{k}": spin_name(k) for k in range(1, 7)}
"""Names of jfstat's columns by PyFstat's."""
COMMENTS = "%#"


@public(path=kinds.path)
def read_templates(path: str | os.PathLike) -> QTable:
    """Read a table of templates, for `fstat_table`, `search` or `refine`.

    Parameters
    ----------
    path : str or path
        ``.ecsv``, ``.hdf5`` and ``.h5``: tables written by `write_candidates`. A FITS file holds candidates of Weave,
        see `read_candidates`. Anything else is text with one row a line and comments after ``%`` or ``#``: a grid file
        of ComputeFstatistic_v2, ``freq alpha delta f1dot f2dot f3dot`` (gridType 6) or ``alpha delta`` (gridType 3, a
        sky grid); a file that it writes for ``--outputGrid`` or ``--outputFstat``; or a grid file of PyFstat's
        SearchOverGridFile. If the last comment before the rows names the columns, in jfstat's or in PyFstat's spelling,
        there may be other columns, such as an orbit's, in any order.

    Returns
    -------
    QTable
        Templates with units (Hz, Hz/s, ..., rad, s), columns in the order of the file. The meta holds what comments of
        ComputeFstatistic_v2 say, such as reftime, and the reference time ``tref`` among the parameters that PyFstat
        writes. Files without comments state none.

    Raises
    ------
    OSError
        If the file does not exist or cannot be read.
    ValueError
        If the file is in another format, such as a .cff file of sources, has no rows, or has comments after ``%%``, as
        ComputeFstatistic_v2 and `write_templates` write them, and no last line ``%DONE``.

    Warns
    -----
    UserWarning
        If the file names columns that are neither parameters nor known results.
    """
    path = Path(path)
    if path.suffix.lower() in (".ecsv", *HDF5_SUFFIXES) or begins_as_fits(path):
        return read_candidates(path)
    if path.suffix.lower() == ".cff":
        raise ValueError(
            f"path {str(path)!r} is a file of sources: give it to jfstat points --gridFile, or make Dopplers."
        )
    lines = text_of_named(path, "is no text file of templates: name another file.").splitlines()
    comments = [line.lstrip(COMMENTS + " ").rstrip() for line in lines if line.startswith(tuple(COMMENTS))]
    rows = [words for line in lines if (words := re.split(rf"[{COMMENTS}]", line)[0].split())]
    if not rows:
        raise ValueError(f"path {str(path)!r} holds no templates: give a row for each.")
    names = _names(lines, len(rows[0]), path)
    uneven = next((row for row, words in enumerate(rows) if len(words) != len(names)), None)
    if uneven is not None:
        raise ValueError(
            f"path {str(path)!r} has {len(rows[uneven])} numbers in its row {uneven}, counted from 0, and {len(names)} "
            "columns: give each template a number for each."
        )
    try:
        values = np.array(rows, np.float64)
    except ValueError as error:
        raise ValueError(f"path {str(path)!r} holds something other than numbers ({error}): correct it.") from None
    columns = with_fixed_orbit({name: values[:, i].copy() for i, name in enumerate(names)}, comments, path)
    meta = meta_from_comments(comments, path)
    if any(line.startswith("%%") for line in lines) and not is_complete(lines):
        raise ValueError(
            f"path {str(path)!r} has comments after %% as ComputeFstatistic_v2 writes them and no last line %DONE, so "
            "that it may be incomplete: make it again, or add the line if all rows are there."
        )
    return in_units(columns, meta or _meta_of_pyfstat(comments, path))


def _meta_of_pyfstat(comments: list[str], path: Path) -> dict[str, float]:
    """Return the reference time among the parameters that PyFstat writes as comments, if there is one.

    Raises
    ------
    ValueError
        If there are several, or one is no number.
    """
    words = [x for line in comments for x in re.findall(r"'tref': ([^,}]*)", line)]
    # a NumPy scalar is written as np.float64(...)
    numbers = [re.fullmatch(r"(?:np\.\w+\()?([0-9.]+(?:[eE][+-]?[0-9]+)?)\)?", word.strip()) for word in words]
    if None in numbers:
        wrong = words[numbers.index(None)][:40]
        raise ValueError(f"path {str(path)!r} gives the reference time {wrong!r} as 'tref', no number: correct it.")
    given = {float(found[1]) for found in numbers if found}
    if len(given) > 1:
        raise ValueError(f"path {str(path)!r} gives several values of tref: leave one.")
    when = given.pop() if given else None
    return {} if when is None else {"reftime": int(when) if when.is_integer() else when}


@public(table=kinds.table, path=kinds.path)
def write_templates(table: AnyTable, path: str | os.PathLike) -> Path:
    """Write a table of templates, for `read_templates`, ComputeFstatistic_v2 or PyFstat.

    Parameters
    ----------
    table : QTable or Table
        Templates, as from `template_table`.
    path : str or path
        ``.ecsv``, ``.hdf5`` and ``.h5`` keep units and meta. Anything else is text as of ComputeFstatistic_v2's
        ``--outputGrid``: columns ``freq alpha delta f1dot f2dot f3dot``, whose units are Hz, rad and Hz/s^k, and those
        of an orbit, named by the last comment before the rows.

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError, ValueError
        If `table` is no table of templates, or a text file is to hold templates with a phase model.

    Examples
    --------
    >>> grid = jfstat.template_table(jfstat.template_bank(1.1, 0.2, (-1e-9, 0, 1e-9)), [100.0, 100.1])
    >>> len(jfstat.read_templates(jfstat.write_templates(grid, 'grid.txt')))
    4
    """
    path = Path(path)
    if path.suffix.lower() in (".ecsv", *HDF5_SUFFIXES):
        return write_candidates(table, path)  # type: ignore[arg-type]
    columns = parameter_columns(table, "table", ("freq", *SKY), "write .ecsv or .hdf5, which keep the column")
    zeros = np.zeros(len(table))
    columns = {name: columns.get(name, zeros) for name in FULL_GRID} | columns
    rows = [" ".join(f"{x:.16g}" for x in row) for row in np.transpose([np.asarray(x) for x in columns.values()])]
    lines = [*comment_lines(table.meta), f"%% {' '.join(columns)}", *rows, "%DONE", ""]
    return written_to(path, "\n".join(lines).encode())


def _names(lines: list[str], n_columns: int, path: Path) -> list[str]:
    """Return the names of the columns, from the last comment before the rows, or by the number of columns."""
    header = ""
    for line in lines:
        if line.strip() and not line.startswith(tuple(COMMENTS)):
            break
        header = line.lstrip(COMMENTS + " ") if line.strip() else header
    words = [re.sub(r"^2F", "twoF", word) for word in header.split()]
    named = [PYFSTAT.get(word, re.sub(r"^twoF(?=[A-Z]\d$)", "twoF_", word)) for word in words]
    if len(named) == n_columns and set(SKY) <= set(named):
        if len(set(named)) < n_columns:
            raise ValueError(f"path {str(path)!r} names a column twice: give each its own name.")
        unknown = [name for name in named if known_column(name) is None]
        if unknown:
            warnings.warn(
                f"path {str(path)!r} has columns that are not known, {', '.join(unknown)}: they are kept, but change "
                "no template; correct their names if they should.",
                stacklevel=4,
            )
        return named
    if any(is_parameter(name) for name in named) and len(named) != n_columns and set(SKY) <= set(named):
        raise ValueError(
            f"path {str(path)!r} names {len(named)} columns and has {n_columns}: give each template a number for each."
        )
    if n_columns not in WITHOUT_NAMES:
        raise ValueError(
            f"path {str(path)!r} has {n_columns} columns without names: give {' '.join(FULL_GRID)}, or alpha delta, or "
            "a comment line with names before the rows."
        )
    return list(WITHOUT_NAMES[n_columns])
