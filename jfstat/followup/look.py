"""Look around a batch of candidates: 2F at trial points and frequencies, from the best of which climbs begin."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.followup.batches import Climbing
from jfstat.followup.free import FreeParameters
from jfstat.followup.groups import in_groups
from jfstat.followup.neighbourhood import STEP, along_frequency, frequency_shifts
from jfstat.maths.arrays import LEAST
from jfstat.maths.newton import Limits
from jfstat.metrics.coordinates import Coordinates
from jfstat.signal.possible import physical
from jfstat.signal.values import values
from jfstat.statistic.total import total_shifted_twoF

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
        Frequency offsets at which 2F is computed at each trial point, Hz; [0] if the frequency is fixed.
    widest : (n,) float64
        Largest of these offsets that is tried for each candidate, Hz.
    """

    coordinates: Coordinates
    free: FreeParameters
    trials: jax.Array | np.ndarray
    shifts: jax.Array | np.ndarray
    widest: jax.Array | np.ndarray


class Looked(NamedTuple):
    """What was seen around each of n candidates.

    Attributes
    ----------
    starts : (n, k, p) float64
        Where climbs begin, in whitened coordinates.
    tried : (n,) int32
        Number of trial points within the data's reach, the limits and the widest shift, at frequencies a bin apart.
    near : (n, t, F) float32
        2F at the trial points and shifts of the `Surroundings`; `arrays.LEAST` where templates are impossible, or
        beyond the limits or the widest shift.
    further : (n, t', F') float32
        2F at the first of the trial points, at frequencies further away: `further_shifts`.
    """

    starts: jax.Array
    tried: jax.Array
    near: jax.Array
    further: jax.Array


@jit_with(NO_TRIALS, kept=True, static_argnames="climbing")
def look(
    observation: Observation,
    near: NarrowData,
    surroundings: Surroundings,
    n: int | jax.Array,
    climbing: Climbing,
) -> Looked:
    """Compute 2F around the first n of N candidates and choose where climbs begin.

    Parameters
    ----------
    observation : Observation
    near : NarrowData
        Narrow data from `focus`. 2F is summed over segments if the data have any.
    surroundings : Surroundings
    n : () int32
    climbing : Climbing, static
        Numbers of climbs and of candidates and trial points computed together.
    """
    free, shifts = surroundings.free, jnp.asarray(surroundings.shifts)

    def one(own: tuple[NarrowData, Coordinates, jax.Array, jax.Array]) -> Looked:
        near, coordinates, trials, widest = own
        near = replace(near, observation=observation)
        limits = parameter_limits(coordinates, free)
        far = further_shifts(observation, coordinates)
        n_far, missing = len(far), len(far) - len(shifts)
        if 0 <= missing * len(trials) <= n_far * LOOKED_POINTS:
            # no more work than for two sets of points and frequencies, but half the program
            every = _heights(near, coordinates, trials, far, limits, climbing.trials)
            around, further = every[:, missing // 2 : n_far - missing // 2], every[:LOOKED_POINTS]
        else:
            around = _heights(near, coordinates, trials, shifts, limits, climbing.trials)
            further = _heights(near, coordinates, trials[:LOOKED_POINTS], far, limits, climbing.trials)
        around = jnp.where(jnp.abs(shifts)[None] <= widest, around, LEAST)
        places = trial_places(coordinates, trials, shifts)
        starts = _spread_starts(places, around.reshape(-1), climbing.n_climbs, near.n_segments is not None)
        tried = jnp.sum(around > LEAST, dtype=jnp.int32) // BIN
        return Looked(starts, tried, around, further)

    trials, widest = jnp.asarray(surroundings.trials), jnp.asarray(surroundings.widest)
    return in_groups(jax.vmap(one), (near, surroundings.coordinates, trials, widest), climbing.candidates, n)


def further_shifts(observation: Observation, coordinates: Coordinates) -> jax.Array:
    """Return the frequency offsets of `Looked.further`, Hz; none if the frequency is fixed."""
    if "freq" not in coordinates.names:
        return jnp.zeros(0)
    return jnp.asarray(frequency_shifts(LOOKED_BINS, 1.0)) / jnp.max(observation.tspan)


def trial_places(coordinates: Coordinates, trials: jax.Array, shifts: jax.Array) -> jax.Array:
    """Return t trial points at F frequency offsets in whitened coordinates: (t * F, p) float64."""
    p = len(coordinates.names)
    along = along_frequency(coordinates) if "freq" in coordinates.names else jnp.zeros(p)
    return (trials[:, None] + (shifts[:, None] * along[None])[None]).reshape(-1, p)


def _heights(
    near: NarrowData,
    coordinates: Coordinates,
    trials: jax.Array,
    shifts: jax.Array,
    limits: Limits | None,
    at_once: int,
) -> jax.Array:
    """Return 2F at trial points and frequencies, (t, F) float32; LEAST where it is not defined or not allowed.

    It is computed for `at_once` points at a time, or more of one segment.
    """
    if not len(shifts):
        return jnp.zeros((len(trials), 0), jnp.float32)
    heights = total_shifted_twoF(near, coordinates.point, trials, shifts, (near.n_segments or 1) * at_once)
    possible = jax.vmap(lambda x: physical(coordinates.point(x)))(trials)[:, None]
    within = _within(trial_places(coordinates, trials, shifts), limits).reshape(heights.shape)
    reached = jnp.abs(shifts)[None] <= LOOKED_REACH * jnp.max(near.reach)
    return jnp.where(possible & within & reached & jnp.isfinite(heights), heights, LEAST)


def _within(x: jax.Array, limits: Limits | None) -> jax.Array:
    """Return whether points, (n, p), lie within the limits."""
    if limits is None:
        return jnp.ones(x.shape[:-1], bool)
    place = x @ limits.matrix.T
    return jnp.all((place >= limits.low[None]) & (place <= limits.high[None]), axis=-1)


def parameter_limits(coordinates: Coordinates, free: FreeParameters) -> Limits | None:
    """Return limits of parameters as limits of whitened coordinates, in which they are linear; None if there are no
    limits."""
    if not free.bounded:
        return None
    rows = jnp.array([coordinates.names.index(name) for name in free.bounded])
    centre = values(coordinates.centre, free.bounded)
    return Limits(coordinates.matrix[rows], jnp.asarray(free.low) - centre, jnp.asarray(free.high) - centre)


def _spread_starts(places: jax.Array, twoF: jax.Array, n: int, segments: bool) -> jax.Array:
    """Return the n highest trial points that are at least `APART` from each other, (n, p).

    If there are fewer than n, the rest are the candidate itself, the origin. With segments the last `FAR_STARTS` are at
    least `FAR` from all others: where noise lifts another peak above the signal's, that peak has many high points.
    """
    chosen, nearest = [], jnp.full(twoF.shape, jnp.inf)
    for k in range(n):
        apart = FAR if segments and 0 < n - FAR_STARTS <= k else APART
        heights = jnp.where(nearest < apart**2, -jnp.inf, twoF)
        best = jnp.argmax(heights)
        chosen.append(jnp.where(heights[best] > LEAST, places[best], 0.0))
        nearest = jnp.minimum(nearest, jnp.sum((places - chosen[-1][None]) ** 2, axis=1))
    return jnp.stack(chosen)
