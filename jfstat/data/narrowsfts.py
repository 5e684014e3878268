"""Compute narrow data directly from SFTs, without a wide series, for templates known beforehand.

Around a known template a signal fills some bins of each SFT, and what it leaks into the others is a smooth function.
So each SFT becomes a few moments of its bins (`moments`), and these the samples of narrow data.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev, legendre

from jfstat.data.moments import TOLERATED_BINS, Pooled, moments, shared_bins
from jfstat.data.narrowdata import NODES, NarrowData
from jfstat.data.noise import Noise, noise_weights, refuse_loud
from jfstat.data.observation import Observation, weighted
from jfstat.data.targets import PHASES, ROWS, Target, chunks, filled, phase_series, target_of
from jfstat.data.whitening import Whitened, whitened
from jfstat.data.workers import in_callers_context, in_order
from jfstat.geometry.antenna import harmonics_of
from jfstat.geometry.nearby import Sites, sites
from jfstat.geometry.rotation import sidereal_time
from jfstat.maths.arrays import PRECISE, on_device
from jfstat.maths.chebyshev import lagrange, nodes, series_from_values
from jfstat.maths.turns import turn
from jfstat.sfts.parts import PartsOfSFTs
from jfstat.signal.templates import Doppler

THREADS = 2
"""Chunks of SFTs that are read and whitened at a time."""
SFT_NODES = 8
"""Number of nodes that follow the antenna patterns and the blocks' polynomials over an SFT, to 1e-8 for 1800 s."""


def _harmonics_in(epoch: int, start: np.ndarray, tsft: float) -> np.ndarray:
    """Return the sidereal harmonics at the nodes of SFTs, (n, SFT_NODES, 5) float32; `start` counts from the epoch."""
    angle = sidereal_time(epoch, start[:, None] + 0.5 * tsft * (1 + nodes(SFT_NODES)))
    return np.stack(harmonics_of(np, angle), axis=-1).astype(np.float32)


class _Held(NamedTuple):
    """Contribution of n SFTs of a detector to a template's matched filter.

    Attributes
    ----------
    cycles, slope : (n,) float64
        Phase of the template at the start of each SFT, cycles, and by how much it grows more than the phase of the
        moments' bin until the end.
    bend : (n, PHASES) float32
        See `Phases`.
    sums : (n, n_moments) complex64
        From `moments`.
    pattern : (n, SFT_NODES, 5) float32
        From `_harmonics_in`.
    middle : (n,) float64
        Mid-times of the SFTs, s since the epoch.
    """

    cycles: jax.Array | np.ndarray
    slope: jax.Array | np.ndarray
    bend: jax.Array | np.ndarray
    sums: jax.Array | np.ndarray
    pattern: jax.Array | np.ndarray
    middle: jax.Array | np.ndarray


@partial(jax.jit, static_argnames="n_moments")
def _samples(
    held: _Held,
    tsft: jax.Array,
    block: jax.Array,
    centres: jax.Array,
    half: jax.Array,
    n_moments: int,
) -> jax.Array:
    """Compute the contribution of SFTs of one detector to the samples of narrow data: (5, B, NODES) complex64.

    Parameters
    ----------
    held : _Held
        Moments and phases of the SFTs.
    tsft : () float64
        s.
    block : (n,) int32
        Number of the block that each SFT belongs to.
    centres, half : (B,) and () float64
        Middle of the blocks, s since the epoch, and half their length, s.
    n_moments : int, static
    """
    cycles, slope, bend, sums, pattern, middle = (jnp.asarray(x) for x in held)
    u, from_moments = _legendre(n_moments)
    at_nodes = jnp.matmul(sums, from_moments.astype(np.complex64), precision=PRECISE)
    to_phases = (phase_series().T @ chebyshev.chebvander(u, PHASES - 1).T).astype(np.float32)
    bent = jnp.matmul(bend, to_phases, precision=PRECISE)
    turns = cycles[:, None] + slope[:, None] * jnp.asarray(0.5 * (1 + u)) + bent.astype(jnp.float64)
    cos, sin = turn((turns - jnp.round(turns)).astype(jnp.float32))
    # the patterns and the blocks' polynomials hardly bend within an SFT: few nodes carry the sums on
    to_few = lagrange(SFT_NODES, u).astype(np.complex64)
    few = jnp.matmul(at_nodes * jax.lax.complex(cos, -sin), to_few, precision=PRECISE)
    turned = few[..., None] * pattern.astype(few.dtype)
    x = (middle[:, None] + 0.5 * tsft * jnp.asarray(nodes(SFT_NODES)) - centres[block][:, None]) / half
    powers = [jnp.ones_like(x), x]
    while len(powers) < NODES:
        powers.append(2 * x * powers[-1] - powers[-2])
    spread = (jnp.stack(powers, axis=-1) @ jnp.asarray(series_from_values(NODES))).astype(few.dtype)
    each = sum(turned[:, q, :, None] * spread[:, q, None, :] for q in range(SFT_NODES))
    return jnp.moveaxis(jax.ops.segment_sum(each, block, centres.shape[0]), 0, 1)


