"""Options that subcommands share, and the conversion of their words to numbers in the library's units."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from jfstat.commandline.configfile import with_config_files

if TYPE_CHECKING:
    from jfstat.data.noise import Noise
    from jfstat.statistic.linerobust import LinePrior

    # argparse has no public names for these
    Subparsers: TypeAlias = argparse._SubParsersAction["Parser"]
    """Where a subcommand adds its parser."""
    OptionGroup: TypeAlias = argparse._ActionsContainer
    """A parser or a group of its options."""

Value = TypeVar("Value")
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


REPLACEMENTS = {
    "FstatMethod": "leave it out, there is one method, resampling",
    "Dterms": "leave it out, nothing is cut off at some bins",
    "SSBprecision": "leave it out, times at the barycentre are exact",
    "metricType": "leave it out, --metricMismatch uses the phase metric of the data",
    "projectMetric": "leave it out, mismatches are at the best frequency",
    "computeBSGL": "leave it out, with several detectors log10BSGL is always there",
    "BSGLlogcorr": "leave it out, log10BSGL has the logarithmic correction",
    "outputSingleFstats": "leave it out, 2F of each detector is always there",
    "outputFstatHist": "leave it out, .ecsv and .hdf5 files of --outputFstat hold a histogram",
    "UseNoiseWeights": "leave it out, SFTs are weighted by their noise",
    "clusterOnScanline": "use --cluster",
    "FracCandidatesToKeep": "use --NumCandidatesToKeep or --TwoFthreshold",
    "injectionSources": "use jfstat simulate, which adds signals to SFTs",
    "injectSqrtSX": "use jfstat simulate",
    "outputLogfile": "leave it out, what is printed is the log",
    "workingDir": "leave it out",
    "timerCount": "leave it out",
    "sftFiles": "use --DataFiles",
    "overlap-fraction": "leave it out, the F-statistic needs SFTs that do not overlap",
    "frame-checksums": "leave it out, damaged frames are refused",
    "allow-skipping": "leave it out, call the program once for each channel",
}
"""What to give instead of options of ComputeFstatistic_v2 and its relatives that jfstat does not have."""


class UsageError(ValueError):
    """A command line that argparse refuses.

    Attributes
    ----------
    command : str
        The subcommand followed by a space, or nothing.
    """

    def __init__(self, message: str, command: str):
        super().__init__(message)
        self.command = command


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises instead of exiting, and does not take abbreviated options."""

    def __init__(self, **kwargs: Any):
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(**kwargs)
        if self._command:
            self.epilog = self.epilog or (
                f"jfstat {self._command} @FILE reads options from a file, one 'name = value' a line, as LALSuite's "
                "programs do; options that follow override it."
            )

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self._command} " if self._command else "")

    @property
    def _command(self) -> str:
        """The subcommand; empty for the program itself."""
        return self.prog.partition(" ")[2]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        if args is not None and self._command:
            try:
                args = with_config_files(args, self._actions)
            except ValueError as error:
                self.error(str(error))
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown and self._command:  # argparse would leave them to the program, whose help does not list options
            self.error(f"unknown option {unknown[0].partition('=')[0]}: {self._instead_of(unknown[0])}")
        return arguments, unknown

    def _instead_of(self, word: str) -> str:
        """What to give instead of a word that is no option."""
        name = word.partition("=")[0].lstrip("-")
        if name in REPLACEMENTS:
            return REPLACEMENTS[name]
        known = {option.lower(): option for action in self._actions for option in action.option_strings}
        close = difflib.get_close_matches(f"--{name}".lower(), known, n=1, cutoff=0.75)
        return f"did you mean {known[close[0]]}?" if close else "it is none of this command's"


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=110)


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
    """A finite number."""
    if not re.fullmatch(NUMBER, word):
        raise ValueError
    return float(word)


@option_type("a right ascension: give radians, hours:minutes:seconds or 1h2m3s")
def right_ascension(word: str) -> float:
    """Radians from radians or hours:minutes:seconds."""
    return _angle(word, "hourangle")


@option_type("a declination: give radians, degrees:minutes:seconds or 1d2m3s")
def declination(word: str) -> float:
    """Radians from radians or degrees:minutes:seconds."""
    return _angle(word, "deg")


