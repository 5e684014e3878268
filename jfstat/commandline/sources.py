"""Reading signals, template, amplitude and window of each, from options and from files of sources."""

from __future__ import annotations

import argparse
import glob
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import jfstat
from jfstat.commandline.spellings import AMPLITUDE, ORBIT, ORBIT_OPTIONS, SPINS
from jfstat.commandline.words import declination, gps, number, right_ascension
from jfstat.files import text_of

NEEDED = ("Alpha", "Delta", "Freq")
TRANSIENT = ("transientWindowType", "transientStartTime", "transientTau")
KEYS = (*NEEDED, *SPINS, *AMPLITUDE, *TRANSIENT, "refTime", *ORBIT_OPTIONS)
"""Parameters of a source, spelled as in Makefakedata_v5."""
Signal: TypeAlias = tuple[Any, Any, Any]


def read_sources(text: str, option: str = "--injectionSources") -> list[Signal]:
    """Signals from the argument of an option such as ``--injectionSources``, in Makefakedata_v5's format.

    Parameters
    ----------
    text : str
        Comma-separated: names of files, which may have wildcards, and sources in braces such as
        ``{Alpha=1; Delta=0.3; Freq=100; refTime=1167458304; h0=1e-24; cosi=0}``. Files have lines ``key = value``,
        comments after ``#`` or ``%``, and, if there are several sources, a line ``[name]`` before each.
    option : str
        For error messages.

    Raises
    ------
    ValueError
        If a file cannot be read or a source is incomplete.
    """
    signals = []
    for part in re.findall(r"\{[^}]*\}|[^,{}]+", text):
        part = part.strip()
        if part.startswith("{"):
            signals.append(signal(_pairs(part[1:-1].split(";"), part), part))
        elif part:
            names = sorted(glob.glob(part))
            if not names:
                raise ValueError(f"{option}: no file matches {part!r}: name files, or sources in braces.")
            signals += [source for name in names for source in _read_file(Path(name), option)]
    if not signals:
        raise ValueError(f"{option} names no source: give a file or a source in braces.")
    return signals


def _read_file(path: Path, option: str) -> list[Signal]:
    try:
        lines = [re.split(r"[#%]", line)[0].strip() for line in text_of(path).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{option}: {path} cannot be read ({error}): name a text file.") from None
    sections: list[list[str]] = [[]]
    for line in lines:
        if re.fullmatch(r"\[.*\]", line):
            sections.append([])
        else:
            sections[-1].append(line)
    return [signal(_pairs(section, str(path)), str(path)) for section in sections if any(section)]


def _pairs(lines: list[str], where: str) -> dict[str, str]:
    pairs = {}
    for line in filter(None, map(str.strip, lines)):
        key, equals, value = (word.strip() for word in line.partition("="))
        if not equals or key not in KEYS:
            raise ValueError(
                f"source {where}: {line!r} is not one of {', '.join(KEYS)} with = and a value; correct it."
            )
        pairs[key] = value
    return pairs


def signal(values: Mapping[str, str | float | None], where: str) -> Signal:
    """One signal from its parameters, given as words or numbers.

    Parameters
    ----------
    values : mapping
        By `KEYS`; None counts as absent.
    where : str
        For error messages.

    Raises
    ------
    ValueError
        If a parameter is missing, malformed or out of range.
    """
    kinds = {"Alpha": right_ascension, "Delta": declination, "refTime": gps, "orbitTp": gps}
    kinds |= {"transientStartTime": gps, "transientWindowType": str}
    try:
        given = {}
        for key, value in values.items():
            if value is not None:
                given[key] = kinds.get(key, number)(str(value))
        missing = [key for key in NEEDED if key not in given]
        if missing:
            raise ValueError(f"{', '.join(missing)} must be given")
        order = max((k for k, name in enumerate(SPINS, 1) if name in given), default=0)
        fkdot = [given["Freq"], *(given.get(name, 0.0) for name in SPINS[:order])]
        doppler = jfstat.Doppler(given["Alpha"], given["Delta"], fkdot, given.get("refTime"), _orbit(given))
        return doppler, amplitude(given), _window(given)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise ValueError(f"source {where}: {error}") from None


def _window(given: Mapping[str, Any]) -> jfstat.TransientWindow | None:
    """The window among a source's parameters, or None for a persistent signal."""
    kind = given.get("transientWindowType", "none")
    if kind not in ("none", "rect", "exp"):
        raise ValueError(f"transientWindowType must be none, rect or exp, not {kind}.")
    missing = [name for name in TRANSIENT[1:] if name not in given]
    if kind == "none":
        if len(missing) < len(TRANSIENT) - 1:
            raise ValueError("transientStartTime and transientTau go with transientWindowType: give rect or exp.")
        return None
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given for a transient signal.")
    return jfstat.TransientWindow(kind, given["transientStartTime"], given["transientTau"])


def _orbit(given: Mapping[str, float | None]) -> jfstat.Orbit | None:
    """The orbit among a source's parameters, or None without ``orbitasini``."""
    fields = {name: given.get(option) for name, (option, _, _) in ORBIT.items()}
    fields = {name: value for name, value in fields.items() if value is not None}
    if not fields:
        return None
    missing = [ORBIT[name][0] for name in ("asini", "period", "tp") if name not in fields]
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given for a binary orbit.")
    return jfstat.Orbit(**fields)


def amplitude(given: Mapping[str, float | None]) -> jfstat.Amplitude:
    """The amplitudes among a source's parameters: h0 and cosi, or aPlus and aCross (XLALReadPulsarParams)."""
    h0, cosi, plus, cross = (given.get(name) for name in AMPLITUDE[:4])
    angles = {name: given.get(name) or 0.0 for name in ("psi", "phi0")}
    if h0 is not None and cosi is not None and plus is None and cross is None:
        return jfstat.Amplitude(h0, cosi, **angles)
    if plus is None or cross is None or h0 is not None or cosi is not None:
        raise ValueError("h0 and cosi, or aPlus and aCross, must be given.")
    if not 0 <= abs(cross) <= plus:
        raise ValueError(f"aPlus={plus} and aCross={cross} must have aPlus >= |aCross|.")
    h0 = plus + float(np.sqrt(plus**2 - cross**2))
    return jfstat.Amplitude(h0, cross / h0 if h0 else 0.0, **angles)
