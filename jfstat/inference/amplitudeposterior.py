"""Compute the posterior distribution of a signal's amplitude parameters: `amplitude_posterior`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, logsumexp

from jfstat import kinds
from jfstat.data.checks import check_key, check_signal
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.display import Displayed
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.bstat import AtOrientation, edge_of, range_of_h0, terms, unit_of_h0
from jfstat.inference.distributions import Distribution
from jfstat.inference.orientations import TINY, orientations
from jfstat.public import public
from jfstat.signal.templates import Amplitude, Doppler, template
from jfstat.statistic.amplitude import amplitude_of
from jfstat.statistic.likelihood import AmplitudeLikelihood, total_likelihood
from jfstat.validation import probability, whole

if TYPE_CHECKING:
    from jax.typing import ArrayLike

POINTS = 160
"""Number of equally spaced strain amplitudes of a density, and of others that are spaced as the prior is."""
AT_ONCE = 32
"""Number of strain amplitudes whose densities are computed together."""
LEAST_SHARE = 1e-12
"""Share of the posterior, over the largest, below which an orientation does not widen the range of h0."""
OVERSAMPLING = 4
"""Number of draws for each sample, which is taken from them by their weights."""
CONDITIONAL_POINTS = 96
"""Number of strain amplitudes of each kind at one orientation."""
ANGLES = 129
"""Number of phases in the density of phi0."""
PHASE_SIGMAS = 8.0
"""Range of phi0 that counts around its best value, in standard deviations."""
SAMPLES = 4096
"""Number of samples by default."""
MOST_SAMPLES = 10**5


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class AmplitudePosterior(Displayed):
    """The posterior distribution of the amplitude parameters at one template; made by `amplitude_posterior`.

    Attributes
    ----------
    log_bstat : () float64
        Logarithm of the Bayes factor of a signal against noise, see `jfstat.log_bstat`.
    samples : Amplitude
        A stack of independent, equally probable amplitudes at the template's reference time; psi lies in
        [-pi/4, pi/4] unless it has a prior of its own, phi0 in [0, 2 pi).
    h0 : (n,) float64
        Strain amplitudes, in order, at which the density is known.
    density : (n,) float64
        Posterior probability density of h0, averaged over the other parameters by quadrature, not from the samples.
    """

    log_bstat: jax.Array
    samples: Amplitude
    h0: jax.Array
    density: jax.Array

    def h0_quantile(self, p: ArrayLike) -> jax.Array:
        """Return the h0 below which the signal's lies with given probabilities, (...) float64; traceable.

        Raises
        ------
        ValueError
            If this is a stack of posteriors, as are those of `h0_limit` and `h0_interval`.
        """
        if jnp.ndim(self.h0) != 1:
            raise ValueError("the posterior is a stack of several: use jax.vmap(lambda x: x.h0_limit())(posteriors).")
        steps = 0.5 * (self.density[1:] + self.density[:-1]) * jnp.diff(self.h0)
        below = jnp.concatenate([jnp.zeros(1), jnp.cumsum(steps)])
        return jnp.interp(jnp.asarray(p, jnp.float64), below / below[-1], self.h0)

    def h0_limit(self, credibility: float = 0.95) -> jax.Array:
        """Return the upper limit of h0: the signal is weaker with this probability, () float64.

        Raises
        ------
        ValueError
            If `credibility` is no probability.
        """
        return self.h0_quantile(probability(credibility, "credibility", "give one such as 0.95"))

    def h0_interval(self, credibility: float = 0.95) -> jax.Array:
        """Return the equal-tailed credible interval of h0, (2,) float64.

        It leaves out as much probability on either side, so its lower end is above zero even without a signal.

        Raises
        ------
        ValueError
            If `credibility` is no probability.
        """
        outside = 0.5 * (1 - probability(credibility, "credibility", "give one such as 0.95"))
        return self.h0_quantile(jnp.asarray([outside, 1 - outside]))


@public(point=template, prior=kinds.instance(AmplitudePrior, or_none=True))
def amplitude_posterior(
    data: FstatData | NarrowData,
    point: Doppler,
    prior: AmplitudePrior | None = None,
    *,
    key: jax.Array | None = None,
    samples: int = SAMPLES,
) -> AmplitudePosterior:
    """Compute the posterior distribution of h0, cosi, psi and phi0 of a signal at one template.

    The Doppler parameters are taken as known, as for a pulsar whose phase is followed by radio telescopes (Dupuis &
    Woan 2005, Phys. Rev. D 72, 102002; Pitkin, Isi, Veitch & Woan 2017, arXiv:1705.08978). Noise is Gaussian with the
    floor of the data; in these papers the floor is unknown and integrated over. With segments, the signal has one phase
    in all of them. There is no chain that must converge: the density of h0 is an integral by quadrature, as in
    `log_bstat`, and the samples are independent draws.

    Pure; works under jit and vmap, over data of pulsars too.

    Parameters
    ----------
    data : FstatData or NarrowData
        As for `log_bstat`.
    point : Doppler or Row
        One template, scalar fields.
    prior : AmplitudePrior, optional
        By default isotropic orientations and a flat distribution of h0 without end.
    key : jax.Array, optional
        Random key of the samples, by default ``jax.random.key(0)``.
    samples : int
        Number of samples.

    Returns
    -------
    AmplitudePosterior

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If shapes are wrong, the template does not fit the data, the data's noise floor is not known, or `samples` is
        out of range.

    Notes
    -----
    SFTs are assumed to have rectangular windows, as for `estimate_amplitude`.

    Examples
    --------
    >>> prior = jfstat.AmplitudePrior(h0=jfstat.Uniform(0, 1e-23))
    >>> found = jfstat.amplitude_posterior(data, point, prior)
    >>> low, high = found.h0_interval(0.99)
    >>> bool(low < 4e-25 < high), found.samples.h0.shape
    (True, (4096,))
    """
    check_signal(data, point)
    n = whole(samples, "samples", 1, MOST_SAMPLES)
    if key is None:
        key = jax.random.key(0)
    check_key(key)
    return _amplitude_posterior(data.for_one_template, point, prior or AmplitudePrior(), key, n)


@jax.jit(static_argnames="n")
def _amplitude_posterior(
    data: FstatData | NarrowData, point: Doppler, prior: AmplitudePrior, key: jax.Array, n: int
) -> AmplitudePosterior:
    return amplitude_posterior_of(total_likelihood(data, point), prior, unit_of_h0(data), key, n)


def amplitude_posterior_of(
    likelihood: AmplitudeLikelihood, prior: AmplitudePrior, unit: jax.Array, key: jax.Array, n: int
) -> AmplitudePosterior:
    """Return the posterior for the likelihood at one template, with n samples, without any checks."""
    chosen = orientations(likelihood, prior)
    nodes = chosen.nodes
    own, of_nodes = terms(likelihood, prior, unit, nodes)
    total = logsumexp(of_nodes)

    h0 = _grid(prior.h0, *_bounds(prior.h0, own, jnp.exp(of_nodes - jnp.max(of_nodes)) > LEAST_SHARE), POINTS)

    def log_density(h0: jax.Array) -> jax.Array:
        return logsumexp(nodes.log_weight + _log_likelihood(own, h0)) + _log_prior(prior.h0, unit, h0) - total

    density = jnp.exp(jax.lax.map(log_density, h0, batch_size=AT_ONCE))

    of_node, of_cell, of_sample, of_h0, of_phase = jax.random.split(key, 5)
    index = _resampled(of_node, of_nodes, OVERSAMPLING * n)
    drawn = chosen.near(of_cell, index)
    there, of_drawn = terms(likelihood, prior, unit, drawn)
    taken = _resampled(of_sample, of_drawn - of_nodes[index], n)
    there, drawn = jax.tree.map(lambda x: x[taken], (there, drawn))
    sampled = _sampled_h0(of_h0, prior.h0, unit, there)
    phi0 = _sampled_phase(of_phase, there.phase, sampled * there.z)
    return AmplitudePosterior(total, amplitude_of(sampled, drawn.cosi, drawn.psi, phi0), h0, density)


def _log_likelihood(own: AtOrientation, h0: jax.Array) -> jax.Array:
    """Return the logarithm of the likelihood ratio at strain amplitudes, averaged over phi0."""
    x = h0 * own.z
    return x + jnp.log(i0e(x)) - 0.5 * h0**2 * own.q


def _log_prior(prior: Distribution | None, unit: jax.Array, h0: jax.Array) -> jax.Array:
    return jnp.broadcast_to(-jnp.log(unit), h0.shape) if prior is None else prior.log_prob(h0)


def _bounds(prior: Distribution | None, own: AtOrientation, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the least and the largest h0 at the orientations that count, () float64 each."""
    first, last = range_of_h0(prior, own.z, own.q)
    # a range that begins within the width of the likelihood begins at the prior's end
    near = first * jnp.sqrt(own.q) < 1
    first = jnp.where(near, 0.0 if prior is None else prior.low, first)
    return jnp.min(jnp.where(counts, first, jnp.inf)), jnp.max(jnp.where(counts, last, 0.0))