def _angle(word: str, sexagesimal_unit: str) -> float:
    if re.fullmatch(NUMBER, word):
        return float(word)
    from astropy.coordinates import Angle

    angle: Any = Angle(word, unit=sexagesimal_unit) if ":" in word else Angle(word)
    return float(angle.rad)


@option_type("a time: give GPS seconds, <days>MJD or UTC as 2017-01-03T05:58:06")
def gps(word: str) -> float:
    """GPS seconds from GPS seconds, a modified Julian date (TT, as in LALSuite) or ISO UTC."""
    plain = re.fullmatch(rf"({NUMBER})(GPS)?", word)
    if plain:
        return float(plain[1])
    from astropy.time import Time

    days = re.fullmatch(rf"({NUMBER})MJD", word)
    if days:
        whole, _, fraction = days[1].partition(".")
        time: Any = Time(float(whole), float(f"0.{fraction or 0}"), format="mjd", scale="tt")
    else:
        time = Time(word.removesuffix("Z"), scale="utc")
    # the conversion leaves some 1e-7 s, but GPS times are whole where UTC is
    return round(float(time.gps), 6)


@option_type("a time: give GPS seconds, <days>MJD or UTC as 2017-01-03T05:58:06")
def reference_time(word: str) -> str | float:
    """A GPS time for `times.gps_time`: the text of GPS seconds, which keeps the nanoseconds, or as from `gps`."""
    plain = re.fullmatch(r"(\d+(\.\d*)?)(GPS)?", word)
    return plain[1] if plain else gps(word)


@option_type("a comma-separated list of numbers")
def numbers(word: str) -> list[float]:
    """Numbers from a comma-separated list."""
    return [number(part) for part in word.split(",")]


def words(word: str) -> list[str]:
    """Words from a comma-separated list."""
    return [part.strip() for part in word.split(",") if part.strip()]


def one_or_list(values: list[float] | None) -> float | list[float] | None:
    """The number in a list of one, which then holds for all detectors; otherwise the list."""
    return values[0] if values is not None and len(values) == 1 else values


def noise_floors(arguments: argparse.Namespace) -> float | list[float] | dict[str, float] | None:
    """Noise floors as `prepare` takes them, from ``--assumeSqrtSX``, whose values are in the order of ``--IFOs``."""
    floors = one_or_list(arguments.assumeSqrtSX)
    if isinstance(floors, list) and arguments.IFOs is not None and len(floors) == len(arguments.IFOs):
        return dict(zip(arguments.IFOs, floors, strict=True))
    return floors


def line_prior(arguments: argparse.Namespace) -> LinePrior:
    """Return the prior knowledge of lines from ``--Fstar0`` and ``--oLGX``."""
    from jfstat.statistic.linerobust import LinePrior

    return LinePrior(arguments.Fstar0, arguments.oLGX)


def noise(arguments: argparse.Namespace) -> Noise:
    """Return the noise floor that ``--assumeSqrtSX``, ``--RngMedWindow`` and ``--offSourceBins`` ask for.

    Raises
    ------
    ValueError
        If one of them is out of range, or has no effect beside another.
    """
    from jfstat.data.noise import MEDIAN_BINS, Noise

    floors, window, left_out = noise_floors(arguments), arguments.RngMedWindow, arguments.offSourceBins
    if floors is not None and (window != MEDIAN_BINS or left_out is not None):
        option = "--RngMedWindow" if left_out is None else "--offSourceBins"
        raise ValueError(f"{option} estimates the noise floor, which --assumeSqrtSX gives: leave one of them out.")
    return Noise(floors, window, left_out)


def add_median_window(group: OptionGroup) -> None:
    """Add the width of the running median that estimates noise floors."""
    from jfstat.data.noise import MEDIAN_BINS  # imports JAX, for which --version does not wait

    group.add_argument(
        "--RngMedWindow",
        "-k",
        type=int,
        default=MEDIAN_BINS,
        metavar="BINS",
        help=f"width of the running median that estimates the noise floor, bins (default {MEDIAN_BINS})",
    )
    group.add_argument(
        "--offSourceBins",
        type=int,
        metavar="BINS",
        help="estimate the noise floor at each bin from bins further away than this on both sides, so that loud "
        "signals do not raise their own; 10 is enough for most (default: the running median over all bins)",
    )


