"""Infer the distribution of ellipticities over pulsars: `ellipticity_likelihoods`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from jfstat import kinds
from jfstat.display import Displayed, Facts
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.bstat import (
    AtOrientation,
    at_orientation,
    log_bstat_at,
    log_over_h0,
    orientations_that_count,
)
from jfstat.inference.distributions import KINDS, Cosine, Distribution
from jfstat.inference.joint import AT_ONCE, averaged_over_phi0, range_that_counts, that_count
from jfstat.inference.neutronstars import CANONICAL_MOMENT, ellipticity
from jfstat.inference.orientations import OnGrid, OnSphere, legendre, orientations
from jfstat.inference.pulsarposteriors import PulsarPosteriors
from jfstat.inference.pulsarsignals import PulsarLikelihood
from jfstat.public import host
from jfstat.statistic.likelihood import AmplitudeLikelihood
from jfstat.validation import NumberLike, shown

BELOW, AROUND, BEYOND = 160, 400, 40
"""Numbers of strain amplitudes from zero to where the likelihood counts, over the range in which it does, and beyond.
"""
FARTHEST = 100.0
"""Largest strain amplitude over the largest that counts."""
BEYOND_PRIOR = 0.01
"""Logarithm of the Bayes factor that orientations beyond the usual range of a normal prior may add."""
PULSARS_AT_ONCE = 8
"""Number of pulsars whose integrals are held in memory together."""
NODES = 8
"""Number of values between two neighbouring ellipticities at which a distribution is summed."""
LEAST_MASS = 1e-12
"""Probability between two amplitudes below which it is taken from the density: differences are then rounded."""
OF_ELLIPTICITY = tuple(kind for kind in KINDS if kind is not Cosine)
NOWHERE = -1e300
"""Logarithm of a density where there is none, whose derivatives are finite."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class EllipticityLikelihoods(Displayed):
    """The likelihoods of K pulsars as functions of their ellipticities; made by `ellipticity_likelihoods`.

    Attributes
    ----------
    ellipticity : (K, n) float64
        Ellipticities from zero on, in order.
    values : (K, n) float64
        Logarithms of the likelihood ratios of signals with these ellipticities against noise, averaged over cosi, psi
        and phi0.
    slopes : (K, n) float64
        Their derivatives by the ellipticity.
    names : tuple of str, static
        Names of the pulsars.
    """

    ellipticity: jax.Array
    values: jax.Array
    slopes: jax.Array
    names: tuple[str, ...] = field(metadata=dict(static=True))

    def _facts(self) -> Facts:
        names = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return Facts(f"EllipticityLikelihoods of {len(self.names)} pulsars", [("names", names)])

    def log_likelihood(self, distribution: Distribution) -> jax.Array:
        """Return the log-likelihood ratio, against noise, of a distribution of the pulsars' ellipticities.

        With ``stars``, ``lambda mu: stars.log_likelihood(jfstat.Exponential(mu))`` is that of a mean ellipticity, of
        which `jax.grad` is the derivative.

        Parameters
        ----------
        distribution : Uniform, LogUniform, HalfNormal, Exponential, Normal or FermiDirac
            Distribution of ellipticities, the same for all pulsars; it is cut at zero.

        Returns
        -------
        () float64

        Raises
        ------
        TypeError
            If `distribution` is none.
        """
        return jnp.sum(self.log_likelihood_of_each(distribution))

    def log_likelihood_of_each(self, distribution: Distribution) -> jax.Array:
        """Return the terms of `log_likelihood`, one for each pulsar, (K,) float64.

        Raises
        ------
        TypeError
            If `distribution` is none.
        """
        if not isinstance(distribution, OF_ELLIPTICITY):
            raise TypeError(f"distribution must be one such as jfstat.Exponential, not {shown(distribution)}.")
        return _log_likelihoods(self.ellipticity, self.values, self.slopes, distribution)


