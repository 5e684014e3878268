"""Tables of candidates, and their files: ECSV, HDF5, and the text format of ComputeFstatistic_v2."""

from __future__ import annotations

import errno
import io
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import jax
import numpy as np

from jfstat.atomic import replacing
from jfstat.parameters import ORBIT_FIELDS, ORBIT_REQUIRED, SKY, spin_names, spin_order, unit
from jfstat.templates import Doppler, Orbit
from jfstat.times import TimeLike

if TYPE_CHECKING:
    from astropy.table import QTable

TEXT_ORBIT_COLUMNS = ("asini", "period", "tp", "argp", "ecc")
"""The order in which ComputeFstatistic_v2 writes an orbit's columns."""
HDF5_PATH = "candidates"
"""Name of the table in an HDF5 file."""
HDF5_SUFFIXES = (".hdf5", ".h5")


Meta: TypeAlias = dict[str, Any]
"""What a table says about itself, by name: plain values and lists of them, as JSON can hold."""


class AnyTable(Protocol):
    """A table of candidates or templates, as far as it is used: astropy's Table or QTable."""

    @property
    def colnames(self) -> Sequence[str]: ...

    @property
    def meta(self) -> Any: ...  # `Meta`, but astropy's attribute has no type

    def __getitem__(self, item: str | int | slice | np.ndarray, /) -> Any: ...

    def __len__(self) -> int: ...


def parameter_columns(table: AnyTable, what: str = "table", required: Sequence[str] = SKY) -> dict[str, np.ndarray]:
    """The parameters of templates that a table holds, without units, (k,) float64 each.

    Derivatives below the highest, and an orbit's ``ecc`` and ``argp``, are zero where their columns are missing.

    Parameters
    ----------
    table : Table or QTable
    what : str
        Name of the table in errors.
    required : sequence of str
        Columns that must be there. A table with any column of an orbit needs ``asini``, ``period`` and ``tp`` too.

    Raises
    ------
    ValueError
        If a column is missing or has another unit.
    """
    orbital = [name for name in ORBIT_FIELDS if name in table.colnames]
    needed = [*required, *(ORBIT_REQUIRED if orbital else ())]
    missing = [name for name in needed if name not in table.colnames]
    if missing:
        raise ValueError(
            f"{what} lacks the column {missing[0]!r}: candidates need {', '.join(required)}, and asini, period and tp "
            "if they have an orbit."
        )
    names = [*spin_names(table.colnames), *SKY, *(ORBIT_FIELDS if orbital else ())]
    return {name: plain_column(table, name) if name in table.colnames else np.zeros(len(table)) for name in names}


def points_from(columns: Mapping[str, np.ndarray], reftime: TimeLike | None) -> Doppler:
    """A stack of templates, NumPy leaves, from columns as those of `parameter_columns`.

    Raises
    ------
    ValueError
        If a value is none that a template can have.
    """
    fkdot = np.stack([columns[name] for name in spin_names(tuple(columns))], axis=-1)
    orbit = Orbit(*(columns[name] for name in ORBIT_FIELDS)) if "asini" in columns else None
    return jax.tree.map(np.asarray, Doppler(columns["alpha"], columns["delta"], fkdot, reftime, orbit))


def bank_from_table(table: AnyTable) -> Doppler:
    """A stack of templates from a table with columns ``alpha``, ``delta``, and any of ``f1dot``, ..., and an orbit's.

    Raises
    ------
    ValueError
        If a column is missing, or has another unit or values that no template has.
    """
    return points_from(parameter_columns(table), table.meta.get("reftime"))


def in_units(columns: dict[str, np.ndarray], meta: Meta) -> QTable:
    """A table of columns with the units that belong to their names; see `jfstat.parameters.unit`."""
    from astropy.table import QTable
    from astropy.units import Quantity

    units = {name: unit(name) for name in columns}
    return QTable({name: Quantity(x, units[name]) if units[name] else x for name, x in columns.items()}, meta=meta)


def write_candidates(table: QTable, path: str | os.PathLike) -> Path:
    """Write a table of candidates in the format that the file's suffix names.

    Parameters
    ----------
    table : QTable
        From `search`, or with such columns; units are converted.
    path : str or path
        ``.ecsv``: astropy's text format, which keeps everything. ``.hdf5`` or ``.h5``: the same in HDF5, which needs
        h5py. Any other suffix: the text format of ComputeFstatistic_v2, with the columns ``freq alpha delta f1dot f2dot
        f3dot 2F [log10BSGL] [2F_H1 ...] [asini period tp argp ecc]``, comment lines that start with ``%%``, and a last
        line ``%DONE``.

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If columns are missing or have other units, or h5py is missing.
    """
    path = Path(path)
    if path.suffix.lower() == ".ecsv":
        text = io.StringIO()
        table.write(text, format="ascii.ecsv")
        content = text.getvalue().encode()
    elif path.suffix.lower() in HDF5_SUFFIXES:
        content = _hdf5_bytes(table, path)
    else:
        content = _text(table).encode()
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise type(error)(f"path {str(path)!r} cannot be written ({error.strerror}): choose another.") from error
    return path


