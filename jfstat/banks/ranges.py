"""Conversion of users' arguments for a bank (numbers, ranges, lists, sky positions, regions) to plain arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, cast

import numpy as np

from jfstat.banks.regions import Box, Disc, Polygon, Region, WholeSky
from jfstat.banks.space import MAX_TEMPLATES
from jfstat.maths.vectors import unit_vector
from jfstat.signal.parameters import ORBIT_FIELDS, ORBIT_REQUIRED, spin_name
from jfstat.signal.parameters import unit as unit_of
from jfstat.signal.possible import require_possible
from jfstat.signal.templates import Orbit
from jfstat.validation import LARGEST, float64_of, gps_seconds, shown

if TYPE_CHECKING:
    from astropy.coordinates import SkyCoord
    from astropy.time import Time
    from numpy.typing import ArrayLike

    from jfstat.validation import NumberLike

    Number: TypeAlias = NumberLike | Time
    """A number in the parameter's unit, or an astropy object whose unit fits."""
    RangeLike: TypeAlias = Number | tuple[Number, ...] | list[Number] | ArrayLike
    """One value, (low, high) or (low, high, step), or several values."""
    RegionLike: TypeAlias = Literal["all"] | tuple[SkyCoord, Number] | SkyCoord


def axis(value: RangeLike | None, name: str, unit: str, natural: float | None = None) -> np.ndarray:
    """Return the values of one parameter, for a product of parameters.

    Parameters
    ----------
    value : number, Quantity, tuple or sequence
        See `template_bank`.
    name : str
        Name of the parameter, for messages.
    unit : str
        Unit of the result and of plain numbers.
    natural : float, optional
        Step of a range that states none.

    Returns
    -------
    (n,) float64

    Raises
    ------
    ValueError
        If the value is missing, not numeric or empty, or a range has no positive step.
    """
    if value is None:
        raise ValueError(f"{name} is missing: give a number, a tuple (low, high, step) or a list of values.")
    if isinstance(value, tuple):
        return _stepped(value, name, unit, natural)
    parts = value if isinstance(value, list) else [value]
    values = np.concatenate([np.empty(0), *(_numbers(x, name, unit).reshape(-1) for x in parts)])
    if values.size == 0:
        raise ValueError(f"{name} is empty: give at least one value.")
    return values


def _stepped(value: tuple[Any, ...], name: str, unit: str, natural: float | None) -> np.ndarray:
    """Return the values low, low + step, ... of a range; see `axis` for the arguments."""
    if len(value) not in (2, 3):
        raise ValueError(f"{name} must be (low, high, step) if it is a tuple, not {value!r}: lists hold single values.")
    low, high, *steps = _tuple_of_numbers(value, name, unit)
    _require_order(low, high, name)
    step = steps[0] if steps else natural
    if step is None:
        if low == high:
            return np.array([low])
        raise ValueError(
            f"{name} has no step: give (low, high, step), since it has no natural one without data; template_bank also "
            "takes mismatch= and data= instead of steps."
        )
    if step <= 0:
        raise ValueError(f"{name} must have a positive step, not {step}: give (low, high, step).")
    with np.errstate(over="ignore"):
        require_few(np.float64(high - low) / step)
    # a range that is a whole number of steps, up to rounding, keeps its last value
    count = math.floor((high - low) / step * (1 + 1e-12) + 1e-9) + 1
    return low + step * np.arange(count)


def require_few(number: float) -> None:
    """Raise a ValueError for more templates than a bank may have."""
    if number > MAX_TEMPLATES:
        raise ValueError(
            f"the ranges have {number:.2g} templates or more and the most is {MAX_TEMPLATES:.0g}: give larger steps or "
            "narrower ranges."
        )


def is_range(value: RangeLike | SkyCoord | None) -> bool:
    """Return whether a parameter is a range of more than one value, however few templates cover it."""
    return isinstance(value, tuple) and len(value) > 1 and bool(value[0] != value[1])


def asked_ranges(
    alpha: RangeLike | SkyCoord | None,
    delta: RangeLike | None,
    spins: Sequence[Any],
    orbit: Orbit | Mapping[str, RangeLike] | None,
) -> dict[str, tuple[float, float]]:
    """Return the ranges among the parameters of a bank, low and high, without units; see `template_bank`.

    A range of right ascensions that extends through 0 ends beyond 2 pi.
    """
    given: dict[str, Any] = {"alpha": alpha, "delta": delta}
    given |= {spin_name(k): value for k, value in enumerate(spins, 1)}
    given |= orbit if isinstance(orbit, Mapping) else {}
    ranges = {}
    for name, value in given.items():
        if is_range(value):
            low, high, *_ = _tuple_of_numbers(value, name, unit_of(name))
            ranges[name] = _unwrapped(low, high)
    return ranges


