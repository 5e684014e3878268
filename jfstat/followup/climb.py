"""Climb from a batch of candidates to their peaks, in narrow data and whitened coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from jfstat.compileroptions import NO_TRIALS, jit_with
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import Observation
from jfstat.followup.groups import in_groups
from jfstat.followup.look import Surroundings, parameter_limits
from jfstat.followup.optimizer import Optimizer
from jfstat.maths.arrays import rows
from jfstat.maths.descent import maximise_with
from jfstat.maths.newton import CONVERGED, Climb, Maximum, climbed, stepped
from jfstat.metrics.coordinates import Coordinates
from jfstat.signal.possible import physical
from jfstat.statistic.total import total_twoF


@jit_with(NO_TRIALS, kept=True, static_argnames=("together", "optimizer"))
def climb(
    observation: Observation,
    near: NarrowData,
    surroundings: Surroundings,
    starts: jax.Array,
    n: int | jax.Array,
    together: int,
    max_steps: int | jax.Array,
    optimizer: Optimizer | None,
) -> Maximum:
    """Climb from each of k starts around each of the first n of N candidates, and return the ends, highest first.

    A climb cannot begin at a start too far from the candidate: it then begins at the candidate.

    Parameters
    ----------
    observation : Observation
    near : NarrowData
        Narrow data from `focus`. 2F is summed over segments if the data have any.
    surroundings : Surroundings
        Of which the coordinates and the free parameters count.
    starts : (N, k, p) float64
    n : () int32
    together : int, static
        Number of candidates whose climbs are as many as are computed together, a divisor of N.
    max_steps : int or () int32
        Largest number of steps of each climb.
    optimizer : Optimizer or None, static
        Optimizer whose steps are taken; None for Newton's method.

    Returns
    -------
    Maximum
        Ends of climbs with leading axes (N, k); with segments, values are sums over segments.
    """
    coordinates, free = surroundings.coordinates, surroundings.free

    def height(near: NarrowData, coordinates: Coordinates) -> Callable[[jax.Array], jax.Array]:
        near = replace(near, observation=observation)

        def value(x: jax.Array) -> jax.Array:
            point = coordinates.point(x)
            return jnp.where(physical(point), total_twoF(near, point), jnp.nan)

        return value

    n_all, k, p = starts.shape

    def newton() -> Maximum:
        def step(numbers: jax.Array, climbs: Climb) -> Climb:
            def one(own: NarrowData, there: Coordinates, at: Climb) -> Climb:
                return stepped(height(own, there), at, parameter_limits(there, free), jnp.zeros_like(at.best.x))

            return jax.vmap(one)(*rows((near, coordinates), numbers // k), climbs)

        ends = climbed(starts.reshape(n_all * k, p), step, together * k, n * k, max_steps)
        return jax.tree.map(lambda x: x.reshape(n_all, k, *x.shape[1:]), ends)

    def by(optimizer: Optimizer, own: tuple[NarrowData, Coordinates, jax.Array]) -> Maximum:
        near, coordinates, starts = own
        value, limits = height(near, coordinates), parameter_limits(coordinates, free)

        def from_start(start: jax.Array) -> Maximum:
            start = jnp.where(jnp.isfinite(value(start)), start, 0.0)
            return maximise_with(optimizer, value, start, limits, max_steps)

        return jax.vmap(from_start)(starts)

    if optimizer is None:
        ends = newton()
    else:
        ends = in_groups(jax.vmap(partial(by, optimizer)), (near, coordinates, starts), together, n)
    # of equal heights, a converged one
    heights = jnp.where(jnp.isfinite(ends.value), ends.value, -jnp.inf)
    order = jnp.argsort(-heights - jnp.where(ends.status == CONVERGED, 1e-6, 0.0), axis=1)
    return jax.vmap(lambda own, order: jax.tree.map(lambda x: x[order], own))(ends, order)
