"""Which templates to search: flat grids, metric lattices and tables, from ComputeFstatistic_v2's options."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import jfstat
from jfstat.commandline.spellings import ORBIT_OPTIONS, SPINS, band_edges, reftime_of
from jfstat.commandline.spellings import orbit as orbit_of

if TYPE_CHECKING:
    from jfstat.commandline.arguments import Arguments

Range: TypeAlias = float | tuple[float, float] | tuple[float, float, float] | None
"""A number, (low, high) or (low, high, step); None if no option gives it."""
FLAT, ISOTROPIC, METRIC, SKY_FILE, EXACT_POINTS, SPIN_SQUARE, AGE_BRAKING = 0, 1, 2, 3, 6, 8, 9
"""ComputeFstatistic_v2's numbers of types of grids, as far as they exist here."""
SINGLE = ("Alpha", "Delta", *SPINS, *ORBIT_OPTIONS)
GRID = tuple(f"{d}{name}{band}" for name in SINGLE for d, band in (("", ""), ("", "Band"), ("d", "")))
"""Options of flat grids: values, bands and steps of single parameters."""
LATTICE = (
    *("skyRegion", "skyRadius", "metricMismatch", "strictSpindownBounds", "spindownAge", "minBraking", "maxBraking"),
)
"""Other options for templates that no file holds."""
TEMPLATES = (*GRID, *LATTICE, "gridFile", "gridType")
BEYOND = 1.02
"""How far a lattice may extend beyond the largest orbit and the shortest period, when SFTs are read."""


@dataclass(frozen=True, eq=False)
class Templates:
    """Which templates the options ask for, known before the data are read.

    Attributes
    ----------
    alpha, delta, region
        As for `jfstat.template_bank`; `alpha` may be a SkyCoord.
    spins : dict
        ``f1dot``, ``f2dot``, ``f3dot`` as for `template_bank`; None if not given. By age, the smallest ranges that
        contain all.
    orbit : dict
        Fields of an orbit, or their ranges; empty without one.
    mismatch : float or None
    table : Doppler or None
        Templates from a file, instead of all these.
    strict : bool
        As for `template_bank`.
    braking : Braking or None
        Instead of f1dot and f2dot.
    band : (float, float)
        Hz.
    """

    alpha: Any = None
    delta: Any = None
    region: Any = None
    spins: dict[str, Range] | None = None
    orbit: dict[str, Any] | None = None
    mismatch: float | None = None
    table: jfstat.Doppler | None = None
    strict: bool = False
    braking: jfstat.Braking | None = None
    band: tuple[float, float] = (0.0, 0.0)

    @property
    def single(self) -> bool:
        """Whether it is one template."""
        if self.table is not None:
            return self.table.alpha.shape == (1,)
        ranges = (self.alpha, self.delta, *(self.spins or {}).values(), *(self.orbit or {}).values())
        several = self.braking is not None or np.shape(self.alpha) not in ((), (1,))
        return self.mismatch is None and not several and not any(isinstance(x, tuple) for x in ranges)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The ranges that were asked for, for `jfstat.Keep`."""
        orbit = (self.orbit or {}) if self.limited else {}
        ranges = {"alpha": self.alpha, "delta": self.delta, **(self.spins or {}), **orbit}
        return {name: (x[0], x[1]) for name, x in ranges.items() if isinstance(x, tuple) and x[0] < x[1]}

    @property
    def fdots(self) -> list[tuple[float, float]]:
        """Ranges of the frequency's derivatives, for `jfstat.prepare`."""
        if self.table is not None:
            return spin_ranges(self.table)
        return [(x[0], x[1]) if isinstance(x, tuple) else (x or 0.0, x or 0.0) for x in (self.spins or {}).values()]

    @property
    def limited(self) -> bool:
        """Whether it is a lattice in ranges of orbits."""
        return any(isinstance(x, tuple) and len(x) == 2 for x in (self.orbit or {}).values())

    @property
    def extremes(self) -> jfstat.Orbit | None:
        """The most extreme orbit, for `jfstat.prepare`, or all orbits of a table."""
        if self.table is not None:
            return self.table.orbit
        if not self.orbit:
            return None
        ends = {name: _ends(x) for name, x in ({"ecc": 0.0} | self.orbit).items()}
        beyond = BEYOND if self.limited else 1.0  # a lattice extends beyond its ranges
        return jfstat.Orbit(ends["asini"][1] * beyond, ends["period"][0] / beyond, ends["tp"][0], ends["ecc"][1])

    def bank(self, data: Any = None, reftime: Any = None) -> jfstat.Doppler:
        """Return the templates; `data` and `reftime` as for `jfstat.template_bank`."""
        if self.table is not None:
            return self.table
        f1dot, f2dot, f3dot = (self.spins or dict.fromkeys(SPINS)).values()
        own: Any = 0.0 if f1dot is None else f1dot
        if self.braking is not None:
            own, f2dot = self.braking, None
        lattice = self.mismatch is not None or self.braking is not None
        return jfstat.template_bank(
            self.alpha,
            self.delta,
            own,
            f2dot,
            f3dot,
            orbit=self.orbit or None,
            reftime=reftime,
            data=data,
            freq=self.band if lattice else None,
            mismatch=self.mismatch,
            region=self.region,
            strict=self.strict,
        )

    def template(self, freq: float, reftime: Any) -> jfstat.Doppler:
        """Return the only template, with its frequency, Hz."""
        import jax

        bank = self.bank(None, reftime)
        point = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(bank.alpha) :])[0], bank)
        fields = {name: getattr(point, name) for name in ("alpha", "delta", "reftime", "orbit", "motion", "model")}
        return jfstat.Doppler(fkdot=np.array([freq, *point.fkdot[1:]]), **fields)


