"""Compute Fa and Fb of one template by a direct sum over all samples of the band series, in float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import STATIC, Band
from jfstat.data.blocks import cubic, node_times, without_whole_cycles
from jfstat.data.fit import nan_unless_fit
from jfstat.data.protocol import Prepared
from jfstat.geometry.antenna import harmonics_of
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.lengths import largest_divisor
from jfstat.maths.turns import turn64
from jfstat.signal.templates import Doppler

FINER = 8
"""Least number of samples of a block that is halved for the direct sum."""


def _moments(series: jax.Array, phase: jax.Array, weight: jax.Array | None = None) -> jax.Array:
    """Return sums over the samples of each block of x exp(-2 pi i phase) times 1, u, u^2 and u^3.

    All is in float64, unlike the resampled band, because optimisers and samplers differentiate this sum: float32's
    rounding errors, 1e-7 of 2F, would show in differences over small steps.

    Parameters
    ----------
    series : (n_blocks, block) complex64
    phase : (n_blocks, 4) float64
        Cubics in u of the phase in cycles.
    weight : (n_blocks, block) float64, optional
        Further factors of the samples.

    Returns
    -------
    (n_blocks, 4) complex128.
    """
    powers = _powers(series.shape[1])
    cos, sin = turn64(phase @ powers.T)
    real, imag = series.real.astype(jnp.float64), series.imag.astype(jnp.float64)
    if weight is not None:
        real, imag = real * weight, imag * weight
    return jax.lax.complex((real * cos + imag * sin) @ powers, (imag * cos - real * sin) @ powers)


def _powers(block: int) -> jax.Array:
    """Return 1, u, u^2 and u^3 at the samples of a block, (block, 4) float64."""
    u = (2.0 * jnp.arange(block, dtype=jnp.float64) + 1) / block - 1
    return jnp.stack([jnp.ones_like(u), u, u * u, u**3], axis=-1)


def direct_block(block: int) -> int:
    """Return the direct sum's block for a layout's block: half as long if it can be, with a sixteenth of the error."""
    return largest_divisor(block, block / 2) if block >= FINER else block


def fa_fb(data: Prepared, point: Doppler, many: bool = False) -> tuple[jax.Array, jax.Array]:
    """Compute Fa and Fb of each detector, (D,) complex128; NaN for a template that does not fit the data."""
    source, observation = data.observation.source(point), data.observation
    block = data.layout.block_of(point.orbit is not None)

    def one(detector: tuple[jax.Array, Trajectory, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return detector_sums(data.band, block, source, *detector, many)

    factor = nan_unless_fit(data, point).astype(jnp.complex128)
    # one detector after the other: together, XLA's CPU code takes twice as long to look up their positions
    fa, fb = jax.lax.map(one, (data.series, observation.trajectory, observation.response))
    return fa * factor, fb * factor


def harmonic_sums(data: Prepared, point: Doppler) -> jax.Array:
    """Compute the integrals of `detector_sums` with each of the five sidereal harmonics in the place of a pattern.

    Every antenna pattern of a detector is a sum of these harmonics.

    Returns
    -------
    (D, 5) complex128
        NaN for a template that does not fit the data.
    """
    source, observation = data.observation.source(point), data.observation
    block = data.layout.block_of(point.orbit is not None)

    def one(detector: tuple[jax.Array, Trajectory]) -> jax.Array:
        series, trajectory = detector
        moments, t = _detector_moments(data.band, block, source, series, trajectory)
        return jnp.stack(_integrals(data.band, moments, *harmonics_of(jnp, trajectory.sidereal(t))))

    sums = jax.lax.map(one, (data.series, observation.trajectory))
    return sums * nan_unless_fit(data, point).astype(jnp.complex128)


def detector_sums(
    band: Band,
    block: int,
    source: Source,
    series: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
    many: bool = False,
    weight: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Compute Fa and Fb of one detector, () complex128: the paper's equations 3 and 4 as sums over samples.

    Fa = integral of x(t) a(t) exp(-2 pi i phi(t)) dt with x whitened and weighted, and phi zero at the data's mid-time.

    Parameters
    ----------
    band : Band
    block : int
        Samples of the blocks in which timing is a cubic.
    source : Source
    series : (N,) complex64
    trajectory, response : Trajectory, (3, 3) float64
        Trajectory and tensor of the detector.
    many : bool
        Whether values take less time and gradients more, see `Source.delay`.
    weight : (N,) float64, optional
        Factors of the samples, for a signal whose amplitude varies.
    """
    moments, t = _detector_moments(band, block, source, series, trajectory, many, weight)
    a, b = source.patterns(response, trajectory.sidereal(t))
    fa, fb = _integrals(band, moments, a, b)
    return fa, fb


