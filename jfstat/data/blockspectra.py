"""Fourier transform the blocks of a series once, so that Fa and Fb of single templates take far less time.

In a block of the series a template's phase is nearly linear. Of the block's sum

    sum_n x_n p(u_n) exp(-2 pi i (c u_n + d(u_n))),     u_n from -1 to 1, p and d smooth, d small,

the linear part is a Fourier transform at a frequency that lies between the frequencies of the block's own transform. As
in nonuniform fast Fourier transforms (Barnett, Magland & af Klinteberg 2019, SIAM J. Sci. Comput. 41, C479), the block
is weighted, padded to twice its length and transformed once for all templates, and few of its values, the taps, give
the transform at any frequency near theirs, with whatever smooth factor is left: they are turned into samples at a few
nodes, which stand for the block's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.blocks import node_times, without_whole_cycles
from jfstat.data.fit import nan_unless_fit
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.data.workers import results_of
from jfstat.geometry.barycenter import ssb_delay
from jfstat.geometry.trajectory import State
from jfstat.maths.chebyshev import lagrange, nodes, powers_from_values
from jfstat.maths.lengths import largest_divisor, smooth_part
from jfstat.maths.turns import turn64
from jfstat.signal.templates import Doppler

TAPS = 14
"""Number of values of a block's transform that are used for a template."""
NODES = 12
"""Number of Chebyshev nodes of a block whose samples represent all of its samples."""
TIMING_NODES = 6
"""Number of Chebyshev nodes of a block at which phase and antenna patterns are computed."""
LONGEST = 3600.0
"""Longest block, s: the polynomial through the timing nodes errs by less than 1e-8 cycles."""
BEND = 0.06
"""Largest deviation of the phase from a straight line in half a block, cycles."""
ACCELERATION = 1.4e-10
"""Largest acceleration of a detector due to the Earth's spin and orbit together, over the speed of light, 1/s."""
AT_ONCE = 128
"""Number of blocks that are transformed together, in double precision."""
LEAST_BLOCK = 16
"""Least number of samples of a block; shorter ones are summed directly in the same time."""
LEAST_SHARE = 0.5
"""Least length, as a fraction of the longest that is accurate enough, to which blocks are shortened to have only small
prime factors. NVIDIA's library compiles kernels for other lengths, which takes 0.1 to 0.5 s. Blocks are the same on all
devices.
"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class BlockSpectra:
    """Prepared data for many single templates of isolated sources, with the Fa and Fb of `FstatData` to 1e-7.

    Attributes
    ----------
    data : FstatData
    values : (..., D, n_blocks, 2 block + TAPS) complex64
        Transform of each block of the series at the frequencies k / 4 cycles per unit of u, k from -(block + TAPS / 2)
        on.
    state : State
        Detectors at the nodes where phase and antenna patterns are computed, (D, n_blocks, TIMING_NODES, ...).
    block : int
        Samples of a block.
    """

    data: FstatData
    values: jax.Array
    state: State
    block: int = field(metadata=dict(static=True))

    @property
    def observation(self) -> Observation:
        """When and where the detectors observed, and the noise weights."""
        return self.data.observation

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return self.data.detectors

    @property
    def n_segments(self) -> int | None:
        """Number of segments; None for data without segments."""
        return self.data.n_segments

    def fa_fb(self, point: Doppler, many: bool = False) -> tuple[jax.Array, jax.Array]:
        """Compute Fa and Fb of each detector for an isolated source; `many` makes no difference."""
        source, band, n_blocks = self.observation.source(point), self.data.band, self.values.shape[-2]
        t = node_times(band.start, band.dt, self.block, n_blocks, TIMING_NODES)
        # without the barriers XLA's GPU code repeats this for each result, and takes twice as long to compile
        source, t = jax.lax.optimization_barrier((source, t))

        def timing(state: State, response: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            delay = source.delay_from_ssb(t, ssb_delay(state, t, source.direction))
            delay = jax.lax.optimization_barrier(delay)
            cycles = without_whole_cycles(source.cycles_after(delay, t, band.heterodyne))
            return jax.lax.optimization_barrier((cycles, *source.patterns(response, state.sidereal)))

        # (D, n_blocks, TIMING_NODES)
        cycles, a, b = jax.vmap(timing)(self.state, self.observation.response)
        scale = nan_unless_fit(self.data, point).astype(jnp.complex128) * band.dt.astype(jnp.complex128)
        fa, fb = _sums(self.values, self.block, cycles, (a, b))
        return fa * scale, fb * scale


def spectra_or_data(data: FstatData, point: Doppler) -> BlockSpectra | FstatData:
    """Return what computes Fa and Fb of many single templates like `point`, one or a stack, in the least time.

    These are block spectra, or the data without their filters where blocks are too short or the source has an orbit or
    a phase model.
    """
    own, block = data.for_one_template, _block(data, point)
    return own if block is None else BlockSpectra(own, _spectra(own.series, block), _state.quickly(own, block), block)


def spectra_programs(data: FstatData, point: Doppler) -> tuple[BlockSpectra | FstatData, list[jax.stages.Lowered]]:
    """Return the programs that `spectra_or_data` runs, to be compiled, and its result with shapes instead of spectra.

    The shapes, `jax.ShapeDtypeStruct`, are for lowering functions of the result.
    """
    own, block = data.for_one_template, _block(data, point)
    if block is None:
        return own, []
    programs = [_spectra.lower(own.series, block), _state.quickly.lower(own, block)]
    values, state = (results_of(program, own.series) for program in programs)
    return BlockSpectra(own, values, state, block), programs


def _block(data: FstatData, point: Doppler) -> int | None:
    """Return the samples of a block for the spectra, or None if direct sums are as fast."""
    fmax = float(np.max(np.asarray(data.band.pass_high)))
    seconds = min(LONGEST, 2 * np.sqrt(2 * BEND / (ACCELERATION * fmax)))
    n, most = data.series.shape[-1], seconds / float(np.max(np.asarray(data.band.dt)))
    block, smooth = largest_divisor(n, most), largest_divisor(smooth_part(n), most)
    if smooth >= LEAST_SHARE * block:
        block = smooth
    return None if point.orbit is not None or point.model is not None or block < LEAST_BLOCK else block


@jit_with(NO_TRIALS, static_argnames="block")
def _state(data: FstatData, block: int) -> State:
    """Return the detectors' state at the timing nodes of blocks, which all templates share."""
    n_blocks = data.series.shape[-1] // block
    t = node_times(data.band.start, data.band.dt, block, n_blocks, TIMING_NODES)
    return jax.vmap(lambda trajectory: trajectory(t))(data.observation.trajectory)


