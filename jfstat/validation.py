"""From what a user may write (floats, Quantity, Time, SkyCoord) to plain numbers, or one clear ValueError."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def require_x64() -> None:
    """Raise unless JAX computes in 64 bits.

    Raises
    ------
    ValueError
        If ``jax_enable_x64`` is off: phases of 1e9 cycles do not fit in 32 bits.
    """
    if not jax.config.read("jax_enable_x64"):
        raise ValueError(
            "jfstat needs JAX in 64-bit mode and it is off: call jax.config.update('jax_enable_x64', True) "
            "before making arrays, or set JAX_ENABLE_X64=1."
        )


def in_unit(x: Any, name: str, unit: str) -> Any:
    """Strip the unit of an astropy Quantity or Angle, converting to `unit`; pass anything else through.

    Raises
    ------
    ValueError
        If the quantity cannot be converted.
    """
    if not hasattr(x, "to_value"):
        return x
    try:
        return x.to_value(unit)
    except (TypeError, ValueError) as error:  # astropy's UnitConversionError is both
        raise ValueError(
            f"{name} must be convertible to {unit or 'a plain number'}, not {x!r}: give it in {unit or 'no unit'}."
        ) from error


def derivative_unit(k: int) -> str:
    """Unit of the k-th frequency derivative, in astropy's spelling."""
    return "Hz" if k == 0 else "Hz / s" if k == 1 else f"Hz / s{k}"


def as_float64(x: Any, name: str, unit: str = "") -> jax.Array:
    """A float64 JAX array from numbers, nested lists, arrays, tracers or Quantities.

    Raises
    ------
    ValueError
        If `x` is not numeric, its unit does not fit, or 64-bit mode is off.
    """
    require_x64()
    x = in_unit(x, name, unit)
    try:
        return jnp.asarray(x, dtype=jnp.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number or an array of numbers, not {x!r}.") from error


def _finite_float(x: Any, name: str, what: str) -> float:
    try:
        value = float(np.asarray(x).item())
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {what}, not {x!r}: give one number.") from error
    if not math.isfinite(value):
        raise ValueError(f"{name} must be {what}, not {value}: give a finite number.")
    return value


def frequency(x: Any, name: str) -> float:
    """A frequency in Hz as a float, from a number or a Quantity."""
    return _finite_float(in_unit(x, name, "Hz"), name, "a frequency in Hz")


def seconds(x: Any, name: str) -> float:
    """A duration in s as a float, from a number or a Quantity."""
    return _finite_float(in_unit(x, name, "s"), name, "a time in s")


def gps_time(x: Any, name: str) -> float:
    """A GPS time in s as a float, from a number or an astropy Time."""
    return _finite_float(x.gps if hasattr(x, "gps") else in_unit(x, name, "s"), name, "a GPS time in s")


def gps_integer(x: Any, name: str) -> int:
    """A GPS time in whole s, from a number or an astropy Time.

    Raises
    ------
    ValueError
        If it is not a whole number: reference times are static integers, so that no precision is lost.
    """
    value = gps_time(x, name)
    if value != round(value):
        raise ValueError(f"{name} must be a whole number of GPS seconds, not {value!r}: round it and move fkdot to it.")
    return int(value)


def given_sqrt_sx(names: Sequence[str], sqrt_sx: object) -> Sequence[float | None]:
    """One given noise floor (or None) a detector, from a number, a sequence or a mapping of detectors.

    Raises
    ------
    ValueError
        If a value is not positive and finite or the detectors do not match.
    """
    if sqrt_sx is None:
        return [None] * len(names)
    if isinstance(sqrt_sx, Mapping):
        missing = [name for name in names if name not in sqrt_sx]
        if missing:
            raise ValueError(f"sqrt_sx lacks the detector {missing[0]}: give a value for each of {', '.join(names)}.")
        values = [sqrt_sx[name] for name in names]
    elif (isinstance(sqrt_sx, Sequence) and not isinstance(sqrt_sx, str)) or getattr(sqrt_sx, "ndim", 0) > 0:
        values = list(sqrt_sx)  # type: ignore[call-overload]
        if len(values) != len(names):
            raise ValueError(f"sqrt_sx has {len(values)} values for {len(names)} detectors: give one for each.")
    else:
        values = [sqrt_sx] * len(names)
    values = [in_unit(value, "sqrt_sx", "Hz(-1/2)") for value in values]
    try:
        floats = [float(value) for value in values]
    except (TypeError, ValueError):
        raise ValueError(f"sqrt_sx must be a number, a sequence or a mapping, not {sqrt_sx!r}.") from None
    for name, value in zip(names, floats, strict=True):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"sqrt_sx of {name} must be positive, not {value}: give the noise floor in 1/sqrt(Hz).")
    return floats