def spin_ranges(bank: jfstat.Doppler) -> list[tuple[float, float]]:
    """Return the ranges of the frequency's derivatives in a stack of templates."""
    return [(float(x.min()), float(x.max())) for x in np.asarray(bank.fkdot)[:, 1:].T]


def _ends(value: Any) -> tuple[float, float]:
    """Return the lowest and the highest value of a number, a range, or a range with a step."""
    if not isinstance(value, tuple):
        return value, value
    low, high, *step = value
    return low, low + step[0] * math.floor((high - low) / step[0] * (1 + 1e-12) + 1e-9) if step else high


def templates_of(arguments: Arguments) -> Templates:
    """Return which templates the options ask for.

    Raises
    ------
    OSError, ValueError
        If a file cannot be read, or options contradict each other or are missing.
    """
    _check_grid_type(arguments)
    band = band_edges(arguments.Freq, arguments.FreqBand)
    if arguments.gridFile is not None and arguments.gridType != SKY_FILE:
        given = arguments.first_given(*GRID, *LATTICE)
        if given:
            raise ValueError(f"{given} and --gridFile exclude each other: the file holds the templates.")
        table: Any = read_grid(arguments.gridFile)
        table.meta["reftime"] = reftime_of(arguments, table, "--gridFile")
        return Templates(table=jfstat.bank_from_table(table), band=band)
    lattice = arguments.metricMismatch is not None
    spins = {name: _range(arguments, name) for name in SPINS}
    braking = _braking(arguments)
    if braking is not None:
        spins |= dict(zip(SPINS, braking.limits(*band), strict=False))
    if arguments.strictSpindownBounds and not lattice:
        raise ValueError("--strictSpindownBounds goes with --metricMismatch: flat grids stay within their ranges.")
    alpha, delta, region = _sky(arguments, lattice)
    how: Any = dict(mismatch=arguments.metricMismatch, strict=arguments.strictSpindownBounds, braking=braking)
    orbit = _orbits(arguments, lattice)
    ranges = (alpha, delta, *spins.values(), *(orbit or {}).values())
    wide = any(isinstance(x, tuple) and x[0] != x[1] for x in ranges) or region is not None or braking is not None
    if lattice and not wide and 0 < arguments.metricMismatch < 1:  # others are refused as such
        raise ValueError(
            "--metricMismatch has no effect, since no parameter but the frequency has a range: leave it out, or give a "
            "range such as --AlphaBand."
        )
    return Templates(alpha, delta, region, spins, orbit, band=band, **how)


def read_grid(name: str) -> Any:
    """Return the table of ``--gridFile``: of a file, or of rows between braces, as LALSuite takes them.

    Rows in braces end with a semicolon or a line's end.

    Raises
    ------
    OSError, ValueError
        If there is no such file, or it holds no templates.
    """
    text = name.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return jfstat.read_templates(name)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "grid"
        path.write_text(text[1:-1].replace(";", "\n"), "utf-8")
        try:
            return jfstat.read_templates(path)
        except ValueError as error:
            raise ValueError(str(error).replace(f"path {str(path)!r}", "--gridFile")) from None


def flat_grid(arguments: Arguments) -> Templates:
    """Return the flat grid that the options of single parameters ask for.

    Raises
    ------
    ValueError
        If one is missing or out of range.
    """
    for name in ("Alpha", "Delta"):
        if getattr(arguments, name) is None:
            raise ValueError(f"--{name} is missing: give the sky position, or --gridFile.")
    spins = {name: _range(arguments, name) for name in SPINS}
    return Templates(*_position(arguments, False), None, spins, _orbits(arguments, False))


