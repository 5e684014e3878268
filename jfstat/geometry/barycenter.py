"""From a detector's state and a sky position to the delay between detector and SSB, and back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from scipy.constants import astronomical_unit, speed_of_light

from jfstat.geometry.trajectory import State, Trajectory

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


def sky_vector(alpha: jax.Array, delta: jax.Array) -> jax.Array:
    """Unit vector to the source, (..., 3), equatorial J2000 axes; `alpha`, `delta` in rad."""
    return jnp.stack([jnp.cos(alpha) * jnp.cos(delta), jnp.sin(alpha) * jnp.cos(delta), jnp.sin(delta)], axis=-1)


def shapiro_delay(sun: jax.Array, n: jax.Array) -> jax.Array:
    """Shapiro delay in s (XLALBarycenter), to be subtracted.

    Parameters
    ----------
    sun : (..., 3) float64
        From the Sun to the Earth's centre, light-seconds.
    n : (3,) float64
        Unit vector to the source.
    """
    along = sun @ n
    distance2 = jnp.sum(sun * sun, axis=-1)
    impact2 = distance2 - along * along
    inside = (impact2 < SUN_RADIUS**2) & (along < 0)
    # both branches are finite everywhere, so that where() passes no NaN into gradients
    impact = jnp.where(impact2 > 0, jnp.sqrt(jnp.where(inside & (impact2 > 0), impact2, 1.0)), 0.0)
    graze = along + jnp.sqrt(jnp.where(inside, SUN_RADIUS**2 + along * along, along * along + 1.0))
    through = SHAPIRO * jnp.log(ASTRONOMICAL_UNIT / graze) + 2 * SHAPIRO * (1.0 - impact / SUN_RADIUS)
    around = SHAPIRO * jnp.log(ASTRONOMICAL_UNIT / jnp.where(inside, 1.0, jnp.sqrt(distance2) + along))
    return jnp.where(inside, through, around)


def ssb_delay(state: State, n: jax.Array) -> jax.Array:
    """SSB time minus detector time in s: Roemer + Einstein - Shapiro (XLALBarycenter), shaped like the state."""
    return state.position @ n + state.einstein - shapiro_delay(state.sun, n)


def detector_time(trajectory: Trajectory, t_ssb: jax.Array, n: jax.Array) -> jax.Array:
    """Detector times that belong to SSB times; both in s since the trajectory's epoch, any shape, float64.

    Newton's method with slope 1: the delay's own slope is 1e-4, so that each step gains four digits. Then two steps
    carry the derivatives, which makes the result right to second order in autodiff.
    """

    def delay(t: jax.Array) -> jax.Array:
        return ssb_delay(trajectory(t), n)

    t = jax.lax.stop_gradient(t_ssb)
    for _ in range(4):
        t = jax.lax.stop_gradient(t_ssb - delay(t))
    _, slope = jax.jvp(delay, (t,), (jnp.ones_like(t),))
    slope = jax.lax.stop_gradient(slope)
    for _ in range(2):
        t = t - (t + delay(t) - t_ssb) / (1.0 + slope)
    return t
