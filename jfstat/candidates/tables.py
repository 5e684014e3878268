"""From candidates as arrays to a QTable, and from that to files and back: ECSV, HDF5, ComputeFstatistic_v2's text."""

from __future__ import annotations

import errno
import io
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.atomic import replacing
from jfstat.templates import ORBIT_FIELDS, Doppler, Orbit

if TYPE_CHECKING:
    from astropy.table import QTable

UNITS = {name: "rad" for name in ("alpha", "delta", "argp", "psi", "phi0")} | dict.fromkeys(
    ("asini", "period", "tp"), "s"
)
"""Units of the columns that have one, but for the frequency and its derivatives."""
TEXT_ORBIT_COLUMNS = ("asini", "period", "tp", "argp", "ecc")
"""The order in which ComputeFstatistic_v2 writes orbits."""
HDF5_PATH = "candidates"
"""Name of the table in an HDF5 file."""
HDF5_SUFFIXES = (".hdf5", ".h5")


def column_unit(name: str) -> str:
    """Unit of a column of candidates or of their errors, as astropy spells it; "" for none."""
    name = name.removesuffix("_error")
    if name == "freq":
        return "Hz"
    derivative = re.fullmatch(r"f(\d+)dot", name)
    if derivative:
        k = int(derivative[1])
        return "Hz / s" if k == 1 else f"Hz / s{k}"
    return UNITS.get(name, "")


def candidate_columns(found: Doppler) -> dict[str, np.ndarray]:
    """Columns of a stack of templates, (k,) float64: ``freq``, ``f1dot``, ..., ``alpha``, ``delta``, an orbit's."""
    fkdot = np.asarray(found.fkdot)
    columns = {"freq": fkdot[:, 0]}
    columns |= {f"f{k}dot": fkdot[:, k] for k in range(1, fkdot.shape[1])}
    columns |= {"alpha": np.asarray(found.alpha), "delta": np.asarray(found.delta)}
    if found.orbit is not None:
        columns |= {name: np.asarray(getattr(found.orbit, name)) for name in ORBIT_FIELDS}
    return columns


def bank_from_table(table: Any) -> Doppler:
    """A stack of templates from a table with columns ``alpha``, ``delta``, and any of ``f1dot``, ..., and an orbit's.

    Raises
    ------
    ValueError
        If a column is missing, or has another unit or values that no template has.
    """
    orders = [int(found[1]) for found in (re.fullmatch(r"f(\d+)dot", name) for name in table.colnames) if found]
    spins = [plain_column(table, f"f{k}dot") for k in range(1, max(orders, default=0) + 1)]
    freq = plain_column(table, "freq") if "freq" in table.colnames else np.zeros(len(table))
    orbit = None
    if "asini" in table.colnames:
        given = {name: plain_column(table, name) for name in ORBIT_FIELDS if name in table.colnames}
        missing = [name for name in ("period", "tp") if name not in given]
        if missing:
            raise ValueError(f"table lacks the column {missing[0]!r} of its orbits: add it.")
        orbit = Orbit(**given)
    alpha, delta = plain_column(table, "alpha"), plain_column(table, "delta")
    return Doppler(alpha, delta, np.stack([freq, *spins], axis=-1), table.meta.get("reftime"), orbit)


def in_units(columns: dict[str, np.ndarray], meta: dict[str, Any]) -> QTable:
    """A table of columns with the units of their names; see `column_unit`."""
    from astropy.table import QTable
    from astropy.units import Quantity

    units = {name: column_unit(name) for name in columns}
    return QTable({name: Quantity(x, units[name]) if units[name] else x for name, x in columns.items()}, meta=meta)


def write_candidates(table: QTable, path: str | os.PathLike) -> Path:
    """Write a table of candidates; the file's suffix says how.

    Parameters
    ----------
    table : QTable
        From `search`, or with such columns; units are converted.
    path : str or path
        ``.ecsv``: astropy's text format, which keeps everything. ``.hdf5`` or ``.h5``: the same in HDF5, if h5py is
        installed. Anything else: the text format of ComputeFstatistic_v2, columns ``freq alpha delta f1dot f2dot f3dot
        2F [log10BSGL] [2F_H1 ...] [asini period tp argp ecc]``, comment lines with ``%%``, last line ``%DONE``.

    Returns
    -------
    Path
        The file, written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    ValueError
        If columns are missing or have other units, h5py is missing, or the file cannot be written.
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
        raise ValueError(f"path {str(path)!r} cannot be written ({error.strerror}): choose another.") from error
    return path


def check_writable(path: str | os.PathLike) -> None:
    """Raise what `write_candidates` would, before the work that leads to the table is done.

    Raises
    ------
    ValueError
        If the suffix asks for h5py and it is missing, or no file can be written there.
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
        raise ValueError(f"path {str(path)!r} cannot be written ({error.strerror}): choose another.") from error


def read_candidates(path: str | os.PathLike) -> QTable:
    """Read a table of candidates that `write_candidates` or ComputeFstatistic_v2 wrote.

    Parameters
    ----------
    path : str or path
        The suffix says how to read it, as in `write_candidates`.

    Returns
    -------
    QTable
        With units. Text files keep reftime, start, tspan, detectors, ephemeris, version and counts as far as their
        comments tell.

    Raises
    ------
    ValueError
        If the file cannot be read, is incomplete or is not of its format.
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
        raise ValueError(
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


# meta of the table and how ComputeFstatistic_v2's comments, or, where it has none, ours, name it
_COMMENTS = {
    "version": ("jfstat", str),
    "ephemeris": ("ephemeris", str),
    "start": ("GPS starttime", int),
    "tspan": ("Total time spanned", float),
    "reftime": ("Pulsar-params refTime", int),
    "n_templates": ("templates", int),
    "n_twoF": ("values of 2F", int),
}


def plain_column(table: Any, name: str) -> np.ndarray:
    """Column without its unit, float64; zeros where spin-downs are absent, NaN for masked values."""
    if name not in table.colnames:
        if re.fullmatch(r"f\d+dot", name):
            return np.zeros(len(table))
        raise ValueError(f"table lacks the column {name!r}: add it, or, to write it, use .ecsv.")
    column, unit = table[name], column_unit(name)
    try:
        if getattr(column, "mask", None) is not None:
            column = column.astype(np.float64).filled(np.nan)
        if unit and getattr(column, "unit", None) is not None:
            return np.asarray(column.to_value(unit), np.float64)
        return np.asarray(getattr(column, "value", column), np.float64)
    except (TypeError, ValueError) as error:  # astropy's UnitConversionError is both
        raise ValueError(f"table has a column {name!r} that is not in {unit}: convert it.") from error


def _text(table: Any) -> str:
    detectors = [name for name in table.colnames if name.startswith("twoF_")]
    robust = ["log10BSGL"] if "log10BSGL" in table.colnames else []
    names = ["freq", "alpha", "delta", "f1dot", "f2dot", "f3dot", "twoF", *robust, *detectors]
    if "asini" in table.colnames:
        names += TEXT_ORBIT_COLUMNS
    beyond = [name for name in table.colnames if re.fullmatch(r"f([4-9]|\d\d+)dot", name)]
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


def _meta_from_comments(comments: list[str]) -> dict[str, Any]:
    meta: dict[str, Any] = {}
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
