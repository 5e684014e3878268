"""Average the likelihood of a pulsar's signal over the errors of its timing solution."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.bstat import log_bstat_of
from jfstat.inference.pulsarlikelihoods import OfPulsar
from jfstat.inference.pulsarsignals import PulsarLikelihood
from jfstat.inference.timingdraws import timing_draws
from jfstat.statistic.likelihood import AmplitudeLikelihood

NEGLIGIBLE = 0.01
"""Mean loss of the logarithm of the likelihood below which a solution is taken as exact."""
FAINT = 10.0
"""2F from which the loss is counted: noise alone has some 4."""
MOST_BEYOND = 0.01
"""Largest fraction of the solutions within the errors that the data may not reach."""
AT_ONCE = 8
"""Number of templates whose values are computed together."""
NOWHERE = -1e30
"""Logarithm of the likelihood at templates that the data do not reach."""
LEAST_EFFECTIVE = 50.0
"""Effective number of draws below which there is a warning."""


def pulsar_likelihood(measured: Sequence[OfPulsar]) -> PulsarLikelihood:
    """Return the likelihood of a pulsar's signal, averaged over the errors of its solution where they matter.

    Templates are drawn by their Bayes factors for isotropic orientations and h0 that is flat without end, of each
    harmonic on its own; weights correct for that.

    Parameters
    ----------
    measured : sequence of OfPulsar
        What was measured of the pulsar at each harmonic.

    Warns
    -----
    UserWarning
        If the data do not reach the templates within the errors, or few draws count.
    """
    exact = tuple(jax.tree.map(lambda x: jnp.asarray(x)[None], x.likelihood) for x in measured)
    units = tuple(x.unit for x in measured)
    alone = PulsarLikelihood(exact, units, jnp.zeros(1))
    if all(0.5 * x.mismatch * max(x.row[0], FAINT) < NEGLIGIBLE for x in measured):
        return alone
    names = tuple(dict.fromkeys(name for x in measured for name in x.names))
    star = measured[0].stretch.pulsar.name
    beyond = []

    def drawn(z: np.ndarray) -> tuple[tuple[AmplitudeLikelihood, ...], np.ndarray]:
        likelihoods, inside = zip(*(x.likelihoods(names, z) for x in measured), strict=True)
        return likelihoods, np.all(inside, axis=0)

    def log_likelihood(z: np.ndarray) -> np.ndarray:
        likelihoods, inside = drawn(z)
        beyond.append(1 - np.mean(inside))
        values = sum(np.asarray(_log_bstats(*own)) for own in zip(likelihoods, units, strict=True))
        return np.where(inside, values, NOWHERE)

    found = timing_draws(log_likelihood, len(names))
    if beyond[0] > MOST_BEYOND:
        warnings.warn(
            f"{100 * beyond[0]:.0f} % of the templates within the timing errors of {star} are out of reach: the "
            "solution is taken as exact; prepare data around it and search them.",
            stacklevel=4,
        )
        return alone
    if found.effective < LEAST_EFFECTIVE:
        warnings.warn(
            f"the signal of {star} measures its timing solution far better than the .par file does, so that only "
            f"{found.effective:.0f} draws of its errors count: use jfstat.model with jfstat.timing_errors and a "
            "sampler.",
            stacklevel=4,
        )
    likelihoods, _ = drawn(found.z)
    return PulsarLikelihood(likelihoods, units, jnp.asarray(found.log_weight))


@jax.jit
def _log_bstats(likelihoods: AmplitudeLikelihood, unit: jax.Array) -> jax.Array:
    return jax.lax.map(lambda own: log_bstat_of(own, AmplitudePrior(), unit), likelihoods, batch_size=AT_ONCE)
