"""Hold GPS times exact to the nanosecond as leaves of pytrees, so that they can be traced and stacked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Union

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.display import Displayed, Facts, is_known
from jfstat.maths.arrays import any_traced, is_traced, module_for, on_device
from jfstat.signal.showing import decimal, time_text
from jfstat.validation import (
    LARGEST,
    NumberLike,
    as_float64,
    float64_of,
    in_unit,
    precise,
    refuse_rounded,
    require_x64,
    shown,
)

if TYPE_CHECKING:
    from astropy.time import Time

BILLION = 10**9
LATEST = int(LARGEST)
"""Largest magnitude of a GPS time, s."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class GPSTime(Displayed):
    """A GPS time as whole seconds and nanoseconds, exact like LALSuite's LIGOTimeGPS.

    Attributes
    ----------
    seconds, nanoseconds : (...) float64
        Whole numbers, 0 <= nanoseconds < 1e9. They are float64, which is exact for whole numbers up to 9e15, because
        `jax.grad` refuses integer leaves. Derivatives with respect to them are zero.

    Examples
    --------
    >>> int(point.reftime)
    1167458304
    >>> point.reftime + 0.123456789
    GPSTime(1167458304.123456789)
    """

    seconds: jax.Array
    nanoseconds: jax.Array

    def since(self, epoch: jax.Array | int) -> jax.Array:
        """Return seconds since a whole GPS second, (...) float64; the whole seconds are subtracted exactly."""
        require_x64()
        xp = module_for(self.seconds, self.nanoseconds, epoch)
        epoch = xp.asarray(epoch, xp.int64).astype(xp.float64)
        seconds, nanoseconds = xp.asarray(self.seconds), xp.asarray(self.nanoseconds)
        if xp is jnp:
            seconds, nanoseconds = jax.lax.stop_gradient((seconds, nanoseconds))
        return on_device((seconds - epoch) + 1e-9 * nanoseconds)

    @property
    def concrete(self) -> bool:
        """Whether the values are known, not traced."""
        return not any_traced(self.seconds, self.nanoseconds)

    @property
    def common(self) -> GPSTime:
        """Time that all templates of a stack have, as a scalar.

        Raises
        ------
        ValueError
            If they differ, since a table has one reference time, or there are no templates.
        """
        if not np.size(self.seconds):
            raise ValueError("reftime is of an empty stack: give at least one template.")
        whole, rest = np.unique(np.asarray(self.seconds)), np.unique(np.asarray(self.nanoseconds))
        if len(whole) != 1 or len(rest) != 1:
            raise ValueError("reftime differs between templates of one stack: give all of them one reference time.")
        return GPSTime(on_device(whole[0]), on_device(rest[0]))

    @property
    def plain(self) -> int | float:
        """The `common` time as a number: an int for a whole second, otherwise a float (right to 1.2e-7 s)."""
        time = self.common
        whole, rest = float(time.seconds), float(time.nanoseconds)
        return int(whole) if rest == 0 else whole + 1e-9 * rest

    def __int__(self) -> int:
        return int(self.plain)

    def __float__(self) -> float:
        return float(self.plain)

    def __eq__(self, other: object) -> bool:
        try:
            with jax.enable_x64(True):
                other = gps_time(other, "other")  # type: ignore[arg-type]
        except ValueError:
            return NotImplemented
        pairs = ((self.seconds, other.seconds), (self.nanoseconds, other.nanoseconds))
        try:
            return all(bool(np.all(np.asarray(x) == np.asarray(y))) for x, y in pairs)
        except ValueError:  # of stacks of different length
            return False

    __hash__ = None  # type: ignore[assignment]

    __array_ufunc__ = None  # so that NumPy numbers use the operators below

    def __sub__(self, other: TimeLike) -> jax.Array:
        """Return the difference from another GPS time, s."""
        leaves = jax.tree.leaves(jax.lax.stop_gradient((self, gps_time(other, "other"))))
        xp = module_for(*leaves)
        seconds, nanoseconds, others, rest = (xp.asarray(x) for x in leaves)
        return on_device((seconds - others) + 1e-9 * (nanoseconds - rest))

    def __rsub__(self, other: TimeLike) -> jax.Array:
        return -(self - other)

    def __add__(self, seconds: float) -> GPSTime:
        """Return the time a number of seconds later."""
        if getattr(seconds, "dtype", None) == jnp.float32:  # enough digits for a difference
            seconds = as_float64(seconds, "seconds", "s")  # type: ignore[assignment]
        leaves = jax.tree.leaves((self, gps_time(seconds, "seconds")))
        xp = module_for(*leaves)
        whole, rest, more, fraction = (xp.asarray(x) for x in leaves)
        return _carried(whole + more, rest + fraction)

    __radd__ = __add__

    def __str__(self) -> str:
        """Return the time as a decimal number with all its digits, if it is one known time."""
        known = is_known(self.seconds, self.nanoseconds) and not np.ndim(self.seconds)
        return decimal(self.seconds, self.nanoseconds) if known else repr(self)

    def _facts(self) -> Facts:
        return Facts(f"GPSTime({time_text(self).removeprefix('GPS ')})", [])