@lru_cache
def _legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes, (n,), and the matrix from moments to samples at the nodes, (n, n) complex128.

    The sum over nodes of samples times the values of a smooth g is the integral of the SFT's series times g.
    """
    u, weight = legendre.leggauss(n)
    order = np.arange(n)
    values = legendre.legvander(u, n - 1)
    return u, ((2 * order + 1) / 2 * 1j**order * values * weight[:, None]).T


def narrow_sfts(
    parts: PartsOfSFTs,
    points: Sequence[Doppler],
    observation: Observation,
    noise: Noise,
    guard: float,
    least_reaches: Sequence[float] | None = None,
) -> list[NarrowData]:
    """Compute narrow data around each of some templates whose bands overlap, in one pass over the SFTs.

    Parameters
    ----------
    parts : PartsOfSFTs
    points : sequence of Doppler
        One template each, concrete.
    observation : Observation
        Observation of all SFTs, with any weights.
    noise : Noise
        Of which `Noise.require_middle` holds.
    guard : float
        Distance from a signal up to which bins are used, Hz; less if the files have less.
    least_reaches : sequence of float, optional
        Reach of the narrow data of each template, Hz, where that is farther than usual.

    Raises
    ------
    MovesTooFast
        If a signal moves through too many bins within an SFT.
    ValueError
        If the files do not hold a signal's band, or the noise floor cannot be estimated as wanted.
    """
    noise.require_middle()
    times, tsft, epoch = parts.times, parts.times.tsft, int(observation.epoch)
    # not by indexing with JAX, which would compile programs
    trajectories = [
        jax.tree.map(lambda leaf, i=i: on_device(np.asarray(leaf)[i]), observation.trajectory)
        for i in range(len(times.series))
    ]
    target = in_callers_context(partial(target_of, observation, trajectories, times))
    with ThreadPoolExecutor(THREADS) as pool:  # NumPy and XLA compute outside of Python's lock
        targets = list(pool.map(target, points, least_reaches or [0.0] * len(points)))
    reach = int(guard * tsft) + TOLERATED_BINS
    floors = noise.floors(times.detectors)
    first, last = _band(parts, targets, reach, noise, None in floors)
    at = np.unique(np.concatenate([own.band for own in targets]))
    samples = [np.zeros((len(times.series), 5, len(own.centres), NODES), complex) for own in targets]
    floor_of = [[[] for _ in times] for _ in targets]
    jobs = [(i, rows) for i, series in enumerate(times.series) for rows in chunks(len(series))]

    def summed(i: int, rows: slice) -> list[_Sums]:
        """Return the contribution of some SFTs of a detector to each target."""
        series = times.series[i]
        own = whitened(
            parts.read(series.detector, rows, first, last),  # which is dropped as soon as it is copied
            first,
            tsft,
            floors[i],
            at,
            series.detector,
            series.gps[rows],
            noise,
        )
        start = series.since(epoch)[rows]
        chunk = _Chunk(
            detector=i,
            rows=rows,
            tsft=tsft,
            bins=own,
            pooled=Pooled.of(own),
            pattern=_harmonics_in(epoch, filled(start), tsft),
            clock=(series.gps[rows] - epoch, series.gps_ns[rows]),
            middle=filled(start + 0.5 * tsft),
        )
        return [chunk.sums(target, reach) for target in targets]

    def quietly(job: tuple[int, slice]) -> list[_Sums]:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused in the end
            return summed(*job)

    for (i, _), each in zip(jobs, in_order(quietly, jobs, THREADS), strict=True):
        for k, own in enumerate(each):
            floor_of[k][i].append(own.psd)
            place = samples[k][i][:, own.first_block : own.first_block + own.samples.shape[1]]
            place += own.samples[:, : place.shape[1]]
    psd = [[np.concatenate(x) for x in own] for own in floor_of]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(in_callers_context(partial(_finished, observation, noise)), targets, samples, psd))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Contribution of some SFTs to a target.

    Attributes
    ----------
    samples : (5, n_blocks, NODES) complex64
        See `_samples`.
    first_block : int
    psd : (n,) float64 ndarray
        Noise floor at the signal, 1/Hz.
    """

    samples: np.ndarray
    first_block: int
    psd: np.ndarray