def add_preparation(group: OptionGroup) -> None:
    """Add the options of `prepare`: noise floor, guard, ephemeris."""
    group.add_argument(
        "--assumeSqrtSX",
        type=numbers,
        metavar="X,...",
        help="noise floor, 1/sqrt(Hz), one or one a detector in the order of --IFOs, or else of their "
        "names (default: estimated)",
    )
    add_median_window(group)
    group.add_argument(
        "--guard",
        type=number,
        default=1.0,
        metavar="HZ",
        help="how far beyond the band to use the SFTs, Hz, as far as they go (default 1)",
    )
    add_ephemeris(group)


def add_sky(group: OptionGroup, required: bool = True) -> None:
    """Add the options for a sky position."""
    group.add_argument(
        "--Alpha",
        "-a",
        type=right_ascension,
        metavar="RAD|H:M:S",
        required=required,
        help="right ascension, equatorial J2000: rad, or hours:minutes:seconds",
    )
    group.add_argument(
        "--Delta",
        "-d",
        type=declination,
        metavar="RAD|D:M:S",
        required=required,
        help="declination, equatorial J2000: rad, or degrees:minutes:seconds",
    )


def add_amplitude(group: OptionGroup) -> None:
    """Add the options for the amplitude parameters."""
    group.add_argument("--h0", type=number, metavar="STRAIN", help="strain amplitude; with --cosi")
    group.add_argument("--cosi", type=number, metavar="COS", help="cosine of the inclination, -1 to 1; with --h0")
    group.add_argument("--aPlus", type=number, metavar="STRAIN", help="instead of --h0 and --cosi: plus amplitude")
    group.add_argument("--aCross", type=number, metavar="STRAIN", help="with --aPlus: cross amplitude")
    group.add_argument("--psi", type=number, default=0.0, metavar="RAD", help="polarisation angle, rad (default 0)")
    group.add_argument("--phi0", type=number, default=0.0, metavar="RAD", help="phase at --refTime, rad (default 0)")


def add_ephemeris(group: OptionGroup) -> None:
    """Add the options that choose an ephemeris."""
    group.add_argument("--ephemeris", metavar="NAME", help="solar-system ephemeris by name (default DE405)")
    group.add_argument("--ephemEarth", type=Path, metavar="FILE", help="instead: Earth's file; with --ephemSun")
    group.add_argument("--ephemSun", type=Path, metavar="FILE", help="instead: the Sun's file; with --ephemEarth")


def add_orbit(group: OptionGroup) -> None:
    """Add the options for a binary orbit."""
    for option, unit, what in ORBIT_OPTIONS.values():
        kind = gps if unit == "GPS" else number
        label = {"GPS": "GPS s (or UTC)", "1": "no unit"}.get(unit, unit)
        group.add_argument(f"--{option}", type=kind, metavar=unit.upper(), help=f"{what}, {label}")


ORBIT_OPTIONS = {
    "asini": ("orbitasini", "light-s", "binary orbit: projected semi-major axis"),
    "period": ("orbitPeriod", "s", "binary orbit: period"),
    "tp": ("orbitTp", "GPS", "binary orbit: time of periapsis in the SSB"),
    "ecc": ("orbitEcc", "1", "binary orbit: eccentricity (default 0)"),
    "argp": ("orbitArgp", "rad", "binary orbit: argument of periapsis (default 0)"),
}
"""For each field of `Orbit`: ComputeFstatistic_v2's option, unit, meaning."""


def ephemeris(arguments: argparse.Namespace) -> str | tuple[Path, Path]:
    """The ephemeris that the options of `add_ephemeris` choose, by name or by its two files."""
    files = arguments.ephemEarth, arguments.ephemSun
    if files == (None, None):
        return arguments.ephemeris or "DE405"
    if None in files or arguments.ephemeris is not None:
        raise ValueError("--ephemEarth and --ephemSun go together and without --ephemeris: give both files, or a name.")
    return arguments.ephemEarth, arguments.ephemSun
