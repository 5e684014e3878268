"""From the interpolation bank and one template to the demodulated a- and b-weighted series in the source's frame.

Steps iii to v of the paper's section 3, and the products of step vi, in one pass over the samples; float32 per sample.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import Band, FstatData, Layout
from jfstat.data.timing import (
    SLOPES,
    PhaseCubic,
    cubic,
    node_times,
    phase_cubic,
    reference_offset,
)
from jfstat.geometry.source import clock_at_detector, patterns, source_delay, spin_down_phase
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.turns import turn
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


class BlockCubics(NamedTuple):
    """What one detector's samples need, as cubics in u of each block; see `block_cubics`.

    Attributes
    ----------
    base : (n_blocks,) int32
        Sample of the bank at which the block starts, about.
    shift : (n_blocks, 4) float32
        Position in the bank minus ``base + j``, samples.
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
    t, rate = clock_at_detector(trajectory, point, tau)
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


def interpolate(bank: jax.Array, index: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Value of the band series between its samples: ``sum_p bank[p, :, index] T_p(x)``.

    Parameters
    ----------
    bank : (P, 2, n) float32
    index : (...) int32
        Of the bank's sample to start from.
    x : (...) float32
        Distance from it as a part of the bank's reach, within [-1, 1].

    Returns
    -------
    real, imaginary : (...) float32
    """

    def series(component: int) -> jax.Array:
        term = [bank[p, component].at[index].get(mode="promise_in_bounds") for p in range(bank.shape[0])]
        lower, current = jnp.ones_like(x), x
        value = term[0]
        for p in range(1, len(term)):
            value = value + term[p] * current
            lower, current = current, 2 * x * current - lower
        return value

    return series(0), series(1)


def within_blocks(block: int, run: int) -> tuple[jax.Array, jax.Array]:
    """Sample numbers j of a block, (block // run, run) int32, and the same as u in [-1, 1], float32.

    All that is done per sample keeps this shape, blocks in front, until the transform: flattened within a loop, XLA's
    CPU code would divide to find each sample's block, and no longer vectorise.
    """
    j = jnp.arange(block // run, dtype=jnp.int32)[:, None] * run + jnp.arange(run, dtype=jnp.int32)
    return j, (2 * j.astype(jnp.float32) + 1) / block - 1


def polynomial(c: jax.Array, u: jax.Array) -> jax.Array:
    """Cubics with coefficients (n_blocks, 4) at u of shape (m, n): (n_blocks, m, n)."""
    c = c[:, :, None, None]
    return c[:, 0] + u * (c[:, 1] + u * (c[:, 2] + u * c[:, 3]))


def phasor(phase: PhaseCubic, block: int, run: int) -> tuple[jax.Array, jax.Array]:
    """Real and imaginary part of exp(-2 pi i phase), (n_blocks, block // run, run) float32 each."""
    j, u = within_blocks(block, run)
    cycles = ((phase.slope[:, None, None] * j) % SLOPES).astype(jnp.float32) * (1 / SLOPES)
    cycles = cycles + polynomial(phase.rest, u)
    return turn(jax.lax.stop_gradient(jnp.round(cycles)) - cycles)


def demodulate(bank: jax.Array, cubics: BlockCubics, reach: jax.Array, block: int, run: int) -> jax.Array:
    """One detector's series on the source-frame grid, freed of the template's phase except its frequency offset.

    Parameters
    ----------
    bank : (P, 2, n) float32
        With `run` zeros on both sides at least.
    cubics : BlockCubics
    reach : () float64
        Of the bank, samples.
    block, run : int
        See `Layout`.

    Returns
    -------
    (n_blocks, block // run, run) complex64.
    """
    j, u = within_blocks(block, run)
    # one whole shift serves a run: its samples then come from consecutive samples of the series
    whole = jax.lax.stop_gradient(jnp.round(polynomial(cubics.shift, jnp.mean(u, axis=1, keepdims=True))))
    start = cubics.base[:, None, None] + whole.astype(jnp.int32) + j[:, :1]
    start = jnp.clip(start, 0, bank.shape[2] - run)  # beyond the ends are zeros
    x = (polynomial(cubics.shift, u) - whole) * (1 / reach).astype(jnp.float32)
    real, imaginary = interpolate(bank, start + jnp.arange(run, dtype=jnp.int32), x)
    cos, sin = phasor(cubics.phase, block, run)
    return jax.lax.complex(real * cos - imaginary * sin, real * sin + imaginary * cos)


class Resampled(NamedTuple):
    """Demodulated series in the source's frame, times the antenna patterns and summed over detectors.

    Their Fourier transforms at f - f_centre are Fa and Fb. Sample n lies at the source time ``grid_start + n dtau``.

    Attributes
    ----------
    a, b : (n_blocks, block // run, run) complex64
    """

    a: jax.Array
    b: jax.Array


def block_and_run(layout: Layout, point: Doppler) -> tuple[int, int]:
    """Samples of a block and of a run for this kind of template."""
    return (layout.block, layout.run) if point.orbit is None else (layout.block_orbit, layout.run_orbit)


def timing(data: FstatData, point: Doppler) -> BlockCubics:
    """Timing and antenna patterns of all detectors for one template; fields with a leading axis D."""
    n_samples = data.layout.n_blocks * data.layout.block
    block, _ = block_and_run(data.layout, point)
    tau = node_times(grid_start(data, point, n_samples), data.band.dtau, block, n_samples // block)
    reference = reference_offset(data, point)
    cubics = jax.vmap(lambda trajectory, response: block_cubics(
        data.band, point, reference, tau, block, trajectory, response))(data.trajectory, data.response)  # fmt: skip
    return cubics._replace(base=cubics.base + data.layout.padding)


def interpolated(data: FstatData, point: Doppler, cubics: BlockCubics) -> Resampled:
    """The resampled series of one template from its timing."""
    block, run = block_and_run(data.layout, point)
    _, u = within_blocks(block, run)
    parts = []
    for d, bank in enumerate(data.bank):
        own = jax.tree.map(lambda x, d=d: x[d], cubics)
        # kept in memory once: the interpolation is dear, and what follows uses it several times over
        z = jax.lax.optimization_barrier(demodulate(bank, own, data.band.reach, block, run))
        parts.append((z.real, z.imag, polynomial(own.a, u), polynomial(own.b, u)))
    return Resampled(
        a=jax.lax.complex(sum(re * a for re, _, a, _ in parts), sum(im * a for _, im, a, _ in parts)),  # type: ignore[arg-type]
        b=jax.lax.complex(sum(re * b for re, _, _, b in parts), sum(im * b for _, im, _, b in parts)),  # type: ignore[arg-type]
    )


def resampled(data: FstatData, point: Doppler) -> Resampled:
    """Demodulated series of one template, summed over detectors, which all share the source-frame grid."""
    with jax.named_scope("geometry"):
        cubics = timing(data, point)
    with jax.named_scope("interpolation"):
        return interpolated(data, point, cubics)


def without_spin_down(point: Doppler) -> Doppler:
    """The template with the derivatives of its frequency zero."""
    return Doppler(point.alpha, point.delta, point.fkdot.at[1:].set(0.0), point.reftime, point.orbit)


def spin_down_cubic(data: FstatData, point: Doppler) -> PhaseCubic:
    """What the spin-down adds to the phase on a template's source-frame grid."""
    n_samples = data.layout.n_blocks * data.layout.block
    block, _ = block_and_run(data.layout, point)
    tau = node_times(grid_start(data, point, n_samples), data.band.dtau, block, n_samples // block)
    return phase_cubic(spin_down_phase(point.fkdot, tau - reference_offset(data, point)), block)


def spun_down(data: FstatData, point: Doppler, series: Resampled) -> Resampled:
    """A series resampled without spin-down, freed of a template's spin-down: once a sky position and orbit suffices.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        Of the same sky position, orbit and reference time as the series.
    series : Resampled
    """
    block, run = block_and_run(data.layout, point)
    cos, sin = phasor(spin_down_cubic(data, point), block, run)
    return Resampled(*(jax.lax.complex(z.real * cos - z.imag * sin, z.real * sin + z.imag * cos) for z in series))
