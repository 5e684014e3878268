"""From prepared data and one template to narrow data around it: the first step of a follow-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jfstat.data.direct import heterodyned_cycles
from jfstat.data.fstatdata import FstatData, static
from jfstat.data.narrowdata import NarrowData
from jfstat.data.nearby import NODES, chebyshev_coefficients, chebyshev_nodes
from jfstat.data.plan import BLOCK_CYCLES, RINGING
from jfstat.data.timing import node_times, phase_cubic
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.nearby import sites
from jfstat.geometry.orbit import cubic_length
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.lengths import largest_divisor
from jfstat.statistic.check import check_data, check_point
from jfstat.statistic.resample import phasor
from jfstat.templates import Doppler
from jfstat.validation import frequency

SIDEREAL_DAY = 86164.1
"""s."""
USUAL_BINS = 7.5
"""Least reach in units of 1/T."""
HARMONICS, HARMONIC_DAYS, MOST_HARMONICS = 0.8, 16.0, 4.0
"""Least reach in turns a day: one for long data; in some days, the Earth's rotation is what tells sky positions apart,
and templates on a candidate's peak differ by a phase that swings by a good part of a cycle every day."""
ORBIT_HARMONICS = 3.2
"""Reach in units of the orbit's rate at periapsis."""
COARSE_TURNS = 1.2
"""Turns of a phase factor, at the edge of the reach, over a block: `NODES` Chebyshev polynomials follow it to 1e-7."""
FINE_NODES, FINE_TURNS = 6, 0.085
"""The same for the blocks in which samples are first summed: to 2e-8."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class NarrowPlan:
    """Sizes of narrow data; the same for other data of such sizes compile nothing anew.

    Attributes
    ----------
    first : (B,) int32
        For each block that holds data, the first of its fine blocks. The series' last block ends where the series does
        and so overlaps with the one before, which keeps the data of both.
    overlap : () int32
        Fine blocks of the last one, if it is there, that belong to the one before.
    fine : int, static
        Samples of the blocks that are summed first.
    per_block : int, static
        Such blocks in each block of the narrow data.
    """

    first: np.ndarray
    overlap: np.ndarray
    fine: int = static()
    per_block: int = static()


def usual_reach(data: FstatData, point: Doppler) -> float:
    """Reach that suffices for a candidate's peak and its surroundings, Hz; for a stack, the largest."""
    days = float(data.tspan) / SIDEREAL_DAY
    reach = max(USUAL_BINS / days, min(HARMONICS + HARMONIC_DAYS / days, MOST_HARMONICS)) / SIDEREAL_DAY
    if point.orbit is None:
        return reach
    ecc = np.asarray(point.orbit.ecc)
    rate = np.sqrt(1 + ecc) / (1 - ecc) ** 1.5 / np.asarray(point.orbit.period)
    return max(reach, USUAL_BINS / float(data.tspan) + ORBIT_HARMONICS * float(np.max(rate)))


def narrow_plan(data: FstatData, point: Doppler, reach: float) -> NarrowPlan:
    """Blocks for a template, or for a stack of them; done before tracing."""
    band, layout = data.band, data.layout
    dt = float(band.dt)
    seconds = FINE_TURNS / (reach + 2 / SIDEREAL_DAY)  # the patterns turn as well, twice a day
    if point.orbit is not None:
        length = cubic_length(point.orbit, point.fkdot[..., 0], BLOCK_CYCLES / 16)  # as good as the direct sum
        # whole powers of two: candidates with other orbits then share compiled code
        seconds = min(seconds, 2.0 ** np.floor(np.log2(float(jnp.min(length)))))
    fine = largest_divisor(layout.block, seconds / dt)
    n_fine = data.series.shape[1] // fine
    per_block = min(n_fine, max(1, int(COARSE_TURNS / reach / (fine * dt))))
    n_blocks = -(-n_fine // per_block)

    edges = float(band.start) + fine * per_block * dt * np.arange(n_blocks + 1)
    half_pass = 0.5 * float(band.pass_high - band.pass_low)
    quiet = RINGING / (0.5 / float(band.dtau) - half_pass)  # what the low-pass rings for is signal
    start = np.asarray(data.coverage.start)[np.asarray(data.coverage.weight) > 0]
    first = np.searchsorted(edges, start - quiet, side="right") - 1
    last = np.searchsorted(edges, start + float(data.coverage.tsft) + quiet, side="right") - 1
    used = np.zeros(n_blocks + 2, int)
    np.add.at(used, np.clip(first, 0, n_blocks - 1), 1)
    np.add.at(used, np.clip(last, 0, n_blocks - 1) + 1, -1)
    kept = np.flatnonzero(np.cumsum(used)[:n_blocks] > 0)
    first = np.minimum(kept * per_block, n_fine - per_block)
    overlap = kept[-1] * per_block - first[-1]
    return NarrowPlan(first.astype(np.int32), np.asarray(overlap, np.int32), fine, per_block)


def narrow(data: FstatData, point: Doppler, *, reach: Any = None) -> NarrowData:
    """Compress the data to what templates close to one need: some hundred samples instead of millions.

    The template's phase is taken off, and what is left, times the five harmonics of the antenna patterns, is summed
    over blocks of time against polynomials. 2F from it then costs microseconds; `twoF`, `fstat` and
    `estimate_amplitude` take it in place of the data and give the same numbers, to 1e-6 of 2F, for templates whose
    frequency at the detectors stays within `reach` of this template's. They refuse others, as `twoF` does those that do
    not fit the data: with a ValueError, or NaN where values are traced. `jfstat.covers` asks beforehand.

    Parameters
    ----------
    data : FstatData
    point : Doppler
        One template, scalar fields: the centre.
    reach : float or Quantity, optional
        Hz. By default 7.5/T or 0.8 + 16 d/T (4 at most) turns a day, whichever is more, and with an orbit 3.2 turns an
        orbit at periapsis besides: that holds a candidate's peak and its nearest neighbours.

    Returns
    -------
    NarrowData

    Raises
    ------
    ValueError
        If the template is a stack or does not fit the data, or `reach` is not positive.

    Notes
    -----
    A sum over samples x_n g(t_n) with a g that is smooth over a block is one over g's values at a block's Chebyshev
    nodes, whose weights are sums of x_n times Lagrange's polynomials: interpolation turned round. It needs no filter,
    and gaps cost nothing. Design: the atoms of LALSuite's Demod, but over days instead of one SFT, and exact.
    """
    check_data(data)
    check_point(data, point)
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((data.band, point.orbit))):
        raise ValueError("narrow chooses sizes by the data and the orbit, which must not be traced: call it outside.")
    if reach is not None:
        reach = frequency(reach, "reach")
        if not reach > 0:
            raise ValueError(f"reach must be positive, not {reach}: give it in Hz, or None.")
    reach = usual_reach(data, point) if reach is None else reach
    return narrowed(data, point, reach, narrow_plan(data, point, reach))


