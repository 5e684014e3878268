"""Compute values of candidates row by row, in programs of one size whatever the number of candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from jfstat.data.blockspectra import BlockSpectra
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of

Row = TypeVar("Row")


def at_once(data: FstatData | BlockSpectra) -> bool:
    """Return whether `computed_rows` should compute all rows at a time: on an accelerator, and from spectra, since a
    row then needs little memory.

    Call this before tracing, since code for both kinds of devices takes three times as long to trace.
    """
    return isinstance(data, BlockSpectra) and device_of(data).platform != "cpu"


def computed_rows(of_row: Callable[[jax.Array | int], Row], n: jax.Array | int, size: int, together: bool) -> Row:
    """Return a function's results for rows 0 to n - 1 of `size`, stacked; those of row 0 for the others.

    A row's values do not depend, to the last bit, on n or on the other rows: a CPU computes one row after the other,
    and an accelerator, which would be idle most of that time, all `size` rows. The others are filled up so that what
    is computed of them is finite: ``jax_debug_nans`` and ``jax_debug_infs`` do not know that they are dropped.

    Parameters
    ----------
    of_row : function
        Function of the number of a row, () int, that returns a pytree of arrays.
    n : int
        At least 1.
    size : int
        Number of rows of the result.
    together : bool
        Result of `at_once`.
    """
    rows = jax.vmap(of_row)(jnp.arange(size)) if together else _in_turn(of_row, n, size)
    counted = jnp.arange(size) < n
    return jax.tree.map(lambda x: jnp.where(counted.reshape(-1, *[1] * (x.ndim - 1)), x, x[:1]), rows)


def _in_turn(of_row: Callable[[jax.Array | int], Row], n: jax.Array | int, size: int) -> Row:
    empty = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype), jax.eval_shape(of_row, 0))

    def fill(i: jax.Array, rows: Row) -> Row:
        return jax.tree.map(lambda x, y: x.at[i].set(y), rows, of_row(i))

    return jax.lax.fori_loop(0, n, fill, empty)
