"""Phases in pieces, for sources whose frequency falls too fast or too irregularly for one Taylor series."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.maths.arrays import any_traced, module_for
from jfstat.public import public
from jfstat.signal.parameters import unit
from jfstat.signal.phasemodel import PhaseModel
from jfstat.validation import as_float64, require

if TYPE_CHECKING:
    from jfstat.validation import NumberLike

NEAR = 1e-3
"""Value of y below which log(1 + y)/y is computed by a series."""
FIELDS = ("drift", "f1dot", "f2dot")
"""Names of the model's values at the knots: the frequency less the template's, and derivatives."""


@public
def piecewise_model(
    knots: NumberLike, drift: NumberLike, f1dot: NumberLike, f2dot: NumberLike | None = None
) -> PhaseModel:
    """Make a phase model whose frequency is a polynomial between knots, with given values and derivatives at the knots.

    It is the piecewise model of Grace, Wette, Scott & Sun 2023 (Phys. Rev. D 108, 123045) for young remnants of
    mergers and supernovae; LALSuite: lalpulsar.piecewise_model. A template with this model has ``fkdot=[freq]`` and no
    spin-down of its own: at time t its frequency is freq plus the model's.

    Parameters
    ----------
    knots : (K,) float
        Times of the K >= 2 knots, ascending, s since the template's reference time. Data should lie between the first
        and the last, apart from the light's travel time through the Solar System; beyond them the frequency is the
        Taylor series at the end.
    drift : (..., K) float
        Frequency at the knots less the template's, Hz.
    f1dot, f2dot : (..., K) float
        Derivatives of the frequency at the knots, Hz/s and Hz/s^2. Without `f2dot` the frequency is a cubic in each
        piece, with a continuous derivative; with it a polynomial of degree 5, with two.

    Returns
    -------
    PhaseModel
        Its parameters are called ``model.drift[0]``, ..., ``model.f1dot[0]``, ..., ``model.f2dot[0]``, ... and
        ``model.knots[0]``, ... in tables, in `metric`, `lattice_bank` and `refine`. The phase is 0 at the first knot.

    Raises
    ------
    ValueError
        If the knots are not ascending, or arrays do not fit each other.

    See Also
    --------
    remnant_bank : Banks for young remnants.
    braking_evolution : Values at the knots for a braking index.

    Examples
    --------
    >>> knots = jnp.linspace(0.0, 43200.0, 3)
    >>> freq, f1dot, f2dot = jfstat.braking_evolution(300.0, -1e-5, 5.0, knots)
    >>> model = jfstat.piecewise_model(knots, freq - 300.0, f1dot)
    >>> point = jfstat.Doppler(2.1, 0.47, [300.0], start, model=model)
    >>> bool(jnp.allclose(model.frequency(knots), freq - 300.0, atol=1e-12))
    True
    """
    values = {"drift": drift, "f1dot": f1dot} | ({} if f2dot is None else {"f2dot": f2dot})
    at = as_float64(knots, "knots", "s")
    if at.shape[-1:] < (2,) or (not any_traced(at) and not np.all(np.diff(at) > 0)):
        raise ValueError("knots must be two or more ascending times, in s: sort them and leave out equal ones.")
    require(at, "knots", np.isfinite, "finite", "give times")
    parameters, shape = {"knots": at}, at.shape
    for name, value in values.items():
        x = parameters[name] = as_float64(value, name, "Hz" if name == "drift" else unit(name))
        require(x, name, np.isfinite, "finite", "give numbers")
        if x.shape[-1:] != at.shape[-1:]:
            raise ValueError(f"{name} must have one value for each of the {at.shape[-1]} knots, not shape {x.shape}.")
        try:
            shape = jnp.broadcast_shapes(shape, x.shape)
        except ValueError:
            raise ValueError(
                f"{name} has the shape {x.shape}, which does not fit {shape} of those before it."
            ) from None
    return PhaseModel(piecewise_cycles, {name: jnp.broadcast_to(x, shape) for name, x in parameters.items()})


def piecewise_cycles(t: jax.Array, parameters: dict[str, jax.Array]) -> jax.Array:
    """Return the phase in cycles of `piecewise_model` at a time, () float64, s since the reference time."""
    knots = parameters["knots"]
    values = jnp.stack([parameters[name] for name in FIELDS if name in parameters], axis=-1)  # (K, s)
    s, length = values.shape[-1], jnp.diff(knots)[:, None]
    # values and derivatives at both ends of each piece, by a time that goes from 0 to 1 in it
    scale = length ** np.arange(s, dtype=float)[None]
    ends = jnp.concatenate([values[:-1] * scale, values[1:] * scale], axis=-1)
    phases = ends @ _hermite(s) * length / np.arange(1, 2 * s + 1, dtype=float)[None]  # coefficients of u, u^2, ...
    before = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.sum(phases, axis=-1))])
    inside = jnp.where(t < knots[0], knots[0], jnp.where(t > knots[-1], knots[-1], t))  # with a whole slope at the ends
    piece = jnp.sum(inside >= knots[1:-1])
    u = (inside - knots[piece]) / length[piece, 0]
    cycles = before[piece] + jnp.polyval(phases[piece, ::-1], u) * u
    beyond = t - inside
    end = jnp.where(t >= knots[-1], values[-1], values[0])
    return cycles + sum(end[k] * beyond ** (k + 1) / math.factorial(k + 1) for k in range(s))


@lru_cache(maxsize=8)
def _hermite(s: int) -> np.ndarray:
    """Return the matrix from values and s - 1 derivatives at 0, then at 1, to a polynomial's coefficients, (2s, 2s)."""
    rows = [[math.perm(m, k) * at ** max(m - k, 0) for m in range(2 * s)] for at in (0.0, 1.0) for k in range(s)]
    return np.linalg.inv(np.array(rows)).T


