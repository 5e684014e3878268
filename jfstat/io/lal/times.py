"""Read segment lists and files of SFT timestamps."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from jfstat import kinds
from jfstat.files import text_of, text_of_named
from jfstat.public import public


@public(path=kinds.path)
def read_segments(path: str | os.PathLike) -> list[tuple[float, float]]:
    """Read segments from a file in the format of LALSuite's segment lists.

    Each line holds a segment's start and end, and possibly its duration in hours and its number of SFTs, which are
    ignored. Lines that begin with % or # are comments (LALSuite: XLALReadSegmentsFromFile).

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
        If the file is not text, a line has no start and end, or there are no lines.
    """
    text = text_of_named(path, "is not text: give a line 'start end' for each segment, GPS s.")
    edges = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0][0] in "%#":
            continue
        try:
            start, end = float(words[0]), float(words[1])
        except (ValueError, IndexError):
            raise ValueError(f"path {str(path)!r}, line {number}: {line!r} has no start and end in GPS s.") from None
        edges.append((start, end))
    if not edges:
        raise ValueError(f"path {str(path)!r} holds no segment: give a line 'start end' for each, in GPS s.")
    return edges


@public(files=kinds.paths, detectors=kinds.sequence)
def read_timestamps(files: Sequence[str | os.PathLike], detectors: Sequence[str]) -> dict[str, np.ndarray]:
    """Read start times of SFTs from files as for Makefakedata_v5, a line ``<seconds> [<nanoseconds>]`` for each.

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
    times = {}
    for detector, name in zip(detectors, files, strict=True):
        try:
            lines = [line.split() for line in text_of(name).splitlines()]
            rows = [line for line in lines if line and line[0][0] not in "#%"]
            times[detector] = np.array([(int(s), int(ns[0]) if ns else 0) for s, *ns in rows], np.int64)
        except (OSError, ValueError) as error:
            raise ValueError(f"files: {name} cannot be used ({error}): give lines of GPS s and ns.") from None
    return times
