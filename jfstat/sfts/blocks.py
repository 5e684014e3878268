"""Batch-wise reading of the bins of SFTs from files, with checks of checksums and data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import numpy as np

from jfstat.sfts.crc64 import crc64_rows
from jfstat.sfts.headers import BIN_BYTES, CRC_BYTES, HEADER_BYTES, bad_file, read_evenly, reopened

# memory for reading, in addition to the result; large enough to make NumPy's overhead negligible
BATCH_BYTES = 8 << 20


def read_batches(
    files: list[Path], table: np.ndarray, first_bin: int, last_bin: int, *, check_crc: bool
) -> Iterator[tuple[np.ndarray, int, np.ndarray]]:
    """Read the bins of SFTs, in batches of equally shaped SFTs that fit in some megabytes.

    Parameters
    ----------
    files : list of Path
    table : (n_sfts,) ndarray of `headers.TABLE`
        The SFTs to read.
    first_bin, last_bin : int
        Wanted band, both ends included.
    check_crc : bool
        Whether to read each SFT whole and check its checksum and all its bins, or the wanted bins only.

    Yields
    ------
    rows : (n,) int64 ndarray
        Indices into `table`. Batches are in the order of first bin, then of number of bins.
    start : int
        First bin of `values`.
    values : (n, n_bins) complex64 ndarray
        The wanted bins that the SFTs have, in native byte order; with `check_crc` there may be none.

    Raises
    ------
    ValueError
        If a checksum does not match, a bin is not finite or a file ends early.
    """
    shape = ("first_bin", "n_bins", "comment_bytes", "big_endian")
    order = np.lexsort([table[column] for column in ("offset", "file", *reversed(shape))])
    changes = np.any([np.diff(table[column][order]) != 0 for column in shape], axis=0)
    for alike in np.split(order, 1 + np.flatnonzero(changes)):
        first, n_bins, comment_bytes, big_endian = (table[column][alike[0]].item() for column in shape)
        low = min(max(first_bin - first, 0), n_bins)
        high = max(min(last_bin + 1 - first, n_bins), low)
        data_offset = HEADER_BYTES + comment_bytes
        if check_crc:
            begin, size = 0, data_offset + BIN_BYTES * n_bins
        else:
            begin, size = data_offset + BIN_BYTES * low, BIN_BYTES * (high - low)
        if size == 0:
            continue
        n = max(BATCH_BYTES // size, 1)
        for rows in (alike[i : i + n] for i in range(0, len(alike), n)):
            raw = _read_bytes(files, table[rows], begin, size)
            if check_crc:
                _check_crc(files, table[rows], raw)
                raw = raw[:, data_offset:]
            values = raw.view(">c8" if big_endian else "<c8").astype(np.complex64, copy=False)
            _check_finite(files, table[rows], values)
            yield rows, first + low, values[:, low:high] if check_crc else values


def _read_bytes(files: list[Path], table: np.ndarray, begin: int, size: int) -> np.ndarray:
    """Read `size` bytes of each SFT from `begin` bytes after the start of its header: (n_sfts, size) uint8."""
    steps = np.unique(np.diff(table["offset"]))
    if len(table) > 1 and len(steps) == 1 and steps[0] >= size and len(np.unique(table["file"])) == 1:
        path = files[table["file"][0]]
        with reopened(path, table[0]) as file:
            evenly = read_evenly(file, int(table["offset"][0]) + begin, int(steps[0]), len(table), size)
        if evenly is None:
            raise bad_file(path, "it became shorter while it was read")
        return evenly
    raw = np.empty((len(table), size), np.uint8)
    with ExitStack() as stack:
        file, opened = None, -1
        for row, sft, index, offset in zip(raw, table, table["file"].tolist(), table["offset"].tolist(), strict=True):
            if file is None or index != opened:
                stack.close()
                file, opened = stack.enter_context(reopened(files[index], sft)), index
            file.seek(offset + begin)
            if not filled(file, row):
                raise bad_file(files[index], "it became shorter while it was read")
    return raw


def filled(file: FileIO, row: np.ndarray) -> bool:
    """Fill a row of bytes from a file; return False if the file ends too early.

    Linux reads at most 2 GiB at a time.
    """
    done = 0
    while done < len(row):
        n = file.readinto(row[done:].data)
        if not n:
            return False
        done += n
    return True


def _check_crc(files: list[Path], table: np.ndarray, raw: np.ndarray) -> None:
    """Raise unless whole SFTs have the checksums of their headers; set the checksums' bytes in `raw` to zero."""
    raw[:, CRC_BYTES] = 0
    wrong = crc64_rows(raw) != table["crc"]
    if np.any(wrong):
        bad = table[np.argmax(wrong)]
        raise bad_file(files[bad["file"]], "the checksum does not match the contents", bad["gps"])


def _check_finite(files: list[Path], table: np.ndarray, values: np.ndarray) -> None:
    # a sum is quicker to check: it is not finite if a term is not, or if it overflows, which the second test sorts out
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(values.view(np.float32).sum(axis=1))
    if not np.all(finite):
        finite = np.isfinite(values).all(axis=1)
    if not np.all(finite):
        bad = table[np.argmin(finite)]
        raise bad_file(files[bad["file"]], "a bin is infinite or not a number", bad["gps"])
