"""Maximisation of a smooth function by a trust-region Newton method; traceable, and meant for vmap.

optax has no second-order method, while 2F in whitened coordinates usually has two to nine parameters and a cheap
Hessian. `jfstat.maths.descent` uses optax's methods; docs/followup.md compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.maths.arrays import LEAST

FIRST_RADIUS, LARGEST_RADIUS, LEAST_RADIUS = 0.3, 1.0, 1e-7
"""Radii of the region in which the quadratic model is trusted; a peak has radius 1 in whitened coordinates."""
LITTLE, ENOUGH, GOOD = 1e-4, 0.25, 0.75
"""Ratios of actual to predicted gain: above the first a step is accepted, below the second the radius shrinks, above
the third it grows."""
GAIN = 1e-9
"""The search has converged if a full Newton step is predicted to gain less than this times 1 + |value|."""
MAX_STEPS = 60
"""Default limit on the number of steps."""
BISECTIONS = 40
"""Bisections to find the multiplier that keeps a step inside the trust region; each halves its error."""
AT_LIMIT = 1e-9
"""Distance within which a limit counts as reached, relative to the distance between the two limits."""
RUNNING, CONVERGED, STALLED, OUT_OF_STEPS, LEFT, NOWHERE = range(6)
"""Status of a search: not ended; ended at a maximum; no step gains; too many steps; stopped at the edge of where the
function is defined; the function is not defined at the start."""


class Limits(NamedTuple):
    """Limits ``low <= matrix @ x <= high`` on m linear combinations of the parameters.

    Attributes
    ----------
    matrix : (m, p) float64
    low, high : (m,) float64
    """

    matrix: jax.Array
    low: jax.Array
    high: jax.Array


class Maximum(NamedTuple):
    """The end point of a search in p parameters.

    Attributes
    ----------
    x : (p,) float64
    value : () float64
    gradient, hessian : (p,), (p, p) float64
        Gradient and Hessian of the function at x.
    steps : () int32
        Number of evaluations of value, gradient and Hessian.
    status : () int32
        One of CONVERGED, STALLED, OUT_OF_STEPS, LEFT, NOWHERE.
    """

    x: jax.Array
    value: jax.Array
    gradient: jax.Array
    hessian: jax.Array
    steps: jax.Array
    status: jax.Array


class Climb(NamedTuple):
    """State of a search.

    Attributes
    ----------
    best : Maximum
        Highest point so far; its status is RUNNING until the search has ended.
    radius : () float64
        Radius of the region in which the quadratic model is trusted.
    undefined : () bool
        Whether the function was not defined where the last steps led.
    """

    best: Maximum
    radius: jax.Array
    undefined: jax.Array


class Queue(NamedTuple):
    """State of N searches, of which m are under way.

    Attributes
    ----------
    number : (m,) int32
        Which searches are under way; those from the number of searches on are none.
    climbs : Climb
        Their states.
    waiting : () int32
        Number of the search that begins next.
    ends : Maximum
        Ends of the searches that are over, with a leading axis N.
    """

    number: jax.Array
    climbs: Climb
    waiting: jax.Array
    ends: Maximum


def maximise(
    function: Callable[[jax.Array], jax.Array],
    start: jax.Array,
    limits: Limits | None = None,
    max_steps: int | jax.Array = MAX_STEPS,
    otherwise: jax.Array | None = None,
) -> Maximum:
    """Climb from `start` to a maximum of a smooth function, by Newton steps within a trust region.

    Steps follow More and Sorensen (1983), SIAM J. Sci. Stat. Comput. 4, 553, with the eigenvalues of the Hessian; the
    radius follows Nocedal and Wright, Numerical Optimization (2006), algorithm 4.1. Limits that are reached, and that
    the gradient points beyond, hold as equations during a step; a step ends at the first other limit.

    Parameters
    ----------
    function : callable
        Map from (p,) to () float64; NaN where it is undefined.
    start : (p,) float64
        Starting point, within the limits.
    limits : Limits, optional
    max_steps : int or () int32
    otherwise : (p,) float64, optional
        Starting point if the function is undefined at `start`.

    Returns
    -------
    Maximum
    """
    step = jax.vmap(lambda _, at: stepped(function, at, limits, otherwise))
    return jax.tree.map(lambda x: x[0], climbed(start[None], step, 1, 1, max_steps))


def climbed(
    starts: jax.Array,
    step: Callable[[jax.Array, Climb], Climb],
    at_once: int,
    n: int | jax.Array,
    max_steps: int | jax.Array,
) -> Maximum:
    """Climb from each of N starts, m at a time, and return the ends.

    Where a climb has ended the next one begins, so that none waits for the slowest of others.

    Parameters
    ----------
    starts : (N, p) float64
    step : callable
        Function of the numbers of m climbs, (m,) int32, and their states that takes one step of each, usually `stepped`
        under `jax.vmap`.
    at_once : int
        How many climbs are computed at a time, m.
    n : int or () int32
        From how many starts, the first ones, to climb: the others are returned as they are, with the status NOWHERE.
    max_steps : int or () int32
    """
    last = starts.shape[0] - 1

    def some(queue: Queue) -> Queue:
        climbs = step(jnp.minimum(queue.number, last), queue.climbs)
        running = (climbs.best.status == RUNNING) & (climbs.best.steps < max_steps)
        ended = (queue.number < n) & ~running
        at = jnp.where(ended, queue.number, last + 1)  # nothing is written there
        ends = jax.tree.map(lambda x, own: x.at[at].set(own, mode="drop"), queue.ends, climbs.best)
        number = jnp.where(ended, queue.waiting + jnp.cumsum(ended, dtype=jnp.int32) - 1, queue.number)
        begin = jax.vmap(begun)(starts[jnp.minimum(number, last)])
        climbs = jax.vmap(lambda new, a, b: jax.tree.map(lambda a, b: jnp.where(new, a, b), a, b))(ended, begin, climbs)
        return Queue(number, climbs, queue.waiting + jnp.sum(ended, dtype=jnp.int32), ends)

    at_once = min(at_once, last + 1)
    every = jax.vmap(begun)(starts)
    first = Queue(
        number=jnp.arange(at_once, dtype=jnp.int32),
        climbs=jax.tree.map(lambda x: x[:at_once], every),
        waiting=jnp.asarray(at_once, jnp.int32),
        ends=every.best._replace(status=jnp.full_like(every.best.status, NOWHERE)),
    )
    best = jax.lax.while_loop(lambda queue: jnp.any(queue.number < n), some, first).ends
    return best._replace(status=jnp.where(best.status == RUNNING, OUT_OF_STEPS, best.status).astype(jnp.int32))


def begun(start: jax.Array) -> Climb:
    """Return the state of a search before its first step, which evaluates the function at `start`, (p,) float64."""
    p, zero = start.shape[0], jnp.zeros((), jnp.int32)
    nowhere = Maximum(start, jnp.asarray(LEAST, start.dtype), jnp.zeros(p), jnp.zeros((p, p)), zero, zero + RUNNING)
    return Climb(nowhere, jnp.asarray(FIRST_RADIUS), jnp.asarray(False))


def stepped(
    function: Callable[[jax.Array], jax.Array],
    state: Climb,
    limits: Limits | None = None,
    otherwise: jax.Array | None = None,
) -> Climb:
    """Take one step of a search; see `maximise`."""
    at = state.best
    # the first step, of length zero, evaluates the start: a second call would double the compilation time
    first = at.steps == 0
    step, gain = _limited_step(at, state.radius, limits)
    tried = evaluated(function, at.x + step)
    ratio = (tried.value - at.value) / gain
    defined = jnp.isfinite(tried.value)
    better = defined & (first | (ratio > LITTLE))
    length = jnp.sqrt(jnp.sum(step * step))
    grown = jnp.where((ratio > GOOD) & (length > 0.8 * state.radius), 2 * state.radius, state.radius)
    radius = jnp.where(defined & (ratio >= ENOUGH), jnp.minimum(grown, LARGEST_RADIUS), 0.25 * length)
    radius = jnp.where(first, state.radius, radius)
    new: Maximum = jax.tree.map(lambda a, b: jnp.where(better, a, b), tried, at)
    undefined = ~better & (~defined | state.undefined)
    stuck = jnp.where(undefined, LEFT, STALLED)
    status = jnp.where(at_maximum(new, limits), CONVERGED, jnp.where(radius < LEAST_RADIUS, stuck, RUNNING))
    status = jnp.where(first & ~defined, NOWHERE, status)
    new = new._replace(steps=at.steps + 1, status=status.astype(jnp.int32))
    if otherwise is not None:
        elsewhere = first & ~defined & ~state.undefined
        again = at._replace(x=otherwise)
        new = jax.tree.map(lambda a, b: jnp.where(elsewhere, a, b), again, new)
    return Climb(new, radius, undefined)


def evaluated(function: Callable[[jax.Array], jax.Array], x: jax.Array) -> Maximum:
    """Compute value, gradient and Hessian at x, in one pass."""

    def with_all(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        value, gradient = jax.value_and_grad(function)(x)
        return gradient, (value, gradient)

    hessian, (value, gradient) = jax.jacfwd(with_all, has_aux=True)(x)
    zero = jnp.zeros((), jnp.int32)
    return Maximum(x, value, gradient, 0.5 * (hessian + hessian.T), zero, zero)


def at_maximum(at: Maximum, limits: Limits | None) -> jax.Array:
    """Return whether no step within the limits would gain a noticeable amount: () bool."""
    if limits is None:
        return _is_top(at.gradient, at.hessian, at.value)
    pushed = pushed_limits(at, limits, at.gradient)
    return _is_top(*held(at.gradient, at.hessian, limits.matrix, pushed), at.value)


def _is_top(gradient: jax.Array, hessian: jax.Array, value: jax.Array) -> jax.Array:
    """Return whether the Hessian is negative definite and a Newton step would gain next to nothing."""
    size, axes = jnp.linalg.eigh(hessian)
    along = axes.T @ gradient
    gain = -0.5 * jnp.sum(along * along / jnp.where(size < 0, size, -1.0))
    return jnp.all(size < 0) & (gain < GAIN * (1 + jnp.abs(value)))


def pushed_limits(at: Maximum, limits: Limits, direction: jax.Array) -> jax.Array:
    """Return which limits are reached and would be passed along a direction: (m,) bool."""
    place, along = limits.matrix @ at.x, limits.matrix @ direction
    near = AT_LIMIT * (limits.high - limits.low)
    return ((place >= limits.high - near) & (along > 0)) | ((place <= limits.low + near) & (along < 0))


def held(gradient: jax.Array, hessian: jax.Array, matrix: jax.Array, which: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return gradient and Hessian for steps that keep some linear combinations, rows of `matrix`, constant."""
    kept = free_steps(matrix, which)
    stiff = 1.0 + jnp.sqrt(jnp.sum(hessian * hessian))
    return kept @ gradient, kept @ hessian @ kept - stiff * (jnp.eye(len(gradient)) - kept)


