"""The words of a command line as numbers in the library's units, times, angles and lists."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import jfstat
from jfstat.commandline.configfile import FALSE, TRUE

Value = TypeVar("Value")
LATEST_MJD = 1e6
"""Modified Julian dates end here, in the year 4596: a larger number is taken for GPS seconds."""
MJD_OF_GPS = 44244, 1e5
"""Plain numbers in this range are taken for modified Julian dates without MJD behind them: as GPS seconds they would
be of the first days of 1980. With GPS behind it, such a number is in seconds."""
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


def option_type(meaning: str) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Decorate a converter of words so that argparse reports its failures as ``'word' is not <meaning>``."""

    def decorate(convert: Callable[[str], Value]) -> Callable[[str], Value]:
        def converted(word: str) -> Value:
            try:
                return convert(word.strip())
            except (ValueError, ArithmeticError, TypeError):
                raise argparse.ArgumentTypeError(f"{word!r} is not {meaning}") from None

        return converted

    return decorate


@option_type("a number")
def number(word: str) -> float:
    """Return a finite number."""
    if not re.fullmatch(NUMBER, word):
        raise ValueError
    return float(word)


@option_type("a whole number of at least 1")
def count(word: str) -> int:
    """Return a positive whole number."""
    if int(word) < 1:
        raise ValueError
    return int(word)


@option_type("a whole number that is not negative")
def natural(word: str) -> int:
    """Return a whole number from 0 on."""
    if int(word) < 0:
        raise ValueError
    return int(word)


@option_type("a right ascension: give radians, hours:minutes:seconds or 1h2m3s")
def right_ascension(word: str) -> float:
    """Return radians from radians or hours:minutes:seconds."""
    return _angle(word, "hourangle")


@option_type("a declination: give radians, degrees:minutes:seconds or 1d2m3s")
def declination(word: str) -> float:
    """Return radians from radians or degrees:minutes:seconds."""
    return _angle(word, "deg")


def _angle(word: str, sexagesimal_unit: str) -> float:
    if re.fullmatch(NUMBER, word):
        return float(word)
    from astropy.coordinates import Angle

    angle: Any = Angle(word, unit=sexagesimal_unit) if ":" in word else Angle(word)
    return float(angle.rad)


@option_type("a time: give GPS seconds, <days>MJD or UTC as 2017-01-03T05:58:06")
def gps(word: str) -> float:
    """Return GPS seconds from GPS seconds, a modified Julian date (TT, as in LALSuite) or ISO UTC."""
    plain = re.fullmatch(rf"({NUMBER})(GPS)?", word)
    if plain:
        return _seconds(word, plain[1])
    from astropy.time import Time

    days = re.fullmatch(r"(\d+\.?\d*)MJD", word)
    if days:
        if not 0 < float(days[1]) < LATEST_MJD:
            raise ValueError
        whole, _, fraction = days[1].partition(".")
        time: Any = Time(float(whole), float(f"0.{fraction or 0}"), format="mjd", scale="tt")
    else:
        time = Time(word.removesuffix("Z"), scale="utc")
    # the conversion leaves some 1e-7 s, but GPS times are whole where UTC is
    return round(float(time.gps), 6)


@option_type("a time: give GPS seconds, <days>MJD or UTC as 2017-01-03T05:58:06")
def reference_time(word: str) -> str | float:
    """Return a GPS time: the text of GPS seconds, which keeps the nanoseconds, or a number as from `gps`."""
    plain = re.fullmatch(r"(\d+(\.\d*)?)(GPS)?", word)
    if plain:
        _seconds(word, plain[1])
    return plain[1] if plain else gps(word)


def _seconds(word: str, number: str) -> float:
    """Return GPS seconds; raise a ValueError for a number that must be a date."""
    if MJD_OF_GPS[0] <= float(number) < MJD_OF_GPS[1] and word == number:
        raise ValueError
    return float(number)


@option_type("a comma-separated list of numbers")
def numbers(word: str) -> list[float]:
    """Return numbers from a comma-separated list."""
    return [number(part) for part in word.split(",")]


@option_type("true or false")
def truth(word: str) -> bool:
    """Return what a word says."""
    if word.lower() not in (*TRUE, *FALSE):
        raise ValueError
    return word.lower() in TRUE


def words(word: str) -> list[str]:
    """Return words from a comma-separated list."""
    return [part.strip() for part in word.split(",") if part.strip()]


def window_name(kind: str, beta: float | None, option: str) -> str:
    """Return an SFT window as `jfstat.simulate_sfts` takes it, from its kind and the value of an option.

    Raises
    ------
    ValueError
        If the option is missing or has no effect.
    """
    name = kind.lower()
    if name == "tukey" and beta is None:
        raise ValueError(f"{option} is missing: a tukey window has a tapered fraction, 0 to 1.")
    if name != "tukey" and beta is not None:
        raise ValueError(f"{option} has no effect on a window {name!r}, only on tukey: leave it out.")
    return name if beta is None else f"{name}:{beta:g}"


@option_type("falling whole numbers, such as 50,10,1")
def stage_numbers(word: str) -> tuple[int, ...]:
    """Return numbers of segments from a comma-separated list."""
    return tuple(int(part) for part in words(word))


@option_type("a unit of work: give 3/64 for the third of 64")
def unit(word: str) -> tuple[int, int]:
    """Return (i, n) from i/n."""
    found = re.fullmatch(r"(\d+)/(\d+)", word)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError
    return int(found[1]), int(found[2])


@option_type("a list of bands such as 25-50,70-110, in Hz")
def bands(word: str) -> list[tuple[float, float]]:
    """Return pairs of frequencies, Hz."""
    pairs = [part.split("-") for part in word.split(",")]
    return [(number(low), number(high)) for low, high in pairs]


@option_type("a sky region: give allsky or at least three vertices (alpha,delta),(alpha,delta),...")
def sky_region(word: str) -> Any:
    """Return ``"all"`` or a SkyCoord of a polygon's vertices, as in LALSuite's SkyRegion, in rad or sexagesimal."""
    if word.lower() == "allsky":
        return "all"
    import jax
    from astropy.coordinates import SkyCoord

    vertices = re.findall(r"\(([^,()]+),([^,()]+)\)", word)
    if len(vertices) < 3 or re.sub(r"\([^()]*\)", "", word).strip(" ,"):
        raise ValueError
    alpha, delta = np.array([(right_ascension(a), declination(d)) for a, d in vertices]).T
    with jax.enable_x64(True):  # words are read before the program turns it on
        jfstat.Doppler(alpha, delta, [1.0])  # a SkyCoord would turn any number of radians into a right ascension
    return SkyCoord(alpha, delta, unit="rad")
