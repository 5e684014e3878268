"""Describe a transient signal's amplitude over time, from a start t0 on with a time scale tau."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.display import Displayed, Facts, brief
from jfstat.maths.arrays import is_traced, with_axes
from jfstat.validation import LARGEST, DurationLike, NumberLike, as_float64, positive_number, precise, require, shown

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
TAPER_NODES = 7
"""Number of Gauss-Legendre nodes for each part of a tapered window: exact for the square of a taper, of degree 10."""
SHARPEST = 1e-6
"""Least width of a taper, s, of those that cannot be left out because they are traced or one of several."""


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class TransientWindow(Displayed):
    """The amplitude over time of a transient signal, relative to a persistent one.

    ``"rectangular"`` is 1 from t0 to t0 + tau; ``"exponential"`` is exp(-(t - t0)/tau) from t0 to t0 + 3 tau, and both
    are 0 at other times, as LALSuite's ``rect`` and ``exp``, whose names are understood too. With a `taper` the window
    rises smoothly around t0 and falls smoothly around its end, so that 2F is smooth in t0 and tau. `t0`, `tau` and
    `taper` may carry leading batch axes, for vmap; they are broadcast against each other.

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
    taper : float or Quantity, optional
        Time during which the window rises, and of which it falls, s: each is centred on its end of the window, where it
        has reached a half. At most as long as the window. 0, the default, is a sharp edge.

    Attributes
    ----------
    taper : float64 array or None
        None for sharp edges.

    Raises
    ------
    TypeError
        If `shape` is neither a name nor a function.
    ValueError
        If an argument is out of range.

    Notes
    -----
    ``t0`` is a float64 GPS time, rounded to 1.2e-7 s.

    A taper is the polynomial 10 u^3 - 15 u^4 + 6 u^5 in the fraction u of its time that has passed, whose first and
    second derivatives are 0 at both its ends: first and second derivatives of 2F in t0, tau and taper are continuous.
    The window's shape is multiplied by it: an exponential goes on beyond its ends, exp(-(t - t0)/tau) > 1 before t0,
    while a function keeps its values at 0 and at `end`, with kinks there unless it is flat.

    Examples
    --------
    >>> jfstat.TransientWindow('rectangular', t0=start + 3600, tau=7200).shape
    'rectangular'
    >>> smooth = jfstat.TransientWindow('rectangular', t0=start + 3600, tau=7200, taper=1800)
    >>> [round(float(smooth.value(start + 3600 + t)), 4) for t in (-900, -450, 0, 450, 900)]
    [0.0, 0.1035, 0.5, 0.8965, 1.0]
    """

    t0: jax.Array
    tau: jax.Array
    shape: Shape
    end: float
    taper: jax.Array | None

    def __init__(
        self,
        shape: Shape,
        t0: NumberLike | Time,
        tau: DurationLike,
        *,
        end: float | None = None,
        taper: DurationLike = 0.0,
    ):
        shape, end = shape_and_end(shape, end)
        start = precise(getattr(t0, "gps", t0), "t0", "s")
        scale = as_float64(tau, "tau", "s")
        for name, x in (("t0", start), ("tau", scale)):
            require(x, name, lambda x: abs(x) <= LARGEST, f"finite, of at most {LARGEST:g}", "give it in s")
        require(scale, "tau", lambda x: x > 0, "positive", "give it in s")
        width = _width(taper)
        try:
            common = np.broadcast_shapes(start.shape, scale.shape)
        except ValueError:
            raise ValueError(f"t0 and tau have shapes {start.shape} and {scale.shape} that do not fit.") from None
        if width is not None:
            try:
                common = np.broadcast_shapes(common, width.shape)
            except ValueError:
                raise ValueError(f"taper has shape {width.shape}, which does not fit {common} of t0 and tau.") from None
            width = jnp.broadcast_to(width, common)
        start, scale = jnp.broadcast_to(start, common), jnp.broadcast_to(scale, common)
        if width is not None and not is_traced(scale):
            longest = (1 + 1e-12) * end * np.asarray(scale).reshape(-1)
            wanted, hint = "at most as long as the window, end times tau, in s", "shorten it, or give a smooth shape"
            require(width.reshape(-1), "taper", lambda x: x <= longest, wanted, hint)
        for name, value in (("t0", start), ("tau", scale), ("shape", shape), ("end", end), ("taper", width)):
            object.__setattr__(self, name, value)

    @property
    def t1(self) -> jax.Array:
        """Time at which the window ends, GPS s; with a taper, at which it has fallen by half."""
        return self.t0 + self.end * self.tau

    @property
    def breaks(self) -> jax.Array:
        """Times between which the window is smooth, ascending, from its first to its last, GPS s, (n, ...) float64."""
        if self.taper is None:
            return jnp.stack([self.t0, self.t1])
        return self.t0 + self.tau * taper_breaks(self.shape, self.end, self.taper / self.tau)

    def value(self, t: jax.Array, epoch: jax.Array | int = 0) -> jax.Array:
        """Return the window's values at times in s since `epoch`, same shape, float64."""
        x = (jnp.asarray(t, jnp.float64) - self._start(epoch)) / self.tau
        if self.taper is not None:
            return tapered_value(self.shape, self.end, self.taper / self.tau, x)
        inside = (x >= 0) & (x < self.end)
        return jnp.where(inside, shape_value(self.shape, jnp.where(inside, x, 0.0)), 0.0)

    def mean(self, low: jax.Array, high: jax.Array, epoch: jax.Array | int = 0) -> jax.Array:
        """Return the window's means over intervals from `low` to `high`, s since `epoch`, same shape, float64.

        The mean is continuous in t0 and tau, with a kink where a sharp end of the window crosses an end of the
        interval. It is 0 for intervals without length.
        """
        start = self._start(epoch)
        first, last = (low - start) / self.tau, (high - start) / self.tau
        if self.taper is None:
            return window_mean(self.shape, self.end, first, last)
        return tapered_mean(self.shape, self.end, self.taper / self.tau, first, last)

    def _start(self, epoch: jax.Array | int) -> jax.Array:
        return self.t0 - jnp.asarray(epoch).astype(jnp.float64)

    def _facts(self) -> Facts:
        name = self.shape if isinstance(self.shape, str) else getattr(self.shape, "__name__", "own")
        rows = [("shape", name), ("t0", brief(self.t0, "s")), ("tau", brief(self.tau, "s")), ("end", brief(self.end))]
        rows += [] if self.taper is None else [("taper", brief(self.taper, "s"))]
        return Facts("TransientWindow", rows)


