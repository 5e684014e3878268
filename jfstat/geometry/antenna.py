"""Antenna patterns a(t) and b(t) as sums of five harmonics of sidereal time."""

from __future__ import annotations

from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.maths.arrays import with_axes
from jfstat.maths.vectors import along

Array = TypeVar("Array", jax.Array, np.ndarray)
ORDERS = np.array([0.0, 1, 1, 2, 2])
"""Frequency of each of the five harmonics, in units of the sidereal frequency."""


def _tensor_parts() -> np.ndarray:
    """Compute `TENSOR_PARTS` from the harmonics of the hour angle H."""
    a, b = np.zeros((2, 5, 3, 3))
    a[0] = np.diag([0.5, 0.5, -1.0])
    a[1, 0, 2], a[2, 1, 2] = 2.0, -2.0
    a[3], a[4, 0, 1] = np.diag([-0.5, 0.5, 0.0]), 1.0
    b[1, 1, 2], b[2, 0, 2] = -2.0, -2.0
    b[3, 0, 1], b[4] = 2.0, np.diag([1.0, -1.0, 0.0])

    def across(own: np.ndarray) -> np.ndarray:
        return np.stack([np.zeros((3, 3)), -own[2], own[1], -own[4], own[3]])

    return np.stack([a, b, across(a), across(b)])


TENSOR_PARTS = _tensor_parts()
"""Contributions of a detector tensor's components to the harmonics, without factors of declination, (4, 5, 3, 3).

The first two arrays are the contributions to a and b, multiplied by cos(m alpha), with m from `ORDERS`. In the last two
each pair (cosine, sine) is turned into (-sine, cosine); they are multiplied by sin(m alpha).
"""


def harmonics_of(xp: ModuleType, angle: Array) -> list[Array]:
    """Return 1, cos x, sin x, cos 2x, sin 2x, each shaped like the angle, by NumPy or jax.numpy (`xp`)."""
    c, s = xp.cos(angle), xp.sin(angle)
    return [xp.ones_like(angle), c, s, (c - s) * (c + s), 2 * c * s]  # products are cheaper than more cosines


def harmonics(angle: jax.Array) -> jax.Array:
    """Return (1, cos x, sin x, cos 2x, sin 2x) along a new last axis: (..., 5)."""
    return jnp.stack(harmonics_of(jnp, angle), axis=-1)


def harmonic_sum(coefficients: jax.Array, angle: jax.Array) -> jax.Array:
    """Compute ``harmonics(angle) @ coefficients`` as elementwise terms, which XLA can fuse with other operations."""
    return along(coefficients, harmonics_of(jnp, angle))


@jax.jit  # programs that call this share one trace
def pattern_coefficients(response: jax.Array, alpha: jax.Array, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the coefficients of a and b in the harmonics of sidereal time.

    a and b are the detector tensor contracted with xi xi - eta eta and xi eta + eta xi, where xi = (-sin alpha,
    cos alpha, 0) and eta = (sin delta cos alpha, sin delta sin alpha, -cos delta) (LALSuite: XLALComputeAMCoeffs;
    equations 12 and 13 of Jaranowski, Krolak & Schutz 1998). In the frame that turns with the Earth, with the hour
    angle H = sidereal time - alpha, they are sums of five harmonics of H.

    Parameters
    ----------
    response : (..., 3, 3) float64
        Detector tensors in the Earth-fixed frame.
    alpha, delta : () float64
        Sky position, rad.

    Returns
    -------
    a, b : (..., 5) float64
        Coefficients such that ``a(t) = a @ harmonics(sidereal_time(t))``.
    """
    parts = jnp.sum(with_axes(TENSOR_PARTS, response.ndim + 2) * response[..., None, None, :, :], axis=(-2, -1))
    s, c, zero = jnp.sin(delta), jnp.cos(delta), jnp.zeros_like(delta)
    first, second = s * c, 1 + s * s
    sky = jnp.stack([1 - s * s, first, first, second, second, zero, c, c, s, s]).reshape(2, 5)
    sky, turn = with_axes(sky, parts.ndim), with_axes(ORDERS * alpha, parts.ndim)
    # from harmonics of the hour angle to harmonics of sidereal time: each pair of cosine and sine is rotated
    both = sky * (parts[..., :2, :] * jnp.cos(turn) + parts[..., 2:, :] * jnp.sin(turn))
    return both[..., 0, :], both[..., 1, :]
