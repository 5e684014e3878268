"""Entries of timing solutions as words by name, from .par files of TEMPO, TEMPO2 and PINT, and from catalogues."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeAlias

import numpy as np

from jfstat.files import text_of_named
from jfstat.maths.arrays import on_device
from jfstat.signal.times import GPSTime
from jfstat.validation import require_x64

Entries: TypeAlias = dict[str, str]
"""Value of each entry as it is written, by its name."""

ALIASES = {
    "PSR": "NAME",
    "PSRJ": "NAME",
    "PSRB": "NAME",
    "JNAME": "NAME",
    "RA": "RAJ",
    "DEC": "DECJ",
    "F": "F0",
    "P": "P0",
    "E": "ECC",
    "LAMBDA": "ELONG",
    "BETA": "ELAT",
    "PMLAMBDA": "PMELONG",
    "PMBETA": "PMELAT",
    "PMELONG2": "PMELONG",
    "A1DOT": "XDOT",
    "E2DOT": "EPS2DOT",
    "E1DOT": "EPS1DOT",
}
"""Usual names of entries by their other spellings."""
MISSING = ("", "*", "nan", "--", "none")
"""Words that catalogues write for missing values."""
GPS_EPOCH_MJD, TDB_MINUS_GPS = 44244, Decimal("51.184")
"""MJD of GPS time 0, and TDB minus GPS time at the solar-system barycentre, s, as in LALSuite."""
SCALED = 1e-7
"""Value above which entries such as PBDOT are in units of 1e-12, as in TEMPO and LALSuite."""


def par_entries(path: Path) -> Entries:
    """Read the entries of a .par file: lines ``NAME value [fit flag] [error]``.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is not text.
    """
    text = text_of_named(path, "is not a .par file: it is not text.", "name a .par file.")
    pairs = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] not in ("C", "c") and words[0][0] not in "#%":
            pairs.append((words[0], " ".join(words[1:3]) if re.fullmatch(r"WAVE\d+", words[0]) else words[1]))
    return named(dict(reversed(pairs)))  # the first of several counts


def named(entries: Mapping[str, str]) -> Entries:
    """Return entries by their usual names, without entries that have no value."""
    usual = {}
    for name, word in entries.items():
        name = name.strip().upper()
        if word.strip().lower() not in MISSING:
            usual.setdefault(ALIASES.get(name, name), word.strip())
    return usual


def number(entries: Entries, name: str, default: float = 0.0) -> float:
    """Return the number of an entry, which may have Fortran's exponents such as 1.5D-15.

    Raises
    ------
    ValueError
        If the entry is not a number.
    """
    if name not in entries:
        return default
    word = re.sub(r"[dD]", "e", entries[name])
    try:
        value = float(word)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(f"{name} is {entries[name]!r}: give a number.")
    return value


def scaled(entries: Entries, name: str) -> float:
    """Return the number of an entry that is in units of 1e-12 if it is large."""
    value = number(entries, name)
    return 1e-12 * value if abs(value) > SCALED else value


def epoch(entries: Entries, name: str) -> GPSTime:
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


def _decimal(entries: Entries, name: str) -> Decimal:
    try:
        days = Decimal(re.sub(r"[dD]", "e", entries[name]))
    except InvalidOperation:
        days = Decimal("nan")
    if not days.is_finite():
        raise ValueError(f"{name} is {entries[name]!r}: give an MJD in TDB.")
    return days


def in_tdb(entries: Entries) -> Entries:
    """Return the entries in barycentric dynamical time, TDB, converted if their ``UNITS`` are TCB.

    A value of dimension s^n is divided by K^n, K = 1 + 1.55051979176e-8, and epochs are moved towards MJD 43144.0003725
    (Irwin & Fukushima 1999; TEMPO2's transform and PINT's tcb2tdb do the same).
    """
    units = entries.get("UNITS", "SI" if entries.get("EPHVER") == "5" else "TDB").upper()
    if units not in ("TDB", "TCB", "SI"):
        raise ValueError(f"UNITS is {units!r}: give TDB, or TCB, which TEMPO2 also calls SI.")
    if units == "TDB":
        return entries
    converted = dict(entries)
    for name in entries:
        power = next((n for pattern, n in TCB_POWERS.items() if re.fullmatch(pattern, name)), 0)
        if re.fullmatch(TCB_EPOCHS, name):
            converted[name] = str((_decimal(entries, name) - TCB_ORIGIN) / TCB_RATE + TCB_ORIGIN)
        elif power:
            words = [number({name: word}, name) * float(TCB_RATE) ** -power for word in entries[name].split()]
            converted[name] = " ".join(map(repr, words))
    return converted


TCB_RATE, TCB_ORIGIN = 1 + Decimal("1.55051979176e-8"), Decimal("43144.0003725")
TCB_EPOCHS = "PEPOCH|POSEPOCH|T0|TASC|GLEP_.*|WAVEEPOCH"
TCB_POWERS = {
    **{f"F{k}|GLF{k}_.*|FB{k}": -(k + 1) for k in range(13)},
    "P0|PB|A1|GAMMA|GLTD_.*|WAVE[1-9].*": 1,
    "GLF0D_.*|OMDOT|EDOT|EPS1DOT|EPS2DOT|PMRA|PMDEC|PMELONG|PMELAT|WAVE_OM": -1,
    "M2": 1,
}
"""Power of time in the dimension of each entry, by a pattern of names."""
