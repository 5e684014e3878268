"""Compute a function of stacked candidates, some of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax

Element = TypeVar("Element")
Result = TypeVar("Result")


def in_groups(function: Callable[[Element], Result], stack: Element, at_once: int) -> Result:
    """Return a function's results for n stacked elements, given to it in stacks of `at_once`, a divisor of n."""
    n = jax.tree.leaves(stack)[0].shape[0]
    groups = jax.tree.map(lambda x: x.reshape(n // at_once, at_once, *x.shape[1:]), stack)
    return jax.tree.map(lambda x: x.reshape(n, *x.shape[2:]), jax.lax.map(function, groups))
