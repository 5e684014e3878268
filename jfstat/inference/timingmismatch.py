"""Compute what the errors of a timing solution cost a search that takes it as exact."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.observation import Observation
from jfstat.metrics.mismatch import mismatch
from jfstat.pulsars.pulsar import Pulsar
from jfstat.pulsars.timingerrors import TimingErrors, errors_of

DRAWS = 64
"""Number of solutions drawn from the errors."""


def timing_mismatch(pulsar: Pulsar, observation: Observation, start: float, end: float, harmonic: float) -> float:
    """Return the fraction of rho^2 that a pulsar's template loses, averaged over its solution's errors.

    It is 0 for solutions without errors, and those of data between two glitches count that change the template there.
    """
    errors = errors_of(pulsar, start, end, harmonic)
    if errors is None:
        return 0.0
    draws = np.random.default_rng(0).normal(size=(DRAWS, len(errors.names)))
    return float(_mean_mismatch(observation, errors, draws))


@jax.jit
def _mean_mismatch(observation: Observation, errors: TimingErrors, draws: jax.Array) -> jax.Array:
    def one(draw: jax.Array) -> jax.Array:
        return mismatch(observation, errors.point(draw * errors.errors), errors.centre)

    return jnp.mean(jax.lax.map(one, draws, batch_size=16))
