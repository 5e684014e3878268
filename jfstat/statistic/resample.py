"""Resample the data to the source's frame for one template, demodulate them and weight them by the antenna patterns.

Steps iii to v of the paper's section 3, and the products of step vi, in one pass over the samples, in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Band, Layout
from jfstat.data.blocks import (
    PhaseCubic,
    cubic,
    cubic_at,
    mean_of_nodes,
    node_times,
    phase_cubic,
    phasor,
    within_blocks,
)
from jfstat.data.fstatdata import FstatData
from jfstat.display import named_text
from jfstat.geometry.antenna import harmonic_sum
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields


def _grid_start(data: FstatData, source: Source, n_samples: int) -> jax.Array:
    """Return the source time of the first sample of the source-frame grid, s since the epoch, () float64.

    The grid is centred on the data of the first detector. It is longer than the series by more than the largest
    difference of delays.
    """
    first = jax.tree.map(lambda x: x[0], data.observation.trajectory)
    middle = data.observation.middle
    delay = source.delay(first, middle)
    return middle + jax.lax.stop_gradient(delay) - 0.5 * data.band.dtau * n_samples


def grid_samples(data: FstatData, point: Doppler, t: jax.Array) -> jax.Array:
    """Return the position in a template's source-frame grid, samples, of what reaches the first detector at `t`.

    The result has the shape of `t`, float64. For other detectors the position differs by the light travel time between
    the detectors, some hundredths of a second.
    """
    source = data.observation.source(point)
    first = jax.tree.map(lambda x: x[0], data.observation.trajectory)
    start = _grid_start(data, source, data.layout.n_blocks * data.layout.block)
    return (t + source.delay(first, t) - start) / data.band.dtau


class BlockCubics(NamedTuple):
    """Timing, phase and antenna patterns of one detector, as cubics in u of each block; see `_block_cubics`.

    Attributes
    ----------
    base : (n_blocks,) int32
        Approximate sample of the filtered series at which the block starts.
    shift : (n_blocks, 4) float32
        Position in the filtered series minus ``base + j``, samples.
    phase : PhaseCubic
        Phase to be removed, cycles.
    a, b : (n_blocks, 4) float32
        Antenna patterns times the detector time during a sample.
    """

    base: jax.Array
    shift: jax.Array
    phase: PhaseCubic
    a: jax.Array
    b: jax.Array


def _block_cubics(
    band: Band,
    source: Source,
    tau: jax.Array,
    block: int,
    trajectory: Trajectory,
    patterns: tuple[jax.Array, jax.Array],
) -> BlockCubics:
    """Compute timing and antenna patterns of one detector on the source-frame grid, in float64 for each block.

    Parameters
    ----------
    band : Band
    source : Source
    tau : (n_blocks, 4) float64
        Source times of the blocks' nodes.
    block : int
        Samples of a block.
    trajectory : Trajectory
    patterns : tuple of two (5,) float64
        Coefficients of a and b in the harmonics of sidereal time.
    """
    # without the barriers XLA's GPU code computes the cubics again for each result, and takes twice as long to compile
    source, tau = jax.lax.optimization_barrier((source, tau))
    t, rate = jax.lax.optimization_barrier(source.clock(trajectory, tau))
    # undo the heterodyne at the detector, and remove f_centre and spin-down at the source: what remains is the offset
    # of the frequency from f_centre, for the FFT
    cycles = band.f_centre * (tau - t) + (band.f_centre - band.heterodyne) * (t - source.middle)
    cycles = cycles + source.spin_down_cycles(tau)
    sample = (t - band.start) / band.dt
    base = jax.lax.stop_gradient(jnp.round(mean_of_nodes(sample) - 0.5 * (block - 1)))
    own = jnp.array([0.5 * (block - 1), 0.5 * block, 0.0, 0.0])  # j as a polynomial of u
    sidereal = trajectory.sidereal(t)
    a, b = (harmonic_sum(coefficients, sidereal) for coefficients in patterns)
    cycles, a, b = jax.lax.optimization_barrier((cycles, a, b))
    scale = rate * band.dtau
    return BlockCubics(
        base=base.astype(jnp.int32),
        shift=(cubic(sample - base[:, None]) - own[None]).astype(jnp.float32),
        phase=phase_cubic(cycles, block),
        a=cubic(a * scale).astype(jnp.float32),
        b=cubic(b * scale).astype(jnp.float32),
    )


def interpolate(filters: jax.Array, start: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Interpolate the band series between its samples: ``sum_p filters[p, :, start + j] T_p(x[..., j])``.

    Parameters
    ----------
    filters : (P, 2, n) float32
    start : (...) int32
        For each run, the sample of the filters that is nearest to its first sample.
    x : (..., run) float32
        Distances from samples of the filters in units of their reach, within [-1, 1].

    Returns
    -------
    real, imaginary : (..., run) float32
    """

    def series(component: int) -> jax.Array:
        term = [_runs(filters[p, component], start, x.shape[-1]) for p in range(filters.shape[0])]
        lower, current = jnp.ones_like(x), x
        value = term[0]
        for p in range(1, len(term)):
            value = value + term[p] * current
            lower, current = current, 2 * x * current - lower
        return value

    return series(0), series(1)