def _grid(prior: Distribution | None, low: jax.Array, high: jax.Array, n: int) -> jax.Array:
    """Return strain amplitudes between two, in order: n equally spaced ones, n that are spaced as the prior is, and n
    where the prior falls if it does so within."""
    fraction = jnp.linspace(0.0, 1.0, n)
    parts = [low + fraction * (high - low)]
    if prior is not None:
        first, last = prior.cdf(low), prior.cdf(high)
        parts.append(prior.quantile(first + fraction * (last - first)))
    if edge := edge_of(prior):
        parts.append(edge[0] + fraction * (edge[1] - edge[0]))
    return jnp.sort(jnp.clip(jnp.concatenate(parts), low, high))


def _resampled(key: jax.Array, log_weight: jax.Array, n: int) -> jax.Array:
    """Return n indices, taken by their weights with a single random number (systematically), in random order."""
    by_number, by_order = jax.random.split(key)
    below = jnp.cumsum(jnp.exp(log_weight - jnp.max(log_weight)))
    wanted = (jnp.arange(n, dtype=jnp.float64) + jax.random.uniform(by_number, (), jnp.float64)) / n * below[-1]
    return jax.random.permutation(by_order, jnp.searchsorted(below, wanted).clip(max=len(below) - 1))


def _drawn(u: jax.Array, x: jax.Array, log_density: jax.Array) -> jax.Array:
    """Return the value below which there is a fraction u of a density that is known at some values in order."""
    density = jnp.exp(log_density - jnp.max(log_density))
    below = jnp.concatenate([jnp.zeros(1), jnp.cumsum(0.5 * (density[1:] + density[:-1]) * jnp.diff(x))])
    return jnp.interp(u * below[-1], below, x)


