"""Reading of catalogues of pulsars: tables of psrcat and of the ATNF's pages, and others with columns of such names."""

from __future__ import annotations

import csv
import html
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jfstat.files import text_of, text_of_named
from jfstat.pulsars.entries import named
from jfstat.pulsars.names import IDLE, LEFT_OUT, ORBIT, POSITION, SECOND, usual
from jfstat.pulsars.pulsar import Pulsar, pulsar_as_read

SUFFIXES = (".csv", ".ecsv", ".tsv")
"""Suffixes of catalogues. Tables that psrcat prints are recognised in files of other names."""
SEPARATORS = (";", ",", "\t", "|")
NAMES = ("NAME", "JNAME", "BNAME", "PSRJ", "PSRB")
"""Columns of names; without them, ``PSR``, in which psrcat's tables have types of pulsars."""
NO_VALUES = ("na", "n/a", "<na>", "null")
"""Words for missing values that table programs write, besides those of `jfstat.pulsars.entries`."""
DESCRIPTIVE = (
    r"|#|dmepoch|no\.?|index|unnamed: ?\d+|\w*_(err|error|ref)|"
    r"dm\d*|rm|w\d+|s\d+[mg]?|si\d+|spindx|tau_sc|gl|gb|zz|xx|yy|dist_\w+|dist\d|dmsin(\(b\)|b)|r_lum\w*|age\w*|b_lc|"
    r"bsurf\w*|edot\w*|p1_i|pmtot|vtrans|massfn|minmass|medmass|uprmass|minimum|median|minomdot|mtot|bincomp|assoc\w*|"
    r"o?survey|date|disc\.|type|nglt|pml|pmb|mass_q|om_asc|h3overh4|chi2r?|tres|ntoa|start|finish|clk|"
    r"comments?|notes?|ref(erence)?s?"
)
"""Pattern of columns that say nothing of the phase: numbers of rows, errors, references, what psrcat derives or lists
beside timing solutions. Its EDOT is the luminosity of the spin-down."""
OTHERS = re.compile(
    r"F\d+|P[01]|P(OS)?EPOCH|PX|DIST|UNITS|EPHEM|EPHVER|(GL|WAVE|WX|EXP|CHROM)\w+|E[12]DOT|A12DOT|ECC2DOT|[A-Z]\w*_\d",
    re.ASCII,
)
"""Columns of timing solutions besides those of positions and orbits."""
NOT_UNDERSTOOD = ("XOMDOT", "OM2DOT", "A12DOT", "ECC2DOT")
"""Columns of changes of orbits that no solution here has: a pulsar with one of them cannot be used."""
UNITS = {
    "RAJ|RA": ("hourangle", "hms", "hh:mm:ss", "hh:mm:ss.s"),
    "DECJ|DEC": ("deg", "dms", "dd:mm:ss", "+dd:mm:ss"),
    "RAJD|DECJD|ELONG|ELAT|LAMBDA|BETA|OM|KOM|KIN": ("deg",),
    "PMRA|PMDEC|PMELONG|PMELAT|PMLAMBDA|PMBETA": ("mas/yr",),
    "PX": ("mas",),
    "PEPOCH|POSEPOCH|T0|TASC": ("d", "mjd"),
    "PB": ("d", "days"),
    "P0?|GAMMA": ("s",),
    "A1": ("s", "lts", "lt-s", "ls"),
    "F0?|FB0?": ("Hz",),
    **{f"FB?{k}": (f"Hz/s{k}",) for k in range(1, 13)},
    "OMDOT": ("deg/yr",),
    "DIST": ("kpc",),
    "M2": ("M_sun",),
    "P1|PBDOT|XPBDOT|ECC|E|EPS1|EPS2|SINI|XDOT|A1DOT": ("",),
}
"""Units of columns, by patterns of their names: one of astropy's, and other ways of writing it."""
SPINS_AND_POSITIONS = {
    "F0",
    "F",
    "P0",
    "P",
    "RAJ",
    "RA",
    "RAJD",
    "DECJ",
    "DEC",
    "DECJD",
    "ELONG",
    "ELAT",
    *NAMES,
    "PSR",
}
"""Columns of which a header has at least one."""