@jit_with(NO_TRIALS, static_argnames="block")
def _spectra(series: jax.Array, block: int) -> jax.Array:
    """Compute the transforms of blocks of (..., N) complex64 in float64, see `BlockSpectra`."""
    weight = 1 / _window(_places(block))
    k = np.arange(-(block + TAPS // 2), block + TAPS // 2)
    turns = np.exp(-0.5j * np.pi * k * (1 / block - 1))

    def of_one(x: jax.Array) -> jax.Array:
        found = jnp.fft.fft(x.astype(jnp.complex128) * weight.astype(np.complex128), 2 * block)
        return (found[k % (2 * block)] * turns).astype(jnp.complex64)

    found = jax.lax.map(of_one, series.reshape(-1, block), batch_size=AT_ONCE)
    return found.reshape(*series.shape[:-1], -1, len(k))


def _sums(values: jax.Array, block: int, cycles: jax.Array, patterns: Sequence[jax.Array]) -> list[jax.Array]:
    """Return sums over samples times exp(-2 pi i cycles) and each of some patterns, (D,) complex128.

    Parameters
    ----------
    values : (D, n_blocks, 2 block + TAPS) complex64
    block : int
    cycles : (D, n_blocks, TIMING_NODES) float64
    patterns : sequence of (D, n_blocks, TIMING_NODES) float64
    """
    slope = powers_from_values(TIMING_NODES)[1]
    # index of the nearest value, clipped to the range of the transform: only padding blocks lie beyond
    k = jnp.clip(jnp.round(4 * (cycles @ slope)), -block, block)
    first = k.astype(jnp.int32).reshape(-1) + block
    table = values.reshape(-1, values.shape[-1])  # looked up as it lies, because a copy would take longer than the sum
    taps = jax.vmap(lambda row, column: jax.lax.dynamic_slice(table, (row, column), (1, TAPS))[0])(
        jnp.arange(len(table), dtype=jnp.int32), first
    ).reshape(*k.shape, TAPS)
    # real matrices, because XLA's CPU code for complex ones takes five times as long
    samples = jnp.concatenate([taps.real, taps.imag], axis=-1).astype(jnp.float64) @ _samples_from_taps()
    finer = lagrange(TIMING_NODES, nodes(NODES)).T
    cos, sin = turn64(cycles @ finer - 0.25 * k[..., None] * nodes(NODES)[None, None])
    real, imag = samples[..., :NODES], samples[..., NODES:]
    real, imag = real * cos + imag * sin, imag * cos - real * sin
    finest = [x @ finer for x in patterns]
    return [jax.lax.complex(jnp.sum(real * x, axis=(-2, -1)), jnp.sum(imag * x, axis=(-2, -1))) for x in finest]


def _places(block: int) -> np.ndarray:
    """Return the positions u of a block's samples, (block,) float64."""
    return (2 * np.arange(block) + 1) / block - 1


def _window(u: np.ndarray) -> np.ndarray:
    """Return the divisor of blocks: the Fourier transform of a Kaiser-Bessel function of width `TAPS`."""
    shape = np.pi * TAPS * 0.75  # 1 - 1/4 for blocks padded to twice their length
    z = np.sqrt(shape**2 - (0.25 * np.pi * TAPS * u) ** 2)
    return np.sinh(z) / z / (np.sinh(shape) / shape)


@cache
def _samples_from_taps() -> np.ndarray:
    """Return the matrix from the taps to samples at the nodes, real and imaginary parts: (2 TAPS, 2 NODES) float64.

    For a smooth g with values g_i at the nodes, sum_n x_n g(u_n) exp(-2 pi i c u_n) = sum_j h_j X_j if the taps' own
    sum, sum_j h_j exp(-2 pi i (j - TAPS / 2) u / 4) / window(u), is g(u): h is found by least squares for each of the
    polynomials that are 1 at one node and 0 at the others.
    """
    u = np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    turns = np.exp(-0.5j * np.pi * np.outer(u, np.arange(TAPS) - TAPS // 2)) / _window(u)[:, None]
    h = np.linalg.lstsq(turns, lagrange(NODES, u).astype(np.complex128), rcond=None)[0]
    return np.block([[h.real, h.imag], [-h.imag, h.real]])
