"""Names, order, units and limits of the parameters of a signal, and their values in a template."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from jfstat.signal.templates import Amplitude, Doppler, Orbit

Number = TypeVar("Number", float, np.ndarray, jax.Array)
Template = TypeVar("Template", bound="Doppler | Orbit | Amplitude")

SKY = ("alpha", "delta")
ORBIT_FIELDS = ("asini", "period", "tp", "ecc", "argp")
"""Fields of an Orbit, all scalars of a template."""
MOTION_FIELDS = ("pmra", "pmdec")
"""Proper motion of a Doppler, as pulsar catalogues name it: that in right ascension is times cos(delta)."""
ORBIT_REQUIRED = ("asini", "period", "tp")
"""Fields that every orbit must be given; the others are zero by default."""
AMPLITUDE_FIELDS = ("h0", "cosi", "psi", "phi0")
"""Fields of an Amplitude apart from its errors, all scalars of a signal."""
AMPLITUDE_COLUMNS = (*AMPLITUDE_FIELDS, *(f"{name}_error" for name in AMPLITUDE_FIELDS))
"""Columns of a table for an estimated amplitude: the parameters and their errors."""
WINDOW_COLUMNS = ("t0", "tau")
"""Columns of a table for the window of a transient signal."""
TRANSIENT_COLUMNS = ("max_twoF", "t0", "tau", "log10BtSG", "t0_MP", "tau_MP")
"""Columns of a table for transient signals: the largest 2F, its window, the Bayes factor, the most probable times."""
MODEL = "model"
"""First word of the names of the parameters of a `PhaseModel`, such as ``model.df``."""
USUALLY_FIXED = ("ecc", "argp", *MOTION_FIELDS)
"""Parameters that a follow-up fits only on request: at small eccentricities ``ecc`` and ``argp`` are degenerate with
``tp``, and a proper motion is known if there is one."""
UNITS = {"alpha": "rad", "delta": "rad", "asini": "s", "period": "s", "tp": "s", "argp": "rad"}
UNITS |= {"psi": "rad", "phi0": "rad", "pmra": "rad / s", "pmdec": "rad / s"}
UNITS |= {"t0": "s", "tau": "s"}
"""Units of the parameters that have one, apart from the frequency and its derivatives; see `unit`."""


class Limit(NamedTuple):
    """The condition that the values of a parameter must fulfil.

    Attributes
    ----------
    holds : callable
        The condition, elementwise, for NumPy or JAX arrays; False for NaN.
    must_be, hint : str
        For the error that refuses an argument.
    otherwise : str
        What is wrong with a value that does not fulfil it, such as "is negative".
    """

    holds: Callable[[jax.Array | np.ndarray], jax.Array | np.ndarray]
    must_be: str
    hint: str
    otherwise: str


LIMITS = {
    "delta": Limit(lambda x: abs(x) <= np.pi / 2 + 1e-12, "within [-pi/2, pi/2]", "give it in rad", "is beyond a pole"),
    "asini": Limit(lambda x: x >= 0, "non-negative", "turn argp by pi instead", "is negative"),
    "period": Limit(lambda x: x > 0, "positive", "give it in s", "is not positive"),
    "ecc": Limit(
        lambda x: (x >= 0) & (x < 1), "at least 0 and below 1", "orbits must be bound", "is not within [0, 1)"
    ),
    "h0": Limit(lambda x: x >= 0, "non-negative", "shift phi0 by pi instead", "is negative"),
    "cosi": Limit(lambda x: abs(x) <= 1, "within [-1, 1]", "it is the cosine of an angle", "is not within [-1, 1]"),
}
"""Limits of single parameters, all of which must be finite too. An orbit's `speed_bound` must be below 1."""


def speed_bound(asini: Number, period: Number, ecc: Number) -> Number:
    """Upper bound on the speed of an orbit, 2 pi a/(P (1 - e)), in units of the speed of light."""
    return 2 * np.pi * asini / period / (1 - ecc)


def unit(name: str) -> str:
    """Unit of a parameter or of its error (``h0_error``), in astropy's spelling; "" for names without one."""
    name = name.removesuffix("_error")
    k = spin_order(name)
    return UNITS.get(name, "") if k is None else ("Hz" if k == 0 else "Hz / s" if k == 1 else f"Hz / s{k}")


def spin_order(name: str) -> int | None:
    """k for the k-th derivative of the frequency, at most the 99th, 0 for ``freq``; None for other names."""
    if name == "freq":
        return 0
    found = re.fullmatch(r"f([1-9][0-9]?)dot", name)
    return int(found[1]) if found else None


