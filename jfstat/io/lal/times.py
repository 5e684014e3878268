"""Read segment lists and files of SFT timestamps."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from jfstat import kinds
from jfstat.files import text_of_named
from jfstat.public import public
from jfstat.signal.times import BILLION

NUMBER = r"(?=.{1,40}$)[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?"
"""Pattern of a decimal number of at most 40 characters."""
EARLIEST, LATEST = Decimal(3 * 10**8), Decimal(2 * 10**9)
"""Range of the GPS times of detectors' data, s: from 1989 to 2043."""


@public(path=kinds.path)
def read_segments(path: str | os.PathLike) -> list[tuple[float, float]]:
    """Read segments from a file in the format of LALSuite's segment lists or of segwizard.

    A line holds a segment's start and end, and possibly its duration or its number of SFTs or both, which are not
    needed (LALSuite: XLALReadSegmentsFromFile), or segwizard's four columns: number of the segment, start, end and
    duration. What follows % or # is a comment. All lines must have the same columns.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    list of (float, float)
        Start and end of each, GPS s, as `prepare` takes them.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not text or holds no segment, or a line is malformed: it has no start and end, a start that is
        not before its end, a time at which no detector ran, or a duration that contradicts its times.
    """
    name = f"path {str(path)!r}"
    text = text_of_named(path, "is not text: give a line 'start end' for each segment, GPS s.")
    rows = _rows(text, name, "has no start and end in GPS s", range(2, 5))
    if not rows:
        raise ValueError(f"{name} holds no segment: give a line 'start end' for each, in GPS s.")
    agree = [_has_duration(numbers) for _, numbers in rows]
    if any(agree) and not all(agree):
        line = rows[agree.index(False)][0]
        raise ValueError(f"{name}, line {line}, has a duration other than end - start, unlike other lines: correct it.")
    if len(rows[0][1]) == 4 and any(agree):
        rows = [(line, numbers[1:]) for line, numbers in rows]
    edges = []
    for line, (start, end, *_) in rows:
        where = f"{name}, line {line}"
        edges.append((float(_gps(start, where)), float(_gps(end, where))))
        if start >= end:
            raise ValueError(f"{where}, has the start {start}, which is not before the end {end}: correct it.")
    return edges


@public(files=kinds.paths, detectors=kinds.sequence)
def read_timestamps(files: Sequence[str | os.PathLike], detectors: Sequence[str]) -> dict[str, np.ndarray]:
    """Read start times of SFTs from files as for Makefakedata_v5.

    A line holds whole seconds and nanoseconds, or seconds as a decimal number, which is read to the nanosecond. What
    follows % or # is a comment. All lines must have the same columns.

    Parameters
    ----------
    files : sequence of path
        One for each detector.
    detectors : sequence of str
        Prefixes, such as ``["H1", "L1"]``.

    Returns
    -------
    dict of str to (n, 2) int64 ndarray
        GPS seconds and nanoseconds by detector, as `simulate_sfts` and `observation` take them.

    Raises
    ------
    ValueError
        If there is no file for a detector or a file is malformed.
    """
    files = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if len(files) != len(detectors):
        raise ValueError(f"files names {len(files)} files for {len(detectors)} detectors: give one for each.")
    return {detector: _timestamps(file) for detector, file in zip(detectors, files, strict=True)}


def _timestamps(file: str | os.PathLike) -> np.ndarray:
    """Return GPS seconds and nanoseconds of a file, (n, 2) int64."""
    name = f"files: {os.fspath(file)}"
    try:
        text = text_of_named(file, "is not text: give lines of GPS s and ns.", "give lines of GPS s and ns.", name)
    except OSError as error:
        raise ValueError(str(error)) from None
    rows = _rows(text, name, "is not GPS seconds, or seconds and nanoseconds", range(1, 3))
    if not rows:
        raise ValueError(f"{name} holds no timestamp: give a line of GPS s, or s and ns, for each.")
    times = []
    for line, (seconds, *ns) in rows:
        where = f"{name}, line {line}"
        time = _gps(seconds, where)
        if ns and (time != int(time) or ns[0] != int(ns[0]) or not 0 <= ns[0] < BILLION):
            raise ValueError(f"{where}, has {seconds} s and {ns[0]} ns: give whole seconds, and ns below 1000000000.")
        times.append((int(time), int(ns[0])) if ns else divmod(round(time * BILLION), BILLION))
    return np.array(times, np.int64)


def _rows(text: str, name: str, otherwise: str, widths: range) -> list[tuple[int, list[Decimal]]]:
    """Return line and numbers of each row of a text, which all have the same columns."""
    rows: list[tuple[int, list[Decimal]]] = []
    for line, raw in enumerate(text.split("\n"), 1):
        own = re.split(r"[%#]", raw)[0].strip()
        if not own:
            continue
        words = re.split(r"\s*,\s*|\s+", own)
        if len(words) not in widths or not all(re.fullmatch(NUMBER, word, re.ASCII) for word in words):
            raise ValueError(f"{name}, line {line}: {raw.strip()[:60]!r} {otherwise}.")
        if rows and len(words) != len(rows[0][1]):
            raise ValueError(f"{name}, line {line}, has {len(words)} columns, and lines before it {len(rows[0][1])}.")
        rows.append((line, list(map(Decimal, words))))
    return rows


def _has_duration(numbers: Sequence[Decimal]) -> bool:
    """Return whether the last of three or four numbers is the time between the two before it, to its last digit."""
    if len(numbers) < 3:
        return False
    start, end, duration = numbers[-3:]
    digit = Decimal(1).scaleb(int(duration.as_tuple().exponent))
    return abs(end - start - duration) <= digit / 2 and (len(numbers) == 3 or numbers[0] == int(numbers[0]))


def _gps(time: Decimal, where: str) -> Decimal:
    """Return a GPS time at which a detector may have run, stated to the second."""
    if not EARLIEST <= time <= LATEST:
        raise ValueError(
            f"{where}, has the time {time}, at which no detector ran: give GPS seconds, {EARLIEST} to {LATEST}."
        )
    if int(time.as_tuple().exponent) > 0:
        raise ValueError(f"{where}, has the time {time}, which leaves digits out: write {int(time)} if it is meant.")
    return time
