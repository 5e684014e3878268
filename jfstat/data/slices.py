"""Divide time into slices: find which samples of the band series and which parts of the SFTs belong to each."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.direct import Pieces, direct_block
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NODES, NarrowData
from jfstat.data.observation import Observation
from jfstat.geometry.antenna import harmonics_of
from jfstat.geometry.rotation import sidereal_time
from jfstat.maths.arrays import any_traced
from jfstat.maths.chebyshev import nodes
from jfstat.signal.templates import Doppler

USUAL_DURATION = 1800.0
"""Default duration of the slices of prepared data, s."""
SHORTEST = 2.0
"""Least duration of a slice, in samples of the band series, which does not resolve shorter times."""
MOST_SLICES = 1 << 24
"""Largest number of slices; a larger one is taken for a mistake."""
ROUNDING = 1e-9
"""Fraction of a slice by which the data's span must exceed the last slice for another one to begin."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Slices:
    """Consecutive slices of time, the same for all detectors.

    Attributes
    ----------
    start, end : (K,) float64
        s since the epoch.
    moments : (D, K, 5, 5) float64
        Contribution of each slice to `Observation.moments`, which is the sum over slices.
    """

    start: np.ndarray
    end: np.ndarray
    moments: np.ndarray


def times_traced(data: FstatData | NarrowData) -> bool:
    """Return whether the times of data, from which slices follow, are traced."""
    return any_traced(data.observation, data.band if isinstance(data, FstatData) else data.sites.time)


def regular_slices(data: FstatData, point: Doppler, duration: float) -> tuple[Slices, Pieces]:
    """Return slices of equal duration from the start of the data on, and their samples.

    A sample belongs to the slice that its time lies in. The low-pass rings into gaps, and that is signal: samples in a
    gap of a detector belong to the data nearest to them. An edge within a sample of a gap counts as in the gap.

    Parameters
    ----------
    data : FstatData
        Concrete.
    point : Doppler
        Only whether it has an orbit matters, which decides on the blocks of the direct sum.
    duration : float
        s.

    Raises
    ------
    ValueError
        If slices are shorter than `SHORTEST` samples, or too many.
    """
    edges, cuts, pieces = regular_cuts(data, point, duration)
    return Slices(edges[:-1], edges[1:], slice_moments(data.observation, cuts)), pieces


def regular_cuts(data: FstatData, point: Doppler, duration: float) -> tuple[np.ndarray, list[np.ndarray], Pieces]:
    """Return edges of slices, times at which each detector's data are cut, and samples, for `regular_slices`.

    Returns
    -------
    edges : (K + 1,) float64
        s since the epoch.
    cuts : list of D (K - 1,) float64 ndarrays
        Half-way between the last sample of a slice and the first of the next, s since the epoch.
    pieces : Pieces
    """
    observation, band = data.observation, data.band
    dt, origin = float(band.dt), float(band.start)
    if duration < SHORTEST * dt:
        raise ValueError(
            f"duration must be at least {SHORTEST:g} samples of the prepared series, {SHORTEST * dt:.3g} s, not "
            f"{duration:g} s: give a longer one, or prepare a wider band."
        )
    span = float(observation.tspan)
    start = float(observation.middle) - 0.5 * span
    number = max(1, int(np.ceil(span / duration - ROUNDING)))
    if number > MOST_SLICES:
        raise ValueError(f"duration of {duration:g} s makes {number} slices: give a longer one.")
    edges = start + duration * np.arange(number + 1)
    n_samples = data.series.shape[-1]
    cuts, firsts = [], []
    for own_start, weight in zip(np.asarray(observation.start), np.asarray(observation.weight), strict=True):
        inner = _moved_in_gaps(edges[1:-1], own_start[weight > 0], float(observation.tsft), dt)
        first = np.clip(np.ceil((inner - origin) / dt - ROUNDING), 0, n_samples).astype(np.int64)
        firsts.append(np.concatenate([[0], first, [n_samples]]))
        cuts.append(origin + dt * (first - 0.5))
    block = direct_block(data.layout.block_of(point.orbit is not None))
    return edges, cuts, _pieces(firsts, block, max(1, int(np.ceil(duration / dt))))


def _moved_in_gaps(edges: np.ndarray, start: np.ndarray, tsft: float, dt: float) -> np.ndarray:
    """Return edges of slices, of which any in a detector's gap, or within a sample of it, are moved to its middle.

    The middles of the gaps before the first SFT and after the last are infinitely far away.

    Parameters
    ----------
    edges : (n,) float64
        s since the epoch.
    start : (n_sfts,) float64
        Starts of the detector's SFTs, s since the epoch.
    """
    if not len(start):
        return edges
    low, high = np.append(-np.inf, start + tsft), np.append(start, np.inf)
    wide = high - low >= dt
    low, high = low[wide], high[wide]
    last = np.maximum(np.searchsorted(low, edges + dt, side="right") - 1, 0)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(low), low, np.where(np.isinf(high), high, 0.5 * (low + high)))
    return np.where(edges <= high[last] + dt, middle[last], edges)


