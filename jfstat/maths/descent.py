"""Maximisation of a smooth function near a starting point with an optimiser of optax; traceable, and meant for vmap.

It ends by the same criteria as `jfstat.maths.newton.maximise` and also returns a `Maximum`. The Hessian is computed
when the gradient says that the climb is over, usually once, and not for each step. docs/followup.md says when this is
faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jfstat.maths.arrays import LEAST
from jfstat.maths.newton import (
    CONVERGED,
    FIRST_RADIUS,
    LARGEST_RADIUS,
    LEAST_RADIUS,
    LEFT,
    NOWHERE,
    OUT_OF_STEPS,
    RUNNING,
    STALLED,
    Limits,
    Maximum,
    at_maximum,
    evaluated,
    free_steps,
    held,
    pushed_limits,
    shortened,
)

MAX_STEPS = 500
"""Default limit on the number of steps."""
CURVATURE = 0.5
"""Guess of the Hessian's size at a maximum, in units of the value, until the Hessian is known. In whitened coordinates
the true size is about twice the value, but less along some of them."""
SHORT, REFUSED = 5, 20
"""Steps in a row that gain nothing, and steps to where the function is not defined, after which the climb ends."""
FALL = 0.05
"""Fraction of the highest value by which a climb may fall before it returns to its highest point."""


class Steps(Protocol):
    """An optimiser that minimises a function step by step; see `jfstat.followup.optimizer.Optimizer`."""

    def init(self, x: jax.Array, /) -> Any:
        """Return the state before the first step, from x, (p,) float64."""
        ...

    def update(
        self,
        gradient: jax.Array,
        state: Any,
        x: jax.Array,
        value: jax.Array,
        function: Callable[[jax.Array], jax.Array],
        /,
    ) -> tuple[jax.Array, Any]:
        """Return a step, (p,), and the state after it.

        Line searches may evaluate `function`.
        """
        ...


class _State(NamedTuple):
    """State of a climb with m limits: where it is and what the next step depends on.

    Attributes
    ----------
    at, highest : Maximum
        The current point and the highest point so far. The Hessian is a guess until it is `measured`.
    scale : () float64
        Divisor of the function that the optimiser sees.
    memory : pytree
        The optimiser's state.
    pushed : (m,) bool
        Limits that were held as equations during the last step.
    radius, most : () float64
        Longest allowed step, and the most that this limit may grow to.
    turned : () float64
        Highest value when the climb last went back.
    short, refused : () int32
        Steps in a row that gained nothing; steps to where the function is not defined.
    measured, over : () bool
        Whether the Hessian has been computed, and whether the climb is over, so that it must be.
    """

    at: Maximum
    highest: Maximum
    scale: jax.Array
    memory: Any
    pushed: jax.Array
    radius: jax.Array
    most: jax.Array
    turned: jax.Array
    short: jax.Array
    refused: jax.Array
    measured: jax.Array
    over: jax.Array


def maximise_with(
    optimizer: Steps,
    function: Callable[[jax.Array], jax.Array],
    start: jax.Array,
    limits: Limits | None = None,
    max_steps: int | jax.Array = MAX_STEPS,
) -> Maximum:
    """Climb from `start` to a maximum of a smooth function by the steps of an optimiser.

    The optimiser is given minus the function, divided by its value at the start, so that learning rates mean the same
    for weak and strong signals. Steps are shortened to a radius that starts as in `maximise`, doubles with each step up
    to `LARGEST_RADIUS`, and shrinks where the function is not defined. A climb that falls by `FALL` returns to its
    highest point, where the optimiser begins anew, with half the largest radius if it has got no higher since the last
    return: on a flank with upward curvature, quasi-Newton steps point down. Limits that are reached, and that the
    gradient points beyond, hold as equations; a step ends at the first other limit. The optimiser begins anew when the
    set of held limits changes, because its memory is of other directions.

    The climb is over when a Newton step is predicted to gain next to nothing, as in `maximise`: first with a curvature
    guessed from the value, then with the Hessian.

    Parameters
    ----------
    optimizer : Steps
    function : callable
        Map from (p,) to () float64; NaN where it is undefined.
    start : (p,) float64
        Starting point, within the limits.
    limits : Limits, optional
    max_steps : int or () int32

    Returns
    -------
    Maximum
        Its `steps` count gradient evaluations, except in line searches.
    """
    p, zero = len(start), jnp.zeros((), jnp.int32)
    m = 0 if limits is None else len(limits.matrix)

    def step(state: _State) -> _State:
        at, first = state.at, state.at.steps == 0
        pushed = jnp.zeros(0, bool) if limits is None else pushed_limits(at, limits, at.gradient)
        memory = _where(jnp.any(pushed != state.pushed), optimizer.init(at.x), state.memory)
        slope = -at.gradient if limits is None else -free_steps(limits.matrix, pushed) @ at.gradient

        def allowed(step: jax.Array) -> jax.Array:
            return _allowed_step(at, step, state.radius, limits, pushed)

        def loss(x: jax.Array) -> jax.Array:
            value = function(at.x + allowed(x - at.x))
            return jnp.where(jnp.isfinite(value), -value / state.scale, jnp.inf)

        wanted, memory = optimizer.update(slope / state.scale, memory, at.x, -at.value / state.scale, loss)
        sound = jnp.all(jnp.isfinite(wanted))
        move = jnp.where(first, 0.0, allowed(jnp.where(sound, wanted, 0.0)))
        value, gradient = jax.value_and_grad(function)(at.x + move)
        defined = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        new = Maximum(at.x + move, value, gradient, at.hessian, at.steps + 1, at.status)
        new = _where(defined, new, at._replace(steps=at.steps + 1))
        guess = -CURVATURE * jnp.maximum(new.value, 1.0) * jnp.eye(p)
        new = new._replace(
            hessian=jnp.where(state.measured, at.hessian, guess),
            status=jnp.where(first & ~defined, NOWHERE, RUNNING).astype(jnp.int32),
        )
        length = jnp.sqrt(jnp.sum(move * move))
        short = jnp.where(~first & (length < LEAST_RADIUS), state.short + 1, 0)
        refused = jnp.where(defined, state.refused, state.refused + 1)
        highest: Maximum = _where(new.value > state.highest.value, new, state.highest)
        # a climb that went down returns to its highest point
        fell = new.value < highest.value - FALL * jnp.abs(highest.value)
        new = _where(fell, highest._replace(steps=new.steps, status=new.status, hessian=new.hessian), new)
        most = jnp.where(fell & (highest.value <= state.turned), 0.5 * state.most, state.most)
        radius = jnp.where(defined, jnp.minimum(2 * state.radius, most), 0.25 * length)
        radius = jnp.where(fell, most, radius)
        return _State(
            at=new,
            highest=highest,
            scale=jnp.where(first, jnp.maximum(jnp.abs(new.value), 1.0), state.scale),
            memory=_where(first | fell | ~sound, optimizer.init(new.x), memory),
            pushed=pushed,
            radius=jnp.where(first, state.radius, radius),
            most=most,
            turned=jnp.where(fell, highest.value, state.turned),
            short=short,
            refused=refused,
            measured=state.measured,
            over=at_maximum(new, limits) | (short >= SHORT) | (refused >= REFUSED),
        )

    def climb(state: _State) -> _State:
        state = jax.lax.while_loop(lambda s: (s.at.status == RUNNING) & ~s.over & (s.at.steps < max_steps), step, state)
        at = state.at
        # the result of a climb that did not end is its highest point
        full = evaluated(function, jnp.where(state.over, at.x, state.highest.x))
        uphill = full.gradient / jnp.maximum(jnp.sqrt(jnp.sum(full.gradient**2)), 1e-300)
        pushed = jnp.zeros(m, bool) if limits is None else pushed_limits(full, limits, full.gradient)
        ahead = function(full.x + _allowed_step(full, FIRST_RADIUS * uphill, LARGEST_RADIUS, limits, pushed))
        hessian = full.hessian if limits is None else held(full.gradient, full.hessian, limits.matrix, pushed)[1]
        useless = (state.short >= SHORT) | (state.refused >= REFUSED) | ~jnp.all(jnp.linalg.eigvalsh(hessian) < 0)
        stuck = jnp.where(jnp.isfinite(ahead) & (state.refused < REFUSED), STALLED, LEFT)
        status = jnp.where(useless, stuck, jnp.where(at.steps >= max_steps, OUT_OF_STEPS, RUNNING))
        status = jnp.where(state.over, status, OUT_OF_STEPS)
        status = jnp.where(at_maximum(full, limits), CONVERGED, status).astype(jnp.int32)
        full = full._replace(steps=at.steps, status=status)
        measured = jnp.asarray(True)
        return state._replace(at=_where(at.status == RUNNING, full, at), measured=measured, over=jnp.asarray(False))

    # the first step, of length zero, evaluates the start: a second call would double the compilation time
    nowhere = Maximum(start, jnp.asarray(LEAST, start.dtype), jnp.zeros(p), jnp.zeros((p, p)), zero, zero + RUNNING)
    state = _State(
        at=nowhere,
        highest=nowhere,
        scale=jnp.asarray(1.0),
        memory=optimizer.init(start),
        pushed=jnp.zeros(m, bool),
        radius=jnp.asarray(FIRST_RADIUS),
        most=jnp.asarray(LARGEST_RADIUS),
        turned=jnp.asarray(-jnp.inf),
        short=zero,
        refused=zero,
        measured=jnp.asarray(False),
        over=jnp.asarray(False),
    )
    return jax.lax.while_loop(lambda s: s.at.status == RUNNING, climb, state).at


def _allowed_step(
    at: Maximum, step: jax.Array, radius: jax.Array | float, limits: Limits | None, pushed: jax.Array
) -> jax.Array:
    """Return a step, (p,), shortened to a radius, along limits that it would pass and up to the first other one."""
    square = jnp.sum(step * step)
    long = square > radius * radius
    step = step * jnp.where(long, radius / jnp.sqrt(jnp.where(long, square, 1.0)), 1.0)
    if limits is None:
        return step
    wanted = step
    for _ in range(len(limits.matrix) + 1):  # each round may find one more limit
        step = free_steps(limits.matrix, pushed) @ wanted
        pushed = pushed | pushed_limits(at, limits, step)
    return shortened(at.x, step, limits, pushed)


def _where(condition: jax.Array, one: Any, other: Any) -> Any:
    """Choose between two trees of arrays of equal shapes, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
