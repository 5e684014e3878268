"""Reading signals, template, amplitude and window of each, from options and from files of sources."""

from __future__ import annotations

import argparse
import glob
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import jfstat
from jfstat.commandline.messages import is_shown, renamed
from jfstat.commandline.spellings import AMPLITUDE, ARGUMENTS, ORBIT, ORBIT_OPTIONS, SPINS, TRANSIENT
from jfstat.commandline.words import declination, gps, number, right_ascension, truth, words
from jfstat.files import text_of

NEEDED = ("Alpha", "Delta", "Freq")
KEYS = (*NEEDED, *SPINS, *AMPLITUDE, *TRANSIENT, "refTime", *ORBIT_OPTIONS)
"""Parameters of a source that are options too, spelled as in Makefakedata_v5."""
DERIVATIVES = (*SPINS, "f4dot", "f5dot", "f6dot")
OF_FILES = (*KEYS, *DERIVATIVES[len(SPINS) :], "transientTauDays")
"""Parameters of a source in a file."""
DAY = 86400
SOURCES = r"\{[^{}]*\}|[^,{}]+"
"""Sources in braces, or names of files."""
ARTEFACT = {
    "Freq": "freq",
    "h0": "h0",
    "phi0": "phi0",
    "f1dot": "f1dot",
    "refTime": "reftime",
    "period": "period",
    "swing": "swing",
    "swingPhase": "swing_phase",
    "varies": "varies",
    "detectors": "detectors",
}
"""Parameters of an artefact besides those of its window, and the field of `jfstat.Artefact` that each gives."""
COMMAND_LINE = "on the command line"
"""Where a source is that options describe."""
KEYS_OF = {name: own for name, options in ARGUMENTS.items() if (own := [key for key in OF_FILES if key in options])}
KEYS_OF_ARTEFACT = KEYS_OF | {field: [key] for key, field in ARTEFACT.items()}
"""For each argument of the library: the parameters of a source, or of an artefact, that give it."""
Signal: TypeAlias = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Format:
    """What a source is described by, and what is made of it.

    Attributes
    ----------
    keys : tuple of str
        Parameters that it may have.
    make : callable
        Of a mapping from these to words, and of where they stand.
    """

    keys: tuple[str, ...]
    make: Callable[[Mapping[str, Any], str], Any]


def read_sources(text: str, option: str = "--injectionSources", kind: Format | None = None) -> list[Any]:
    """Signals from the argument of an option such as ``--injectionSources``, in Makefakedata_v5's format.

    Parameters
    ----------
    text : str
        Comma-separated: names of files, which may have wildcards, and sources in braces such as
        ``{Alpha=1; Delta=0.3; Freq=100; refTime=1167458304; h0=1e-24; cosi=0}``. Files have lines ``key = value``,
        comments after ``#`` or ``%``, and, if there are several sources, a line ``[name]`` before each.
    option : str
        For error messages.
    kind : Format
        By default of signals.

    Raises
    ------
    ValueError
        If a file cannot be read or a source is incomplete.
    """
    kind = Format(OF_FILES, signal) if kind is None else kind
    signals = []
    wrong = re.sub(SOURCES, "", text).strip(", \n")
    if wrong:
        raise ValueError(f"{option} has {wrong!r} alone: put each source between {{ and }}.")
    for part in re.findall(SOURCES, text):
        part = part.strip()
        if part.startswith("{"):
            lines = filter(None, map(str.strip, part[1:-1].split(";")))
            signals.append(kind.make(_pairs(enumerate(lines, 1), part, kind.keys), part))
        elif part:
            names = sorted(glob.glob(part))
            if not names:
                raise ValueError(f"{option}: no file matches {part!r}: name files, or sources in braces.")
            signals += [source for name in names for source in _read_file(Path(name), option, kind)]
    if not signals:
        raise ValueError(f"{option} names no source: give a file or a source in braces.")
    return signals


