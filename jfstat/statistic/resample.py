"""From the interpolation bank and one template to the demodulated a- and b-weighted series in the source's frame.

Steps iii to v of the paper's section 3, and the products of step vi, in one pass over the samples; float32 per sample.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import Band, FstatData
from jfstat.geometry.source import patterns, source_delay, spin_down_phase, time_at_detector
from jfstat.geometry.trajectory import Trajectory
from jfstat.statistic.timing import (
    SLOPES,
    PhaseCubic,
    cubic,
    node_times,
    phase_cubic,
    reference_offset,
)
from jfstat.templates import Doppler


def grid_start(data: FstatData, point: Doppler, n_samples: int) -> jax.Array:
    """Source time of the first sample of the source-frame grid, s since the epoch, () float64.

    The grid is centred on the data as the first detector sees it; it is longer than the series by more than the delays
    can differ.
    """
    first = jax.tree.map(lambda x: x[0], data.trajectory)
    middle = data.band.middle
    delay = source_delay(first, point, middle)
    return middle + jax.lax.stop_gradient(delay) - 0.5 * data.band.dtau * n_samples


def interpolate(bank: jax.Array, whole: jax.Array, rest: jax.Array) -> jax.Array:
    """Value of the band series at fractional samples: ``sum_p bank[nearest, p] T_p(2 d)``.

    Parameters
    ----------
    bank : (n, P) complex64
        Zero in its first and last row.
    whole, rest : (...) int32, (...) float32
        The position is their sum, samples.
    """
    nearest = jax.lax.stop_gradient(jnp.round(rest))
    x = 2 * (rest - nearest)
    index = jnp.clip(whole + nearest.astype(jnp.int32), 0, bank.shape[0] - 1)
    rows = bank.at[index].get(mode="promise_in_bounds")
    lower, current = jnp.ones_like(x), x
    value = rows[..., 0]
    for p in range(1, bank.shape[1]):
        value = value + rows[..., p] * current.astype(rows.dtype)
        lower, current = current, 2 * x * current - lower
    return value


class BlockCubics(NamedTuple):
    """What one detector's samples need, as cubics in u of each block; see `block_cubics`.

    Attributes
    ----------
    base : (n_blocks,) int32
        Sample of the band series at which the block starts, about.
    shift : (n_blocks, 4) float32
        Position in the band series minus ``base + j``, samples.
    phase : PhaseCubic
        To take off, cycles.
    a, b : (n_blocks, 4) float32
        Antenna patterns times dt, the detector time that passes during a sample.
    """

    base: jax.Array
    shift: jax.Array
    phase: PhaseCubic
    a: jax.Array
    b: jax.Array


def block_cubics(
    band: Band,
    point: Doppler,
    reference: float,
    tau: jax.Array,
    block: int,
    trajectory: Trajectory,
    response: jax.Array,
) -> BlockCubics:
    """Timing and antenna patterns of one detector on the source-frame grid; float64 inside, per block only.

    Parameters
    ----------
    band : Band
    point : Doppler
    reference : float
        Reference time since the epoch, s.
    tau : (n_blocks, 4) float64
        Source times of the blocks' nodes.
    block : int
        Samples of a block.
    trajectory, response : Trajectory, (3, 3) float64
        Of the detector.
    """
    t, rate = jax.jvp(lambda x: time_at_detector(trajectory, point, x), (tau,), (jnp.ones_like(tau),))
    # the heterodyne at the detector back on, f_centre and spin-down at the source off: what remains is the frequency's
    # offset from f_centre, which the FFT takes
    since = (tau - t) - reference
    cycles = band.f_centre * since + (band.f_centre - band.heterodyne) * t
    cycles = cycles + spin_down_phase(point.fkdot, t + since)
    sample = (t - band.start) / band.dt
    base = jax.lax.stop_gradient(jnp.round(jnp.mean(sample, axis=1) - 0.5 * (block - 1)))
    own = jnp.array([0.5 * (block - 1), 0.5 * block, 0.0, 0.0])  # j as a polynomial of u
    a, b = patterns(trajectory, response, point, t)
    scale = rate * band.dtau
    return BlockCubics(
        base=base.astype(jnp.int32),
        shift=(cubic(sample - base[:, None]) - own).astype(jnp.float32),
        phase=phase_cubic(cycles, block),
        a=cubic(a * scale).astype(jnp.float32),
        b=cubic(b * scale).astype(jnp.float32),
    )


def demodulate(bank: jax.Array, cubics: BlockCubics, block: int) -> tuple[jax.Array, jax.Array]:
    """One detector's series times a and b, freed of the template's phase except its frequency offset.

    Parameters
    ----------
    bank : (n, P) complex64
    cubics : BlockCubics
    block : int

    Returns
    -------
    za, zb : (n_blocks, block) complex64
    """
    j = jnp.arange(block, dtype=jnp.int32)
    u = (2 * j.astype(jnp.float32) + 1) / block - 1

    def polynomial(c: jax.Array) -> jax.Array:
        c = c[:, :, None]
        return c[:, 0] + u * (c[:, 1] + u * (c[:, 2] + u * c[:, 3]))

    z = interpolate(bank, cubics.base[:, None] + j, polynomial(cubics.shift))
    turns = ((cubics.phase.slope[:, None] * j) % SLOPES).astype(jnp.float32) / SLOPES
    turns = turns + polynomial(cubics.phase.rest)
    angle = (-2 * jnp.pi) * (turns - jax.lax.stop_gradient(jnp.round(turns)))
    z = z * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    return z * polynomial(cubics.a).astype(z.dtype), z * polynomial(cubics.b).astype(z.dtype)


def resampled(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Demodulated series summed over detectors, which all share the source-frame grid.

    Returns
    -------
    za, zb : (n_samples,) complex64
        At source times ``grid_start + n dtau``, ``layout.n_blocks * layout.block`` of them; their Fourier transforms at
        f - f_centre are Fa and Fb.
    """
    layout = data.layout
    n_samples = layout.n_blocks * layout.block
    block = layout.block if point.orbit is None else layout.block_orbit
    tau = node_times(grid_start(data, point, n_samples), data.band.dtau, block, n_samples // block)
    reference = reference_offset(data, point)
    cubics = jax.vmap(lambda trajectory, response: block_cubics(
        data.band, point, reference, tau, block, trajectory, response))(data.trajectory, data.response)  # fmt: skip
    parts = [demodulate(bank, jax.tree.map(lambda x, d=d: x[d], cubics), block) for d, bank in enumerate(data.bank)]
    return sum(p[0] for p in parts).reshape(-1), sum(p[1] for p in parts).reshape(-1)  # type: ignore[union-attr]
