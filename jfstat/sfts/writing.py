"""Writing of SFT files of version 3 with official names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from jfstat import kinds
from jfstat.atomic import made_directory, replacing
from jfstat.files import overwritten
from jfstat.public import host
from jfstat.sfts.blocks import BATCH_BYTES
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts
from jfstat.sfts.crc64 import crc64_rows
from jfstat.sfts.headers import BIN_BYTES, CRC_BYTES, HEADER_BYTES, LITTLE_ENDIAN, TABLE, header_problem
from jfstat.sfts.naming import sft_file_name, span_seconds
from jfstat.sfts.windows import window_code

_INT32_MAX = 2**31 - 1


@host(
    directory=kinds.path,
    merge=kinds.flag,
    comment=kinds.text,
    description=kinds.text,
    name_band=kinds.flag,
    sources=kinds.paths,
)
def write_sfts(
    sfts: SFTs,
    directory: str | os.PathLike,
    merge: bool = True,
    *,
    comment: str = "written by jfstat",
    description: str = "",
    name_band: bool = True,
    sources: str | os.PathLike | Sequence[str | os.PathLike] = (),
) -> list[Path]:
    """Write little-endian SFT files of version 3, which LALSuite reads and its validator accepts.

    Headers and names hold only the prefix of a user's own `Detector`; give the Detector to `read_sfts` again. LALSuite
    reads such files if the prefix is X0 to Z9 and registered (``lalpulsar.RegisterSpecialCWDetector``); its validator
    refuses them.

    Parameters
    ----------
    sfts : SFTs
    directory : str or path
        Directory to write to; it is created if it does not exist.
    merge : bool
        Whether to write one file per detector or one per SFT.
    comment : str
        Text stored in each SFT.
    description : str
        Field of the files' names, ASCII letters and digits; see `naming.sft_file_name`.
    name_band : bool
        Whether names contain the band, so that files of several bands can share a directory. Names by
        lalpulsar_MakeSFTs do not.
    sources : path or sequence of paths
        Files from which the SFTs come, none of which is replaced.

    Returns
    -------
    list of Path
        The files, by detector and time. Each is written under a temporary name and then renamed, replacing a file of
        the same name, so that no file is ever incomplete.

    Raises
    ------
    OSError
        If the directory cannot be made or a file cannot be written.
    ValueError
        If the SFTs, the comment or the description cannot be stored, or a file would replace one of `sources`; nothing
        is then written.

    Examples
    --------
    >>> jfstat.write_sfts(sfts, 'data')[0].name
    'H-24_H1_1800SFT_NBF0099Hz1080W0000Hz1440-1167458304-43200.sft'
    """
    check_sfts(sfts)
    if "\0" in comment:
        raise ValueError(f"comment {comment!r} has a null character, which ends comments in SFT files: remove it.")
    tables = [_headers(sfts, series) for series in sfts]
    directory = Path(directory)
    band = (sfts.first_bin, sfts.n_bins) if name_band else None
    files = [_file_names(series, sfts.tsft, merge, description, band) for series in sfts]
    keep_sources([directory / name for names in files for name in names], sources)
    made_directory(directory, "directory")
    for series, table, names in zip(sfts, tables, files, strict=True):
        blocks = _blocks(series, table, comment)
        if merge:
            with _written(directory / names[0]) as file:
                for batch in blocks:
                    file.write(batch.data)
        else:
            for name, block in zip(names, (block for batch in blocks for block in batch), strict=True):
                with _written(directory / name) as file:
                    file.write(block.data)
    return [directory / name for names in files for name in names]


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """Yield a file from `atomic.replacing`; errors name the file."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        why = error.strerror or error
        raise type(error)(
            f"SFT file {str(path)!r} cannot be written ({why}): make room or choose another directory."
        ) from error


