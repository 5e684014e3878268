"""Define distributions of a number, as priors.

Each is a pytree of its parameters and has a logarithm of its density, its cumulative distribution and the inverses of
it and of its complement, all traceable, and `low` and `high`, the ends of its range.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm

from jfstat.display import Displayed
from jfstat.maths.arrays import is_traced, module_for
from jfstat.maths.pytrees import registered, set_fields
from jfstat.validation import NumberLike, as_float64, require, shown

SIGMAS = 6.0
"""Range of normal distributions that counts in integrals of smooth functions, in standard deviations."""
LEAST_LEFT = 1e-9
"""Least part of a normal distribution that may be left when it is cut."""
LEAST_TAIL = 1e-290
"""Least probability at which `from_normal` takes a quantile, of the number -36.4: those at 0 may be infinite."""


class Distribution(Protocol):
    """A distribution of one number."""

    @property
    def low(self) -> jax.Array | float:
        """Least value, () float64; it may be -inf."""
        ...

    @property
    def high(self) -> jax.Array | float:
        """Largest value, () float64; it may be inf."""
        ...

    def log_prob(self, x: jax.Array) -> jax.Array:
        """Return the logarithm of the probability density at values, (...) float64; -inf outside the range."""
        ...

    def cdf(self, x: jax.Array) -> jax.Array:
        """Return the probability of smaller values, (...) float64."""
        ...

    def quantile(self, p: jax.Array) -> jax.Array:
        """Return the values below which a number falls with given probabilities, (...) float64."""
        ...

    def quantile_above(self, p: jax.Array) -> jax.Array:
        """Return the values above which a number falls with given probabilities, (...) float64.

        They are ``quantile(1 - p)``, precise for small probabilities.
        """
        ...


class _Ended(Displayed):
    """Base of distributions that end at their `minimum` and `maximum`."""

    minimum: jax.Array
    maximum: jax.Array

    @property
    def low(self) -> jax.Array:
        return self.minimum

    @property
    def high(self) -> jax.Array:
        return self.maximum

    def range(self, sigmas: jax.Array | float = SIGMAS) -> tuple[jax.Array, jax.Array]:
        """Return the ends of the range that counts in integrals, of normal distributions so many standard deviations
        around the mean."""
        return self.minimum, self.maximum


class _Positive(Displayed):
    """Base of distributions of all positive numbers."""

    @property
    def low(self) -> float:
        return 0.0

    @property
    def high(self) -> float:
        return np.inf


def from_normal(distribution: Distribution, z: jax.Array) -> jax.Array:
    """Return the values whose cumulative probabilities are those of standard normal numbers, (...) float64."""
    above = z > 0
    p = jnp.maximum(ndtr(jnp.where(above, -z, z)), LEAST_TAIL)
    return jnp.where(above, distribution.quantile_above(p), distribution.quantile(p))


def _within(distribution: Distribution, x: jax.Array, log_density: jax.Array) -> jax.Array:
    return jnp.where((x >= distribution.low) & (x <= distribution.high), log_density, -jnp.inf)


def _number(x: object, name: str, unit: str = "") -> jax.Array:
    """Return one number of a distribution, () float64; raise a ValueError for anything else."""
    value = as_float64(x, name, unit)
    if value.ndim:
        raise ValueError(f"{name} must be one number, not {shown(x)}: use jax.vmap for stacks of distributions.")
    if not is_traced(value) and np.isnan(float(value)):
        raise ValueError(f"{name} must be a number, not NaN: correct it.")
    return value


def _ordered(low: jax.Array, high: jax.Array, kind: str) -> None:
    """Raise a ValueError unless two concrete numbers are finite and in order."""
    if is_traced(low) or is_traced(high):
        return
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(
            f"minimum of {kind} must be less than its maximum, and both finite, not {shown(float(low))} and "
            f"{shown(float(high))}: give them in order."
        )


def _positive(x: jax.Array, name: str) -> None:
    require(x, name, lambda v: (v > 0) & (v < np.inf), "positive", "it is a width")


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Uniform(_Ended):
    """All values between two numbers are equally probable.

    Parameters
    ----------
    minimum, maximum : float

    Raises
    ------
    ValueError
        If they are not finite, or not in order.
    """

    minimum: jax.Array
    maximum: jax.Array

    def __init__(self, minimum: NumberLike, maximum: NumberLike):
        set_fields(self, minimum=_number(minimum, "minimum"), maximum=_number(maximum, "maximum"))
        _ordered(self.minimum, self.maximum, "Uniform")

    def log_prob(self, x: jax.Array) -> jax.Array:
        return _within(self, x, jnp.broadcast_to(-jnp.log(self.maximum - self.minimum), jnp.shape(x)))

    def cdf(self, x: jax.Array) -> jax.Array:
        return jnp.clip((x - self.minimum) / (self.maximum - self.minimum), 0.0, 1.0)

    def quantile(self, p: jax.Array) -> jax.Array:
        return self.minimum + p * (self.maximum - self.minimum)

    def quantile_above(self, p: jax.Array) -> jax.Array:
        return self.maximum - p * (self.maximum - self.minimum)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class LogUniform(_Ended):
    """The logarithm of a positive number is uniform between two ends: its density is proportional to 1/x.

    Parameters
    ----------
    minimum, maximum : float
        Positive.

    Raises
    ------
    ValueError
        If they are not positive and finite, or not in order.
    """

    minimum: jax.Array
    maximum: jax.Array

    def __init__(self, minimum: NumberLike, maximum: NumberLike):
        set_fields(self, minimum=_number(minimum, "minimum"), maximum=_number(maximum, "maximum"))
        require(self.minimum, "minimum", lambda v: v > 0, "positive", "the logarithm is uniform")
        _ordered(self.minimum, self.maximum, "LogUniform")

    def log_prob(self, x: jax.Array) -> jax.Array:
        safe = jnp.maximum(x, self.minimum)
        return _within(self, x, -jnp.log(safe) - jnp.log(jnp.log(self.maximum / self.minimum)))

    def cdf(self, x: jax.Array) -> jax.Array:
        inside = jnp.clip(x, self.minimum, self.maximum)
        return jnp.log(inside / self.minimum) / jnp.log(self.maximum / self.minimum)

    def quantile(self, p: jax.Array) -> jax.Array:
        values = self.minimum * jnp.exp(p * jnp.log(self.maximum / self.minimum))
        return jnp.minimum(values, self.maximum)  # which rounding exceeds

    def quantile_above(self, p: jax.Array) -> jax.Array:
        values = self.maximum * jnp.exp(-p * jnp.log(self.maximum / self.minimum))
        return jnp.maximum(values, self.minimum)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class HalfNormal(_Positive):
    """The upper half of a normal distribution around zero, doubled.

    Parameters
    ----------
    sigma : float
        Standard deviation of the whole normal distribution, positive.

    Raises
    ------
    ValueError
        If it is not positive.
    """

    sigma: jax.Array

    def __init__(self, sigma: NumberLike):
        set_fields(self, sigma=_number(sigma, "sigma"))
        _positive(self.sigma, "sigma")

    def log_prob(self, x: jax.Array) -> jax.Array:
        return _within(self, x, norm.logpdf(x, 0.0, self.sigma) + jnp.log(2.0))

    def cdf(self, x: jax.Array) -> jax.Array:
        return 2 * ndtr(jnp.maximum(x, 0.0) / self.sigma) - 1

    def quantile(self, p: jax.Array) -> jax.Array:
        return -self.sigma * ndtri(0.5 * (1 - p))

    def quantile_above(self, p: jax.Array) -> jax.Array:
        return -self.sigma * ndtri(0.5 * p)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Exponential(_Positive):
    """An exponential distribution of positive numbers: the density is exp(-x/mu)/mu.

    Pitkin, Messenger & Fan 2018 (Phys. Rev. D 98, 063001) use it for the ellipticities of a population of pulsars.

    Parameters
    ----------
    mu : float
        Mean, positive.

    Raises
    ------
    ValueError
        If it is not positive.
    """

    mu: jax.Array

    def __init__(self, mu: NumberLike):
        set_fields(self, mu=_number(mu, "mu"))
        _positive(self.mu, "mu")

    def log_prob(self, x: jax.Array) -> jax.Array:
        return _within(self, x, -x / self.mu - jnp.log(self.mu))

    def cdf(self, x: jax.Array) -> jax.Array:
        return -jnp.expm1(-jnp.maximum(x, 0.0) / self.mu)

    def quantile(self, p: jax.Array) -> jax.Array:
        return -self.mu * jnp.log1p(-p)

    def quantile_above(self, p: jax.Array) -> jax.Array:
        return -self.mu * jnp.log(p)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Normal(_Ended):
    """A normal distribution, cut at a least and a largest value if these are given.

    Parameters
    ----------
    mu : float
        Mean, before it is cut.
    sigma : float
        Standard deviation, before it is cut; positive.
    minimum, maximum : float
        Ends of the range; by default there are none.

    Raises
    ------
    ValueError
        If `sigma` is not positive or the ends are not in order.
    """

    mu: jax.Array
    sigma: jax.Array
    minimum: jax.Array
    maximum: jax.Array

    def __init__(self, mu: NumberLike, sigma: NumberLike, minimum: NumberLike = -np.inf, maximum: NumberLike = np.inf):
        ends = {"minimum": _number(minimum, "minimum"), "maximum": _number(maximum, "maximum")}
        set_fields(self, mu=_number(mu, "mu"), sigma=_number(sigma, "sigma"), **ends)
        _positive(self.sigma, "sigma")
        if any(is_traced(x) for x in (self.mu, self.sigma, self.minimum, self.maximum)):
            return
        if not self.minimum < self.maximum:
            raise ValueError("minimum of Normal must be less than its maximum: give them in order.")
        if abs(self._below(self.maximum) - self._below(self.minimum)) < LEAST_LEFT:
            raise ValueError("Normal holds next to nothing between minimum and maximum: give another mu or sigma.")

    def range(self, sigmas: jax.Array | float = SIGMAS) -> tuple[jax.Array, jax.Array]:
        """Return the ends of the range that counts in integrals, so many standard deviations around the mean, or around
        the end of the range nearest to it."""
        far = sigmas * self.sigma
        numbers = module_for(self.mu, self.minimum, self.maximum, far)
        nearest = numbers.clip(self.mu, self.minimum, self.maximum)
        return numbers.maximum(self.minimum, nearest - far), numbers.minimum(self.maximum, nearest + far)

    @property
    def _side(self) -> jax.Array:
        """-1 if the range lies above the mean, else 1: the tail whose small probabilities are exact lies below."""
        return jnp.where(self.minimum > self.mu, -1.0, 1.0)

    def _below(self, x: jax.Array) -> jax.Array:
        """Return the probability, before the cut, on the exact side of values."""
        far = jnp.isinf(x)  # whose quotient has no derivative
        distance = self._side * (jnp.where(far, 0.0, x) - self.mu) / self.sigma
        return jnp.where(far, 0.5 + 0.5 * self._side * jnp.sign(x), ndtr(distance))

    def log_prob(self, x: jax.Array) -> jax.Array:
        inside = jnp.abs(self._below(self.maximum) - self._below(self.minimum))
        return _within(self, x, norm.logpdf(x, self.mu, self.sigma) - jnp.log(inside))

    def cdf(self, x: jax.Array) -> jax.Array:
        low, high = self._below(self.minimum), self._below(self.maximum)
        return jnp.clip((self._below(x) - low) / (high - low), 0.0, 1.0)

    def quantile(self, p: jax.Array) -> jax.Array:
        low, high = self._below(self.minimum), self._below(self.maximum)
        values = self.mu + self._side * self.sigma * ndtri(low + p * (high - low))
        return jnp.clip(values, self.minimum, self.maximum)

    def quantile_above(self, p: jax.Array) -> jax.Array:
        return -Normal(-self.mu, self.sigma, -self.maximum, -self.minimum).quantile(p)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class FermiDirac(_Positive):
    """Uniform from zero, with a smooth fall around a largest value: the density is ~ 1/(exp((x - mu)/sigma) + 1).

    Pitkin, Isi, Veitch & Woan 2017 (arXiv:1705.08978) use it for h0, and Bilby has it by this name. Its arguments are
    given by their names, since their order is another one there.

    Parameters
    ----------
    mu : float
        Where the density has fallen to a half; positive.
    sigma : float
        Width of the fall; positive.

    Raises
    ------
    ValueError
        If they are not positive.
    """

    mu: jax.Array
    sigma: jax.Array

    def __init__(self, *, mu: NumberLike, sigma: NumberLike):
        set_fields(self, mu=_number(mu, "mu"), sigma=_number(sigma, "sigma"))
        _positive(self.mu, "mu")
        _positive(self.sigma, "sigma")

    @property
    def _norm(self) -> jax.Array:
        """Integral of 1/(exp((x - mu)/sigma) + 1) from zero, in units of sigma."""
        return jax.nn.softplus(self.mu / self.sigma)

    def log_prob(self, x: jax.Array) -> jax.Array:
        return _within(self, x, -jax.nn.softplus((x - self.mu) / self.sigma) - jnp.log(self._norm * self.sigma))

    def cdf(self, x: jax.Array) -> jax.Array:
        above = jax.nn.softplus((self.mu - jnp.maximum(x, 0.0)) / self.sigma)  # the integral from x on
        return 1 - above / self._norm

    def quantile(self, p: jax.Array) -> jax.Array:
        return self.quantile_above(1 - p)

    def quantile_above(self, p: jax.Array) -> jax.Array:
        # the inverse of softplus is log(exp(x) - 1) = x + log(1 - exp(-x))
        above = p * self._norm
        return jnp.maximum(self.mu - self.sigma * (above + jnp.log(-jnp.expm1(-above))), 0.0)  # but for rounding


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Cosine(_Ended):
    """A declination whose positions are uniform on the sphere: the density is proportional to its cosine.

    Parameters
    ----------
    minimum, maximum : float or Angle
        Ends of the range, between -pi/2 and pi/2, rad; by default the whole sphere.

    Raises
    ------
    ValueError
        If they are beyond a pole or not in order.
    """

    minimum: jax.Array
    maximum: jax.Array

    def __init__(self, minimum: NumberLike = -np.pi / 2, maximum: NumberLike = np.pi / 2):
        set_fields(self, minimum=_number(minimum, "minimum", "rad"), maximum=_number(maximum, "maximum", "rad"))
        for name in ("minimum", "maximum"):
            value = getattr(self, name)
            require(value, name, lambda v: abs(v) <= np.pi / 2, "between -pi/2 and pi/2", "give a declination in rad")
        _ordered(self.minimum, self.maximum, "Cosine")

    @property
    def _norm(self) -> jax.Array:
        return jnp.sin(self.maximum) - jnp.sin(self.minimum)

    def log_prob(self, x: jax.Array) -> jax.Array:
        inside = jnp.clip(x, self.minimum, self.maximum)
        return _within(self, x, jnp.log(jnp.maximum(jnp.cos(inside), 0.0)) - jnp.log(self._norm))

    def cdf(self, x: jax.Array) -> jax.Array:
        inside = jnp.clip(x, self.minimum, self.maximum)
        return (jnp.sin(inside) - jnp.sin(self.minimum)) / self._norm

    def quantile(self, p: jax.Array) -> jax.Array:
        return self._at(jnp.sin(self.minimum) + p * self._norm)

    def quantile_above(self, p: jax.Array) -> jax.Array:
        return self._at(jnp.sin(self.maximum) - p * self._norm)

    def _at(self, sine: jax.Array) -> jax.Array:
        """Return the declinations with given sines, within the range, which rounding exceeds."""
        return jnp.clip(jnp.arcsin(jnp.clip(sine, -1.0, 1.0)), self.minimum, self.maximum)


KINDS: tuple[type, ...] = (Uniform, LogUniform, HalfNormal, Exponential, Normal, FermiDirac, Cosine)
"""All distributions."""
