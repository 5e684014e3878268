"""Array helpers that use NumPy for known values and JAX for traced ones.

Outside of jit each operation of `jax.numpy`, even `asarray`, is a compiled program for each shape. Tracing and loading
one takes some milliseconds, and a template has dozens of numbers. NumPy needs no programs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any, TypeGuard, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

Array = TypeVar("Array", jax.Array, np.ndarray)
Tree = TypeVar("Tree")
PRECISE = "highest"
"""Precision of products of matrices in single precision: by default XLA rounds their elements to 11 bits on NVIDIA GPUs
from the A100 on (TensorFloat-32), which changes 2F by up to 2e-4 of its value."""
LEAST = float(np.finfo(np.float32).min)
"""Stands for minus infinity, that is for no value, in results of programs: JAX's setting ``jax_debug_infs`` stops at
infinities."""


def is_traced(x: object) -> TypeGuard[jax.core.Tracer]:
    """Return whether JAX traces a value, so that it has a shape but no numbers yet."""
    return isinstance(x, jax.core.Tracer)


def any_traced(*trees: Any) -> bool:
    """Return whether JAX traces a leaf of some pytrees, which may be any objects."""
    try:
        return any(map(is_traced, jax.tree.leaves(trees)))
    except Exception:  # of a mapping whose keys have no order, or a foreign object
        return False


def rows(tree: Tree, at: jax.Array) -> Tree:
    """Return some elements of stacked arrays, whose places are known to exist; fewer operations than by indices that
    may be negative.

    Parameters
    ----------
    tree : pytree
        Arrays with a leading axis.
    at : (n,) int32
    """
    how: Any = dict(mode="promise_in_bounds", wrap_negative_indices=False)
    return jax.tree.map(lambda x: x.at[at].get(**how), tree)


def within_trace() -> bool:
    """Return whether a function is being traced around the caller, though its own values may be known.

    True as well while Python ends, when nothing can tell.
    """
    try:
        return get_opaque_trace_state(convention="") != _outside_of_traces()
    except RuntimeError:
        return True


@cache
def _outside_of_traces() -> object:
    with ThreadPoolExecutor(1) as pool:  # no function is traced in a new thread
        return pool.submit(get_opaque_trace_state, convention="").result()


def module_for(*values: object) -> ModuleType:
    """Return `jax.numpy` if one of some values or arrays is traced, otherwise NumPy."""
    return jnp if any(map(is_traced, values)) else np


def on_device(x: jax.Array | np.ndarray | np.generic | float) -> jax.Array:
    """Return a value as a JAX array of the same dtype; JAX arrays, traced or not, are returned as they are."""
    return x if isinstance(x, jax.Array) else jax.device_put(np.array(x))  # a copy, which the result may share


def broadcast(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return an array broadcast to a shape."""
    if x.shape == shape:
        return x
    xp = module_for(x)
    return on_device(xp.broadcast_to(xp.asarray(x), shape))


def with_axes(x: Array, n: int) -> Array:
    """Return an array with axes of length 1 before its own, so that it has n of them.

    It is for arithmetic with arrays of n axes: with ``jax_numpy_rank_promotion`` set to raise, JAX adds no axes itself.
    """
    return x.reshape((1,) * (n - x.ndim) + x.shape)


def divided(x: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """Return quotient and remainder of whole numbers that are not negative, same shape and dtype, for traced code.

    `jnp.divmod` rounds down for negative numbers too, which gives XLA ten operations to compile.
    """
    divisor = np.asarray(n, x.dtype)
    return jax.lax.div(x, divisor), jax.lax.rem(x, divisor)


def stacked_first(arrays: list[jax.Array]) -> jax.Array:
    """Stack arrays of one shape along a new first axis."""
    xp = module_for(*arrays)
    return on_device(xp.stack([xp.asarray(x) for x in arrays]))


def stacked_last(arrays: list[jax.Array]) -> jax.Array:
    """Stack arrays of one shape along a new last axis."""
    xp = module_for(*arrays)
    return on_device(xp.stack([xp.asarray(x) for x in arrays], axis=-1))
