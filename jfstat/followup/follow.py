"""Climb from a batch of candidates to their peaks, in narrow data and whitened coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, narrowed
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.followup.batches import Climbing
from jfstat.followup.free import FreeParameters
from jfstat.followup.neighbourhood import STEP, along_frequency, distance_across, frequency_shifts
from jfstat.followup.optimizer import Optimizer
from jfstat.maths.descent import maximise_with
from jfstat.maths.newton import CONVERGED, Limits, Maximum, free_steps, held, maximise, pushed_limits
from jfstat.metrics.coordinates import Coordinates
from jfstat.signal.templates import Doppler
from jfstat.signal.values import physical, values
from jfstat.statistic.total import found_at, shrinkage, total_shifted_twoF, total_twoF

Element = TypeVar("Element")
Result = TypeVar("Result")
APART = 0.4
"""Smallest distance between starts of climbs in whitened coordinates, in which a peak's radius is about 1."""
FAR_STARTS, FAR = 2, 1.5
"""With segments, number of climbs that begin far from all others, and their smallest distance: noise has its own
peaks."""
BIN = round(1 / STEP)
"""Number of trial frequencies in a bin of 1/T."""
LOOKED_POINTS, LOOKED_BINS, LOOKED_REACH = 16, 32.0, 2.0
"""Number of trial points at which frequencies further away are examined for higher peaks, and how far: in bins of 1/T,
and in units of the narrow data's reach, where 2F is still right to a few per cent."""
OWN = 1.5
"""Distance in whitened coordinates up to which trial points belong to the peak that was climbed."""
SIGMAS = 4.3
"""Number of standard deviations around each peak that the next stage of a follow-up covers: all but 1e-3 of a normal
distribution in four dimensions."""
LEAST_SHARE = 3e-3
"""Smallest probability of a peak that the next stage of a follow-up covers."""
SAME = 0.5
"""Largest squared distance between maxima that count as one, in units of a peak's width."""


class Peak(NamedTuple):
    """Peak at which a candidate ended, with p parameters and D detectors.

    Attributes
    ----------
    point : Doppler
    twoF, start_twoF : () float64
        2F at the peak and at the start; with segments, these and all other values are sums over segments.
    twoF_per_detector : (D,) float64
    shrinkage : () float64
        Factor that multiplies 2F in probabilities and errors; see `jfstat.statistic.total.shrinkage`.
    covariance : (p, p) float64
        Covariance of the fitted parameters; NaN where 2F has no maximum, and for parameters at their limits.
    spread : (p, p) float64
        Semi-axes, as steps of the parameters to first order, of the ellipsoid that the next stage of a follow-up covers
        around each peak; see `_semi_axes`.
    rivals : (c, p) float64
        Parameters at each peak that was climbed, this one first; NaN for peaks with less than `LEAST_SHARE` of the
        probability.
    share : () float64
        Probability of this peak among all peaks that were climbed; see `peak_shares`.
    moved, across : () float64
        Distance from the start in whitened coordinates, and its part `across` the frequency.
    steps, status : () int32
        As in `Maximum`; steps are added over all climbs.
    at_limit : (m,) bool
        Which limits stopped the climb.
    tried : () int32
        Number of trial points within the data's reach and the limits, at frequencies a bin apart.
    amplitude : (n,) float64
        Amplitudes estimated at the peak, with errors; see `amplitude_columns`.
    other_freq, other_twoF : () float64
        Frequency, Hz, and value of the highest 2F away from this peak, right to a few per cent, at all trial points and
        up to `LOOKED_BINS` from some of them; -inf if there is none.
    """

    point: Doppler
    twoF: jax.Array
    start_twoF: jax.Array
    twoF_per_detector: jax.Array
    shrinkage: jax.Array
    covariance: jax.Array
    spread: jax.Array
    rivals: jax.Array
    share: jax.Array
    moved: jax.Array
    across: jax.Array
    steps: jax.Array
    status: jax.Array
    at_limit: jax.Array
    tried: jax.Array
    amplitude: jax.Array
    other_freq: jax.Array
    other_twoF: jax.Array


