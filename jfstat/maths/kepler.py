"""Solver for Kepler's equation, with exact derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp

STEPS, SMALL = 5, 2e-4
"""Largest number of steps, and the change below which the iteration stops. Near the solution each step quadruples the
number of digits: five steps are enough up to an eccentricity of 0.99, circular orbits need one or two."""


@jax.custom_jvp
def kepler(phase: jax.Array, ecc: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """Solve ``E - ecc sin E + p (cos E - ecc) + q sin E = phase`` for E, elementwise, float64.

    With p = q = 0 this is Kepler's equation for the time of emission. If p and q are the mean motion times the two
    amplitudes of the delay, `phase` is the orbital phase at the time of arrival (lalpulsar/lib/SSBtimes.c). Derivatives
    follow from the implicit function theorem, exact to all orders.
    """
    turns = jnp.floor(phase / (2 * jnp.pi) + 0.5)
    phase = phase - 2 * jnp.pi * turns  # the starting value below is good within half a turn
    anomaly = phase + 0.85 * ecc * jnp.sign(phase)  # Danby (1987)

    # Danby's method: Newton's with second and third derivatives; most of a step's cost is its sine and cosine
    def step(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        anomaly, _, number = state
        sin, cos = jnp.sin(anomaly), jnp.cos(anomaly)
        residual = anomaly - ecc * sin + p * (cos - ecc) + q * sin - phase
        slope = 1 - ecc * cos - p * sin + q * cos
        bend = ecc * sin - p * cos - q * sin
        change = -residual / slope
        change = -residual / (slope + change * bend / 2)
        change = -residual / (slope + change * (bend / 2 + change * (1 - slope) / 6))
        return anomaly + change, jnp.max(jnp.abs(change), initial=0.0), number + 1

    def unfinished(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return (state[1] > SMALL) & (state[2] < STEPS)

    first = step(
        (
            anomaly + jnp.zeros(jnp.broadcast_shapes(*map(jnp.shape, (phase, ecc, p, q)))),
            jnp.zeros(()),
            jnp.zeros((), jnp.int32),
        )
    )
    anomaly, _, _ = jax.lax.while_loop(unfinished, step, first)
    return anomaly + 2 * jnp.pi * turns


@kepler.defjvp
def _kepler_jvp(primals, tangents):
    phase, ecc, p, q = primals
    d_phase, d_ecc, d_p, d_q = tangents
    anomaly = kepler(phase, ecc, p, q)
    sin, cos = jnp.sin(anomaly), jnp.cos(anomaly)
    change = d_phase + (sin + p) * d_ecc - (cos - ecc) * d_p - sin * d_q
    return anomaly, change / (1 - ecc * cos - p * sin + q * cos)
