"""Describe a transient signal's amplitude over time, from a start t0 on with a time scale tau."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jfstat.validation import DurationLike, NumberLike, as_float64, positive_number, precise, require, shown

if TYPE_CHECKING:
    from astropy.time import Time

Shape = str | Callable[[jax.Array], jax.Array]
"""Name of a shape in `SHAPES`, or a function of (t - t0)/tau."""
SHAPES = {"rectangular": 1.0, "exponential": 3.0}
"""Known shapes, and where they end in units of tau, as in LALSuite (TRANSIENT_EXP_EFOLDING)."""
SYNONYMS = {"rect": "rectangular", "exp": "exponential"}
"""LALSuite's names of shapes."""
MEAN_NODES = 6
"""Number of Gauss-Legendre nodes for the mean of a user's shape over an interval."""


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class TransientWindow:
    """The amplitude over time of a transient signal, relative to a persistent one.

    ``"rectangular"`` is 1 from t0 to t0 + tau; ``"exponential"`` is exp(-(t - t0)/tau) from t0 to t0 + 3 tau, and both
    are 0 at other times, as LALSuite's ``rect`` and ``exp``, whose names are understood too. `t0` and `tau` may carry
    leading batch axes, for vmap; they are broadcast against each other.

    Parameters
    ----------
    shape : str or callable
        A name, or a function of (t - t0)/tau for JAX arrays, which counts from 0 to `end`. Functions are compared by
        identity, so pass the same one again rather than a new lambda, or programs are compiled anew.
    t0 : float or Time
        Start, GPS s at the detectors.
    tau : float or Quantity
        Time scale, s, positive.
    end : float, optional
        Where a function ends, in units of tau; 1 by default.

    Raises
    ------
    TypeError
        If `shape` is neither a name nor a function.
    ValueError
        If an argument is out of range.

    Notes
    -----
    ``t0`` is a float64 GPS time, rounded to 1.2e-7 s.

    Examples
    --------
    >>> jfstat.TransientWindow('rectangular', t0=start + 3600, tau=7200).shape
    'rectangular'
    """

    t0: jax.Array
    tau: jax.Array
    shape: Shape
    end: float

    def __init__(self, shape: Shape, t0: NumberLike | Time, tau: DurationLike, *, end: float | None = None):
        shape, end = shape_and_end(shape, end)
        start = precise(getattr(t0, "gps", t0), "t0", "s")
        scale = as_float64(tau, "tau", "s")
        for name, x in (("t0", start), ("tau", scale)):
            require(x, name, np.isfinite, "finite", "give it in s")
        require(scale, "tau", lambda x: x > 0, "positive", "give it in s")
        try:
            common = np.broadcast_shapes(start.shape, scale.shape)
        except ValueError:
            raise ValueError(f"t0 and tau have shapes {start.shape} and {scale.shape} that do not fit.") from None
        start, scale = jnp.broadcast_to(start, common), jnp.broadcast_to(scale, common)
        for name, value in (("t0", start), ("tau", scale), ("shape", shape), ("end", end)):
            object.__setattr__(self, name, value)

    @property
    def t1(self) -> jax.Array:
        """Time at which the window ends, GPS s."""
        return self.t0 + self.end * self.tau

    def value(self, t: jax.Array, epoch: jax.Array | int = 0) -> jax.Array:
        """Return the window's values at times in s since `epoch`, same shape, float64."""
        x = (jnp.asarray(t, jnp.float64) - self._start(epoch)) / self.tau
        inside = (x >= 0) & (x < self.end)
        return jnp.where(inside, shape_value(self.shape, jnp.where(inside, x, 0.0)), 0.0)

    def mean(self, low: jax.Array, high: jax.Array, epoch: jax.Array | int = 0) -> jax.Array:
        """Return the window's means over intervals from `low` to `high`, s since `epoch`, same shape, float64.

        The mean is continuous in t0 and tau, with a kink where an end of the window crosses an end of the interval. It
        is 0 for intervals without length.
        """
        start = self._start(epoch)
        return window_mean(self.shape, self.end, (low - start) / self.tau, (high - start) / self.tau)

    def _start(self, epoch: jax.Array | int) -> jax.Array:
        return self.t0 - jnp.asarray(epoch).astype(jnp.float64)

    def __repr__(self) -> str:
        return f"TransientWindow({self.shape!r}, t0={self.t0}, tau={self.tau}, end={self.end:g})"


def _unflatten(static: tuple[Any, ...], leaves: Any) -> TransientWindow:
    window = object.__new__(TransientWindow)
    for name, value in zip(("shape", "end", "t0", "tau"), (*static, *leaves), strict=True):
        object.__setattr__(window, name, value)
    return window


jax.tree_util.register_pytree_with_keys(
    TransientWindow,
    lambda w: ([(jax.tree_util.GetAttrKey(n), getattr(w, n)) for n in ("t0", "tau")], (w.shape, w.end)),
    _unflatten,
    lambda w: ([w.t0, w.tau], (w.shape, w.end)),
)


def shape_and_end(shape: Any, end: object = None, name: str = "shape") -> tuple[Shape, float]:
    """Return a shape and where it ends, in units of tau, from a user's arguments.

    Raises
    ------
    TypeError
        If it is neither a name nor a function.
    ValueError
        If there is no such name, or `end` is given for a name or not positive.
    """
    if isinstance(shape, str):
        known = SYNONYMS.get(shape, shape)
        if known not in SHAPES:
            raise ValueError(f"{name} must be one of {', '.join(SHAPES)} or a function, not {shown(shape)}.")
        if end is not None:
            raise ValueError(
                f"end goes with a function, not with the {name} {known!r}, which has its own: leave it out."
            )
        return known, SHAPES[known]
    if not callable(shape) or isinstance(shape, type):
        raise TypeError(f"{name} must be one of {', '.join(SHAPES)} or a function, not {shown(shape)}.")
    known = cast("Shape", shape)
    return known, 1.0 if end is None else positive_number(end, "end", "where the window ends, in units of tau")


def end_of(shape: Shape, end: float) -> float | None:
    """Return the argument `end` for a window's shape: None for named shapes, which have an end of their own."""
    return None if isinstance(shape, str) else end


def shape_value(shape: Shape, x: jax.Array) -> jax.Array:
    """Return the values of a shape at x = (t - t0)/tau within the window."""
    if shape == "rectangular":
        return jnp.ones_like(x)
    if shape == "exponential":
        return jnp.exp(-x)
    value = jnp.asarray(shape(x), jnp.float64)  # type: ignore[operator]
    if value.shape != x.shape:
        raise ValueError(
            f"the function of the window returned an array of shape {value.shape} for one of {x.shape}: make it "
            "elementwise."
        )
    return value


def window_mean(shape: Shape, end: float, low: jax.Array, high: jax.Array) -> jax.Array:
    """Return the mean of a window over intervals from `low` to `high`, in tau since t0; 0 for empty intervals."""
    length = high - low
    there = length > 0
    length = jnp.where(there, length, 1.0)
    first = jnp.clip(low, 0.0, end)
    inside = jnp.clip(high, 0.0, end) - first
    if shape == "rectangular":
        total = inside
    elif shape == "exponential":
        total = -jnp.exp(-first) * jnp.expm1(-inside)
    else:
        x, weights = np.polynomial.legendre.leggauss(MEAN_NODES)
        at = first[..., None] + 0.5 * inside[..., None] * (1 + jnp.asarray(x))
        total = 0.5 * inside * (shape_value(shape, at) @ jnp.asarray(weights))
    return jnp.where(there, total / length, 0.0)
