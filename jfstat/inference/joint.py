"""Draw samples of a signal's parts at common orientations, and compute the densities of their amplitudes.

A signal has one part for each frequency of a neutron star: parts share cosi and psi, and have amplitudes and initial
phases of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, logsumexp

from jfstat.inference.bstat import AtOrientation, edge_of, log_over_h0, range_of_h0
from jfstat.inference.density import PosteriorDensity, integral_below
from jfstat.inference.distributions import Distribution
from jfstat.inference.orientations import TINY, OnGrid, OnSphere

POINTS = 160
"""Number of strain amplitudes of each kind at which a density is computed; see `_grid`."""
FIRST_STEP = 0.25
"""Size, in widths of the likelihood, from which amplitudes grow in equal ratios."""
AT_ONCE = 32
"""Number of strain amplitudes whose densities are computed together."""
LEAST_SHARE = 1e-12
"""Share of the posterior, over the largest, below which an orientation does not widen the range of h0."""
LEAST_BELOW = 1e-6
"""Share of an orientation's posterior below which amplitudes far below the best one do not count."""
OVERSAMPLING = 4
"""Number of draws for each sample, which is taken from them by their weights."""
PARTS = (0.0, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0)
"""Edges of the parts of an orientation's range of h0, each of which gets as many amplitudes; see `_where_probable`."""
GOLDEN = 0.5 * (np.sqrt(5.0) - 1)
CONDITIONAL_POINTS = 96
"""Number of strain amplitudes of each kind at one orientation."""
ANGLES = 129
"""Number of phases in the density of phi0."""
PHASE_SIGMAS = 8.0
"""Range of phi0 that counts around its best value, in standard deviations."""


class Part(NamedTuple):
    """A part of a signal with an amplitude, called h0 here, and an initial phase of its own.

    Attributes
    ----------
    at : callable
        The likelihood at cosi and psi, (n,) each, as a function of the amplitude and the phase.
    prior : Distribution or None
        Prior of the amplitude; None for an improper uniform one.
    unit : () float64
        Inverse of the density of an improper uniform prior.
    """

    at: Callable[[jax.Array, jax.Array], AtOrientation]
    prior: Distribution | None
    unit: jax.Array

    def over_h0(self, own: AtOrientation) -> jax.Array:
        """Return the logarithm of the integral over amplitude and phase, (n,) float64."""
        return log_over_h0(self.prior, self.unit, own.z, own.q)


class Joint(NamedTuple):
    """The posterior of a signal's parts.

    Attributes
    ----------
    log_bstat : () float64
        Logarithm of the Bayes factor.
    densities : list of PosteriorDensity
        Of the amplitude of each part.
    cosi, psi : (n,) float64
        Samples.
    h0, phi0 : list of (n,) float64
        Samples of each part.
    """

    log_bstat: jax.Array
    densities: list[PosteriorDensity]
    cosi: jax.Array
    psi: jax.Array
    h0: list[jax.Array]
    phi0: list[jax.Array]


def joint_posterior(parts: Sequence[Part], chosen: OnSphere | OnGrid, key: jax.Array, n: int) -> Joint:
    """Return the posterior of a signal's parts, with n samples."""
    nodes = chosen.nodes
    own = [part.at(nodes.cosi, nodes.psi) for part in parts]
    over_h0 = [part.over_h0(x) for part, x in zip(parts, own, strict=True)]
    of_nodes = nodes.log_weight + sum(over_h0)
    total = logsumexp(of_nodes)
    densities = [_density(*each, of_nodes) for each in zip(parts, own, over_h0, strict=True)]
    of_node, of_cell, of_sample, *of_parts = jax.random.split(key, 3 + 2 * len(parts))
    index = resampled(of_node, of_nodes, OVERSAMPLING * n)
    drawn = chosen.near(of_cell, index)
    there = [part.at(drawn.cosi, drawn.psi) for part in parts]
    over_h0 = [part.over_h0(x) for part, x in zip(parts, there, strict=True)]
    taken = resampled(of_sample, drawn.log_weight + sum(over_h0) - of_nodes[index], n)
    there, drawn, over_h0 = jax.tree.map(lambda x: x[taken], (there, drawn, over_h0))
    each = zip(parts, there, over_h0, strict=True)
    h0 = [_sampled_h0(of_parts[2 * i], *own) for i, own in enumerate(each)]
    phi0 = [
        _sampled_phase(of_parts[2 * i + 1], x.phase, size * x.z)
        for i, (size, x) in enumerate(zip(h0, there, strict=True))
    ]
    return Joint(total, densities, drawn.cosi, drawn.psi, h0, phi0)


