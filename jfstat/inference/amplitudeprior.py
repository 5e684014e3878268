"""The prior distribution of a signal's amplitude parameters: `AmplitudePrior`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from jfstat.display import Displayed
from jfstat.inference.distributions import (
    Distribution,
    FermiDirac,
    HalfNormal,
    LogUniform,
    Normal,
    Uniform,
    from_normal,
)
from jfstat.maths.arrays import is_traced, module_for
from jfstat.maths.pytrees import registered, set_fields
from jfstat.signal.templates import Amplitude
from jfstat.statistic.amplitude import amplitude_of
from jfstat.validation import NumberLike, as_float64, shown

OF_H0 = (Uniform, HalfNormal, LogUniform, FermiDirac)
OF_ORIENTATION = (Normal, Uniform)
WIDTHS = {"cosi": 2.0, "psi": 0.5 * np.pi}
"""Widths of the ranges, around zero, in which isotropic orientations are uniform."""
PERIOD = WIDTHS["psi"]
"""Period of psi, rad: signals with psi and psi + pi/2 differ in phi0 alone, by pi."""
WHOLE = 1e-9
"""Part of a period by which the width of a range may miss a whole number of periods."""
EDGE = 5.0
"""Standard deviations beyond which the ends of a normal prior do not matter."""


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class AmplitudePrior(Displayed):
    """A prior distribution of h0, cosi and psi; the initial phase phi0 is always uniform, and all are independent.

    Parameters
    ----------
    h0 : Uniform, HalfNormal, LogUniform or FermiDirac, optional
        Distribution of the strain amplitude. The default is an improper uniform prior, from 0 to infinity: it has no
        norm, and its density is set to 1 per sqrt(S/T), with the noise's spectral density S and the total time T of
        the SFTs of all detectors. Bayes factors then rank templates of one data set but are not odds, and do not
        compare windows of `windowed` data, whose T are different.
    cosi : float, Normal or Uniform, optional
        Cosine of the inclination: a known value, or a distribution, which is cut at -1 and 1. By default
        orientations are isotropic, and cosi is uniform.
    psi : float, Normal or Uniform, optional
        Polarisation angle, rad. By default uniform.

    Raises
    ------
    TypeError
        If an argument is no such distribution.
    ValueError
        If no part of a distribution is possible: h0 must not be negative, and cosi lies between -1 and 1. If psi has
        a range with edges that is longer than pi/2 and no multiple of it.

    Notes
    -----
    Signals with psi and psi + pi/2 differ only in phi0, by pi, so psi may be given around any value. A uniform range of
    several periods is shortened to its first, and posteriors have psi within pi/4 of the mean of a normal prior that is
    wider than a period: they hold the same signals. Measurements of the
    inclination by electromagnetic waves often leave the sign of cosi open: the two signs are then two priors, whose
    Bayes factors are averaged.

    Examples
    --------
    >>> prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-24), cosi=jfstat.Normal(0.48, 0.01))
    """

    h0: Distribution | None
    cosi: Distribution | jax.Array | None
    psi: Distribution | jax.Array | None

    def __init__(
        self,
        h0: Uniform | HalfNormal | LogUniform | FermiDirac | None = None,
        cosi: NumberLike | Normal | Uniform | None = None,
        psi: NumberLike | Normal | Uniform | None = None,
    ):
        check_strain_prior(h0, "h0")
        set_fields(self, h0=h0, cosi=_checked(cosi, "cosi", 1.0), psi=one_period(_checked(psi, "psi", np.inf)))

    @property
    def orientation(self) -> AmplitudePrior:
        """The prior of cosi and psi alone."""
        return amplitude_prior_of(None, self.cosi, self.psi)

    def sample(self, key: jax.Array, n: int) -> Amplitude:
        """Draw the amplitudes of n signals.

        Parameters
        ----------
        key : jax.Array
            A random key, from ``jax.random.key(seed)``.
        n : int
            Number of signals; static.

        Returns
        -------
        Amplitude
            A stack of n; psi lies in [-pi/4, pi/4] unless it has a prior of its own.

        Raises
        ------
        ValueError
            If h0 has no prior.
        """
        return self.quantiles(jax.random.uniform(key, (4, n), jnp.float64))

    def quantiles(self, u: jax.Array) -> Amplitude:
        """Return the amplitudes at which the cumulative priors of h0, cosi, psi and phi0 have given values, (4, ...).

        Raises
        ------
        ValueError
            If h0 has no prior.
        """
        return self._at(u, u, lambda prior, p: prior.quantile(p))

    def from_normal(self, z: jax.Array) -> Amplitude:
        """Return the amplitudes whose cumulative priors have the values of those of standard normal numbers, (4, ...).

        Raises
        ------
        ValueError
            If h0 has no prior.
        """
        return self._at(z, ndtr(z), from_normal)

    def _at(self, numbers: jax.Array, u: jax.Array, value: Callable[[Distribution, jax.Array], jax.Array]) -> Amplitude:
        """Return the amplitudes at numbers, (4, ...), that `value` turns into values of a distribution.

        The cumulative probabilities of the numbers are `u`, (4, ...).
        """
        self.require_norm()
        h0: Any = self.h0

        def angle(k: int, name: str) -> jax.Array:
            prior = getattr(self, name)
            if prior is None:
                return WIDTHS[name] * (u[k] - 0.5)
            return value(prior, numbers[k]) if is_distribution(prior) else jnp.broadcast_to(prior, u[k].shape)

        return amplitude_of(value(h0, numbers[0]), angle(1, "cosi"), angle(2, "psi"), 2 * np.pi * u[3])

    def log_prob(self, amplitude: Amplitude) -> jax.Array:
        """Return the logarithm of the prior density of h0, cosi, psi and phi0, (...) float64.

        phi0 counts from 0 to 2 pi, and psi from -pi/4 to pi/4 unless it has a prior of its own. A parameter that is
        known has a density of 1.

        Raises
        ------
        ValueError
            If h0 has no prior.
        """
        self.require_norm()
        total = self.h0.log_prob(amplitude.h0)  # type: ignore[union-attr]
        for name, width in WIDTHS.items():
            prior, x = getattr(self, name), getattr(amplitude, name)
            if prior is None:
                total = total + jnp.where(jnp.abs(x) <= 0.5 * width, -np.log(width), -jnp.inf)
            elif is_distribution(prior):
                total = total + prior.log_prob(x)
        inside = (amplitude.phi0 >= 0) & (amplitude.phi0 <= 2 * np.pi)
        return total + jnp.where(inside, -np.log(2 * np.pi), -jnp.inf)

    def require_norm(self) -> None:
        """Raise a ValueError if h0 has no prior, so that there is no probability of anything."""
        if self.h0 is None:
            raise ValueError("h0 has no prior with a norm: give AmplitudePrior(h0=) one, such as jfstat.HalfNormal.")


def amplitude_prior_of(
    h0: Distribution | None, cosi: Distribution | jax.Array | None, psi: Distribution | jax.Array | None
) -> AmplitudePrior:
    """Return an AmplitudePrior of fields that were checked before."""
    own = object.__new__(AmplitudePrior)
    set_fields(own, h0=h0, cosi=cosi, psi=psi)
    return own


def check_strain_prior(prior: object, name: str) -> None:
    """Raise an error unless a prior is None or a distribution of strain amplitudes."""
    if prior is not None and not isinstance(prior, OF_H0):
        known = ", ".join(kind.__name__ for kind in OF_H0)
        raise TypeError(f"{name} must be a distribution, one of jfstat's {known}, not {shown(prior)}: make one.")
    if isinstance(prior, Uniform) and not is_traced(prior.minimum) and np.any(np.asarray(prior.minimum) < 0):
        raise ValueError(f"{name} must not be negative: give a Uniform distribution from 0 on.")


def is_distribution(x: object) -> TypeGuard[Distribution]:
    """Return whether the prior of an orientation's parameter is a distribution, not a known value."""
    return hasattr(x, "log_prob")


