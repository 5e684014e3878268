"""Entries of timing solutions as words by name, from .par files of TEMPO, TEMPO2 and PINT, and from catalogues."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from jfstat.files import text_of_named
from jfstat.maths.arrays import on_device
from jfstat.pulsars.names import (
    FLAGS,
    IDLE,
    LEFT_OUT,
    LIST,
    MAY_BE_NONE,
    ORBIT,
    PAIRS,
    POSITION,
    SECOND,
    SELECTION,
    TEXTS,
    limits,
    usual,
)
from jfstat.signal.times import GPSTime
from jfstat.validation import require_x64


class Entries(dict[str, str]):
    """Value of each entry of a timing solution as it is written, by its usual name; remembers which were taken.

    Attributes
    ----------
    taken : set of str
        Names of the entries that were asked for.
    written : dict of str to str
        Names as they are written, where they are not the usual ones.
    errors : dict of str to float
        Standard errors of the entries that have one, in the units of the entries; of RAJ in s, of DECJ in arcsec.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        super().__init__(entries)
        self.taken: set[str] = set()
        own = isinstance(entries, Entries)
        self.written: dict[str, str] = dict(entries.written) if own else {}
        self.errors: dict[str, float] = dict(entries.errors) if own else {}

    def __getitem__(self, name: str) -> str:
        self.taken.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def numbered(self, pattern: str) -> list[int]:
        """Return the numbers that stand for ``#`` in a pattern of names, in ascending order."""
        found = (re.fullmatch(pattern.replace("#", r"(0|[1-9]\d{0,3})"), name, re.ASCII) for name in self)
        return sorted(int(match[1]) for match in found if match)

    def as_written(self, message: str) -> str:
        """Return a message with the names as the user wrote them."""
        names = "|".join(map(re.escape, self.written))
        return re.sub(rf"\b({names})\b", lambda match: self.written[match[1]], message) if names else message

    def require_all_taken(self, model: str | None) -> None:
        """Raise a ValueError if an entry that may change the phase was not taken.

        Zeros are taken where they mean that the effect is absent.

        Parameters
        ----------
        model : str or None
            Model of the binary, None for an isolated pulsar.
        """
        for name in self:
            if name in self.taken or IDLE.fullmatch(name):
                continue
            if SECOND.fullmatch(name):
                raise ValueError(f"{name} is of a second companion, which a template cannot have.")
            known = next((x for x in (LEFT_OUT, ORBIT, POSITION) if x.fullmatch(name)), None)
            if known is None:
                raise ValueError(
                    f"{short(name)[1:-1]} is unknown: correct its name, or remove it if it leaves the phase alone."
                )
            idle = name == "ECL" or (name.startswith("PM") and not self[name].strip("+-0."))
            if known is POSITION and idle:  # the ecliptic without coordinates in it, or no motion
                continue
            if known is POSITION:
                raise ValueError(f"{name} is of a second position or motion: leave one of them out.")
            if not TEXTS.fullmatch(name) and not number(self, name):
                continue
            if known is LEFT_OUT:
                raise ValueError(f"{name} is not understood: give a solution without it.")
            if model is None:
                raise ValueError(f"{name} is of a binary, which needs A1: give the orbit's size, or remove {name}.")
            raise ValueError(
                f"{name} has no place in the orbit, of the model {model}: give another model, or remove it."
            )


FIT_FLAGS = ("0", "1", "2")
"""Words that say whether an entry was fitted."""
MISSING = ("", "*", "nan", "--", "none")
"""Words that catalogues write for missing values."""
GPS_EPOCH_MJD, TDB_MINUS_GPS = 44244, Decimal("51.184")
"""MJD of GPS time 0, and TDB minus GPS time at the solar-system barycentre, s, as in LALSuite."""
SCALED = 1e-7
"""Value above which entries such as PBDOT are in units of 1e-12, as in TEMPO and LALSuite."""
INFINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?", re.ASCII)
REFERENCE = re.compile(r"[a-z]{1,5}\+?\d{2}[a-z]?")
"""Keys of references in the ATNF catalogue, such as kbm+03."""
BRIGHT = 1e10
"""Value above which EDOT is no change of the eccentricity."""
LATEST_MJD = 100_000
"""Last MJD that an epoch may have, in the year 2132; a Julian day is beyond it."""


def par_entries(path: Path) -> Entries:
    """Read the entries of a .par file: lines ``NAME value [fit flag] [error]``.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is not text, or an entry has no value, two values, or more words than a line has.
    """
    text = text_of_named(path, "is not a .par file: it is not text.", "name a .par file.")
    entries = Entries({})
    lines: dict[str, int] = {}
    for count, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0] in ("C", "c") or words[0][0] in "#%":
            continue
        try:
            name, value, error = _entry(line, words)
            before = entries.setdefault(name, value)
            if error is not None and name not in lines:
                entries.errors[name] = error
            if name not in lines and words[0].upper() != name and name != "NAME":
                entries.written[name] = words[0]
            if before != value and name != "NAME" and not IDLE.fullmatch(name):
                first = lines[name]
                raise ValueError(
                    f"{words[0]} is {short(value)}, but {short(before)} in line {first}: leave one of them out."
                )
            if error != entries.errors.get(name) and not IDLE.fullmatch(name):
                own = "no" if error is None else "another" if name in entries.errors else "an"
                raise ValueError(f"{words[0]} has {own} error, unlike in line {lines[name]}: leave one of them out.")
        except ValueError as error:
            raise ValueError(f"{path}: line {count}: {error}") from None
        lines.setdefault(name, count)
    return entries


