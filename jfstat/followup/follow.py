"""From prepared data and a batch of candidates to their peaks: narrow and whiten, then try and climb."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.followup.coordinates import Coordinates, whitened
from jfstat.followup.newton import CONVERGED, Limits, Maximum, free_steps, held, maximise, pushed_limits
from jfstat.followup.parameters import physical, values
from jfstat.statistic.fstat import fstat, twoF
from jfstat.statistic.narrow import NarrowPlan, narrowed
from jfstat.templates import Doppler


class Peak(NamedTuple):
    """Where a candidate ended; p parameters, D detectors.

    Attributes
    ----------
    point : Doppler
    twoF, start_twoF : () float64
        There and at the start.
    twoF_per_detector : (D,) float64
    covariance : (p, p) float64
        Of the fitted parameters; NaN where 2F has no maximum, and for those at their limits.
    moved : () float64
        Distance from the start in whitened coordinates.
    steps, status : () int32
        See `Maximum`; steps of all climbs together.
    at_limit : (m,) bool
        Which limits hold it back.
    tried : () int32
        Trial points within the data's reach and the limits.
    """

    point: Doppler
    twoF: jax.Array
    start_twoF: jax.Array
    twoF_per_detector: jax.Array
    covariance: jax.Array
    moved: jax.Array
    steps: jax.Array
    status: jax.Array
    at_limit: jax.Array
    tried: jax.Array


@partial(jax.jit, static_argnames=("names", "bounded", "at_once"))
def focus(
    data: FstatData,
    points: Doppler,
    reach: float,
    plan: NarrowPlan,
    names: tuple[str, ...],
    bounded: tuple[str, ...],
    at_once: int,
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
    names, bounded : tuples of str, static
        Parameters to fit, and which of them have limits.
    at_once : int, static
        Templates whose data are compressed together; divides n.
    """

    def one(point: Doppler) -> tuple[NarrowData, Coordinates]:
        return narrowed(data, point, reach, plan), whitened(data, point, names, bounded)

    return in_groups(one, points, at_once)


