"""Fa and Fb of one template by a direct sum over all samples of the band series, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.bandseries import Band
from jfstat.data.blocks import cubic, node_times, without_whole_cycles
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.lengths import largest_divisor

FINER = 8
"""Blocks of at least this many samples are halved for the direct sum."""


def _block_sums(series: jax.Array, phase: jax.Array, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums over blocks and samples of a x exp(-2 pi i phase) and b x exp(-2 pi i phase).

    All in float64, unlike the resampled band: optimisers and samplers differentiate this sum, and rounding errors of
    float32, 1e-7 of 2F, would show in differences over small steps.

    Parameters
    ----------
    series : (n_blocks, block) complex64
    phase, a, b : (n_blocks, 4) float64
        Cubics in u of the phase in cycles and of the antenna patterns.

    Returns
    -------
    () complex128, twice.
    """
    block = series.shape[1]
    u = (2.0 * jnp.arange(block, dtype=jnp.float64) + 1) / block - 1
    powers = jnp.stack([jnp.ones_like(u), u, u * u, u**3])
    angle = (-2 * jnp.pi) * (phase @ powers)
    rotated = series.astype(jnp.complex128) * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    # a and b are cubics too, so that four moments of each block are enough for both
    moments = rotated @ powers.T.astype(jnp.complex128)
    return jnp.sum(moments * a.astype(moments.dtype)), jnp.sum(moments * b.astype(moments.dtype))


def detector_sums(
    band: Band, block: int, source: Source, series: jax.Array, trajectory: Trajectory, response: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Fa and Fb of one detector, () complex128: the paper's equations 3 and 4 as sums over samples.

    Fa = integral of x(t) a(t) exp(-2 pi i phi(t)) dt with x whitened and weighted, and phi zero at the data's mid-time.

    Parameters
    ----------
    band : Band
    block : int
        Samples of the blocks in which timing is a cubic.
    source : Source
    series : (N,) complex64
    trajectory, response : Trajectory, (3, 3) float64
        Of the detector.
    """
    if block >= FINER:  # at little cost, a sixteenth of the error of searches
        block = largest_divisor(block, block / 2)
    blocks = series.reshape(-1, block)
    t = node_times(band.start, band.dt, block, blocks.shape[0])
    cycles = source.heterodyned_cycles(trajectory, t, band.heterodyne)
    a, b = source.patterns(response, trajectory.sidereal(t))
    sum_a, sum_b = _block_sums(blocks, cubic(without_whole_cycles(cycles)), cubic(a), cubic(b))
    return sum_a * band.dt.astype(sum_a.dtype), sum_b * band.dt.astype(sum_b.dtype)
