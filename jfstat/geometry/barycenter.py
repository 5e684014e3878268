"""Delay between a detector and the solar-system barycentre (SSB), and detector times from SSB times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from jfstat.geometry.trajectory import DEGREE, SEGMENT, State, Trajectory, at_pieces, horner_at_pieces
from jfstat.signal.constants import ASTRONOMICAL_UNIT, SPEED_OF_LIGHT

LIGHT_TIME = ASTRONOMICAL_UNIT / SPEED_OF_LIGHT
"""Light travel time of one astronomical unit, s."""
SUN_RADIUS = 2.322
"""Radius of the Sun, light-seconds, as in LALSuite."""
MAX_DELAY = 510.0
"""Largest delay between a detector and the SSB, s."""
SHAPIRO = 9.852e-6
"""Scale of the Shapiro delay, 2 G M_sun / c^3, s."""
SUN_DEGREE = 3
"""Degree of the polynomials for the Sun's position. Their error is 2e-10 light-seconds, or 4e-13 s of delay at the
Sun's limb."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Direction:
    """The direction to a source, which changes with its proper motion.

    Attributes
    ----------
    vector : (3,) float64
        Unit vector at the time `since`, equatorial J2000 axes.
    velocity : (3,) float64 or None
        Rate of change of the vector, 1/s; None without a proper motion.
    since : () float64
        Time at which `vector` holds, s since the epoch.
    """

    vector: jax.Array
    velocity: jax.Array | None
    since: jax.Array

    def along(self, position: jax.Array, t: jax.Array) -> jax.Array:
        """Return the component of positions, (..., 3), towards the source at times `t`, (...)."""
        fixed = position @ self.vector
        return fixed if self.velocity is None else fixed + (position @ self.velocity) * (t - self.since)


def shapiro_delay(along: jax.Array, distance2: jax.Array) -> jax.Array:
    """Return the Shapiro delay in s (XLALBarycenter), to be subtracted; shaped like the arguments.

    Parameters
    ----------
    along : (...) float64
        Component towards the source of the vector from the Sun to the Earth's centre, light-seconds.
    distance2 : (...) float64
        Square of the distance between Sun and Earth's centre, light-seconds^2.
    """
    impact2 = distance2 - along * along
    inside = (impact2 < SUN_RADIUS**2) & (along < 0)
    # both branches of each where() are finite everywhere, so that gradients have no NaN
    impact = jnp.where(impact2 > 0, jnp.sqrt(jnp.where(inside & (impact2 > 0), impact2, 1.0)), 0.0)
    path = along + jnp.sqrt(jnp.where(inside, SUN_RADIUS**2 + along * along, distance2))
    through = jnp.where(inside, 2 * SHAPIRO * (1.0 - impact / SUN_RADIUS), 0.0)
    return SHAPIRO * jnp.log(LIGHT_TIME / path) + through


def ssb_delay(state: State, t: jax.Array, direction: Direction) -> jax.Array:
    """Return SSB time minus detector time in s: Roemer + Einstein - Shapiro (XLALBarycenter), shaped like the state.

    `t` are the state's times, s since the epoch. The Shapiro delay, of 1e-4 s at most, needs no proper motion.
    """
    shapiro = shapiro_delay(state.sun @ direction.vector, jnp.sum(state.sun * state.sun, axis=-1))
    return direction.along(state.position, t) + state.einstein - shapiro


