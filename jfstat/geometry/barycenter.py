"""From a detector's state and a sky position to the delay between detector and SSB, and back."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from scipy.constants import astronomical_unit, speed_of_light

from jfstat.geometry.trajectory import SEGMENT, State, Trajectory, at_pieces, polynomial

ASTRONOMICAL_UNIT = astronomical_unit / speed_of_light
"""Light-seconds."""
SUN_RADIUS = 2.322
"""Light-seconds, as in LALSuite."""
DOPPLER = 1.06e-4
"""Largest speed of a detector relative to the SSB in units of c: 1.05 (2 pi AU/yr + Earth's rotation)/c."""
MAX_DELAY = 510.0
"""Largest delay between a detector and the SSB, s."""
SHAPIRO = 9.852e-6
"""2 G M_sun / c^3, s."""
SUN_DEGREE = 3
"""Of the pieces in the Sun's direction; they leave 2e-10 light-seconds, 4e-13 s of delay where the Sun's limb is."""


def sky_vector(alpha: jax.Array, delta: jax.Array) -> jax.Array:
    """Unit vector to the source, (..., 3), equatorial J2000 axes; `alpha`, `delta` in rad."""
    return jnp.stack([jnp.cos(alpha) * jnp.cos(delta), jnp.sin(alpha) * jnp.cos(delta), jnp.sin(delta)], axis=-1)


def shapiro_delay(along: jax.Array, distance2: jax.Array) -> jax.Array:
    """Shapiro delay in s (XLALBarycenter), to be subtracted; shaped like the arguments.

    Parameters
    ----------
    along : (...) float64
        Component towards the source of the vector from the Sun to the Earth's centre, light-seconds.
    distance2 : (...) float64
        Square of that vector's length.
    """
    impact2 = distance2 - along * along
    inside = (impact2 < SUN_RADIUS**2) & (along < 0)
    # both choices of each where() are finite everywhere, so that none passes a NaN into gradients
    impact = jnp.where(impact2 > 0, jnp.sqrt(jnp.where(inside & (impact2 > 0), impact2, 1.0)), 0.0)
    path = along + jnp.sqrt(jnp.where(inside, SUN_RADIUS**2 + along * along, distance2))
    through = jnp.where(inside, 2 * SHAPIRO * (1.0 - impact / SUN_RADIUS), 0.0)
    return SHAPIRO * jnp.log(ASTRONOMICAL_UNIT / path) + through


def ssb_delay(state: State, n: jax.Array) -> jax.Array:
    """SSB time minus detector time in s: Roemer + Einstein - Shapiro (XLALBarycenter), shaped like the state."""
    shapiro = shapiro_delay(state.sun @ n, jnp.sum(state.sun * state.sun, axis=-1))
    return state.position @ n + state.einstein - shapiro


class SkyDelay(NamedTuple):
    """`ssb_delay` along one direction, as polynomials in u over the pieces of a trajectory.

    Made once per template: every time then needs the coefficients of one column, not of all the state's.

    Attributes
    ----------
    geometric : (DEGREE + 1, ...) float64
        Roemer + Einstein delay, s.
    along, distance2 : (SUN_DEGREE + 1, ...) float64
        What `shapiro_delay` takes.
    """

    geometric: jax.Array
    along: jax.Array
    distance2: jax.Array

    def __call__(self, u: jax.Array) -> jax.Array:
        """Delay in s at places `u` in the pieces, shaped like a coefficient."""
        return polynomial(self.geometric, u) - shapiro_delay(polynomial(self.along, u), polynomial(self.distance2, u))


def sky_delay(trajectory: Trajectory, n: jax.Array) -> SkyDelay:
    """Project all pieces of a trajectory, (n_segments), on the direction `n`, (3,) float64."""
    c = trajectory.coefficients
    sun = c[: SUN_DEGREE + 1, :, 5:8]
    square = [sum(jnp.sum(sun[i] * sun[k - i], axis=-1) for i in range(k + 1)) for k in range(SUN_DEGREE + 1)]
    return SkyDelay(c[:, :, 0:3] @ n + c[:, :, 3], sun @ n, jnp.stack(square))


@jax.custom_jvp
def detector_clock(trajectory: Trajectory, t_ssb: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Detector times t that belong to SSB times, and the rate dt/dt_ssb at which they pass.

    Newton's method: as the delay's second derivative stays below 1.4e-10 1/s, a step leaves 7e-11 x^2 1/s of a time
    that is wrong by x. Straight lines for the pieces give the time to 2e-3 s, hence one step from there all that
    float64 holds. The derivatives, in `t_ssb` and `n`, are those of the implicit function, exact to all orders; the
    trajectory is taken as constant.

    Parameters
    ----------
    trajectory : Trajectory
    t_ssb : (...) float64
        s since the trajectory's epoch.
    n : (3,) float64
        Unit vector to the source.

    Returns
    -------
    t : (...) float64
        s since the trajectory's epoch.
    rate : (...) float64
        To 1e-12.
    """
    table = sky_delay(trajectory, n)

    piece = trajectory.piece(t_ssb)
    value, slope = at_pieces(table.geometric[:2], piece)
    value = value + slope * trajectory.within(t_ssb, piece)
    t = t_ssb - value / (1.0 + slope * (2.0 / SEGMENT))

    piece = trajectory.piece(t)
    delay = jax.tree.map(lambda c: at_pieces(c, piece), table)
    value, slope = jax.jvp(lambda t: delay(trajectory.within(t, piece)), (t,), (jnp.ones_like(t),))
    rate = 1.0 / (1.0 + slope)
    return t_ssb - rate * (value + slope * (t_ssb - t)), rate  # t - (t + value - t_ssb) rate, but rounded once


@detector_clock.defjvp
def _detector_clock_jvp(primals, tangents):
    """From t + delay(t, n) = t_ssb and `ssb_delay` itself: backwards, a projected table would end in slow scatters."""
    trajectory, t_ssb, n = primals
    _, d_ssb, d_n = tangents
    t, rate = detector_clock(trajectory, t_ssb, n)

    def delay_and_slope(t, n):
        return jax.jvp(lambda t: ssb_delay(trajectory(t), n), (t,), (jnp.ones_like(t),))

    (_, slope), (_, curvature) = jax.jvp(lambda t: delay_and_slope(t, n), (t,), (jnp.ones_like(t),))
    _, (d_delay, d_slope) = jax.jvp(lambda n: delay_and_slope(t, n), (n,), (d_n,))
    own = 1.0 / (1.0 + slope)  # the rate again: with `rate` here, XLA's CPU code would solve for it once more
    d_t = (d_ssb - d_delay) * own
    return (t, rate), (d_t, -(d_slope + curvature * d_t) * own**2)


def detector_time(trajectory: Trajectory, t_ssb: jax.Array, n: jax.Array) -> jax.Array:
    """Detector times that belong to SSB times, both in s since the trajectory's epoch; see `detector_clock`."""
    return detector_clock(trajectory, t_ssb, n)[0]
