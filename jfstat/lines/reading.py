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
from jfstat.public import host
from jfstat.validation import MOST_FREQUENCY, band_width

if TYPE_CHECKING:
    from astropy.table import QTable

    from jfstat.validation import FrequencyLike

DETECTORS = ("H1", "H2", "L1", "V1", "G1", "K1", "I1")
"""Detectors whose prefixes are searched for in the names of files."""
SINGLE, COMB, SCALING_COMB = 0, 1, 2
"""Types of the LIGO-Virgo-KAGRA lists: one line, a comb, a comb whose width grows with the harmonic."""
WITHOUT_WIDTH = (SINGLE, 0.0, 1.0, 1.0, 0.0, 0.0)
"""Values that follow the frequency of a line in `Row`, of a line without width."""
MOST_HARMONICS = 100_000
"""Largest number of harmonics of a comb; more are taken for a mistake."""
NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)"
"""Pattern of a number, in small letters; those that are not finite are refused with a sentence of their own."""


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


@host(path=kinds.paths, detector=kinds.text)
def read_lines(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    detector: str | None = None,
    *,
    extra_width: FrequencyLike = 0.0,
) -> QTable:
    """Read lists of known instrumental lines and combs.

    These formats are distinguished by their columns, and a file holds one of them; empty lines, a row of names at the
    beginning, and lines that start with ``#`` or ``%`` are skipped:

    - LIGO-Virgo-KAGRA's lists of identified lines, published with the data releases of GWOSC (LIGO-T2100200 for O3;
      ``lalpulsar.lineFileParser``) and also read by TDFstat and polgraw-allsky: frequency or spacing of a comb, type (0
      line, 1 comb, 2 comb whose width grows with the harmonic), offset, first and last visible harmonic, left and right
      width, comments; separated by commas, or by blanks as in the lists of O1 and O2;
    - LIGO-Virgo-KAGRA's lists of unidentified lines: frequency and comments, which are free text but not a number,
      separated by a comma. They have no widths: see `extra_width`;
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
    name = f"list of lines {str(path)!r}"
    text = text_of_named(path, "is not text: name another file.", name=name)
    rows: list[Row] = []
    before: list[tuple[int, str]] = []  # lines before the first row: names of columns
    formats: set[str] = set()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line[0] in "#%":
            continue
        if not rows and not re.match(r"[-+.0-9]", line):
            before.append((number, line))
            continue
        found = _values(line)
        if found is None:
            raise ValueError(f"{name}: line {number}, {line[:60]!r}, has no known format: see jfstat.read_lines.")
        formats.add(found[0])
        combs = any("harmonic" in names.lower() for _, names in before)  # names of columns that only combs have
        if len(formats) > 1 or (combs and found[0] != "identified"):
            raise ValueError(f"{name}: line {number}, {line[:60]!r}, has another format than lines before it.")
        problem = _problem(found[1])
        if problem:
            raise ValueError(f"{name}: in line {number} {problem}; correct the list.")
        freq, kind, offset, first, last, left, right = found[1]
        rows.append(Row(freq, int(kind), offset, int(first), int(last), left, right, found[2]))
    if not rows:
        raise ValueError(f"{name} holds no lines: name another file.")
    wrong = [(number, line) for i, (number, line) in enumerate(before) if i or "freq" not in line.lower()]
    if wrong:
        raise ValueError(
            f"{name}: line {wrong[0][0]}, {wrong[0][1][:60]!r}, has neither a line nor names of columns such as "
            "Frequency: put # before comments."
        )
    return rows


def _values(line: str) -> tuple[str, tuple[float, ...], str] | None:
    """Return format, values as in `Row` and comment of a row; None if it has no known format."""
    by_commas = re.match(rf"{NUMBER}\s*,", line, re.ASCII | re.IGNORECASE) is not None
    words = [word.strip() for word in (line.split(",", 7) if by_commas else line.split(None, 7))]
    numeric = [re.fullmatch(NUMBER, word, re.ASCII | re.IGNORECASE) is not None for word in words]
    leading = next((i for i, is_number in enumerate(numeric) if not is_number), len(words))
    values = tuple(float(word) for word in words[: min(leading, 7)])
    if leading >= 7:
        return "identified", values, words[7] if len(words) > 7 else ""
    if by_commas:
        # free text may hold commas and numbers, but a row with a comb's fields is none
        if leading == 1 and (len(words) < 7 or sum(numeric[1:7]) < 3):
            return "unidentified", (values[0], *WITHOUT_WIDTH), line.partition(",")[2].strip()
    elif leading == len(words) == 1:
        return "unidentified", (values[0], *WITHOUT_WIDTH), ""
    elif leading == 5 and len(words) > 5:
        start, spacing, count, left, right = values
        return "SFTclean", (spacing, COMB, start, 0.0, count - 1, left, right), line.split(None, 5)[5]
    return None


def _problem(values: Sequence[float]) -> str | None:
    """Describe what is wrong with the values of a row; None if they are valid."""
    freq, kind, offset, first, last, left, right = values
    if not np.isfinite(values).all():
        return "a value is not finite"
    if kind not in (SINGLE, COMB, SCALING_COMB):
        return f"the type is {kind:g}, not 0, 1 or 2"
    if first != round(first) or last != round(last):
        return f"a comb runs from harmonic {first:g} to {last:g}"
    if left < 0 or right < 0:
        return "a width is negative"
    if kind == SINGLE and not (first == last and first in (0, 1)):
        return f"a line of type 0 has the harmonics {first:.0f} to {last:.0f}, as a comb of type 1 or 2"
    if kind != SINGLE and not 0 <= last - first < MOST_HARMONICS:
        return f"a comb runs from harmonic {first:.0f} to {last:.0f}"
    if kind != SINGLE and freq == 0 and first != last:
        return "a comb has the spacing 0"
    ends = (1.0,) if kind == SINGLE else (first, last)
    if not all(offset + k * freq >= 0 for k in ends):
        return "the frequency is negative"
    widest = max(left, right) * (max(ends) if kind == SCALING_COMB else 1)
    if kind == SCALING_COMB and first < 0:
        return "a width is negative"
    if widest > MOST_FREQUENCY or any(offset + k * freq > MOST_FREQUENCY for k in ends):
        return f"a frequency or width is beyond {MOST_FREQUENCY:g} Hz"
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