class _SkyDelay(NamedTuple):
    """The delay of `ssb_delay` along one direction, as polynomials in u over the pieces of a trajectory.

    It is computed once per template. Evaluating it needs fewer coefficients than the whole state.

    Attributes
    ----------
    geometric : (DEGREE + 1, n_segments) float64
        Roemer + Einstein delay, s.
    along, distance2 : (SUN_DEGREE + 1, n_segments) float64
        Arguments of `shapiro_delay`.
    """

    geometric: jax.Array
    along: jax.Array
    distance2: jax.Array

    def __call__(self, piece: jax.Array, u: jax.Array) -> jax.Array:
        """Return the delay in s at positions `u` within pieces, shaped like both."""
        along, distance2 = (horner_at_pieces(x, piece, u) for x in (self.along, self.distance2))
        return horner_at_pieces(self.geometric, piece, u) - shapiro_delay(along, distance2)

    def with_slope(self, piece: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the delay in s and its time derivative without the Shapiro delay's; shaped like both arguments."""
        # a separate polynomial for the slope, and stored tables: XLA's GPU code would recompute parts for each use
        powers = np.arange(1, DEGREE + 1)[:, None] * (2.0 / SEGMENT)
        tables = (self.geometric, self.geometric[1:] * powers, self.along, self.distance2)
        value, slope, *sun = jax.lax.optimization_barrier(tuple(horner_at_pieces(x, piece, u) for x in tables))
        return value - shapiro_delay(*sun), slope


def _sky_delay(trajectory: Trajectory, direction: Direction) -> _SkyDelay:
    """Project all pieces of a trajectory, (n_segments), on a direction."""
    c, n = trajectory.coefficients, direction.vector
    geometric = c[:, :, 0:3] @ n + c[:, :, 3]
    if direction.velocity is not None:  # times (t - since), which is linear in u; the highest power is negligible
        sideways = c[:, :, 0:3] @ direction.velocity
        centre = trajectory.start + SEGMENT * (jnp.arange(c.shape[1], dtype=jnp.float64) + 0.5) - direction.since
        geometric = geometric + sideways * centre
        geometric = geometric.at[1:].add(sideways[:-1] * (0.5 * SEGMENT))
    sun = c[: SUN_DEGREE + 1]
    return _SkyDelay(geometric, sun[:, :, 5:8] @ n, sun[:, :, 8])


def projected_ssb_delay(trajectory: Trajectory, t: jax.Array, direction: Direction) -> jax.Array:
    """Return `ssb_delay` at many times `t`, shaped like `t`, faster by projecting the trajectory first.

    The projection takes longer than the evaluation at some thousand times.
    """
    piece = trajectory.piece(t)
    return _sky_delay(trajectory, direction)(piece, trajectory.within(t, piece))


@jax.custom_jvp
def detector_clock(trajectory: Trajectory, t_ssb: jax.Array, direction: Direction) -> tuple[jax.Array, jax.Array]:
    """Return the detector times t that correspond to SSB times, and the rate dt/dt_ssb.

    The equation is solved by Newton's method. The delay's second derivative stays below 1.4e-10 1/s, so a step reduces
    an error x of the time to 7e-11 x^2 1/s. The first guess, from straight lines for the pieces, is good to 2e-3 s, and
    one step from there reaches the precision of float64; it leaves out the slope of the Shapiro delay, which is at most
    1e-9. The derivatives follow from the implicit function theorem, exact to all orders.

    Parameters
    ----------
    trajectory : Trajectory
    t_ssb : (...) float64
        SSB times, s since the epoch.
    direction : Direction
        Direction to the source.

    Returns
    -------
    t : (...) float64
        Detector times, s since the epoch.
    rate : (...) float64
        Accurate to 1e-12, apart from the slope of the Shapiro delay, which only its derivatives include.
    """
    table = _sky_delay(trajectory, direction)

    piece = trajectory.piece(t_ssb)
    value, slope = (at_pieces(x, piece) for x in table.geometric[:2])
    value = value + slope * trajectory.within(t_ssb, piece)
    t = t_ssb - value / (1.0 + slope * (2.0 / SEGMENT))

    piece = trajectory.piece(t)
    value, slope = table.with_slope(*jax.lax.optimization_barrier((piece, trajectory.within(t, piece))))
    rate = 1.0 / (1.0 + slope)
    return t_ssb - rate * (value + slope * (t_ssb - t)), rate  # t - (t + value - t_ssb) rate, but rounded once


@partial(detector_clock.defjvp, symbolic_zeros=True)
def _detector_clock_jvp(primals, tangents):
    """Return derivatives from t + delay(t, n) = t_ssb with `ssb_delay`.

    A projected table would need slow scatters in reverse mode, and so do derivatives with respect to the trajectory:
    they are computed only where they are asked for.
    """
    trajectory, t_ssb, direction = primals
    d_trajectory, d_ssb, d_direction = jax.tree.map(_instantiated, tangents)
    moved = any(not isinstance(x, SymbolicZero) for x in jax.tree.leaves(tangents[0]))
    t, rate = detector_clock(trajectory, t_ssb, direction)

    def delay_and_slope(t, direction, trajectory=trajectory):
        return jax.jvp(lambda t: ssb_delay(trajectory(t), t, direction), (t,), (jnp.ones_like(t),))

    (_, slope), (_, curvature) = jax.jvp(lambda t: delay_and_slope(t, direction), (t,), (jnp.ones_like(t),))
    if moved:
        both, d_both = (direction, trajectory), (d_direction, d_trajectory)
        _, (d_delay, d_slope) = jax.jvp(lambda *x: delay_and_slope(t, *x), both, d_both)
    else:
        _, (d_delay, d_slope) = jax.jvp(lambda x: delay_and_slope(t, x), (direction,), (d_direction,))
    own = 1.0 / (1.0 + slope)  # with the Shapiro delay, unlike `rate`, for which XLA's CPU code would solve twice
    d_t = (d_ssb - d_delay) * own
    return (t, rate), (d_t, -(d_slope + curvature * d_t) * own**2)


def _instantiated(tangent: Any) -> jax.Array:
    """Return a tangent as an array; all are float64."""
    return jnp.zeros(tangent.shape) if isinstance(tangent, SymbolicZero) else tangent
