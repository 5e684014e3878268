"""Follow the signal of a template known beforehand: its phase and its bin in each SFT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from jfstat.data.moments import TOLERATED_BINS
from jfstat.data.narrow import COARSE_TURNS, usual_reach
from jfstat.data.observation import Observation
from jfstat.geometry.doppler import doppler_speed
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.ladder import padded_size
from jfstat.sfts.container import SFTs
from jfstat.signal.templates import Doppler

ROWS = 384
"""SFTs of a detector that are read and summed at a time."""
PHASE_ROWS = 2048
"""Number of SFTs whose phases are computed at a time, if there are more than `ROWS`: each call projects a detector's
whole trajectory.
"""
FLOOR_BINS = 25
"""Most bins between the running medians of a signal's band."""
MOST_MOMENTS = 320
"""Largest number of moments; a template that needs more moves through too many bins within an SFT."""
PHASES = 12
"""Chebyshev nodes, ends included, at which a template's phase is computed in each SFT."""
BENDS = 1e-4
"""Root mean square over the SFTs of the last two Chebyshev coefficients of that phase, cycles; the neglected ones are
smaller. A fraction (2 pi BENDS)^2 of rho^2 is lost. At a leap second the Earth's rotation in LALSuite's model jumps
(see `geometry.trajectory`): the SFT at that time alone has up to 1e-4.
"""


class MovesTooFast(ValueError):
    """Error for a signal that moves through too many bins within an SFT for narrow data without a wide series.

    Attributes
    ----------
    point : Doppler
        Its template.
    """

    def __init__(self, text: str, point: Doppler):
        super().__init__(text)
        self.point = point


@dataclass(frozen=True, eq=False)
class Phases:
    """A template's phase above the heterodyne over each of some SFTs: first + turns (0 to 1) + bend, cycles.

    Attributes
    ----------
    first, turns : (n,) float64 ndarrays
        Phase at the start of each SFT, and how much it grows until the end.
    bend : (n, PHASES) float32 ndarray
        Remaining phase at the nodes `_ends_and_between`.
    """

    first: np.ndarray
    turns: np.ndarray
    bend: np.ndarray


def _ends_and_between() -> np.ndarray:
    """Return the Chebyshev nodes in [-1, 1], ends included, (PHASES,) float64."""
    return -np.cos(np.pi * np.arange(PHASES) / (PHASES - 1))


@lru_cache(maxsize=1)
def phase_series() -> np.ndarray:
    """Return the matrix from values at `_ends_and_between` to Chebyshev coefficients: (PHASES, PHASES) float64."""
    return np.linalg.inv(chebyshev.chebvander(_ends_and_between(), PHASES - 1))


@jax.jit
def _phases(
    observation: Observation, trajectory: Trajectory, point: Doppler, start: jax.Array, heterodyne: jax.Array
) -> tuple[jax.Array, ...]:
    """Return the fields of `Phases`, the bend's largest slope in each SFT, bins, and its larger last coefficient."""
    source, tsft = observation.source(point), observation.tsft
    u = _ends_and_between()
    into = jnp.asarray(0.5 * (1 + u))
    cycles = source.heterodyned_cycles(trajectory, start[:, None] + tsft * into, heterodyne, many=True)
    first, turns = cycles[:, 0], cycles[:, -1] - cycles[:, 0]
    bend = cycles - first[:, None] - turns[:, None] * into
    series = bend @ jnp.asarray(phase_series().T)
    slopes = 2 * chebyshev.chebvander(u, PHASES - 2) @ chebyshev.chebder(np.eye(PHASES))
    steepest = jnp.max(jnp.abs(series @ jnp.asarray(slopes.T)), axis=1)
    return first, turns, bend.astype(jnp.float32), steepest, jnp.max(jnp.abs(series[:, -2:]), axis=1)


