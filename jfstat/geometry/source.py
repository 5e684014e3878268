"""From a template to the time at the source, the phase there, and the antenna patterns towards it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.geometry.antenna import harmonic_sum, pattern_coefficients
from jfstat.geometry.barycenter import detector_clock, sky_vector, ssb_delay
from jfstat.geometry.orbit import orbit_delay, orbit_delay_at_arrival
from jfstat.geometry.trajectory import Trajectory
from jfstat.templates import Doppler


def spin_phase(fkdot: jax.Array, tau: jax.Array) -> jax.Array:
    """Taylor series of the phase in cycles, sum_k fkdot[k] tau^(k+1)/(k+1)!.

    Parameters
    ----------
    fkdot : (n,) float64
        Hz, Hz/s, ...
    tau : (...) float64
        Source time since the reference time, s.
    """
    phase = jnp.zeros_like(tau)
    for k in range(fkdot.shape[0] - 1, -1, -1):
        phase = (phase + fkdot[k]) * tau / (k + 1)
    return phase


def spin_down_phase(fkdot: jax.Array, tau: jax.Array) -> jax.Array:
    """What the derivatives add to the phase, `spin_phase` less the frequency's own term, cycles."""
    if fkdot.shape[0] == 1:
        return jnp.zeros_like(tau)
    return spin_phase(fkdot.at[0].set(0.0), tau)


def spin_drift(fkdot: jax.Array, tau: jax.Array) -> jax.Array:
    """Frequency at the source minus that at the reference time, sum_(k>0) fkdot[k] tau^k/k!, Hz; see `spin_phase`."""
    drift = jnp.zeros_like(tau)
    for k in range(fkdot.shape[0] - 1, 0, -1):
        drift = (drift + fkdot[k]) * tau / k
    return drift


def source_delay(trajectory: Trajectory, point: Doppler, t: jax.Array) -> jax.Array:
    """Time at the source (emission) minus time at the detector, s, at detector times `t` since the epoch."""
    delay = ssb_delay(trajectory(t), sky_vector(point.alpha, point.delta))
    if point.orbit is None:
        return delay
    return delay - orbit_delay_at_arrival(point.orbit, t + delay, point.orbit.tp - trajectory.epoch)


def clock_at_detector(trajectory: Trajectory, point: Doppler, tau: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Detector times t that belong to source times `tau`, both in s since the epoch, and the rate dt/dtau."""
    n = sky_vector(point.alpha, point.delta)
    orbit = point.orbit
    if orbit is None:
        return detector_clock(trajectory, tau, n)
    delay, slope = jax.jvp(
        lambda tau: orbit_delay(orbit, tau, orbit.tp - trajectory.epoch), (tau,), (jnp.ones_like(tau),)
    )
    t, rate = detector_clock(trajectory, tau + delay, n)
    return t, rate * (1.0 + slope)


def patterns(trajectory: Trajectory, response: jax.Array, point: Doppler, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Antenna patterns a and b at detector times `t`, same shape, float64."""
    angle = trajectory.sidereal(t)
    a, b = pattern_coefficients(response, point.alpha, point.delta)
    return harmonic_sum(a, angle), harmonic_sum(b, angle)