def _entry(line: str, words: list[str]) -> tuple[str, str, float | None]:
    """Return the name and the value of a line of a .par file, and its error if it has one."""
    if not line.replace("\t", " ").isprintable():
        raise ValueError("it has characters that are no text: correct the line.")
    name = usual(words[0])
    size = 2 if PAIRS.fullmatch(name) else 1
    values, rest = words[1 : 1 + size], words[1 + size :]
    rest = rest[: next((i for i, word in enumerate(rest) if word.startswith("#")), len(rest))]  # without a comment
    idle = IDLE.fullmatch(name) is not None
    missing = len(values) < size or any(word.lower() in MISSING for word in values)
    if missing and not idle and not (values and MAY_BE_NONE.fullmatch(name)):
        raise ValueError(f"{words[0]} has no value: give one, or remove the line.")
    listed = LIST.fullmatch(name) or (idle and values and SELECTION.fullmatch(values[0]))
    if not values or listed:
        return name, " ".join(values), None
    if idle and not (TEXTS.fullmatch(name) or NUMBER.fullmatch(values[0]) or values[0].lower() in (*MISSING, "inf")):
        raise ValueError(f"{words[0]} is {short(values[0])}: give a number, or remove the line.")
    word = TEXTS.fullmatch(name) is not None and ":" not in values[0] and not NUMBER.fullmatch(values[0])
    if not _closes(values, rest, word):
        if not LEFT_OUT.fullmatch(name):
            raise ValueError(
                f"{words[0]} is followed by {short(' '.join(rest))}: after a number only the fit's flag, an error and "
                "a reference may stand, after a word nothing."
            )
        values = [next((word for word in words[1:] if word.strip("0.") != ""), values[0])]  # a list of numbers
        return name, " ".join(values), None
    return name, " ".join(values), None if word or size == 2 or idle else _error(words[0], rest)


def _error(name: str, rest: list[str]) -> float | None:
    """Return the standard error among the words after a number, None without one.

    A single 0, 1 or 2 is the flag of the fit.

    Raises
    ------
    ValueError
        If it is negative or infinite.
    """
    numbers = [word for word in rest[:2] if NUMBER.fullmatch(word) or INFINITE.fullmatch(word)]
    if not numbers or (len(numbers) == 1 and to_float(numbers[0]) in map(float, FIT_FLAGS)):
        return None
    error = to_float(numbers[-1])
    if not 0 <= error < math.inf:
        raise ValueError(f"{name} has the error {short(numbers[-1])}: give a positive, finite one.")
    return error or None


def _closes(values: list[str], rest: list[str], word: bool) -> bool:
    """Return whether a number is followed by a flag of the fit, an error, a reference or some of these, a word by a
    reference of the ATNF catalogue, or none.

    Numbers that blanks divide, and lines that lost their end, are found by it.
    """
    numbers = [NUMBER.fullmatch(word) is not None for word in rest]
    if word:
        if len(numbers) == 1 and REFERENCE.fullmatch(rest[0]):
            return True
        return not numbers or (values[0].upper() in FLAGS and numbers == [True])
    if len(numbers) < 2:
        return True
    if numbers == [True, True] or numbers == [True, True, False]:
        return rest[0] in FIT_FLAGS
    return numbers == [True, False]


def named(entries: Mapping[str, str]) -> dict[str, str]:
    """Return entries by their usual names, without entries that have no value."""
    found: dict[str, str] = {}
    for name, word in entries.items():
        if word.strip().lower() not in MISSING:
            found.setdefault(usual(name), word.strip())
    return found


def number(entries: Mapping[str, str], name: str, default: float = 0.0) -> float:
    """Return the number of an entry, which may have Fortran's exponents such as 1.5D-15.

    Raises
    ------
    ValueError
        If the entry is not a number, or beyond its limits.
    """
    if name not in entries:
        return default
    word = entries[name]
    if not NUMBER.fullmatch(word):
        raise ValueError(f"{name} is {short(word)}: give a number.")
    value = to_float(word)
    low, high, unit = limits(name)
    if not low <= value <= high:
        raise ValueError(f"{name} is {short(word)}: give a number from {low:g} to {high:g} ({unit}).")
    return value


def to_float(word: str) -> float:
    """Return the value of a word that is a `NUMBER`."""
    return float(_with_e(word))