def _sampled_h0(key: jax.Array, prior: Distribution | None, unit: jax.Array, own: AtOrientation) -> jax.Array:
    """Return an h0 drawn at each of n orientations, (n,) float64."""

    def one(u: jax.Array, own: AtOrientation) -> jax.Array:
        h0 = _grid(prior, *_bounds(prior, own, jnp.bool_(True)), CONDITIONAL_POINTS)
        return _drawn(u, h0, _log_likelihood(own, h0) + _log_prior(prior, unit, h0))

    u = jax.random.uniform(key, own.z.shape, jnp.float64)
    return jax.lax.map(lambda x: one(*x), (u, own), batch_size=1024)


def _sampled_phase(key: jax.Array, phase: jax.Array, concentration: jax.Array) -> jax.Array:
    """Return phases drawn from von Mises distributions, (n,) float64 in [0, 2 pi)."""
    t = jnp.linspace(-1.0, 1.0, ANGLES)

    def one(u: jax.Array, concentration: jax.Array) -> jax.Array:
        x = jnp.minimum(np.pi, PHASE_SIGMAS / jnp.sqrt(jnp.maximum(concentration, TINY))) * t
        return _drawn(u, x, -2 * concentration * jnp.square(jnp.sin(0.5 * x)))

    u = jax.random.uniform(key, phase.shape, jnp.float64)
    around = jax.lax.map(lambda x: one(*x), (u, concentration), batch_size=1024)
    return jnp.mod(phase + around, 2 * np.pi)