def _detector_moments(
    band: Band,
    block: int,
    source: Source,
    series: jax.Array,
    trajectory: Trajectory,
    many: bool = False,
    weight: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Return the moments of a detector's blocks, (n_blocks, 4) complex128, and the times of the blocks' nodes."""
    block = direct_block(block)
    blocks = series.reshape(-1, block)
    t = node_times(band.start, band.dt, block, blocks.shape[0])
    cycles = source.heterodyned_cycles(trajectory, t, band.heterodyne, many)
    factors = None if weight is None else weight.reshape(blocks.shape)
    return _moments(blocks, cubic(without_whole_cycles(cycles)), factors), t


def _integrals(band: Band, moments: jax.Array, *patterns: jax.Array) -> list[jax.Array]:
    """Return the integrals of the data times each of some patterns, given at the blocks' nodes: () complex128 each."""
    # patterns are cubics too, so that four moments of each block are enough for all
    dt = band.dt.astype(moments.dtype)
    return [jnp.sum(moments * cubic(x).astype(moments.dtype)) * dt for x in patterns]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Pieces:
    """Samples of each slice, in pieces that do not cross the blocks of the direct sum.

    Attributes
    ----------
    block : (D, P) int32
        Number of the piece's block.
    first : (D, P) int32
        First sample of the piece, counted from the first of its block.
    count : (D, P) int32
        Samples; 0 for padding.
    slice : (D, P) int32
        Number of the slice.
    size : int, static
        Most samples of a piece.
    """

    block: np.ndarray
    first: np.ndarray
    count: np.ndarray
    slice: np.ndarray
    size: int = field(metadata=STATIC)


def slice_sums(
    band: Band,
    block: int,
    source: Source,
    series: jax.Array,
    trajectory: Trajectory,
    response: jax.Array,
    pieces: Pieces,
    n_slices: int,
) -> tuple[jax.Array, jax.Array]:
    """Compute Fa and Fb of one detector for each slice of time, (K,) complex128: partial sums of `detector_sums`.

    Timing uses the blocks of `detector_sums`, so the sums over all slices equal its result to rounding.

    Parameters
    ----------
    band, block, source, series, trajectory, response
        See `detector_sums`.
    pieces : Pieces
        Pieces of this detector, without the leading axis.
    n_slices : int
    """
    block, size = direct_block(block), pieces.size
    n_blocks = series.shape[0] // block
    t = node_times(band.start, band.dt, block, n_blocks)
    cycles = source.heterodyned_cycles(trajectory, t, band.heterodyne)
    patterns = source.patterns(response, trajectory.sidereal(t))
    own, first = jnp.asarray(pieces.block), jnp.asarray(pieces.first)
    place = jnp.arange(size, dtype=jnp.int32)[None]
    sample = jnp.minimum(own[:, None] * block + first[:, None] + place, series.shape[0] - 1)
    x = jnp.where(place < jnp.asarray(pieces.count)[:, None], series[sample], 0)
    phase, a, b = (
        _cubic_of_piece(cubic(values)[own], first, size, block) for values in (without_whole_cycles(cycles), *patterns)
    )
    moments = _moments(x, phase)
    slices, dt = jnp.asarray(pieces.slice), band.dt.astype(moments.dtype)

    def summed(pattern: jax.Array) -> jax.Array:
        each = jnp.sum(moments * pattern.astype(moments.dtype), axis=1) * dt
        return jax.ops.segment_sum(each, slices, n_slices, indices_are_sorted=True)

    return summed(a), summed(b)


def _cubic_of_piece(c: jax.Array, first: jax.Array, size: int, block: int) -> jax.Array:
    """Return coefficients of cubics in v, (n, 4), on a piece of `size` samples from `first` on, given those in u."""
    middle = (2 * first.astype(jnp.float64) + size) / block - 1
    c0, c1, c2, c3 = c.T
    k = size / block
    return jnp.stack(
        [
            c0 + middle * (c1 + middle * (c2 + middle * c3)),
            k * (c1 + middle * (2 * c2 + 3 * middle * c3)),
            k**2 * (c2 + 3 * middle * c3),
            k**3 * c3,
        ],
        axis=-1,
    )