def _runs(values: jax.Array, start: jax.Array, run: int) -> jax.Array:
    """Return runs of consecutive values, (..., run), that begin at `start`, (...) int32.

    Runs are taken as slices, which XLA's CPU code copies with vector instructions; an index for each value would take
    four times as long.
    """
    numbers = jax.lax.GatherDimensionNumbers(offset_dims=(start.ndim,), collapsed_slice_dims=(), start_index_map=(0,))
    return jax.lax.gather(values, start[..., None], numbers, (run,), mode="promise_in_bounds")


def _demodulate(filters: jax.Array, cubics: BlockCubics, reach: jax.Array, block: int, run: int) -> jax.Array:
    """Compute one detector's series on the source-frame grid, without the template's phase.

    Only the phase of the frequency's offset from the centre of the FFT remains.

    Parameters
    ----------
    filters : (P, 2, n) float32
        With at least `run` zeros on both sides.
    cubics : BlockCubics
    reach : () float64
        Reach of the filters, samples.
    block, run : int
        See `Layout`.

    Returns
    -------
    (n_blocks, block // run, run) complex64.
    """
    j, u = within_blocks(block, run)
    # one whole shift for each run, whose samples then come from consecutive samples of the series
    whole = jax.lax.stop_gradient(jnp.round(cubic_at(cubics.shift, jnp.mean(u, axis=1, keepdims=True))))
    start = cubics.base[:, None] + whole[:, :, 0].astype(jnp.int32) + j[None, :, 0]
    start = jnp.clip(start, 0, filters.shape[2] - run)  # there are zeros at the ends
    x = (cubic_at(cubics.shift, u) - whole) * (1 / reach).astype(jnp.float32)
    real, imaginary = interpolate(filters, start, x)
    cos, sin = phasor(cubics.phase, block, run)
    return jax.lax.complex(real * cos - imaginary * sin, real * sin + imaginary * cos)


class Resampled(NamedTuple):
    """Demodulated series in the source's frame, times the antenna patterns and summed over detectors.

    The Fourier transforms of the two series at f - f_centre are Fa and Fb. Sample n is at source time ``_grid_start + n
    dtau``.

    Attributes
    ----------
    a, b : (n_blocks, block // run, run) complex64
    """

    a: jax.Array
    b: jax.Array

    def __repr__(self) -> str:
        return named_text(self)


def block_and_run(layout: Layout, point: Doppler) -> tuple[int, int]:
    """Return the samples of a block and of a run, with or without an orbit."""
    return (layout.block, layout.run) if point.orbit is None else (layout.block_orbit, layout.run_orbit)


