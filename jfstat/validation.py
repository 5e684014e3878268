"""Check users' numbers, with or without units, and convert them to floats and arrays; define their types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, Union

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.maths.arrays import any_traced, is_traced, on_device

if TYPE_CHECKING:
    from astropy.units import Quantity

NumberLike = Union[float, "np.number[Any]", np.ndarray, jax.Array, "Quantity"]
"""Real number, or an array of numbers where several are allowed; an astropy Quantity or Angle is converted."""
FrequencyLike = NumberLike
"""Frequency in Hz, or a Quantity."""
AngleLike = NumberLike
"""Angle in rad, or a Quantity or Angle."""
DurationLike = NumberLike
"""Duration in s, or a Quantity."""
SqrtSxLike = NumberLike | Sequence[NumberLike] | Mapping[str, NumberLike]
"""Noise floor in 1/sqrt(Hz): one for all detectors, or one for each in their order or by their names."""

LONGEST = 80
"""Most characters of a value in a message."""
TSFT = (1e-3, 1e7)
"""Shortest and longest SFT that is accepted, s."""
MOST_FREQUENCY = 1e6
"""Highest frequency of a signal, Hz; a higher one is taken for a mistake."""
LARGEST = 1e15
"""Largest magnitude of a number in Hz, s, Hz/s, ...: float64 resolves 0.125 s there, and products stay finite."""
SQRT_SX = (1e-150, 1e150)
"""Least and largest noise floor, 1/sqrt(Hz), which float64 can square and invert."""


def require_x64() -> None:
    """Raise an error unless JAX computes in 64 bits.

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


def shown(x: object) -> str:
    """Return a value as an error's message shows it: one short line, whatever the value is."""
    try:
        text = " ".join(repr(x).split())
    except Exception:  # whatever a foreign object raises
        text = f"a {type(x).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def float64_of(x: object, name: str, unit: str = "") -> np.ndarray:
    """Return real numbers in a unit, by default plain ones, as a float64 NumPy array.

    Raises
    ------
    ValueError
        If they are traced, no real numbers, have another unit, or are too large for float64.
    """
    x = in_unit(x, name, unit)
    require_known(x, name)
    refuse_masked(x, name)
    try:
        found = np.asarray(x)
        if found.dtype.kind not in "fiuO" or isinstance(x, np.ma.core.MaskedConstant):
            raise TypeError
        if found.dtype.kind == "O" and any(isinstance(own, (bool, np.bool_, str, bytes)) for own in found.flat):
            raise TypeError
        values = found.astype(np.float64)
    except Exception as error:  # whatever a foreign object raises
        raise ValueError(f"{name} must be a number or an array of numbers, not {shown(x)}.") from error
    _refuse_half(found.dtype, name)
    return values


def refuse_masked(x: object, name: str) -> None:
    """Raise a ValueError for an array or number with masked values, NumPy's or astropy's."""
    mask = getattr(x, "mask", None)
    if isinstance(mask, (np.ndarray, np.bool_)) and np.any(mask) and not isinstance(x, np.ma.core.MaskedConstant):
        raise ValueError(f"{name} has masked values, of which nothing is known: leave them out.")


def _refuse_half(kind: Any, name: str) -> None:
    """Raise a ValueError for a dtype of floats of half precision."""
    if kind is not None and jnp.issubdtype(kind, jnp.floating) and kind.itemsize < 4:
        raise ValueError(f"{name} must be float64, not {kind}, which keeps too few digits: make it in 64 bits.")


def in_unit(x: object, name: str, unit: str) -> NumberLike:
    """Return the value of an astropy Quantity or Angle in `unit`; anything else is returned unchanged.

    Raises
    ------
    ValueError
        If the quantity cannot be converted.
    """
    converted = getattr(x, "to_value", None)
    if converted is None:
        return x  # type: ignore[return-value]
    try:
        return converted(unit)
    except Exception as error:  # astropy's, or whatever a foreign object raises
        raise ValueError(
            f"{name} must be convertible to {unit or 'a plain number'}, not {shown(x)}: give it in {unit or 'no unit'}."
        ) from error


def require_known(x: object, name: str) -> None:
    """Raise a ValueError if a number, or one of several, is traced where its value is needed."""
    if any_traced(x):
        raise ValueError(
            f"{name} must be known and cannot be traced: give it outside of jax.jit, jax.vmap and jax.grad, or close "
            "over it."
        )