def _density(part: Part, own: AtOrientation, over_h0: jax.Array, of_nodes: jax.Array) -> PosteriorDensity:
    """Return the density of a part's amplitude.

    Parameters
    ----------
    part : Part
    own : AtOrientation
    over_h0, of_nodes : (n,) float64
        Logarithms of the integral over this part's amplitude, and of the orientations' posterior weights.
    """
    log_weight, counts = of_nodes - over_h0 - logsumexp(of_nodes), that_count(of_nodes)
    span = range_that_counts(part.prior, part.unit, own, over_h0, counts)
    h0 = _grid(part.prior, span, _where_probable(part.prior, own, of_nodes), POINTS)

    def log_density(h0: jax.Array) -> jax.Array:
        return logsumexp(log_weight + averaged_over_phi0(own, h0)) + _log_prior(part.prior, part.unit, h0)

    return PosteriorDensity(h0, jnp.exp(jax.lax.map(log_density, h0, batch_size=AT_ONCE)))


def averaged_over_phi0(own: AtOrientation, h0: jax.Array) -> jax.Array:
    """Return the logarithm of the likelihood ratio at strain amplitudes, averaged over phi0, (n,) float64."""
    x = h0 * own.z
    return x + jnp.log(i0e(x)) - 0.5 * h0**2 * own.q


def _log_prior(prior: Distribution | None, unit: jax.Array, h0: jax.Array) -> jax.Array:
    return jnp.broadcast_to(-jnp.log(unit), h0.shape) if prior is None else prior.log_prob(h0)


class Range(NamedTuple):
    """The range of h0 at the orientations that count, () float64 all.

    Attributes
    ----------
    low, high : () float64
    first : () float64
        Where the likelihood begins to count; below it the prior may.
    width : () float64
        The smallest width of the likelihood; a signal that is hardly seen at some orientations has a far wider range.
    """

    low: jax.Array
    high: jax.Array
    first: jax.Array
    width: jax.Array

    def spaced(self, n: int) -> jax.Array:
        """Return n amplitudes from first to high, first in parts of the width and then in equal ratios, in order."""
        part = jnp.maximum(FIRST_STEP * self.width, TINY)
        fraction = jnp.linspace(0.0, 1.0, n)
        return self.first + part * jnp.expm1(fraction * jnp.log1p((self.high - self.first) / part))


def that_count(log_weight: jax.Array) -> jax.Array:
    """Return which orientations have a share, given its logarithm up to a constant, that widens ranges, (n,) bool."""
    return jnp.exp(log_weight - jnp.max(log_weight)) > LEAST_SHARE


def range_that_counts(
    prior: Distribution | None, unit: jax.Array, own: AtOrientation, over_h0: jax.Array, counts: jax.Array
) -> Range:
    """Return the range of h0 at the orientations that count.

    Parameters
    ----------
    prior : Distribution or None
    unit : () float64
        Inverse of the density of an improper uniform prior.
    own : AtOrientation
    over_h0 : (n,) float64
        Logarithm of the integral over h0 and phi0 at each orientation, `log_over_h0`.
    counts : (n,) bool
    """
    first, last = range_of_h0(prior, own.z, own.q)
    # the likelihood rises up to there, so that the integral up to there is no larger than this
    share = first / unit if prior is None else prior.cdf(first)
    below = averaged_over_phi0(own, first) + jnp.log(share) - over_h0
    low = jnp.where(below > np.log(LEAST_BELOW), 0.0 if prior is None else prior.low, first)
    # a range that begins within the width of the likelihood begins there, too, and so does one without a prior
    first = low if prior is None else jnp.where(first * jnp.sqrt(own.q) < 1, low, first)
    width = jnp.min(jnp.where(counts, 1 / jnp.sqrt(own.q), jnp.inf))
    low, first = (jnp.min(jnp.where(counts, x, jnp.inf)) for x in (low, first))
    return Range(low, jnp.max(jnp.where(counts, last, 0.0)), first, width)


