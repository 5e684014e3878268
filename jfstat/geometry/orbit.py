"""Kepler's equation and the delay across a binary orbit; mathematics first, physics after."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jfstat.templates import Orbit

STEPS = 5
"""Each step of `kepler` multiplies the digits by four, near the solution; five do up to an eccentricity of 0.99."""


@jax.custom_jvp
def kepler(phase: jax.Array, ecc: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """Solve ``E - ecc sin E + p (cos E - ecc) + q sin E = phase`` for E, elementwise, float64.

    With p = q = 0 this is Kepler's equation at the time of emission; with p and q the mean motion times the delay's
    two amplitudes, `phase` may be taken at the time of arrival (lalpulsar/lib/SSBtimes.c). The derivative is that of
    the implicit function, exact to all orders.
    """
    turns = jnp.floor(phase / (2 * jnp.pi) + 0.5)
    phase = phase - 2 * jnp.pi * turns  # so that the start below is near
    anomaly = phase + 0.85 * ecc * jnp.sign(jnp.sin(phase))  # Danby (1987)

    # Danby's method: Newton's, with the second and third derivatives as well; sines and cosines are what a step costs
    for _ in range(STEPS):
        sin, cos = jnp.sin(anomaly), jnp.cos(anomaly)
        residual = anomaly - ecc * sin + p * (cos - ecc) + q * sin - phase
        slope = 1 - ecc * cos - p * sin + q * cos
        bend = ecc * sin - p * cos - q * sin
        change = -residual / slope
        change = -residual / (slope + change * bend / 2)
        change = -residual / (slope + change * (bend / 2 + change * (1 - slope) / 6))
        anomaly = anomaly + change
    return anomaly + 2 * jnp.pi * turns


@kepler.defjvp
def _kepler_jvp(primals, tangents):
    phase, ecc, p, q = primals
    d_phase, d_ecc, d_p, d_q = tangents
    anomaly = kepler(phase, ecc, p, q)
    sin, cos = jnp.sin(anomaly), jnp.cos(anomaly)
    change = d_phase + (sin + p) * d_ecc - (cos - ecc) * d_p - sin * d_q
    return anomaly, change / (1 - ecc * cos - p * sin + q * cos)


def _amplitudes(orbit: Orbit) -> tuple[jax.Array, jax.Array]:
    """Amplitudes of (cos E - e) and sin E in the Roemer delay of the orbit, s."""
    return (
        orbit.asini * jnp.sin(orbit.argp),
        orbit.asini * jnp.cos(orbit.argp) * jnp.sqrt((1 - orbit.ecc) * (1 + orbit.ecc)),
    )


def orbit_delay(orbit: Orbit, t_emission: jax.Array, t_periapsis: jax.Array) -> jax.Array:
    """SSB time minus time of emission in s, at times of emission.

    R = asini [sin(argp) (cos E - ecc) + cos(argp) sqrt(1 - ecc^2) sin E] (lalpulsar/lib/SSBtimes.c).

    Parameters
    ----------
    orbit : Orbit
        One orbit, scalars.
    t_emission : (...) float64
    t_periapsis : () float64
        `orbit.tp` on the same clock as `t_emission`, s.
    """
    p, q = _amplitudes(orbit)
    zero = jnp.zeros_like(p)
    anomaly = kepler(2 * jnp.pi * (t_emission - t_periapsis) / orbit.period, orbit.ecc, zero, zero)
    return p * (jnp.cos(anomaly) - orbit.ecc) + q * jnp.sin(anomaly)


def orbit_delay_at_arrival(orbit: Orbit, t_ssb: jax.Array, t_periapsis: jax.Array) -> jax.Array:
    """SSB time minus time of emission in s, at SSB times; arguments as for `orbit_delay`."""
    p, q = _amplitudes(orbit)
    rate = 2 * jnp.pi / orbit.period
    anomaly = kepler(rate * (t_ssb - t_periapsis), orbit.ecc, rate * p, rate * q)
    return p * (jnp.cos(anomaly) - orbit.ecc) + q * jnp.sin(anomaly)


def emission_time(orbit: Orbit, t_ssb: jax.Array, t_periapsis: jax.Array) -> jax.Array:
    """Times of emission that belong to SSB times, same clock and shape."""
    return t_ssb - orbit_delay_at_arrival(orbit, t_ssb, t_periapsis)


def orbit_speed(orbit: Orbit) -> jax.Array:
    """Largest line-of-sight speed over c: at periapsis, mean motion * asini * sqrt((1 + ecc)/(1 - ecc))."""
    return 2 * jnp.pi / orbit.period * orbit.asini * jnp.sqrt((1 + orbit.ecc) / (1 - orbit.ecc))


def _bend(orbit: Orbit) -> jax.Array:
    """Bound on the fourth derivative of the orbit's delay, 1/s^3.

    The speed at periapsis times the cube of the angular rate there, times 1.13, which bounds what an eccentricity from
    0 to 0.9 adds (found numerically).
    """
    rate = 2 * jnp.pi / orbit.period * jnp.sqrt(1 + orbit.ecc) / (1 - orbit.ecc) ** 1.5
    return 1.13 * orbit_speed(orbit) * rate**3


def cubic_error(orbit: Orbit, f: ArrayLike, seconds: ArrayLike) -> jax.Array:
    """Largest error in cycles of a cubic through Chebyshev's nodes for the phase across blocks of that length."""
    return _bend(orbit) * f * (0.5 * jnp.asarray(seconds)) ** 4 / 192


def cubic_length(orbit: Orbit, f: ArrayLike, cycles: float) -> jax.Array:
    """Longest block in s whose phase a cubic follows to `cycles`; the inverse of `cubic_error`."""
    return 2 * (192 * cycles / (_bend(orbit) * f)) ** 0.25
