"""Reading and checking the headers of the SFTs in a file.

The format is defined in LIGO-T040164, versions 2 and 3. Together with the checks of checksum and data in ``blocks.py``,
the checks here refuse what LALSuite's validator (``SFTReferenceLibrary.c:ValidateSFTFile``) and its reader
(``SFTcatalog.c:XLALSFTdataFind``) refuse. The checks accept more detectors: the validator refuses I1, E2, E3, C2, C4
and users' own detectors, and the reader refuses C2, C4 and users' own detectors.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection
from io import FileIO
from pathlib import Path

import numpy as np

from jfstat.files import opened, stamp_of
from jfstat.geometry.detectors import DETECTORS
from jfstat.sfts.windows import window_name

# version, GPS s and ns, Tsft, first bin, number of bins, CRC64, detector, window, bytes of comment
_FIELDS = "diidiiQ2sHi"
LITTLE_ENDIAN = struct.Struct("<" + _FIELDS)
_BIG_ENDIAN = struct.Struct(">" + _FIELDS)
HEADER_BYTES = 48
CRC_BYTES = slice(32, 40)
MAPPED_BYTES = 32 << 20
BIN_BYTES = 8
LONGEST = 1e9
"""Longest Tsft, s: no detector observed for longer."""

TABLE = np.dtype(
    [
        ("version", "f8"),
        ("gps", "i8"),
        ("gps_ns", "i8"),
        ("tsft", "f8"),
        ("first_bin", "i8"),
        ("n_bins", "i8"),
        ("crc", "u8"),
        ("detector", "S2"),
        ("window", "i8"),
        ("comment_bytes", "i8"),
        ("big_endian", "?"),
        ("offset", "i8"),  # of the header in its file, bytes
        ("file", "i8"),  # the file's index in the caller's list
        ("stamp", "u8"),  # `stamp_of` the file
    ]
)

# dtype of a header in a file: the struct's fields are the table's first columns, in the same order
_HEADER = np.dtype(
    [
        (name, code.replace("2s", "S2"))
        for name, code in zip(TABLE.names or (), re.findall(r"\d?[a-zA-Z]", _FIELDS), strict=False)
    ]
)


def bad_file(path: Path, problem: str, gps: int | None = None) -> ValueError:
    """Return the error for a file that is not valid: one sentence with its name and, if known, the time of the SFT."""
    when = "" if gps is None else f"at GPS {gps} "
    return ValueError(f"SFT file {str(path)!r}: {when}{problem}; replace the file or leave it out.")


def open_file(path: Path) -> FileIO:
    """Open a regular file for reading, unbuffered.

    Raises
    ------
    OSError
        If the file cannot be opened.
    """
    try:
        return opened(path)
    except OSError as error:
        raise type(error)(str(bad_file(path, f"it cannot be opened ({error.strerror})"))) from error


def reopened(path: Path, sft: np.void) -> FileIO:
    """Open the file of an SFT once more, after its headers were read.

    Files cannot all be kept open: there may be more than a process may have. The file is checked to be the one whose
    headers were read, by `stamp_of` and, because files that are replaced again and again may get the same stamp, by the
    header and checksum of this SFT.

    Parameters
    ----------
    path : Path
    sft : row of `TABLE`

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If the file was replaced or changed.
    """
    file = open_file(path)
    layout = _BIG_ENDIAN if sft["big_endian"] else LITTLE_ENDIAN
    file.seek(int(sft["offset"]))
    raw = file.read(HEADER_BYTES)
    fields = layout.unpack(raw) if len(raw) == HEADER_BYTES else ()
    # the window is not compared: it is set to 0 in version 2, where it is padding
    if stamp_of(file) != sft["stamp"] or fields[:8] != tuple(sft.item()[:8]):
        file.close()
        raise bad_file(path, "it was replaced or changed while it was read")
    return file


def scan_file(path: Path, index: int = 0, own: Collection[str] = ()) -> np.ndarray:
    """Read the headers of all SFTs in a file, without their data.

    Parameters
    ----------
    path : Path
    index : int
        Value for the column ``file``.
    own : collection of str
        Prefixes of users' own detectors, which are valid too.

    Returns
    -------
    (n_sfts,) ndarray of `TABLE`
        Headers in the order of the file. Windows of version 2, where the field is padding, are 0 (unknown).

    Raises
    ------
    ValueError
        If headers, comments or length show that the file is not a valid SFT file.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise bad_file(path, "it is empty")
        table = _scan_alike(file, path, size)
        if table is None:
            rows, offset = [], 0
            while offset < size:
                header, big_endian = _read_header(file, path, offset, size)
                rows.append((*header, big_endian, offset, 0, 0))
                *_, n_bins, _, _, _, comment_bytes = header
                offset += HEADER_BYTES + comment_bytes + BIN_BYTES * n_bins
            table = np.array(rows, TABLE)
        stamp = stamp_of(file)
    table["file"], table["stamp"] = index, stamp
    problem = header_problem(table, own)
    if problem:
        raise bad_file(path, *problem)
    table["window"][table["version"] == 2] = 0
    return table