def as_float64(x: object, name: str, unit: str = "") -> jax.Array:
    """Return a float64 JAX array from numbers, nested lists, arrays, tracers or Quantities.

    Raises
    ------
    ValueError
        If `x` is not numeric, its unit does not fit, or 64-bit mode is off.
    """
    require_x64()
    if isinstance(x, jax.Array):  # traced ones too
        if not jnp.issubdtype(x.dtype, jnp.number) or jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise ValueError(f"{name} must be real numbers, not {x.dtype}.")
        _refuse_half(x.dtype, name)
        return jnp.asarray(x, dtype=jnp.float64)
    if isinstance(x, (list, tuple)) and any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(x)):
        for leaf in jax.tree.leaves(x):
            _refuse_half(getattr(leaf, "dtype", None), name)
        try:
            return jnp.asarray(x, dtype=jnp.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be a number or an array of numbers, not {shown(x)}.") from error
    return on_device(float64_of(x, name, unit))


def precise(x: object, name: str, unit: str = "") -> jax.Array:
    """Return a float64 JAX array as `as_float64`, from numbers that were not rounded to fewer bits before.

    Raises
    ------
    ValueError
        As `as_float64`, and if `x` is an array of fewer bits: float32 keeps 7 digits, and a phase has 1e9 cycles.
    """
    refuse_rounded(x, name)
    return as_float64(x, name, unit)


def refuse_rounded(x: object, name: str) -> None:
    """Raise a ValueError for an array or number of fewer than 64 bits, or a sequence with such."""
    for own in x if isinstance(x, (list, tuple)) else (x,):
        kind = getattr(own, "dtype", None)
        if isinstance(kind, np.dtype) and jnp.issubdtype(kind, jnp.floating) and kind.itemsize < 8:
            raise ValueError(f"{name} must be float64, not {kind}, which keeps too few digits: make it in 64 bits.")


def require(
    x: jax.Array | np.ndarray,
    name: str,
    condition: Callable[[np.ndarray], jax.Array | np.ndarray],
    what: str,
    hint: str,
) -> None:
    """Check that a concrete array fulfils a condition everywhere; traced values are not checked.

    Raises
    ------
    ValueError
        If the condition fails. The message names the argument, the first value that fails, and what to do.
    """
    if is_traced(x):
        return
    # NumPy, because under an outer jit even constants would be traced by JAX's functions
    concrete = np.atleast_1d(np.asarray(x))
    good = condition(concrete)
    if not good.all():
        raise ValueError(f"{name} must be {what}, not {float(concrete[~good][0])}: {hint}.")


def number(x: object, name: str, what: str = "one number", unit: str = "") -> float:
    """Return a finite number in a unit as a float; `what` names it in the error.

    Raises
    ------
    ValueError
        If it is no number, not finite, or beyond `LARGEST`.
    """
    x = in_unit(x, name, unit)
    require_known(x, name)
    refuse_masked(x, name)
    try:
        item = np.asarray(x).item()
        if isinstance(item, (bool, str, bytes)):
            raise TypeError
        value = float(item)
    except Exception as error:  # whatever a foreign object raises
        raise ValueError(f"{name} must be {what}, not {shown(x)}: give one number.") from error
    if not math.isfinite(value):
        raise ValueError(f"{name} must be {what}, not {value}: give a finite number.")
    if abs(value) > LARGEST:
        raise ValueError(f"{name} must be {what} of at most {LARGEST:g}, not {value:g}: check its unit.")
    return value


def frequency(x: object, name: str) -> float:
    """Return a frequency in Hz as a float, from a number or a Quantity."""
    return number(x, name, "a frequency in Hz", "Hz")


def signal_frequency(x: object, name: str) -> float:
    """Return the frequency of a signal in Hz as a float.

    Raises
    ------
    ValueError
        If it is no frequency, not positive, or higher than any detector samples.
    """
    value = frequency(x, name)
    if not 0 < value <= MOST_FREQUENCY:
        raise ValueError(f"{name} must be positive and at most {MOST_FREQUENCY:g} Hz, not {value:g}: give it in Hz.")
    return value


def band_width(x: object, name: str) -> float:
    """Return a width of a band in Hz, of 0 or more, as a float.

    Raises
    ------
    ValueError
        If it is no frequency, or negative.
    """
    value = frequency(x, name)
    if value < 0:
        raise ValueError(f"{name} must not be negative, not {value}: give it in Hz.")
    return value


def guard_band(x: object) -> float:
    """Return the argument `guard` as a float, Hz; see `band_width`."""
    return band_width(x, "guard")


def seconds(x: object, name: str) -> float:
    """Return a duration in s as a float, from a number or a Quantity."""
    return number(x, name, "a time in s", "s")


def positive_seconds(x: object, name: str) -> float:
    """Return a positive duration in s as a float, from a number or a Quantity."""
    value = seconds(x, name)
    if not value > 0:
        raise ValueError(f"{name} must be positive, not {value}: give it in s.")
    return value


def positive_number(x: object, name: str, what: str) -> float:
    """Return a positive number without unit as a float; `what` names it in the error.

    Raises
    ------
    ValueError
        If it is no positive number, or not finite.
    """
    value = float64_of(x, name)
    if value.ndim or not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be positive, not {shown(x)}: it is {what}.")
    return float(value)


def sft_seconds(tsft: object) -> float:
    """Return the length of an SFT in s as a float, from a number or a Quantity."""
    value = positive_seconds(tsft, "tsft")
    if not TSFT[0] <= value <= TSFT[1]:
        raise ValueError(
            f"tsft must be within {TSFT[0]:g} to {TSFT[1]:g}, not {value:g}: give the length of an SFT in s."
        )
    return value


def gps_seconds(x: object, name: str) -> float:
    """Return a GPS time in s as a float, from a number or an astropy Time."""
    gps = getattr(x, "gps", None)
    refuse_rounded(x, name)
    return number(x if gps is None else gps, name, "a GPS time in s", "s")


def time_pairs(segments: object, name: str = "segments") -> list[tuple[float, float]]:
    """Return pairs of start and end, GPS s, as floats.

    Raises
    ------
    ValueError
        If there is none, or a start is not before its end.
    """
    try:
        pairs = [tuple(gps_seconds(x, name) for x in pair) for pair in segments]  # type: ignore[attr-defined]
    except TypeError:
        pairs = [()]
    if not pairs or not all(len(pair) == 2 and pair[0] < pair[1] for pair in pairs):
        raise ValueError(f"{name} must be pairs of GPS times with start < end, at least one.")
    return pairs  # type: ignore[return-value]


def gps_integer(x: object, name: str) -> int:
    """Return a GPS time in whole s, from a number or an astropy Time."""
    value = gps_seconds(x, name)
    if value != round(value):
        raise ValueError(f"{name} must be whole GPS seconds, not {value!r}: round to whole seconds.")
    return int(value)


def detector_names(detectors: str | Iterable[str]) -> tuple[str, ...]:
    """Return names of detectors as a tuple, from one name or several.

    Raises
    ------
    ValueError
        If there are none, one is no name, or one is given twice.
    """
    try:
        names = (detectors,) if isinstance(detectors, str) else tuple(detectors)
    except TypeError:
        names = ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"detectors must be different prefixes such as ['H1', 'L1'], not {shown(detectors)}.")
    return names


