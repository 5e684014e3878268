"""Read and write candidates in the text format of ComputeFstatistic_v2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jfstat.candidates.schema import known_column
from jfstat.candidates.tables import AnyTable, Meta, in_units, plain_column
from jfstat.signal.parameters import ORBIT_FIELDS, ORBIT_REQUIRED, SKY, is_parameter, spin_name

if TYPE_CHECKING:
    from astropy.table import QTable

ORBIT_COLUMNS = ("asini", "period", "tp", "argp", "ecc")
"""Columns of an orbit in the order in which ComputeFstatistic_v2 writes them."""
LABELS = {
    "version": "jfstat",
    "ephemeris": "ephemeris",
    "parameters": "parameters varied",
    "Fstar0": "Fstar0",
    "oLGX": "oLGX",
    "start": "GPS starttime",
    "tspan": "Total time spanned",
    "reftime": "Pulsar-params refTime",
    "n_templates": "templates",
    "n_twoF": "values of 2F",
    "transitions": "log-probabilities of jumps along paths",
}
"""Labels in comments by key of a table's meta: ComputeFstatistic_v2's, and jfstat's own where it has none."""
NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|[-+]?nan"
"""Pattern of a number as programs print it."""
WORDS = ("version", "ephemeris", "parameters", "oLGX", "transitions")
"""Keys of the meta whose values are not numbers."""
SEVERAL = ("oLGX", "transitions")
"""Keys of the meta whose values are several numbers."""
SKY_OPTIONS = r"--(AlphaBand|DeltaBand|skyRegion|gridFile)=(.*?)(?= --|$)"


