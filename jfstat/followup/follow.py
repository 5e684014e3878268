"""Climbing from a batch of candidates to their peaks, in narrow data and whitened coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, narrowed
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.followup.batches import Climbing
from jfstat.followup.free import FreeParameters
from jfstat.maths.newton import CONVERGED, Limits, Maximum, free_steps, held, maximise, pushed_limits
from jfstat.metrics.coordinates import Coordinates, whitened
from jfstat.parameters import physical, values
from jfstat.statistic.fstat import estimate_amplitude_of, fstat_of, shifted_twoF, twoF_of
from jfstat.templates import Doppler

Element = TypeVar("Element")
Result = TypeVar("Result")
APART = 0.4
"""Distance between starts of climbs in whitened coordinates, in which a peak's radius is about 1."""
SCANNED_POINTS, SCANNED = 16, 128
"""Number of trial points at which 2F is computed at many frequencies, half a bin apart, and number of these."""
SCANNED_REACH, WIDE_REACH = 2.0, 0.8
"""How far these frequencies go, in units of the narrow data's reach: 2F is then right to some per cent; and how far if
climbs may start there."""
OWN = 1.5
"""Distance in whitened coordinates up to which they belong to the peak that was climbed."""
SAME = 0.5
"""Square of the distance between maxima, in units of a peak's width, up to which they are one."""


class Peak(NamedTuple):
    """Where a candidate ended; p parameters, D detectors.

    Attributes
    ----------
    point : Doppler
    twoF, start_twoF : () float64
        There and at the start.
    twoF_per_detector : (D,) float64
    covariance : (p, p) float64
        Of the fitted parameters; NaN where 2F has no maximum, and for parameters at their limits.
    share : () float64
        Fraction of the probability on this peak rather than on other peaks that were climbed; see `peak_shares`.
    moved : () float64
        Distance from the start in whitened coordinates.
    steps, status : () int32
        See `Maximum`; the steps of all climbs are added.
    at_limit : (m,) bool
        Which limits stopped the climb.
    tried : () int32
        Trial points within the data's reach and the limits, and surroundings if these are tried too.
    amplitude : (8,) float64
        Estimated there, with errors; see `AmplitudeEstimate.columns`.
    other_freq, other_twoF : () float64
        Frequency of the highest 2F of the surroundings apart from this peak, Hz, and its value there, right to some per
        cent; -inf if the frequency is fixed.
    """

    point: Doppler
    twoF: jax.Array
    start_twoF: jax.Array
    twoF_per_detector: jax.Array
    covariance: jax.Array
    share: jax.Array
    moved: jax.Array
    steps: jax.Array
    status: jax.Array
    at_limit: jax.Array
    tried: jax.Array
    amplitude: jax.Array
    other_freq: jax.Array
    other_twoF: jax.Array


@partial(jax.jit, static_argnames="at_once")
def focus(
    data: FstatData, points: Doppler, reach: float, plan: NarrowPlan, free: FreeParameters, at_once: int
) -> tuple[NarrowData, Coordinates]:
    """Narrow data and whitened coordinates around each of a stack of templates that fit the data; stacked.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack of n templates.
    reach : float
        Hz.
    plan : NarrowPlan
    free : FreeParameters
    at_once : int, static
        Number of templates whose data are compressed together; divides n.
    """

    def one(point: Doppler) -> tuple[NarrowData, Coordinates]:
        near = narrowed(data, point, reach, plan)
        # all candidates have the same observation: `follow` puts it back
        return replace(near, observation=None), whitened(data.observation, point, free.names, free.bounded)

    return _in_groups(one, points, at_once)


