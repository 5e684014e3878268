"""SFT files as text, in the format of lalpulsar_dumpSFT: `dump_sfts`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jfstat import kinds
from jfstat.public import public
from jfstat.sfts.blocks import read_batches
from jfstat.sfts.headers import scan_file, start_ns
from jfstat.sfts.patterns import Pattern, find_files
from jfstat.sfts.validate import read_comment
from jfstat.sfts.windows import window_name
from jfstat.validation import is_whole, shown

CONTENTS = ("all", "headers", "bins", "timestamps")


@public(what=kinds.one_of(*CONTENTS))
def dump_sfts(pattern: Pattern, what: str = "all", most: int | None = None) -> Iterator[str]:
    """Describe the SFTs of some files as text, by time, detector and band, in the format of lalpulsar_dumpSFT.

    Parameters
    ----------
    pattern : str, path or sequence of these
        SFT files; see `read_sfts`.
    what : str
        ``"all"``, ``"headers"``, ``"bins"`` (strain/Hz at frequencies in Hz), or ``"timestamps"`` (GPS s and ns).
    most : int, optional
        Number of SFTs to describe at most; by default all.

    Yields
    ------
    str
        Some lines each, without the last line's end.

    Raises
    ------
    OSError
        If a file cannot be read.
    ValueError
        If a file is damaged, or an argument is out of range.

    Examples
    --------
    >>> files = jfstat.write_sfts(sfts, 'data')
    >>> print(next(jfstat.dump_sfts('data/*.sft', 'timestamps')))
    %% Timestamps: seconds nano-seconds
    """
    if most is not None and (not is_whole(most) or most < 1):
        raise ValueError(f"most must be a whole number of at least 1 or None, not {shown(most)}.")
    return _texts(find_files(pattern), what, most)


def _texts(files: list[Path], what: str, most: int | None) -> Iterator[str]:
    """Yield the texts of the SFTs in some files."""
    table = np.concatenate([scan_file(path, i) for i, path in enumerate(files)])
    table = table[np.lexsort([table["first_bin"], table["detector"], start_ns(table)])][:most]
    if what == "timestamps":
        yield "%% Timestamps: seconds nano-seconds"
    for i, sft in enumerate(table):
        if what == "timestamps":
            yield f"{sft['gps']:10d} {sft['gps_ns']:09d}"
        if what in ("all", "headers"):
            yield "\n".join(_header_lines(files[sft["file"]], sft, what == "headers"))
        if what in ("all", "bins"):
            yield "\n".join(_data_lines(files, table[i : i + 1]))


def _header_lines(path: Path, sft: Any, header_only: bool) -> list[str]:
    """Return what the header of an SFT says, with the names of lalpulsar_dumpSFT."""
    tsft = float(sft["tsft"])
    window, _, parameter = window_name(int(sft["window"])).partition(":")
    comment = read_comment(path, sft)
    lines = [
        "%% ----- Header:",
        f"Name:        '{sft['detector'].decode()}'",
        f"epoch:       [{sft['gps']}, {sft['gps_ns']}]",
        f"f0:          {sft['first_bin'] / tsft:.9f}",
        f"deltaF:      {1 / tsft:.9g}",
        *([] if header_only else [f"numBins:     {sft['n_bins']}"]),
        "%% ----- Descriptor:",
        f"Locator:     '{path} : {sft['offset']}'",
        f"SFT version: {int(sft['version'])}",
        f"numBins:     {sft['n_bins']}",
        f"crc64:       {sft['crc']}",
        f"window:      {window}({float(parameter or 0):.10g})",
    ]
    if "\n" in comment:
        return [*lines, "comment: ==========", comment, "end comment: ------"]
    return [*lines, f"comment:     {comment or '<none>'}"]


def _data_lines(files: list[Path], sft: np.ndarray) -> list[str]:
    """Return frequency in Hz, and real and imaginary part in strain/Hz, of each bin of one SFT, as lines."""
    first, n_bins, tsft = int(sft["first_bin"][0]), int(sft["n_bins"][0]), float(sft["tsft"][0])
    ((_, _, values),) = read_batches(files, sft, first, first + n_bins - 1, check_crc=True)
    frequencies = (first + np.arange(n_bins)) / tsft
    lines = ["%% ----- Data x(f):", "%% Frequency f[Hz]     Real(x)           Imag(x) "]
    for f, x in zip(frequencies.tolist(), values[0].tolist(), strict=True):
        lines.append(f"{f:.9f}      {x.real: .6e}  {x.imag: .6e}  ")
    return lines