def check_writable(path: str | os.PathLike) -> None:
    """Check that a table can be written to a path, before the work that leads to the table is done.

    Raises
    ------
    OSError
        If no file can be written there.
    ValueError
        If the suffix asks for h5py and it is missing.
    """
    path = Path(path)
    if path.suffix.lower() in HDF5_SUFFIXES:
        _require_h5py(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise type(error)(f"path {str(path)!r} cannot be written ({error.strerror}): choose another.") from error


def read_candidates(path: str | os.PathLike) -> QTable:
    """Read a table of candidates that `write_candidates` or ComputeFstatistic_v2 wrote.

    Parameters
    ----------
    path : str or path
        The suffix says how to read it, as in `write_candidates`.

    Returns
    -------
    QTable
        With units. Of a text file's meta only what its comments say is known: reftime, start, tspan, detectors,
        ephemeris, version and counts.

    Raises
    ------
    OSError
        If the file does not exist or cannot be read.
    ValueError
        If it is incomplete, or not in the format that its suffix names.
    """
    from astropy.table import QTable

    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in HDF5_SUFFIXES:
        _require_h5py(path)
    try:
        if suffix == ".ecsv":
            return QTable.read(path, format="ascii.ecsv")
        if suffix in HDF5_SUFFIXES:
            return QTable.read(path, path=HDF5_PATH, format="hdf5")
        return _from_text(path.read_text(), path)
    except OSError as error:
        raise type(error)(
            f"path {str(path)!r} cannot be read ({error.strerror or error}): name another file."
        ) from error
    except (ValueError, KeyError) as error:
        if str(error).startswith("path "):
            raise
        kind = suffix if suffix in (".ecsv", *HDF5_SUFFIXES) else "ComputeFstatistic_v2 text"
        raise ValueError(f"path {str(path)!r} is not a {kind} file of candidates: name another file.") from error


def _require_h5py(path: Path) -> None:
    try:
        import h5py  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError(f"path {str(path)!r} needs h5py, which is missing: install it or use .ecsv.") from None


def _hdf5_bytes(table: QTable, path: Path) -> bytes:
    _require_h5py(path)
    import h5py  # pyright: ignore[reportMissingImports]

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        table.write(file, path=HDF5_PATH, format="hdf5", serialize_meta=True)
    return buffer.getvalue()


# keys of the table's meta, and their labels in ComputeFstatistic_v2's comments (our own where it has none)
_COMMENTS = {
    "version": ("jfstat", str),
    "ephemeris": ("ephemeris", str),
    "start": ("GPS starttime", int),
    "tspan": ("Total time spanned", float),
    "reftime": ("Pulsar-params refTime", int),
    "n_templates": ("templates", int),
    "n_twoF": ("values of 2F", int),
}


def plain_column(table: AnyTable, name: str) -> np.ndarray:
    """A column without its unit, float64, NaN for masked values; zeros for a derivative that has no column.

    Raises
    ------
    ValueError
        If there is no such column, or it has another unit.
    """
    if name not in table.colnames:
        if (spin_order(name) or 0) > 0:
            return np.zeros(len(table))
        raise ValueError(f"table lacks the column {name!r}: add it, or, to write it, use .ecsv.")
    column, wanted = table[name], unit(name)
    try:
        if getattr(column, "mask", None) is not None:
            column = column.astype(np.float64).filled(np.nan)
        if wanted and getattr(column, "unit", None) is not None:
            return np.asarray(column.to_value(wanted), np.float64)
        return np.asarray(getattr(column, "value", column), np.float64)
    except (TypeError, ValueError) as error:  # astropy's UnitConversionError is both
        raise ValueError(f"table has a column {name!r} that is not in {wanted}: convert it.") from error


def _text(table: AnyTable) -> str:
    """The table in the format of ComputeFstatistic_v2."""
    detectors = [name for name in table.colnames if name.startswith("twoF_")]
    robust = ["log10BSGL"] if "log10BSGL" in table.colnames else []
    names = ["freq", "alpha", "delta", "f1dot", "f2dot", "f3dot", "twoF", *robust, *detectors]
    if "asini" in table.colnames:
        names += TEXT_ORBIT_COLUMNS
    beyond = [name for name in table.colnames if (spin_order(name) or 0) > 3]
    if beyond and np.any(plain_column(table, beyond[0])):
        raise ValueError(f"table has the column {beyond[0]!r}, which the text format cannot hold: use .ecsv.")
    columns = [plain_column(table, name) for name in names]
    meta = dict(table.meta)
    lines = [f"%% {label} = {meta[key]}" for key, (label, _) in _COMMENTS.items() if meta.get(key) is not None]
    if meta.get("detectors"):
        lines.append(f"%% Loaded SFTs: [ {', '.join(meta['detectors'])} ]")
    lines += ["%% units: Hz, rad, Hz/s, Hz/s^2, ...; orbits: light-s, s, GPS s, rad", "%% columns:"]
    lines.append("%% " + " ".join(name.replace("twoF", "2F") for name in names))
    # repr is the shortest text that reads back as the same number
    lines += [" ".join(map(repr, row)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    return "\n".join([*lines, "%DONE", ""])


def _from_text(text: str, path: Path) -> QTable:
    lines = text.splitlines()
    if not lines or lines[-1].strip() != "%DONE":
        raise ValueError(f"path {str(path)!r} does not end with %DONE: the file is incomplete, make it again.")
    comments = [line.lstrip("% ").rstrip() for line in lines if line.startswith("%%")]
    names = comments[comments.index("columns:") + 1].split()
    rows = [line.split() for line in lines if line.strip() and not line.startswith("%")]
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    columns = {re.sub(r"^2F", "twoF", name): values[:, i].copy() for i, name in enumerate(names)}
    return in_units(columns, _meta_from_comments(comments))


def _meta_from_comments(comments: list[str]) -> Meta:
    meta: Meta = {}
    for key, (label, kind) in _COMMENTS.items():
        for line in comments:
            found = re.fullmatch(rf"{re.escape(label)}\s*=\s*(\S.*)", line)
            if found:
                # ComputeFstatistic_v2 adds units and dates after its numbers
                word = found[1] if kind is str else found[1].split()[0]
                meta[key] = word if kind is str else kind(float(word))
    for line in comments:
        if line.startswith("Loaded SFTs: ["):
            meta["detectors"] = re.findall(r"[A-Z]\d", line)
    return meta
