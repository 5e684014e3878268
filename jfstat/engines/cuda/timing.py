"""Pack a template's timing for the kernels: one line of float32 words for each block of samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.signal.templates import Doppler
from jfstat.statistic.resample import spin_down_cubic, timing


def packed_timing(data: FstatData, point: Doppler, weights: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
    """Return the timing of one template with all detectors.

    Parameters
    ----------
    data : FstatData
    point : Doppler
    weights : tuple of three () float64
        Weights of the antenna patterns, from `combine.whitening`.

    Returns
    -------
    (D, n_blocks, 20) float32
        Cubics of position, phase and the two weights; the bits of the int32 base and slope; two zeros. The weights are
        the antenna patterns, combined such that 2F is the sum of two squares.
    """
    cubics = timing(data, point)
    aa, ab, bb = (x.astype(jnp.float32) for x in weights)
    whole = jnp.stack([cubics.base, cubics.phase.slope], axis=-1)
    return jnp.concatenate(
        [
            cubics.shift,
            cubics.phase.rest,
            aa * cubics.a + ab * cubics.b,
            bb * cubics.b,
            jax.lax.bitcast_convert_type(whole, jnp.float32),
            jnp.zeros(whole.shape, jnp.float32),
        ],
        axis=-1,
    )


def packed_spin_down(data: FstatData, point: Doppler) -> jax.Array:
    """Return the phase that is left to remove from a series resampled without spin-down.

    Returns
    -------
    (n_blocks, 8) float32
        Cubics of the phase, the bits of the int32 slope, and zeros.
    """
    phase = spin_down_cubic(data, point)
    slope = jax.lax.bitcast_convert_type(phase.slope, jnp.float32)[:, None]
    return jnp.concatenate([phase.rest, slope, jnp.zeros((len(slope), 3), jnp.float32)], axis=-1)
