"""Transitions of a hidden Markov model: the jumps of a state from one segment to the next, and their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jfstat.maths.arrays import is_traced
from jfstat.validation import float64_of, is_whole, shown

FLOOR = -1e30
"""Value that represents a logarithm of -inf: sums of many stay finite in float32, and derivatives are zero, not NaN."""
TransitionsLike = int | ArrayLike
"""Transitions as users give them; see `viterbi`."""
NONE = 0.5 * FLOOR
"""Value below which a logarithm counts as -inf."""
UNROLLED = 33
"""Largest number of jumps that are compiled one by one; more are compiled as a loop."""
ROUNDING = 1e-3
"""Largest logarithm of a probability that may exceed 1 by rounding, in float32 too."""
SUM_ROUNDING = 1e-6
"""Largest error of the sum of what are taken for probabilities."""
MOST_JUMPS = 10_001
"""Largest number of jumps of a model."""


Folded = TypeVar("Folded")
Step = Callable[[Folded, jax.Array, jax.Array | int], Folded]


class Jump(NamedTuple):
    """A change of state, in bins of frequency and in steps of f1dot."""

    bins: int
    f1dots: int


@dataclass(frozen=True)
class Lattice:
    """The states of a table, M f1dots and N frequencies, and their connections: the static part of a model.

    Attributes
    ----------
    half_width : Jump
        Largest jump in each direction.
    drift : tuple of M int
        Bins by which the frequency moves in a segment for each f1dot, in addition to the jump.
    periodic : bool
        Whether the last frequency is next to the first; only without f1dots.
    """

    half_width: Jump
    drift: tuple[int, ...]
    periodic: bool = False

    @property
    def jumps(self) -> list[Jump]:
        """All jumps, the shortest first; upwards before downwards."""
        w, v = self.half_width
        each = [Jump(a, b) for a in range(-w, w + 1) for b in range(-v, v + 1)]
        return sorted(each, key=lambda jump: (abs(jump.bins) + abs(jump.f1dots), -jump.bins, -jump.f1dots))

    def moved(self, x: jax.Array, forwards: bool = True) -> Callable[[jax.Array | int, jax.Array | int], jax.Array]:
        """Return a function that maps a jump to the values of the states at which it starts or ends.

        Parameters
        ----------
        x : (M, N)
            Values of the states.
        forwards : bool
            Whether to return the states at which the jump starts, or else the states at which it ends.
        """
        m, n = x.shape
        (w, v), reach = self.half_width, max(map(abs, self.drift))
        sign = 1 if forwards else -1
        if self.periodic:
            wide = jnp.pad(x, ((0, 0), (w, w)), mode="wrap")
        elif reach == 0:
            wide = jnp.pad(x, ((v, v), (w, w)), constant_values=FLOOR)
        else:
            side = w + reach
            own = [d if forwards else 0 for d in self.drift]
            rows = [jnp.pad(x[i], (side + d, side - d), constant_values=FLOOR) for i, d in enumerate(own)]
            wide = jnp.pad(jnp.stack(rows), ((v, v), (0, 0)), constant_values=FLOOR)
        side = w + reach

        def at(bins: jax.Array | int, f1dots: jax.Array | int) -> jax.Array:
            # forwards the state (i, j) is reached from (i - f1dots, j - bins - drift of that f1dot)
            if isinstance(bins, int) and isinstance(f1dots, int) and (forwards or reach == 0):
                row, column = v - sign * f1dots, side - sign * bins
                return wide[row : row + m, column : column + n]
            if forwards or reach == 0:
                return jax.lax.dynamic_slice(wide, (v - sign * f1dots, side - sign * bins), (m, n))
            rows = [
                jax.lax.dynamic_slice(wide, (v + i + f1dots, side + bins + d), (1, n)) for i, d in enumerate(self.drift)
            ]
            return jnp.concatenate(rows)

        return at


class Model(NamedTuple):
    """A hidden Markov model: a lattice, which is static, and the log-probability of each of its jumps, (J,)."""

    lattice: Lattice
    weights: jax.Array

    def fold(self, step: Step, start: Folded, x: jax.Array, forwards: bool = True) -> Folded:
        """Fold a function (folded, candidates, number of the jump) over the candidates (M, N) of all jumps."""
        jumps, at = self.lattice.jumps, self.lattice.moved(x, forwards)
        if len(jumps) <= UNROLLED:
            for number, jump in enumerate(jumps):
                start = step(start, at(*jump) + self.weights[number], number)
            return start
        places = jnp.asarray(np.array(jumps, np.int32))

        def one(i: jax.Array, folded: Folded) -> Folded:
            return step(folded, at(places[i, 0], places[i, 1]) + self.weights[i], i)

        return jax.lax.fori_loop(0, len(jumps), one, start)

    def best_predecessors(self, delta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the largest candidate of each state, and the number of the first jump that gives it: (M, N) each."""
        kind = np.min_scalar_type(len(self.lattice.jumps) - 1)

        def better(
            best: tuple[jax.Array, jax.Array], candidate: jax.Array, number: jax.Array | int
        ) -> tuple[jax.Array, jax.Array]:
            value, jump = best
            own = candidate > value
            return jnp.where(own, candidate, value), jnp.where(own, jnp.asarray(number, kind), jump)

        start = jnp.full_like(delta, -jnp.inf), jnp.zeros(delta.shape, kind)
        return self.fold(better, start, delta)

    def largest_predecessors(self, delta: jax.Array, forwards: bool = True) -> jax.Array:
        """Return the largest candidate of each state, (M, N)."""
        return self.fold(lambda best, x, _: jnp.maximum(best, x), jnp.full_like(delta, -jnp.inf), delta, forwards)

    def log_sum(self, x: jax.Array, forwards: bool = True) -> jax.Array:
        """Return the logarithm of the sum of the exponentials of all candidates, (M, N)."""
        largest = jax.lax.stop_gradient(self.largest_predecessors(x, forwards))
        total = self.fold(lambda sum, x, _: sum + jnp.exp(x - largest), jnp.zeros_like(x), x, forwards)
        return largest + jnp.log(total)


