"""Compute a function of stacked candidates, some of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

Element = TypeVar("Element")
Result = TypeVar("Result")


def in_groups(function: Callable[[Element], Result], stack: Element, at_once: int, n: int | jax.Array) -> Result:
    """Return a function's results for the first n of N stacked elements; those for the others mean nothing.

    Parameters
    ----------
    function : callable
        Map from stacks of `at_once` elements to their results, stacked.
    stack : pytree
        Leaves with a leading axis N.
    at_once : int
        How many elements are given to the function at a time, a divisor of N.
    n : () int32
        How many elements are wanted: a group without any of them is not computed.
    """
    size = jax.tree.leaves(stack)[0].shape[0]
    if size == at_once:  # without a loop the program is smaller
        return function(jax.tree.map(jnp.asarray, stack))
    groups = jax.tree.map(lambda x: jnp.reshape(x, (size // at_once, at_once, *jnp.shape(x)[1:])), stack)
    traced = jax.jit(function, inline=True)  # once, for the shapes of the results and for the loop
    first = jax.tree.map(lambda x: x[0], groups)
    blank = jax.tree.map(lambda x: jnp.zeros((size // at_once, *x.shape), x.dtype), jax.eval_shape(traced, first))

    def with_group(i: jax.Array, results: Result) -> Result:
        own = traced(jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), groups))
        return jax.tree.map(lambda x, new: jax.lax.dynamic_update_index_in_dim(x, new, i, 0), results, own)

    results = jax.lax.fori_loop(0, (n + at_once - 1) // at_once, with_group, blank)
    return jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), results)
