"""Fa and Fb of one template by a direct sum over all samples of the band series, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.bandseries import Band
from jfstat.data.blocks import cubic, node_times, without_whole_cycles
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.lengths import largest_divisor
from jfstat.maths.turns import turn64

FINER = 8
"""Blocks of at least this many samples are halved for the direct sum."""


def _moments(series: jax.Array, phase: jax.Array) -> jax.Array:
    """Sums over blocks' samples of x exp(-2 pi i phase) times 1, u, u^2 and u^3.

    All in float64, unlike the resampled band: optimisers and samplers differentiate this sum, and rounding errors of
    float32, 1e-7 of 2F, would show in differences over small steps.

    Parameters
    ----------
    series : (n_blocks, block) complex64
    phase : (n_blocks, 4) float64
        Cubics in u of the phase in cycles.

    Returns
    -------
    (n_blocks, 4) complex128.
    """
    powers = _powers(series.shape[1])
    cos, sin = turn64(phase @ powers.T)
    real, imag = series.real.astype(jnp.float64), series.imag.astype(jnp.float64)
    return jax.lax.complex((real * cos + imag * sin) @ powers, (imag * cos - real * sin) @ powers)


def _powers(block: int) -> jax.Array:
    """1, u, u^2 and u^3 at the samples of a block, (block, 4) float64."""
    u = (2.0 * jnp.arange(block, dtype=jnp.float64) + 1) / block - 1
    return jnp.stack([jnp.ones_like(u), u, u * u, u**3], axis=-1)


def detector_sums(
    band: Band,
    block: int,
    source: Source,
    series: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
    many: bool = False,
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
    many : bool
        As for `Source.delay`: less time for values, more for gradients.
    """
    if block >= FINER:  # at little cost, a sixteenth of the error of searches
        block = largest_divisor(block, block / 2)
    blocks = series.reshape(-1, block)
    t = node_times(band.start, band.dt, block, blocks.shape[0])
    cycles = source.heterodyned_cycles(trajectory, t, band.heterodyne, many)
    a, b = source.patterns(response, trajectory.sidereal(t))
    moments = _moments(blocks, cubic(without_whole_cycles(cycles)))
    # a and b are cubics too, so that four moments of each block are enough for both
    dt = band.dt.astype(moments.dtype)
    return tuple(jnp.sum(moments * cubic(x).astype(moments.dtype)) * dt for x in (a, b))  # type: ignore[return-value]
