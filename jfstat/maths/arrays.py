"""Array helpers that use NumPy for known values and JAX for traced ones.

Outside of jit each operation of `jax.numpy`, even `asarray`, is a compiled program for each shape. Tracing and loading
one takes some milliseconds, and a template has dozens of numbers. NumPy needs no programs.
"""

from __future__ import annotations

from types import ModuleType

import jax
import jax.core
import jax.numpy as jnp
import numpy as np


def module_for(*values: object) -> ModuleType:
    """Return `jax.numpy` if one of some values or arrays is traced, otherwise NumPy."""
    return jnp if any(isinstance(x, jax.core.Tracer) for x in values) else np


def on_device(x: jax.Array | np.ndarray | np.generic | float) -> jax.Array:
    """Return a value as a JAX array of the same dtype; JAX arrays, traced or not, are returned as they are."""
    return x if isinstance(x, jax.Array) else jax.device_put(np.array(x))  # a copy, which the result may share


def broadcast(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Return an array broadcast to a shape."""
    if x.shape == shape:
        return x
    xp = module_for(x)
    return on_device(xp.broadcast_to(xp.asarray(x), shape))


def divided(x: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """Return quotient and remainder of whole numbers that are not negative, same shape and dtype, for traced code.

    `jnp.divmod` rounds down for negative numbers too, which gives XLA ten operations to compile.
    """
    divisor = np.asarray(n, x.dtype)
    return jax.lax.div(x, divisor), jax.lax.rem(x, divisor)


def stacked_last(arrays: list[jax.Array]) -> jax.Array:
    """Stack arrays of one shape along a new last axis."""
    xp = module_for(*arrays)
    return on_device(xp.stack([xp.asarray(x) for x in arrays], axis=-1))