def _width(taper: DurationLike) -> jax.Array | None:
    """Return the width of tapers, s, or None for sharp edges; raise a ValueError if it is out of range."""
    if type(taper) in (int, float) and taper == 0:
        return None
    width = as_float64(taper, "taper", "s")
    hint = "give it in s, 0 for sharp edges"
    require(width, "taper", lambda x: (x >= 0) & (x <= LARGEST), f"from 0 to {LARGEST:g}", hint)
    if not is_traced(width):
        positive = np.asarray(width) > 0
        if not positive.any():
            return None
        if positive.all():
            return width
    return jnp.maximum(width, SHARPEST)


def _unflatten(static: tuple[Any, ...], leaves: Any) -> TransientWindow:
    window = object.__new__(TransientWindow)
    for name, value in zip(("shape", "end", "t0", "tau", "taper"), (*static, *leaves), strict=True):
        object.__setattr__(window, name, value)
    return window


jax.tree_util.register_pytree_with_keys(
    TransientWindow,
    lambda w: ([(jax.tree_util.GetAttrKey(n), getattr(w, n)) for n in ("t0", "tau", "taper")], (w.shape, w.end)),
    _unflatten,
    lambda w: ([w.t0, w.tau, w.taper], (w.shape, w.end)),
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
        at = first[..., None] + 0.5 * inside[..., None] * with_axes(1 + x, inside.ndim + 1)
        total = 0.5 * inside * (shape_value(shape, at) @ jnp.asarray(weights))
    return jnp.where(there, total / length, 0.0)


def taper_breaks(shape: Shape, end: float, width: jax.Array) -> jax.Array:
    """Return the times between which a tapered window is smooth, ascending, in tau since t0, (n, ...) float64.

    Parameters
    ----------
    shape, end
        See `TransientWindow`.
    width : float64 array
        Width of the tapers in units of tau.
    """
    half = 0.5 * width
    times = [-half, half, end - half, end + half]
    if callable(shape):
        times += [jnp.zeros_like(half), jnp.full_like(half, end)]
    return jnp.sort(jnp.stack(times), axis=0)


def tapered_value(shape: Shape, end: float, width: jax.Array, x: jax.Array) -> jax.Array:
    """Return the values of a tapered window at x = (t - t0)/tau, with the width of the tapers in units of tau.

    The factor of the tapers is the convolution of a rectangle with a smooth kernel, and thus never negative, even where
    an optimiser makes the window shorter than its tapers.
    """
    factor = _step(x / width) - _step((x - end) / width)
    inside = (x > -0.5 * width) & (x < end + 0.5 * width)
    at = jnp.where(inside, jnp.clip(x, 0.0, end) if callable(shape) else x, 0.0)
    return jnp.where(inside, shape_value(shape, at) * factor, 0.0)


def tapered_mean(shape: Shape, end: float, width: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Return the mean of a tapered window over intervals, as `window_mean`; the width is in units of tau."""
    length = high - low
    there = length > 0
    length = jnp.where(there, length, 1.0)
    if shape == "rectangular":
        upto_high, upto_low = (_step_integral(x / width) - _step_integral((x - end) / width) for x in (high, low))
        # beyond the window the difference is rounding, of which 2F would be made
        overlaps = there & (high > -0.5 * width) & (low < end + 0.5 * width)
        return jnp.where(overlaps, width * (upto_high - upto_low) / length, 0.0)
    x, weights = np.polynomial.legendre.leggauss(TAPER_NODES)
    breaks = taper_breaks(shape, end, width)
    total = jnp.zeros_like(length)
    for k in range(len(breaks) - 1):
        first = jnp.clip(low, breaks[k], breaks[k + 1])
        inside = jnp.clip(high, breaks[k], breaks[k + 1]) - first
        at = first[..., None] + 0.5 * inside[..., None] * with_axes(1 + x, inside.ndim + 1)
        value = tapered_value(shape, end, with_axes(jnp.asarray(width)[..., None], at.ndim), at)
        total = total + 0.5 * inside * jnp.sum(value * with_axes(weights, value.ndim), axis=-1)
    return jnp.where(there, total / length, 0.0)


def _step(u: jax.Array) -> jax.Array:
    """Return a step from 0 at u = -1/2 to 1 at u = 1/2, with two continuous derivatives."""
    v = jnp.clip(u + 0.5, 0.0, 1.0)
    return v**3 * (10 + v * (6 * v - 15))


def _step_integral(u: jax.Array) -> jax.Array:
    """Return the integral of `_step` from -1/2 to u."""
    v = jnp.clip(u + 0.5, 0.0, 1.0)
    return v**4 * (2.5 + v * (v - 3)) + jnp.maximum(u - 0.5, 0.0)