class Table(NamedTuple):
    """The cells of a table.

    Attributes
    ----------
    names : list of str
        Names of the columns in capitals.
    units : list of str
        Their units, or empty words.
    rows : list of (int, list of str)
        Number of the line, counted from 1, and its cells.
    """

    names: list[str]
    units: list[str]
    rows: list[tuple[int, list[str]]]


def is_catalogue(path: Path) -> bool:
    """Return whether a file is a catalogue by its suffix, or begins like a table that psrcat prints."""
    if path.suffix.lower() in (*SUFFIXES, ".par"):
        return path.suffix.lower() != ".par"
    try:
        first = next((line for line in text_of(path).split("\n") if line.strip()), "")
    except (OSError, ValueError):  # which the reading of a .par file reports
        return False
    return bool(re.fullmatch(r"-{10,}", first.strip())) or (first.startswith("#") and _is_header(_words(first)))


def catalogue(path: Path) -> list[Pulsar]:
    """Return the pulsars of a table; see `jfstat.read_pulsars`.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a table of pulsars, or none of its rows can be used.

    Warns
    -----
    UserWarning
        If some rows cannot be used; they are left out.
    """
    text = text_of_named(path, "is not text in UTF-8: save it in this encoding.")
    table = _ecsv(text, path) if text.startswith("# %ECSV") else _text_table(text, path)
    if not table.rows:
        raise ValueError(f"path {str(path)!r} names columns and holds no pulsar: give a row for each.")
    _check_columns(table, path)
    pulsars, problems = [], []
    for number, (line, cells) in enumerate(table.rows, 1):
        entries = _entries(table.names, cells)
        if "NAME" not in entries:
            raise ValueError(f"{path}: row {number} has no name (line {line}): give a column JNAME or NAME.")
        strange = next((other for other in NOT_UNDERSTOOD if entries.get(other, "0").strip("+-0.")), None)
        try:
            if strange is not None:
                raise ValueError(f"{entries['NAME']}: {strange} is not understood: give a solution without it.")
            pulsars.append(pulsar_as_read(entries, entries["NAME"]))
        except ValueError as error:
            problems.append((line, error))
    if problems:
        text = f"{len(problems)} of {len(table.rows)} pulsars of {path} cannot be used, "
        text += f"the first (line {problems[0][0]}) because of {problems[0][1]}"
        if not pulsars:
            raise ValueError(text)
        warnings.warn(f"{text} They are left out.", stacklevel=4)
    return pulsars


def _is_known(name: str) -> bool:
    """Return whether a column is one that `pulsar_of` takes or refuses, or says nothing of the phase."""
    if name in (*NAMES, "PSR") or re.fullmatch(DESCRIPTIVE, name.lower(), re.ASCII):
        return True
    return any(pattern.fullmatch(usual(name)) for pattern in (OTHERS, ORBIT, POSITION, IDLE, LEFT_OUT, SECOND))


