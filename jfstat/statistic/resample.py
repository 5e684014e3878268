"""From the interpolation bank and one template to the demodulated a- and b-weighted series in the source's frame.

Steps iii to v of the paper's section 3, and the products of step vi, in one pass over the samples; float32 per sample.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.geometry.trajectory import Trajectory
from jfstat.statistic.timing import (
    SLOPES,
    cubic,
    node_times,
    patterns,
    phase_cubic,
    reference_offset,
    source_delay,
    spin_phase,
    time_at_detector,
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


def interpolate(bank: jax.Array, position: jax.Array) -> jax.Array:
    """Value of the band series at fractional samples: ``sum_p bank[nearest, p] T_p(2 d)``.

    Parameters
    ----------
    bank : (n, P) complex64
        Zero in its first and last row.
    position : (whole (...) int32, rest (...) float32)
    """
    whole, rest = position
    nearest = jax.lax.stop_gradient(jnp.round(rest))
    x = 2 * (rest - nearest)
    index = jnp.clip(whole + nearest.astype(jnp.int32), 0, bank.shape[0] - 1)
    rows = bank.at[index].get(mode="promise_in_bounds")
    lower, current = jnp.ones_like(x), x
    value = rows[..., 0]
    for p in range(1, bank.shape[1]):
        value = value + rows[..., p] * current
        lower, current = current, 2 * x * current - lower
    return value


def demodulate(
    data: FstatData,
    point: Doppler,
    start: jax.Array,
    n_blocks: int,
    block: int,
    bank: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """One detector's series times a and b, freed of the template's phase except its frequency offset.

    Returns
    -------
    za, zb : (n_blocks, block) complex64
        At source times ``start + n dtau``; their Fourier transforms at f - f_centre are Fa and Fb.
    """
    band = data.band
    tau = node_times(start, band.dtau, block, n_blocks)
    t, rate = jax.jvp(lambda x: time_at_detector(trajectory, point, x), (tau,), (jnp.ones_like(tau),))

    # phase to take off: heterodyne at the detector back on, f_centre and spin-down at the source off
    since = (tau - t) - reference_offset(data, point)
    cycles = band.f_centre * since + (band.f_centre - band.heterodyne) * t
    if point.fkdot.shape[0] > 1:
        cycles = cycles + spin_phase(point.fkdot.at[0].set(0.0), t + since)
    # the frequency offset itself, from the grid's first sample on, is left for the FFT
    phase = phase_cubic(cycles, block)

    j = jnp.arange(block, dtype=jnp.int32)
    u = (2 * j.astype(jnp.float32) + 1) / block - 1

    def polynomial(c: jax.Array) -> jax.Array:
        c = c.astype(jnp.float32)[:, :, None]
        return c[:, 0] + u * (c[:, 1] + u * (c[:, 2] + u * c[:, 3]))

    sample = (t - band.start) / band.dt
    base = jax.lax.stop_gradient(jnp.round(jnp.mean(sample, axis=1) - 0.5 * (block - 1)))
    shift = cubic(sample - base[:, None]) - jnp.array([0.5 * (block - 1), 0.5 * block, 0.0, 0.0])
    z = interpolate(bank, (base.astype(jnp.int32)[:, None] + j, polynomial(shift)))

    turns = ((phase.slope[:, None] * j) % SLOPES).astype(jnp.float32) / SLOPES
    turns = turns + polynomial(phase.rest.at[:, 0].set(phase.whole.astype(jnp.float32)))
    angle = (-2 * jnp.pi) * (turns - jax.lax.stop_gradient(jnp.round(turns)))
    z = z * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    a, b = patterns(trajectory, response, point, t)
    scale = rate * band.dtau
    return z * polynomial(cubic(a * scale)), z * polynomial(cubic(b * scale))


def resampled(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Demodulated series summed over detectors, which all share the source-frame grid.

    Returns
    -------
    za, zb : (n_samples,) complex64
        n_samples is ``layout.n_blocks * layout.block``.
    """
    layout = data.layout
    n_samples = layout.n_blocks * layout.block
    block = layout.block if point.orbit is None else layout.block_orbit
    start = grid_start(data, point, n_samples)
    total_a, total_b = jnp.zeros((), jnp.complex64), jnp.zeros((), jnp.complex64)
    for d, bank in enumerate(data.bank):
        trajectory = jax.tree.map(lambda x, d=d: x[d], data.trajectory)
        za, zb = demodulate(data, point, start, n_samples // block, block, bank, trajectory, data.response[d])
        total_a, total_b = total_a + za, total_b + zb
    return total_a.reshape(-1), total_b.reshape(-1)
