"""From ranges of sky position, spin-down and orbit to their product: a flat grid of templates, stacked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.templates import Doppler, Orbit
from jfstat.validation import frequency, gps_time, in_unit

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
) -> Doppler:
    """A flat grid: the product of ranges in sky position, orbit and spin-down.

    Each of the parameters is one of

    - a number or a scalar Quantity or Angle;
    - a tuple ``(low, high, step)``: low, low + step, ... up to and, if the steps end there, including high;
    - a tuple ``(low, high)``, for spin-downs only and with `data`: the step is then the natural one of `natural_step`;
    - a list or an array of values, or a Quantity that holds one.

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
        GPS time in the SSB at which the spin-downs hold, a whole number of s; the data's if None.
    data : FstatData, optional
        What is to be searched; for natural steps and the frequency.
    freq : float or Quantity, optional
        Frequency to write into ``fkdot[..., 0]``, Hz, which `twoF_band` and `search` ignore; the centre of the data's
        band if None, or 0 without data.

    Returns
    -------
    Doppler
        Of n templates: fields of shape (n,), ``fkdot`` (n, 1 + number of derivatives), ready for
        ``jax.vmap(twoF_band, (None, 0))``. From slow to fast vary alpha, delta, orbit, ..., f2dot, f1dot.

    Raises
    ------
    ValueError
        If a parameter is missing, empty or out of range, or a step is missing, not positive or not finite.
    """
    if data is not None and not isinstance(data, FstatData):
        raise ValueError(f"data must be FstatData from jfstat.prepare or None, not {type(data).__name__}.")
    alphas, deltas = _sky_positions(alpha, delta, sky)
    stack = orbits(orbit)
    spins = {"f1dot": f1dot, "f2dot": f2dot, "f3dot": f3dot}
    order = max((k for k, value in enumerate(spins.values(), 1) if value is not None), default=1)
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
