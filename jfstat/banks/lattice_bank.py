"""Template banks over ranges of any parameters of a template, a phase model's too, laid by the metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from jfstat.banks.chart import Bound, ChartedSpace, Domain, charted_space, stack_of
from jfstat.banks.comparison import Comparison, compared
from jfstat.banks.lattice import divided, expected_number, points_filling, templates_of
from jfstat.banks.orbitbank import require_bank_size, require_orbits, sky_limits
from jfstat.banks.ranges import fixed_limits, number_limits, orbit_limits, right_ascensions
from jfstat.data.checks import check_template
from jfstat.data.fstatdata import FstatData
from jfstat.data.normalised import NormalisedSFTs
from jfstat.data.observation import Observation
from jfstat.public import host
from jfstat.signal.parameters import ORBIT_FIELDS, SKY, is_parameter, unit
from jfstat.signal.templates import Doppler, template
from jfstat.signal.values import columns, replaced, with_fields
from jfstat.validation import float64_of, probability, shown

if TYPE_CHECKING:
    from jfstat.banks.ranges import Number

    Ranges: TypeAlias = Mapping[str, tuple[Number | Bound, Number | Bound] | Bound]
    """Ranges of parameters by name, or functions that they follow."""

MOST_RANGES = 8
"""Largest number of parameters with ranges."""


@host(point=template)
def lattice_bank(
    data: Observation | FstatData | NormalisedSFTs, point: Doppler, ranges: Ranges, mismatch: float
) -> Doppler:
    """Make a bank over ranges of any parameters of a template, its phase model's too: a lattice laid by the metric.

    `template_bank` makes banks for isolated sources and binaries; this function also takes proper motions and the
    user's phases, and ranges whose ends depend on other parameters.

    Parameters
    ----------
    data : Observation, FstatData or NormalisedSFTs
        Data to be searched, whose metric is taken: with segments that of `mean_twoF`, and for
        NormalisedSFTs that of the power along tracks; see `template_bank`.
    point : Doppler or Row
        One template with scalar fields: it says which parameters there are, and gives the values of those without a
        range. Its frequency is the one at which the metric is taken: give the highest to be searched. With a range of
        f2dot it must have an f2dot, such as 0, and with ranges of an orbit's parameters an orbit. Without a reference
        time it is given that of the data.
    ranges : mapping from names to (low, high)
        Ranges of parameters called as in `metric`: ``alpha``, ``delta``, ``f1dot``, ..., ``pmra``, ``pmdec``,
        ``asini``, ``period``, ``tp``, ``ecc``, ``argp``, and ``model.df``, ``model.c[0]``, ... for a `PhaseModel`; in
        the parameters' units, or Quantities. For derivatives of the frequency, proper motions and phase models, `low`
        and `high` may also be functions, as in LALSuite's LatticeTiling: of a mapping from names to values, with the
        parameters before this one in `ranges` as arrays, (k,), and those without a range as numbers. They return the
        ends, (k,). Instead of a range, such a parameter may be given one function of the same kind, which it follows.
        Names that are no parameters may have ranges too, for the functions to depend on: with ``{"n": (3, 5), "f1dot":
        (-1e-9, -1e-10), "f2dot": lambda p: p["n"] * p["f1dot"] ** 2 / p["freq"]}`` the bank extends over braking
        indices. At most 8 names may have ranges.
    mismatch : float
        Between 0 and 1: the largest fraction of rho^2 that a signal in the ranges may lose at the template nearest to
        it, maximised over frequency; of its power, for NormalisedSFTs.

    Returns
    -------
    Doppler
        A stack of n templates, as from `template_bank`. ``asked`` holds the ranges; of parameters with functions the
        lowest and the highest value.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If a name is unknown or has no effect, a range is not ordered, a function fails, the phase is not finite
        somewhere in the ranges, or the bank would have more than 2e7 templates.

    Notes
    -----
    The lattice is A_n* (Conway & Sloane 1999) in the phase metric. Where the metric varies, the ranges are divided into
    boxes, each with a constant metric that is nowhere smaller than the true one, which is computed at up to a few
    hundred places by automatic differentiation, some of them up to half a width beyond the ranges; but a parameter of
    a phase model whose range does not contain 0 keeps its sign. The phase must change smoothly there.
    Directions in which the ranges lose less than the mismatch have one layer of templates.

    Examples
    --------
    A glitch of known time, with a step in frequency and a recovery:

    >>> def glitch(t, p):
    ...     later = jnp.maximum(t - p["time"], 0.0)
    ...     return p["df"] * p["tau"] * (1 - jnp.exp(-later / p["tau"]))
    >>> model = jfstat.PhaseModel(glitch, {"time": 20000.0, "df": 0.0, "tau": 10000.0})
    >>> point = jfstat.Doppler(2.1, 0.47, [100.02, -1e-10], start, model=model)
    >>> bank = jfstat.lattice_bank(data, point, {"model.df": (0.0, 2e-4), "model.tau": (5e3, 2e4)}, 0.1)
    >>> bank.varied
    ('model.df', 'model.tau')
    """
    plan = _Plan(data, point, ranges, mismatch)
    require_bank_size(plan.expected)
    return with_fields(plan.templates(), varied=tuple(plan.asked), asked=plan.asked)


@host(point=template)
def lattice_size(
    data: Observation | FstatData | NormalisedSFTs, point: Doppler, ranges: Ranges, mismatch: float
) -> float:
    """Return the expected number of templates of a `lattice_bank`, however large, without making it.

    Parameters
    ----------
    data, point, ranges, mismatch
        As for `lattice_bank`.

    Returns
    -------
    float
        Accurate to some 20 % if the ranges are much wider than the spacing of templates.

    Raises
    ------
    TypeError, ValueError
        As `lattice_bank`, except for banks that are too large.

    Examples
    --------
    >>> ranges = {"f1dot": (-1e-8, 0.0), "f2dot": (0.0, 1e-15)}
    >>> n = jfstat.lattice_size(data, jfstat.Doppler(2.1, 0.47, [100.02, 0.0, 0.0], start), ranges, 0.1)
    >>> bool(1 < n < 100)
    True
    """
    return _Plan(data, point, ranges, mismatch).expected


class _Plan:
    """A bank that can be made; arguments as for `lattice_bank`."""

    def __init__(self, data: Observation | FstatData | NormalisedSFTs, point: Doppler, ranges: Ranges, mismatch: float):
        allowed = probability(mismatch, "mismatch", "try 0.1")
        comparison = compared(data)
        check_template("point", point)
        if point.model is not None:
            point.model.check()
        if point.reftime is None:
            point = with_fields(point, reftime=comparison.observation.reftime.common)
        given = _Given.of(point, ranges)
        self.space = given.space(comparison, allowed)
        self.orbits = point.orbit is not None
        at = self.space.domain.values(points_filling(self.space.low, self.space.high))
        given.check(at)
        found = {name: (float(x.min()), float(x.max())) for name, x in at.items()}
        asked = {name: given.numbers.get(name) or found[name] for name in ranges if name in given.fixed}
        self.asked = {name: (low, high) for name, (low, high) in asked.items() if low != high}

    @cached_property
    def boxes(self) -> list[Any]:
        """Boxes of the ranges, each with its lattice."""
        return divided(self.space)

    @property
    def expected(self) -> float:
        """Expected number of templates."""
        return expected_number(self.boxes)

    def templates(self) -> Doppler:
        """Return the templates."""
        chart, place = self.space.chart, self.space.place
        stack = stack_of(templates_of(self.space, self.boxes), place, chart.others, float(place.frequency))
        return stack if self.orbits else with_fields(stack, orbit=None)


class _Known(dict[str, Any]):
    """Values by name that a function of a range is given."""

    def __missing__(self, name: str) -> Any:
        raise LookupError(
            f"{name!r} is not known: the functions know what has no range, and what comes before in ranges"
        )


@dataclass(eq=False)
class _Given:
    """Ranges as users give them, sorted by kind.

    Attributes
    ----------
    point : Doppler
    fixed : dict of str to float
        All parameters of the point.
    order : tuple of str
        Names in the order of the ranges.
    numbers, bounds : dict of str to pair
        Ranges whose ends are numbers, and those with functions for the ends.
    derived : dict of str to callable
        Parameters that are functions of others.
    """

    point: Doppler
    fixed: dict[str, float]
    order: tuple[str, ...]
    numbers: dict[str, tuple[float, float]]
    bounds: dict[str, tuple[Bound, Bound]]
    derived: dict[str, Bound]

    @classmethod
    def of(cls, point: Doppler, ranges: object) -> _Given:
        """Sort and check ranges."""
        if not isinstance(ranges, Mapping) or not ranges:
            raise TypeError(f"ranges must be a mapping from names of parameters to (low, high), not {shown(ranges)}.")
        fixed = {name: float(x) for name, x in columns(point).items()}
        own = cls(point, fixed, tuple(ranges), {}, {}, {})
        for name, value in ranges.items():
            own.add(name, value)
        return own

    @property
    def held(self) -> dict[str, float]:
        """Parameters whose ranges have equal ends."""
        return {name: low for name, (low, high) in self.numbers.items() if low == high}

    def add(self, name: Any, value: Any) -> None:
        """Sort and check one range."""
        if name == "freq":
            raise ValueError("ranges has 'freq', which every search covers: give the highest frequency as the point's.")
        if name == "phase":
            raise ValueError("ranges has 'phase', which is the name of an angle of orbits here: call yours otherwise.")
        if not isinstance(name, str) or (name not in self.fixed and is_parameter(name)):
            raise ValueError(f"ranges has {name!r}: choose from {', '.join(self.fixed)}, which this template has.")
        ends = value if isinstance(value, tuple) else (value,)
        if any(map(callable, ends)) and name in (*SKY, *ORBIT_FIELDS):
            raise ValueError(f"ranges[{name!r}] must be two numbers, not functions: give the widest range.")
        if callable(value) and name in self.fixed:
            self.derived[name] = self.function(name, value)
        elif callable(value):
            raise ValueError(f"ranges[{name!r}] must be (low, high), since {name!r} is no parameter of this template.")
        elif len(ends) != 2:
            raise ValueError(
                f"ranges[{name!r}] must be (low, high), a tuple, not {shown(value)}: the metric sets the steps."
            )
        elif any(map(callable, ends)):
            low, high = (self.function(name, end) for end in ends)
            self.bounds[name] = low, high
        else:
            self.numbers[name] = right_ascensions(value) if name == "alpha" else number_limits(value, name)

    def function(self, name: str, end: Any) -> Bound:
        """Return a function of what is known before a name, whose errors say this name."""
        if not callable(end):
            number = number_limits((end, end), name)[0]
            return lambda at: np.float64(number)

        def bound(at: Mapping[str, np.ndarray]) -> np.ndarray:
            known = _Known({key: x for key, x in self.fixed.items() if key not in self.order} | self.held | dict(at))
            try:
                found = float64_of(end(known), name, unit(name))
            except Exception as error:  # whatever the user's function raises
                problem = f"{type(error).__name__}: {error}"
                raise ValueError(f"ranges[{name!r}] has a function that fails: {problem}.") from error
            if not np.isfinite(found).all():
                raise ValueError(f"ranges[{name!r}] has a function whose values are not all finite: correct it.")
            lengths = {len(x) for x in at.values() if np.ndim(x)}
            if found.ndim and found.shape != (*lengths,):
                raise ValueError(f"ranges[{name!r}] has a function that returns the shape {found.shape}: return (k,).")
            return found

        return bound

    def check(self, at: Mapping[str, np.ndarray]) -> None:
        """Raise a ValueError if functions are not ordered, or names of the user's own have no effect."""
        for name, (low, high) in self.bounds.items():
            if np.any(low(at) > high(at)):
                raise ValueError(f"ranges[{name!r}] has functions that are not ordered, low above high: correct them.")
        functions = [*self.derived.values(), *(end for ends in self.bounds.values() for end in ends)]
        for name in self.order:
            if name in self.fixed:
                continue
            moved = {**at, name: at[name][::-1] if name in at else np.float64(1.001 * self.held[name] + 1e-3)}
            if all(np.array_equal(function(moved), function(at)) for function in functions):
                raise ValueError(
                    f"ranges has {name!r}, which is no parameter of this template, and no function depends on it: its "
                    f"parameters are {', '.join(self.fixed)}."
                )

    def space(self, comparison: Comparison, mismatch: float) -> ChartedSpace:
        """Return the parameter space of the ranges."""
        point, reftime = self.point, self.point.reftime
        assert reftime is not None  # which the plan sets
        held = [name for name in self.held if name in self.fixed]
        if held:
            point = replaced(point, held, jnp.array([self.held[name] for name in held]))
        limits = {name: (x, x) for name, x in self.fixed.items()} | self.numbers
        limits |= dict.fromkeys(self.bounds, (0.0, 1.0))
        if any(limits[name][0] != limits[name][1] for name in SKY):
            limits |= sky_limits(limits["alpha"], limits["delta"])[0]
        own = None
        if point.orbit is not None:
            orbit = {name: limits[name] for name in ORBIT_FIELDS}
            own = orbit_limits({name: low if low == high else (low, high) for name, (low, high) in orbit.items()})
        limits |= own or fixed_limits(point.orbit)
        require_orbits({name: limits[name] for name in ORBIT_FIELDS})
        axes = tuple(name for name in self.order if name in limits and limits[name][0] < limits[name][1])
        if len(axes) > MOST_RANGES:
            raise ValueError(f"at most {MOST_RANGES} parameters may have ranges, not {', '.join(axes)}: fix some.")
        order = tuple(name for name in self.order if name in axes or name in self.derived)
        domain = Domain(axes, order, bounds=self.bounds, derived=self.derived)
        frequency, n_spins = self.fixed["freq"], point.fkdot.shape[0] - 1
        return charted_space(comparison, limits, n_spins, reftime, frequency, mismatch, point, domain)
