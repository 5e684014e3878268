"""From prepared data and a batch of candidates to their peaks: narrow and whiten, then try and climb."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, narrowed
from jfstat.data.narrowdata import NarrowData
from jfstat.maths.newton import CONVERGED, Limits, Maximum, free_steps, held, maximise, pushed_limits
from jfstat.metrics.coordinates import Coordinates, whitened
from jfstat.parameters import physical, values
from jfstat.statistic.fstat import fstat, twoF
from jfstat.templates import Doppler

APART = 0.4
"""Distance between starts of climbs in whitened coordinates, in which a peak's radius is about 1."""
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
        Of the fitted parameters; NaN where 2F has no maximum, and for those at their limits.
    share : () float64
        Part of the probability that lies on this peak rather than on others that were climbed.
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
    share: jax.Array
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
    starts = spread_starts(trials, heights, n_climbs)
    climbs: Maximum = jax.vmap(lambda start: maximise(value, start, limits))(starts)
    # at equal height, one that converged
    heights = jnp.where(jnp.isfinite(climbs.value), climbs.value, -jnp.inf) + jnp.where(
        climbs.status == CONVERGED, 1e-6, 0.0
    )
    climbs = jax.tree.map(lambda x: x[jnp.argsort(-heights)], climbs)
    end: Maximum = jax.tree.map(lambda x: x[0], climbs)

    def at_limits(at: Maximum) -> jax.Array:
        return jnp.zeros(0, bool) if limits is None else pushed_limits(at, limits, at.gradient)

    covariances = jax.vmap(lambda at: peak_covariance(coordinates, at, limits, at_limits(at)))(climbs)
    shares = peak_shares(climbs)
    point = coordinates.point(end.x)
    found = fstat(near, point)
    return Peak(
        point=point,
        twoF=found.twoF,
        start_twoF=start_twoF,
        twoF_per_detector=found.twoF_per_detector,
        covariance=together(coordinates, climbs, covariances, shares, bounded, at_limits(end)),
        share=shares[0],
        moved=jnp.sqrt(jnp.sum(end.x**2)),
        steps=jnp.sum(climbs.steps),
        status=end.status,
        at_limit=at_limits(end),
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


def spread_starts(trials: jax.Array, heights: jax.Array, n: int) -> jax.Array:
    """The highest of some trial points, (t, p), of which any two are some way apart: (n, p).

    The first one stands in where there are no others; -inf marks points that are not to be chosen.
    """
    chosen = []
    for _ in range(n):
        best = jnp.argmax(heights)
        chosen.append(jnp.where(jnp.isfinite(heights[best]), trials[best], trials[0]))
        near = jnp.sum((trials - chosen[-1]) ** 2, axis=1) < APART**2
        heights = jnp.where(near, -jnp.inf, heights)
    return jnp.stack(chosen)


def peak_shares(climbs: Maximum) -> jax.Array:
    """Parts of the probability on each of some peaks, highest first, (n,) float64: Laplace's approximation of each.

    Peaks that were climbed twice count once, and none for more than the first. All is the first one's if it is no
    maximum.
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


def together(
    coordinates: Coordinates,
    climbs: Maximum,
    covariances: jax.Array,
    shares: jax.Array,
    bounded: tuple[str, ...],
    at_limit: jax.Array,
) -> jax.Array:
    """Second moments of the parameters about the highest peak, over all peaks that were climbed, (p, p) float64.

    NaN for parameters at their limits, which the others' errors are conditional on.
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


def peak_covariance(coordinates: Coordinates, at: Maximum, limits: Limits | None, at_limit: jax.Array) -> jax.Array:
    """Covariance of the parameters on a peak of 2F, (p, p) float64: 2F is twice the log-likelihood ratio.

    The likelihood is taken for a Gaussian in whitened coordinates, where it is close to one, and carried over to the
    parameters to second order, since they are bent where data are short. NaN where the Hessian is not negative
    definite.

    Parameters
    ----------
    coordinates : Coordinates
    at : Maximum
    limits : Limits or None
    at_limit : (m,) bool
        Which limits hold it back; no step then goes across them.
    """
    kept, hessian = jnp.eye(len(at.x)), at.hessian
    if limits is not None:
        kept = free_steps(limits.matrix, at_limit)
        _, hessian = held(at.gradient, at.hessian, limits.matrix, at_limit)
    size, axes = jnp.linalg.eigh(-0.5 * hessian)
    spread = kept @ axes / jnp.sqrt(jnp.where(size > 0, size, jnp.nan))  # (p, p), its columns of one sigma
    slope = jax.jacfwd(coordinates.values)(at.x) @ spread
    bend = jnp.einsum("iab,aj,bk->ijk", jax.jacfwd(jax.jacfwd(coordinates.values))(at.x), spread, spread)
    return slope @ slope.T + 0.5 * jnp.einsum("ijk,ljk->il", bend, bend)
