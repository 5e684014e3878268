"""Compute the B-statistic, the Bayes factor of a signal with unknown amplitudes against noise: `log_bstat`."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, logsumexp

from jfstat import kinds
from jfstat.data.checks import check_signal
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.distributions import Distribution, FermiDirac, HalfNormal
from jfstat.inference.orientations import LEAST_EIGENVALUE, TINY, OnGrid, OnSphere, orientations
from jfstat.public import public
from jfstat.signal.templates import Doppler, template
from jfstat.statistic.fstat import noise_level
from jfstat.statistic.likelihood import AmplitudeLikelihood, total_likelihood

NODES = 48
"""Number of values of h0 in each of two ranges, where there is no closed form."""
BELOW, ABOVE = 7.0, 8.0
"""Range of h0 around the best one, in standard deviations."""
EFOLDINGS = 40.0
"""Range of h0 from the end of a prior that excludes the best one, in e-foldings of the likelihood."""
EDGE = 20.0
"""Range of h0 around mu of a Fermi-Dirac prior in which its fall is summed on its own, in units of its sigma."""


class AtOrientation(NamedTuple):
    """The likelihood at given orientations as a function of h0 and phi0: h0 z cos(phi0 - phase) - h0^2 q/2.

    Attributes
    ----------
    z, q, phase : (n,) float64
    """

    z: jax.Array
    q: jax.Array
    phase: jax.Array


def at_orientation(likelihood: AmplitudeLikelihood, cosi: jax.Array, psi: jax.Array) -> AtOrientation:
    """Return the likelihood at orientations, (n,), as a function of h0 and phi0."""
    plus, cross = 0.5 * (1 + cosi**2), cosi
    cos, sin = jnp.cos(2 * psi), jnp.sin(2 * psi)
    # A1 - i A3 and A2 - i A4 are h0 exp(i phi0) times ua and ub
    ua, ub = jax.lax.complex(plus * cos, cross * sin), jax.lax.complex(plus * sin, -cross * cos)
    A, B, C = likelihood.fisher
    power = [x.real**2 + x.imag**2 for x in (ua, ub)]
    q = A * power[0] + B * power[1] + 2 * C * (ua.real * ub.real + ua.imag * ub.imag)
    # not below zero by rounding where a polarisation is hardly seen
    q = jnp.maximum(q, LEAST_EIGENVALUE * (A + B) + TINY)
    product = ua.conj() * likelihood.xa + ub.conj() * likelihood.xb
    size2 = product.real**2 + product.imag**2
    some = ~(size2 == 0)  # the root has no derivative at 0; NaN stays NaN
    return AtOrientation(jnp.where(some, jnp.sqrt(jnp.where(some, size2, 1.0)), 0.0), q, jnp.angle(product))


def log_over_h0(prior: Distribution | None, unit: jax.Array, z: jax.Array, q: jax.Array) -> jax.Array:
    """Return the logarithm of the integral over h0 and phi0 of the prior times the likelihood, (n,) float64.

    Over phi0 it is a Bessel function. Over h0 there is a closed form for the improper uniform prior (whose density is
    1/unit) and for a half-normal one; otherwise h0 is summed, from the least to where the integrand rises by values
    that are spaced as the prior is, and from there over its peak.
    """
    if prior is None or isinstance(prior, HalfNormal):
        if prior is None:
            log_density = -jnp.log(unit)
        else:
            q = q + prior.sigma**-2
            log_density = prior.log_prob(jnp.float64(0.0))
        half = 0.25 * z * z / q
        return log_density + 0.5 * jnp.log(0.5 * np.pi / q) + 2 * half + jnp.log(i0e(half))
    nodes, shares = (jnp.asarray(x) for x in np.polynomial.legendre.leggauss(NODES))
    axes = (None,) * jnp.ndim(z)
    nodes, log_shares = 0.5 * (nodes + 1)[axes], jnp.log(0.5 * shares)[axes]
    first, last = range_of_h0(prior, z, q)

    def log_likelihood(h0: jax.Array) -> jax.Array:
        x = h0 * z[..., None]
        return x + jnp.log(i0e(x)) - 0.5 * h0**2 * q[..., None]

    share = prior.cdf(first)
    some = share > 0
    below = log_likelihood(prior.quantile(nodes * share[..., None])) + log_shares
    below = below + jnp.where(some, jnp.log(jnp.where(some, share, 1.0)), -jnp.inf)[..., None]
    edges = [first, *(jnp.clip(x, first, last) for x in edge_of(prior)), last]
    parts = [below]
    for low, high in pairwise(edges):
        some = high > low
        h0 = low[..., None] + nodes * (high - low)[..., None]
        log_width = jnp.where(some, jnp.log(jnp.where(some, high - low, 1.0)), -jnp.inf)
        parts.append(log_likelihood(h0) + log_shares + prior.log_prob(h0) + log_width[..., None])
    return logsumexp(jnp.concatenate(parts, axis=-1), axis=-1)


def edge_of(prior: Distribution | None) -> tuple[jax.Array, ...]:
    """Return the ends of the range in which a prior falls, if it has such a range within."""
    if isinstance(prior, FermiDirac):
        return prior.mu - EDGE * prior.sigma, prior.mu + EDGE * prior.sigma
    return ()


def range_of_h0(prior: Distribution | None, z: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the ends of the range of h0 around the peak of prior times likelihood, (n,) float64 each.

    Below it the likelihood is smooth in steps of the prior, or negligible; above it is negligible.
    """
    if isinstance(prior, HalfNormal):
        q = q + prior.sigma**-2
    width, best = 1 / jnp.sqrt(q), z / q
    low, high = (0.0, np.inf) if prior is None else (prior.low, prior.high)
    end = high  # where the prior ends abruptly, if the best h0 is beyond
    if isinstance(prior, FermiDirac):  # beyond mu it falls exponentially
        end = jnp.where(best - 1 / (q * prior.sigma) > prior.mu, jnp.inf, prior.mu)
        best = jnp.maximum(best - 1 / (q * prior.sigma), jnp.minimum(best, prior.mu))
    nearest = jnp.clip(best, low, high)
    # at an end of the prior the likelihood changes by e in 1/slope
    slope = (jnp.abs(z / q - nearest) / width + 1) / width
    last = jnp.minimum(jnp.where(best < low, nearest + EFOLDINGS / slope, best + ABOVE * width), high)
    rising = jnp.maximum(nearest - EFOLDINGS / slope, jnp.minimum(0.5 * nearest, 2 / slope))
    peaked = jnp.minimum(jnp.maximum(best - BELOW * width, 0.5 * width), last - 0.5 * width)
    first = jnp.where(z / q > end, jnp.maximum(rising, nearest - BELOW * width), peaked)
    return jnp.clip(first, low, last), last