def _headers(sfts: SFTs, series: SFTSeries) -> np.ndarray:
    """Return checked headers (n_sfts,) of `headers.TABLE` for one detector's SFTs, without checksum and comment."""
    data, times = np.asarray(series.data), (np.asarray(series.gps), np.asarray(series.gps_ns))
    if not len(data):
        raise ValueError(f"the SFTs of {series.detector!r} cannot be written: there are none; leave the detector out.")
    table = np.zeros(len(data), TABLE)
    table["version"], table["tsft"], table["first_bin"], table["n_bins"] = 3, sfts.tsft, sfts.first_bin, data.shape[1]
    table["gps"], table["gps_ns"], table["window"] = *times, window_code(series.window)
    table["detector"] = series.detector if len(series.detector) == 2 and series.detector.isascii() else "?"
    problem = header_problem(table, () if series.own_site is None else (series.detector,))
    if problem is None and max(int(times[0].max()), sfts.first_bin, data.shape[1]) > _INT32_MAX:
        problem = "a time, the first bin or the number of bins does not fit in 32 bits", int(times[0].max())
    with np.errstate(over="ignore"):
        finite = np.isfinite(data.astype(np.complex64, copy=False)).all(axis=1)
    if problem is None and not np.all(finite):
        problem = "a bin is infinite, not a number or too large for complex64", int(table["gps"][np.argmin(finite)])
    if problem:
        raise ValueError(
            f"the SFTs of {series.detector!r} cannot be written: at GPS {problem[1]} {problem[0]}; correct the SFTs."
        )
    return table


def merged_names(sfts: SFTs, description: str, band: tuple[int, int]) -> list[str]:
    """Return the names of one file per detector that hold a band of some SFTs: its first bin and number of bins."""
    return [name for series in sfts for name in _file_names(series, sfts.tsft, True, description, band)]


def keep_sources(files: Iterable[Path], sources: str | os.PathLike | Sequence[str | os.PathLike]) -> None:
    """Raise a ValueError if one of the files to be written is one of those from which the SFTs come."""
    lost = overwritten(files, [sources] if isinstance(sources, (str, os.PathLike)) else sources)
    if lost is not None:
        raise ValueError(f"file {str(lost)!r} would be replaced, which is read too: choose another directory.")


def _file_names(
    series: SFTSeries, tsft: float, merge: bool, description: str, band: tuple[int, int] | None
) -> list[str]:
    """Return the names of the files of one detector; the band is left out if it is None."""
    starts = list(zip(np.asarray(series.gps).tolist(), np.asarray(series.gps_ns).tolist(), strict=True))
    spans = [(starts[0], starts[-1])] if merge else [(start, start) for start in starts]
    return [
        sft_file_name(
            series.detector,
            len(starts) // len(spans),
            tsft,
            first[0],
            span_seconds(first, last, tsft),
            description=description,
            band=band,
        )
        for first, last in spans
    ]


def _blocks(series: SFTSeries, table: np.ndarray, comment: str) -> Iterator[np.ndarray]:
    """Yield the bytes of SFTs, (n, n_bytes) uint8, in batches of some megabytes."""
    text = comment.encode()
    # padded to a multiple of 8 bytes with at least one null byte; an empty comment takes no bytes
    text = text.ljust(len(text) // 8 * 8 + 8, b"\0") if text else b""
    data_offset = HEADER_BYTES + len(text)
    data = np.asarray(series.data)
    n_bytes = data_offset + BIN_BYTES * data.shape[1]
    columns: list[str] = ["version", "gps", "gps_ns", "tsft", "first_bin", "n_bins", "crc", "detector", "window"]
    for start in range(0, len(table), max(BATCH_BYTES // n_bytes, 1)):
        part = slice(start, start + max(BATCH_BYTES // n_bytes, 1))
        headers = [LITTLE_ENDIAN.pack(*sft, len(text)) + text for sft in table[part][columns].tolist()]
        blocks = np.empty((len(headers), n_bytes), np.uint8)
        blocks[:, :data_offset] = np.frombuffer(b"".join(headers), np.uint8).reshape(len(headers), data_offset)
        blocks[:, data_offset:].view("<c8")[:] = data[part]
        blocks[:, CRC_BYTES] = crc64_rows(blocks).astype("<u8")[:, np.newaxis].view(np.uint8)
        yield blocks
