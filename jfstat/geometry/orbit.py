"""The delay of a signal across a binary orbit, and the orbit's speed and angular rate."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jfstat.maths.arrays import module_for, on_device
from jfstat.maths.kepler import kepler, kepler_in_steps
from jfstat.signal.templates import Orbit


def _amplitudes(orbit: Orbit) -> tuple[jax.Array, jax.Array]:
    """Return the amplitudes of (cos E - e) and sin E in the Roemer delay of the orbit, s."""
    return (
        orbit.asini * jnp.sin(orbit.argp),
        orbit.asini * jnp.cos(orbit.argp) * jnp.sqrt((1 - orbit.ecc) * (1 + orbit.ecc)),
    )


def orbit_delay(orbit: Orbit, t_emission: jax.Array) -> jax.Array:
    """Return SSB time minus time of emission in s, at times of emission.

    R = asini [sin(argp) (cos E - ecc) + cos(argp) sqrt(1 - ecc^2) sin E] (lalpulsar/lib/SSBtimes.c).

    Parameters
    ----------
    orbit : Orbit
        One orbit with scalar fields; its ``tp`` must be on the same clock as the times.
    t_emission : (...) float64
    """
    return orbit_delay_and_slope(orbit, t_emission)[0]


def orbit_delay_and_slope(orbit: Orbit, t_emission: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return `orbit_delay` and its derivative with respect to the time of emission."""
    p, q = _amplitudes(orbit)
    zero, rate = jnp.zeros_like(p), 2 * jnp.pi / orbit.period
    anomaly = kepler(rate * (t_emission - orbit.tp), orbit.ecc, zero, zero)
    sin, cos = jnp.sin(anomaly), jnp.cos(anomaly)
    return p * (cos - orbit.ecc) + q * sin, (q * cos - p * sin) * (rate / (1 - orbit.ecc * cos))


def orbit_delay_at_arrival(orbit: Orbit, t_ssb: jax.Array) -> jax.Array:
    """Return SSB time minus time of emission in s, at SSB times; see `orbit_delay` for the arguments."""
    p, q = _amplitudes(orbit)
    rate = 2 * jnp.pi / orbit.period
    anomaly = kepler(rate * (t_ssb - orbit.tp), orbit.ecc, rate * p, rate * q)
    return p * (jnp.cos(anomaly) - orbit.ecc) + q * jnp.sin(anomaly)


def orbit_delay_and_slope_at_arrival(orbit: Orbit, t_ssb: jax.Array, steps: int) -> tuple[jax.Array, jax.Array]:
    """Return `orbit_delay_at_arrival` and its derivative, for many SSB times; see `kepler_in_steps` for `steps`."""
    p, q = _amplitudes(orbit)
    rate = 2 * jnp.pi / orbit.period
    cos, sin = kepler_in_steps((t_ssb - orbit.tp) * (1 / orbit.period), orbit.ecc, rate * p, rate * q, steps)
    change = q * cos - p * sin
    return p * (cos - orbit.ecc) + q * sin, change * rate / (1 - orbit.ecc * cos + rate * change)


def emission_time(orbit: Orbit, t_ssb: jax.Array) -> jax.Array:
    """Return the times of emission that correspond to SSB times, on the same clock and of the same shape."""
    return t_ssb - orbit_delay_at_arrival(orbit, t_ssb)


def orbit_speed(orbit: Orbit) -> jax.Array:
    """Return the largest line-of-sight speed, at periapsis, over c: mean motion * asini * sqrt((1 + ecc)/(1 - ecc))."""
    xp, (asini, period, ecc) = _known(orbit.asini, orbit.period, orbit.ecc)
    return on_device(2 * np.pi / period * asini * xp.sqrt((1 + ecc) / (1 - ecc)))


def periapsis_rate(orbit: Orbit) -> jax.Array:
    """Return the angular rate of the orbit at periapsis, rad/s: mean motion * sqrt(1 + ecc) / (1 - ecc)^1.5."""
    xp, (period, ecc) = _known(orbit.period, orbit.ecc)
    return on_device(2 * np.pi / period * xp.sqrt(1 + ecc) / (1 - ecc) ** 1.5)


def _known(*fields: ArrayLike) -> tuple[ModuleType, list[Any]]:
    """Return the module to compute with, see `module_for`, and the fields as arrays of this module."""
    xp = module_for(*fields)
    return xp, [xp.asarray(x) for x in fields]


def _fourth_derivative(orbit: Orbit) -> jax.Array:
    """Return a bound on the fourth derivative of the orbit's delay, 1/s^3.

    The bound is 1.13 times the speed at periapsis times the cube of the angular rate there. The factor covers
    eccentricities from 0 to 0.9 and was found numerically.
    """
    _, (speed, rate) = _known(orbit_speed(orbit), periapsis_rate(orbit))
    return on_device(1.13 * speed * rate**3)


def cubic_error(orbit: Orbit, f: ArrayLike, seconds: ArrayLike) -> jax.Array:
    """Return the largest phase error, in cycles, of a cubic through the Chebyshev nodes of a block of `seconds`."""
    _, (fourth, f, seconds) = _known(_fourth_derivative(orbit), f, seconds)
    return on_device(fourth * f * (0.5 * seconds) ** 4 / 192)


def cubic_length(orbit: Orbit, f: ArrayLike, cycles: float) -> jax.Array:
    """Return the longest block, in s, in which a cubic has at most a phase error of `cycles`.

    This is the inverse of `cubic_error`.
    """
    _, (fourth, f) = _known(_fourth_derivative(orbit), f)
    with np.errstate(divide="ignore"):  # infinite for an orbit without size
        return on_device(2 * (192 * cycles / (fourth * f)) ** 0.25)