def natural_step(k: int, tspan: float) -> float:
    """Return the spacing of a flat grid in the k-th frequency derivative: 1/(2 T^(k+1)), as in ComputeFstatistic_v2.

    Parameters
    ----------
    k : int
        Order of the derivative; 0 for the frequency, which `twoF_band` spaces in this way.
    tspan : float
        Time T from the start to the end of the data, s.

    Returns
    -------
    float
        Hz/s^k
    """
    return 1.0 / (2.0 * tspan ** (k + 1))


def spin_limits(value: RangeLike | None, k: int) -> tuple[float, float]:
    """Return low and high of the k-th derivative of the frequency, Hz/s^k, equal for a number and 0 for None.

    Raises
    ------
    ValueError
        If the value is neither a number nor (low, high), or low exceeds high.
    """
    name = f"f{k}dot"
    if isinstance(value, tuple):
        return number_limits(value, name)
    number = _numbers(0.0 if value is None else value, name, unit_of(spin_name(k)))
    if number.size != 1:
        raise ValueError(f"{name} must be a number or (low, high) with a mismatch, not {value!r}: give its range.")
    return float(number.reshape(())), float(number.reshape(()))


def sky_positions(alpha: RangeLike | SkyCoord | None, delta: RangeLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return right ascensions and declinations, rad, (n,) each, of a SkyCoord or of a product, delta varying faster.

    Raises
    ------
    ValueError
        If both are given, or something is missing, empty, not numeric or out of range.
    """
    if not _is_sky(alpha):
        alphas, deltas = axis(cast("RangeLike", alpha), "alpha", "rad"), axis(delta, "delta", "rad")
        require_possible(alphas, "alpha")
        require_possible(deltas, "delta")
        require_few(len(alphas) * len(deltas))
        return np.repeat(alphas, len(deltas)), np.tile(deltas, len(alphas))
    if delta is not None:
        raise ValueError("alpha is an astropy SkyCoord and must stand alone: leave delta out, or give both in rad.")
    positions: Any = alpha.icrs  # type: ignore[union-attr]
    alphas, deltas = np.atleast_1d(positions.ra.rad).reshape(-1), np.atleast_1d(positions.dec.rad).reshape(-1)
    if alphas.size == 0:
        raise ValueError("alpha is empty: give at least one position.")
    return alphas, deltas


def sky_region(region: RegionLike) -> Region:
    """Make a region of the sky from the argument `region` of `template_bank`.

    Raises
    ------
    ValueError
        If `region` is of another kind, a disc's radius is out of range, or a polygon has too few vertices or is too
        large.
    """
    if isinstance(region, str) and region == "all":
        return WholeSky()
    if isinstance(region, tuple) and len(region) == 2 and _is_sky(region[0]):
        alphas, deltas = sky_positions(region[0], None)
        radius = _numbers(region[1], "region's radius", "rad")
        if len(alphas) != 1 or radius.ndim or not 0 < radius <= math.pi:
            raise ValueError(
                f"region must have one centre and a radius in (0, pi] rad if it is a disc, not {region!r}: correct it."
            )
        return Disc(unit_vector(alphas[0], deltas[0]), float(radius))
    if not _is_sky(region):
        raise ValueError(
            f'region must be "all", (SkyCoord, radius) or a SkyCoord of vertices, not {region!r}: give one of these.'
        )
    corners = unit_vector(*sky_positions(region, None))
    if len(corners) < 3:
        raise ValueError(
            f"region must have at least 3 vertices, not {len(corners)}: give (SkyCoord, radius) for a disc."
        )
    mean = np.mean(corners, axis=0)
    if np.linalg.norm(mean) < 1e-6 or np.min(corners @ mean) <= 1e-3 * np.linalg.norm(mean):
        raise ValueError("region must be a polygon within half the sky, not a larger one: search it in parts.")
    return Polygon(corners)


def sky_box(alpha: tuple[object, ...], delta: tuple[object, ...]) -> Box:
    """Make the box of two ranges; if the first right ascension is larger than the second, the box extends through 0.

    Raises
    ------
    ValueError
        If a range is not (low, high), values are out of range, or right ascensions span more than 2 pi.
    """
    west, east = _limits(alpha, "alpha", "rad")
    require_possible(np.array(west), "alpha")
    south, north = _limits(delta, "delta", "rad")
    if not -0.5 * math.pi - 1e-12 <= south <= north <= 0.5 * math.pi + 1e-12:
        raise ValueError(f"delta must be low <= high within [-pi/2, pi/2], not {south} and {north}: give it in rad.")
    if abs(east - west) > 2 * math.pi + 1e-12:
        raise ValueError(f"alpha must span at most 2 pi, not from {west} to {east}: give it in rad.")
    width = east - west if east >= west else east - west + 2 * math.pi
    return Box(west % (2 * math.pi), min(width, 2 * math.pi), south, north)


def orbits(orbit: Orbit | Mapping[str, RangeLike] | None) -> Orbit | None:
    """Make a stack of orbits, fields of shape (n,), from one orbit, a stack, or ranges of the fields.

    Parameters
    ----------
    orbit : Orbit, mapping or None
        See `template_bank`. In a product, argp varies fastest and asini slowest.

    Raises
    ------
    TypeError
        If `orbit` is neither an Orbit nor a mapping.
    ValueError
        If a field is unknown, missing, empty or out of range, or the fields of a stack do not broadcast.
    """
    if orbit is None:
        return None
    if isinstance(orbit, Orbit):
        try:
            fields = np.broadcast_arrays(*(np.asarray(getattr(orbit, n)) for n in ORBIT_FIELDS))
        except ValueError as error:
            raise ValueError(f"orbit has fields that do not broadcast: make them of equal length ({error}).") from None
        return Orbit(*(x.reshape(-1) for x in fields))
    fields = _orbit_fields(orbit)
    for name, value in fields.items():
        if is_range(value) and len(value) == 2:
            raise ValueError(
                f"orbit {name} has no natural step: give (low, high, step), or a mismatch and data for a lattice."
            )
    axes = [axis(fields[name], f"orbit {name}", unit_of(name)) for name in ORBIT_FIELDS]
    require_few(math.prod(map(len, axes)))
    return Orbit(*(x.reshape(-1) for x in np.meshgrid(*axes, indexing="ij")))


def _orbit_fields(orbit: object) -> dict[str, Any]:
    """Return a mapping of all fields of an orbit, from a user's mapping."""
    if not isinstance(orbit, Mapping):
        raise TypeError(f"orbit must be a jfstat.Orbit, a mapping of its fields or None, not {orbit!r}.")
    fields = {name: 0.0 for name in ORBIT_FIELDS if name not in ORBIT_REQUIRED} | dict(orbit)
    unknown, missing = set(fields) - set(ORBIT_FIELDS), set(ORBIT_FIELDS) - set(fields)
    if unknown or missing:
        problem = (
            f"has an unknown field {shown(next(iter(unknown)))}" if unknown else f"lacks {', '.join(sorted(missing))}"
        )
        raise ValueError(f"orbit {problem}: its fields are {', '.join(ORBIT_FIELDS)}, ecc and argp optional.")
    return fields


def orbit_limits(orbit: Orbit | Mapping[str, RangeLike] | None) -> dict[str, tuple[float, float]] | None:
    """Return low and high of each field of an orbit, equal for numbers; None unless a field is a range ``(low, high)``.

    Raises
    ------
    TypeError
        If `orbit` is neither an Orbit nor a mapping.
    ValueError
        If a field is unknown, missing or out of range, or some are ranges and others lists or have steps.
    """
    if orbit is None or isinstance(orbit, Orbit):
        return None
    fields = _orbit_fields(orbit)
    ranges = {name for name, x in fields.items() if is_range(x) and len(x) == 2}
    if not ranges:
        return None
    limits = {}
    for name in ORBIT_FIELDS:
        value, unit = fields[name], unit_of(name)
        if isinstance(value, tuple) and len(value) == 2:
            low, high = limits[name] = _limits(value, f"orbit {name}", unit)
            _require_order(low, high, f"orbit {name}")
            continue
        number = np.empty(2) if isinstance(value, (tuple, list)) else _numbers(value, f"orbit {name}", unit)
        if number.size != 1:
            raise ValueError(
                f"orbit {name} must be a number or (low, high), as orbit {min(ranges)} is, not {value!r}: the metric "
                "sets the steps of all."
            )
        limits[name] = float(number.reshape(())), float(number.reshape(()))
    slowest = {"asini": 0.0, "period": limits["period"][0], "tp": 0.0}  # so that values are checked one by one
    for name in ("period", "asini", "tp", "ecc", "argp"):
        for value in limits[name] if name != "asini" else [min(0.0, limits[name][0])]:
            Orbit(**(slowest | {name: value}))
    (_, asini), (period, _), (_, ecc) = limits["asini"], limits["period"], limits["ecc"]
    Orbit(asini, period, 0.0, ecc)
    return limits


def fixed_limits(orbit: Orbit | Mapping[str, RangeLike] | None) -> dict[str, tuple[float, float]]:
    """Return low and high of each field of one orbit, which are equal; without an orbit, of one that has no size.

    Raises
    ------
    ValueError
        If there are several orbits, or a field is out of range.
    """
    own = orbits(Orbit(0.0, 1e5, 0.0) if orbit is None else orbit)
    assert own is not None  # as only None is
    if np.size(own.period) != 1:
        raise ValueError(
            f"orbit holds {np.size(own.period)} orbits, and NormalisedSFTs take one with a mismatch, or ranges "
            "(low, high) of its fields."
        )
    return {name: (float(x[0]), float(x[0])) for name in ORBIT_FIELDS for x in [np.asarray(getattr(own, name))]}


def _is_sky(x: object) -> TypeGuard[SkyCoord]:
    return hasattr(x, "icrs")


def right_ascensions(value: tuple[Any, ...]) -> tuple[float, float]:
    """Return low and high of a range of alpha, rad; the end of one that extends through 0 lies beyond 2 pi."""
    return _unwrapped(*_limits(value, "alpha", "rad"))


def number_limits(value: Any, name: str, unit: str | None = None) -> tuple[float, float]:
    """Return low and high of a range, without units; `unit` is by default that of the parameter with this name.

    Raises
    ------
    ValueError
        If the value is not (low, high), or low exceeds high.
    """
    if not isinstance(value, tuple):
        raise ValueError(f"{name} must be (low, high), not {shown(value)}: give its range.")
    low, high = _limits(value, name, unit_of(name) if unit is None else unit)
    _require_order(low, high, name)
    return low, high


def _unwrapped(low: float, high: float) -> tuple[float, float]:
    """Return a range whose end, if it is the lower one, lies a turn further."""
    return low, high + 2 * math.pi if high < low else high


def _limits(value: tuple[Any, ...], name: str, unit: str) -> tuple[float, float]:
    """Return low and high of a range without a step."""
    if len(value) != 2:
        raise ValueError(f"{name} must be (low, high) with a mismatch, not {value!r}: the metric sets the step.")
    low, high = _tuple_of_numbers(value, name, unit)
    return low, high


def _require_order(low: float, high: float, name: str) -> None:
    if low > high:
        raise ValueError(f"{name} must have low <= high, not {low} and {high}: swap them.")


def _tuple_of_numbers(value: tuple[Any, ...], name: str, unit: str) -> list[float]:
    """Return the numbers of a range, without unit."""
    numbers = [_numbers(x, name, unit) for x in value]
    if any(x.ndim for x in numbers):
        raise ValueError(f"{name} must have single numbers in its range, not {value!r}: lists hold several values.")
    return [float(x) for x in numbers]


def _numbers(x: Any, name: str, unit: str) -> np.ndarray:
    """Return a float64 array of finite numbers, without its unit."""
    if unit == "s" and hasattr(x, "gps"):
        return np.asarray(gps_seconds(x, name))
    try:
        values = float64_of(x, name, unit)
    except TypeError as error:
        raise ValueError(f"{name} must be a number, a tuple or a list of numbers, not {x!r}.") from error
    except ValueError as error:
        message = str(error) if str(error).startswith(name) else f"{name} must hold numbers only, not {x!r}."
        raise ValueError(message) from error
    if not np.all(np.abs(values) <= LARGEST):
        raise ValueError(
            f"{name} must be finite, of at most {LARGEST:g}, not {shown(x)}: give it in {unit or 'plain numbers'}."
        )
    return values


def within_ranges(spins: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return which templates' spin-downs, (n, s), lie in their ranges, (s, 2): (n,) bool.

    Raises
    ------
    ValueError
        If no template lies in the ranges; only strict bounds call this function.
    """
    low, high = limits.T
    slack = 1e-9 * (high - low) + 1e-12 * np.abs(low)  # ranges include their ends, up to rounding
    inside = np.all((spins >= low - slack) & (spins <= high + slack), axis=1)
    if not inside.any():
        raise ValueError("strict leaves no template within the ranges: widen them, or allow templates beyond them.")
    return inside
