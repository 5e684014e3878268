"""Compress the data around one template to narrow data, the first step of a follow-up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import STATIC
from jfstat.data.blocks import node_times, phase_cubic, phasor
from jfstat.data.checks import check_data, check_point
from jfstat.data.datatimes import Times
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NODES, NarrowData
from jfstat.data.observation import Observation
from jfstat.data.plan import BLOCK_CYCLES, SIDEREAL_DAY
from jfstat.data.sizes import ringing
from jfstat.display import Displayed, Facts, brief, is_known
from jfstat.geometry.antenna import harmonics
from jfstat.geometry.nearby import sites
from jfstat.geometry.orbit import cubic_length, periapsis_rate
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.arrays import PRECISE, any_traced
from jfstat.maths.chebyshev import lagrange, nodes
from jfstat.maths.lengths import largest_divisor
from jfstat.public import public
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.validation import DurationLike, FrequencyLike, frequency, positive_seconds, shown

USUAL_BINS = 7.5
"""Least reach in units of 1/T."""
HARMONICS, HARMONIC_DAYS, MOST_HARMONICS = 0.8, 16.0, 4.0
"""Least reach in turns per day: HARMONICS for long data, and more for shorter ones up to MOST_HARMONICS. In a few days
only the Earth's rotation distinguishes sky positions, and the phases of templates on one peak differ by a large part
of a cycle within each day.
"""
ORBIT_HARMONICS = 3.2
"""Least reach in units of the orbit's rate at periapsis."""
COARSE_TURNS = 1.2
"""Turns of a phase factor over a block at the edge of the reach, which `NODES` Chebyshev polynomials follow to 1e-7."""
MODEL_SHORTER = 4
"""Blocks are shorter by this factor with a phase model, which may have kinks that polynomials follow badly."""
FINE_NODES, FINE_TURNS = 6, 0.085
"""Number of nodes, and turns of a phase factor, for the blocks in which samples are first summed, right to 2e-8."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class NarrowPlan:
    """Sizes of narrow data; data with the same sizes use the same compiled program.

    With segments the arrays have a leading segment axis, and the sizes are common to all segments.

    Attributes
    ----------
    first : (B,) int32
        For each block that holds data, the first of its fine blocks. The last block of the series ends with the series,
        so it may overlap with the one before, which keeps the data in both. The last entry is repeated up to a quarter,
        half, three quarters or all of the number of the data's blocks, so that data with other gaps often use the same
        program.
    count : () int32
        Number of blocks without the repetitions.
    overlap : () int32
        Fine blocks of the last block that belong to the one before.
    fine : int, static
        Samples of a fine block; these blocks are summed first.
    per_block : int, static
        Fine blocks in each block of the narrow data.
    """

    first: np.ndarray
    count: np.ndarray
    overlap: np.ndarray
    fine: int = field(metadata=STATIC)
    per_block: int = field(metadata=STATIC)


def usual_reach(data: FstatData | Observation, point: Doppler) -> float:
    """Return the reach that covers the peak of a candidate and its surroundings, Hz; for a stack, the largest."""
    return float(np.max(usual_reaches(data, point)))


def usual_reaches(data: FstatData | Observation, points: Doppler) -> np.ndarray:
    """Return the usual reach of each template of a stack, Hz, (n,) float64."""
    days = float(data.tspan) / SIDEREAL_DAY
    reach = max(USUAL_BINS / days, min(HARMONICS + HARMONIC_DAYS / days, MOST_HARMONICS)) / SIDEREAL_DAY
    if points.orbit is None:
        return np.full(np.shape(points.alpha), reach)
    rate = np.asarray(periapsis_rate(points.orbit)) / (2 * np.pi)
    return np.maximum(reach, USUAL_BINS / float(data.tspan) + ORBIT_HARMONICS * rate)


def narrow_plan(data: FstatData, point: Doppler, reach: float, max_block: float = np.inf) -> NarrowPlan:
    """Return the sizes of narrow data for a template or a stack, from concrete values. With segments, see `NarrowPlan`.

    Blocks are at most `max_block` long, s.
    """
    layout, (band, observation) = data.layout, jax.tree.map(np.asarray, (data.band, data.observation))
    if data.n_segments is None:
        band, observation = jax.tree.map(lambda x: x[None], (band, observation))
    dt = float(band.dt[0])  # equal for all segments, as are all widths
    seconds = FINE_TURNS / (reach + 2 / SIDEREAL_DAY)  # the antenna patterns vary as well, twice a day
    if point.orbit is not None:
        length = cubic_length(point.orbit, point.fkdot[..., 0], BLOCK_CYCLES / 16)  # as accurate as the direct sum
        # a power of two, so that candidates with other orbits use the same compiled program
        seconds = min(seconds, 2.0 ** np.floor(np.log2(float(jnp.min(length)))))
    fine = largest_divisor(layout.block, min(seconds, max_block) / dt)
    step = fine * dt
    half_pass = 0.5 * float(band.pass_high[0] - band.pass_low[0])
    quiet = ringing(half_pass, 0.5 / float(band.dtau[0]))  # the ringing of the low-pass is signal too
    # blocks cover only the time in which data ring: the series may extend beyond the trajectory
    middle, half = observation.middle, 0.5 * observation.tspan + quiet
    origin, available = band.start, data.series.shape[-1] // fine
    begin = np.maximum(0, ((middle - half - origin) / step).astype(int))
    end = np.minimum(np.ceil((middle + half - origin) / step).astype(int) + 1, available)
    n_fine = int(np.max(end - begin))
    begin = np.minimum(begin, available - n_fine)
    turns = COARSE_TURNS / (1 if point.model is None else MODEL_SHORTER)
    per_block = min(n_fine, max(1, int(min(turns / reach, max_block) / step)))
    n_blocks = -(-n_fine // per_block)

    start, weight = observation.start, observation.weight
    places = []
    for i in range(len(begin)):
        edges = origin[i] + step * (begin[i] + per_block * np.arange(n_blocks + 1))
        own = start[i][weight[i] > 0]
        first = np.searchsorted(edges, own - quiet, side="right") - 1
        last = np.searchsorted(edges, own + float(observation.tsft[i]) + quiet, side="right") - 1
        used = np.zeros(n_blocks + 2, int)
        np.add.at(used, np.clip(first, 0, n_blocks - 1), 1)
        np.add.at(used, np.clip(last, 0, n_blocks - 1) + 1, -1)
        places.append(np.flatnonzero(np.cumsum(used)[:n_blocks] > 0))
    count = np.array([len(kept) for kept in places], np.int32)
    quarter = -(-n_blocks // 4)
    size = min(n_blocks, -(-int(np.max(count)) // quarter) * quarter)
    kept = np.stack([np.pad(own, (0, size - len(own)), mode="edge") for own in places])
    first = begin[:, None] + np.minimum(kept * per_block, n_fine - per_block)
    overlap = (begin + kept[:, -1] * per_block - first[:, -1]).astype(np.int32)
    plan = NarrowPlan(first.astype(np.int32), count, overlap, fine, per_block)
    return plan if data.n_segments is not None else jax.tree.map(lambda x: x[0], plan)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class NarrowSizes(Displayed):
    """Sizes and reach of narrow data, for `narrow` of traced data; made by `jfstat.narrow_sizes`.

    A pytree: pass it to jitted functions as an argument, or close over it. They suit all data with the same times and
    frequencies: other realisations of the noise, other weights.

    Attributes
    ----------
    plan : NarrowPlan
    reach : () float64
        Hz.
    times : Times
        Times of the data for which the sizes were made.
    orbit, model : bool, static
        Whether the template has an orbit, and a phase model.
    """

    plan: NarrowPlan
    reach: jax.Array
    times: Times
    orbit: bool = field(metadata=STATIC)
    model: bool = field(metadata=STATIC)

    def _facts(self) -> Facts:
        reach = f"{float(self.reach):.4g} Hz" if is_known(self.reach) else brief(self.reach)
        words = {"blocks": self.plan.first.shape[-1], "reach": reach, "orbit": self.orbit, "model": self.model}
        return Facts("NarrowSizes", [(name, str(value)) for name, value in words.items()])


@public(point=template_of_any)
def narrow_sizes(
    data: FstatData, point: Doppler, *, reach: FrequencyLike | None = None, max_block: DurationLike | None = None
) -> NarrowSizes:
    """Choose the sizes of narrow data beforehand, so that `narrow` works on traced data: under jit and vmap over data.

    Parameters
    ----------
    data : FstatData
        One of the data sets that will be narrowed, or any with the same times and frequencies.
    point : Doppler
        A template like those that will be centres: its orbit, if any, decides on the sizes.
    reach, max_block
        See `narrow`.

    Returns
    -------
    NarrowSizes

    Raises
    ------
    TypeError, ValueError
        See `narrow`.

    Examples
    --------
    >>> sizes = jfstat.narrow_sizes(data, point)
    >>> near = jax.jit(jfstat.narrow)(data, point, sizes=sizes)
    >>> abs(float(jfstat.twoF(near, point) / jfstat.twoF(data, point)) - 1) < 1e-5
    True
    """
    check_data(data, or_segments=True)
    check_point(data, point)
    plan, width = _plan_and_reach(data, point, reach, max_block)
    with jax.ensure_compile_time_eval():
        times = jax.tree.map(jnp.asarray, Times.of(data))
        return NarrowSizes(plan, jnp.asarray(width), times, point.orbit is not None, point.model is not None)


@public(point=template_of_any)
def narrow(
    data: FstatData,
    point: Doppler,
    *,
    reach: FrequencyLike | None = None,
    max_block: DurationLike | None = None,
    sizes: NarrowSizes | None = None,
) -> NarrowData:
    """Compress the data for templates close to a given one: some thousand samples instead of up to millions.

    The template's phase is removed from the data. They are multiplied by the five harmonics of the antenna patterns and
    summed over blocks of time against polynomials. 2F of the result costs microseconds: `twoF`, `fstat` and
    `estimate_amplitude` take it in place of the data and give the same numbers, to 1e-6 of 2F, for templates whose
    frequency at the detectors stays within `reach` of this template's. Other templates give a ValueError, or NaN where
    values are traced, as do templates that do not fit the data; `jfstat.covers` tells beforehand whether a template is
    within reach.

    Parameters
    ----------
    data : FstatData
        May have a leading axis of segments.
    point : Doppler or Row
        One template, scalar fields: the centre.
    reach : float or Quantity, optional
        Hz. By default the larger of 7.5/T and 0.8 + 16 d/T (at most 4) turns per day, and with an orbit at least 7.5/T
        plus 3.2 times its rate at periapsis: this covers a candidate's peak and its nearest neighbours.
    max_block : float or Quantity, optional
        Longest block, s. Blocks are the slices of `jfstat.atoms` of narrow data; by default they last up to a day.
    sizes : NarrowSizes, optional
        From `narrow_sizes`, instead of `reach` and `max_block`: `narrow` then works on traced data, for ``jax.vmap``
        over realisations of the noise. Where values are traced, a template that does not fit the data, whose orbit is
        too fast for the sizes, or data with other times than those of the sizes, make the result NaN.

    Returns
    -------
    NarrowData
        With segments a stack, one for each, as `mean_twoF` takes it.

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.
    ValueError
        If the template is a stack or does not fit the data, `reach` or `max_block` is not positive, or `sizes` are of
        other data; or if `data` are traced and there are no `sizes`.

    Notes
    -----
    If g is smooth over a block, the sum over samples of x_n g(t_n) is a sum over the values of g at the block's
    Chebyshev nodes, weighted by sums of x_n times Lagrange polynomials: the transpose of interpolation. It needs no
    filter, and gaps cost nothing. The result resembles the atoms of LALSuite's Demod, but it spans days instead of one
    SFT and is exact.

    Examples
    --------
    >>> near = jfstat.narrow(data, point)
    >>> abs(float(jfstat.twoF(near, point) / jfstat.twoF(data, point)) - 1) < 1e-5
    True
    """
    check_data(data, or_segments=True)
    check_point(data, point)
    if sizes is not None:
        _check_sizes(data, point, sizes)
        if reach is not None or max_block is not None:
            raise ValueError("reach and max_block do not go with sizes, which were made for some: leave them out.")
        return _narrowed_to(data.for_one_template, point, sizes)
    plan, width = _plan_and_reach(data, point, reach, max_block)
    return narrowed(data.for_one_template, point, width, plan)


def _plan_and_reach(
    data: FstatData, point: Doppler, reach: FrequencyLike | None, max_block: DurationLike | None
) -> tuple[NarrowPlan, float]:
    """Return the sizes and the reach, Hz, of narrow data from the arguments of `narrow`."""
    decisive = (data.band, data.observation) + (() if point.orbit is None else (point.orbit, point.fkdot))
    if any_traced(decisive):
        raise ValueError(
            "data, and point if it has an orbit, must not be traced, since sizes of narrow data follow from them: give "
            "jfstat.narrow sizes= from jfstat.narrow_sizes, called outside."
        )
    if reach is not None:
        reach = frequency(reach, "reach")
        if not reach > 0:
            raise ValueError(f"reach must be positive, not {reach}: give it in Hz, or None.")
    longest = np.inf if max_block is None else positive_seconds(max_block, "max_block")
    with jax.ensure_compile_time_eval():  # under an outer jit, constants stay constants
        width = usual_reach(data, point) if reach is None else reach
        return narrow_plan(data, point, width, longest), width


def _check_sizes(data: FstatData, point: Doppler, sizes: object) -> None:
    """Raise an error unless sizes were made for data and a template like these."""
    if not isinstance(sizes, NarrowSizes):
        raise TypeError(f"sizes must be NarrowSizes from jfstat.narrow_sizes, not {shown(sizes)}: make them first.")
    if sizes.orbit != (point.orbit is not None) or sizes.model != (point.model is not None):
        raise ValueError("sizes and point must both be with an orbit or phase model, or without: make other sizes.")
    sizes.times.check(data)


@jax.jit
def _narrowed_to(data: FstatData, point: Doppler, sizes: NarrowSizes) -> NarrowData:
    """Return narrow data of given sizes, NaN where these or the template do not suit the data; traceable."""
    if data.n_segments is not None:
        each = (data, sizes.plan, sizes.times)
        return jax.lax.map(lambda x: _narrowed_to(x[0], point, replace(sizes, plan=x[1], times=x[2])), each)
    near = narrowed(data, point, sizes.reach, sizes.plan)
    good = sizes.times.suit(data) & data.fits(point)
    if point.orbit is not None:
        good &= cubic_length(point.orbit, point.fkdot[0], BLOCK_CYCLES) >= sizes.plan.fine * data.band.dt
    return replace(near, samples=near.samples * jnp.where(good, 1.0, jnp.nan).astype(near.samples.dtype))


@jax.jit
def narrowed(data: FstatData, point: Doppler, reach: float, plan: NarrowPlan) -> NarrowData:
    """Return narrow data for one template and a given plan; traceable."""
    if data.n_segments is not None:
        return jax.lax.map(lambda own: narrowed(own[0], point, reach, own[1]), (data, plan))
    observation, size = data.observation, plan.fine * plan.per_block
    start = data.band.start + data.band.dt * (plan.fine * jnp.asarray(plan.first).astype(jnp.float64) - 0.5)
    time = start[:, None] + data.band.dt * (0.5 * size) * (1 + jnp.asarray(nodes(NODES)))[None]
    centre = observation.source(point)
    return NarrowData(
        observation=observation,
        samples=jax.lax.map(lambda x: compressed(data, centre, plan, *x), (data.series, observation.trajectory)),
        sites=jax.vmap(lambda trajectory: sites(trajectory, centre, time))(observation.trajectory),
        centre=point,
        reach=jnp.asarray(reach, jnp.float64),
    )


def compressed(
    data: FstatData, centre: Source, plan: NarrowPlan, series: jax.Array, trajectory: Trajectory
) -> jax.Array:
    """Return the samples of one detector at the nodes, for each harmonic: (5, B, NODES) complex128.

    Parameters
    ----------
    series : (N,) complex64
    trajectory : Trajectory
    """
    band, fine = data.band, plan.fine
    n_fine = series.shape[0] // fine
    t = node_times(band.start, band.dt, fine, n_fine)
    phase = phase_cubic(centre.heterodyned_cycles(trajectory, t, band.heterodyne, many=True), fine)

    # samples are float32: rounding errors of 1e-7, the same for all templates that use the sums
    cos, sin = (x[:, 0] for x in phasor(phase, fine, fine))
    blocks = series.reshape(n_fine, fine)
    real, imag = blocks.real, blocks.imag
    to_nodes = jnp.asarray(lagrange(FINE_NODES, (2.0 * np.arange(fine) + 1) / fine - 1).astype(np.float32))
    at_nodes = jax.lax.complex(
        jnp.matmul(real * cos - imag * sin, to_nodes, precision=PRECISE).astype(jnp.float64),
        jnp.matmul(imag * cos + real * sin, to_nodes, precision=PRECISE).astype(jnp.float64),
    )

    centres = band.start + band.dt * (fine * jnp.arange(n_fine, dtype=jnp.float64) + 0.5 * (fine - 1))
    inner = centres[:, None] + band.dt * (0.5 * fine) * jnp.asarray(nodes(FINE_NODES))[None]
    turned = at_nodes[..., None] * harmonics(trajectory.sidereal(inner)).astype(at_nodes.dtype)  # (n_fine, M, 5)
    n_blocks = plan.first.shape[0]
    place = jnp.arange(plan.per_block, dtype=jnp.int32)[None]
    number = jnp.arange(n_blocks, dtype=jnp.int32)[:, None]
    own = (number < plan.count) & ((number != plan.count - 1) | (place >= plan.overlap))
    grouped = jnp.where(own[..., None, None], turned[jnp.asarray(plan.first)[:, None] + place], 0)
    grouped = grouped.reshape(n_blocks, -1, 5)
    places = (np.arange(plan.per_block)[:, None] + 0.5 * (1 + nodes(FINE_NODES))) * (2 / plan.per_block) - 1
    spread = jnp.asarray(lagrange(NODES, places.ravel()))
    return jnp.einsum("bqh,qk->hbk", grouped, spread.astype(grouped.dtype)) * band.dt.astype(grouped.dtype)
