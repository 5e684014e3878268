"""What the metric of a lattice compares: phases in segments, or tracks in time and frequency.

Either gives the square root of a metric, maximised over nothing yet: a matrix of as many rows as there are times, whose
columns belong to the frequency and the coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.checks import observation_of
from jfstat.data.normalised import NormalisedSFTs
from jfstat.data.observation import Observation
from jfstat.geometry.frequencies import Motion, detector_frequency, ssb_times
from jfstat.geometry.nearby import phase_difference, sites
from jfstat.maths.kepler import STEPS
from jfstat.metrics.segmentpower import time_over_noise
from jfstat.signal.templates import Doppler

MOST_TIMES = 1500
"""Largest number of times of all detectors and segments that are compared; of more SFTs, a sample is drawn."""
LEAST_TIMES = 16
"""Least number of times of each detector in each segment: of k times in all, the metric is too small by about 1/k."""
NEAREST_BIN = 2.095
"""Fraction of the power in the nearest bins that a track loses on average per square of its distance from a signal's,
in bins: half the second derivative of the mean of sinc^2 over a bin, over this mean."""
JOINED_BINS = math.pi**2 / 3
"""The same for the power at a frequency, which falls as sinc^2."""

Move = Callable[[jax.Array], Doppler]
"""Function from steps in frequency and coordinates to the template there."""


class Comparison(Protocol):
    """Square root of the metric; a pytree."""

    @property
    def observation(self) -> Observation:
        """Observation of the data."""
        ...

    @property
    def middle(self) -> float:
        """GPS time of the middle of the data, s."""
        ...

    def slopes(self, move: Move, zero: jax.Array) -> jax.Array:
        """Return the matrix M with the metric M^T M at a template, (k, n); traceable.

        Parameters
        ----------
        move : callable
        zero : (n,) float64
            The steps that lead to the template itself.
        """
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Phases:
    """Phases, each free in every segment: the metric of 2F, or of its mean over segments.

    Attributes
    ----------
    observation : Observation
        Possibly with a leading axis of N segments.
    time, weight : (D, K) or (N, D, K) float64
        Times of the data, s since the epoch, and their weights.
    """

    observation: Observation
    time: jax.Array | np.ndarray
    weight: jax.Array | np.ndarray

    @classmethod
    def of(cls, observation: Observation) -> Phases:
        """Compare the phases of an observation at some of its times."""
        n = observation.n_segments
        if n is None:
            return cls(observation, *sampled(*observation.phase_times(), MOST_TIMES))
        each = [observation.segment(i).phase_times() for i in range(n)]
        most = max(MOST_TIMES // n, LEAST_TIMES * len(observation.detectors))
        drawn = [sampled(*own, most) for own in each]
        k = max(time.shape[1] for time, _ in drawn)
        return cls(observation, *(np.stack(x) for x in zip(*(filled(*own, k) for own in drawn), strict=True)))

    @property
    def middle(self) -> float:
        """GPS time of the middle of the data, on average over segments, s."""
        return float(np.mean(self.observation.gps_middle))

    def slopes(self, move: Move, zero: jax.Array) -> jax.Array:
        """Return derivatives of the phases, rad, without their means over segments; see `Comparison.slopes`."""

        def of_segment(observation: Observation, time: jax.Array, weight: jax.Array) -> jax.Array:
            share = (weight / jnp.sum(weight)).reshape(-1, 1)
            centre = observation.source(move(zero))

            def cycles(step: jax.Array) -> jax.Array:
                other = observation.source(move(step))
                each = jax.vmap(lambda own, t: phase_difference(sites(own, centre, t), centre, other))
                return each(observation.trajectory, time).reshape(-1)

            slope = 2 * jnp.pi * jax.jacfwd(cycles)(zero)
            return jnp.sqrt(share) * (slope - jnp.sum(share * slope, axis=0, keepdims=True))

        if self.observation.n_segments is None:
            return of_segment(self.observation, jnp.asarray(self.time), jnp.asarray(self.weight))
        each = jax.vmap(of_segment)(self.observation, jnp.asarray(self.time), jnp.asarray(self.weight))
        powers = jnp.asarray(time_over_noise(self.observation))
        each = each * jnp.sqrt(powers / jnp.sum(powers))[:, None, None]
        return each.reshape(-1, each.shape[-1])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tracks:
    """Tracks in time and frequency: the metric of the power that `track_power` adds up.

    Attributes
    ----------
    observation : Observation
    motion : Motion
        Of the detectors at K times.
    weight : (D, K) float64
        Mean loss per square of a distance in Hz, of all SFTs together.
    """

    observation: Observation
    motion: Motion
    weight: jax.Array | np.ndarray

    @classmethod
    def of(cls, data: NormalisedSFTs) -> Tracks:
        """Compare tracks in the middle of some of the SFTs."""
        seen = data.observation
        shape = seen.start.shape
        rows, weight = sampled(np.broadcast_to(np.arange(shape[1]), shape), np.asarray(seen.weight), MOST_TIMES)
        detectors = np.arange(shape[0])[:, None]
        motion = Motion(*(jnp.asarray(np.asarray(x)[..., detectors, rows]) for x in data.motion))
        loss = NEAREST_BIN if data.layout.bins == 1 else JOINED_BINS
        return cls(seen, motion, loss * float(seen.tsft) ** 2 * weight / np.sum(weight))

    @property
    def middle(self) -> float:
        """GPS time of the middle of the data, s."""
        return float(np.mean(self.observation.gps_middle))

    def slopes(self, move: Move, zero: jax.Array) -> jax.Array:
        """Return derivatives of the frequencies at the detectors, in units in which a loss is their mean square."""

        def frequency(step: jax.Array) -> jax.Array:
            source = self.observation.source(move(step))
            return detector_frequency(source, *ssb_times(source.direction, self.motion), STEPS)[0].reshape(-1)

        return jnp.sqrt(jnp.asarray(self.weight).reshape(-1, 1)) * jax.jacfwd(frequency)(zero)


def compared(data: object) -> Comparison:
    """Return what the metric of an Observation, FstatData or NormalisedSFTs compares.

    Raises
    ------
    TypeError
        If `data` is of another kind.
    """
    return Tracks.of(data) if isinstance(data, NormalisedSFTs) else Phases.of(observation_of(data, segments=True))


def filled(time: np.ndarray, weight: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times and weights, (D, K), filled up to (D, k) with weights of 0."""
    more = [(0, 0), (0, k - time.shape[1])]
    return np.pad(time, more, mode="edge"), np.pad(weight, more)


def sampled(time: np.ndarray, weight: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times, or numbers of SFTs, and their weights, (D, K); if there are more than `most`, a random sample.

    The sample of each detector is evenly spread over the times at which it has data; where these are fewer than
    others', weights of 0 fill it up.
    """
    time, weight = np.asarray(time), np.asarray(weight)
    most = max(1, most // len(time))
    if time.shape[1] <= most:
        return time, weight
    rng = np.random.default_rng(0)
    found, weights = np.repeat(time[:, :1], most, axis=1), np.zeros((len(time), most))
    for i, own in enumerate(weight):
        there = np.flatnonzero(own > 0)
        if len(there) > most:
            edges = np.linspace(0, len(there), most + 1).astype(int)
            there = there[rng.integers(edges[:-1], edges[1:])]
        found[i, : len(there)], weights[i, : len(there)] = time[i, there], own[there]
    return found, weights
