"""From a template to the phase, sample shift and antenna patterns over the series, as cubics per block.

Everything here is float64, once per block and template. What leaves is float32, small numbers: whole cycles and whole
samples stay behind as integers, so that nothing is lost however long the data.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.templates import Doppler

SLOPES = 4096
"""Steps per cycle in which the phase's slope per sample is kept as an integer."""
NODES = np.cos(np.pi * (np.arange(4) + 0.5) / 4)
"""Chebyshev nodes at which a block's cubics are fitted, on [-1, 1]."""
TO_POWERS = np.linalg.inv(np.vander(NODES, increasing=True))
"""From values at the nodes to the coefficients of 1, u, u^2, u^3."""


class PhaseCubic(NamedTuple):
    """Phase in cycles over blocks of samples j = 0, 1, ..., modulo 1: ``slope j / SLOPES + sum_k rest[k] u^k``.

    Attributes
    ----------
    slope : (n_blocks,) int32
        0 to SLOPES - 1.
    rest : (n_blocks, 4) float32
        Below a cycle: phase at the centre modulo 1, a remainder of slope, and the curvature.
    """

    slope: jax.Array
    rest: jax.Array


def reference_offset(data: FstatData | NarrowData, point: Doppler) -> float:
    """Reference time of the template minus the data's epoch, s; exact, both are integers."""
    return float((data.reftime if point.reftime is None else point.reftime) - data.epoch)


def node_times(start: jax.Array, step: jax.Array, block: int, n_blocks: int) -> jax.Array:
    """Times of the Chebyshev nodes of consecutive blocks, (n_blocks, 4) float64.

    A block's u runs over [-1, 1] such that sample j lies at ``u = (2 j + 1)/block - 1``.
    """
    centres = start + step * (block * jnp.arange(n_blocks, dtype=jnp.float64) + 0.5 * (block - 1))
    return centres[:, None] + step * (0.5 * block) * NODES


def cubic(values: jax.Array) -> jax.Array:
    """Coefficients of 1, u, u^2, u^3 through values at the nodes: (..., 4) to (..., 4)."""
    return values @ TO_POWERS.T


def without_whole_cycles(cycles: jax.Array) -> jax.Array:
    """A phase at blocks' nodes, (n_blocks, 4), less a whole number of cycles a block.

    What is fitted from it must not inherit the rounding of some 1e9 cycles.
    """
    return cycles - jax.lax.stop_gradient(jnp.round(jnp.mean(cycles, axis=1, keepdims=True)))


def phase_cubic(cycles: jax.Array, block: int) -> PhaseCubic:
    """Split a phase at the nodes into integers and a small float32 remainder.

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