def _checked(x: object, name: str, most: float) -> Any:
    """Return the prior of an orientation's parameter, cut at `most`, its largest possible magnitude, on both sides."""
    if x is None:
        return None
    if isinstance(x, OF_ORIENTATION):
        numbers = module_for(x.low, x.high)
        low, high = numbers.maximum(x.low, -most), numbers.minimum(x.high, most)
        if not is_traced(low) and not is_traced(high) and not np.all(np.asarray(low) < np.asarray(high)):
            raise ValueError(f"{name} has a prior that no signal can have: it lies between -{most:g} and {most:g}.")
        return Normal(x.mu, x.sigma, low, high) if isinstance(x, Normal) else Uniform(low, high)
    if hasattr(x, "log_prob"):
        raise TypeError(f"{name} must be a number, a jfstat.Normal or a jfstat.Uniform, not {shown(x)}: give one.")
    value = as_float64(x, name, "rad" if name == "psi" else "")
    if np.ndim(value):
        raise ValueError(f"{name} must be one number or a distribution, not {shown(x)}.")
    if not is_traced(value) and not (np.isfinite(value) and abs(float(value)) <= most):
        between = f"lie between -{most:g} and {most:g}" if np.isfinite(most) else "be finite"
        raise ValueError(f"{name} must {between}, not {float(value)}: correct it.")
    return value


def one_period(prior: Any) -> Any:
    """Return a prior of psi that holds the same signals, within one period if it is uniform over several.

    Raises
    ------
    ValueError
        If its range is longer than the period and has edges, which other periods would blur.
    """
    if isinstance(prior, Uniform):
        low, times = prior.low, (prior.high - prior.low) / PERIOD
        whole = (times > 1 + WHOLE) & (abs(times - module_for(times).round(times)) < WHOLE)
        if is_traced(times):
            return Uniform(low, jnp.where(whole, low + PERIOD, jnp.where(times <= 1 + WHOLE, prior.high, jnp.nan)))
        if times > 1 + WHOLE and not whole:
            raise ValueError(
                "psi has a range that is longer than pi/2, after which signals repeat, and no whole number of times: "
                "give a shorter one, or None for all orientations."
            )
        return Uniform(low, low + PERIOD) if whole else prior
    if isinstance(prior, Normal):
        blurred = cut_beyond_a_period(prior)
        if not is_traced(blurred) and blurred:
            raise ValueError(
                "psi has a normal prior that is cut and still wider than pi/2, after which signals repeat: give it "
                "without ends, or a narrower one."
            )
    return prior


def cut_beyond_a_period(prior: Normal) -> jax.Array:
    """Return whether a normal prior of psi is wider than the period and has an edge where its density matters."""
    (low, high), (below, above) = prior.range(), cuts(prior)
    return (below | above) & (high - low > (1 + WHOLE) * PERIOD)


def cuts(prior: Normal) -> tuple[jax.Array, jax.Array]:
    """Return whether the lower and the upper end of a normal prior lie where its density matters."""
    far = EDGE * prior.sigma
    return prior.minimum > prior.mu - far, prior.maximum < prior.mu + far