@dataclass(frozen=True, eq=False)
class _Chunk:
    """SFTs of a detector that are read together, n of them.

    Attributes
    ----------
    detector : int
        Number of the detector.
    rows : slice
        Rows of these SFTs among the detector's.
    tsft : float
        s.
    bins : Whitened
    pooled : Pooled
        Cells of the bins, see `Pooled`.
    pattern : (ROWS, SFT_NODES, 5) float32 ndarray
        From `_harmonics_in`.
    clock : two (n,) int ndarrays
        When the SFTs start: whole seconds since the epoch, and nanoseconds.
    middle : (ROWS,) float64 ndarray
        s since the epoch.
    """

    detector: int
    rows: slice
    tsft: float
    bins: Whitened
    pooled: Pooled
    pattern: np.ndarray
    clock: tuple[np.ndarray, np.ndarray]
    middle: np.ndarray

    def sums(self, target: Target, reach: int) -> _Sums:
        """Return the contribution of the SFTs to a target, from the bins within `reach` of it."""
        rows, tsft, clock = self.rows, self.tsft, self.clock
        phases, bins = target.phases[self.detector], target.bins(self.detector)[rows]
        centre = shared_bins(bins)
        psd, relative = self.bins.floors(bins, target.band)
        # divided by the root of the noise floor once more, for the weights
        sums = moments(self.pooled, centre, target.n_moments, reach)
        sums = sums * (relative / np.sqrt(psd))[:, None].astype(np.float32)
        # whole turns of the heterodyne are removed exactly: its bin times whole seconds is a whole number
        cycles = np.fmod(np.float64(target.heterodyne) * clock[0], tsft) / tsft
        cycles = cycles + target.heterodyne / tsft * 1e-9 * clock[1] + phases.first[rows]
        # only the blocks that these SFTs touch, in one of a few sizes
        block = target.block[self.detector][rows]
        first_block = int(block.min())
        n_blocks = 1 << 2 * ((int(block.max() - first_block).bit_length() + 1) // 2)
        centres = target.centres[first_block : first_block + n_blocks]
        held = _Held(
            cycles=filled(cycles),
            slope=filled(bins - centre),
            bend=filled(phases.bend[rows]),
            sums=np.pad(sums, [(0, ROWS - len(sums)), (0, 0)]),
            pattern=self.pattern,
            middle=self.middle,
        )
        samples = _samples(
            held,
            np.float64(tsft),
            filled((block - first_block).astype(np.int32)),
            np.pad(centres, (0, n_blocks - len(centres)), mode="edge"),
            np.asarray(target.half),
            target.n_moments,
        )
        return _Sums(np.asarray(samples), first_block, psd)


def _band(parts: PartsOfSFTs, targets: Sequence[Target], reach: int, noise: Noise, estimated: bool) -> tuple[int, int]:
    """Return the first and last bin to read; `estimated` says whether a noise floor is to be estimated from them.

    Raises
    ------
    ValueError
        If the files do not hold all signals, or too few bins for the noise floor.
    """
    tsft = parts.times.tsft
    low = int(min(own.bins(i).min() for own in targets for i in range(len(own.phases)))) - TOLERATED_BINS
    high = int(max(own.bins(i).max() for own in targets for i in range(len(own.phases)))) + TOLERATED_BINS + 1
    if low < parts.first_bin or high > parts.last_bin:
        raise ValueError(
            f"the SFTs cover {parts.first_bin / tsft:.10g} to {(parts.last_bin + 1) / tsft:.10g} Hz, not all of "
            f"{low / tsft:.10g} to {high / tsft:.10g} Hz that the signals need: name other files."
        )
    # the noise floor may need more than the guard
    room = max(reach, noise.reach + 1) if estimated else reach
    first, last = max(low - room, parts.first_bin), min(high + room, parts.last_bin)
    if estimated:  # at an end of the SFTs the nearest full window counts
        last = min(max(last, first + noise.least_bins - 1), parts.last_bin)
        first = max(min(first, last - noise.least_bins + 1), parts.first_bin)
    if estimated and last + 1 - first < noise.least_bins:
        raise ValueError(
            f"the noise floor needs {noise.least_bins} bins and the SFTs hold {last + 1 - first}: widen their band, "
            "give sqrt_sx, or lower median_bins or off_source."
        )
    return first, last


def _finished(
    observation: Observation, noise: Noise, target: Target, samples: np.ndarray, psd: list[np.ndarray]
) -> NarrowData:
    """Return narrow data weighted by the noise floors at the signal, (n,) float64 for each detector."""
    weights, mean_inverse = noise_weights(psd)
    n = len(target.band)
    response = noise.signal_response(n, float(target.band[-1] - target.band[0]) / max(n - 1, 1))
    own = weighted(observation, weights, mean_inverse, response)
    samples = samples / np.sqrt(mean_inverse)
    for detector, mine in zip(observation.detectors, samples, strict=True):
        refuse_loud(float(np.vdot(mine, mine).real), detector)
    time = target.centres[:, None] + target.half * nodes(NODES)
    return NarrowData(
        observation=own,
        samples=on_device(samples),
        sites=_sites(observation, target.point, time),
        centre=target.point,
        reach=on_device(np.float64(target.reach)),
    )


@jax.jit
def _sites(observation: Observation, centre: Doppler, time: jax.Array) -> Sites:
    source = observation.source(centre)
    return jax.vmap(lambda own: sites(own, source, time))(observation.trajectory)
