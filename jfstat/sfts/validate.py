"""Validation of whole SFT files, as in lalpulsar_SFTvalidate, and reading of their comments."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from jfstat import kinds
from jfstat.public import public
from jfstat.sfts.blocks import read_batches
from jfstat.sfts.headers import HEADER_BYTES, open_file, scan_file


@public(path=kinds.path)
def validate_sfts(path: str | os.PathLike) -> int:
    """Check one SFT file: headers, comments, order of times, checksums, and that all bins are finite.

    The checks are the same as in lalpulsar_SFTvalidate (``SFTReferenceLibrary.c:ValidateSFTFile``), on headers of
    versions 2 and 3 in either byte order.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    int
        Number of SFTs in the file.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a valid SFT file; the message says in one sentence what is wrong, and at which time.

    Examples
    --------
    >>> files = jfstat.write_sfts(sfts, 'data')
    >>> jfstat.validate_sfts(files[0])
    24
    """
    file = Path(path)
    table = scan_file(file)
    first, last = int(table["first_bin"].min()), int((table["first_bin"] + table["n_bins"]).max()) - 1
    for _ in read_batches([file], table, first, last, check_crc=True):
        pass
    return len(table)


def read_comment(path: Path, sft: np.ndarray) -> str:
    """Return the comment of an SFT in a file, given its row in the table of `headers.scan_file`."""
    with open_file(path) as file:
        file.seek(int(sft["offset"]) + HEADER_BYTES)
        return file.read(int(sft["comment_bytes"])).rstrip(b"\0").decode("utf-8", "replace")