@jax.jit
def _log_likelihoods(x: jax.Array, values: jax.Array, slopes: jax.Array, distribution: Distribution) -> jax.Array:
    """Return the logarithms of the integrals of a distribution times likelihoods, (K,) float64."""

    @jax.checkpoint  # or the derivative would keep all nodes of all pulsars
    def one(table: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return _log_likelihood(*table, distribution)

    return jax.lax.map(one, (x, values, slopes), batch_size=PULSARS_AT_ONCE)


def _log_likelihood(x: jax.Array, values: jax.Array, slopes: jax.Array, distribution: Distribution) -> jax.Array:
    """Return the logarithm of the integral of a distribution times the likelihood of one pulsar, () float64.

    Between two neighbouring ellipticities the logarithm of the likelihood is a cubic, and it is summed at values that
    are spaced as the distribution is, which may be narrow. Where the distribution is next to zero its density is used.
    """
    nodes, shares = (jnp.asarray(own) for own in legendre(NODES))
    below = distribution.cdf(x)
    first, mass, width = below[:-1, None], jnp.diff(below)[:, None], jnp.diff(x)[:, None]
    some = (mass > LEAST_MASS) & (width > 0)
    safe = jnp.where(width > 0, width, 1.0)
    spaced = distribution.quantile(jnp.where(some, first + nodes * mass, 0.5))
    at = jnp.where(some, jnp.clip((spaced - x[:-1, None]) / safe, 0.0, 1.0), nodes)
    inside = x[:-1, None] + nodes * width
    thin = jnp.where(width > 0, jnp.log(safe), NOWHERE) + jnp.maximum(distribution.log_prob(inside), NOWHERE)
    log_mass = jnp.where(some, jnp.log(jnp.where(some, mass, 1.0)), thin)
    rises = slopes[:-1, None] * width, slopes[1:, None] * width
    log_likelihood = _cubic(at, values[:-1, None], values[1:, None], *rises)
    negative = jnp.minimum(distribution.cdf(jnp.float64(0.0)), 1 - LEAST_MASS)  # these do not count
    return logsumexp(log_mass + log_likelihood + jnp.log(shares)) - jnp.log1p(-negative)


def _cubic(t: jax.Array, left: jax.Array, right: jax.Array, rise_left: jax.Array, rise_right: jax.Array) -> jax.Array:
    """Return a cubic, given its values and derivatives at 0 and at 1, at t in between."""
    u = 1 - t
    return (1 + 2 * t) * u * u * left + t * u * u * rise_left + (1 + 2 * u) * t * t * right - t * t * u * rise_right


@host(found=kinds.instance(PulsarPosteriors))
def ellipticity_likelihoods(
    found: PulsarPosteriors, *, moment: NumberLike = CANONICAL_MOMENT
) -> EllipticityLikelihoods:
    """Compute the likelihoods of pulsars' ellipticities, for inference of their distribution.

    Hierarchical inference of a population of pulsars (Pitkin, Messenger & Fan 2018, Phys. Rev. D 98, 063001): the
    likelihood of a distribution of ellipticities is the product over pulsars of the integrals of the distribution times
    the likelihood of each. Those of the pulsars do not depend on the prior of h0 that `pulsar_posteriors` had;
    its priors of cosi and psi hold. Distances and the moment of inertia are taken as known: their errors move all of a
    pulsar's ellipticities.

    Parameters
    ----------
    found : PulsarPosteriors
        From `pulsar_posteriors`, of signals at twice the rotation frequency.
    moment : float or Quantity
        Moment of inertia of the stars, kg m^2.

    Returns
    -------
    EllipticityLikelihoods

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If the posteriors are of two harmonics, a pulsar has several rows, or no pulsar has a distance.

    Warns
    -----
    UserWarning
        If pulsars without a distance are left out.

    Examples
    --------
    >>> found = jfstat.pulsar_posteriors(sfts, pulsars)  # doctest: +SKIP
    >>> stars = jfstat.ellipticity_likelihoods(found)  # doctest: +SKIP
    >>> stars.log_likelihood(jfstat.Exponential(1e-7))  # doctest: +SKIP
    """
    if np.ndim(ellipticity(1.0, 1.0, 1.0, moment=moment)):
        raise ValueError("moment must be one number, the same for all pulsars: give the usual one in kg m^2.")
    names = [str(name) for name in found.table["name"]]
    if any(len(own.harmonics) > 1 for own in found.likelihoods):
        raise ValueError("found is of signals with two harmonics: compute pulsar_posteriors with an AmplitudePrior.")
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(f"{twice[0]} has several rows: give each pulsar once.")
    table: Any = found.table
    freq, distance = (np.asarray(table[name].value) for name in ("freq", "distance"))
    known = np.flatnonzero(np.isfinite(distance))
    lost = [name for i, name in enumerate(names) if i not in known]
    if not len(known):
        raise ValueError("no pulsar has a distance: give PX in the .par files.")
    if lost:
        warnings.warn(f"without a distance there is no ellipticity: {', '.join(lost)} left out.", stacklevel=4)
    likelihoods = [found.likelihoods[i] for i in known]
    priors = [found.priors[i].orientation for i in known]
    tables = [_table(own, prior) for own, prior in zip(likelihoods, priors, strict=True)]
    h0, values, slopes = (jnp.stack(x) for x in zip(*tables, strict=True))
    per_strain = ellipticity(1.0, freq[known], distance[known], moment=moment)
    each = per_strain[:, None]
    return EllipticityLikelihoods(h0 * each, values, slopes / each, tuple(names[i] for i in known))


def _orientations(likelihood: AmplitudeLikelihood, prior: AmplitudePrior, unit: jax.Array) -> OnSphere | OnGrid:
    """Return orientations that resolve the prior, as small amplitudes need them, and further ones where a loud signal
    contradicts a normal prior."""
    whole = orientations(likelihood, prior)
    if isinstance(whole, OnSphere):
        return whole
    best: Any = orientations_that_count(likelihood, prior, unit)  # a grid, too
    found, usual = (log_bstat_at(likelihood, prior, unit, chosen) for chosen in (best, whole))
    contradicted = found > usual + BEYOND_PRIOR
    return whole._replace(sigmas=jnp.where(contradicted, best.sigmas, whole.sigmas))


@jax.jit
def _table(likelihood: PulsarLikelihood, prior: AmplitudePrior) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return strain amplitudes, and the logarithms of likelihoods averaged over orientations, and over errors of the
    timing solution, with their derivatives, (n,) float64 each."""

    unit = jnp.float64(1.0)

    def at_nodes(own: AmplitudeLikelihood, log_weight: jax.Array) -> tuple[AtOrientation, jax.Array]:
        nodes = _orientations(own, prior, unit).nodes
        return at_orientation(own, nodes.cosi, nodes.psi), nodes.log_weight + log_weight

    each = jax.vmap(at_nodes)(likelihood.harmonics[0], likelihood.log_weight)
    own, of_nodes = jax.tree.map(lambda x: x.reshape(-1), each)
    over_h0 = log_over_h0(None, unit, own.z, own.q)
    span = range_that_counts(None, unit, own, over_h0, that_count(of_nodes + over_h0))
    below = span.low * jnp.square(jnp.linspace(0.0, 1.0, BELOW, endpoint=False))
    beyond = span.high * FARTHEST ** (jnp.arange(1, BEYOND + 1) / BEYOND)
    h0 = jnp.concatenate([below, span.spaced(AROUND), beyond])

    def value(h0: jax.Array) -> jax.Array:
        return logsumexp(of_nodes + averaged_over_phi0(own, h0))

    values, slopes = jax.lax.map(jax.value_and_grad(value), h0, batch_size=AT_ONCE)
    return h0, values, jnp.where(h0 == 0, 0.0, slopes)  # even; Bessel functions have one-sided derivatives in JAX
