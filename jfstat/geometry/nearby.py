"""The phase difference between two nearby templates, at fixed times.

Large terms cancel analytically, so that the difference is precise however long the data are. The computation needs the
detector's position at each time, but no trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jfstat.display import Displayed
from jfstat.geometry.barycenter import Direction, shapiro_delay, ssb_delay
from jfstat.geometry.source import Source
from jfstat.geometry.trajectory import Trajectory


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Sites(Displayed):
    """Position and delays of a detector at some times; every field has a leading shape (...).

    Attributes
    ----------
    time : (...) float64
        Detector time, s since the epoch.
    position : (..., 3) float64
        Vector from the SSB to the detector, light-seconds.
    sun : (..., 3) float64
        Vector from the Sun to the Earth's centre, light-seconds.
    to_ssb : (...) float64
        SSB time minus detector time for the central template, s.
    across_orbit : (...) float64
        SSB time minus time of emission for the central template, s; zero without an orbit.
    sidereal : (...) float64
        Greenwich mean sidereal time, rad.
    """

    time: jax.Array
    position: jax.Array
    sun: jax.Array
    to_ssb: jax.Array
    across_orbit: jax.Array
    sidereal: jax.Array


def sites(trajectory: Trajectory, centre: Source, time: jax.Array) -> Sites:
    """Compute the sites of one detector for a central template, at detector times of any shape, s since the epoch."""
    state = trajectory(time)
    to_ssb = ssb_delay(state, time, centre.direction)
    return Sites(time, state.position, state.sun, to_ssb, centre.across_orbit(time + to_ssb), state.sidereal)


def _difference(other: Direction, centre: Direction) -> Direction:
    """Return the difference between two directions, both with a proper motion or both without."""
    if other.velocity is None or centre.velocity is None:
        return Direction(other.vector - centre.vector, None, centre.since)
    return Direction(other.vector - centre.vector, other.velocity - centre.velocity, centre.since)


@jax.jit  # programs that call this share one trace
def phase_difference(sites: Sites, centre: Source, other: Source) -> jax.Array:
    """Return the phase of `other` minus the phase of `centre` at a detector's sites, cycles, (...) float64.

    Both phases are zero at mid-time.

    Parameters
    ----------
    sites : Sites
        Sites of a detector, computed for `centre`.
    centre, other : Source
        Sources of one observation; both with an orbit or both without, and both with a proper motion or both without.
    """
    n, n0 = other.direction.vector, centre.direction.vector
    distance2 = jnp.sum(sites.sun * sites.sun, axis=-1)
    later = _difference(other.direction, centre.direction).along(sites.position, sites.time)
    later = later - (shapiro_delay(sites.sun @ n, distance2) - shapiro_delay(sites.sun @ n0, distance2))
    if other.orbit is not None:
        later = later - (other.across_orbit(sites.time + sites.to_ssb + later) - sites.across_orbit)
    tau = sites.time + (sites.to_ssb - sites.across_orbit)
    cycles = other.frequency * later + (other.frequency - centre.frequency) * (tau - centre.middle)
    return cycles + (other.spin_down_cycles(tau + later) - centre.spin_down_cycles(tau))
