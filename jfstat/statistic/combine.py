"""Compute 2F from Fa, Fb and the antenna matrix."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.observation import Observation
from jfstat.signal.parameters import LIMITS
from jfstat.signal.templates import Doppler

MAX_CONDITION = 1e4
"""Largest condition number of [[A, C], [C, B]]; beyond it 2F is set to 4, its mean in noise, as in LALSuite."""


class AntennaMatrix(NamedTuple):
    """Antenna matrix A, B and C: weighted means over SFTs of a^2, b^2 and a b; each of shape (D,) or ()."""

    A: jax.Array
    B: jax.Array
    C: jax.Array


def antenna_matrix(observation: Observation, point: Doppler) -> AntennaMatrix:
    """Return A, B, C of each detector at a sky position, (D,) float64.

    Sums over SFTs of w a^2, w b^2 and w a b, averaged over the span of each SFT (LALSuite takes the mid-points:
    XLALWeightMultiAMCoeffs). They follow from the harmonics' moments, without a sum over time for each template. The
    result is NaN for a position beyond a pole, which traced values may have.
    """
    a, b = observation.pattern_coefficients(point)
    # not in delta, so that XLA recognises the coefficients that the timing computes too
    moments = jnp.where(LIMITS["delta"].holds(point.delta), observation.moments, jnp.nan)
    return AntennaMatrix(
        A=jnp.einsum("di,dij,dj->d", a, moments, a),
        B=jnp.einsum("di,dij,dj->d", b, moments, b),
        C=jnp.einsum("di,dij,dj->d", a, moments, b),
    )


def total_matrix(matrix: AntennaMatrix) -> AntennaMatrix:
    """Return the sum of antenna matrices over detectors."""
    return AntennaMatrix(*(jnp.sum(x, axis=0) for x in matrix))


def whitening(matrix: AntennaMatrix) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return coefficients (aa, ab, bb) such that 2F = |aa Fa + ab Fb|^2 + |bb Fb|^2.

    The coefficients are the Cholesky factor of the quadratic form in `two_f`, and zero where `two_f` is set to 4.
    """
    _, B, C = matrix
    determinant, good = _determinant(matrix)
    aa = jnp.sqrt(jnp.where(good, 2.0 * B / jnp.where(good, determinant, 1.0), 0.0))
    bb = jnp.sqrt(jnp.where(good, 2.0 / jnp.where(good, B, 1.0), 0.0))
    return aa, -C / jnp.where(good, B, 1.0) * aa, bb


def _determinant(matrix: AntennaMatrix) -> tuple[jax.Array, jax.Array]:
    """Return A B - C^2, and whether the matrix is not degenerate.

    The eigenvalues are (t +- sqrt(t^2 - 4 D))/2 with t = A + B: their ratio k is less than `MAX_CONDITION` if D/t^2 =
    k/(1 + k)^2 exceeds its value at k = `MAX_CONDITION`.
    """
    A, B, C = matrix
    determinant = A * B - C * C
    trace = A + B
    least = MAX_CONDITION / (1 + MAX_CONDITION) ** 2
    # not the other way round: a matrix of NaN is not degenerate, and its 2F is NaN
    return determinant, ~(determinant <= least * trace * trace)


def two_f(fa: jax.Array, fb: jax.Array, matrix: AntennaMatrix) -> jax.Array:
    """Return 2F = (2/D) [B |Fa|^2 + A |Fb|^2 - 2 C Re(Fa Fb*)], D = A B - C^2.

    The paper's equation 5 in the normalisation of LALSuite's compute_fstat_from_fa_fb, in which 2F has mean 4 in noise.

    Parameters
    ----------
    fa, fb : (...) complex
    matrix : AntennaMatrix
        Shapes that broadcast with `fa`.
    """
    power_a, power_b = fa.real**2 + fa.imag**2, fb.real**2 + fb.imag**2
    cross = fa.real * fb.real + fa.imag * fb.imag
    b, a, c, least = (x.astype(power_a.dtype) for x in quadratic_form(matrix))
    return b * power_a + a * power_b - c * cross + least


def two_f_of_powers(power_a: jax.Array, power_b: jax.Array, cross: jax.Array, matrix: AntennaMatrix) -> jax.Array:
    """Return 2F from |Fa|^2, |Fb|^2 and Re(Fa Fb*), in fewer operations where each value has its own matrix.

    All arguments have the same shape and are float64.
    """
    A, B, C = matrix
    scale, least = _scale(matrix)
    return scale * (B * power_a + A * power_b - C * (cross + cross)) + least


def quadratic_form(matrix: AntennaMatrix) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return coefficients (b, a, c, least) such that 2F = b |Fa|^2 + a |Fb|^2 - c Re(Fa Fb*) + least.

    For a degenerate matrix `least` is 4 and the others are 0; otherwise `least` is 0; NaN in the data or the matrix
    stays NaN.
    """
    A, B, C = matrix
    scale, least = _scale(matrix)
    return scale * B, scale * A, 2 * scale * C, least


def _scale(matrix: AntennaMatrix) -> tuple[jax.Array, jax.Array]:
    """Return 2/D and the term added to 2F; they are 0 and 4 for a degenerate matrix."""
    determinant, good = _determinant(matrix)
    return jnp.where(good, 2.0 / jnp.where(good, determinant, 1.0), 0.0), jnp.where(good, 0.0, 4.0)
