"""From the band series and one template to Fa and Fb at its frequency, by a direct sum over samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.geometry.trajectory import Trajectory
from jfstat.statistic.timing import (
    SLOPES,
    PhaseCubic,
    cubic,
    node_times,
    patterns,
    phase_cubic,
    reference_offset,
    source_delay,
    spin_phase,
)
from jfstat.templates import Doppler


def block_sums(series: jax.Array, phase: PhaseCubic, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums of a x exp(-2 pi i phase) and b x exp(-2 pi i phase), whole phases left out, over each block.

    float32 per sample. Both a and b are cubics of u, so that four moments of the rotated series serve both.

    Parameters
    ----------
    series : (n_blocks, block) complex64
    phase : PhaseCubic
    a, b : (n_blocks, 4) float64
        Cubics of the antenna patterns.

    Returns
    -------
    (n_blocks,) complex128, twice.
    """
    block = series.shape[1]
    j = jnp.arange(block, dtype=jnp.int32)
    u = (2 * j.astype(jnp.float32) + 1) / block - 1
    turns = ((phase.slope[:, None] * j) % SLOPES).astype(jnp.float32) / SLOPES
    for k in range(1, 4):
        turns = turns + phase.rest[:, k, None] * u**k
    angle = (-2 * jnp.pi) * (turns - jax.lax.stop_gradient(jnp.round(turns)))
    rotated = series * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    moments = jnp.stack([jnp.sum(rotated * u**k, axis=1) for k in range(4)], axis=1).astype(jnp.complex128)
    return jnp.sum(moments * a, axis=1), jnp.sum(moments * b, axis=1)


def detector_sums(
    data: FstatData, point: Doppler, series: jax.Array, trajectory: Trajectory, response: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Fa and Fb of one detector, () complex128: the paper's equations 3 and 4 as sums over the detector's samples.

    Fa = integral of x(t) a(t) exp(-2 pi i phi(t)) dt with x whitened and weighted, phi = 0 at the reference time.
    """
    band, layout = data.band, data.layout
    block = layout.block if point.orbit is None else layout.block_orbit
    blocks = series.reshape(-1, block)
    t = node_times(band.start, band.dt, block, blocks.shape[0])
    since = source_delay(trajectory, point, t) - reference_offset(data, point)
    # the large term, frequency times time, in two parts that are both small enough for float64
    cycles = point.fkdot[0] * since + (point.fkdot[0] - band.heterodyne) * t
    if point.fkdot.shape[0] > 1:
        cycles = cycles + spin_phase(point.fkdot.at[0].set(0.0), t + since)
    a, b = patterns(trajectory, response, point, t)
    phase = phase_cubic(cycles, block)
    sum_a, sum_b = block_sums(blocks, phase, cubic(a), cubic(b))
    turn = jnp.exp((-2j * jnp.pi) * phase.whole) * band.dt
    return jnp.sum(sum_a * turn), jnp.sum(sum_b * turn)


def fa_fb(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Fa and Fb of every detector at ``point.fkdot``, (D,) complex128 each."""
    sums = []
    for d, series in enumerate(data.series):
        trajectory = jax.tree.map(lambda x, d=d: x[d], data.trajectory)
        sums.append(detector_sums(data, point, series, trajectory, data.response[d]))
    return jnp.stack([s[0] for s in sums]), jnp.stack([s[1] for s in sums])