class Surroundings(NamedTuple):
    """Regions in which the peaks of n candidates are looked for.

    Attributes
    ----------
    coordinates : Coordinates
        Whitened coordinates from `survey`, stacked.
    free : FreeParameters
    trials : (n, t, p) float64
        Points to try around each candidate, in whitened coordinates; NaN where there are fewer.
    shifts : (F,) float64
        Frequency offsets to try at each trial point, Hz; [0] if the frequency is fixed.
    """

    coordinates: Coordinates
    free: FreeParameters
    trials: jax.Array | np.ndarray
    shifts: jax.Array | np.ndarray


@partial(jax.jit, static_argnames="at_once")
def focus(data: FstatData, points: Doppler, reach: float, plan: NarrowPlan, at_once: int) -> NarrowData:
    """Return narrow data around each of a stack of templates that fit the data, stacked.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        Stack of n templates.
    reach : float
        Reach of the narrow data, Hz.
    plan : NarrowPlan
    at_once : int, static
        Number of templates whose data are compressed together, a divisor of n.
    """

    def one(point: Doppler) -> NarrowData:
        # all candidates have the same observation: `follow` puts it back
        return replace(narrowed(data, point, reach, plan), observation=None)

    return _in_groups(one, points, at_once)


def _in_groups(function: Callable[[Element], Result], stack: Element, at_once: int) -> Result:
    """Return a function's results for each of n stacked elements, `at_once` of them computed together, a divisor of
    n."""
    n = jax.tree.leaves(stack)[0].shape[0]
    groups = jax.tree.map(lambda x: x.reshape(n // at_once, at_once, *x.shape[1:]), stack)
    return jax.tree.map(lambda x: x.reshape(n, *x.shape[2:]), jax.lax.map(jax.vmap(function), groups))


@partial(jax.jit, static_argnames=("climbing", "optimizer"))
def follow(
    observation: Observation,
    near: NarrowData,
    surroundings: Surroundings,
    climbing: Climbing,
    max_steps: int | jax.Array,
    optimizer: Optimizer | None,
) -> Peak:
    """Climb from each of a stack of n candidates to the highest peak nearby.

    Parameters
    ----------
    observation : Observation
    near : NarrowData
        Narrow data from `focus`. 2F is summed over segments if the data have any.
    surroundings : Surroundings
    climbing : Climbing, static
        Numbers of climbs and of candidates computed together; the latter divides n.
    max_steps : int or () int32
        Largest number of steps of each climb.
    optimizer : Optimizer or None, static
        Optimizer whose steps are taken; None for Newton's method.

    Returns
    -------
    Peak
        Peaks with a leading axis n.
    """

    coordinates, free = surroundings.coordinates, surroundings.free
    trials, shifts = jnp.asarray(surroundings.trials), jnp.asarray(surroundings.shifts)

    def one(own: tuple[NarrowData, Coordinates, jax.Array]) -> Peak:
        near, coordinates, trials = own
        near = replace(near, observation=observation)

        def maximised(function: Callable[[jax.Array], jax.Array], start: jax.Array, limits: Limits | None) -> Maximum:
            if optimizer is None:
                return maximise(function, start, limits, max_steps)
            return maximise_with(optimizer, function, start, limits, max_steps)

        return _climb(near, Surroundings(coordinates, free, trials, shifts), climbing, maximised)

    return _in_groups(one, (near, coordinates, trials), climbing.candidates)


def _climb(
    near: NarrowData,
    surroundings: Surroundings,
    climbing: Climbing,
    maximised: Callable[[Callable[[jax.Array], jax.Array], jax.Array, Limits | None], Maximum],
) -> Peak:
    """Climb from the best trial points around one candidate, by `maximised`; see `follow`."""
    coordinates, free = surroundings.coordinates, surroundings.free
    trials, shifts = jnp.asarray(surroundings.trials), jnp.asarray(surroundings.shifts)

    def value(x: jax.Array) -> jax.Array:
        point = coordinates.point(x)
        return jnp.where(physical(point), total_twoF(near, point), jnp.nan)

    limits = _parameter_limits(coordinates, free)
    around = _surroundings(near, coordinates, trials, shifts, limits, climbing.trials)
    tried = jnp.sum(jnp.isfinite(around.twoF)) // BIN
    starts = _spread_starts(around, climbing.n_climbs, near.n_segments is not None)
    # a climb cannot begin at a trial point too far from the candidate: it then begins at the candidate
    here = jax.vmap(value)(jnp.concatenate([jnp.zeros((1, len(coordinates.names))), starts]))
    starts = jnp.where(jnp.isfinite(here[1:, None]), starts, 0.0)
    if "freq" in coordinates.names:
        further = jnp.asarray(frequency_shifts(LOOKED_BINS, 1.0)) / jnp.max(near.observation.tspan)
        beyond = _surroundings(near, coordinates, trials[:LOOKED_POINTS], further, limits, climbing.trials)
        around = jax.tree.map(lambda *x: jnp.concatenate(x), around, beyond)
    climbs: Maximum = jax.vmap(lambda start: maximised(value, start, limits))(starts)
    # of equal heights, a converged one
    heights = jnp.where(jnp.isfinite(climbs.value), climbs.value, -jnp.inf) + jnp.where(
        climbs.status == CONVERGED, 1e-6, 0.0
    )
    climbs = jax.tree.map(lambda x: x[jnp.argsort(-heights)], climbs)
    end: Maximum = jax.tree.map(lambda x: x[0], climbs)

    def at_limits(at: Maximum) -> jax.Array:
        return jnp.zeros(0, bool) if limits is None else pushed_limits(at, limits, at.gradient)

    point = coordinates.point(end.x)
    found = found_at(near, point)
    trust = shrinkage(found.twoF, near.n_segments)
    likelihoods = climbs._replace(
        value=trust * climbs.value, gradient=trust * climbs.gradient, hessian=trust * climbs.hessian
    )
    covariances = jax.vmap(lambda at: _peak_covariance(coordinates, at, limits, at_limits(at)))(likelihoods)
    shares = peak_shares(likelihoods)
    elsewhere = jnp.where(jnp.sum((around.x - end.x) ** 2, axis=1) > OWN**2, around.twoF, -jnp.inf)
    best = jnp.argmax(elsewhere)
    return Peak(
        point=point,
        twoF=found.twoF,
        start_twoF=here[0],
        twoF_per_detector=found.twoF_per_detector,
        shrinkage=trust,
        covariance=_together(coordinates, climbs, covariances, shares, free.bounded, at_limits(end)),
        spread=jax.jacfwd(coordinates.values)(end.x) @ _semi_axes(likelihoods, shares, trust),
        rivals=jnp.where(shares[:, None] > LEAST_SHARE, jax.vmap(coordinates.values)(climbs.x), jnp.nan),
        share=shares[0],
        moved=jnp.sqrt(jnp.sum(end.x**2)),
        across=distance_across(coordinates, end.x),
        steps=jnp.sum(climbs.steps),
        status=end.status,
        at_limit=at_limits(end),
        tried=tried,
        amplitude=found.amplitude,
        other_freq=coordinates.point(around.x[best]).fkdot[0],
        other_twoF=elsewhere[best],
    )


class Heights(NamedTuple):
    """Values of 2F at the trial points, at all frequencies.

    Attributes
    ----------
    x : (n, p) float64
        Whitened coordinates.
    twoF : (n,) float64
        -inf where templates are impossible, or beyond the limits.
    """

    x: jax.Array
    twoF: jax.Array


def _surroundings(
    near: NarrowData,
    coordinates: Coordinates,
    trials: jax.Array,
    shifts: jax.Array,
    limits: Limits | None,
    at_once: int,
) -> Heights:
    """Return 2F at trial points and frequencies, computed for `at_once` points at a time, or more of one segment."""
    p = len(coordinates.names)
    along = along_frequency(coordinates) if "freq" in coordinates.names else jnp.zeros(p)
    n_segments, x = near.n_segments or 1, trials
    heights = total_shifted_twoF(near, coordinates.point, x, shifts, n_segments * at_once).astype(jnp.float64)
    heights = jnp.where(jax.vmap(lambda x: physical(coordinates.point(x)))(x)[:, None], heights, jnp.nan)
    places = x[:, None] + shifts[:, None] * along
    allowed = jnp.isfinite(heights) & (jnp.abs(shifts) <= LOOKED_REACH * jnp.max(near.reach)) & _within(places, limits)
    return Heights(places.reshape(-1, p), jnp.where(allowed, heights, -jnp.inf).reshape(-1))


def _within(x: jax.Array, limits: Limits | None) -> jax.Array:
    """Return whether points, (..., p), lie within the limits."""
    if limits is None:
        return jnp.ones(x.shape[:-1], bool)
    place = x @ limits.matrix.T
    return jnp.all((place >= limits.low) & (place <= limits.high), axis=-1)


def _parameter_limits(coordinates: Coordinates, free: FreeParameters) -> Limits | None:
    """Return limits of parameters as limits of whitened coordinates, in which they are linear; None if there are no
    limits."""
    if not free.bounded:
        return None
    rows = jnp.array([coordinates.names.index(name) for name in free.bounded])
    centre = values(coordinates.centre, free.bounded)
    return Limits(coordinates.matrix[rows], jnp.asarray(free.low) - centre, jnp.asarray(free.high) - centre)


def _spread_starts(around: Heights, n: int, segments: bool) -> jax.Array:
    """Return the n highest trial points that are at least `APART` from each other, (n, p).

    If there are fewer than n, the rest are the candidate itself, the origin. With segments the last `FAR_STARTS` are at
    least `FAR` from all others: where noise lifts another peak above the signal's, that peak has many high points.
    """
    chosen, nearest = [], jnp.full(around.twoF.shape, jnp.inf)
    for k in range(n):
        apart = FAR if segments and 0 < n - FAR_STARTS <= k else APART
        heights = jnp.where(nearest < apart**2, -jnp.inf, around.twoF)
        best = jnp.argmax(heights)
        chosen.append(jnp.where(jnp.isfinite(heights[best]), around.x[best], 0.0))
        nearest = jnp.minimum(nearest, jnp.sum((around.x - chosen[-1]) ** 2, axis=1))
    return jnp.stack(chosen)


def peak_shares(climbs: Maximum) -> jax.Array:
    """Return the probability of each of n peaks, highest first, (n,) float64, by Laplace's approximation.

    A peak that was climbed twice counts once, and no peak counts more than the first. If the first is no maximum, its
    probability is 1.
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
    """Return the second moments of the parameters about the highest peak, over all peaks climbed, (p, p) float64.

    They are NaN for parameters at their limits; errors of the other parameters are for these values.
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


def _semi_axes(climbs: Maximum, shares: jax.Array, trust: jax.Array) -> jax.Array:
    """Return the semi-axes of the region of each peak, (p, p) float64, columns, in whitened coordinates.

    They are `SIGMAS` standard deviations of the mean of all peaks' covariances, weighted by their probabilities. Where
    noise dominates the sum over K segments, the signal may be further from the maximum than the curvature there
    suggests: at a mismatch m the sum is lower by rho^2 m, but noise changes it by sqrt(m (16 K + 4 rho^2)), and the
    number of templates grows with m. The axes are then longer by 1 + 4 K / rho^2, the inverse of `trust`, though this
    makes none longer than an axis of the metric's unit ball.
    """
    size, axes = jnp.linalg.eigh(-0.5 * climbs.hessian)
    each = (axes / jnp.where(size > 0, size, jnp.nan)[:, None]) @ jnp.swapaxes(axes, 1, 2)
    mean = jnp.sum(jnp.where((shares > 0)[:, None, None], shares[:, None, None] * each, 0.0), axis=0)
    size, axes = jnp.linalg.eigh(mean)
    radii = SIGMAS * jnp.sqrt(size)
    return axes * jnp.maximum(radii, jnp.minimum(radii / trust, 1.0))


def _peak_covariance(coordinates: Coordinates, at: Maximum, limits: Limits | None, at_limit: jax.Array) -> jax.Array:
    """Return the covariance of the parameters on a peak, (p, p) float64, with shrunk 2F as twice the log-likelihood
    ratio.

    In whitened coordinates the likelihood is taken as Gaussian, which it nearly is. Its covariance is transformed to
    the parameters to second order, because in short data they are curved functions of these coordinates. NaN where the
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
