"""The interpolation filters in the form that the kernels take: more of them, with fewer terms each.

`prepare` makes filters that reach from half a sample before a sample to half a sample after it. Here that interval is
cut into `PLANES` parts, each with a polynomial of its own, which needs fewer terms for the same accuracy: less is then
read for each sample and template, though more is kept.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

PLANES, TERMS = 2, 6
"""Parts of the interval between samples, and coefficients for each."""
DRIFT = 0.005
"""How far a row's samples may lie beyond the ends of a part, in samples; see `kernels.of_rows`."""
REACH = 0.5 / PLANES + DRIFT
"""Half width of a part with that margin."""
QUADS = -(-TERMS // 2)
"""Groups of four float32 words, two complex coefficients, of a sample."""
NODES = 16
"""At which the filters' sum is taken for the polynomials: more than its degree needs."""


@jax.jit
def subdivided(filters: tuple[jax.Array, ...], reach: jax.Array) -> jax.Array:
    """Filters of all detectors for all parts of the interval between samples.

    Parameters
    ----------
    filters : tuple of D (P, 2, n) float32
        See `FstatData.filters`.
    reach : () float64
        See `Band.reach`.

    Returns
    -------
    (D, QUADS, PLANES, n, 4) float32
        Real and imaginary parts of the coefficients of x^0, x^1, ..., two to a group; x is the distance from the middle
        of the part in units of `REACH`.
    """
    matrix = jnp.pad(_polynomials(filters[0].shape[0], reach), ((0, 0), (0, 2 * QUADS - TERMS), (0, 0)))
    matrix = matrix.astype(jnp.float32)

    def coefficient(own: jax.Array, plane: int, term: int) -> jax.Array:
        # a sum that XLA does not compute as a matrix product in lower precision
        return sum(matrix[plane, term, p] * own[p] for p in range(own.shape[0]))  # type: ignore[return-value]

    def group(own: jax.Array, plane: int, quad: int) -> jax.Array:
        return jnp.concatenate([coefficient(own, plane, 2 * quad + i) for i in range(2)]).T  # (n, 4)

    return jnp.stack(
        [
            jnp.stack([jnp.stack([group(own, plane, quad) for plane in range(PLANES)]) for quad in range(QUADS)])
            for own in filters
        ]
    )


def subdivided_bytes(n: int, n_detectors: int) -> int:
    """Memory of the result for filters of n samples."""
    return n_detectors * QUADS * PLANES * n * 16


def _polynomials(n_terms: int, reach: jax.Array) -> jax.Array:
    """Coefficients of each part's polynomial for each of the filters' terms, (PLANES, TERMS, P) float64."""
    nodes = np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)
    # nodes' values to Chebyshev polynomials, of which the first are kept, and these to powers
    to_chebyshev = 2 / NODES * np.cos(np.outer(np.arange(TERMS), np.arccos(nodes)))
    to_chebyshev[0] /= 2
    powers = [chebyshev.cheb2poly(np.eye(TERMS)[k, : k + 1]) for k in range(TERMS)]
    to_powers = np.stack([np.pad(p, (0, TERMS - len(p))) for p in powers], axis=1)
    middles = (np.arange(PLANES) + 0.5) / PLANES - 0.5
    x = (middles[:, None] + REACH * nodes) / reach  # (PLANES, NODES)
    values = [jnp.ones_like(x), x]
    for _ in range(2, n_terms):
        values.append(2 * x * values[-1] - values[-2])
    return jnp.einsum("tk,lkp->ltp", to_powers @ to_chebyshev, jnp.stack(values[:n_terms], axis=-1))