@jax.jit
def narrowed(data: FstatData, point: Doppler, reach: float, plan: NarrowPlan) -> NarrowData:
    """`narrow` after all decisions; for one template, and traceable."""
    size = plan.fine * plan.per_block
    start = data.band.start + data.band.dt * (plan.fine * jnp.asarray(plan.first).astype(jnp.float64) - 0.5)
    time = start[:, None] + data.band.dt * (0.5 * size) * (1 + jnp.asarray(chebyshev_nodes(NODES)))
    samples = jax.lax.map(lambda x: compressed(data, point, plan, *x), (data.series, data.trajectory))
    return NarrowData(
        samples=samples,
        sites=jax.vmap(lambda trajectory: sites(trajectory, point, time))(data.trajectory),
        centre=point,
        response=data.response,
        moments=data.moments,
        sinv_tsft=data.sinv_tsft,
        middle=data.band.middle,
        reach=jnp.asarray(reach, jnp.float64),
        detectors=data.detectors,
        epoch=data.epoch,
        reftime=data.reftime,
        ephemeris=data.ephemeris,
    )


def compressed(
    data: FstatData, point: Doppler, plan: NarrowPlan, series: jax.Array, trajectory: Trajectory
) -> jax.Array:
    """Samples of one detector at the nodes, for each harmonic: (5, B, NODES) complex128.

    Parameters
    ----------
    series : (N,) complex64
    trajectory : Trajectory
    """
    band, fine = data.band, plan.fine
    n_fine = series.shape[0] // fine
    t = node_times(band.start, band.dt, fine, n_fine)
    phase = phase_cubic(heterodyned_cycles(data, point, trajectory, t), fine)

    # per sample all is float32: its rounding is noise of 1e-7, the same for all templates that will look at the sums
    cos, sin = (x[:, 0] for x in phasor(phase, fine, fine))
    blocks = series.reshape(n_fine, fine)
    real, imag = blocks.real, blocks.imag
    to_nodes = jnp.asarray(lagrange(FINE_NODES, (2.0 * np.arange(fine) + 1) / fine - 1).astype(np.float32))
    at_nodes = jax.lax.complex(
        ((real * cos - imag * sin) @ to_nodes).astype(jnp.float64),
        ((imag * cos + real * sin) @ to_nodes).astype(jnp.float64),
    )

    centres = band.start + band.dt * (fine * jnp.arange(n_fine, dtype=jnp.float64) + 0.5 * (fine - 1))
    inner = centres[:, None] + band.dt * (0.5 * fine) * jnp.asarray(chebyshev_nodes(FINE_NODES))
    turned = at_nodes[..., None] * harmonics(trajectory.sidereal(inner)).astype(at_nodes.dtype)  # (n_fine, M, 5)
    n_blocks = plan.first.shape[0]
    place = jnp.arange(plan.per_block, dtype=jnp.int32)
    own = (jnp.arange(n_blocks)[:, None] < n_blocks - 1) | (place >= plan.overlap)
    grouped = jnp.where(own[..., None, None], turned[jnp.asarray(plan.first)[:, None] + place], 0)
    grouped = grouped.reshape(n_blocks, -1, 5)
    places = (np.arange(plan.per_block)[:, None] + 0.5 * (1 + chebyshev_nodes(FINE_NODES))) * (2 / plan.per_block) - 1
    spread = jnp.asarray(lagrange(NODES, places.ravel()))
    return jnp.einsum("bqh,qk->hbk", grouped, spread.astype(grouped.dtype)) * band.dt.astype(grouped.dtype)


def lagrange(n: int, x: np.ndarray) -> np.ndarray:
    """Lagrange's polynomials of n Chebyshev nodes at places x in [-1, 1]: (len(x), n) float64."""
    return np.polynomial.chebyshev.chebvander(x, n - 1) @ chebyshev_coefficients(n)
