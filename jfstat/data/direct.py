"""From the band series and one template to Fa and Fb at its frequency, by a direct sum over samples."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.timing import cubic, node_times, reference_offset, without_whole_cycles
from jfstat.geometry.source import patterns, source_delay, spin_down_phase
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.lengths import largest_divisor
from jfstat.templates import Doppler

FINER = 8
"""Samples of a block from which on the direct sum takes shorter ones."""


def block_sums(series: jax.Array, phase: jax.Array, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sum over blocks and samples of a x exp(-2 pi i phase) and b x exp(-2 pi i phase).

    In float64 throughout, unlike the resampled band: this sum is what optimisers and samplers differentiate, and in
    float32 its rounding, 1e-7 of 2F, would show in differences over small steps.

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
    # a and b are cubics as well, so that four moments of each block serve both
    moments = rotated @ powers.T.astype(jnp.complex128)
    return jnp.sum(moments * a.astype(moments.dtype)), jnp.sum(moments * b.astype(moments.dtype))


def heterodyned_cycles(data: FstatData, point: Doppler, trajectory: Trajectory, t: jax.Array) -> jax.Array:
    """Phase of a template less that of the series' heterodyne at detector times, cycles; float64, shaped like `t`."""
    since = source_delay(trajectory, point, t) - reference_offset(data, point)
    # the large term, frequency times time, in two parts that are both small enough for float64
    cycles = point.fkdot[0] * since + (point.fkdot[0] - data.band.heterodyne) * t
    return cycles + spin_down_phase(point.fkdot, t + since)


def detector_sums(
    data: FstatData, point: Doppler, series: jax.Array, trajectory: Trajectory, response: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Fa and Fb of one detector, () complex128: the paper's equations 3 and 4 as sums over the detector's samples.

    Fa = integral of x(t) a(t) exp(-2 pi i phi(t)) dt with x whitened and weighted, phi = 0 at the reference time.
    """
    band, layout = data.band, data.layout
    block = layout.block if point.orbit is None else layout.block_orbit
    if block >= FINER:  # a sixteenth of the searches' error, for little
        block = largest_divisor(block, block / 2)
    blocks = series.reshape(-1, block)
    t = node_times(band.start, band.dt, block, blocks.shape[0])
    cycles = heterodyned_cycles(data, point, trajectory, t)
    a, b = patterns(trajectory, response, point, t)
    sum_a, sum_b = block_sums(blocks, cubic(without_whole_cycles(cycles)), cubic(a), cubic(b))
    return sum_a * band.dt.astype(sum_a.dtype), sum_b * band.dt.astype(sum_b.dtype)


def fa_fb(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Fa and Fb of every detector at ``point.fkdot``, (D,) complex128 each."""
    one = partial(detector_sums, data, point)
    return jax.vmap(one)(data.series, data.trajectory, data.response)
