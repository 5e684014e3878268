"""Files of candidates: ECSV, HDF5, and the text format of ComputeFstatistic_v2."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.atomic import replacing
from jfstat.candidates.textformat import table_from_text, written_text

if TYPE_CHECKING:
    from astropy.table import QTable

HDF5_PATH = "candidates"
"""Name of the table in an HDF5 file."""
HDF5_SUFFIXES = (".hdf5", ".h5")


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
        content = written_text(table).encode()
    return written_to(path, content)


def written_to(path: Path, content: bytes) -> Path:
    """The path, of which the file now has this content; an OSError of one sentence if it cannot be written."""
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
            return _without_masked_words(QTable.read(path, format="ascii.ecsv"))
        if suffix in HDF5_SUFFIXES:
            return QTable.read(path, path=HDF5_PATH, format="hdf5")
        return table_from_text(path.read_text(), path)
    except OSError as error:
        raise type(error)(
            f"path {str(path)!r} cannot be read ({error.strerror or error}): name another file."
        ) from error
    except (ValueError, KeyError) as error:
        if str(error).startswith("path "):
            raise
        kind = suffix if suffix in (".ecsv", *HDF5_SUFFIXES) else "ComputeFstatistic_v2 text"
        raise ValueError(f"path {str(path)!r} is not a {kind} file of candidates: name another file.") from error


def _without_masked_words(table: QTable) -> QTable:
    """The table with empty words where astropy, which cannot tell them from missing ones in ECSV, has masked them."""
    for name in table.colnames:
        column: Any = table[name]
        if getattr(column, "mask", None) is not None and column.dtype.kind in "US":
            table[name] = np.asarray(column.filled(""))
    return table


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
