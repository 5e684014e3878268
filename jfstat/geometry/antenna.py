"""The antenna patterns a(t), b(t) as sums of five harmonics of sidereal time."""

from __future__ import annotations

from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Array = TypeVar("Array", jax.Array, np.ndarray)
CONSTANT, FIRST, SECOND = np.array([[1.0, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
"""Which of the five harmonics are the constant, of the sidereal frequency, and of twice that."""


def harmonics_of(xp: ModuleType, angle: Array) -> list[Array]:
    """1, cos x, sin x, cos 2x, sin 2x, each shaped like the angle, by NumPy or jax.numpy (`xp`)."""
    c, s = xp.cos(angle), xp.sin(angle)
    return [xp.ones_like(angle), c, s, (c - s) * (c + s), 2 * c * s]  # products are cheaper than more cosines


def harmonics(angle: jax.Array) -> jax.Array:
    """(1, cos x, sin x, cos 2x, sin 2x) along a new last axis: (..., 5)."""
    return jnp.stack(harmonics_of(jnp, angle), axis=-1)


def harmonic_sum(coefficients: jax.Array, angle: jax.Array) -> jax.Array:
    """``harmonics(angle) @ coefficients``, as elementwise terms, which XLA can fuse with other operations."""
    return sum(c * h for c, h in zip(coefficients, harmonics_of(jnp, angle), strict=True))  # type: ignore[return-value]


def pattern_coefficients(response: jax.Array, alpha: jax.Array, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Coefficients of a and b in the harmonics of sidereal time.

    a and b are the detector tensor contracted with xi xi - eta eta and xi eta + eta xi, where xi = (-sin alpha,
    cos alpha, 0) and eta = (sin delta cos alpha, sin delta sin alpha, -cos delta) (LALSuite: XLALComputeAMCoeffs;
    equations 12 and 13 of Jaranowski, Krolak & Schutz 1998). In the frame that turns with the Earth, with the hour
    angle H = sidereal time - alpha, they are sums of five harmonics of H.

    Parameters
    ----------
    response : (3, 3) float64
        Detector tensor in the Earth-fixed frame.
    alpha, delta : () float64
        Sky position, rad.

    Returns
    -------
    a, b : (5,) float64
        So that ``a(t) = a @ harmonics(sidereal_time(t))``.
    """
    d = response
    zero = jnp.zeros_like(d[0, 0])
    own_a = [0.5 * (d[0, 0] + d[1, 1]) - d[2, 2], 2 * d[0, 2], -2 * d[1, 2], 0.5 * (d[1, 1] - d[0, 0]), d[0, 1]]
    own_b = [zero, -2 * d[1, 2], -2 * d[0, 2], 2 * d[0, 1], d[0, 0] - d[1, 1]]
    s, c = jnp.sin(delta), jnp.cos(delta)
    sky_a = CONSTANT * (1 - s * s) + FIRST * (s * c) + SECOND * (1 + s * s)
    sky_b = FIRST * c + SECOND * s
    # from harmonics of the hour angle to those of sidereal time: each pair of cosine and sine is rotated
    turn = (FIRST + 2 * SECOND) * alpha
    cos, sin = jnp.cos(turn), jnp.sin(turn)

    def turned(own: list[jax.Array], sky: jax.Array) -> jax.Array:
        across = jnp.stack([zero, -own[2], own[1], -own[4], own[3]])
        return sky * (jnp.stack(own) * cos + across * sin)

    return turned(own_a, sky_a), turned(own_b, sky_b)
