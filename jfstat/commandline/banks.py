"""Options of `jfstat search` that say which templates to search: flat grids, metric lattices, tables."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from jfstat.banks.braking import Braking, BrakingRegion
from jfstat.banks.ranges import orbit_limits, orbits
from jfstat.banks.template_bank import template_bank
from jfstat.candidates.tables import bank_from_table, parameter_columns, points_from
from jfstat.commandline.options import (
    ORBIT_OPTIONS,
    add_orbit,
    add_sky,
    declination,
    number,
    option_type,
    right_ascension,
)
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.io.templates import read_templates
from jfstat.signal.templates import Doppler, Orbit

if TYPE_CHECKING:
    from astropy.coordinates import SkyCoord

    from jfstat.banks.ranges import RegionLike
    from jfstat.commandline.options import OptionGroup

Range: TypeAlias = float | tuple[float, float] | tuple[float, float, float] | None
"""A number, (low, high) or (low, high, step); None if no option gives it."""
OrbitRanges: TypeAlias = dict[str, "float | tuple[float, float] | tuple[float, float, float]"]
ALL_SKY = "allsky"
FLAT, METRIC, SKY_FILE, EXACT_POINTS, SPIN_SQUARE, AGE_BRAKING = 0, 2, 3, 6, 8, 9
"""ComputeFstatistic_v2's numbers of types of grids, as far as they exist here."""
BEYOND_PARAMETERS = (
    "skyRegion", "skyRadius", "metricMismatch", "strictSpindownBounds", "spindownAge", "minBraking", "maxBraking"
)  # fmt: skip
"""Options for templates other than values, bands and steps of single parameters."""
BEYOND = 1.02
"""How far a lattice may extend beyond the largest orbit and the shortest period, when SFTs are read."""


@option_type("a sky region: give allsky or at least three vertices (alpha,delta),(alpha,delta),...")
def _sky_region(word: str) -> Literal["all"] | SkyCoord:
    """A region from ``allsky`` or the vertices of a polygon, as in LALSuite's SkyRegion, in rad or sexagesimal."""
    if word.lower() == ALL_SKY:
        return "all"
    from astropy.coordinates import SkyCoord

    vertices = re.findall(r"\(([^,()]+),([^,()]+)\)", word)
    if len(vertices) < 3 or re.sub(r"\([^()]*\)", "", word).strip(" ,"):
        raise ValueError
    alpha, delta = [right_ascension(a) for a, _ in vertices], [declination(d) for _, d in vertices]
    return SkyCoord(alpha, delta, unit="rad")


class Templates(NamedTuple):
    """Which templates the options ask for, known before the data are read.

    Attributes
    ----------
    alpha, delta, region
        As for `template_bank`.
    spins : dict
        ``f1dot``, ``f2dot``, ``f3dot`` as for `template_bank`; None if not given.
    orbit : Orbit, dict or None
        A stack; or ranges of an orbit's parameters, for a lattice.
    mismatch : float or None
    table : Doppler or None
        Templates from a file, instead of all these.
    strict : bool
        As for `template_bank`.
    sky : SkyCoord or None
        Positions from a file, instead of the first three.
    braking : BrakingRegion or None
        Ranges of f1dot and f2dot by age and braking index; `spins` hold the smallest ranges that contain them.
    """

    alpha: Range
    delta: Range
    region: RegionLike | None
    spins: dict[str, Range]
    orbit: Orbit | OrbitRanges | None
    mismatch: float | None
    table: Doppler | None
    strict: bool = False
    sky: SkyCoord | None = None
    braking: BrakingRegion | None = None

    @property
    def single(self) -> bool:
        """Whether it is one template."""
        if self.table is not None:
            return self.table.alpha.shape == (1,)
        if self.mismatch is not None or (self.sky is not None and self.sky.shape != (1,)):
            return False
        ranges = (self.alpha, self.delta, *self.spins.values())
        alone = isinstance(self.orbit, Orbit) and np.size(self.orbit.asini) == 1
        return (self.orbit is None or alone) and not any(isinstance(x, tuple) for x in ranges)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The ranges that were asked for, for `search`."""
        orbit = self.orbit if isinstance(self.orbit, dict) else {}
        ranges = {"alpha": self.alpha, "delta": self.delta, **self.spins, **orbit}
        return {name: (x[0], x[1]) for name, x in ranges.items() if isinstance(x, tuple) and x[0] < x[1]}

    @property
    def fdots(self) -> list[tuple[float, float]]:
        """Ranges of the frequency's derivatives, for `prepare`."""
        if self.table is not None:
            return [(float(x.min()), float(x.max())) for x in np.asarray(self.table.fkdot)[:, 1:].T]
        return [(x[0], x[1]) if isinstance(x, tuple) else (x or 0.0, x or 0.0) for x in self.spins.values()]

    @property
    def extremes(self) -> Orbit | None:
        """Orbits as a stack that includes the most extreme ones, for `prepare`."""
        if not isinstance(self.orbit, dict):
            return self.orbit
        limits = orbit_limits(self.orbit)
        assert limits is not None  # the ranges are why it is a mapping
        # a lattice extends beyond its ranges
        asini, period = limits["asini"][1] * BEYOND, limits["period"][0] / BEYOND
        return Orbit(asini, period, limits["tp"][0], limits["ecc"][1])

    def bank(self, data: Observation | FstatData, band: tuple[float, float] | None = None) -> Doppler:
        """The templates for a band, Hz, by default the data's; `data` as for `template_bank`."""
        if self.table is not None:
            return self.table
        f1dot, f2dot, f3dot = self.spins.values()
        own: Any = 0.0 if f1dot is None else f1dot
        if self.braking is not None:
            own, f2dot = Braking(self.braking.age, (self.braking.least, self.braking.most)), None
            band = self.braking.fmin, self.braking.fmax
        return template_bank(
            self.alpha if self.sky is None else self.sky,
            self.delta if self.sky is None else None,
            own,
            f2dot,
            f3dot,
            orbit=self.orbit,
            data=data,
            freq=band,
            mismatch=self.mismatch,
            region=self.region,
            strict=self.strict,
        )


