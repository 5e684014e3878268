"""Range of a signal's frequency in the detectors' frame, from Doppler shifts and spin-down."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jfstat.geometry.orbit import orbit_speed
from jfstat.geometry.source import spin_drift
from jfstat.maths.arrays import module_for, on_device
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Orbit

EARTH_SPEED = 1.03e-4
"""Upper bound on any detector's speed relative to the SSB, in units of c. The Earth moves at 30.29 km/s at perihelion
and rotates at 0.47 km/s, and its motion with the Moon and the Sun's with the planets add 0.03 km/s: 1.027e-4 in all."""
MODEL_TIMES = 1024
"""Number of times during the data at which the frequency of a user's phase model is evaluated."""
USUAL_F1DOT, MAX_USUAL_DRIFT = 1e-9, 0.02
"""Spin-down allowed for by default, Hz/s, and the limit on the drift that it causes, Hz."""


def doppler_speed(orbit: Orbit | None) -> jax.Array:
    """Return the largest relative shift of a frequency between source and detector, shaped like the orbit's fields."""
    if orbit is None:
        return on_device(EARTH_SPEED)
    speed = orbit_speed(orbit)
    return on_device(EARTH_SPEED + module_for(speed).asarray(speed) * (1 + EARTH_SPEED))


def largest_doppler_speed(orbit: Orbit | None) -> float:
    """Return the largest `doppler_speed` of an orbit or a stack of orbits, not traced, without compiling anything."""
    return float(np.asarray(doppler_speed(orbit)).max())


def at_detector(low: ArrayLike, high: ArrayLike, speed: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Return lowest and highest frequency at the detectors, Hz, of signals between `low` and `high` at the source."""
    return jnp.asarray(low) * (1 - speed), jnp.asarray(high) * (1 + speed)


def drift_during(
    fkdot: jax.Array, first: ArrayLike, last: ArrayLike, model: PhaseModel | None = None
) -> tuple[jax.Array, jax.Array]:
    """Return the lowest and highest drift of a template's frequency during the data, Hz, among start, middle and end.

    Parameters
    ----------
    fkdot : (n,) float64
    first, last : () float64
        Start and end of the data, s since the template's reference time.
    model : PhaseModel, optional
        Phase model of the template; its drift is evaluated at `MODEL_TIMES` times and added.
    """
    first, last = jnp.asarray(first), jnp.asarray(last)
    drift = spin_drift(fkdot, jnp.stack([first, 0.5 * (first + last), last]))
    if model is None:
        return jnp.min(drift), jnp.max(drift)
    own = model.frequency(first + (last - first) * jnp.linspace(0.0, 1.0, MODEL_TIMES))
    return jnp.min(drift) + jnp.min(own), jnp.max(drift) + jnp.max(own)


def drift_range(fdots: Sequence[tuple[float, float]] | None, first: float, last: float) -> tuple[float, float]:
    """Return the lowest and highest drift of the frequency during the data, Hz, for ranges of spin-downs.

    Parameters
    ----------
    fdots : sequence of (low, high) or None
        Ranges of f1dot, f2dot, ..., Hz/s^k; None for the default range.
    first, last : float
        Start and end of the data, s since the reference time.
    """
    times = [first, last, min(max(0.0, first), last)]
    if fdots is None:
        usual = min(USUAL_F1DOT * max(abs(t) for t in times), MAX_USUAL_DRIFT)
        return -usual, usual
    low = high = 0.0
    for k, extremes in enumerate(fdots, start=1):
        drifts = [f * t**k / factorial(k) for f in extremes for t in times]
        low, high = low + min(drifts), high + max(drifts)
    return min(low, 0.0), max(high, 0.0)
