"""Polynomials through Chebyshev nodes on [-1, 1]."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np


@lru_cache
def nodes(n: int) -> np.ndarray:
    """Return the n Chebyshev nodes, ascending: (n,) float64."""
    return -np.cos(np.pi * (np.arange(n) + 0.5) / n)


@lru_cache
def powers_from_values(n: int) -> np.ndarray:
    """Return the matrix from values at the n nodes to the coefficients of 1, u, u^2, ...: (n, n) float64."""
    return np.linalg.inv(np.vander(nodes(n), increasing=True))


@lru_cache
def series_from_values(n: int) -> np.ndarray:
    """Return the matrix from values at the n nodes to the coefficients of T_0, T_1, ...: (n, n) float64."""
    matrix = (2.0 / n) * np.cos(np.arange(n)[:, None] * np.arccos(nodes(n)))
    matrix[0] *= 0.5
    return matrix


def lagrange(n: int, x: np.ndarray) -> np.ndarray:
    """Return values at x in [-1, 1] of the Lagrange polynomials of the n nodes: (len(x), n) float64."""
    return np.polynomial.chebyshev.chebvander(x, n - 1) @ series_from_values(n)


def horner(coefficients: jax.Array, u: jax.Array) -> jax.Array:
    """Evaluate ``sum_k coefficients[k] u^k``; the powers are along the leading axis of the coefficients."""
    value = coefficients[-1]
    for k in range(coefficients.shape[0] - 2, -1, -1):
        value = value * u + coefficients[k]
    return value