def model_of(transitions: TransitionsLike, drift: Sequence[int] | None, n_f1dots: int, kind: jnp.dtype) -> Model:
    """Make the model of a table with `n_f1dots` f1dots from users' arguments; see `viterbi`.

    Raises
    ------
    ValueError
        If the transitions are malformed, or the drift is not a whole number for each f1dot.
    """
    weights = log_probabilities(transitions)
    if n_f1dots == 1 and weights.shape[1] > 1:
        raise ValueError("transitions have an axis of f1dot, but log_likelihood has no f1dots: give a plain sequence.")
    w, v = (n // 2 for n in weights.shape)
    lattice = Lattice(Jump(w, v), checked_drift(drift, n_f1dots))
    places = np.array(lattice.jumps) + np.array([w, v])
    return Model(lattice, jnp.maximum(weights[places[:, 0], places[:, 1]].astype(kind), FLOOR))


def log_probabilities(transitions: TransitionsLike, name: str = "transitions") -> jax.Array:
    """Return log-probabilities of jumps, (2 w + 1, 2 v + 1) float64, from a user's argument; see `viterbi`.

    Raises
    ------
    ValueError
        If the transitions are malformed.
    """
    return jnp.asarray(_table_of(transitions, name))


def _table_of(transitions: TransitionsLike, name: str) -> np.ndarray | jax.Array:
    """Return `log_probabilities`, as a NumPy array unless they are traced."""
    if is_traced(transitions):
        table: np.ndarray | jax.Array = transitions.astype(jnp.float64)
    elif is_whole(transitions):
        if not 0 <= int(transitions) <= MOST_JUMPS // 2:  # type: ignore[arg-type]
            raise ValueError(f"{name} must be a number of bins from 0 to {MOST_JUMPS // 2}, not {shown(transitions)}.")
        n = 2 * int(transitions) + 1  # type: ignore[arg-type]
        table = np.full(n, -np.log(n))
    else:
        table = float64_of(transitions, name)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or any(n % 2 == 0 for n in table.shape) or table.size > MOST_JUMPS:
        raise ValueError(
            f"{name} must be a number of bins, or log-probabilities of an odd number of jumps, not of shape "
            f"{table.shape}: give those from -w to w bins, with -inf for what cannot be."
        )
    if isinstance(table, np.ndarray) and (np.isnan(table).any() or (table == np.inf).any() or table.max() == -np.inf):
        raise ValueError(f"{name} must be log-probabilities, not {shown(transitions)}: give finite ones or -inf.")
    return table


def refuse_scores(transitions: TransitionsLike, name: str = "transitions") -> None:
    """Raise a ValueError for transitions that are no logarithms of probabilities, which evidences, chances of noise and
    limits need; the best path needs only their differences."""
    if is_traced(transitions) or is_whole(transitions):
        return
    values = float64_of(transitions, name)
    if np.max(values) > ROUNDING or _are_probabilities(values):
        raise ValueError(
            f"{name} must be log-probabilities, at most 0, not {shown(transitions)}: give np.log of probabilities."
        )


def refuse_probabilities(transitions: TransitionsLike, name: str = "transitions") -> None:
    """Raise a ValueError for probabilities where their logarithms or other scores are wanted."""
    if is_traced(transitions) or is_whole(transitions):
        return
    if _are_probabilities(float64_of(transitions, name)):
        raise ValueError(
            f"{name} must be log-probabilities or other scores, not probabilities, {shown(transitions)}: give np.log "
            "of them."
        )


def _are_probabilities(values: np.ndarray) -> bool:
    """Return whether values are evidently probabilities of jumps.

    SOAP's scores [0, 1, 0] add up to 1 as well; with a probability of 1 there would be only one jump.
    """
    return bool(np.all((values >= 0) & (values < 1)) and abs(np.sum(values) - 1) <= SUM_ROUNDING)


def check_reach(transitions: TransitionsLike, n_frequencies: int, name: str = "transitions") -> None:
    """Raise a ValueError for jumps farther than from one end of the band to the other; traced ones are not checked."""
    if is_traced(transitions):
        return
    table = np.asarray(_table_of(transitions, name))
    bins = np.abs(np.arange(len(table)) - len(table) // 2)
    farthest = int(np.max(bins[np.any(table > NONE, axis=1)]))
    if farthest >= n_frequencies:
        raise ValueError(
            f"{name} reaches {farthest} bins, and the band has {n_frequencies - 1} bins from end to end: allow smaller "
            "jumps, or give a wider band."
        )


def checked_drift(drift: Sequence[int] | None, n_f1dots: int) -> tuple[int, ...]:
    """Return the bins by which each f1dot moves the frequency in a segment, as Python's numbers.

    Raises
    ------
    ValueError
        If the drift is not one whole number for each f1dot.
    """
    if drift is None:
        return (0,) * n_f1dots
    values = float64_of(drift, "drift")
    if values.shape != (n_f1dots,) or not np.all(np.abs(values) < MOST_JUMPS) or np.any(values != np.round(values)):
        raise ValueError(
            f"drift must be {n_f1dots} whole number(s) of bins, one for each f1dot of log_likelihood, not "
            f"{shown(drift)}."
        )
    return tuple(int(x) for x in values)


def plain_transitions(transitions: TransitionsLike) -> tuple[float, ...]:
    """Return log-probabilities of jumps from -w to w bins as Python's numbers.

    Raises
    ------
    ValueError
        If the transitions are malformed, traced, or have an axis of f1dot.
    """
    if is_traced(transitions):
        raise ValueError("transitions must not be traced: call search outside of transformations.")
    table = np.asarray(log_probabilities(transitions, "transitions"))
    refuse_scores(transitions)
    if table.shape[1] > 1:
        raise ValueError("transitions must be of frequency alone: f1dot is a parameter of the templates.")
    return tuple(np.maximum(table[:, 0], FLOOR).tolist())