def _pieces(firsts: list[np.ndarray], block: int, slice_samples: int) -> Pieces:
    """Return the pieces of slices that begin at samples `firsts`, (K + 1,) per detector, the last being the end."""
    n_samples = int(firsts[0][-1])
    sizes = {min(block, -(-whole // parts)) for whole in (block, slice_samples) for parts in (1, 2, 3, 4)}
    runs = []
    for first in firsts:
        edge = np.unique(np.concatenate([first, np.arange(0, n_samples, block)]))
        runs.append((edge[:-1], np.diff(edge)))
    size = min(sizes, key=lambda size: (size + 8) * sum(int(np.sum(-(-n // size))) for _, n in runs))
    found = []
    for first, (begin, length) in zip(firsts, runs, strict=True):
        each = -(-length // size)
        place = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
        sample = np.repeat(begin, each) + size * place
        count = np.minimum(np.repeat(length, each) - size * place, size)
        found.append([sample // block, sample % block, count, np.searchsorted(first, sample, side="right") - 1])
    most = max(len(own[0]) for own in found)
    arrays = (np.stack([np.pad(own[i], (0, most - len(own[i]))) for own in found]).astype(np.int32) for i in range(4))
    block_of, first_of, count, slice_of = arrays
    # padding belongs to the last slice, so that numbers of slices rise
    slice_of = np.where(count > 0, slice_of, len(firsts[0]) - 2).astype(np.int32)
    return Pieces(block_of, first_of, count, slice_of, size)


def block_slices(data: NarrowData) -> Slices:
    """Return the blocks of narrow data as slices; blocks that hold no data have no length."""
    time = np.asarray(data.sites.time)[0]
    x = nodes(NODES)
    half = (time[:, -1] - time[:, 0]) / (x[-1] - x[0])
    centre = 0.5 * (time[:, -1] + time[:, 0])
    end = np.maximum.accumulate(centre + half)
    start = np.maximum(centre - half, np.concatenate([[-np.inf], end[:-1]]))
    cuts = [end[:-1]] * len(data.detectors)
    return Slices(start, end, slice_moments(data.observation, cuts))


def slice_moments(observation: Observation, cuts: list[np.ndarray]) -> np.ndarray:
    """Return moments of the sidereal harmonics for the data between cuts: (D, K, 5, 5) float64.

    They are differences of the integral up to each cut, so that they add up, to rounding, to the moments of all data.

    Parameters
    ----------
    cuts : list of D (K - 1,) ndarrays
        Ascending, s since the epoch.
    """
    epoch, tsft = int(observation.epoch), float(observation.tsft)
    out = []
    for start, weight, cut in zip(np.asarray(observation.start), np.asarray(observation.weight), cuts, strict=True):
        start, weight = start[weight > 0], weight[weight > 0]
        whole = np.concatenate([np.zeros((1, 5, 5)), np.cumsum(_moments(start, weight, tsft, tsft, epoch), axis=0)])
        begun = np.searchsorted(start, cut)  # SFTs that start before the cut; the last of them may be cut
        last = np.maximum(begun - 1, 0)
        if len(start):
            length = np.where(begun > 0, np.clip(cut - start[last], 0.0, tsft), 0.0)
            partial = _moments(start[last], weight[last], length, tsft, epoch)
        else:
            partial = np.zeros((len(cut), 5, 5))
        upto = np.concatenate([np.zeros((1, 5, 5)), whole[last] + partial, whole[-1:]])
        out.append(np.diff(upto, axis=0))
    return np.stack(out)


def _moments(start: np.ndarray, weight: np.ndarray, length: np.ndarray | float, tsft: float, epoch: int) -> np.ndarray:
    """Return integrals of w h h^T / Tsft, h the sidereal harmonics, from each start for a length: (n, 5, 5).

    As in `jfstat.data.observation`, with three Gauss-Legendre nodes.
    """
    x, node_weights = np.polynomial.legendre.leggauss(3)
    t = start[:, None] + 0.5 * np.broadcast_to(length, start.shape)[:, None] * (1 + x)
    h = np.stack(harmonics_of(np, sidereal_time(epoch, t)), axis=-1)
    each = (weight * length / tsft)[:, None] * (0.5 * node_weights)
    return np.einsum("nqi,nqj,nq->nij", h, h, each)


def matrices(moments: jax.Array, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return A, B and C, (D, K) float64 each, from moments (D, K, 5, 5) and the patterns' coefficients, (D, 5)."""
    of_a = jnp.einsum("dkij,dj->dki", moments, a)
    of_b = jnp.einsum("dkij,dj->dki", moments, b)
    return (
        jnp.einsum("dki,di->dk", of_a, a),
        jnp.einsum("dki,di->dk", of_b, b),
        jnp.einsum("dki,di->dk", of_a, b),
    )