def add_templates(group: OptionGroup) -> None:
    """Add the options that say which templates to search."""
    add_sky(group, required=False)
    for name, kind, unit in (("Alpha", right_ascension, "RAD|H:M:S"), ("Delta", declination, "RAD|D:M:S")):
        group.add_argument(
            f"--{name}Band", type=kind, default=0.0, metavar=unit, help=f"range in {name}, rad (default 0)"
        )
        group.add_argument(
            f"--d{name}", type=kind, metavar=unit, help=f"step in {name}, rad; a flat grid needs it with --{name}Band"
        )
    group.add_argument(
        "--skyRegion",
        type=_sky_region,
        metavar="allsky|(A,D),...",
        help="with --metricMismatch, instead of --Alpha and --Delta: the whole sky, or a polygon's vertices, rad or "
        "sexagesimal",
    )
    group.add_argument(
        "--skyRadius", type=number, metavar="RAD", help="with --metricMismatch: a disc about --Alpha, --Delta, rad"
    )
    for k in (1, 2, 3):
        unit = "Hz/s" if k == 1 else f"Hz/s^{k}"
        group.add_argument(
            f"--f{k}dot", type=number, metavar=unit.upper(), help=f"derivative {k} of the frequency, {unit} (default 0)"
        )
        group.add_argument(
            f"--f{k}dotBand", type=number, metavar=unit.upper(), help=f"range in f{k}dot, {unit} (default 0)"
        )
        group.add_argument(
            f"--df{k}dot",
            type=number,
            metavar=unit.upper(),
            help=f"step in f{k}dot of a flat grid, {unit} (default 1/(2T^{k + 1}))",
        )
    group.add_argument(
        "--metricMismatch",
        "-X",
        type=number,
        metavar="M",
        help="place templates of sky and spin-down, and of orbits whose bands have no steps, on a lattice with at "
        "most this mismatch, by the metric of the data, at the best frequency; its bins cost 0.07 more in the mean "
        "(default: a flat grid)",
    )
    group.add_argument(
        "--strictSpindownBounds",
        action="store_true",
        help="with --metricMismatch: leave out templates beyond the ranges of spin-down, which signals at their edges "
        "may need",
    )
    group.add_argument(
        "--spindownAge",
        type=number,
        metavar="S",
        help="instead of f1dot and f2dot: the source's age, s, with --minBraking and --maxBraking; -f1dot is between "
        "Freq/((maxBraking - 1) age) and Freq/((minBraking - 1) age), f2dot is braking index times f1dot^2/Freq",
    )
    group.add_argument(
        "--minBraking", type=number, metavar="N", help="with --spindownAge: least braking index, above 1"
    )
    group.add_argument("--maxBraking", type=number, metavar="N", help="with --spindownAge: largest braking index")
    add_orbit(group)
    for option, unit, _ in ORBIT_OPTIONS.values():
        unit = "s" if unit == "GPS" else unit  # of differences
        label = "no unit" if unit == "1" else unit
        group.add_argument(
            f"--{option}Band", type=number, metavar=unit.upper(), help=f"range in {option}, {label} (default 0)"
        )
        group.add_argument(
            f"--d{option}", type=number, metavar=unit.upper(), help=f"step in {option}, {label}: of a flat grid"
        )
    group.add_argument(
        "--gridFile",
        metavar="FILE",
        help="instead of all these: a table of templates, .ecsv, .hdf5 or text as of ComputeFstatistic_v2 or PyFstat, "
        "with columns alpha, delta, f1dot, ... and an orbit's; all frequencies of the band are searched at each. With "
        "--gridType=3 sky positions alone, alpha and delta; with --gridType=6 exact points with their frequency, which "
        "may also be sources in .cff files",
    )
    group.add_argument(
        "--gridType",
        type=int,
        choices=(FLAT, METRIC, SKY_FILE, EXACT_POINTS, SPIN_SQUARE, AGE_BRAKING),
        help="as in ComputeFstatistic_v2; only 3 and 6 say more than the other options do: 0 flat, 2 and 8 metric "
        "(--metricMismatch), 3 sky positions from --gridFile, 6 exactly the points of --gridFile, 9 by age and braking "
        "index (--spindownAge)",
    )


