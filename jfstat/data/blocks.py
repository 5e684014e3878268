"""Approximate phases, positions and antenna patterns by cubics over blocks of the series.

They are fitted in float64, once per block and template, and kept in float32. Whole cycles and whole samples are kept as
integers, so that no precision is lost however long the data.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.maths.arrays import with_axes
from jfstat.maths.chebyshev import nodes, powers_from_values
from jfstat.maths.turns import turn

SLOPES = 4096
"""Number of steps per cycle: the phase's slope per sample is kept as an integer number of 1/SLOPES cycles."""
NODES = 4
"""Number of Chebyshev nodes of a block, at which its cubics are fitted."""


class PhaseCubic(NamedTuple):
    """Phase in cycles, modulo 1, over blocks of samples j = 0, 1, ...: ``slope j / SLOPES + sum_k rest[k] u^k``.

    Attributes
    ----------
    slope : (n_blocks,) int32
        0 to SLOPES - 1.
    rest : (n_blocks, 4) float32
        Less than a cycle: phase at the centre modulo 1, the remainder of the slope, and higher orders.
    """

    slope: jax.Array
    rest: jax.Array


def node_times(start: jax.Array, step: jax.Array, block: int, n_blocks: int, n: int = NODES) -> jax.Array:
    """Return the times of the n Chebyshev nodes of consecutive blocks, (n_blocks, n) float64.

    A block's u runs over [-1, 1] such that sample j lies at ``u = (2 j + 1)/block - 1``.
    """
    centres = start + step * (block * jnp.arange(n_blocks, dtype=jnp.float64) + 0.5 * (block - 1))
    return centres[:, None] + step * (0.5 * block) * nodes(n)[None]


def cubic(values: jax.Array) -> jax.Array:
    """Return the coefficients of 1, u, u^2, u^3, (..., 4), of the cubics through values at the nodes, (..., 4)."""
    return jnp.sum(values[..., None, :] * with_axes(powers_from_values(NODES), values.ndim + 1), axis=-1)


def mean_of_nodes(values: jax.Array) -> jax.Array:
    """Return the mean over the nodes of each block, (n_blocks,) from (n_blocks, n).

    The mean is computed as a sum of columns, because XLA's GPU compiler mistakes a reduction that is then subtracted
    for a softmax, and takes up to two seconds to compile it.
    """
    n = values.shape[1]
    return sum((values[:, i] for i in range(1, n)), values[:, 0]) / n


def without_whole_cycles(cycles: jax.Array) -> jax.Array:
    """Return a phase at the blocks' nodes, (n_blocks, 4), minus a whole number of cycles in each block.

    Fits to it are then free of the rounding error of some 1e9 cycles.
    """
    return cycles - jax.lax.stop_gradient(jnp.round(mean_of_nodes(cycles)))[:, None]


def phase_cubic(cycles: jax.Array, block: int) -> PhaseCubic:
    """Split a phase at the nodes into integer slopes and a small float32 remainder.

    Parameters
    ----------
    cycles : (n_blocks, 4) float64
    block : int
        Samples of a block.
    """
    c = cubic(without_whole_cycles(cycles))
    per_sample = c[:, 1] * (2.0 / block)
    steps = jax.lax.stop_gradient(jnp.round(per_sample * SLOPES))
    rest = c[:, 1] - steps * (0.5 * block / SLOPES)
    whole = c[:, 0] - steps * (0.5 * (block - 1) / SLOPES)
    whole = whole - jax.lax.stop_gradient(jnp.floor(whole))
    small = jnp.stack([whole, rest, c[:, 2], c[:, 3]], axis=1)
    return PhaseCubic(jnp.mod(steps, SLOPES).astype(jnp.int32), small.astype(jnp.float32))


def within_blocks(block: int, run: int) -> tuple[jax.Array, jax.Array]:
    """Return the sample numbers j of a block, (block // run, run) int32, and their positions u in [-1, 1], float32.

    Arrays over samples keep this shape, with blocks as leading axis, up to the transform: for flat arrays, XLA's CPU
    code would divide to find the block of each sample, and not vectorise.
    """
    j = jnp.arange(block // run, dtype=jnp.int32)[:, None] * run + jnp.arange(run, dtype=jnp.int32)[None]
    return j, (2 * j.astype(jnp.float32) + 1) / block - 1


def cubic_at(c: jax.Array, u: jax.Array) -> jax.Array:
    """Evaluate cubics with coefficients (n_blocks, 4) at u of shape (m, n): (n_blocks, m, n)."""
    c, u = c[:, :, None, None], u[None]
    return c[:, 0] + u * (c[:, 1] + u * (c[:, 2] + u * c[:, 3]))


def phasor(phase: PhaseCubic, block: int, run: int) -> tuple[jax.Array, jax.Array]:
    """Return the real and imaginary part of exp(-2 pi i phase), (n_blocks, block // run, run) float32 each."""
    j, u = within_blocks(block, run)
    cycles = ((phase.slope[:, None, None] * j[None]) % SLOPES).astype(jnp.float32) * (1 / SLOPES)
    cycles = cycles + cubic_at(phase.rest, u)
    return turn(jax.lax.stop_gradient(jnp.round(cycles)) - cycles)
