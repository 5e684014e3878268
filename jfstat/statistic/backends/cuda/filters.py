"""The interpolation filters in the form that the kernels take: more of them, with fewer terms each.

`prepare` makes filters that reach from half a sample before a sample to half a sample after it, in seven terms. Here that
interval is cut into `PLANES` parts, each with an expansion of its own. It needs `TERMS` terms, of which the last are so
small that float16 holds them: 32 instead of 56 bytes are then read for each sample and template.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

PLANES, TERMS, HALVES = 4, 5, 2
"""Parts of the interval between samples; terms for each; how many of these are float16."""
SINGLES = TERMS - HALVES
DRIFT = 0.005
"""How far a row's samples may lie beyond the ends of a part, in samples; see `kernels.of_rows`."""
REACH = 0.5 / PLANES + DRIFT
"""Half width of a part with that margin."""
LARGEST = 2.0**14
"""Largest value of the float16 terms after scaling: well below what they can hold, 65504."""
QUADS = -(-(2 * SINGLES + HALVES) // 4)
"""Groups of four float32 words of a sample."""
NODES = 16
"""At which the filters' sum is taken for the expansions: more than its degree needs."""


@jax.jit
def subdivided(filters: tuple[jax.Array, ...], reach: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Filters of all detectors for all parts of the interval between samples.

    Parameters
    ----------
    filters : tuple of D (P, 2, n) float32
        See `FstatData.filters`.
    reach : () float64
        See `Band.reach`.

    Returns
    -------
    words : (D, QUADS, PLANES, n, 4) float32
        Real and imaginary parts of the first terms; then pairs of float16 in the bits of a float32.
    scales : (HALVES,) float32
        What the float16 terms are to be multiplied by, powers of two.
    """
    matrix = _expansions(filters[0].shape[0], reach).astype(jnp.float32)
    terms = jnp.stack([_terms(one, matrix) for one in filters])  # (D, PLANES, TERMS, 2, n)
    largest = jnp.max(jnp.abs(terms[:, :, SINGLES:]), axis=(0, 1, 3, 4))
    exponent = jnp.where(largest > 0, jnp.ceil(jnp.log2(largest / LARGEST)), 0.0)
    scales = jnp.exp2(jnp.clip(exponent, -120, 120)).astype(jnp.float32)
    singles = jnp.moveaxis(terms[:, :, :SINGLES], -1, 2)  # (D, PLANES, n, SINGLES, 2)
    halves = jnp.moveaxis(terms[:, :, SINGLES:] / scales[:, None, None], -1, 2).astype(jnp.float16)
    words = jnp.concatenate(
        [singles.reshape(*singles.shape[:3], -1), jax.lax.bitcast_convert_type(halves, jnp.float32)], axis=-1
    )
    words = jnp.pad(words, ((0, 0), (0, 0), (0, 0), (0, 4 * QUADS - words.shape[-1])))
    return jnp.moveaxis(words.reshape(*words.shape[:3], QUADS, 4), 3, 1), scales


def word_bytes(n: int, n_detectors: int) -> int:
    """Memory of `subdivided`'s words for filters of n samples."""
    return n_detectors * QUADS * PLANES * n * 16


def _terms(filters: jax.Array, matrix: jax.Array) -> jax.Array:
    """(PLANES, TERMS, 2, n) float32, as sums that XLA computes without a matrix product in lower precision."""
    return jnp.stack(
        [
            jnp.stack([sum(row[p] * filters[p] for p in range(filters.shape[0])) for row in plane])
            for plane in matrix
        ]
    )


def _expansions(n_terms: int, reach: jax.Array) -> jax.Array:
    """Coefficients of each part's Chebyshev polynomials for each of the filters', (PLANES, TERMS, P) float64."""
    k = np.arange(NODES)
    nodes = np.cos((k + 0.5) * np.pi / NODES)
    to_coefficients = 2 / NODES * np.cos(np.outer(np.arange(TERMS), (k + 0.5) * np.pi / NODES))
    to_coefficients[0] /= 2
    middles = (np.arange(PLANES) + 0.5) / PLANES - 0.5
    x = (middles[:, None] + REACH * nodes) / reach  # (PLANES, NODES)
    values = [jnp.ones_like(x), x]
    for _ in range(2, n_terms):
        values.append(2 * x * values[-1] - values[-2])
    return jnp.einsum("tk,lkp->ltp", to_coefficients, jnp.stack(values[:n_terms], axis=-1))
