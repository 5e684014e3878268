"""Compute a template's instantaneous frequency at detectors, at times given beforehand."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.geometry.antenna import harmonics_of
from jfstat.geometry.barycenter import Direction
from jfstat.geometry.orbit import orbit_delay_and_slope_at_arrival
from jfstat.geometry.source import Source, spin_drift
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.vectors import along


class Motion(NamedTuple):
    """Positions and velocities of a detector at some times, of any shape (...); components of vectors come first.

    Attributes
    ----------
    time : (...) float64
        Detector time, s since the epoch.
    position : (3, ...) float64
        Vector from the SSB to the detector, light-seconds.
    velocity : (3, ...) float64
        Its rate of change, in units of the speed of light.
    einstein, einstein_rate : (...) float64
        Einstein delay TDB - TDT, s, and its rate of change.
    harmonics : (5, ...) float64
        Harmonics of sidereal time of which antenna patterns are sums, see `pattern_coefficients`.
    """

    time: jax.Array
    position: jax.Array
    velocity: jax.Array
    einstein: jax.Array
    einstein_rate: jax.Array
    harmonics: jax.Array


def motion_of(trajectory: Trajectory, time: jax.Array) -> Motion:
    """Compute the motion of one detector at detector times of any shape, s since the epoch."""
    state, rate = jax.jvp(trajectory, (time,), (jnp.ones_like(time),))
    position, velocity = (jnp.moveaxis(x.position, -1, 0) for x in (state, rate))
    sidereal = jnp.stack(harmonics_of(jnp, state.sidereal))
    return Motion(time, position, velocity, state.einstein, rate.einstein, sidereal)


def ssb_times(direction: Direction, motion: Motion) -> tuple[jax.Array, jax.Array]:
    """Return SSB times of a detector's times, s since the epoch, and their rate of change, shaped like the times.

    The Shapiro delay is left out: it changes frequencies by less than 1e-9 of themselves even for a source at the limb
    of the Sun.
    """
    t = motion.time
    toward, speed = along(direction.vector, motion.position), along(direction.vector, motion.velocity)
    if direction.velocity is not None:
        sideways, since = along(direction.velocity, motion.position), t - direction.since
        toward = toward + sideways * since
        speed = speed + along(direction.velocity, motion.velocity) * since + sideways
    return t + (toward + motion.einstein), 1 + (speed + motion.einstein_rate)


def detector_frequency(source: Source, t_ssb: jax.Array, rate: jax.Array, steps: int) -> tuple[jax.Array, jax.Array]:
    """Return a source's instantaneous frequency at a detector, Hz, at times from `ssb_times`; same shape, float64.

    It is the derivative of the phase with respect to the detector's time. The second result is the derivative of the
    frequency with respect to that in the source's frame. See `kepler_in_steps` for `steps`.
    """
    tau = t_ssb
    if source.orbit is not None:
        across, slope = orbit_delay_and_slope_at_arrival(source.orbit, t_ssb, steps)
        tau, rate = t_ssb - across, rate * (1 - slope)
    frequency = (source.frequency + source.evolution[0]) + spin_drift(source.evolution, tau - source.middle)
    if source.model is not None:
        frequency = frequency + source.model.frequency(tau)
    return frequency * rate, rate