def is_whole(x: object) -> TypeGuard[int]:
    """Return whether a value is an integer of any kind other than bool."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def whole(x: object, name: str, least: int = 0, most: int = 2**53) -> int:
    """Return a whole number within limits as an int.

    Raises
    ------
    ValueError
        If it is no whole number, or beyond the limits.
    """
    if not is_whole(x) or not least <= x <= most:
        limits = f"of at least {least}" if most == 2**53 else f"from {least} to {most:g}"
        raise ValueError(f"{name} must be a whole number {limits}, not {shown(x)}.")
    return int(x)


def probability(x: object, name: str, hint: str = "it is a probability") -> float:
    """Return a number between 0 and 1, both excluded, as a float.

    Raises
    ------
    ValueError
        If it is not between 0 and 1.
    """
    value = float64_of(x, name)
    if value.ndim or not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, not {shown(x)}: {hint}.")
    return float(value)


def fits_float32(value: object) -> bool:
    """Return whether a value is a finite number that a float32 can hold."""
    return is_number(value) and abs(float(value)) <= float(np.finfo(np.float32).max)  # type: ignore[arg-type]


def is_number(x: object) -> bool:
    """Return whether a value is one finite real number of any kind, without a unit."""
    try:
        value = float64_of(x, "")
    except ValueError:
        return False
    return bool(value.ndim == 0 and np.isfinite(value))


def plain_number(x: object, name: str, what: str, unit: str = "") -> float:
    """Return a real number in a unit as a float, which may be infinite or NaN; `what` names it in the error.

    Raises
    ------
    ValueError
        If it is no real number.
    """
    value = float64_of(x, name, unit)
    if value.ndim:
        raise ValueError(f"{name} must be {what}, not {shown(x)}: give one number.")
    return float(value)


def given_sqrt_sx(names: Sequence[str], sqrt_sx: object) -> Sequence[float | None]:
    """Return the given noise floor of each detector, or None, from a number, a sequence or a mapping of detectors.

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
    elif (isinstance(sqrt_sx, Sequence) and not isinstance(sqrt_sx, (str, bytes))) or (
        hasattr(sqrt_sx, "__array__") and float64_of(sqrt_sx, "sqrt_sx", "Hz(-1/2)").ndim > 0
    ):
        values = list(sqrt_sx)  # type: ignore[call-overload]
        if len(values) != len(names):
            raise ValueError(f"sqrt_sx has {len(values)} values for {len(names)} detectors: give one for each.")
    else:
        values = [sqrt_sx] * len(names)
    values = [in_unit(value, "sqrt_sx", "Hz(-1/2)") for value in values]
    require_known(values, "sqrt_sx")
    try:
        floats = [float(value) for value in values]
    except Exception:  # whatever a foreign object raises
        raise ValueError(f"sqrt_sx must be a number, a sequence or a mapping, not {shown(sqrt_sx)}.") from None
    for name, value in zip(names, floats, strict=True):
        # its square and the inverse of that must be numbers too
        if not SQRT_SX[0] <= value <= SQRT_SX[1]:
            raise ValueError(
                f"sqrt_sx of {name} must be positive, within {SQRT_SX[0]:g} to {SQRT_SX[1]:g}, not {value}: give the "
                "noise floor in 1/sqrt(Hz)."
            )
    return floats