@public
def braking_evolution(
    freq: NumberLike, f1dot: NumberLike, braking_index: NumberLike, time: NumberLike
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the frequency and its first two derivatives for a constant braking index: d(freq)/dt = -k freq^n.

    LALSuite: lalpulsar.piecewise_model.gte_and_other_methods.gte, the general torque equation.

    Parameters
    ----------
    freq, f1dot : float
        Frequency, Hz, and its derivative, Hz/s, at time 0; of any shapes that broadcast, like the other arguments.
    braking_index : float
        n: 3 for a magnetic dipole, 5 for gravitational waves, 7 for r-modes; 1 is an exponential.
    time : float
        s. The result is not finite where the frequency had not begun to fall from infinity (n > 1, before time 0), or
        has reached 0 (n < 1).

    Returns
    -------
    freq, f1dot, f2dot : (...) float64
        Hz, Hz/s, Hz/s^2. The function is differentiable in all arguments.

    Raises
    ------
    ValueError
        If an argument is not numeric, or the shapes do not broadcast.

    Examples
    --------
    >>> freq, f1dot, f2dot = jfstat.braking_evolution(300.0, -1e-3, 5.0, 3600.0)
    >>> round(float(freq * f2dot / f1dot**2), 6)
    5.0
    """
    given = {
        "freq": as_float64(freq, "freq", "Hz"),
        "f1dot": as_float64(f1dot, "f1dot", "Hz / s"),
        "braking_index": as_float64(braking_index, "braking_index"),
        "time": as_float64(time, "time", "s"),
    }
    try:
        f0, slope, n, t = jnp.broadcast_arrays(*given.values())
    except ValueError:
        shapes = ", ".join(f"{x.shape} of {name}" for name, x in given.items())
        raise ValueError(f"the shapes of the arguments must broadcast, not {shapes}: make them equal.") from None
    drift, slope, second = evolved(f0, slope, n, t)
    return jnp.asarray(f0 + drift), jnp.asarray(slope), jnp.asarray(second)


def evolved(freq: Any, f1dot: Any, braking_index: Any, time: Any) -> tuple[Any, Any, Any]:
    """Return the change of frequency and its derivatives as in `braking_evolution`, of NumPy or JAX arrays."""
    xp = module_for(freq, f1dot, braking_index, time)
    x = -f1dot / freq * time
    y = (braking_index - 1) * x
    near = xp.abs(y) < NEAR
    safe = xp.where(near, 1.0, y)
    # minus the logarithm of the ratio of frequencies, log(1 + y) x/y
    log = x * xp.where(near, 1 - y / 2 + y**2 / 3 - y**3 / 4 + y**4 / 5, xp.log1p(safe) / safe)
    slope = f1dot * xp.exp(-braking_index * log)
    second = braking_index * f1dot**2 / freq * xp.exp(-(2 * braking_index - 1) * log)
    return freq * xp.expm1(-log), slope, second
