"""Move the detectors of data, and turn their arms, such that JAX can differentiate in both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.geometry.trajectory import displaced
from jfstat.public import public
from jfstat.validation import NumberLike, as_float64, require

Data = TypeVar("Data", Observation, FstatData)
FARTHEST = 1.3e7
"""Farthest move of a detector that stays on the Earth, m."""


@public
def move_detectors(data: Data, shift: NumberLike, arms: NumberLike | None = None) -> Data:
    """Return data, or an observation, as if the detectors stood elsewhere or their arms pointed elsewhere.

    The statistic of the result has derivatives with respect to `shift` and `arms`: how well a detector's position must
    be known, or which arms of a future one would see most. The expected 2F depends on the arms alone; the position
    changes the phase, so 2F at a fixed template and the metric. For a site, compute its arms too. The strain and the
    noise weights stay as they are. Pure; works under jit, vmap, grad and jvp, with everything traced.

    Parameters
    ----------
    data : FstatData or Observation
        Of D detectors, without segments. (Narrow data are without the phase of their centre at the old positions: make
        them of the result.)
    shift : (D, 3) float64
        Vector by which each detector moves, in the Earth-fixed frame (ITRS), m, in the order of ``data.detectors``; at
        most 1.3e7, the Earth's diameter, since data hold the Doppler shifts of detectors on the Earth.
        Zeros for derivatives at the true positions.
    arms : (D, 2, 3) or (D, 1, 3) float64, optional
        Directions of all detectors' arms in the Earth-fixed frame, of any length, as in `Detector`. By default they
        stay, also where the vertical turns.

    Returns
    -------
    FstatData or Observation
        As given.

    Raises
    ------
    TypeError
        If `data` is of another kind.
    ValueError
        If it has segments, an array has another shape, or a value is not finite, too far or an arm of no length.

    Examples
    --------
    >>> slope = jax.grad(lambda x: jfstat.twoF(jfstat.move_detectors(data, x), point))(np.zeros((2, 3)))
    >>> slope.shape  # of 2F, 1/m
    (2, 3)
    """
    if not isinstance(data, (FstatData, Observation)):
        kind = type(data).__name__
        raise TypeError(f"data must be FstatData from jfstat.prepare or an Observation, not {kind}.")
    seen = data if isinstance(data, Observation) else data.observation
    if seen.shape:
        raise ValueError("data has segments or is a stack, but one is wanted: use jax.vmap(function, (0, None)).")
    n = len(seen.detectors)
    vectors = as_float64(shift, "shift", "m")
    if vectors.shape != (n, 3):
        raise ValueError(f"shift has shape {vectors.shape}, but {(n, 3)} is wanted: one vector in m for each detector.")
    require(vectors, "shift", lambda x: abs(x) <= FARTHEST, f"finite and at most {FARTHEST:g} m", "stay on the Earth")
    changed: dict[str, Any] = {"trajectory": displaced(seen.trajectory, seen.epoch, vectors)}
    if arms is not None:
        changed["response"] = _response(as_float64(arms, "arms"), n)
    seen = replace(seen, **changed)
    return seen if isinstance(data, Observation) else replace(data, observation=seen)  # type: ignore[return-value]


def _response(arms: jax.Array, n: int) -> jax.Array:
    """Return the detector tensors, (D, 3, 3), of arms; see `Detector.response`."""
    if arms.shape not in ((n, 1, 3), (n, 2, 3)):
        raise ValueError(f"arms has shape {arms.shape}, not {(n, 2, 3)}: give vectors of two arms for each detector.")
    length = jnp.sum(arms**2, axis=-1)
    require(length, "arms", lambda x: (x > 0) & np.isfinite(x), "of a length", "give vectors that are not zero")
    ends = arms / jnp.sqrt(jnp.sum(arms**2, axis=-1, keepdims=True))
    signs = jnp.asarray(np.array([1.0] if arms.shape[1] == 1 else [0.5, -0.5]))
    return jnp.einsum("k,dki,dkj->dij", signs, ends, ends)