def _entries(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the entries of a row as a .par file would have them."""
    given = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
    given = {name: cell for name, cell in given.items() if cell.lower() not in NO_VALUES}
    called = [cell for name in (*(name for name in names if name in NAMES), "PSR") if (cell := given.get(name, ""))]
    entries = {name: cell for name, cell in given.items() if name not in (*NAMES, "PSR")}
    entries = {
        # a catalogue's one glitch has no number
        f"{name}_1" if re.fullmatch(r"GL(EP|PH|F[012]D?|TD)", name) else name: cell
        for name, cell in entries.items()
        if not re.fullmatch(DESCRIPTIVE, name.lower())
    }
    entries = named({"NAME": next((name for name in called if named({"NAME": name})), ""), **entries})
    # psrcat lists a solution in several forms, those that were measured and those that follow
    if {"F0", "P0"} <= entries.keys():
        derived = ("F0",) if "P1" in entries and "F1" not in entries else ("P0", "P1")
    else:
        derived = ()
    if {"RAJ", "DECJ"} <= entries.keys() or {"RAJD", "DECJD"} <= entries.keys():
        moves = {"PMELONG", "PMELAT"} & entries.keys() and not {"PMRA", "PMDEC"} & entries.keys()
        ecliptic = {"ELONG", "ELAT"} <= entries.keys() and moves
        derived += ("RAJ", "DECJ", "RAJD", "DECJD") if ecliptic else ("ELONG", "ELAT", "PMELONG", "PMELAT")
        derived += ("RAJD", "DECJD") if "RAJ" in entries and "DECJ" in entries else ()
    derived += ("PB", "PBDOT") if "FB0" in entries else ()
    derived += ("SINI",) if "KIN" in entries else ()
    if entries.get("BINARY", "").upper().startswith("ELL1"):
        derived += ("T0", "ECC", "OM") if {"TASC", "EPS1", "EPS2"} <= entries.keys() else ()
    elif {"T0", "ECC", "OM"} <= entries.keys():
        derived += ("TASC", "EPS1", "EPS2")
    return {name: cell for name, cell in entries.items() if name not in derived}


def _check_columns(table: Table, path: Path) -> None:
    """Require columns that are known and differ, of the units that are meant."""
    unknown = next((name for name in table.names if not _is_known(name)), None)
    if unknown is not None:
        raise ValueError(f"{path} has a column {unknown[:40]!r}, which is not known: correct its name or leave it out.")
    used = [usual(name) for name in table.names if name not in (*NAMES, "PSR")]
    used = [name for name in used if not re.fullmatch(DESCRIPTIVE, name.lower())]
    twice = next((name for name, count in Counter(used).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{path} has two columns for {twice}: leave one out.")
    for name, unit in zip(table.names, table.units, strict=True):
        known = next((units for pattern, units in UNITS.items() if re.fullmatch(pattern, name)), None)
        if unit and known is not None and not _is_unit(unit, known):
            raise ValueError(f"{path} has {name} in {unit}: convert it to {known[0] or 'a number without unit'}.")


def _is_unit(text: str, known: Sequence[str]) -> bool:
    """Return whether a unit as a table writes it is one of those known, or equal to the first."""
    text = text.strip()
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    if text.lower().replace(" ", "") in [unit.lower() for unit in known]:
        return True
    from astropy.units import Unit

    try:
        return bool(Unit(text) == Unit(known[0]))
    except (ValueError, TypeError):
        return False


def _text_table(text: str, path: Path) -> Table:
    """Return the table of a text file: separated cells, or columns that stand under their names, as psrcat prints."""
    if text.lstrip().startswith("<"):
        text = _preformatted(text, path)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip(" -\t")]
    start = next((i for i, (_, line) in enumerate(lines) if line[0] != "#" or _is_header(_words(line))), None)
    if start is None or not SPINS_AND_POSITIONS & set(_names(_words(lines[start][1]))):
        raise ValueError(
            f"path {str(path)!r} does not begin with names of columns such as JNAME, RAJ, DECJ, F0: give a table of "
            "pulsars, see read_pulsars."
        )
    header = lines[start][1]
    rows = [(number, line) for number, line in lines[start + 1 :] if line[0] != "#"]
    separator = _separator(header)
    table = _printed(header, rows, path) if separator == " " else _separated(header, rows, separator, path)
    if table.rows and _are_units(table.names, table.rows[0][1]):
        table = Table(table.names, table.rows[0][1], table.rows[1:])
    return table


def _preformatted(text: str, path: Path) -> str:
    """Return the table within a saved page of the ATNF, in the same lines."""
    found = re.search(r"<pre[^>]*>(.*?)</pre>", text, re.S | re.I)
    if found is None:
        raise ValueError(f"path {str(path)!r} is a web page without a table: save the table as text.")
    return "\n" * text.count("\n", 0, found.start(1)) + html.unescape(re.sub(r"<[^>\n]*>", "", found[1]))


def _separator(header: str) -> str:
    return next((x for x in SEPARATORS if x in header), " ")


def _words(line: str) -> list[str]:
    """Return the words of a line that may be a header."""
    separator = _separator(line)
    return line.split() if separator == " " else [word.strip(' "') for word in line.split(separator)]


def _names(words: Sequence[str]) -> list[str]:
    """Return names of columns in capitals, without the comment sign before the first."""
    return [words[0].lstrip("#").strip(' "').upper(), *(word.strip(' "').upper() for word in words[1:])]


def _is_header(words: Sequence[str]) -> bool:
    """Return whether words after a comment sign are names of columns rather than a comment."""
    given = [name for name in _names(words) if name]
    known = [name for name in given if name in SPINS_AND_POSITIONS or any(re.fullmatch(x, name) for x in UNITS)]
    return len(known) >= 2 and all(name in known or re.fullmatch(r"\S+", name) for name in given)


def _are_units(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether the first row after a header holds units."""
    given = [cell.strip() for cell in cells if cell.strip()]
    if given and all(re.fullmatch(r"\(.*\)", cell) for cell in given):
        return True
    own = dict(zip(names, cells, strict=True))
    return any(own.get(name, "").strip("() ").lower() == unit for name, unit in (("F0", "hz"), ("P0", "s")))


def _separated(header: str, lines: Sequence[tuple[int, str]], separator: str, path: Path) -> Table:
    """Return a table whose cells are separated, and may be quoted; a separator may follow the last one."""
    names = _names(_cells(header, separator, 0, path))
    rows = [(number, _cells(line, separator, number, path)) for number, line in lines]
    # in all rows or in none: in a single row it may be one too many within
    if rows and all(len(cells) == len(names) + 1 and not cells[-1].strip() for _, cells in rows):
        rows = [(number, cells[:-1]) for number, cells in rows]
    if rows and not names[-1] and all(len(cells) == len(names) - 1 for _, cells in rows):
        names = names[:-1]
    for number, cells in rows:
        if len(cells) != len(names):
            raise ValueError(
                f"path {str(path)!r}, line {number}, has {len(cells)} cells for {len(names)} columns: correct the line."
            )
    return Table(names, [""] * len(names), rows)


def _cells(line: str, separator: str, number: int, path: Path) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error as error:
        where = f"line {number}" if number else "its header"
        raise ValueError(f"path {str(path)!r}, {where}, is not a row of cells ({error}): correct the line.") from None


def _printed(header: str, lines: Sequence[tuple[int, str]], path: Path) -> Table:
    """Return a table with a word in each column, or with words that begin under the names of their columns.

    psrcat's long tables have errors and references, without names, between the columns. Units stand in brackets.
    """
    places = list(re.finditer(r"\S+", header))
    if lines and re.fullmatch(r"(\s*\([^()]*\))+\s*", lines[0][1]):
        below = {found.start(): found[0] for found in re.finditer(r"\([^()]*\)", lines[0][1])}
        lines = lines[1:]
    else:
        below = {}
    split = [(number, line.split()) for number, line in lines]
    if header[0] == "#" and all(len(cells) == len(places) - 1 for _, cells in split):
        places = places[1:]  # the sign of a comment, not the name of a column
    names = _names([place[0] for place in places])
    units = [below.get(place.start(), "") for place in places]
    if all(len(cells) == len(places) for _, cells in split):
        return Table(names, units, split)
    rows = []
    for number, line in lines:
        beginning = {found.start(): found[0] for found in re.finditer(r"\S+", line)}
        cells = [beginning.get(place.start(), "") for place in places]
        if not all(cells):
            raise ValueError(
                f"path {str(path)!r}, line {number}, has no word under {names[cells.index('')]!r}: give a table with "
                "separators, psrcat -o long_csv."
            )
        rows.append((number, cells))
    return Table(names, units, rows)


def _ecsv(text: str, path: Path) -> Table:
    """Return the table of an ECSV file, whose header has units."""
    from astropy.table import Table as AstropyTable

    lines = text.split("\n")
    try:
        table = AstropyTable.read(lines, format="ascii.ecsv")
    except Exception as error:  # astropy raises whatever it stumbles over in a damaged file
        raise ValueError(f"path {str(path)!r} is not an .ecsv table of pulsars ({error}): see read_pulsars.") from None
    header = next(number for number, line in enumerate(lines, 1) if line.strip() and line[0] != "#")
    rows = [(number, [str(cell) for cell in row]) for number, row in enumerate(table, header + 1)]
    return Table(_names(table.colnames), [str(column.unit or "") for column in table.columns.values()], rows)
