"""Average the likelihood of a pulsar's signal over the errors of its timing solution."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.bstat import log_bstat_of
from jfstat.inference.pulsarlikelihoods import OfPulsar, names_of
from jfstat.inference.pulsarsignals import PulsarLikelihood
from jfstat.inference.timingdraws import timing_draws
from jfstat.statistic.likelihood import AmplitudeLikelihood

NEGLIGIBLE = 0.01
"""Mean loss of the logarithm of the likelihood below which a solution is taken as exact."""
LEAST_OF_ENTRY = 1e-3
"""Loss by one error of an entry below which the entry is taken as exact."""
MOST_BEYOND = 0.01
"""Largest fraction of the solutions within the errors that the data may not reach."""
AT_ONCE = 8
"""Number of templates whose values are computed together."""
NOWHERE = -1e30
"""Logarithm of the likelihood at templates that the data do not reach."""
LEAST_EFFECTIVE = 50.0
"""Effective number of draws below which there is a warning."""


def pulsar_likelihood(measured: Sequence[OfPulsar], seed: int = 0) -> PulsarLikelihood:
    """Return the likelihood of a pulsar's signal, averaged over the errors of its solution where they matter.

    Templates are drawn by their Bayes factors for isotropic orientations and an improper uniform prior of h0, of each
    harmonic on its own; weights correct for that.

    Parameters
    ----------
    measured : sequence of OfPulsar
        What was measured of the pulsar at each harmonic.
    seed : int
        Of the draws.

    Warns
    -----
    UserWarning
        If the data do not reach the templates within the errors, or few draws count.
    """
    units = tuple(x.unit for x in measured)
    exact = tuple(jax.tree.map(lambda x: jnp.asarray(x)[None], x.likelihood) for x in measured)
    alone = PulsarLikelihood(exact, units, jnp.zeros(1))
    if all(x.log_loss(x.mismatch) < NEGLIGIBLE for x in measured):
        return alone
    names = _that_matter(measured)
    if not names:
        return alone
    likelihoods, inside = [], []

    def log_likelihood(z: np.ndarray) -> np.ndarray:
        each, fits = zip(*(x.likelihoods(names, z) for x in measured), strict=True)
        likelihoods.append(each)
        inside.append(np.all(fits, axis=0))
        values = sum(np.asarray(_log_bstats(*own)) for own in zip(each, units, strict=True))
        return np.where(inside[-1], values, NOWHERE)

    found = timing_draws(log_likelihood, len(names), seed)
    star = measured[0].stretch.pulsar.name
    if np.mean(inside[0]) < 1 - MOST_BEYOND:  # of the draws from the errors themselves
        beyond = 100 * (1 - np.mean(inside[0]))
        warnings.warn(
            f"the timing errors of {star} are too large to be integrated over ({beyond:.0f} % of the "
            "templates within them are out of reach): its solution is taken as exact, and if it is not, its limits "
            "are too low.",
            stacklevel=5,
        )
        return alone
    if not found.effective >= LEAST_EFFECTIVE:
        warnings.warn(
            f"the posterior of the timing solution of {star} is so narrow, or so complex, that only "
            f"{found.effective:.0f} draws of its errors count: its limits are uncertain.",
            stacklevel=5,
        )
    drawn = jax.tree.map(lambda *x: jnp.concatenate(x)[found.index], *likelihoods)
    return PulsarLikelihood(drawn, units, jnp.asarray(found.log_weight))


def _that_matter(measured: Sequence[OfPulsar]) -> tuple[str, ...]:
    """Return names of the entries whose errors change the likelihood: others would only make draws rarer."""
    names = names_of(measured)
    lost = np.max([x.losses(names) for x in measured if x.parts], axis=0)
    return tuple(name for name, x in zip(names, lost, strict=True) if x > LEAST_OF_ENTRY)


@jax.jit
def _log_bstats(likelihoods: AmplitudeLikelihood, unit: jax.Array) -> jax.Array:
    return jax.lax.map(lambda own: log_bstat_of(own, AmplitudePrior(), unit), likelihoods, batch_size=AT_ONCE)
