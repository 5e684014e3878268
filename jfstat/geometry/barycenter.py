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
    """A trajectory as seen along one direction: polynomials over its pieces, the power in front.

    Made once per template, it spares every time the projection, and the gather of all the columns of a state.

    Attributes
    ----------
    geometric : (DEGREE + 1, n_segments) float64
        Roemer + Einstein, s.
    along, distance2 : (SUN_DEGREE + 1, n_segments) float64
        What `shapiro_delay` takes.
    """

    geometric: jax.Array
    along: jax.Array
    distance2: jax.Array


def sky_delay(trajectory: Trajectory, n: jax.Array) -> SkyDelay:
    """Project the trajectory's polynomials on the direction `n`, (3,) float64."""
    c = trajectory.coefficients
    sun = c[: SUN_DEGREE + 1, :, 5:8]
    square = [sum(jnp.sum(sun[i] * sun[k - i], axis=-1) for i in range(k + 1)) for k in range(SUN_DEGREE + 1)]
    return SkyDelay(c[:, :, 0:3] @ n + c[:, :, 3], sun @ n, jnp.stack(square))


@jax.custom_jvp
def detector_clock(trajectory: Trajectory, t_ssb: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Detector times that belong to SSB times, and the rate at which they pass.

    By Newton's method: as the delay's second derivative stays below 1.5e-10 1/s, a step from a time that is wrong by x
    leaves 8e-11 x^2 1/s. Straight lines for the pieces give the time to 4e-3 s, and one step from there all that
    float64 holds. The derivatives are those of the implicit function, exact to all orders.

    Parameters
    ----------
    trajectory : Trajectory
    t_ssb : (...) float64
        s since the trajectory's epoch.
    n : (3,) float64
        Unit vector to the source.

    Returns
    -------
    t, rate : (...) float64
        s since the trajectory's epoch, and dt/dt_ssb to 1e-12.
    """
    sky = sky_delay(trajectory, n)

    piece = trajectory.piece(t_ssb)
    delay, slope = at_pieces(sky.geometric[:2], piece)
    delay = delay + slope * trajectory.within(t_ssb, piece)
    t = t_ssb - delay / (1.0 + slope * (2.0 / SEGMENT))

    piece = trajectory.piece(t)
    geometric, along, distance2 = (at_pieces(c, piece) for c in sky)

    def delay_at(t: jax.Array) -> jax.Array:
        u = trajectory.within(t, piece)
        return polynomial(geometric, u) - shapiro_delay(polynomial(along, u), polynomial(distance2, u))

    delay, slope = jax.jvp(delay_at, (t,), (jnp.ones_like(t),))
    rate = 1.0 / (1.0 + slope)
    # t - (t + delay - t_ssb) rate, rounded once only
    return t_ssb - rate * (delay + slope * (t_ssb - t)), rate


@detector_clock.defjvp
def _detector_clock_jvp(primals, tangents):
    """From `ssb_delay` itself: t + delay(t) = t_ssb."""
    trajectory, t_ssb, n = primals
    d_trajectory, d_ssb, d_n = tangents
    t, rate = detector_clock(trajectory, t_ssb, n)

    def slope_and_delay(trajectory, t, n):
        delay, slope = jax.jvp(lambda t: ssb_delay(trajectory(t), n), (t,), (jnp.ones_like(t),))
        return slope, delay

    def slope_at(trajectory, t, n):
        return slope_and_delay(trajectory, t, n)[0]

    (slope, _), (_, change) = jax.jvp(slope_and_delay, (trajectory, t, n), (d_trajectory, jnp.zeros_like(t), d_n))
    d_t = (d_ssb - change) / (1.0 + slope)
    _, bend = jax.jvp(slope_at, (trajectory, t, n), (d_trajectory, d_t, d_n))
    return (t, rate), (d_t, -bend / (1.0 + slope) ** 2)


def detector_time(trajectory: Trajectory, t_ssb: jax.Array, n: jax.Array) -> jax.Array:
    """Detector times that belong to SSB times, both in s since the trajectory's epoch; see `detector_clock`."""
    return detector_clock(trajectory, t_ssb, n)[0]