def _in_groups(function: Callable[[Element], Result], stack: Element, at_once: int) -> Result:
    """Results of a function for each of n stacked elements, computed for `at_once` of them together, a divisor of n."""
    n = jax.tree.leaves(stack)[0].shape[0]
    groups = jax.tree.map(lambda x: x.reshape(n // at_once, at_once, *x.shape[1:]), stack)
    return jax.tree.map(lambda x: x.reshape(n, *x.shape[2:]), jax.lax.map(jax.vmap(function), groups))


@partial(jax.jit, static_argnames="climbing")
def follow(
    observation: Observation,
    near: NarrowData,
    coordinates: Coordinates,
    free: FreeParameters,
    trials: jax.Array,
    climbing: Climbing,
) -> Peak:
    """Climb from a stack of candidates, n of them.

    Parameters
    ----------
    observation : Observation
    near, coordinates : NarrowData, Coordinates
        From `focus`.
    free : FreeParameters
    trials : (t, p) float64
        Whitened coordinates of points to try; the first should be the origin.
    climbing : Climbing, static
        Its numbers of candidates and of trial points divide n and t.

    Returns
    -------
    Peak
        Leading axis n.
    """

    def one(pair: tuple[NarrowData, Coordinates]) -> Peak:
        near, coordinates = pair
        near = replace(near, observation=observation)
        return _climb(near, coordinates, free, trials, climbing)

    return _in_groups(one, (near, coordinates), climbing.candidates)


def _climb(
    near: NarrowData, coordinates: Coordinates, free: FreeParameters, trials: jax.Array, climbing: Climbing
) -> Peak:
    """Climb from the best trial points around one candidate; see `follow`."""

    def value(x: jax.Array) -> jax.Array:
        point = coordinates.point(x)
        return jnp.where(physical(point), twoF_of(near, point), jnp.nan)

    limits = _parameter_limits(coordinates, free)
    heights = _in_groups(value, trials, climbing.trials)
    allowed = jnp.isfinite(heights) & _within(trials, limits)
    start_twoF = heights[0]
    heights = jnp.where(allowed, heights, -jnp.inf)
    reach = near.reach * (WIDE_REACH if climbing.wide else SCANNED_REACH)
    around = _surroundings(near, coordinates, trials, limits, reach)
    tried = jnp.sum(allowed)
    if climbing.wide:
        trials, heights = jnp.concatenate([trials, around.x]), jnp.concatenate([heights, around.twoF])
        tried += jnp.sum(jnp.isfinite(around.twoF)) // 2  # half a bin apart, two are one
    starts = _spread_starts(trials, heights, climbing.n_climbs)
    climbs: Maximum = jax.vmap(lambda start: maximise(value, start, limits))(starts)
    # at equal height, one that converged
    heights = jnp.where(jnp.isfinite(climbs.value), climbs.value, -jnp.inf) + jnp.where(
        climbs.status == CONVERGED, 1e-6, 0.0
    )
    climbs = jax.tree.map(lambda x: x[jnp.argsort(-heights)], climbs)
    end: Maximum = jax.tree.map(lambda x: x[0], climbs)

    def at_limits(at: Maximum) -> jax.Array:
        return jnp.zeros(0, bool) if limits is None else pushed_limits(at, limits, at.gradient)

    covariances = jax.vmap(lambda at: _peak_covariance(coordinates, at, limits, at_limits(at)))(climbs)
    shares = peak_shares(climbs)
    point = coordinates.point(end.x)
    found = fstat_of(near, point)
    elsewhere = jnp.where(jnp.sum((around.x - end.x) ** 2, axis=1) > OWN**2, around.twoF, -jnp.inf)
    best = jnp.argmax(elsewhere) if elsewhere.size else None
    return Peak(
        point=point,
        twoF=found.twoF,
        start_twoF=start_twoF,
        twoF_per_detector=found.twoF_per_detector,
        covariance=_together(coordinates, climbs, covariances, shares, free.bounded, at_limits(end)),
        share=shares[0],
        moved=jnp.sqrt(jnp.sum(end.x**2)),
        steps=jnp.sum(climbs.steps),
        status=end.status,
        at_limit=at_limits(end),
        tried=tried,
        amplitude=estimate_amplitude_of(near, point).columns,
        other_freq=point.fkdot[0] if best is None else coordinates.point(around.x[best]).fkdot[0],
        other_twoF=jnp.asarray(-jnp.inf) if best is None else elsewhere[best],
    )


class Surroundings(NamedTuple):
    """2F at many frequencies around some trial points.

    Attributes
    ----------
    x : (n, p) float64
        Whitened coordinates.
    twoF : (n,) float64
        -inf where templates are impossible, or beyond the limits or what narrow data can tell.
    """

    x: jax.Array
    twoF: jax.Array


def _surroundings(
    near: NarrowData, coordinates: Coordinates, trials: jax.Array, limits: Limits | None, reach: jax.Array
) -> Surroundings:
    """2F at `SCANNED_POINTS` of the trial points, each at `SCANNED` frequencies half a bin apart.

    A wrong sky position moves the highest 2F in frequency by many bins before it loses much of it. Shifts of the
    frequency end at `reach`, Hz.
    """
    p = trials.shape[1]
    if "freq" not in coordinates.names:
        return Surroundings(jnp.zeros((0, p)), jnp.zeros(0))
    shifts = jnp.arange(-SCANNED // 2, SCANNED // 2, dtype=jnp.float64) * (0.5 / near.observation.tspan)
    along = jnp.zeros(p).at[coordinates.names.index("freq")].set(1.0)
    x = trials[:SCANNED_POINTS, None] + shifts[:, None] * jnp.linalg.solve(coordinates.matrix, along)

    def of_point(x: jax.Array) -> jax.Array:
        point = coordinates.point(x)
        return jnp.where(physical(point), shifted_twoF(near, point, shifts), jnp.nan)

    heights = jax.vmap(of_point)(trials[:SCANNED_POINTS]).astype(jnp.float64)
    allowed = jnp.isfinite(heights) & (jnp.abs(shifts) <= reach) & _within(x, limits)
    return Surroundings(x.reshape(-1, p), jnp.where(allowed, heights, -jnp.inf).reshape(-1))


def _within(x: jax.Array, limits: Limits | None) -> jax.Array:
    """Whether points, (..., p), keep to the limits."""
    if limits is None:
        return jnp.ones(x.shape[:-1], bool)
    place = x @ limits.matrix.T
    return jnp.all((place >= limits.low) & (place <= limits.high), axis=-1)


def _parameter_limits(coordinates: Coordinates, free: FreeParameters) -> Limits | None:
    """Limits of parameters as limits of whitened coordinates, in which they are linear; None without any."""
    if not free.bounded:
        return None
    rows = jnp.array([coordinates.names.index(name) for name in free.bounded])
    centre = values(coordinates.centre, free.bounded)
    return Limits(coordinates.matrix[rows], jnp.asarray(free.low) - centre, jnp.asarray(free.high) - centre)


def _spread_starts(trials: jax.Array, heights: jax.Array, n: int) -> jax.Array:
    """The highest trial points, of (t, p), that are at least `APART` from each other: (n, p).

    If there are fewer than n, the first trial point fills up. Points of height -inf are not chosen.
    """
    chosen = []
    for _ in range(n):
        best = jnp.argmax(heights)
        chosen.append(jnp.where(jnp.isfinite(heights[best]), trials[best], trials[0]))
        near = jnp.sum((trials - chosen[-1]) ** 2, axis=1) < APART**2
        heights = jnp.where(near, -jnp.inf, heights)
    return jnp.stack(chosen)


def peak_shares(climbs: Maximum) -> jax.Array:
    """Fraction of the probability on each of n peaks, highest first, (n,) float64, by Laplace's approximation.

    A peak that was climbed twice counts once, and no peak counts more than the first. If the first is no maximum, it
    gets all.
    """
    n = climbs.value.shape[0]
    _, log_volume = jnp.linalg.slogdet(-0.5 * climbs.hessian)
    apart = jnp.sum((climbs.x[:, None] - climbs.x[None]) ** 2, axis=-1) * climbs.value[0] > SAME
    again = jnp.any(~apart & (jnp.arange(n)[None] < jnp.arange(n)[:, None]), axis=1)
    log_share = 0.5 * (climbs.value - climbs.value[0]) - 0.5 * (log_volume - log_volume[0])
    usable = (climbs.status == CONVERGED) & ~again & jnp.isfinite(log_share)
    shares = jnp.where(usable, jnp.exp(jnp.minimum(log_share, 0.0)), 0.0).at[0].set(1.0)
    shares = jnp.where(climbs.status[0] == CONVERGED, shares, jnp.zeros(n).at[0].set(1.0))
    return shares / jnp.sum(shares)


def _together(
    coordinates: Coordinates,
    climbs: Maximum,
    covariances: jax.Array,
    shares: jax.Array,
    bounded: tuple[str, ...],
    at_limit: jax.Array,
) -> jax.Array:
    """Second moments of the parameters about the highest peak, over all peaks that were climbed, (p, p) float64.

    NaN for parameters at their limits; the errors of the others hold for these values.
    """
    places = jax.vmap(coordinates.values)(climbs.x)
    off = places - places[0]
    each = covariances + off[:, :, None] * off[:, None, :]
    matrix = jnp.sum(jnp.where((shares > 0)[:, None, None], shares[:, None, None] * each, 0.0), axis=0)
    for i, name in enumerate(bounded):
        k = coordinates.names.index(name)
        hidden = jnp.where(at_limit[i], jnp.nan, 0.0)
        matrix = matrix.at[k].add(hidden).at[:, k].add(hidden)
    return matrix


def _peak_covariance(coordinates: Coordinates, at: Maximum, limits: Limits | None, at_limit: jax.Array) -> jax.Array:
    """Covariance of the parameters on a peak of 2F, (p, p) float64: 2F is twice the log-likelihood ratio.

    In whitened coordinates the likelihood is close to a Gaussian and taken as one. Its covariance is transformed to the
    parameters to second order, because in short data they are curved functions of these coordinates. NaN where the
    Hessian is not negative definite.

    Parameters
    ----------
    coordinates : Coordinates
    at : Maximum
    limits : Limits or None
    at_limit : (m,) bool
        Which limits stopped the climb; the covariance has no component across them.
    """
    kept, hessian = jnp.eye(len(at.x)), at.hessian
    if limits is not None:
        kept = free_steps(limits.matrix, at_limit)
        _, hessian = held(at.gradient, at.hessian, limits.matrix, at_limit)
    size, axes = jnp.linalg.eigh(-0.5 * hessian)
    spread = kept @ axes / jnp.sqrt(jnp.where(size > 0, size, jnp.nan))  # (p, p), each column one sigma long
    slope = jax.jacfwd(coordinates.values)(at.x) @ spread
    bend = jnp.einsum("iab,aj,bk->ijk", jax.jacfwd(jax.jacfwd(coordinates.values))(at.x), spread, spread)
    return slope @ slope.T + 0.5 * jnp.einsum("ijk,ljk->il", bend, bend)
