"""Solvers for Kepler's equation: one with exact derivatives, one with a fixed number of steps for many times."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.maths.turns import turn64

STEPS, SMALL = 5, 2e-4
"""Largest number of steps, and the change below which the iteration stops. Near the solution each step quadruples the
number of digits: five steps are enough up to an eccentricity of 0.99, circular orbits need one or two."""


@jax.custom_jvp
def kepler(phase: jax.Array, ecc: jax.Array, p: jax.Array, q: jax.Array) -> jax.Array:
    """Solve ``E - ecc sin E + p (cos E - ecc) + q sin E = phase`` for E, elementwise, float64.

    With p = q = 0 this is Kepler's equation for the time of emission. If p and q are the mean motion times the two
    amplitudes of the delay, `phase` is the orbital phase at the time of arrival (lalpulsar/lib/SSBtimes.c). Derivatives
    follow from the implicit function theorem, exact to all orders; in a loop JAX forgets this rule where it takes a
    second derivative in reverse mode, and stops: take forward over reverse, as `jax.hessian` does.
    """
    turns = jnp.floor(phase / (2 * jnp.pi) + 0.5)
    phase = phase - 2 * jnp.pi * turns  # the starting value below is good within half a turn
    anomaly = phase + 0.85 * ecc * jnp.sign(phase)  # Danby (1987)

    def step(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        anomaly, _, number = state
        change = _danby(anomaly, jnp.sin(anomaly), jnp.cos(anomaly), phase, ecc, p, q)
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


def _danby(
    anomaly: jax.Array, sin: jax.Array, cos: jax.Array, phase: jax.Array, ecc: jax.Array, p: jax.Array, q: jax.Array
) -> jax.Array:
    """Return a step of Danby's method towards the solution of `kepler`: Newton's with second and third derivatives.

    Most of a step's cost is its sine and cosine.
    """
    residual = anomaly - ecc * sin + p * (cos - ecc) + q * sin - phase
    slope = 1 - ecc * cos - p * sin + q * cos
    bend = ecc * sin - p * cos - q * sin
    change = -residual / slope
    change = -residual / (slope + change * bend / 2)
    return -residual / (slope + change * (bend / 2 + change * (1 - slope) / 6))


def steps_for(ecc_or_speed: float) -> int:
    """Return the number of steps that `kepler_in_steps` needs for orbits.

    It is that for the largest of their eccentricities and of p and q, their speeds in units of the speed of light.
    """
    return 1 if ecc_or_speed < 1e-3 else 2 if ecc_or_speed < 0.3 else STEPS


def kepler_in_steps(
    cycles: jax.Array, ecc: jax.Array, p: jax.Array, q: jax.Array, steps: int
) -> tuple[jax.Array, jax.Array]:
    """Return cosine and sine of the solution E of `kepler` for a phase in cycles, elementwise, float64.

    With the number of steps of `steps_for` they are right to 1e-8. No step waits for another, as in `kepler`'s
    iteration, so that XLA computes all of them in one pass over the times.
    """
    if steps == 1:  # a step of Newton's method from the mean anomaly, so small that no second sine is needed
        cos, sin = turn64(cycles)
        x = (ecc * sin - p * (cos - ecc) - q * sin) / (1 - ecc * cos - p * sin + q * cos)
        of_cos, of_sin = 1 - 0.5 * x * x, x - x * x * x / 6
        return cos * of_cos - sin * of_sin, sin * of_cos + cos * of_sin
    phase = (2 * jnp.pi) * (cycles - jnp.round(cycles))
    anomaly = phase + 0.85 * ecc * jnp.sign(phase)  # Danby (1987)
    for _ in range(steps):
        cos, sin = turn64(anomaly * (0.5 / jnp.pi))
        anomaly = anomaly + _danby(anomaly, sin, cos, phase, ecc, p, q)
    return turn64(anomaly * (0.5 / jnp.pi))


@kepler.defjvp
def _kepler_jvp(primals, tangents):
    phase, ecc, p, q = primals
    d_phase, d_ecc, d_p, d_q = tangents
    anomaly = kepler(phase, ecc, p, q)
    sin, cos = jnp.sin(anomaly), jnp.cos(anomaly)
    change = d_phase + (sin + p) * d_ecc - (cos - ecc) * d_p - sin * d_q
    return anomaly, change / (1 - ecc * cos - p * sin + q * cos)