TimeLike = Union[NumberLike, str, "Time", GPSTime]
"""A GPS time in s, or an astropy Time: see `gps_time`."""


def gps_time(x: TimeLike, name: str) -> GPSTime:
    """Return a GPS time from a number, an array of numbers, a decimal string, an astropy Time or a GPSTime.

    Times are rounded to the nearest nanosecond. A single float64 has a resolution of only 1.2e-7 s; strings and Times,
    which are two float64, are exact. A Time in TDB is taken as time at the solar-system barycentre.

    Raises
    ------
    ValueError
        If it is not a finite time, or 64-bit mode is off.
    """
    require_x64()
    if isinstance(x, GPSTime):
        return GPSTime(precise(x.seconds, name, "s"), as_float64(x.nanoseconds, name))
    if isinstance(x, str):
        return _from_text(x, name)
    ligo: Any = x
    if hasattr(ligo, "gpsNanoSeconds"):  # LALSuite's LIGOTimeGPS
        return GPSTime(as_float64(ligo.gpsSeconds, name), as_float64(ligo.gpsNanoSeconds, name))
    if hasattr(x, "gps"):  # an astropy Time, whose two parts together are exact to the nanosecond
        return _split(*_time_parts(x))
    x = in_unit(x, name, "s")
    refuse_rounded(x, name)  # to up to a minute
    if is_traced(x):
        whole = jnp.floor(x.astype(jnp.float64))
        return _carried(whole, jnp.round((x.astype(jnp.float64) - whole) * BILLION))
    try:
        values = np.asarray(x)
        if values.dtype.kind not in "iu":
            values = float64_of(x, name)
    except Exception as error:  # whatever a foreign object raises
        raise ValueError(
            f"{name} must be a GPS time in s, not {shown(x)}: give a number or an astropy Time."
        ) from error
    whole = np.floor(values)
    if not values.size or not np.isfinite(whole).all() or np.any(np.abs(whole.astype(np.float64)) > LATEST):
        raise ValueError(f"{name} must be a GPS time in s, not {shown(x)}: give a finite number.")
    return _split(whole, values - whole)


def _split(whole: np.ndarray, rest: np.ndarray) -> GPSTime:
    return _carried(np.asarray(whole, np.float64), np.round(np.asarray(rest, np.float64) * BILLION))


def _carried(seconds: jax.Array | np.ndarray, nanoseconds: jax.Array | np.ndarray) -> GPSTime:
    """Return the time with whole seconds carried over from the nanoseconds."""
    carry = module_for(nanoseconds).floor(nanoseconds / BILLION)
    return GPSTime(on_device(seconds + carry), on_device(nanoseconds - carry * BILLION))


def _time_parts(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return whole GPS seconds and the rest of an astropy Time, each (...) float64.

    Epochs of pulsars are in TDB, time at the solar-system barycentre (SSB). A GPS time in the SSB is TDB too, less the
    constant between TT and GPS, as in LALSuite. So TDB is read as TT, which astropy sets apart by up to 1.7 ms.
    """
    if x.scale in ("tdb", "tcb"):
        x = type(x)(x.tdb.jd1, x.tdb.jd2, format="jd", scale="tt")
    zero = type(x)(0, format="gps")
    days = x.tai - zero.tai  # a TimeDelta: days in two float64
    whole = np.floor(days.jd1 * 86400.0)
    rest = (days.jd1 * 86400.0 - whole) + days.jd2 * 86400.0
    carry = np.floor(rest)
    return whole + carry, rest - carry


def _from_text(text: str, name: str) -> GPSTime:
    whole, _, rest = text.strip().partition(".")
    sign = whole.startswith("-")
    digits = whole.isascii() and whole.isdigit() and len(whole) <= len(str(LATEST))
    if not digits or (rest and not (rest.isascii() and rest.isdigit())) or sign:
        raise ValueError(f"{name} must be a GPS time in s, not {shown(text)}: write seconds as a decimal number.")
    return _split(np.asarray(int(whole)), np.asarray(int(rest[:9].ljust(9, "0")) / BILLION if rest else 0.0))
