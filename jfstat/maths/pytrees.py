"""Register frozen dataclasses as pytrees whose constructors check users' arguments."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import jax

Class = TypeVar("Class", bound=type)


def registered(cls: Class) -> Class:
    """Register a frozen dataclass as a pytree whose unflattening skips __init__.

    JAX replaces leaves by placeholders, which the checks of users' arguments would refuse. Fields that are not
    arguments are no part of the tree: transformations leave None there.
    """
    static = [f.name for f in dataclasses.fields(cls) if f.metadata.get("static")]
    dropped = [f.name for f in dataclasses.fields(cls) if not f.init]
    names = [f.name for f in dataclasses.fields(cls) if f.name not in (*static, *dropped)]

    def flatten_with_keys(x):
        return [(jax.tree_util.GetAttrKey(n), getattr(x, n)) for n in names], tuple(getattr(x, n) for n in static)

    def flatten(x):
        return [getattr(x, n) for n in names], tuple(getattr(x, n) for n in static)

    def unflatten(aux, leaves):
        x = object.__new__(cls)
        pairs = [*zip(static, aux, strict=True), *zip(names, leaves, strict=True)]
        for name, value in [*pairs, *((name, None) for name in dropped)]:
            object.__setattr__(x, name, value)
        return x

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def set_fields(instance: object, **values: object) -> None:
    """Set fields of a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