def templates_of(arguments: argparse.Namespace) -> Templates:
    """Which templates the options ask for.

    Raises
    ------
    ValueError
        If options contradict each other or are missing.
    """
    orders = ("f1dot", "f2dot", "f3dot")
    _check_grid_type(arguments)
    if arguments.gridFile is not None and arguments.gridType != SKY_FILE:
        singles = ["Alpha", "Delta", *orders, *(option for option, _, _ in ORBIT_OPTIONS.values())]
        others = [
            f"{prefix}{name}{suffix}" for name in singles for prefix, suffix in (("", ""), ("", "Band"), ("d", ""))
        ]
        given = [name for name in [*others, *BEYOND_PARAMETERS] if getattr(arguments, name)]
        if given:
            raise ValueError(f"--{given[0]} and --gridFile exclude each other: the file holds the templates.")
        table = bank_from_table(read_templates(arguments.gridFile))
        return Templates(None, None, None, dict.fromkeys(orders), table.orbit, None, table)
    lattice = arguments.metricMismatch is not None
    region = arguments.skyRegion
    sky = None if arguments.gridFile is None else _sky_positions(arguments)
    if not lattice and (region is not None or arguments.skyRadius is not None):
        raise ValueError("--skyRegion and --skyRadius need --metricMismatch: they have no natural steps.")
    if region is not None and (arguments.Alpha is not None or arguments.Delta is not None):
        raise ValueError("--skyRegion stands instead of --Alpha and --Delta: leave these out.")
    missing = [name for name in ("Alpha", "Delta") if getattr(arguments, name) is None]
    if region is None and sky is None and missing:
        raise ValueError(f"--{missing[0]} is missing: give the sky position, or --skyRegion, or --gridFile.")
    given = region is None and sky is None
    alpha, delta = (_range(arguments, name) for name in ("Alpha", "Delta")) if given else (None, None)
    if arguments.skyRadius is not None:
        if region is not None or arguments.AlphaBand or arguments.DeltaBand:
            raise ValueError("--skyRadius goes with --Alpha and --Delta alone: leave out bands and --skyRegion.")
        from astropy import units
        from astropy.coordinates import SkyCoord

        region = (SkyCoord(alpha, delta, unit="rad"), arguments.skyRadius * units.rad)
        alpha = delta = None
    for name, value in (("Alpha", alpha), ("Delta", delta)):
        if isinstance(value, tuple) and len(value) == 2 and not lattice:
            raise ValueError(f"--d{name} is missing: the sky has no natural step, so give one, or --metricMismatch.")
    if lattice and (isinstance(alpha, tuple) or isinstance(delta, tuple)):  # a box, even if flat in one direction
        alpha, delta = (x if x is None or isinstance(x, tuple) else (x, x) for x in (alpha, delta))
    spins = {name: _range(arguments, name) for name in orders}
    braking = _braking(arguments)
    if braking is not None:
        for name, (low, high) in zip(orders, braking.limits, strict=False):
            spins[name] = float(low), float(high)
    strict = arguments.strictSpindownBounds
    if strict and not lattice:
        raise ValueError("--strictSpindownBounds goes with --metricMismatch: flat grids stay within their ranges.")
    orbit = _orbits(arguments)
    return Templates(alpha, delta, region, spins, orbit, arguments.metricMismatch, None, strict, sky, braking)


