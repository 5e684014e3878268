"""From narrow data and a template in their reach to Fa and Fb, by a sum over some hundred samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.narrowdata import NarrowData
from jfstat.data.timing import reference_offset
from jfstat.geometry.antenna import pattern_coefficients
from jfstat.geometry.nearby import phase_difference
from jfstat.maths.turns import turn64
from jfstat.templates import Doppler

NODES = 16
"""Chebyshev nodes of a block, K."""
TAIL = 3e-5
"""Size of a phase factor's last two Chebyshev coefficients in a block beyond which a template is out of reach; those
left out are then some thirty times smaller."""


def chebyshev_nodes(n: int) -> np.ndarray:
    """The n Chebyshev nodes on [-1, 1], rising."""
    return -np.cos(np.pi * (np.arange(n) + 0.5) / n)


def chebyshev_coefficients(n: int) -> np.ndarray:
    """From values at the n nodes to the coefficients of the Chebyshev series through them, (n, n) float64."""
    matrix = (2.0 / n) * np.cos(np.arange(n)[:, None] * np.arccos(chebyshev_nodes(n)))
    matrix[0] *= 0.5
    return matrix


def phase_factor(data: NarrowData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Real and imaginary part of exp(2 pi i (phase of `point` - phase of the centre)) at the nodes, (D, B, K) each."""
    reference, central = reference_offset(data, point), reference_offset(data, data.centre)
    return turn64(phase_difference(data.sites, data.centre, point, reference, central, data.epoch))


def fa_fb(data: NarrowData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Fa and Fb of every detector at ``point.fkdot``, (D,) complex128 each; NaN beyond the data's reach."""
    cos, sin = phase_factor(data, point)
    inside = jnp.where(_followed(cos, sin), 1.0, jnp.nan)
    sums = jnp.einsum("dhbk,dbk->dh", data.samples, jax.lax.complex(cos, -sin)) * inside.astype(jnp.complex128)
    a, b = jax.vmap(pattern_coefficients, (0, None, None))(data.response, point.alpha, point.delta)
    return jnp.sum(a.astype(sums.dtype) * sums, axis=1), jnp.sum(b.astype(sums.dtype) * sums, axis=1)


def covers(data: NarrowData, point: Doppler) -> jax.Array:
    """Whether a template lies within the reach of narrow data.

    It does if the blocks' polynomials follow its phase relative to the centre's, whatever makes it differ; `reach` says
    which differences in frequency they are made for.

    Parameters
    ----------
    data : NarrowData
    point : Doppler
        One template, scalar fields.

    Returns
    -------
    () bool.

    Raises
    ------
    ValueError
        If `data` or `point` is of another kind.
    """
    if not (isinstance(data, NarrowData) and isinstance(point, Doppler)):
        kinds = f"{type(data).__name__} and {type(point).__name__}"
        raise ValueError(f"covers takes NarrowData from jfstat.narrow and a Doppler, not {kinds}.")
    return _covers(data, point)


@jax.jit
def _covers(data: NarrowData, point: Doppler) -> jax.Array:
    return _followed(*phase_factor(data, point))


def _followed(cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Whether the last Chebyshev coefficients of a phase factor are small in every block, () bool."""
    last = jnp.asarray(chebyshev_coefficients(NODES)[-2:].T)
    size = jnp.abs(jax.lax.stop_gradient(cos) @ last) + jnp.abs(jax.lax.stop_gradient(sin) @ last)
    return jnp.max(size) <= TAIL