def written_text(table: AnyTable) -> str:
    """Return a table in the format of ComputeFstatistic_v2."""
    twoF = "mean_twoF" if "mean_twoF" in table.colnames else "twoF"
    detectors = [name for name in table.colnames if name.startswith(f"{twoF}_")]
    robust = ["log10BSGL"] if "log10BSGL" in table.colnames else []
    names = ["freq", "alpha", "delta", "f1dot", "f2dot", "f3dot", twoF, *robust, *detectors]
    if "asini" in table.colnames:
        names += ORBIT_COLUMNS
    lost = [name for name in table.colnames if is_parameter(name) and name not in names]
    beyond = [name for name in lost if np.any(plain_column(table, name))]
    beyond += [name for name in ("reftime",) if name in table.colnames]  # of each row: comments have one for all
    if beyond:
        raise ValueError(f"table has the column {beyond[0]!r}, which the text format cannot hold: use .ecsv.")
    columns = [_column(table, name) for name in names]
    lines = comment_lines(table.meta)
    lines += ["%% units: Hz, rad, Hz/s, Hz/s^2, ...; orbits: light-s, s, GPS s, rad", "%% columns:"]
    lines.append("%% " + " ".join(name.replace("twoF", "2F") for name in names))
    # repr is the shortest text that reads back as the same number
    lines += [" ".join(map(repr, row)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    return "\n".join([*lines, "%DONE", ""])


def _column(table: AnyTable, name: str) -> np.ndarray:
    """Return a column; of an orbit without ``ecc`` and ``argp``, which is a circle, zeros."""
    circular = name not in table.colnames and name not in ORBIT_REQUIRED and name in ORBIT_COLUMNS
    return np.zeros(len(table)) if circular else plain_column(table, name)


def comment_lines(meta: Meta) -> list[str]:
    """Return what a table's meta says about the search, as comments that start with ``%%``."""
    words = dict(meta)
    for name in ("parameters", *SEVERAL):
        if words.get(name):
            words[name] = ", ".join(map(str, words[name]))
    lines = [f"%% {label} = {words[key]}" for key, label in LABELS.items() if words.get(key) is not None]
    if words.get("detectors"):
        lines.append(f"%% Loaded SFTs: [ {', '.join(words['detectors'])} ]")
    return lines


def table_from_text(text: str, path: Path) -> QTable:
    """Return the table that a file in the format of ComputeFstatistic_v2 holds; `path` is for errors.

    Raises
    ------
    ValueError
        If the file is incomplete, names no columns or unknown ones, or has a line that is no row.
    """
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    comments = [line.lstrip("% ").rstrip() for line in lines if line.startswith("%%")]
    place = comments.index("columns:") if "columns:" in comments else len(comments)
    names = [re.sub(r"^(mean_)?2F", r"\1twoF", name) for name in " ".join(comments[place + 1 : place + 2]).split()]
    wrong = next((name for name in names if known_column(name) is None or names.count(name) > 1), None)
    if not names or wrong is not None:
        what = (
            "names no columns" if wrong is None else f"names the column {wrong[:40]!r}, which is unknown or there twice"
        )
        raise ValueError(
            f"path {str(path)!r} {what}: it is not a text file of candidates of ComputeFstatistic_v2; "
            "jfstat.read_templates reads PyFstat's and grids."
        )
    if not is_complete(lines):
        raise ValueError(f"path {str(path)!r} does not end with %DONE: the file is incomplete, make it again.")
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        words = line.split()
        if not words or line.startswith("%%"):
            continue
        if len(words) != len(names) or not all(re.fullmatch(NUMBER, word, re.ASCII) for word in words):
            raise ValueError(
                f"path {str(path)!r} is not a ComputeFstatistic_v2 text file: its line {number}, {line[:60]!r}, is "
                f"neither {len(names)} numbers nor a comment after %%; make it again."
            )
        rows.append(words)
    values = np.array(rows, np.float64).reshape(len(rows), len(names))
    columns = {name: values[:, i].copy() for i, name in enumerate(names)}
    return in_units(with_fixed_orbit(columns, comments, path), meta_from_comments(comments, path))


def is_complete(lines: list[str]) -> bool:
    """Return whether the last line that is not empty says that the file is written to its end."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "") == "%DONE"


def meta_from_comments(comments: list[str], path: Path) -> Meta:
    """Return the meta that comments without their ``%%`` contain; empty if nothing in them is known.

    Raises
    ------
    ValueError
        If a comment should give a number, and does not; `path` is for errors.
    """
    meta: Meta = {}
    for key, label in LABELS.items():
        for line in comments:
            found = re.fullmatch(rf"{re.escape(label)}\s*=\s*(\S.*)", line)
            if found:
                # ComputeFstatistic_v2 adds units and dates after its numbers
                try:
                    meta[key] = found[1] if key in WORDS else _number(found[1].split()[0], key in ("tspan", "Fstar0"))
                except ValueError:
                    raise ValueError(
                        f"path {str(path)!r}: the comment {line[:60]!r} gives no number: correct it."
                    ) from None
    if "parameters" in meta:
        meta["parameters"] = meta["parameters"].split(", ")
    for name in SEVERAL:
        if name in meta:
            meta[name] = [float(x) for x in meta[name].split(", ")]
    for line in comments:
        if line.startswith("Loaded SFTs: ["):
            meta["detectors"] = re.findall(r"[A-Z]\d", line)
    searched = _searched_by_cfs(comments)
    return meta | ({} if searched is None else {"parameters": searched})


def with_fixed_orbit(columns: dict[str, np.ndarray], comments: list[str], path: Path) -> dict[str, np.ndarray]:
    """Return columns of templates with the orbit of ComputeFstatistic_v2's command line, if they have no orbit's.

    It writes columns of an orbit only if one of its parameters has a range. With gridType 6 it ignores orbits.

    Raises
    ------
    ValueError
        If an option of the orbit is no number; `path` is for errors.
    """
    words = _command(comments)
    if "asini" in columns or words is None or re.search(r"--gridType=6\b", words):
        return columns
    given = {name: re.search(rf"{_orbit_option(name)}=(\S+)", words) for name in ORBIT_COLUMNS}
    try:
        orbit = {name: float(found[1]) for name, found in given.items() if found}
    except ValueError:
        raise ValueError(
            f"path {str(path)!r} has a command line whose orbit is not given in numbers: add columns "
            f"{', '.join(ORBIT_COLUMNS)}."
        ) from None
    if not orbit.get("asini"):
        return columns
    n = len(next(iter(columns.values())))
    return columns | {
        name: np.full(n, orbit.get(name, 0.0)) for name in ORBIT_COLUMNS if name in orbit or name not in ORBIT_REQUIRED
    }


def _command(comments: list[str]) -> str | None:
    """Return the command line that ComputeFstatistic_v2 writes, without quotation marks; None if there is none."""
    command = next((line for line in comments if line.startswith("cmdline:")), None)
    return None if command is None else re.sub(r"[\"']", "", command)


def _orbit_option(name: str) -> str:
    """Return ComputeFstatistic_v2's option for a parameter of an orbit."""
    return f"--orbit{name if name == 'asini' else name.capitalize()}"


def _number(word: str, always_float: bool) -> float:
    number = float(word)
    return number if always_float or number % 1 else int(number)


def _searched_by_cfs(comments: list[str]) -> list[str] | None:
    """Return the parameters that ComputeFstatistic_v2 varied, from its spin range and command line; None without
    these."""
    spins = next((line for line in comments if line.startswith("Spin-range at refTime: fkdot = [")), None)
    words = _command(comments)
    if spins is None or words is None:
        return None
    ranges = [text.split(":") for text in re.findall(r"\[(.*)\]", spins)[0].split(",")]
    varied = ["freq", *(spin_name(k) for k, (low, high) in enumerate(ranges) if k and float(low) != float(high))]
    if any(_is_region(name, value) for name, value in re.findall(SKY_OPTIONS, words)):
        varied += SKY
    for name in ORBIT_FIELDS:
        band = re.search(rf"{_orbit_option(name)}Band=(\S+)", words)
        if band and float(band[1]):
            varied.append(name)
    return varied


def _is_region(name: str, value: str) -> bool:
    """Return whether an option of ComputeFstatistic_v2 gives more than one sky position."""
    if name == "skyRegion":
        return value.count("(") != 1
    digits = re.sub(r"[eE][-+]?\d+", "", value)
    return name == "gridFile" or bool(re.search(r"[1-9]", digits))
