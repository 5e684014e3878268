"""Reading of lists of known lines."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jfstat import kinds
from jfstat.files import text_of_named
from jfstat.public import public
from jfstat.validation import band_width

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.validation import FrequencyLike

DETECTORS = ("H1", "H2", "L1", "V1", "G1", "K1", "I1")
"""Detectors whose prefixes are searched for in the names of files."""
SINGLE, COMB, SCALING_COMB = 0, 1, 2
"""Types of the LIGO-Virgo-KAGRA lists: one line, a comb, a comb whose width grows with the harmonic."""
MOST_HARMONICS = 100_000
"""Largest number of harmonics of a comb; more are taken for a mistake."""


class Row(NamedTuple):
    """A line or comb as a list states it; frequencies and widths in Hz."""

    freq: float
    kind: int
    offset: float
    first: int
    last: int
    left: float
    right: float
    name: str


@public(path=kinds.paths, detector=kinds.text)
def read_lines(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    detector: str | None = None,
    *,
    extra_width: FrequencyLike = 0.0,
) -> QTable:
    """Read lists of known instrumental lines and combs.

    These formats are distinguished by their columns; empty lines, a row of names, and lines that start with ``#`` or
    ``%`` are skipped:

    - LIGO-Virgo-KAGRA's lists of identified lines, published with the data releases of GWOSC (LIGO-T2100200 for O3;
      ``lalpulsar.lineFileParser``) and also read by TDFstat and polgraw-allsky: frequency or spacing of a comb, type (0
      line, 1 comb, 2 comb whose width grows with the harmonic), offset, first and last visible harmonic, left and right
      width, comments; separated by commas, or by blanks as in the lists of O1 and O2;
    - LIGO-Virgo-KAGRA's lists of unidentified lines: frequency and comments, separated by a comma. They have no widths:
      see `extra_width`;
    - lists for lalpulsar_SFTclean (``SFTClean.c``): start frequency, spacing, number of lines, left and right width,
      comment, separated by blanks.

    Frequencies and widths are in Hz. Harmonic k of a comb lies at offset + k spacing, k times as wide if the type is 2.

    Parameters
    ----------
    path : str, path or sequence of these
        One or several files.
    detector : str, optional
        Two-character prefix. By default it is taken from each file's name, such as "L1" from "O3L1lines.csv".
    extra_width : float or Quantity
        Width added to every line on both sides, Hz.

    Returns
    -------
    QTable
        A row for each line and each harmonic of a comb, by detector and frequency: ``detector``; ``freq``, the nominal
        frequency; ``fmin`` and ``fmax``, the ends of the affected band; ``left_width`` and ``right_width`` (Hz); and
        ``name``, the comment of the list.

    Raises
    ------
    OSError
        If a file cannot be read.
    ValueError
        If a file is in none of these formats, a value is out of range, or the detector is not known.
    """
    from astropy.table import QTable
    from astropy.units import Quantity

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise ValueError("path is an empty sequence: name at least one list of lines.")
    extra = band_width(extra_width, "extra_width")
    detectors: list[str] = []
    harmonics: list[tuple[float, float, float, str]] = []
    for file in map(Path, paths):
        own = [harmonic for row in _rows(file) for harmonic in _harmonics(row)]
        detectors += [detector or detector_in(file)] * len(own)
        harmonics += own
    freq, left, right = (np.array([x[i] for x in harmonics], np.float64) for i in range(3))
    left, right = left + extra, right + extra
    order = np.lexsort((freq, np.array(detectors, dtype=str)))
    columns: dict[str, Any] = {"detector": np.array(detectors, dtype="U2")[order]}
    values = {"freq": freq, "fmin": freq - left, "fmax": freq + right, "left_width": left, "right_width": right}
    columns |= {name: Quantity(x[order], "Hz") for name, x in values.items()}
    columns["name"] = np.array([x[3] for x in harmonics], dtype=str)[order]
    return QTable(columns, meta={"files": [str(file) for file in paths]})


def detector_in(path: Path) -> str:
    """Return the detector whose prefix a file's name holds.

    Raises
    ------
    ValueError
        If the name holds no prefix, or several.
    """
    found = {name for name in DETECTORS if name in path.name}
    if len(found) != 1:
        what = "several detectors" if found else f"none of {', '.join(DETECTORS)}"
        raise ValueError(f"list of lines {str(path)!r} has {what} in its name: give the lines' detector by detector=.")
    return found.pop()


def _rows(path: Path) -> list[Row]:
    """Return the rows of a list in any of the formats."""
    otherwise = "is not text: name another file."
    text = text_of_named(path, otherwise, name=f"list of lines {str(path)!r}", encoding="utf-8-sig")
    rows: list[Row] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        # names of columns come before the first row
        if not line or line[0] in "#%" or (not rows and not re.match(r"[-+.\d]", line)):
            continue
        row = _row(line)
        if row is None:
            raise ValueError(
                f"list of lines {str(path)!r}: line {number}, {line[:60]!r}, has no known format: see "
                "jfstat.read_lines."
            )
        problem = _problem(row)
        if problem:
            raise ValueError(f"list of lines {str(path)!r}: in line {number} {problem}; correct the list.")
        rows.append(row)
    if not rows:
        raise ValueError(f"list of lines {str(path)!r} holds no lines: name another file.")
    return rows


def _row(line: str) -> Row | None:
    """Parse one row; return None if it has no known format."""
    by_commas = "," in line
    words = [word.strip() for word in (line.split(",", 7) if by_commas else line.split(None, 7))]
    try:
        if by_commas and not re.match(r"[-+.\d]", words[1]):  # a frequency and comments, which may hold commas
            return Row(float(words[0]), SINGLE, 0.0, 1, 1, 0.0, 0.0, line.partition(",")[2].strip())
        if len(words) >= 7:
            freq, kind, offset, first, last, left, right = (float(word) for word in words[:7])
            name = words[7] if len(words) > 7 else ""
            return Row(freq, _whole(kind), offset, _whole(first), _whole(last), left, right, name)
        if len(words) == 6 and not by_commas:
            start, spacing, count, left, right = (float(word) for word in words[:5])
            return Row(spacing, COMB, start, 0, _whole(count) - 1, left, right, words[5])
        if len(words) == 1:
            return Row(float(words[0]), SINGLE, 0.0, 1, 1, 0.0, 0.0, "")
    except ValueError:
        return None
    return None


def _whole(x: float) -> int:
    if x != round(x):
        raise ValueError
    return int(x)


def _problem(row: Row) -> str | None:
    """Describe what is wrong with a row; None if it is valid."""
    numbers = [row.freq, row.offset, row.left, row.right]
    if not np.isfinite(numbers).all():
        return "a value is not finite"
    if row.kind not in (SINGLE, COMB, SCALING_COMB):
        return f"the type is {row.kind}, not 0, 1 or 2"
    if row.left < 0 or row.right < 0:
        return "a width is negative"
    if row.kind != SINGLE and not 0 <= row.last - row.first < MOST_HARMONICS:
        return f"a comb runs from harmonic {row.first} to {row.last}"
    if not _harmonics(row)[0][0] >= 0:
        return "the frequency is negative"
    return None


def _harmonics(row: Row) -> list[tuple[float, float, float, str]]:
    """Return frequency, left and right width and name of each harmonic; a single line has one."""
    if row.kind == SINGLE:
        return [(row.offset + row.freq, row.left, row.right, row.name)]
    scale = [k if row.kind == SCALING_COMB else 1 for k in range(row.first, row.last + 1)]
    return [
        (row.offset + k * row.freq, x * row.left, x * row.right, row.name)
        for k, x in zip(range(row.first, row.last + 1), scale, strict=True)
    ]
