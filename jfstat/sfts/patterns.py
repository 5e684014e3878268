"""Search for the files that users name by paths, globs or lists."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from jfstat.files import text_of_named

Pattern = str | os.PathLike | Sequence["str | os.PathLike"]


def find_files(pattern: Pattern, what: str = "SFT", suffixes: Sequence[str] = (".sft",)) -> list[Path]:
    """Find all files that a pattern names (compare LALSuite: ``FindFiles.c:XLALFindFiles``).

    Parameters
    ----------
    pattern : str, path or sequence of these
        A file; a directory, for the files in it with one of the suffixes; a glob; several of these joined by ``;``; or
        ``list:<file>``, a file with one path per line, in which empty lines and lines starting with ``#`` or ``%`` are
        skipped.
    what : str
        Kind of the files, for error messages.
    suffixes : sequence of str

    Returns
    -------
    list of Path
        Files in the order of the patterns, sorted by name for each pattern. A file named twice is listed twice.

    Raises
    ------
    FileNotFoundError
        If a pattern matches no file, or a list names a file that does not exist.
    OSError
        If a list cannot be read.
    TypeError
        If `pattern` holds anything but strings and paths.
    ValueError
        If a pattern or a list is empty, or a list is not text.
    """
    if isinstance(pattern, str):
        parts = [part.strip() for part in pattern.split(";")]
        if not any(parts):
            raise ValueError(f"pattern {pattern!r} is empty: name at least one {what} file.")
        return [path for part in parts if part for path in _matches(part, what, suffixes)]
    if isinstance(pattern, os.PathLike):
        return _matches(os.fspath(pattern), what, suffixes)
    try:
        patterns = list(pattern)
    except TypeError as error:
        raise TypeError(f"pattern must be a string, a path or a sequence of these, not {pattern!r}.") from error
    if not patterns:
        raise ValueError(f"pattern is an empty sequence: name at least one {what} file.")
    for part in patterns:
        if not isinstance(part, str | os.PathLike):
            raise TypeError(f"pattern must hold strings or paths, not {part!r}: name {what} files.")
    return [path for part in patterns for path in find_files(part, what, suffixes)]


def _matches(part: str, what: str, suffixes: Sequence[str]) -> list[Path]:
    if part.startswith("list:"):
        return _listed(part.removeprefix("list:"), what)
    if os.path.isdir(part):
        found = sorted(path for path in Path(part).iterdir() if path.suffix in suffixes)
    elif os.path.exists(part):
        # before globbing: a literal name may contain the characters of globs
        found = [Path(part)]
    else:
        found = sorted(Path(name) for name in glob.glob(part) if not os.path.isdir(name))
    if not found:
        raise FileNotFoundError(f"no {what} file matches {part!r}: check the path and the pattern.")
    return found


def _listed(name: str, what: str) -> list[Path]:
    own = f"the list of {what} files {name!r}"
    otherwise = "is not text: give a file with one path per line."
    text = text_of_named(name, otherwise, "give a text file, one path per line.", own)
    lines = [line.strip() for line in text.splitlines()]
    paths = [Path(_without_scheme(line)) for line in lines if line and line[0] not in "#%"]
    if not paths:
        raise ValueError(f"{own} is empty: write one path per line into it.")
    for path in paths:
        if not os.path.isfile(path):
            raise FileNotFoundError(f"the list {name!r} names {str(path)!r}, which is not a file: correct the list.")
    return paths


def _without_scheme(line: str) -> str:
    """Return a path without the prefix ``file://localhost`` or ``file://`` of LIGO's data finders."""
    return (
        line.removeprefix("file://localhost") if line.startswith("file://localhost/") else line.removeprefix("file://")
    )
