"""Kinds of signals of a known pulsar, at one harmonic of its rotation frequency or at two, with their posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from jfstat.inference.amplitudeposterior import SAMPLES, AmplitudePosterior, amplitude_posterior_of
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.density import PosteriorDensity, averaged
from jfstat.inference.dualharmonic import HARMONICS, DualHarmonicPrior
from jfstat.inference.dualposterior import DualHarmonicPosterior, OfHarmonic, dual_posterior_of
from jfstat.inference.joint import resampled
from jfstat.statistic.likelihood import AmplitudeLikelihood

OfHarmonics: TypeAlias = Sequence[OfHarmonic]

SPARE = 2
"""Number of samples at all templates together over those that are taken, by the templates' shares."""
AT_ONCE = 4
"""Number of posteriors that are computed together."""


class PulsarLikelihood(NamedTuple):
    """The likelihood of a pulsar's signal, averaged over the errors of its timing solution.

    It is the sum of the likelihoods at J templates, whose weights take into account where these were drawn; J is 1 for
    solutions that are taken as exact.

    Attributes
    ----------
    harmonics : tuple of AmplitudeLikelihood
        At each harmonic, (J,).
    units : tuple of () float64
        Units of amplitudes without a prior.
    log_weight : (J,) float64
    """

    harmonics: tuple[AmplitudeLikelihood, ...]
    units: tuple[jax.Array, ...]
    log_weight: jax.Array

    def with_units(self, own: tuple[AmplitudeLikelihood, ...]) -> OfHarmonics:
        """Return what is measured of a signal that has a given likelihood at each harmonic."""
        return list(zip(own, self.units, strict=True))


class PulsarSignal(Protocol):
    """A kind of signal of a known pulsar, chosen by the kind of its prior.

    Attributes
    ----------
    harmonics : tuple of int
        Frequencies over the rotation frequency at which the SFTs are measured; the table is that of the last.
    prior : type
        Kind of its priors, whose constructor without arguments makes the default.
    """

    harmonics: tuple[int, ...]
    prior: type

    def posterior(self, measured: OfHarmonics, prior: Any, key: jax.Array, n: int) -> Any:
        """Return the posterior with n samples; traceable."""
        ...

    def averaged(self, each: Any, log_share: jax.Array, taken: jax.Array) -> Any:
        """Return the average of posteriors at several templates, a stack (J,); traceable.

        `log_share` are logarithms of the templates' shares of the Bayes factor, (J,), and `taken` are places of samples
        in the flattened stack.
        """
        ...

    def add_columns(self, table: Any, posteriors: list[Any], twoF: list[np.ndarray], credibility: float) -> None:
        """Add columns of limits, among them those of h0, to a table, given 2F at each harmonic."""
        ...


class SingleHarmonic:
    """A signal at twice the rotation frequency."""

    harmonics: tuple[int, ...] = (2,)
    prior: type = AmplitudePrior

    def posterior(self, measured: OfHarmonics, prior: AmplitudePrior, key: jax.Array, n: int) -> AmplitudePosterior:
        ((likelihood, unit),) = measured
        return amplitude_posterior_of(likelihood, prior, unit, key, n)

    def averaged(self, each: AmplitudePosterior, log_share: jax.Array, taken: jax.Array) -> AmplitudePosterior:
        density = averaged(each.of_h0, log_share)
        return AmplitudePosterior(logsumexp(log_share), _taken(each.samples, taken), density.values, density.density)

    def add_columns(
        self, table: Any, posteriors: list[AmplitudePosterior], twoF: list[np.ndarray], credibility: float
    ) -> None:
        add_limits(table, "h0", [x.of_h0 for x in posteriors], credibility)


class DualHarmonic:
    """A signal at the rotation frequency and at twice it; h0 is 2 C22."""

    harmonics: tuple[int, ...] = HARMONICS
    prior: type = DualHarmonicPrior

    def posterior(
        self, measured: OfHarmonics, prior: DualHarmonicPrior, key: jax.Array, n: int
    ) -> DualHarmonicPosterior:
        of21, of22 = measured
        return dual_posterior_of(of21, of22, prior, key, n)

    def averaged(self, each: DualHarmonicPosterior, log_share: jax.Array, taken: jax.Array) -> DualHarmonicPosterior:
        c21, c22 = averaged(each.c21, log_share), averaged(each.c22, log_share)
        return DualHarmonicPosterior(logsumexp(log_share), _taken(each.samples, taken), c21, c22)

    def add_columns(
        self, table: Any, posteriors: list[DualHarmonicPosterior], twoF: list[np.ndarray], credibility: float
    ) -> None:
        table["twoF_21"] = twoF[0]
        for name in ("c21", "c22"):
            add_limits(table, name, [getattr(x, name) for x in posteriors], credibility)
        for end in ("limit", "low", "high"):
            table[f"h0_{end}"] = 2 * table[f"c22_{end}"]


SIGNALS: dict[type, PulsarSignal] = {kind.prior: kind for kind in (SingleHarmonic(), DualHarmonic())}
"""Kinds of signals by the kinds of their priors."""


@partial(jax.jit, static_argnames="signal")
def posterior_of(signal: PulsarSignal, likelihood: PulsarLikelihood, prior: Any, key: jax.Array) -> Any:
    """Return the posterior of a pulsar's signal."""
    n = len(likelihood.log_weight)
    if n == 1:
        own = jax.tree.map(lambda x: x[0], likelihood.harmonics)
        return signal.posterior(likelihood.with_units(own), prior, key, SAMPLES)
    of_taken, *keys = jax.random.split(key, 1 + n)
    samples = SPARE * SAMPLES // n

    def one(x: tuple[tuple[AmplitudeLikelihood, ...], jax.Array]) -> Any:
        return signal.posterior(likelihood.with_units(x[0]), prior, x[1], samples)

    each = jax.lax.map(one, (likelihood.harmonics, jnp.stack(keys)), batch_size=AT_ONCE)
    log_share = likelihood.log_weight + each.log_bstat
    taken = resampled(of_taken, jnp.repeat(log_share, samples), SAMPLES)
    return signal.averaged(each, log_share, taken)


def _taken(samples: Any, taken: jax.Array) -> Any:
    return jax.tree.map(lambda x: x.reshape(-1)[taken], samples)


def add_limits(table: Any, name: str, densities: Sequence[PosteriorDensity], credibility: float) -> None:
    """Add columns with the limit and the ends of the interval of one amplitude."""
    outside = 0.5 * (1 - credibility)
    levels = np.array([credibility, outside, 1 - outside])
    at = np.array([np.asarray(x.quantile(levels)) for x in densities])
    for i, end in enumerate(("limit", "low", "high")):
        table[f"{name}_{end}"] = at[:, i]
