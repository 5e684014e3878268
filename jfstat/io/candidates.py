"""Read and write files of candidates: ECSV, HDF5, and the text format of ComputeFstatistic_v2; read Weave's FITS."""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.candidates.tables import PlainTable
from jfstat.files import content_of, unreadable
from jfstat.io.lal.candidates import table_from_text, written_text
from jfstat.io.lal.weave import START as FITS_START
from jfstat.io.lal.weave import table_from_weave
from jfstat.public import public

if TYPE_CHECKING:
    from astropy.table import QTable

HDF5_PATH = "candidates"
"""Name of the table in an HDF5 file."""
HDF5_SUFFIXES = (".hdf5", ".h5")
HDF5_SIGNATURE, USER_BLOCK = b"\x89HDF\r\n\x1a\n", 512
"""First bytes of HDF5 content, and number of bytes before it that hold a checksum."""
ECSV_START = "# %ECSV 1.0\n# ---\n"
"""First lines of an ECSV file."""
CHECKSUM = "jfstat-sha256"
"""Name of the checksum, which covers the rest of the file. Files of other programs have none and are not checked."""


@public(table=kinds.table, path=kinds.path)
def write_candidates(table: QTable | PlainTable, path: str | os.PathLike) -> Path:
    """Write a table of candidates in the format that the file's suffix names.

    Parameters
    ----------
    table : QTable or PlainTable
        Table from `search`, or one with such columns; units are converted.
    path : str or path
        ``.ecsv``: astropy's text format, which keeps everything. ``.hdf5`` or ``.h5``: HDF5, which keeps everything too
        and needs h5py. Both hold a checksum for `read_candidates` that other programs ignore. Any other suffix: the
        text format of ComputeFstatistic_v2, with the columns ``freq alpha delta f1dot f2dot f3dot 2F [log10BSGL] [2F_H1
        ...] [asini period tp argp ecc]``, comment lines that start with ``%%``, and a last line ``%DONE``.

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
        content = _ecsv_bytes(_as_qtable(table))
    elif path.suffix.lower() in HDF5_SUFFIXES:
        content = _hdf5_bytes(_as_qtable(table), path)
    else:
        content = written_text(table).encode()
    return written_to(path, content)


def _as_qtable(table: QTable | PlainTable) -> QTable:
    return table.in_units if isinstance(table, PlainTable) else table


@public(path=kinds.path)
def read_candidates(path: str | os.PathLike) -> QTable:
    """Read a table of candidates that `write_candidates`, ComputeFstatistic_v2 or Weave wrote.

    Parameters
    ----------
    path : str or path
        The suffix says how to read it, as in `write_candidates`, except for the FITS files of lalpulsar_Weave and
        WeaveConcat, which may have any other.

    Returns
    -------
    QTable
        Candidates with units. The meta of a text file holds only what its comments say: reftime, start, tspan,
        detectors, ephemeris, version and counts. Of a file of Weave the candidates of all toplists are read, each once,
        with ``mean_twoF_interpolated`` for its ``mean2F`` and, if it has recalculated them, ``mean_twoF``,
        ``mean_twoF_H1``, ...; ``log10BSGL`` and ``log10BSGLtL``; its other statistics and those of single segments are
        not.

    Raises
    ------
    OSError
        If the file does not exist or cannot be read.
    ValueError
        If the file is incomplete or damaged, or not in the format that its suffix names.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in HDF5_SUFFIXES:
        _require_h5py(path)
    try:
        content = content_of(path)
    except OSError as error:
        raise unreadable(path, error) from error
    is_fits = content.startswith(FITS_START)
    try:
        if suffix == ".ecsv":
            return _from_ecsv(content, path)
        if suffix in HDF5_SUFFIXES:
            return _from_hdf5(content, path)
        if is_fits:
            return table_from_weave(content, path)
        return table_from_text(content.decode(), path)
    except Exception as error:  # readers raise whatever they stumble over in a damaged file
        if isinstance(error, ValueError) and str(error).startswith("path "):
            raise
        kind = suffix if suffix in (".ecsv", *HDF5_SUFFIXES) else "ComputeFstatistic_v2 text"
        kind = "Weave FITS" if is_fits else kind
        raise ValueError(f"path {str(path)!r} is not a {kind} file of candidates: name another file.") from error


def _incomplete(path: Path) -> ValueError:
    return ValueError(f"path {str(path)!r} is incomplete or damaged, by its checksum: make it again.")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _ecsv_bytes(table: QTable) -> bytes:
    """Return a table in ECSV, with a checksum among the keys of the header that other programs ignore."""
    text = io.StringIO()
    table.write(text, format="ascii.ecsv")
    start, lines = ECSV_START, text.getvalue().removeprefix(ECSV_START)
    return f"{start}# {CHECKSUM}: {_digest((start + lines).encode())}\n{lines}".encode()


def _from_ecsv(content: bytes, path: Path) -> QTable:
    """Return the table that ECSV text holds; its checksum must be right if it has one."""
    from astropy.table import QTable

    text = content.decode().replace("\r\n", "\n")
    found = re.match(rf"{re.escape(ECSV_START)}# {CHECKSUM}: (.*)\n", text)
    if CHECKSUM in text and (found is None or found[1] != _digest((ECSV_START + text[found.end() :]).encode())):
        raise _incomplete(path)
    return _without_masked_words(QTable.read(io.BytesIO(text.encode()), format="ascii.ecsv"))


def _from_hdf5(content: bytes, path: Path) -> QTable:
    """Return the table that an HDF5 file holds. The checksum is tested first, since HDF5's library may abort on
    damage."""
    import h5py  # pyright: ignore[reportMissingImports]
    from astropy.table import QTable

    block, body = content[:USER_BLOCK], content[USER_BLOCK:]
    ours = block.startswith(CHECKSUM.encode()) or body.startswith(HDF5_SIGNATURE)
    if ours and block != _user_block(body):
        raise _incomplete(path)
    with h5py.File(io.BytesIO(content), "r") as file:
        return QTable.read(file, path=HDF5_PATH, format="hdf5")


def _user_block(body: bytes) -> bytes:
    """Return the user block of an HDF5 file, which holds the checksum of the content that follows."""
    return f"{CHECKSUM}: {_digest(body)}\n".encode().ljust(USER_BLOCK, b"\0")


def _without_masked_words(table: QTable) -> QTable:
    """Return a table with empty words in place of masked ones: astropy confuses empty and missing words in ECSV."""
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
    with h5py.File(buffer, "w", userblock_size=USER_BLOCK) as file:
        table.write(file, path=HDF5_PATH, format="hdf5", serialize_meta=True)
    body = buffer.getvalue()[USER_BLOCK:]
    return _user_block(body) + body