def _sky(arguments: Arguments, lattice: bool) -> tuple[Any, Any, Any]:
    """Return `alpha`, `delta` and `region` of `jfstat.template_bank`."""
    region, radius = arguments.skyRegion, arguments.skyRadius
    if arguments.gridFile is not None:
        return _sky_positions(arguments), None, None
    if arguments.gridType == ISOTROPIC:
        return _isotropic(arguments), None, None
    if not lattice and (region is not None or radius is not None):
        raise ValueError("--skyRegion and --skyRadius need --metricMismatch: they have no natural steps.")
    if region is not None:
        if arguments.Alpha is not None or arguments.Delta is not None:
            raise ValueError("--skyRegion stands instead of --Alpha and --Delta: leave these out.")
        if radius is not None:
            raise ValueError("--skyRadius goes with --Alpha and --Delta alone: leave out bands and --skyRegion.")
        return None, None, region
    for name in ("Alpha", "Delta"):
        if getattr(arguments, name) is None:
            raise ValueError(f"--{name} is missing: give the sky position, or --skyRegion, or --gridFile.")
    jfstat.Doppler(arguments.Alpha, arguments.Delta, [1.0])  # a disc or lattice would take any number of radians
    if radius is not None:
        if arguments.AlphaBand or arguments.DeltaBand:
            raise ValueError("--skyRadius goes with --Alpha and --Delta alone: leave out bands and --skyRegion.")
        if not 0 < radius <= math.pi:
            raise ValueError(f"--skyRadius must be above 0 and at most pi, not {radius:g}: give it in rad.")
        from astropy import units
        from astropy.coordinates import SkyCoord

        return None, None, (SkyCoord(arguments.Alpha, arguments.Delta, unit="rad"), radius * units.rad)
    alpha, delta = _position(arguments, lattice)
    if lattice and (isinstance(alpha, tuple) or isinstance(delta, tuple)):  # a box, even if flat in one direction
        alpha, delta = (x if isinstance(x, tuple) else (x, x) for x in (alpha, delta))
    return alpha, delta, None


def _isotropic(arguments: Arguments) -> Any:
    """Return sky positions of equal density, as a SkyCoord.

    As in ComputeFstatistic_v2's gridType 1 (buildIsotropicSkyGrid), right ascensions are dAlpha/cos(delta) apart.
    """
    region = arguments.skyRegion
    if arguments.skyRadius is not None:
        raise ValueError("--skyRadius does not go with --gridType=1, which fills a box: give --AlphaBand, --DeltaBand.")
    if region is None:
        corner, bands = (arguments.Alpha, arguments.Delta), (arguments.AlphaBand, arguments.DeltaBand)
        if None in corner:
            raise ValueError(
                "--Alpha and --Delta are missing: --gridType=1 fills a box of the sky, or --skyRegion=allsky."
            )
        (west, east), (south, north) = (band_edges(x, width) for x, width in zip(corner, bands, strict=True))
    elif isinstance(region, str) and arguments.Alpha is None and arguments.Delta is None:
        west, east, south, north = 0.0, 2 * math.pi * (1 - 1e-6), -math.pi / 2, math.pi / 2
    else:
        raise ValueError("--skyRegion with --gridType=1 must be allsky, without --Alpha and --Delta.")
    steps = arguments.dAlpha, arguments.dDelta
    for name, step in zip(("dAlpha", "dDelta"), steps, strict=True):
        if step is None or not step > 0:
            raise ValueError(f"--{name} is missing: --gridType=1 needs positive steps --dAlpha and --dDelta, in rad.")
    from astropy.coordinates import SkyCoord

    rows = []
    for delta in _steps(south, north, steps[1]):
        across = steps[0] / max(math.cos(delta), 1e-9)  # at a pole one position
        rows += [(alpha, delta) for alpha in _steps(west, east, across)]
    return SkyCoord(*np.transpose(rows), unit="rad")


def _steps(low: float, high: float, step: float) -> np.ndarray:
    """Return numbers from `low` to `high`, which counts if steps end there."""
    return low + step * np.arange(int((high - low) / step + 1e-6) + 1)


def _position(arguments: Arguments, lattice: bool) -> tuple[Range, Range]:
    """Return right ascension and declination, or their ranges."""
    both = _range(arguments, "Alpha"), _range(arguments, "Delta")
    for name, value in zip(("Alpha", "Delta"), both, strict=True):
        if isinstance(value, tuple) and len(value) == 2 and not lattice:
            raise ValueError(f"--d{name} is missing: the sky has no natural step, so give one, or --metricMismatch.")
    return both


