"""Read and replace the values of a template's parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.signal.parameters import (
    MOTION_FIELDS,
    SKY,
    is_of_model,
    is_usually_fixed,
    spin_order,
)
from jfstat.signal.reading import all_parameters, value
from jfstat.signal.templates import Amplitude, Doppler, Orbit

Template = TypeVar("Template", bound=Doppler | Orbit | Amplitude)


def usual_parameters(point: Doppler) -> tuple[str, ...]:
    """Return the parameters that a follow-up fits by default: not ``ecc``, ``argp``, proper motion or a model's."""
    return tuple(name for name in all_parameters(point) if not is_usually_fixed(name))


def varied_parameters(bank: Doppler) -> tuple[str, ...]:
    """Return the parameters that a search over a stack varies: the frequency, all that differ among templates, and
    those over whose ranges the bank was asked to extend."""
    different = {name for name, x in columns(bank).items() if np.size(x) and np.ptp(x) > 0}
    return in_usual_order(bank, ["freq", *different, *(bank.varied or ())])


def check_parameters(point: Doppler, parameters: str | Iterable[str], argument: str = "parameters") -> tuple[str, ...]:
    """Return names of parameters as a tuple, checked against the parameters that a template has.

    Messages call them `argument`.

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
        raise ValueError(f"{argument} {problem}: choose from {', '.join(known)}, which this template has.")
    return names


def in_usual_order(point: Doppler, names: Sequence[str]) -> tuple[str, ...]:
    """Return names in the order of `all_parameters`."""
    return tuple(name for name in all_parameters(point) if name in names)


def values(point: Doppler, names: Sequence[str]) -> jax.Array:
    """Return the values of the parameters, (..., p) float64, for a template or a stack."""
    return jnp.stack([value(point, name) for name in names], axis=-1)


def columns(points: Doppler) -> dict[str, np.ndarray]:
    """Return all parameters of a stack of templates by name, each (n,) float64, in the order of a table's columns."""
    return {name: np.asarray(value(points, name)) for name in all_parameters(points)}


def replaced(point: Doppler, names: Sequence[str], x: jax.Array) -> Doppler:
    """Return a template with new values, (..., p), of some parameters; traceable, so nothing is checked."""
    fields: dict[str, Any] = {name: getattr(point, name) for name in (*SKY, "fkdot", "motion")}
    orbit: dict[str, jax.Array] = {}
    own: dict[str, jax.Array] = {}
    for i, name in enumerate(names):
        k = spin_order(name)
        if k is not None:
            fields["fkdot"] = fields["fkdot"].at[..., k].set(x[..., i])
        elif name in SKY:
            fields[name] = x[..., i]
        elif name in MOTION_FIELDS:
            fields["motion"] = fields["motion"].at[..., MOTION_FIELDS.index(name)].set(x[..., i])
        elif is_of_model(name):
            own[name] = x[..., i]
        else:
            orbit[name] = x[..., i]
    if own and point.model is not None:
        fields["model"] = point.model.replaced(own, np.ndim(point.alpha))
    return with_fields(point, orbit=None if point.orbit is None else with_fields(point.orbit, **orbit), **fields)


def with_fields(tree: Template, **fields: object) -> Template:
    """Return a copy of a template with some fields replaced, without the checks of its constructor."""
    copy = object.__new__(type(tree))
    for field in dataclasses.fields(tree):
        object.__setattr__(copy, field.name, fields[field.name] if field.name in fields else getattr(tree, field.name))
    return copy