def read_evenly(file: FileIO, first: int, step: int, n: int, size: int) -> np.ndarray | None:
    """Read `size` bytes at `first` and after each of n - 1 steps: (n, size) uint8; None if the file ends before.

    Parts of the file are memory-mapped one at a time, because all pages that a map touches count as the process's
    memory.
    """
    if os.fstat(file.fileno()).st_size < first + (n - 1) * step + size:
        return None
    raw = np.empty((n, size), np.uint8)
    at_once = max(1, MAPPED_BYTES // step)
    for i in range(0, n, at_once):
        m = min(at_once, n - i)
        mapped = np.memmap(file, np.uint8, "r", first + i * step, ((m - 1) * step + size,))
        raw[i : i + m] = np.lib.stride_tricks.as_strided(mapped, (m, size), (step, 1))
    return raw


def _scan_alike(file: FileIO, path: Path, size: int) -> np.ndarray | None:
    """Read all headers of a file of many SFTs with equal sizes and comments at once; None for other files."""
    header, big_endian = _read_header(file, path, 0, size)
    *_, n_bins, _, _, _, comment_bytes = header
    step = HEADER_BYTES + comment_bytes + BIN_BYTES * n_bins
    if size == step or size % step:
        return None
    heads = read_evenly(file, 0, step, size // step, HEADER_BYTES + comment_bytes)
    if heads is None:
        return None
    read = np.ascontiguousarray(heads[:, :HEADER_BYTES]).view(_HEADER.newbyteorder(">" if big_endian else "<"))[:, 0]
    alike = (read["version"] == header[0]) & (read["n_bins"] == n_bins) & (read["comment_bytes"] == comment_bytes)
    if not (alike.all() and (heads[:, HEADER_BYTES:] == heads[0, HEADER_BYTES:]).all()):
        return None
    table = np.zeros(len(read), TABLE)
    for name in _HEADER.names or ():
        table[name] = read[name]
    table["big_endian"] = big_endian
    table["offset"] = step * np.arange(len(read))
    return table


def _read_header(file: FileIO, path: Path, offset: int, size: int) -> tuple[tuple, bool]:
    """Read the header at `offset`: its fields, and whether it is big-endian.

    The header is checked enough to find the next one.
    """
    file.seek(offset)
    raw = file.read(HEADER_BYTES)
    if len(raw) < HEADER_BYTES:
        raise bad_file(path, f"it is truncated or has trailing bytes: byte {offset} starts no complete header")
    # the version tells the byte order
    big_endian = LITTLE_ENDIAN.unpack(raw)[0] not in (2.0, 3.0)
    header = (_BIG_ENDIAN if big_endian else LITTLE_ENDIAN).unpack(raw)
    version, gps, _, _, _, n_bins, _, _, _, comment_bytes = header
    if version not in (2.0, 3.0):
        raise bad_file(path, f"byte {offset} starts no SFT of version 2 or 3")
    if comment_bytes < 0 or comment_bytes % 8:
        raise bad_file(path, f"the comment's length {comment_bytes} is not 0 or a positive multiple of 8 bytes", gps)
    if n_bins <= 0:
        raise bad_file(path, f"the number of bins {n_bins} is not positive", gps)
    if offset + HEADER_BYTES + comment_bytes + BIN_BYTES * n_bins > size:
        raise bad_file(path, "the data are truncated", gps)
    comment = file.read(comment_bytes)
    if comment and comment[-1]:
        raise bad_file(path, "the comment does not end with a null byte", gps)
    if b"\0" in comment.rstrip(b"\0"):
        raise bad_file(path, "the comment goes on after a null byte", gps)
    return header, big_endian


def header_problem(table: np.ndarray, own: Collection[str] = ()) -> tuple[str, int] | None:
    """Describe what is wrong with the headers of one file, and at which GPS second; None if they are valid.

    `own` are prefixes of users' own detectors. Each header must be valid by itself, and the SFTs must be of one kind
    and in time order.
    """
    known = sorted({*DETECTORS, *own})
    nanoseconds, tsft = table["gps_ns"], table["tsft"]
    known_windows = [code for code in np.unique(table["window"]) if _is_window(int(code))]
    checks = [
        (table["gps"] < 0, "the start is negative"),
        ((nanoseconds < 0) | (nanoseconds > 999_999_999), "the nanoseconds are not in 0 to 999999999"),
        (~((tsft > 0) & np.isfinite(tsft)), "Tsft is not positive"),
        (tsft > LONGEST, f"Tsft is longer than {LONGEST:g} s"),
        (table["first_bin"] < 0, "the first bin is negative"),
        (
            ~np.isin(table["detector"], np.array(known, "S2")),
            f"the detector is none of {', '.join(known)}, and no Detector is given by its prefix",
        ),
        # in version 2 this field is padding
        ((table["version"] == 3) & ~np.isin(table["window"], known_windows), "the window code is unknown"),
    ]
    for column, what in (
        ("version", "version"),
        ("tsft", "Tsft"),
        ("first_bin", "first bin"),
        ("n_bins", "number of bins"),
        ("detector", "detector"),
        ("window", "window"),
    ):
        checks.append((np.append(False, table[column][1:] != table[column][:-1]), f"the {what} changes"))
    checks.append((np.append(False, np.diff(start_ns(table)) <= 0), "the start is not after that of the SFT before"))
    for wrong, problem in checks:
        if np.any(wrong):
            return problem, int(table["gps"][np.argmax(wrong)])
    return None


def start_ns(table: np.ndarray) -> np.ndarray:
    """Return start times, (n_sfts,) int64, in GPS nanoseconds."""
    return table["gps"] * 10**9 + table["gps_ns"]


def _is_window(code: int) -> bool:
    try:
        window_name(code)
    except ValueError:
        return False
    return True
