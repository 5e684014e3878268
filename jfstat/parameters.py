"""Names of a template's parameters, as in candidates' tables, and their values in a Doppler."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.templates import ORBIT_FIELDS, Doppler

SKY = ("alpha", "delta")
USUALLY_FIXED = ("ecc", "argp")
"""What a follow-up fits only if told so: at small eccentricities they degenerate with ``tp``."""


def spin_order(name: str) -> int | None:
    """k for the k-th derivative of the frequency, 0 for ``freq``; None for other names."""
    if name == "freq":
        return 0
    found = re.fullmatch(r"f([1-9]\d*)dot", name)
    return int(found[1]) if found else None


def spin_name(k: int) -> str:
    """``freq``, ``f1dot``, ..."""
    return "freq" if k == 0 else f"f{k}dot"


def is_parameter(name: str) -> bool:
    """Whether a column holds a parameter of templates."""
    return spin_order(name) is not None or name in SKY or name in ORBIT_FIELDS


def all_parameters(point: Doppler) -> tuple[str, ...]:
    """Every parameter of a template, in the order of a table's columns."""
    spins = tuple(spin_name(k) for k in range(point.fkdot.shape[-1]))
    return (*spins, *SKY, *(() if point.orbit is None else ORBIT_FIELDS))


def usual_parameters(point: Doppler) -> tuple[str, ...]:
    """Those that a follow-up fits if told nothing: all but an orbit's ``ecc`` and ``argp``."""
    return tuple(name for name in all_parameters(point) if name not in USUALLY_FIXED)


def check_parameters(point: Doppler, parameters: Any) -> tuple[str, ...]:
    """A tuple of names that a template has.

    Raises
    ------
    ValueError
        If a name is unknown or given twice, or there is none.
    """
    known = all_parameters(point)
    names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    strange = [name for name in names if name not in known]
    if strange or not names or len(set(names)) != len(names):
        problem = f"has {strange[0]!r}" if strange else "is empty" if not names else "names one twice"
        raise ValueError(f"parameters {problem}: choose from {', '.join(known)}, which this template has.")
    return names


def in_usual_order(point: Doppler, names: Sequence[str]) -> tuple[str, ...]:
    """Names in the order of `all_parameters`."""
    return tuple(name for name in all_parameters(point) if name in names)


def values(point: Doppler, names: Sequence[str]) -> jax.Array:
    """Values of the parameters, (..., p) float64, for a template or a stack."""
    columns = []
    for name in names:
        k = spin_order(name)
        if k is not None:
            columns.append(point.fkdot[..., k])
        elif name in SKY:
            columns.append(getattr(point, name))
        else:
            columns.append(getattr(point.orbit, name))
    return jnp.stack(columns, axis=-1)


def replaced(point: Doppler, names: Sequence[str], x: jax.Array) -> Doppler:
    """The template with other values of some parameters, (p,); traceable, so nothing is checked."""
    fields: dict[str, Any] = {"alpha": point.alpha, "delta": point.delta, "fkdot": point.fkdot}
    orbit = None if point.orbit is None else {name: getattr(point.orbit, name) for name in ORBIT_FIELDS}
    for i, name in enumerate(names):
        k = spin_order(name)
        if k is not None:
            fields["fkdot"] = fields["fkdot"].at[..., k].set(x[..., i])
        elif name in SKY:
            fields[name] = x[..., i]
        elif orbit is not None:
            orbit[name] = x[..., i]
    return with_fields(point, orbit=None if orbit is None else with_fields(point.orbit, **orbit), **fields)


def physical(point: Doppler) -> jax.Array:
    """Whether a template lies on the sphere and its orbit, if any, is a bound one slower than light: () bool."""
    possible = jnp.abs(point.delta) <= 0.5 * jnp.pi + 1e-12
    if point.orbit is None:
        return possible
    o = point.orbit
    possible = possible & (o.asini >= 0) & (o.period > 0) & (o.ecc >= 0) & (o.ecc < 1)
    return possible & (2 * jnp.pi * o.asini < o.period * (1 - o.ecc))


def with_fields(tree: Any, **fields: Any) -> Any:
    """A copy of a Doppler or an Orbit with other leaves, without the checks of users' arguments."""
    copy = object.__new__(type(tree))
    for field in dataclasses.fields(tree):
        object.__setattr__(copy, field.name, fields.get(field.name, getattr(tree, field.name)))
    return copy