def check_series(data: FstatData, point: Doppler, series: object) -> None:
    """Raise an error unless a resampled series suits the data and the template."""
    if not isinstance(series, Resampled):
        raise TypeError(f"series must come from jfstat.resample, not {type(series).__name__}.")
    block, run = block_and_run(data.layout, point)
    shape = (data.layout.n_blocks * data.layout.block // block, block // run, run)
    if any(np.shape(x) != shape for x in series):
        raise ValueError(
            f"series has shape {np.shape(series.a)}, but this template needs {shape}: resample the same data at the "
            "same sky position and orbit."
        )


def _source_grid(data: FstatData, point: Doppler) -> tuple[Source, jax.Array, int]:
    """Return a template's source, source times of its blocks' nodes, (n_blocks, 4) float64, and a block's samples."""
    source = data.observation.source(point)
    n_samples = data.layout.n_blocks * data.layout.block
    block, _ = block_and_run(data.layout, point)
    return source, node_times(_grid_start(data, source, n_samples), data.band.dtau, block, n_samples // block), block


def timing(data: FstatData, point: Doppler) -> BlockCubics:
    """Compute timing and antenna patterns of all detectors for one template; fields with a leading axis D."""
    source, tau, block = _source_grid(data, point)

    def one(detector: tuple[Trajectory, tuple[jax.Array, jax.Array]]) -> BlockCubics:
        return _block_cubics(data.band, source, tau, block, *detector)

    # one detector after the other: together, XLA's CPU code takes twice as long to look up their positions
    cubics = jax.lax.map(one, (data.observation.trajectory, data.observation.pattern_coefficients(point)))
    return cubics._replace(base=cubics.base + data.layout.padding)


def _parts(
    data: FstatData, point: Doppler, cubics: BlockCubics
) -> list[tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:
    """Compute the real and imaginary part of each detector's series, and its antenna patterns."""
    block, run = block_and_run(data.layout, point)
    _, u = within_blocks(block, run)
    parts = []
    for d, filters in enumerate(data.filters):
        own = jax.tree.map(lambda x, d=d: x[d], cubics)
        # stored in memory: the interpolation is expensive, and its result is used several times
        z = jax.lax.optimization_barrier(_demodulate(filters, own, data.band.reach, block, run))
        parts.append((z.real, z.imag, cubic_at(own.a, u), cubic_at(own.b, u)))
    return parts


def interpolated(data: FstatData, point: Doppler, cubics: BlockCubics) -> Resampled:
    """Return the resampled series of one template from its timing."""
    parts = _parts(data, point, cubics)
    return Resampled(
        a=jax.lax.complex(sum(re * a for re, _, a, _ in parts), sum(im * a for _, im, a, _ in parts)),  # type: ignore[arg-type]
        b=jax.lax.complex(sum(re * b for re, _, _, b in parts), sum(im * b for _, im, _, b in parts)),  # type: ignore[arg-type]
    )


def resampled_each(data: FstatData, point: Doppler) -> Resampled:
    """Compute the demodulated series of one template for each detector; fields with a leading axis D."""
    parts = _parts(data, point, timing(data, point))
    each = [Resampled(jax.lax.complex(re * a, im * a), jax.lax.complex(re * b, im * b)) for re, im, a, b in parts]
    return jax.tree.map(lambda *x: jnp.stack(x), *each)


def resampled(data: FstatData, point: Doppler) -> Resampled:
    """Compute the demodulated series of one template, summed over detectors on their common source-frame grid."""
    with jax.named_scope("geometry"):
        cubics = timing(data, point)
    with jax.named_scope("interpolation"):
        return interpolated(data, point, cubics)


def without_spin_down(point: Doppler) -> Doppler:
    """Return a template with all derivatives of its frequency set to zero, and without a phase model."""
    return with_fields(point, fkdot=point.fkdot.at[1:].set(0.0), model=None)


def spin_down_cubic(data: FstatData, point: Doppler) -> PhaseCubic:
    """Compute the phase due to spin-down and phase model on a template's source-frame grid."""
    source, tau, block = _source_grid(data, point)
    return phase_cubic(source.spin_down_cycles(tau), block)


def spun_down(data: FstatData, point: Doppler, series: Resampled) -> Resampled:
    """Remove a template's spin-down and phase model from a series that was resampled without them.

    One such series is enough for all spin-downs and models at a sky position and orbit.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        Template with the sky position, orbit and reference time of the series.
    series : Resampled
    """
    block, run = block_and_run(data.layout, point)
    cos, sin = phasor(spin_down_cubic(data, point), block, run)
    return Resampled(*(jax.lax.complex(z.real * cos - z.imag * sin, z.real * sin + z.imag * cos) for z in series))
