"""A template as seen by detectors: its delays, clocks, antenna patterns and phases."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jfstat.geometry.antenna import harmonic_sum, pattern_coefficients
from jfstat.geometry.barycenter import Direction, detector_clock, projected_ssb_delay, ssb_delay
from jfstat.geometry.orbit import orbit_delay_and_slope, orbit_delay_at_arrival
from jfstat.geometry.trajectory import Trajectory
from jfstat.maths.vectors import unit_vector
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.values import with_fields


def _spin_phase(fkdot: jax.Array, tau: jax.Array) -> jax.Array:
    """Return the Taylor series of the phase in cycles, sum_k fkdot[k] tau^(k+1)/(k+1)!.

    Parameters
    ----------
    fkdot : (n,) float64
        Frequency and derivatives, Hz, Hz/s, ...
    tau : (...) float64
        Source time since the time at which `fkdot` holds, s.
    """
    phase = jnp.zeros_like(tau)
    for k in range(fkdot.shape[0] - 1, -1, -1):
        phase = (phase + fkdot[k]) * tau / (k + 1)
    return phase


def spin_drift(fkdot: jax.Array, tau: jax.Array) -> jax.Array:
    """Return frequency at the source minus reference frequency, sum_(k>0) fkdot[k] tau^k/k!, Hz; see `_spin_phase`."""
    drift = jnp.zeros_like(tau)
    for k in range(fkdot.shape[0] - 1, 0, -1):
        drift = (drift + fkdot[k]) * tau / k
    return drift


def evolution_at(fkdot: jax.Array, since: jax.Array) -> jax.Array:
    """Return drift and derivatives of the frequency `since` seconds after the reference time: (n,) float64.

    The first entry is the drift alone, without the frequency, so that it keeps its precision.
    """
    derivatives = [spin_drift(fkdot, since)]
    for k in range(1, fkdot.shape[0]):
        rest = fkdot[k:]
        derivatives.append(rest[0] + spin_drift(rest, since))
    return jnp.stack(derivatives)


def at_reftime(points: Doppler, reftime: GPSTime) -> Doppler:
    """Propagate a stack of n templates to another reference time.

    Frequencies and derivatives change, and positions with a proper motion.

    LALSuite: XLALExtrapolatePulsarSpins. Templates without a reference time are returned unchanged.

    Raises
    ------
    ValueError
        If the templates have a phase model, whose function counts from the reference time.
    """
    if points.reftime is None:
        return points
    if points.model is not None:
        raise ValueError("reftime of templates with a phase model cannot be changed: the model counts from it.")
    since = reftime - points.reftime
    evolution = jax.vmap(evolution_at)(points.fkdot, since)
    fkdot = evolution.at[:, 0].add(points.fkdot[:, 0])
    alpha, delta = points.alpha, points.delta
    if points.motion is not None:
        alpha = alpha + since * points.motion[:, 0] / jnp.cos(delta)
        delta = delta + since * points.motion[:, 1]
    return Doppler(alpha, delta, fkdot, reftime, points.orbit, motion=points.motion)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Source:
    """A template whose times count from an observation's epoch; see the function `source`.

    Attributes
    ----------
    alpha, delta : () float64
        Right ascension and declination, rad.
    direction : Direction
        Direction to the source at `middle`, with its proper motion.
    frequency : () float64
        Frequency at the reference time, Hz.
    evolution : (n,) float64
        Drift of the frequency from the reference time to `middle`, Hz, and the derivatives at `middle`, Hz/s, ...
    middle : () float64
        Mid-time of the data, s since the epoch; phases are zero at this time at the source.
    cycles_at_middle : () float64
        Phase from the reference time to `middle`, modulo 1 cycle.
    orbit : Orbit or None
        Orbit whose ``tp`` counts from the epoch, s.
    model : OwnPhase or None
        The user's own part of the phase.
    """

    alpha: jax.Array
    delta: jax.Array
    direction: Direction
    frequency: jax.Array
    evolution: jax.Array
    middle: jax.Array
    cycles_at_middle: jax.Array
    orbit: Orbit | None
    model: OwnPhase | None

    def delay(self, trajectory: Trajectory, t: jax.Array, many: bool = False) -> jax.Array:
        """Return time at the source (emission) minus time at the detector, s, at detector times `t` since the epoch.

        With `many` there is less work at each time, but more beforehand.
        """
        if many:
            return self.delay_from_ssb(t, projected_ssb_delay(trajectory, t, self.direction))
        return self.delay_from_ssb(t, ssb_delay(trajectory(t), t, self.direction))

    def delay_from_ssb(self, t: jax.Array, to_ssb: jax.Array) -> jax.Array:
        """Return `delay` at detector times `t`, for a known delay `to_ssb` between detector and SSB, s."""
        return to_ssb if self.orbit is None else to_ssb - self.across_orbit(t + to_ssb)

    def across_orbit(self, t_ssb: jax.Array) -> jax.Array:
        """Return SSB time minus time of emission, s, at SSB times since the epoch; zero without an orbit."""
        if self.orbit is None:
            return jnp.zeros_like(t_ssb)
        return orbit_delay_at_arrival(self.orbit, t_ssb)

    def clock(self, trajectory: Trajectory, tau: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return detector times t that correspond to source times `tau`, in s since the epoch, and the rate dt/dtau.

        See `detector_clock`.
        """
        if self.orbit is None:
            return detector_clock(trajectory, tau, self.direction)
        delay, slope = orbit_delay_and_slope(self.orbit, tau)
        t, rate = detector_clock(trajectory, tau + delay, self.direction)
        return t, rate * (1.0 + slope)

    def patterns(self, response: jax.Array, sidereal: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the antenna patterns a and b of a detector at sidereal times, same shape, float64."""
        a, b = pattern_coefficients(response, self.alpha, self.delta)
        return harmonic_sum(a, sidereal), harmonic_sum(b, sidereal)

    def spin_down_cycles(self, tau: jax.Array) -> jax.Array:
        """Return the phase from spin-down, cycles, at source times since the epoch; zero at `middle`.

        The phase of a user's phase model is included.
        """
        cycles = _spin_phase(self.evolution, tau - self.middle)
        return cycles if self.model is None else cycles + self.model.cycles(tau)

    def heterodyned_cycles(
        self, trajectory: Trajectory, t: jax.Array, heterodyne: jax.Array, many: bool = False
    ) -> jax.Array:
        """Return the template's phase minus a heterodyne's, cycles, at detector times `t` since the epoch.

        The template's phase is zero at `middle`, the heterodyne's at the epoch. Large products of frequency and time
        cancel analytically, so that the result is accurate to 1e-9 cycles.
        """
        return self.cycles_after(self.delay(trajectory, t, many), t, heterodyne)

    def cycles_after(self, delay: jax.Array, t: jax.Array, heterodyne: jax.Array) -> jax.Array:
        """Return `heterodyned_cycles` for a known `delay`, s, at detector times `t`."""
        cycles = self.frequency * delay + (self.frequency - heterodyne) * (t - self.middle)
        return cycles + self.spin_down_cycles(t + delay) - jnp.mod(heterodyne * self.middle, 1.0)


def _direction(point: Doppler, since: jax.Array, middle: jax.Array) -> Direction:
    """Return the direction to a template `since` seconds after its reference time, which is at the data's `middle`."""
    n = unit_vector(point.alpha, point.delta)
    if point.motion is None:
        return Direction(n, None, middle)
    east = jnp.stack([-jnp.sin(point.alpha), jnp.cos(point.alpha), jnp.zeros_like(point.alpha)])
    north = unit_vector(point.alpha, point.delta + 0.5 * jnp.pi)
    velocity = point.motion[0] * east + point.motion[1] * north
    moved = n + since * velocity
    return Direction(moved / jnp.sqrt(moved @ moved), velocity, middle)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class OwnPhase:
    """A template's `PhaseModel` on the observation's clock.

    Attributes
    ----------
    model : PhaseModel
    reference : () float64
        Reference time of the template, s since the epoch.
    at_middle : () float64
        The model's phase at the data's mid-time, cycles.
    """

    model: PhaseModel
    reference: jax.Array
    at_middle: jax.Array

    def cycles(self, tau: jax.Array) -> jax.Array:
        """Return the model's phase in cycles at source times since the epoch; zero at the data's mid-time."""
        return self.model.cycles(tau - self.reference) - self.at_middle

    def frequency(self, tau: jax.Array) -> jax.Array:
        """Return the model's contribution to the frequency, Hz, at source times since the epoch."""
        return self.model.frequency(tau - self.reference)


@jax.jit  # programs that call this share one trace
def source(point: Doppler, epoch: jax.Array, reference: jax.Array, middle: jax.Array) -> Source:
    """Return the source that a template describes, with times since an observation's epoch.

    Parameters
    ----------
    point : Doppler
        One template with scalar fields.
    epoch : () int64
        GPS time from which the observation's times count, s.
    reference : () float64
        Reference time of the template, s since the epoch.
    middle : () float64
        Mid-time of the data, s since the epoch.
    """
    since, orbit, own = middle - reference, point.orbit, None
    at_middle = _spin_phase(point.fkdot, since)
    if point.model is not None:
        own = OwnPhase(point.model, reference, point.model.cycles(since))
        at_middle = jnp.mod(at_middle, 1.0) + own.at_middle
    return Source(
        alpha=point.alpha,
        delta=point.delta,
        direction=_direction(point, since, middle),
        frequency=point.fkdot[0],
        evolution=evolution_at(point.fkdot, since),
        middle=middle,
        cycles_at_middle=jnp.mod(at_middle, 1.0),
        orbit=None if orbit is None else with_fields(orbit, tp=orbit.tp - jnp.asarray(epoch).astype(jnp.float64)),
        model=own,
    )