def in_groups(function: Callable[[Any], Any], stack: Any, at_once: int) -> Any:
    """A function of each element of a stack of n, for `at_once` of them together, which divides n."""
    n = jax.tree.leaves(stack)[0].shape[0]
    groups = jax.tree.map(lambda x: x.reshape(n // at_once, at_once, *x.shape[1:]), stack)
    return jax.tree.map(lambda x: x.reshape(n, *x.shape[2:]), jax.lax.map(jax.vmap(function), groups))


@partial(jax.jit, static_argnames=("bounded", "n_climbs", "at_once", "tried_at_once"))
def follow(
    near: NarrowData,
    coordinates: Coordinates,
    low: jax.Array,
    high: jax.Array,
    trials: jax.Array,
    bounded: tuple[str, ...],
    n_climbs: int,
    at_once: int,
    tried_at_once: int,
) -> Peak:
    """Climb from a stack of candidates, n of them.

    Parameters
    ----------
    near, coordinates : NarrowData, Coordinates
        From `focus`.
    low, high : (m,) float64
        Limits of the parameters `bounded`.
    trials : (t, p) float64
        Whitened coordinates of points to try; the first should be the origin.
    bounded : tuple of str, static
    n_climbs : int, static
        From how many of the trial points to climb.
    at_once : int, static
        Candidates whose climbs are computed together; divides n.
    tried_at_once : int, static
        Trial points of each of those that are computed together; divides t.

    Returns
    -------
    Peak
        Leading axis n.
    """

    def one(pair: tuple[NarrowData, Coordinates]) -> Peak:
        return climb(pair[0], pair[1], low, high, trials, bounded, n_climbs, tried_at_once)

    return in_groups(one, (near, coordinates), at_once)


def climb(
    near: NarrowData,
    coordinates: Coordinates,
    low: jax.Array,
    high: jax.Array,
    trials: jax.Array,
    bounded: tuple[str, ...],
    n_climbs: int,
    tried_at_once: int,
) -> Peak:
    """Climb from the best trial points around one candidate; see `follow`."""

    def value(x: jax.Array) -> jax.Array:
        point = coordinates.point(x)
        return jnp.where(physical(point), twoF(near, point), jnp.nan)

    limits = parameter_limits(coordinates, bounded, low, high)
    heights = in_groups(value, trials, tried_at_once)
    allowed = jnp.isfinite(heights)
    if limits is not None:
        place = trials @ limits.matrix.T
        allowed = allowed & jnp.all((place >= limits.low) & (place <= limits.high), axis=1)
    start_twoF = heights[0]
    heights = jnp.where(allowed, heights, -jnp.inf)
    if n_climbs < trials.shape[0]:
        _, best = jax.lax.top_k(heights, n_climbs)
        starts = jnp.where(allowed[best][:, None], trials[best], trials[0])
    else:
        starts = jnp.where(allowed[:, None], trials, trials[0])
    climbs: Maximum = jax.vmap(lambda start: maximise(value, start, limits))(starts)
    ends = jnp.where(jnp.isfinite(climbs.value), climbs.value, -jnp.inf)
    highest = jnp.argmax(ends + jnp.where(climbs.status == CONVERGED, 1e-6, 0.0))
    end: Maximum = jax.tree.map(lambda x: x[highest], climbs)

    at_limit = jnp.zeros(len(bounded), bool)
    kept, hessian = jnp.eye(len(end.x)), end.hessian
    if limits is not None:
        at_limit = pushed_limits(end, limits, end.gradient)
        kept = free_steps(limits.matrix, at_limit)
        _, hessian = held(end.gradient, end.hessian, limits.matrix, at_limit)
    point = coordinates.point(end.x)
    found = fstat(near, point)
    return Peak(
        point=point,
        twoF=found.twoF,
        start_twoF=start_twoF,
        twoF_per_detector=found.twoF_per_detector,
        covariance=covariance(coordinates, end.x, hessian, kept, bounded, at_limit),
        moved=jnp.sqrt(jnp.sum(end.x**2)),
        steps=jnp.sum(climbs.steps),
        status=end.status,
        at_limit=at_limit,
        tried=jnp.sum(allowed),
    )


def parameter_limits(
    coordinates: Coordinates, bounded: tuple[str, ...], low: jax.Array, high: jax.Array
) -> Limits | None:
    """Limits of parameters as limits of whitened coordinates, in which they are linear; None without any."""
    if not bounded:
        return None
    rows = jnp.array([coordinates.names.index(name) for name in bounded])
    centre = values(coordinates.centre, bounded)
    return Limits(coordinates.matrix[rows], low - centre, high - centre)


def covariance(
    coordinates: Coordinates,
    x: jax.Array,
    hessian: jax.Array,
    kept: jax.Array,
    bounded: tuple[str, ...],
    at_limit: jax.Array,
) -> jax.Array:
    """Covariance of the parameters at a maximum of 2F, (p, p) float64: 2F is twice the log-likelihood ratio.

    The likelihood is taken for a Gaussian in whitened coordinates, where it is close to one, and carried over to the
    parameters to second order: where they are bent (short data, or a source near the ecliptic, whose frequency depends
    on the square of its latitude), the first order alone is too small by multiples. NaN where the Hessian is not
    negative definite, and for parameters at their limits, which the others' is conditional on.

    Parameters
    ----------
    coordinates : Coordinates
    x : (p,) float64
        The maximum.
    hessian : (p, p) float64
        Of 2F there, for steps within the limits.
    kept : (p, p) float64
        Projection on such steps.
    bounded : tuple of str
    at_limit : (m,) bool
        Which of those are at their limits.
    """
    size, axes = jnp.linalg.eigh(-0.5 * hessian)
    spread = kept @ axes / jnp.sqrt(jnp.where(size > 0, size, jnp.nan))  # (p, p), its columns of one sigma
    slope = jax.jacfwd(coordinates.values)(x) @ spread
    bend = jnp.einsum("iab,aj,bk->ijk", jax.jacfwd(jax.jacfwd(coordinates.values))(x), spread, spread)
    matrix = slope @ slope.T + 0.5 * jnp.einsum("ijk,ljk->il", bend, bend)
    for i, name in enumerate(bounded):
        k = coordinates.names.index(name)
        hidden = jnp.where(at_limit[i], jnp.nan, 0.0)
        matrix = matrix.at[k].add(hidden).at[:, k].add(hidden)
    return matrix