def _read_file(path: Path, option: str, kind: Format) -> list[Any]:
    try:
        lines = [re.split(r"[#%;]", line)[0].strip() for line in text_of(path).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{option}: {path} cannot be read ({error}): name a text file.") from None
    sections: dict[str, list[tuple[int, str]]] = {str(path): []}
    where = str(path)
    for place, line in enumerate(lines, 1):
        if re.fullmatch(r"\[.*\]", line):
            where = f"{path} {line}"
            if where in sections:
                raise ValueError(f"source {where}: line {place} names a source a second time; give it another name.")
            sections[where] = []
        elif line:
            sections[where].append((place, line))
    if not sections[str(path)] and len(sections) > 1:  # no lines before the first name
        del sections[str(path)]
    return [kind.make(_pairs(section, where, kind.keys), where) for where, section in sections.items()]


def _pairs(lines: Iterable[tuple[int, str]], where: str, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the words of a source by key, from its lines and their numbers."""
    pairs: dict[str, str] = {}
    for place, line in lines:
        key, equals, value = (word.strip() for word in line.partition("="))
        if not equals or key not in keys:
            raise ValueError(
                f"source {where}: line {place}, {line!r} is not one of {', '.join(keys)} with = and a value; "
                "correct it."
            )
        if key in pairs:
            raise ValueError(f"source {where}: line {place} gives {key} a second time; leave one out.")
        pairs[key] = value.strip("\"'")
    return pairs


def signal(values: Mapping[str, str | float | None], where: str) -> Signal:
    """One signal from its parameters, given as words or numbers.

    Parameters
    ----------
    values : mapping
        By `OF_FILES`; None counts as absent.
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
        order = max((k for k, name in enumerate(DERIVATIVES, 1) if name in given), default=0)
        fkdot = [given["Freq"], *(given.get(name, 0.0) for name in DERIVATIVES[:order])]
        doppler = jfstat.Doppler(given["Alpha"], given["Delta"], fkdot, given.get("refTime"), _orbit(given))
        return doppler, amplitude(given), window(given)
    except (ValueError, argparse.ArgumentTypeError) as error:
        # the program names options, as the keys are called, and of those in files only the keys
        said = str(error) if where == COMMAND_LINE else _in_keys(str(error), KEYS_OF, values)
        raise ValueError(f"source {where}: {said}") from None


def window(given: Mapping[str, Any]) -> jfstat.TransientWindow | None:
    """The window among a source's parameters, or None for a persistent signal.

    Days are rounded to whole seconds, as by Makefakedata_v5 (XLALReadPulsarParams).
    """
    given = {name: value for name, value in given.items() if value is not None}
    days = given.get("transientTauDays")
    if days is not None:
        if "transientTau" in given:
            raise ValueError("transientTau and transientTauDays are one time scale in s and in days: give one.")
        given["transientTau"] = float(round(days * DAY))
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


def artefact(values: Mapping[str, str], where: str) -> jfstat.Artefact:
    """One artefact of an instrument from its parameters, given as words.

    Raises
    ------
    ValueError
        If a parameter is missing, malformed or out of range.
    """
    kinds: dict[str, Any] = {"refTime": gps, "transientStartTime": gps, "transientWindowType": str, "detectors": words}
    kinds |= {"varies": truth}
    try:
        given = {key: kinds.get(key, number)(word) for key, word in values.items()}
        missing = [key for key in ("Freq", "h0") if key not in given]
        if missing:
            raise ValueError(f"{', '.join(missing)} must be given")
        own = {field: given[key] for key, field in ARTEFACT.items() if key in given}
        return jfstat.Artefact(**own, window=window({key: x for key, x in given.items() if key not in ARTEFACT}))
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise ValueError(f"artefact {where}: {_in_keys(str(error), KEYS_OF_ARTEFACT, values)}") from None


def _in_keys(message: str, keys_of: Mapping[str, list[str]], values: Mapping[str, Any]) -> str:
    """Return a message of the library with the parameters of a source in a file where it names arguments.

    Of several parameters for an argument it is the one whose value is shown, or else the first.
    """

    def key(name: str, shown: str, whole: bool) -> str:
        known = [own for own in keys_of[name] if values.get(own) is not None and _shows(shown, values[own])]
        return [*known, *keys_of[name]][0]

    return renamed(message, keys_of, key)


def _shows(text: str, value: Any) -> bool:
    """Return whether a text shows a value, given as a word or a number."""
    try:
        return is_shown(float(value), text)
    except ValueError:
        return is_shown(value, text)


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
    if (h0 is not None or cosi is not None) and (plus is not None or cross is not None):
        raise ValueError("h0 and cosi do not go with aPlus and aCross, which say the same: give one of the two pairs.")
    if plus is None or cross is None:
        raise ValueError("h0 and cosi, or aPlus and aCross, must be given.")
    if not 0 <= abs(cross) <= plus:
        raise ValueError(f"aPlus={plus} and aCross={cross} must have aPlus >= |aCross|.")
    h0 = plus + float(np.sqrt(plus**2 - cross**2))
    return jfstat.Amplitude(h0, cross / h0 if h0 else 0.0, **angles)
