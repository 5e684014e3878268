"""From a template and one close to it to the difference of their phases, at times fixed beforehand.

Close by, all that is large cancels: what is left needs the detector's place at each time, but no trajectory, and keeps
its digits however long the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jfstat.geometry.barycenter import shapiro_delay, sky_vector, ssb_delay
from jfstat.geometry.orbit import orbit_delay_at_arrival
from jfstat.geometry.source import spin_down_phase
from jfstat.geometry.trajectory import Trajectory
from jfstat.templates import Doppler


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Sites:
    """Where a detector is at some times, and how late it is; every field has a leading shape (...).

    Attributes
    ----------
    time : (...) float64
        Detector time, s since the epoch.
    position : (..., 3) float64
        From the SSB to the detector, light-seconds.
    sun : (..., 3) float64
        From the Sun to the Earth's centre, light-seconds.
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


def sites(trajectory: Trajectory, centre: Doppler, time: jax.Array) -> Sites:
    """Those of one detector around a template, at detector times in s since the trajectory's epoch, any shape."""
    state = trajectory(time)
    to_ssb = ssb_delay(state, sky_vector(centre.alpha, centre.delta))
    across = jnp.zeros_like(to_ssb)
    if centre.orbit is not None:
        across = orbit_delay_at_arrival(centre.orbit, time + to_ssb, centre.orbit.tp - trajectory.epoch)
    return Sites(time, state.position, state.sun, to_ssb, across, state.sidereal)


def phase_difference(
    sites: Sites, centre: Doppler, point: Doppler, reference: float, central_reference: float, epoch: int
) -> jax.Array:
    """Phase of `point` minus phase of `centre` at a detector's sites, cycles, (...) float64.

    Parameters
    ----------
    sites : Sites
        Made for `centre`.
    centre, point : Doppler
        Both with an orbit, or none.
    reference, central_reference : float
        Reference times of `point` and of `centre`, s since the epoch.
    epoch : int
        GPS s.
    """
    n, n0 = sky_vector(point.alpha, point.delta), sky_vector(centre.alpha, centre.delta)
    distance2 = jnp.sum(sites.sun * sites.sun, axis=-1)
    later = sites.position @ (n - n0)
    later = later - (shapiro_delay(sites.sun @ n, distance2) - shapiro_delay(sites.sun @ n0, distance2))
    if point.orbit is not None:
        arrival = sites.time + sites.to_ssb + later
        later = later - (orbit_delay_at_arrival(point.orbit, arrival, point.orbit.tp - epoch) - sites.across_orbit)
    later = later + (central_reference - reference)
    since = sites.time + (sites.to_ssb - sites.across_orbit) - central_reference
    cycles = point.fkdot[0] * later + (point.fkdot[0] - centre.fkdot[0]) * since
    return cycles + (spin_down_phase(point.fkdot, since + later) - spin_down_phase(centre.fkdot, since))
