"""Say which values the parameters of a signal may have: raise an error for concrete ones, return a flag for traced."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.maths.arrays import any_traced
from jfstat.signal.parameters import LIMITS, ORBIT_FIELDS, SKY, speed_bound
from jfstat.signal.reading import all_parameters, value
from jfstat.validation import LARGEST, require


def require_possible(x: jax.Array | np.ndarray, name: str) -> None:
    """Raise a ValueError unless values of a parameter are finite and within its limits; traced ones are not checked."""
    require(x, name, np.isfinite, "finite", "give a number")
    if name in LIMITS:
        limit = LIMITS[name]
        require(x, name, limit.holds, limit.must_be, limit.hint)


def require_possible_orbit(orbit: Any) -> None:
    """Raise a ValueError unless an Orbit has values that a bound orbit slower than light can have."""
    for name in ORBIT_FIELDS:
        require_possible(getattr(orbit, name), name)
    if not any_traced(orbit.period, orbit.asini, orbit.ecc):
        speed = speed_bound(*map(np.asarray, (orbit.asini, orbit.period, orbit.ecc)))
        require(speed, "asini", lambda x: x < 1, "an orbit slower than light, v/c", "check asini and period")


def require_possible_source(point: Any) -> None:
    """Raise a ValueError unless a Doppler has values that a source can have, apart from its orbit and phase model."""
    if point.motion is not None:
        require(point.motion, "motion", np.isfinite, "finite", "give rad/s")
    for name in SKY:
        require_possible(getattr(point, name), name)
    require(point.fkdot, "fkdot", np.isfinite, "finite", "give Hz, Hz/s, ...")
    require(point.fkdot, "fkdot", lambda x: abs(x) <= LARGEST, f"at most {LARGEST:g}", "give Hz, Hz/s, ...")


def check_possible(point: Any) -> None:
    """Raise the ValueError of the constructors if a concrete template has values that they would refuse.

    Transformations of JAX make templates without calling the constructors.
    """
    if point.orbit is not None:
        require_possible_orbit(point.orbit)
    require_possible_source(point)


@partial(jax.jit, static_argnames="ignore")
def physical(point: Any, ignore: tuple[str, ...] = ()) -> jax.Array:
    """Return whether templates are possible, which traced values need not be: (...) bool for a stack (...).

    All parameters are finite, the position lies on the sphere, and the orbit, if any, is bound and slower than light.

    Parameters
    ----------
    point : Doppler
    ignore : tuple of str
        Static. Parameters that do not matter.
    """
    names = [name for name in all_parameters(point) if name not in ignore]
    possible = jnp.all(jnp.isfinite(jnp.stack([value(point, name) for name in names], axis=-1)), axis=-1)
    for name in names:
        if name in LIMITS:
            possible &= LIMITS[name].holds(value(point, name))
    if point.orbit is None:
        return possible
    return possible & (speed_bound(point.orbit.asini, point.orbit.period, point.orbit.ecc) < 1)
