"""Read the parameters of a template or a stack by their names.

Templates themselves need this for their display, so that it does not import them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfstat.signal.parameters import MOTION_FIELDS, ORBIT_FIELDS, SKY, is_of_model, spin_name, spin_order


def all_parameters(point: Any) -> tuple[str, ...]:
    """Return the names of all parameters of a template, in the order of a table's columns."""
    spins = tuple(spin_name(k) for k in range(point.fkdot.shape[-1]))
    motion = () if point.motion is None else MOTION_FIELDS
    own = () if point.model is None else tuple(point.model.places(np.ndim(point.alpha)))
    return (*spins, *SKY, *motion, *(() if point.orbit is None else ORBIT_FIELDS), *own)


def value(point: Any, name: str) -> Any:
    """Return the value of one parameter, (...) float64, of a template or a stack."""
    k = spin_order(name)
    if k is not None:
        return point.fkdot[..., k]
    if name in MOTION_FIELDS:
        return point.motion[..., MOTION_FIELDS.index(name)]
    if is_of_model(name):
        return point.model.value(name, np.ndim(point.alpha))
    return getattr(point if name in SKY else point.orbit, name)
