"""From ranges of sky position, spin-down and orbit to templates, stacked: their product, or a lattice by the metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jfstat.banks.cover import cover_positions, cover_region
from jfstat.banks.regions import Box, Disc, Polygon, Region, WholeSky, unit_vector
from jfstat.banks.wanted import Templates, Wanted
from jfstat.data.fstatdata import FstatData
from jfstat.metrics.phasemetric import factor
from jfstat.templates import Doppler, Orbit
from jfstat.validation import derivative_unit, frequency, gps_integer, gps_time, in_unit

ORBIT_UNITS = {"asini": "s", "period": "s", "tp": "s", "ecc": "", "argp": "rad"}
"""The fields of `Orbit` and their units, in the order of its arguments."""
ORBIT_DEFAULTS = {"ecc": 0.0, "argp": 0.0}


def grid(
    alpha: Any = None,
    delta: Any = None,
    f1dot: Any = 0.0,
    f2dot: Any = None,
    f3dot: Any = None,
    *,
    sky: Any = None,
    orbit: Orbit | Mapping[str, Any] | None = None,
    reftime: Any = None,
    data: FstatData | None = None,
    freq: Any = None,
    mismatch: float | None = None,
    region: Any = None,
) -> Doppler:
    """A bank of templates: the product of ranges in sky position, orbit and spin-down, or a lattice by the metric.

    Without `mismatch`, each of the parameters is one of

    - a number or a scalar Quantity or Angle;
    - a tuple ``(low, high, step)``: low, low + step, ... up to and, if the steps end there, including high;
    - a tuple ``(low, high)``, for spin-downs only and with `data`: the step is then the natural one of `natural_step`;
    - a list or an array of values, or a Quantity that holds one.

    With `mismatch`, the metric of `data` sets all steps: `alpha` and `delta` are both ranges ``(low, high)`` or both
    values, spin-downs are numbers or ranges ``(low, high)``.

    Parameters
    ----------
    alpha, delta : see above
        Right ascension and declination, rad.
    f1dot, f2dot, f3dot : see above
        Derivatives of the frequency at the reference time, Hz/s, Hz/s^2, Hz/s^3. Templates have as many as are given,
        and always the first.
    sky : SkyCoord, optional
        One position or a list of them, instead of `alpha` and `delta`.
    orbit : Orbit or mapping, optional
        One orbit or a stack of them, or a mapping from the names of `Orbit`'s fields to parameters as above, whose
        product is taken.
    reftime : int or Time, optional
        GPS time in the SSB at which the spin-downs hold, a whole number of s; the data's if None. A lattice reaches
        beyond its ranges by up to a cell: far from the data, that is a drift for which `prepare` must have left room,
        by ``fdots=`` of the bank's own range.
    data : FstatData, optional
        What is to be searched; for natural steps and the frequency.
    freq : float or Quantity, optional
        Frequency to write into ``fkdot[..., 0]``, Hz, which `twoF_band` and `search` ignore; the centre of the data's
        band if None, or 0 without data.
    mismatch : float, optional
        Between 0 and 1: the largest fraction of a signal's rho^2 that its nearest template may miss once 2F is
        maximised over frequency. This is without what the spacing of frequencies, 1/(2T), costs on top: at most 0.19,
        and 0.066 in the mean. Of orbits, the product of the ranges' values is taken as ever.
    region : "all", (SkyCoord, radius) or SkyCoord, optional
        With `mismatch`, and instead of `alpha` and `delta`: the whole sky, a disc of a radius in rad, or a polygon of
        three or more vertices, whose sides are great circles and which fits in half the sky.

    Returns
    -------
    Doppler
        Of n templates: fields of shape (n,), ``fkdot`` (n, 1 + number of derivatives), ready for
        ``jax.vmap(twoF_band, (None, 0))``. From slow to fast vary alpha, delta, orbit, ..., f2dot, f1dot; of a lattice
        the sky position, orbit, spin-downs.

    Raises
    ------
    ValueError
        If a parameter is missing, empty or out of range, a step is missing, not positive or not finite, or a lattice
        would have more than 2e8 templates.

    Notes
    -----
    The lattices are A_n* (see `jfstat.maths.lattices`) in the metric of the phase, averaged neither over antenna
    patterns nor amplitudes (see `metric` with ``phase_only=True``), at the highest frequency of `data`: for days of
    data and more that is the loss of 2F, to second order: of 500 to 2000 random signals a bank none lost more than
    `mismatch` in 1 to 100 d of data (examples/bank_coverage.py). The shorter the data, the more the change of the
    antenna patterns between templates comes on top: in 6 h, whole sky, and at a mismatch of 0.1, 0.05 % of signals lose
    up to 1.14 times that. A spin-down whose range costs less than the mismatch has the middle of its range in all
    templates.
    """
    if data is not None and not isinstance(data, FstatData):
        raise ValueError(f"data must be FstatData from jfstat.prepare or None, not {type(data).__name__}.")
    stack = orbits(orbit)
    spins = {"f1dot": f1dot, "f2dot": f2dot, "f3dot": f3dot}
    order = max((k for k, value in enumerate(spins.values(), 1) if value is not None), default=1)
    if mismatch is not None or region is not None:
        templates = _lattice(alpha, delta, sky, region, dict(list(spins.items())[:order]), reftime, data, mismatch)
        f = float(data.band.f_centre) if freq is None and data is not None else frequency(freq, "freq")
        return _with_orbits(templates, stack, f, reftime)
    alphas, deltas = _sky_positions(alpha, delta, sky)
    axes = []
    for k, (name, value) in enumerate(list(spins.items())[:order], 1):
        step = None if data is None else natural_step(k, data.tspan)
        axes.append(axis(0.0 if value is None else value, name, "Hz / s" if k == 1 else f"Hz / s{k}", step))
    f = 0.0 if data is None else float(data.band.f_centre)
    f = f if freq is None else frequency(freq, "freq")

    n_orbits = 1 if stack is None else stack.period.shape[0]
    # the fastest index last: sky, orbit, f3dot, f2dot, f1dot
    shape = (len(alphas), n_orbits, *(len(x) for x in reversed(axes)))
    index = [i.reshape(-1) for i in np.indices(shape, sparse=False)]
    fkdot = np.empty((index[0].size, 1 + order))
    fkdot[:, 0] = f
    for k, values in enumerate(axes, 1):
        fkdot[:, k] = values[index[-k]]
    return Doppler(
        alpha=alphas[index[0]],
        delta=deltas[index[0]],
        fkdot=fkdot,
        reftime=reftime,
        orbit=None if stack is None else Orbit(*(np.asarray(getattr(stack, n))[index[1]] for n in ORBIT_UNITS)),
    )


def orbits(orbit: Orbit | Mapping[str, Any] | None) -> Orbit | None:
    """A stack of orbits, fields of shape (n,), from one, from a stack, or from ranges of their fields.

    Parameters
    ----------
    orbit : Orbit, mapping or None
        See `grid`. In the product, argp varies fastest and asini slowest.

    Raises
    ------
    ValueError
        If a field is unknown, missing, empty or out of range, or the fields of a stack do not broadcast.
    """
    if orbit is None:
        return None
    if isinstance(orbit, Orbit):
        try:
            fields = np.broadcast_arrays(*(np.asarray(getattr(orbit, n)) for n in ORBIT_UNITS))
        except ValueError as error:
            raise ValueError(f"orbit has fields that do not broadcast: make them of equal length ({error}).") from None
        return Orbit(*(x.reshape(-1) for x in fields))
    if not isinstance(orbit, Mapping):
        raise ValueError(f"orbit must be a jfstat.Orbit, a mapping of its fields or None, not {orbit!r}.")
    fields = ORBIT_DEFAULTS | dict(orbit)
    unknown, missing = set(fields) - set(ORBIT_UNITS), set(ORBIT_UNITS) - set(fields)
    if unknown or missing:
        problem = f"has an unknown field {min(unknown)!r}" if unknown else f"lacks {', '.join(sorted(missing))}"
        raise ValueError(f"orbit {problem}: its fields are {', '.join(ORBIT_UNITS)}, ecc and argp optional.")
    axes = [axis(fields[name], f"orbit {name}", unit) for name, unit in ORBIT_UNITS.items()]
    return Orbit(*(x.reshape(-1) for x in np.meshgrid(*axes, indexing="ij")))


def natural_step(k: int, tspan: float) -> float:
    """Spacing of a flat grid in the k-th derivative of the frequency, 1/(2 T^(k+1)), Hz/s^k (ComputeFstatistic_v2).

    Parameters
    ----------
    k : int
        0 for the frequency itself, whose spacing of 1/(2 T) the band has.
    tspan : float
        T, s.
    """
    return 1.0 / (2.0 * tspan ** (k + 1))


def axis(value: Any, name: str, unit: str, natural: float | None = None) -> np.ndarray:
    """Values of one parameter, (n,) float64, from a number, a range in a tuple or a sequence; see `grid`.

    Parameters
    ----------
    value : number, Quantity, tuple or sequence
    name : str
        For errors.
    unit : str
        Unit to convert to, and of plain numbers.
    natural : float, optional
        Step of a range that names none.

    Raises
    ------
    ValueError
        If the value is missing, not numeric or empty, or the range has no, or no sensible, step.
    """
    if value is None:
        raise ValueError(f"{name} is missing: give a number, a tuple (low, high, step) or a list of values.")
    if not isinstance(value, tuple):
        parts = list(value) if isinstance(value, list) else value
        numbers = [_numbers(x, name, unit) for x in parts] if isinstance(parts, list) else [_numbers(parts, name, unit)]
        values = np.concatenate([x.reshape(-1) for x in numbers]) if numbers else np.empty(0)
        if values.size == 0:
            raise ValueError(f"{name} is empty: give at least one value.")
        return values
    if len(value) not in (2, 3):
        raise ValueError(f"{name} must be (low, high, step) if it is a tuple, not {value!r}: lists hold single values.")
    ends = [_numbers(x, name, unit) for x in value]
    if any(x.ndim for x in ends):
        raise ValueError(f"{name} must have numbers as low, high and step, not {value!r}: lists hold single values.")
    low, high, *steps = (float(x) for x in ends)
    if low > high:
        raise ValueError(f"{name} must have low <= high, not {low} and {high}: swap them.")
    step = steps[0] if steps else natural
    if step is None:
        if low == high:
            return np.array([low])
        raise ValueError(f"{name} has no step: give (low, high, step), since it has no natural one without data.")
    if step <= 0:
        raise ValueError(f"{name} must have a positive step, not {step}: give (low, high, step).")
    # a range that is a whole number of steps but for rounding keeps its last value
    count = math.floor((high - low) / step * (1 + 1e-12) + 1e-9) + 1
    return low + step * np.arange(count)


def _numbers(x: Any, name: str, unit: str) -> np.ndarray:
    """A float64 array of finite numbers, without its unit."""
    if unit == "s" and hasattr(x, "gps"):
        return np.asarray(gps_time(x, name))
    try:
        values = np.asarray(in_unit(x, name, unit) if unit else x, dtype=np.float64)
    except TypeError as error:
        raise ValueError(f"{name} must be a number, a tuple or a list of numbers, not {x!r}.") from error
    except ValueError as error:
        message = str(error) if str(error).startswith(name) else f"{name} must hold numbers only, not {x!r}."
        raise ValueError(message) from error
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, not {x!r}: give it in {unit or 'plain numbers'}.")
    return values


def _sky_positions(alpha: Any, delta: Any, sky: Any) -> tuple[np.ndarray, np.ndarray]:
    """Right ascensions and declinations of all positions, rad, (n,) each; delta varies faster."""
    sky = alpha if hasattr(alpha, "icrs") else sky
    if sky is None:
        alphas, deltas = axis(alpha, "alpha", "rad"), axis(delta, "delta", "rad")
        return np.repeat(alphas, len(deltas)), np.tile(deltas, len(alphas))
    if delta is not None or (alpha is not None and alpha is not sky) or not hasattr(sky, "icrs"):
        raise ValueError("sky must be an astropy SkyCoord and stand alone: give it, or alpha and delta in rad.")
    positions = sky.icrs
    alphas, deltas = np.atleast_1d(positions.ra.rad).reshape(-1), np.atleast_1d(positions.dec.rad).reshape(-1)
    if alphas.size == 0:
        raise ValueError("sky is empty: give at least one position.")
    return alphas, deltas


def _lattice(
    alpha: Any,
    delta: Any,
    sky: Any,
    region: Any,
    spins: dict[str, Any],
    reftime: Any,
    data: FstatData | None,
    mismatch: Any,
) -> Templates:
    """Templates by the metric; arguments as `grid`."""
    if mismatch is None:
        raise ValueError("mismatch must be given with a region, not None: try 0.1.")
    if isinstance(mismatch, bool) or not isinstance(mismatch, (int, float, np.number)) or not 0 < mismatch < 1:
        raise ValueError(f"mismatch must be a number between 0 and 1, not {mismatch!r}: try 0.1.")
    if data is None:
        raise ValueError("data must be given with a mismatch, not None: the metric depends on when there are data.")
    place = _place(alpha, delta, sky, region)
    ranges = np.array([_spin_range(value, name, k) for k, (name, value) in enumerate(spins.items(), 1)])
    reference = data.reftime if reftime is None else gps_integer(reftime, "reftime")
    r = factor(data, len(ranges), reference, float(data.frequencies[-1]))
    wanted = Wanted(r, ranges[:, 0], ranges[:, 1], float(mismatch))
    cover = cover_positions(wanted, place) if isinstance(place, np.ndarray) else cover_region(wanted, place)
    return cover.templates()


def _place(alpha: Any, delta: Any, sky: Any, region: Any) -> Region | np.ndarray:
    """What is to be covered: a region, or single positions as unit vectors (n, 3)."""
    if region is not None:
        if alpha is not None or delta is not None or sky is not None:
            raise ValueError("region must stand alone, without alpha, delta and sky: give one or the other.")
        return _region(region)
    if not isinstance(alpha, tuple) and not isinstance(delta, tuple):
        return unit_vector(*_sky_positions(alpha, delta, sky))
    if sky is not None or not (isinstance(alpha, tuple) and isinstance(delta, tuple)):
        raise ValueError("alpha and delta must both be ranges (low, high) or both be values: they make one box.")
    west, east = _ends(alpha, "alpha", "rad")
    south, north = _ends(delta, "delta", "rad")
    if not -0.5 * math.pi - 1e-12 <= south <= north <= 0.5 * math.pi + 1e-12:
        raise ValueError(f"delta must be low <= high within [-pi/2, pi/2], not {south} and {north}: give it in rad.")
    if abs(east - west) > 2 * math.pi + 1e-12:
        raise ValueError(f"alpha must span at most 2 pi, not from {west} to {east}: give it in rad.")
    width = east - west if east >= west else east - west + 2 * math.pi
    return Box(west % (2 * math.pi), min(width, 2 * math.pi), south, north)


def _region(region: Any) -> Region:
    """A region of the sky from what `grid` takes as `region`."""
    if isinstance(region, str) and region == "all":
        return WholeSky()
    if isinstance(region, tuple) and len(region) == 2 and hasattr(region[0], "icrs"):
        alphas, deltas = _sky_positions(None, None, region[0])
        radius = _numbers(region[1], "region's radius", "rad")
        if len(alphas) != 1 or radius.ndim or not 0 < radius <= math.pi:
            raise ValueError(f"region must have one centre and a radius in (0, pi] rad, not {region!r}: a disc has.")
        return Disc(unit_vector(alphas[0], deltas[0]), float(radius))
    if not hasattr(region, "icrs"):
        raise ValueError(
            f'region must be "all", (SkyCoord, radius) or a SkyCoord of vertices, not {region!r}: try one.'
        )
    corners = unit_vector(*_sky_positions(None, None, region))
    if len(corners) < 3:
        raise ValueError(
            f"region must have at least 3 vertices, not {len(corners)}: give (SkyCoord, radius) for a disc."
        )
    mean = np.mean(corners, axis=0)
    if np.linalg.norm(mean) < 1e-6 or np.min(corners @ mean) <= 1e-3 * np.linalg.norm(mean):
        raise ValueError("region must be a polygon within half the sky, not a larger one: search it in parts.")
    return Polygon(corners)


def _ends(value: Any, name: str, unit: str) -> tuple[float, float]:
    """Low and high of a range without a step."""
    if len(value) != 2:
        raise ValueError(f"{name} must be (low, high) with a mismatch, not {value!r}: the metric sets the step.")
    low, high = (_numbers(x, name, unit) for x in value)
    if low.ndim or high.ndim:
        raise ValueError(f"{name} must have numbers as low and high, not {value!r}: lists hold single values.")
    return float(low), float(high)


def _spin_range(value: Any, name: str, k: int) -> tuple[float, float]:
    """Low and high of a spin-down, equal if it is a number."""
    if isinstance(value, tuple):
        low, high = _ends(value, name, derivative_unit(k))
        if low > high:
            raise ValueError(f"{name} must have low <= high, not {low} and {high}: swap them.")
        return low, high
    number = _numbers(0.0 if value is None else value, name, derivative_unit(k))
    if number.size != 1:
        raise ValueError(f"{name} must be a number or (low, high) with a mismatch, not {value!r}: give its range.")
    return float(number.reshape(())), float(number.reshape(()))


def _with_orbits(templates: Templates, stack: Orbit | None, f: float, reftime: Any) -> Doppler:
    """Templates at frequency f, Hz; each sky position's for one orbit after the other."""
    alpha, delta, spins = templates
    fkdot = np.concatenate([np.full((len(spins), 1), f), spins], axis=1)
    if stack is None:
        return Doppler(alpha=alpha, delta=delta, fkdot=fkdot, reftime=reftime)
    n = stack.period.shape[0]
    moved = (np.diff(alpha, prepend=alpha[:1]) != 0) | (np.diff(delta, prepend=delta[:1]) != 0)
    template, turn = np.repeat(np.arange(len(alpha)), n), np.tile(np.arange(n), len(alpha))
    order = np.lexsort((template, turn, np.cumsum(moved)[template]))
    template, turn = template[order], turn[order]
    return Doppler(
        alpha=alpha[template],
        delta=delta[template],
        fkdot=fkdot[template],
        reftime=reftime,
        orbit=Orbit(*(np.asarray(getattr(stack, name))[turn] for name in ORBIT_UNITS)),
    )