@public(point=template, prior=kinds.instance(AmplitudePrior, or_none=True))
def log_bstat(data: FstatData | NarrowData, point: Doppler, prior: AmplitudePrior | None = None) -> jax.Array:
    """Compute the logarithm of the Bayes factor of a signal with unknown amplitudes against Gaussian noise.

    The likelihood ratio is averaged over a prior of h0, cosi, psi and phi0 (Prix & Krishnan 2009, Class. Quantum Grav.
    26, 204013; Whelan, Prix, Cutler & Willis 2014, Class. Quantum Grav. 31, 065002). Of signals with isotropic
    orientations it detects somewhat more than 2F does at the same probability of false alarm.

    Pure; works under jit, vmap and grad, and is differentiable in `point` and `prior`.

    Parameters
    ----------
    data : FstatData or NarrowData
        Data of the band; narrow data are faster. From `windowed` for a transient signal. With segments, the signal has
        one phase in all of them.
    point : Doppler or Row
        One template, scalar fields; use ``vmap`` for stacks.
    prior : AmplitudePrior, optional
        By default isotropic orientations and an improper uniform prior of h0. The result then ranks templates of one
        data set, but is known only up to a constant: noise alone gives some 1 to 4.

    Returns
    -------
    () float64
        NaN for a traced template that does not fit the data, see `twoF`.

    Raises
    ------
    TypeError
        If an argument is of another kind.
    ValueError
        If shapes are wrong, the template does not fit the data, or the data's noise floor is not known.

    Notes
    -----
    phi0 is integrated analytically, h0 too if its prior is half-normal or the improper uniform one, and by sums
    otherwise. For isotropic orientations cosi and psi are summed where the likelihood needs it, with errors of some
    1e-4 of the logarithm for any 2F, and of 1e-3 where the antenna matrix has a condition number of 1000 or more;
    derivatives are right to some 1e-4. With a prior of h0 whose least value lies above the best one, errors are some
    1e-3 for 2F of 100 and up to 1 for louder signals. Other priors of cosi and psi are summed on a grid over the part
    of their range in which the integrand counts, with errors of some 1e-3 for 2F up to 1e5 and condition numbers up to
    30. Where one polarisation is measured much worse still, peaks of loud signals seen edge on are thin ridges, which
    the grid may miss.

    Examples
    --------
    >>> prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24))
    >>> bool(jfstat.log_bstat(data, point, prior) > 20)
    True
    """
    check_signal(data, point)
    return _log_bstat(data.for_one_template, point, prior or AmplitudePrior())


@jax.jit
def _log_bstat(data: FstatData | NarrowData, point: Doppler, prior: AmplitudePrior) -> jax.Array:
    return log_bstat_of(total_likelihood(data, point), prior, unit_of_h0(data))


def unit_of_h0(data: FstatData | NarrowData) -> jax.Array:
    """Return sqrt(S/T) of data, with the total time T of the SFTs of all detectors: () float64."""
    observation = data.observation
    # the mean weight is 1 over all SFTs of a segment, and Sinv_Tsft their mean of Tsft/S
    count = jnp.sum(observation.weight, axis=(-2, -1))
    return 1 / jnp.sqrt(jnp.sum(count * noise_level(observation)))


def orientations_that_count(
    likelihood: AmplitudeLikelihood, prior: AmplitudePrior, unit: jax.Array
) -> OnSphere | OnGrid:
    """Return orientations that resolve the likelihood at one template, times the prior, averaged over h0 and phi0."""
    fixed, of_h0, scale = jax.tree.map(jax.lax.stop_gradient, (likelihood, prior.h0, unit))

    def over_amplitudes(cosi: jax.Array, psi: jax.Array) -> jax.Array:
        own = at_orientation(fixed, cosi, psi)
        return log_over_h0(of_h0, scale, own.z, own.q)

    return orientations(likelihood, prior, over_amplitudes)


def log_bstat_of(likelihood: AmplitudeLikelihood, prior: AmplitudePrior, unit: jax.Array) -> jax.Array:
    """Compute `log_bstat` from the likelihood at one template, () float64, without any checks."""
    return log_bstat_at(likelihood, prior, unit, orientations_that_count(likelihood, prior, unit))


def log_bstat_at(
    likelihood: AmplitudeLikelihood, prior: AmplitudePrior, unit: jax.Array, chosen: OnSphere | OnGrid
) -> jax.Array:
    """Compute `log_bstat_of` as the sum over some orientations."""
    nodes = chosen.nodes
    own = at_orientation(likelihood, nodes.cosi, nodes.psi)
    return logsumexp(nodes.log_weight + log_over_h0(prior.h0, unit, own.z, own.q))
