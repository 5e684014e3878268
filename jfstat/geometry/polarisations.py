"""Antenna patterns of all polarisations that a metric theory of gravity allows, as sums of sidereal harmonics."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.maths.vectors import unit_vector

POLARISATIONS = {"tensor": ("plus", "cross"), "vector": ("x", "y"), "scalar": ("breathing",)}
"""Polarisations of each spin. A scalar's longitudinal one is the breathing one times -1 for detectors that are short
against the wave."""


def wave_tensors(alpha: jax.Array, delta: jax.Array, polarisations: tuple[str, ...]) -> jax.Array:
    """Return the tensors of a wave of unit amplitude in each polarisation, (m, 3, 3) float64, at psi = 0.

    With xi and eta of `pattern_coefficients` and the direction n to the source they are (Nishizawa et al. 2009, Phys.
    Rev. D 79, 082002, equation 4)::

        plus: xi xi - eta eta    x: xi n + n xi     breathing: xi xi + eta eta
        cross: xi eta + eta xi   y: eta n + n eta

    The wave's axes of LALSuite (XLALComputeDetAMResponseExtraModes) are -xi, -eta and -n, so that signs agree.

    Parameters
    ----------
    alpha, delta : () float64
        Sky position, rad.
    polarisations : tuple of m str
        Of `POLARISATIONS`.
    """
    xi = unit_vector(alpha + 0.5 * jnp.pi, jnp.zeros_like(delta))
    eta, n = unit_vector(alpha, delta - 0.5 * jnp.pi), unit_vector(alpha, delta)

    def product(u: jax.Array, v: jax.Array) -> jax.Array:
        return u[:, None] * v[None]

    tensors = {
        "plus": product(xi, xi) - product(eta, eta),
        "cross": product(xi, eta) + product(eta, xi),
        "x": product(xi, n) + product(n, xi),
        "y": product(eta, n) + product(n, eta),
        "breathing": product(xi, xi) + product(eta, eta),
    }
    return jnp.stack([tensors[name] for name in polarisations])


def harmonics_of_tensors(response: jax.Array, waves: jax.Array) -> jax.Array:
    """Return the coefficients of antenna patterns in the harmonics of sidereal time.

    A pattern is the product D_ij e_ij of the detector tensor, which turns with the Earth, and the wave's.

    Parameters
    ----------
    response : (D, 3, 3) float64
        Detector tensors in the Earth-fixed frame.
    waves : (m, 3, 3) float64
        Tensors of `wave_tensors`.

    Returns
    -------
    (D, m, 5) float64
        Coefficients c such that a pattern is ``c @ harmonics(sidereal_time(t))``.
    """
    d, e = jnp.moveaxis(response, 0, -1)[..., None], jnp.moveaxis(waves, 0, -1)[..., None, :]
    sum_d, difference_d = d[0, 0] + d[1, 1], d[0, 0] - d[1, 1]
    sum_e, difference_e = e[0, 0] + e[1, 1], e[0, 0] - e[1, 1]
    return jnp.stack(
        [
            0.5 * sum_d * sum_e + d[2, 2] * e[2, 2],
            2 * (d[0, 2] * e[0, 2] + d[1, 2] * e[1, 2]),
            2 * (d[0, 2] * e[1, 2] - d[1, 2] * e[0, 2]),
            0.5 * difference_d * difference_e + 2 * d[0, 1] * e[0, 1],
            difference_d * e[0, 1] - d[0, 1] * difference_e,
        ],
        axis=-1,
    )
