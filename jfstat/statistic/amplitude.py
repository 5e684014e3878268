"""Estimate the amplitude parameters h0, cosi, psi, phi0 and their errors from Fa and Fb."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.signal.templates import Amplitude
from jfstat.signal.values import with_fields
from jfstat.statistic.combine import AntennaMatrix


def amplitude_vector(
    fa: jax.Array, fb: jax.Array, matrix: AntennaMatrix, sinv_tsft: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the estimated A^mu, (4,), and their covariance, (4, 4).

    A^mu = 2/sqrt(2 Sinv_Tsft) M^-1 x with x = (Re Fa, Re Fb, -Im Fa, -Im Fb); the covariance is the inverse of the
    Fisher matrix Sinv_Tsft M.
    """
    x = jnp.stack([fa.real, fb.real, -fa.imag, -fb.imag])
    A, B, C = matrix
    none = jnp.zeros_like(A)
    inverse = jnp.stack([B, -C, none, none, -C, A, none, none, none, none, B, -C, none, none, -C, A]).reshape(4, 4)
    inverse = inverse / (A * B - C * C)
    return jnp.sqrt(2 / sinv_tsft) * (inverse @ x), inverse / sinv_tsft


def amplitude_from_vector(vector: jax.Array, covariance: jax.Array) -> tuple[Amplitude, Amplitude, jax.Array]:
    """Return h0, cosi, psi, phi0, their errors and their covariance, (4, 4), from A^mu and its covariance.

    LALSuite: XLALEstimatePulsarAmplitudeParams.
    """
    estimate = parameters_from_vector(vector)
    slopes = _slopes(estimate)
    own = slopes @ covariance @ slopes.T
    return estimate, amplitude_of(*standard_errors(estimate, own)), own


def parameters_from_vector(vector: jax.Array) -> Amplitude:
    """Return h0, cosi, psi in [-pi/4, pi/4] and phi0 in [0, 2 pi) for A^mu, (4,)."""
    a1, a2, a3, a4 = vector
    # A+ and Ax from two invariants: the sum of squares A+^2 + Ax^2, and the determinant A+ Ax
    squares = a1**2 + a2**2 + a3**2 + a4**2
    product = a1 * a4 - a2 * a3
    root = jnp.sqrt(jnp.maximum(squares**2 - 4 * product**2, 0.0))
    plus = jnp.sqrt(0.5 * (squares + root))
    cross = jnp.where(plus == 0, 0.0, product / jnp.where(plus == 0, 1.0, plus))  # NaN stays NaN
    # the complex amplitudes A1 - i A3 and A2 - i A4 are e^{i phi0} times (A+ cos 2psi + i Ax sin 2psi) and
    # (A+ sin 2psi - i Ax cos 2psi)
    psi = 0.25 * jnp.arctan2(2 * (a1 * a2 + a3 * a4), a1**2 + a3**2 - a2**2 - a4**2)
    cos, sin = jnp.cos(2 * psi), jnp.sin(2 * psi)
    # cos 2psi times the first and sin 2psi times the second add up to A+ e^{i phi0}
    phi0 = jnp.arctan2(-(a3 * cos + a4 * sin), a1 * cos + a2 * sin)
    root_h = jnp.sqrt(jnp.maximum(plus**2 - cross**2, 0.0))
    h0 = plus + root_h
    cosi = jnp.where(h0 == 0, 0.0, cross / jnp.where(h0 == 0, 1.0, h0))
    return amplitude_of(h0, jnp.clip(cosi, -1, 1), psi, jnp.mod(phi0, 2 * jnp.pi))


def parameter_covariance(estimate: Amplitude, information: jax.Array, n: int) -> jax.Array:
    """Return the covariance of the first n of h0, cosi, psi, phi0, (n, n), from the Fisher matrix of A^mu, (4, 4)."""

    def canonical(h0: jax.Array, cosi: jax.Array, psi: jax.Array, phi0: jax.Array) -> jax.Array:
        return amplitude_of(h0, cosi, psi, phi0).canonical

    jacobian = jnp.stack(
        jax.jacfwd(canonical, argnums=tuple(range(n)))(estimate.h0, estimate.cosi, estimate.psi, estimate.phi0), axis=1
    )
    fisher = jacobian.T @ information @ jacobian
    # scaled to unit diagonal, since h0 is some 1e25 times smaller than the angles
    scale = jnp.sqrt(jnp.maximum(jnp.diagonal(fisher), jnp.finfo(fisher.dtype).tiny))
    return jnp.linalg.inv(fisher / jnp.outer(scale, scale)) / jnp.outer(scale, scale)


def standard_errors(estimate: Amplitude, covariance: jax.Array) -> jax.Array:
    """Return one-sigma errors, (n,): infinite where a variance is not positive, NaN for an estimate of NaN."""
    variance = jnp.diagonal(covariance)
    good = (variance > 0) & jnp.isfinite(variance)
    errors = jnp.where(good, jnp.sqrt(jnp.where(good, variance, 1.0)), jnp.inf)
    return jnp.where(jnp.isnan(estimate.h0), jnp.nan, errors)


def _slopes(estimate: Amplitude) -> jax.Array:
    """Return the derivatives of h0, cosi, psi and phi0 by A^mu, (4, 4); not finite where |cosi| = 1.

    With c, s = cos, sin 2psi the changes of A1 - i A3 and A2 - i A4 are e^{i phi0} times dz1 and dz2 such that
    c dz1 + s dz2 = dA+ + i (A+ dphi0 + 2 Ax dpsi) and s dz1 - c dz2 = i dAx - (Ax dphi0 + 2 A+ dpsi).
    """
    plus, cross = 0.5 * estimate.h0 * (1 + estimate.cosi**2), estimate.h0 * estimate.cosi
    root = 0.5 * estimate.h0 * (1 - estimate.cosi**2)  # sqrt(A+^2 - Ax^2)
    cos, sin = jnp.cos(estimate.phi0), jnp.sin(estimate.phi0)
    c, s = jnp.cos(2 * estimate.psi), jnp.sin(2 * estimate.psi)
    by_plus = jnp.stack([cos * c, cos * s, -sin * c, -sin * s])
    along = jnp.stack([-sin * c, -sin * s, -cos * c, -cos * s])
    across = jnp.stack([cos * s, -cos * c, -sin * s, sin * c])
    by_cross = jnp.stack([-sin * s, sin * c, -cos * s, cos * c])
    h0 = (estimate.h0 * by_plus - cross * by_cross) / root
    cosi = (by_cross - estimate.cosi * h0) / estimate.h0
    psi = -0.5 * (plus * across + cross * along) / root**2
    phi0 = (plus * along + cross * across) / root**2
    return jnp.stack([h0, cosi, psi, phi0])


def amplitude_of(h0: jax.Array, cosi: jax.Array, psi: jax.Array, phi0: jax.Array) -> Amplitude:
    """Return an Amplitude without its constructor's checks, which would refuse an error of cosi above 1."""
    return with_fields(object.__new__(Amplitude), h0=h0, cosi=cosi, psi=psi, phi0=phi0)