def to_decimal(word: str) -> Decimal:
    """Return the value of a word that is a `NUMBER`, with all its digits."""
    return Decimal(_with_e(word))


def _with_e(word: str) -> str:
    """Return a number with Fortran's exponent as Python writes it."""
    return re.sub("[dD]", "e", word)


def short(word: str) -> str:
    """Return a user's word in quotes, for messages; of long ones the beginning."""
    return repr(word if len(word) <= 40 else f"{word[:36]} ...")


def scaled(entries: Entries, name: str) -> float:
    """Return the number of an entry that is in units of 1e-12 if it is large."""
    value = number(entries, name)
    return 1e-12 * value if abs(value) > SCALED else value


def epoch(entries: Mapping[str, str], name: str) -> GPSTime:
    """Return the GPS time in the SSB of an entry that is an MJD in TDB, to the nanosecond (XLALTTMJDtoGPS).

    Raises
    ------
    ValueError
        If the entry is not an MJD.
    """
    require_x64()
    gps = (_decimal(entries, name) - GPS_EPOCH_MJD) * 86400 - TDB_MINUS_GPS
    whole = int(gps // 1)
    nanoseconds = int(((gps - whole) * 10**9).to_integral_value())
    whole, nanoseconds = whole + nanoseconds // 10**9, nanoseconds % 10**9
    return GPSTime(on_device(float(whole)), on_device(float(nanoseconds)))


def _decimal(entries: Mapping[str, str], name: str) -> Decimal:
    word = entries[name]
    # a float64 tells whether the size is that of an MJD, a decimal number has all digits
    fits = NUMBER.fullmatch(word) and to_float(word) <= LATEST_MJD
    days = to_decimal(word) if fits else Decimal(-1)
    if not 0 <= days <= LATEST_MJD:
        raise ValueError(f"{name} is {short(word)}: give an MJD in TDB.")
    return days


def _luminous(word: str) -> bool:
    """Return whether a word is the star's loss of energy in erg/s, which the ATNF catalogue calls EDOT."""
    return bool(NUMBER.fullmatch(word)) and to_float(word) > BRIGHT


def in_tdb(entries: Mapping[str, str]) -> Entries:
    """Return the entries in barycentric dynamical time, TDB, converted if their ``UNITS`` are TCB.

    A value of dimension s^n is divided by K^n, K = 1 + 1.55051979176e-8, and epochs are moved towards MJD 43144.0003725
    (Irwin & Fukushima 1999; TEMPO2's transform and PINT's tcb2tdb do the same).
    """
    version = entries.get("EPHVER", "2").upper()
    if version not in EPHEMERIS_VERSIONS:
        raise ValueError(f"EPHVER is {short(version)}: give 2 for TDB or 5 for TCB, or UNITS instead.")
    units = entries.get("UNITS", EPHEMERIS_VERSIONS[version]).upper()
    if units not in ("TDB", "TCB", "SI"):
        raise ValueError(f"UNITS is {short(units)}: give TDB, or TCB, which TEMPO2 also calls SI.")
    converted = Entries({name: word for name, word in entries.items() if name != "EDOT" or not _luminous(word)})
    converted.taken |= {"UNITS", "EPHVER"}
    converted.written = dict(entries.written) if isinstance(entries, Entries) else {}
    if units == "TDB":
        return converted
    for name in list(converted):
        power = next((n for pattern, n in TCB_POWERS.items() if re.fullmatch(pattern, name)), 0)
        if re.fullmatch(TCB_EPOCHS, name):
            converted[name] = str((_decimal(entries, name) - TCB_ORIGIN) / TCB_RATE + TCB_ORIGIN)
        elif power:
            words = [number({name: word}, name) * float(TCB_RATE) ** -power for word in entries[name].split()]
            converted[name] = " ".join(map(repr, words))
    return converted


EPHEMERIS_VERSIONS = {"2": "TDB", "TEMPO1": "TDB", "5": "TCB", "TEMPO2": "TCB"}
"""Units by TEMPO2's ``EPHVER``, where there are no ``UNITS``."""
TCB_RATE, TCB_ORIGIN = 1 + Decimal("1.55051979176e-8"), Decimal("43144.0003725")
TCB_EPOCHS = r"PEPOCH|POSEPOCH|T0|TASC|GLEP_\d+|ORBWAVE_EPOCH"
TCB_POWERS = {
    **{rf"F{k}|GLF{k}_\d+|FB{k}": -(k + 1) for k in range(13)},
    r"P0|PB|A1|GAMMA|M2|H[34]|A0|B0|GLTD\d?_\d+|WAVE\d+|WX(SIN|COS)_\d+": 1,
    r"GLF0D\d?_\d+|OMDOT|EDOT|LNEDOT|EPS1DOT|EPS2DOT|PMRA|PMDEC|PMELONG|PMELAT|ORBWAVE_OM": -1,
}
"""Power of time in the dimension of each entry, by a pattern of names; other entries keep their value."""
