"""Index, count and iterate the templates of a stack: its leading axes, whatever other axes its arrays have."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.maths.arrays import any_traced, is_traced, on_device


class Stackable:
    """Base of pytrees whose arrays all begin with the same axes: those of a stack; one template has none.

    A subclass is a dataclass whose first field has no other axes.
    """

    def _stack_shape(self) -> tuple[int, ...]:
        return np.shape(getattr(self, dataclasses.fields(self)[0].name))  # type: ignore[arg-type]

    def __len__(self) -> int:
        shape = self._stack_shape()
        if not shape:
            raise TypeError(f"a single {type(self).__name__} has no length: only stacks have one.")
        return shape[0]

    def __bool__(self) -> bool:
        return True  # of any length, as before there was one

    def __getitem__(self, index: Any) -> Self:
        """Return a part of a stack, by NumPy's rules for an array with its leading axes.

        Raises
        ------
        IndexError
            If there is no such part, or this is a single template.
        """
        shape = self._stack_shape()
        places = index if isinstance(index, tuple) else (index,)
        if any_traced(places, self):
            if not shape:
                _refuse_single(self)
            return self._part(places, len(shape))
        places = tuple(np.asarray(x) if isinstance(x, jax.Array) else x for x in places)
        if not shape and any(x is not Ellipsis and x is not None for x in places):
            _refuse_single(self)
        _ = np.broadcast_to(np.int8(0), shape)[places]  # raises NumPy's errors, which do not speak of other axes
        return self._part(places, len(shape))

    def __iter__(self) -> Iterator[Self]:
        if not self._stack_shape():
            raise TypeError(f"a single {type(self).__name__} is not a sequence of templates: only stacks are.")
        return (self[i] for i in range(len(self)))  # without a length iteration would go on until an IndexError

    def _part(self, places: tuple[Any, ...], n_axes: int) -> Self:
        """Return the part with some indices of the first axes of all arrays."""
        whole = any(x is Ellipsis for x in places)

        def of(x: Any) -> Any:
            if np.ndim(x) < n_axes:  # one value for all, in a tree made by hand
                return x
            # an ellipsis would stand for the other axes too
            own = (*places, *[slice(None)] * (np.ndim(x) - n_axes)) if whole else (*places, ...)
            if is_traced(x) or any_traced(places):
                return jnp.asarray(x)[own]
            if isinstance(x, jax.Array) and len(x.devices()) > 1:
                return x[own]
            part = np.asarray(x)[own]  # by NumPy, which needs no program for each shape
            # under an outer jit, known values stay known; and where 64 bits are off, they keep their digits
            with jax.ensure_compile_time_eval(), jax.enable_x64(True):
                return _placed_like(part, x) if isinstance(x, jax.Array) else np.asarray(part)

        part = jax.tree.map(of, self)
        if part._stack_shape():
            for field in dataclasses.fields(self):  # type: ignore[arg-type]
                if not field.init:  # not in the tree, such as what a bank was asked to cover
                    object.__setattr__(part, field.name, getattr(self, field.name))
        return part


def _refuse_single(x: object) -> None:
    raise IndexError(f"a single {type(x).__name__} cannot be indexed: only stacks can.")


def _placed_like(part: np.ndarray, x: jax.Array) -> jax.Array:
    """Return part of an array on the device that the array was put on, if it is one."""
    devices = x.devices()
    if len(devices) == 1 and x.committed:
        return jax.device_put(np.array(part), next(iter(devices)))
    return on_device(part)