def spin_name(k: int) -> str:
    """``freq``, ``f1dot``, ..."""
    return "freq" if k == 0 else f"f{k}dot"


def spin_names(names: Sequence[str]) -> list[str]:
    """``freq`` and all derivatives up to the highest among some names."""
    return [spin_name(k) for k in range(1 + max((spin_order(name) or 0 for name in names), default=0))]


def is_parameter(name: str) -> bool:
    """Whether a column holds a parameter of templates."""
    return spin_order(name) is not None or name in (*SKY, *MOTION_FIELDS, *ORBIT_FIELDS) or is_of_model(name)


def is_of_model(name: str) -> bool:
    """Whether a column holds a parameter of a user's `PhaseModel`."""
    return re.match(rf"{MODEL}\b(?!_)", name) is not None and not name.endswith("_error")


def all_parameters(point: Doppler) -> tuple[str, ...]:
    """Every parameter of a template, in the order of a table's columns."""
    spins = tuple(spin_name(k) for k in range(point.fkdot.shape[-1]))
    motion = () if point.motion is None else MOTION_FIELDS
    own = () if point.model is None else tuple(point.model.places(np.ndim(point.alpha)))
    return (*spins, *SKY, *motion, *(() if point.orbit is None else ORBIT_FIELDS), *own)


def usual_parameters(point: Doppler) -> tuple[str, ...]:
    """The parameters that a follow-up fits by default: all except ``ecc``, ``argp``, a proper motion and a model's."""
    return tuple(name for name in all_parameters(point) if not is_usually_fixed(name))


def is_usually_fixed(name: str) -> bool:
    """Whether a follow-up fits a parameter only on request."""
    return name in USUALLY_FIXED or is_of_model(name)


def varied_parameters(bank: Doppler) -> tuple[str, ...]:
    """The parameters that a search with a stack of templates varies: the frequency, and all that differ among them."""
    different = {name for name, x in columns(bank).items() if len(x) and np.ptp(x) > 0}
    return tuple(name for name in all_parameters(bank) if name == "freq" or name in different)


def check_parameters(point: Doppler, parameters: str | Iterable[str]) -> tuple[str, ...]:
    """Names of parameters as a tuple, checked against those that a template has.

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


def value(point: Doppler, name: str) -> jax.Array:
    """Value of one parameter, (...) float64, of a template or a stack."""
    k = spin_order(name)
    if k is not None:
        return point.fkdot[..., k]
    if name in MOTION_FIELDS:
        return point.motion[..., MOTION_FIELDS.index(name)]  # type: ignore[index]
    if point.model is not None and is_of_model(name):
        return point.model.value(name, np.ndim(point.alpha))
    return getattr(point if name in SKY else point.orbit, name)


def values(point: Doppler, names: Sequence[str]) -> jax.Array:
    """Values of the parameters, (..., p) float64, for a template or a stack."""
    return jnp.stack([value(point, name) for name in names], axis=-1)


def columns(points: Doppler) -> dict[str, np.ndarray]:
    """All parameters of a stack of templates by name, each (n,) float64, in the order of a table's columns."""
    return {name: np.asarray(value(points, name)) for name in all_parameters(points)}


def replaced(point: Doppler, names: Sequence[str], x: jax.Array) -> Doppler:
    """The template with new values, (..., p), of some parameters; traceable, so nothing is checked."""
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


@partial(jax.jit, static_argnames="ignore")
def physical(point: Doppler, ignore: tuple[str, ...] = ()) -> jax.Array:
    """Whether templates are possible, which traced values need not be: (...) bool for a stack (...).

    All parameters are finite, the position lies on the sphere, and the orbit, if any, is bound and slower than light.

    Parameters
    ----------
    point : Doppler
    ignore : tuple of str
        Static. Parameters that do not matter.
    """
    names = [name for name in all_parameters(point) if name not in ignore]
    possible = jnp.all(jnp.isfinite(values(point, names)), axis=-1)
    for name in names:
        if name in LIMITS:
            possible &= LIMITS[name].holds(value(point, name))
    if point.orbit is None:
        return possible
    return possible & (speed_bound(point.orbit.asini, point.orbit.period, point.orbit.ecc) < 1)


def with_fields(tree: Template, **fields: object) -> Template:
    """A copy of a template with some fields replaced, without the checks of its constructor."""
    copy = object.__new__(type(tree))
    for field in dataclasses.fields(tree):
        object.__setattr__(copy, field.name, fields[field.name] if field.name in fields else getattr(tree, field.name))
    return copy
