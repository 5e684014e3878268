"""Compute the posterior distribution of a signal's amplitude parameters: `amplitude_posterior`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax

from jfstat import kinds
from jfstat.data.checks import check_key, check_signal
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.display import Displayed
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.bstat import at_orientation, orientations_that_count, unit_of_h0
from jfstat.inference.density import PosteriorDensity
from jfstat.inference.joint import Part, joint_posterior
from jfstat.public import public
from jfstat.signal.templates import Amplitude, Doppler, template
from jfstat.statistic.amplitude import amplitude_of
from jfstat.statistic.likelihood import AmplitudeLikelihood, total_likelihood
from jfstat.validation import whole

if TYPE_CHECKING:
    from jax.typing import ArrayLike

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
        A stack of independent, equally probable amplitudes; psi lies in [-pi/4, pi/4] unless it has a prior of its own,
        phi0 in [0, 2 pi). phi0 is the signal's phase at the template's reference time, which is ``meta["reftime"]`` of
        the table of `pulsar_posteriors`.
    h0 : (n,) float64
        Strain amplitudes, in order, at which the density is known.
    density : (n,) float64
        Posterior probability density of h0, averaged over the other parameters by quadrature, not from the samples.
    """

    log_bstat: jax.Array
    samples: Amplitude
    h0: jax.Array
    density: jax.Array

    @property
    def of_h0(self) -> PosteriorDensity:
        """The density of h0."""
        return PosteriorDensity(self.h0, self.density)

    def h0_quantile(self, p: ArrayLike) -> jax.Array:
        """Return the h0 below which the signal's lies with given probabilities, (...) float64; traceable.

        Raises
        ------
        ValueError
            If this is a stack of posteriors, as are those of `h0_limit` and `h0_interval`, or `p` is not from 0 to 1.
        """
        return self.of_h0.quantile(p)

    def h0_limit(self, credibility: float = 0.95) -> jax.Array:
        """Return the upper limit of h0: the signal is weaker with this probability, () float64.

        Raises
        ------
        ValueError
            If `credibility` is no probability.
        """
        return self.of_h0.limit(credibility)

    def h0_interval(self, credibility: float = 0.95) -> jax.Array:
        """Return the equal-tailed credible interval of h0, (2,) float64.

        It leaves out as much probability on either side, so its lower end is above zero even without a signal.

        Raises
        ------
        ValueError
            If `credibility` is no probability.
        """
        return self.of_h0.interval(credibility)


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
        By default isotropic orientations and an improper uniform prior of h0.
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
    key, n = key_and_number(key, samples)
    return _amplitude_posterior(data.for_one_template, point, prior or AmplitudePrior(), key, n)


def key_and_number(key: jax.Array | None, samples: int) -> tuple[jax.Array, int]:
    """Return the random key, by default that of seed 0, and the number of samples that a user asks for.

    Raises
    ------
    TypeError, ValueError
        If either is none.
    """
    n = whole(samples, "samples", 1, MOST_SAMPLES)
    if key is None:
        key = jax.random.key(0)
    check_key(key)
    return key, n


@jax.jit(static_argnames="n")
def _amplitude_posterior(
    data: FstatData | NarrowData, point: Doppler, prior: AmplitudePrior, key: jax.Array, n: int
) -> AmplitudePosterior:
    return amplitude_posterior_of(total_likelihood(data, point), prior, unit_of_h0(data), key, n)


def amplitude_posterior_of(
    likelihood: AmplitudeLikelihood, prior: AmplitudePrior, unit: jax.Array, key: jax.Array, n: int
) -> AmplitudePosterior:
    """Return the posterior for the likelihood at one template, with n samples, without any checks."""
    part = Part(partial(at_orientation, likelihood), prior.h0, unit)
    found = joint_posterior([part], orientations_that_count(likelihood, prior, unit), key, n)
    samples = amplitude_of(found.h0[0], found.cosi, found.psi, found.phi0[0])
    return AmplitudePosterior(found.log_bstat, samples, found.densities[0].values, found.densities[0].density)
