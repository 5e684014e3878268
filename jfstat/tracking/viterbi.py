"""The most likely path through a table of log-likelihoods, and the posterior probabilities of all states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jfstat.display import Displayed
from jfstat.maths.arrays import is_traced
from jfstat.public import public
from jfstat.tracking.transitions import (
    FLOOR,
    NONE,
    Lattice,
    Model,
    TransitionsLike,
    model_of,
    refuse_probabilities,
    refuse_scores,
)
from jfstat.validation import float64_of


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class ViterbiPath(Displayed):
    """The best path through a table of K segments; see `viterbi`.

    Attributes
    ----------
    path : (K,) or (K, 2) int32
        Index of the frequency in each segment; for tables with f1dots, indices of frequency and f1dot.
    log_likelihood : () float
        Sum of the table along the path and of the logarithms of its transitions' probabilities; -inf if there is no
        path.
    final : (N,) or (N, M) float
        Log-likelihood of the best path that ends in each state of the last segment.
    score : () float64
        Viterbi score: the path's log-likelihood minus the mean of `final`, in standard deviations of `final`, over all
        states in which a path ends, including the best (Suvorova et al. 2017, Phys. Rev. D 96, 102006; Abbott et al.
        2017, Phys. Rev. D 95, 122003; Sun et al. 2018, Phys. Rev. D 97, 043013).
    """

    path: jax.Array
    log_likelihood: jax.Array
    final: jax.Array
    score: jax.Array


def viterbi_score(final: jax.Array) -> jax.Array:
    """Return the Viterbi score from the `final` log-likelihoods of all states, (N,); see `ViterbiPath`."""
    there = final > NONE
    values = jnp.where(there, final, jnp.zeros_like(final)).astype(jnp.float64)
    n = jnp.maximum(jnp.sum(there, dtype=jnp.float64), 1.0)
    mean = jnp.sum(values) / n
    spread = jnp.sqrt(jnp.sum(jnp.where(there, values - mean, 0.0) ** 2) / n)
    best = jnp.max(final).astype(jnp.float64)
    return (best - mean) / jnp.where(spread > 0, spread, jnp.inf)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class PathPosterior(Displayed):
    """Probabilities of the states of a hidden Markov model, given the data; see `forward_backward`.

    Attributes
    ----------
    log_evidence : () float
        Logarithm of the likelihood, averaged over all paths with their prior probabilities.
    posterior : (K, N) or (K, N, M) float
        Probability of each state in each segment, given all segments; its sum over the states of a segment is 1.
    """

    log_evidence: jax.Array
    posterior: jax.Array


@public
def viterbi(
    log_likelihood: ArrayLike, transitions: TransitionsLike = 1, *, drift: Sequence[int] | None = None
) -> ViterbiPath:
    """Find the path through a table of segments and frequencies that has the largest log-likelihood.

    This is the Viterbi algorithm for a hidden Markov model whose states are frequency bins (Suvorova et al. 2016, Phys.
    Rev. D 93, 123009; Bayley, Messenger & Woan 2019, Phys. Rev. D 100, 023006). It works under jit and vmap.

    Parameters
    ----------
    log_likelihood : (K, N) or (K, N, M) array_like
        Log-likelihood of each segment (the emission), up to a constant, at N frequencies and, with three axes, M
        f1dots. For 2F it is ``twoF_by_segment(segments, point) / 2``. float32 stays float32. Impossible states have
        -inf. NaN is refused, and counts as -inf where values are traced.
    transitions : int or array_like
        Log-probabilities of jumps from one segment to the next, by -w, ..., w bins upwards, (2 w + 1,), or other
        scores, of which only the differences matter for the path. For tables with f1dots also (2 w + 1, 2 v + 1), with
        jumps by -v, ..., v f1dots; without the second axis, f1dot does not jump. A number w gives equal probabilities
        to all jumps by up to w bins.
    drift : sequence of M int, optional
        Bins by which each f1dot moves the frequency from one segment to the next, in addition to the jump.

    Returns
    -------
    ViterbiPath
        One of the best paths. All initial states are equally likely, and their probability is not included.

    Raises
    ------
    ValueError
        If an argument has another shape, or values that make no sense, such as NaN; or if `transitions` are
        probabilities, all less than 1, that add up to 1.

    Examples
    --------
    >>> table = jfstat.twoF_by_segment(segments, point) / 2
    >>> jfstat.viterbi(table, 1).path.shape
    (3,)
    """
    table = checked_table(log_likelihood)
    model = model_of(transitions, drift, 1 if table.ndim == 2 else table.shape[2], table.dtype)
    refuse_probabilities(transitions)
    return _viterbi(table, model.weights, model.lattice)


@public
def forward_backward(
    log_likelihood: ArrayLike, transitions: TransitionsLike = 1, *, drift: Sequence[int] | None = None
) -> PathPosterior:
    """Compute the evidence of a hidden Markov model and the posterior probability of each state.

    The forward-backward algorithm is `viterbi` with sums in place of maxima (Rabiner 1989, Proc. IEEE 77, 257). It
    works under jit, vmap and grad: the gradient of `log_evidence` with respect to the log-likelihoods is `posterior`.

    Parameters
    ----------
    log_likelihood, transitions, drift
        See `viterbi`. Probabilities of jumps should add up to 1, as they do for ``transitions=w``; otherwise the
        evidence is not an average. Unlike there, their logarithms must not be positive.

    Returns
    -------
    PathPosterior
        All initial states are equally likely. Paths that leave the band count as impossible.

    Raises
    ------
    ValueError
        See `viterbi`.

    Examples
    --------
    >>> table = jfstat.twoF_by_segment(segments, point) / 2
    >>> jfstat.forward_backward(table, 1).posterior.shape == table.shape
    True
    """
    table = checked_table(log_likelihood)
    model = model_of(transitions, drift, 1 if table.ndim == 2 else table.shape[2], table.dtype)
    refuse_scores(transitions)
    return _forward_backward(table, model.weights, model.lattice)


def checked_table(log_likelihood: ArrayLike) -> jax.Array:
    """Return the table of log-likelihoods as an array of floats.

    Raises
    ------
    ValueError
        If the table has other axes, a value is NaN or infinite upwards, or all are -inf.
    """
    if isinstance(log_likelihood, jax.Array):  # traced ones too
        table = log_likelihood
    else:
        found = np.asarray(float64_of(log_likelihood, "log_likelihood"))
        kind = getattr(log_likelihood, "dtype", None)
        table = jnp.asarray(found, kind if kind in (np.float32, np.float64) else np.float64)
    if jnp.issubdtype(table.dtype, jnp.complexfloating):
        raise ValueError(f"log_likelihood must be real numbers, not {table.dtype}.")
    if table.ndim not in (2, 3) or 0 in table.shape:
        raise ValueError(
            f"log_likelihood must have axes of segments, frequencies and perhaps f1dots, not shape {table.shape}."
        )
    if not jnp.issubdtype(table.dtype, jnp.floating):
        table = table.astype(jnp.float64)
    if is_traced(table):
        return table
    values = np.asarray(table)
    wrong = np.argwhere(~(values < np.inf))
    if len(wrong):
        place = wrong[0].tolist()
        raise ValueError(f"log_likelihood is {values[tuple(place)]} at {place}: give -inf where a state is impossible.")
    if not np.any(values > NONE):
        raise ValueError("log_likelihood has no finite value: every state of every segment is impossible.")
    return table


def rows_of(table: jax.Array) -> jax.Array:
    """Return the table as (K, M, N), without infinities and NaN."""
    rows = table[:, None] if table.ndim == 2 else jnp.swapaxes(table, 1, 2)
    return jnp.where(rows > FLOOR, rows, FLOOR)


@partial(jax.jit, static_argnames="lattice")
def _viterbi(table: jax.Array, weights: jax.Array, lattice: Lattice) -> ViterbiPath:
    rows, model = rows_of(table), Model(lattice, weights)

    def forwards(delta: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
        best, jump = model.best_predecessors(delta)
        return own + best, jump

    final, jumps = jax.lax.scan(forwards, rows[0], rows[1:])
    m, n = final.shape
    bins, f1dots = (jnp.asarray(x, jnp.int32) for x in zip(*lattice.jumps, strict=True))
    drift = jnp.asarray(lattice.drift, jnp.int32)

    def backwards(state: tuple[jax.Array, jax.Array], back: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        row, column = state
        jump = back[row, column].astype(jnp.int32)
        before = jnp.clip(row - f1dots[jump], 0, m - 1)
        # where no path leads, the jump may be from beyond the table
        state = before, jnp.clip(column - bins[jump] - drift[before], 0, n - 1)
        return state, jnp.stack([state[1], state[0]])

    place = jnp.argmax(final.reshape(-1)).astype(jnp.int32)
    last = place // n, place % n
    _, path = jax.lax.scan(backwards, last, jumps, reverse=True)
    path = jnp.concatenate([path, jnp.stack([last[1], last[0]])[None]])
    final = jnp.where(final > NONE, final, -jnp.inf)
    best = jnp.max(final)
    score = viterbi_score(final.reshape(-1))
    if table.ndim == 2:
        return ViterbiPath(path[:, 0], best, final[0], score)
    return ViterbiPath(path, best, final.T, score)


@partial(jax.jit, static_argnames="lattice")
def log_evidence(table: jax.Array, weights: jax.Array, lattice: Lattice) -> jax.Array:
    """Compute the logarithm of the evidence, () float, without checks, by the forward algorithm alone."""
    rows, model = rows_of(table), Model(lattice, weights)

    @jax.checkpoint
    def forwards(alpha: jax.Array, own: jax.Array) -> tuple[jax.Array, None]:
        return own + model.log_sum(alpha), None

    final, _ = jax.lax.scan(forwards, rows[0], rows[1:])
    total = jax.nn.logsumexp(final)
    return jnp.where(total > NONE, total - float(np.log(final.size)), -jnp.inf)


@partial(jax.jit, static_argnames="lattice")
def _forward_backward(table: jax.Array, weights: jax.Array, lattice: Lattice) -> PathPosterior:
    rows, model = rows_of(table), Model(lattice, weights)

    def backwards(beta: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
        beta = model.log_sum(own + beta, forwards=False)
        return beta, beta

    def forwards(alpha: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
        alpha = own + model.log_sum(alpha)
        return alpha, alpha

    # only the evidence is differentiated: derivatives of the posterior would take the memory of all steps
    _, alpha = jax.lax.scan(forwards, rows[0], rows[1:])
    _, beta = jax.lax.scan(backwards, jnp.zeros_like(rows[0]), rows[1:], reverse=True)
    alpha = jnp.concatenate([rows[:1], alpha])
    beta = jnp.concatenate([beta, jnp.zeros_like(rows[:1])])
    posterior = jax.nn.softmax((alpha + beta).reshape(len(rows), -1), axis=1).reshape(rows.shape)
    posterior = posterior[:, 0] if table.ndim == 2 else jnp.swapaxes(posterior, 1, 2)
    return PathPosterior(log_evidence(table, weights, lattice), posterior)