def _check_grid_type(arguments: argparse.Namespace) -> None:
    """Raise a ValueError if --gridType contradicts the options that say which templates to search."""
    kind, lattice, from_file = arguments.gridType, arguments.metricMismatch is not None, arguments.gridFile is not None
    if kind == SKY_FILE and not from_file:
        raise ValueError("--gridFile is missing: --gridType=3 needs a file with sky positions.")
    if kind not in (None, SKY_FILE) and from_file:
        raise ValueError(f"--gridType={kind} and --gridFile exclude each other: leave one out, or use type 3 or 6.")
    if kind in (METRIC, SPIN_SQUARE, AGE_BRAKING) and not lattice:
        raise ValueError(f"--metricMismatch is missing: --gridType={kind} places a lattice by the metric.")
    if kind == FLAT and lattice:
        raise ValueError("--gridType=0 is a flat grid, which has no --metricMismatch: leave one out.")
    if kind == AGE_BRAKING and arguments.spindownAge is None:
        raise ValueError("--spindownAge is missing: --gridType=9 needs it, --minBraking and --maxBraking.")


def _sky_positions(arguments: argparse.Namespace) -> SkyCoord:
    """The positions in the file of --gridType=3."""
    others = ["Alpha", "AlphaBand", "dAlpha", "Delta", "DeltaBand", "dDelta", "skyRegion", "skyRadius"]
    given = [name for name in others if getattr(arguments, name)]
    if given:
        raise ValueError(f"--{given[0]} and --gridFile exclude each other: the file holds the sky positions.")
    table = read_templates(arguments.gridFile)
    if set(table.colnames) != {"alpha", "delta"}:
        raise ValueError(
            f"--gridFile {arguments.gridFile} has the columns {', '.join(table.colnames)}, and --gridType=3 takes "
            "alpha and delta alone: leave --gridType out, or use 6 for exact points."
        )
    from astropy.coordinates import SkyCoord

    points = points_from(parameter_columns(table, "--gridFile"), None)
    return SkyCoord(points.alpha, points.delta, unit="rad")


def _braking(arguments: argparse.Namespace) -> BrakingRegion | None:
    """The ranges of spin-down by --spindownAge, if it is given."""
    options = {name: getattr(arguments, name) for name in ("spindownAge", "minBraking", "maxBraking")}
    missing = [name for name, value in options.items() if value is None]
    if len(missing) == len(options):
        return None
    if missing:
        raise ValueError(f"--{missing[0]} is missing: --spindownAge, --minBraking and --maxBraking go together.")
    spins = [f"{d}f{k}dot{band}" for k in (1, 2, 3) for d, band in (("", ""), ("", "Band"), ("d", ""))]
    given = [name for name in spins if getattr(arguments, name) and name != "f3dot"]
    if given:
        raise ValueError(f"--{given[0]} does not go with --spindownAge, which sets f1dot and f2dot: leave it out.")
    age, least, most = options.values()
    if not (age > 0 and 1 < least <= most):
        raise ValueError(
            f"--spindownAge must be positive and --minBraking and --maxBraking above 1, in order, not {age:g}, "
            f"{least:g} and {most:g}: give the age in s."
        )
    return BrakingRegion.of(Braking(age, (least, most)), *band_edges(arguments.Freq, arguments.FreqBand))


def _range(arguments: argparse.Namespace, name: str) -> Range:
    """A parameter as `template_bank` takes it: a number or (low, high[, step]); None if the option was not given."""
    low, width, step = (getattr(arguments, option) for option in (name, f"{name}Band", f"d{name}"))
    if step is not None and step <= 0:
        raise ValueError(f"--d{name} must be positive, not {step:g}: give the step of the grid.")
    if not width:
        return low
    ends = band_edges(0.0 if low is None else low, width)
    return ends if step is None else (*ends, step)


def band_edges(start: float, width: float) -> tuple[float, float]:
    """Low and high of a band, whose width may be negative, as in ComputeFstatistic_v2."""
    return min(start, start + width), max(start, start + width)


def _orbits(arguments: argparse.Namespace) -> Orbit | OrbitRanges | None:
    """Orbits as a product of values, or the ranges of a lattice."""
    given: OrbitRanges = {}
    for name, (option, _, _) in ORBIT_OPTIONS.items():
        value = _range(arguments, option)
        if isinstance(value, tuple) and len(value) == 2 and arguments.metricMismatch is None:
            raise ValueError(
                f"--d{option} is missing: orbits have no natural step, so give one, or --metricMismatch for a lattice."
            )
        if value is not None:
            given[name] = value
    missing = [ORBIT_OPTIONS[name][0] for name in ("asini", "period", "tp") if name not in given]
    if given and missing:
        raise ValueError(f"--{missing[0]} is missing: a binary orbit needs --orbitasini, --orbitPeriod and --orbitTp.")
    if not given:
        return None
    return given if arguments.metricMismatch is not None and orbit_limits(given) is not None else orbits(given)