def _check_grid_type(arguments: Arguments) -> None:
    """Raise a ValueError if --gridType contradicts the options that say which templates to search."""
    kind, lattice, from_file = arguments.gridType, arguments.metricMismatch is not None, arguments.gridFile is not None
    if kind == EXACT_POINTS:
        raise ValueError("--gridType=6 is for exact points without a band: use jfstat points --gridFile.")
    if kind not in (None, FLAT, ISOTROPIC, METRIC, SKY_FILE, SPIN_SQUARE, AGE_BRAKING):
        raise ValueError(f"--gridType must be 0 to 3, 8 or 9, not {kind}: jfstat search --help says what they are.")
    if kind == SKY_FILE and not from_file:
        raise ValueError("--gridFile is missing: --gridType=3 needs a file with sky positions.")
    if kind not in (None, SKY_FILE) and from_file:
        raise ValueError(f"--gridType={kind} and --gridFile exclude each other: leave one out, or use type 3.")
    if kind in (METRIC, SPIN_SQUARE, AGE_BRAKING) and not lattice:
        raise ValueError(f"--metricMismatch is missing: --gridType={kind} places a lattice by the metric.")
    if kind in (FLAT, ISOTROPIC) and lattice:
        raise ValueError(f"--gridType={kind} is a flat grid, which has no --metricMismatch: leave one out.")
    if kind == AGE_BRAKING and arguments.spindownAge is None:
        raise ValueError("--spindownAge is missing: --gridType=9 needs it, --minBraking and --maxBraking.")


def _sky_positions(arguments: Arguments) -> Any:
    """Return the positions in the file of --gridType=3, as a SkyCoord."""
    given = arguments.first_given(*GRID[:6], "skyRegion", "skyRadius")
    if given:
        raise ValueError(f"{given} and --gridFile exclude each other: the file holds the sky positions.")
    table: Any = read_grid(arguments.gridFile)
    if set(table.colnames) != {"alpha", "delta"}:
        raise ValueError(
            f"--gridFile {arguments.gridFile} has the columns {', '.join(table.colnames)}, and --gridType=3 takes "
            "alpha and delta alone: leave --gridType out, or use jfstat points for exact points."
        )
    from astropy.coordinates import SkyCoord

    points = jfstat.bank_from_table(table)
    return SkyCoord(points.alpha, points.delta, unit="rad")


def _braking(arguments: Arguments) -> jfstat.Braking | None:
    """Return age and braking index, if they are given."""
    options = arguments.read("spindownAge", "minBraking", "maxBraking")
    missing = [name for name, value in options.items() if value is None]
    if len(missing) == len(options):
        return None
    if missing:
        raise ValueError(f"--{missing[0]} is missing: --spindownAge, --minBraking and --maxBraking go together.")
    given = arguments.first_given(*(x for x in GRID if "dot" in x and x != "f3dot"))
    if given:
        raise ValueError(f"{given} does not go with --spindownAge, which sets f1dot and f2dot: leave it out.")
    age, least, most = options.values()
    if not (age > 0 and 1 < least <= most):
        raise ValueError(
            f"--spindownAge must be positive and --minBraking and --maxBraking above 1, in order, not {age:g}, "
            f"{least:g} and {most:g}: give the age in s."
        )
    return jfstat.Braking(age, (least, most))


def _range(arguments: Arguments, name: str) -> Range:
    """Return a parameter as `template_bank` takes it: a number or (low, high[, step]); None if it was not given."""
    low, width = getattr(arguments, name), getattr(arguments, f"{name}Band")
    if not width and not arguments.is_given(f"d{name}"):
        return low
    step = getattr(arguments, f"d{name}")
    if step is not None and step <= 0:
        raise ValueError(f"--d{name} must be positive, not {step:g}: give the step of the grid.")
    if not width:
        if not arguments.is_given(f"{name}Band"):
            raise ValueError(f"--d{name} has no effect without --{name}Band: leave it out, or give the band.")
        return low
    ends = band_edges(0.0 if low is None else low, width)
    return ends if step is None else (*ends, step)


def _orbits(arguments: Arguments, lattice: bool) -> dict[str, Any]:
    """Return the fields of an orbit, or their ranges."""
    given = {option: _range(arguments, option) for option in ORBIT_OPTIONS}
    for option, value in given.items():
        if isinstance(value, tuple) and len(value) == 2 and not lattice:
            raise ValueError(
                f"--d{option} is missing: orbits have no natural step, so give one, or --metricMismatch for a lattice."
            )
    return orbit_of(given)