@dataclass(frozen=True, eq=False)
class Target:
    """One template, and where its signal is in the SFTs.

    Attributes
    ----------
    point : Doppler
    reach : float
        Reach of the narrow data, Hz.
    heterodyne : int
        Bin whose frequency is subtracted from the template's.
    band : (m,) int ndarray
        Bins from the lowest to the highest where the signal may be, evenly spaced and at most `FLOOR_BINS` apart.
    phases : list of Phases
        Phases of the template in the SFTs of each detector.
    n_moments : int
    centres, half : (B,) float64 ndarray, float
        Blocks of the narrow data, s; B is a power of two.
    block : list of (n,) int ndarrays
        Number of the block of each SFT.
    """

    point: Doppler
    reach: float
    heterodyne: int
    band: np.ndarray
    phases: list[Phases]
    n_moments: int
    centres: np.ndarray
    half: float
    block: list[np.ndarray]

    def bins(self, i: int) -> np.ndarray:
        """Return the signal's bin in each SFT of detector i, (n,) float64."""
        return self.heterodyne + self.phases[i].turns


def target_of(
    observation: Observation, trajectories: Sequence[Trajectory], times: SFTs, point: Doppler, least_reach: float = 0.0
) -> Target:
    """Return the target of one concrete template in SFTs whose detectors have these trajectories.

    The narrow data reach as far as usual, or `least_reach`, Hz, if that is farther, up to about the width of a bin.

    Raises
    ------
    MovesTooFast
        If its signal moves through too many bins within an SFT.
    """
    tsft, epoch = times.tsft, int(observation.epoch)
    heterodyne = round(float(np.asarray(point.fkdot)[0]) * tsft)
    phases, steepest, neglected = [], 0.0, []
    for series, trajectory in zip(times, trajectories, strict=True):
        own, size = [], ROWS if len(series) <= ROWS else PHASE_ROWS
        for rows in chunks(len(series), size):
            start = filled(series.since(epoch)[rows], size)
            fields = _phases(observation, trajectory, point, start, np.float64(heterodyne / tsft))
            own.append([np.asarray(x)[: rows.stop - rows.start] for x in fields])
        *fields, steep, rest = (np.concatenate(parts) for parts in zip(*own, strict=True))
        phases.append(Phases(*fields))
        steepest = max(steepest, float(steep.max()))
        neglected.append(rest)
    # polynomials follow exp(i b u) from somewhat more than b terms on; few sizes, which share programs
    turning = np.pi * (1.05 * steepest + TOLERATED_BINS)
    n_moments = 8 * int(np.ceil((12 + 1.15 * turning) / 8))
    bends = np.sqrt(np.mean(np.concatenate(neglected) ** 2))
    if n_moments > MOST_MOMENTS or bends > BENDS:
        raise MovesTooFast(
            f"point's frequency changes by some {steepest / tsft:.2g} Hz within an SFT, too much for its moments: make "
            "shorter SFTs, or use jfstat.prepare and jfstat.narrow.",
            point,
        )
    reach = usual_reach(observation, point)
    length = COARSE_TURNS / reach
    if least_reach > reach:
        # SFTs reach beyond their block, by half of their length on each side, and a block is no shorter than one
        length = max(COARSE_TURNS / least_reach, 2 * tsft) - tsft
        reach = COARSE_TURNS / (length + tsft)
    start = min(float(series.since(epoch)[0]) for series in times if len(series))
    span = float(observation.tspan)
    n_blocks = max(1, int(np.ceil(span / length)))
    length = span / n_blocks
    middles = [series.since(epoch) + 0.5 * tsft for series in times]
    block = [np.clip(((x - start) / length).astype(int), 0, n_blocks - 1) for x in middles]
    # the last one is repeated up to one of few sizes, which share programs
    centres = start + length * (np.minimum(np.arange(padded_size(n_blocks, 1)), n_blocks - 1) + 0.5)
    sway = float(doppler_speed(point.orbit)) * heterodyne
    band = np.round(heterodyne + np.linspace(-sway, sway, 2 * int(np.ceil(sway / FLOOR_BINS)) + 1)).astype(int)
    return Target(point, reach, heterodyne, band, phases, n_moments, centres, 0.5 * (length + tsft), block)


def chunks(n: int, size: int = ROWS) -> Iterator[slice]:
    """Yield the rows of n SFTs in parts of `size`."""
    return (slice(low, min(low + size, n)) for low in range(0, n, size))


def filled(x: np.ndarray, size: int = ROWS) -> np.ndarray:
    """Return rows repeated up to `size`, so that one compiled program serves all."""
    if len(x) == size:
        return x
    return np.pad(x, [(0, size - len(x)), *[(0, 0)] * (x.ndim - 1)], mode="edge")