def free_steps(matrix: jax.Array, which: jax.Array) -> jax.Array:
    """Return the projection, (p, p), onto steps that keep chosen linear combinations, rows of `matrix`, constant."""
    rows = jnp.where(which[:, None], matrix / jnp.linalg.norm(matrix, axis=1, keepdims=True), 0.0)
    return jnp.eye(matrix.shape[1]) - rows.T @ jnp.linalg.pinv(rows @ rows.T, rtol=1e-10) @ rows


def _limited_step(at: Maximum, radius: jax.Array, limits: Limits | None) -> tuple[jax.Array, jax.Array]:
    """Return the best step within the trust region and the limits, (p,), and its predicted gain, ()."""
    if limits is None:
        return trusted_step(at.gradient, at.hessian, radius)
    pushed = pushed_limits(at, limits, at.gradient)
    step = jnp.zeros_like(at.x)
    for _ in range(limits.matrix.shape[0] + 1):  # each round may find one more limit
        step, _ = trusted_step(*held(at.gradient, at.hessian, limits.matrix, pushed), radius)
        pushed = pushed | pushed_limits(at, limits, step)
    step = shortened(at.x, step, limits, pushed)
    return step, at.gradient @ step + 0.5 * step @ at.hessian @ step


def shortened(x: jax.Array, step: jax.Array, limits: Limits, pushed: jax.Array) -> jax.Array:
    """Return a step, (p,), from x that ends at the first limit, apart from limits that are held, (m,) bool."""
    place, along = limits.matrix @ x, limits.matrix @ step
    moving = jnp.abs(along) > 1e-12 * (limits.high - limits.low)
    room = jnp.where(along > 0, limits.high - place, limits.low - place) / jnp.where(moving, along, 1.0)
    return step * jnp.clip(jnp.min(jnp.where(moving & ~pushed, room, jnp.inf)), 0.0, 1.0)


def trusted_step(gradient: jax.Array, hessian: jax.Array, radius: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the step, (p,), of at most length `radius` that gains most in the quadratic model, and its gain, ()."""
    size, axes = jnp.linalg.eigh(-hessian)
    along = axes.T @ gradient
    square = jnp.sum(along * along)

    def length2(shift: jax.Array) -> jax.Array:
        return jnp.sum((along / (size + shift)) ** 2)

    # the shift that makes the step as long as the radius lies between these
    tiny = 1e-12 * (1e-300 + jnp.max(jnp.abs(size)))
    low = jnp.maximum(0.0, tiny - size[0])
    high = low + jnp.sqrt(square) / radius + tiny

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        long = length2(middle) > radius * radius
        return jnp.where(long, middle, low), jnp.where(long, high, middle)

    inside = (size[0] > 0) & (length2(jnp.zeros_like(low)) <= radius * radius)
    _, shift = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    shift = jnp.where(inside, 0.0, shift)
    short = jnp.where(square > 0, along / (size + shift), 0.0)
    gain = jnp.sum(along * short) - 0.5 * jnp.sum(size * short * short)
    return axes @ short, gain