def _where_probable(prior: Distribution | None, own: AtOrientation, of_nodes: jax.Array) -> jax.Array:
    """Return amplitudes, (POINTS,), that are as dense as the ranges of h0 of all orientations by their weights, and
    denser in the middle of these: the range of all may be much wider."""
    first, last = range_of_h0(prior, own.z, own.q)
    # another place within each part for each orientation, lest many alike leave gaps
    place = np.mod(0.5 + np.arange(len(of_nodes)) * GOLDEN, 1.0)
    fraction = np.stack([low + (high - low) * place for low, high in pairwise(PARTS)])
    values = (first + jnp.asarray(fraction) * (last - first)).reshape(-1)
    order = jnp.argsort(values)
    below = jnp.cumsum(jnp.tile(jax.nn.softmax(of_nodes), len(fraction))[order])
    return jnp.interp(jnp.linspace(0.0, 1.0, POINTS) * below[-1], below, values[order])


def _grid(prior: Distribution | None, span: Range, some: jax.Array, n: int) -> jax.Array:
    """Return strain amplitudes of a range, in order: some, n in equal ratios, n that are spaced as the prior is, and n
    where the prior falls if it does so within."""
    low, high, *_ = span
    fraction = jnp.linspace(0.0, 1.0, n)
    parts = [some, span.spaced(n)]
    if prior is not None:
        first, last = prior.cdf(low), prior.cdf(high)
        parts.append(prior.quantile(first + fraction * (last - first)))
    if edge := edge_of(prior):
        parts.append(edge[0] + fraction * (edge[1] - edge[0]))
    return jnp.sort(jnp.clip(jnp.concatenate(parts), low, high))


def resampled(key: jax.Array, log_weight: jax.Array, n: int) -> jax.Array:
    """Return n indices, taken by their weights with a single random number (systematically), in random order."""
    by_number, by_order = jax.random.split(key)
    below = jnp.cumsum(jnp.exp(log_weight - jnp.max(log_weight)))
    wanted = (jnp.arange(n, dtype=jnp.float64) + jax.random.uniform(by_number, (), jnp.float64)) / n * below[-1]
    return jax.random.permutation(by_order, jnp.searchsorted(below, wanted).clip(max=len(below) - 1))


def _drawn(u: jax.Array, x: jax.Array, log_density: jax.Array) -> jax.Array:
    """Return the value below which there is a fraction u of a density that is known at some values in order."""
    density = jnp.exp(log_density - jnp.max(log_density))
    below = integral_below(x, density)
    return jnp.interp(u * below[-1], below, x)


def _sampled_h0(key: jax.Array, part: Part, own: AtOrientation, over_h0: jax.Array) -> jax.Array:
    """Return an amplitude drawn at each of n orientations, (n,) float64."""

    def one(u: jax.Array, own: AtOrientation, over_h0: jax.Array) -> jax.Array:
        span = range_that_counts(part.prior, part.unit, own, over_h0, jnp.bool_(True))
        evenly = jnp.linspace(span.first, span.high, CONDITIONAL_POINTS)
        h0 = _grid(part.prior, span, evenly, CONDITIONAL_POINTS)
        return _drawn(u, h0, averaged_over_phi0(own, h0) + _log_prior(part.prior, part.unit, h0))

    u = jax.random.uniform(key, own.z.shape, jnp.float64)
    return jax.lax.map(lambda x: one(*x), (u, own, over_h0), batch_size=1024)


def _sampled_phase(key: jax.Array, phase: jax.Array, concentration: jax.Array) -> jax.Array:
    """Return phases drawn from von Mises distributions, (n,) float64 in [0, 2 pi)."""
    t = jnp.linspace(-1.0, 1.0, ANGLES)

    def one(u: jax.Array, concentration: jax.Array) -> jax.Array:
        x = jnp.minimum(np.pi, PHASE_SIGMAS / jnp.sqrt(jnp.maximum(concentration, TINY))) * t
        return _drawn(u, x, -2 * concentration * jnp.square(jnp.sin(0.5 * x)))

    u = jax.random.uniform(key, phase.shape, jnp.float64)
    around = jax.lax.map(lambda x: one(*x), (u, concentration), batch_size=1024)
    return jnp.mod(phase + around, 2 * np.pi)
