"""Amplitudes of a signal at a neutron star's rotation frequency and at twice it, and their prior.

The harmonic l = 2, m = 1 is seen at the rotation frequency and m = 2 at twice it (Pitkin, Gill, Jones, Woan & Davies
2015, Mon. Not. R. Astron. Soc. 453, 4399). Both have the form of the usual signal, with other amplitudes.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.display import Displayed, Facts
from jfstat.inference.amplitudeprior import AmplitudePrior, amplitude_prior_of, check_strain_prior, is_distribution
from jfstat.inference.distributions import Distribution, FermiDirac, HalfNormal, LogUniform, Normal, Uniform
from jfstat.maths.arrays import is_traced
from jfstat.maths.pytrees import registered, set_fields
from jfstat.signal.parameters import unit
from jfstat.signal.possible import require_possible
from jfstat.signal.showing import scalars_facts
from jfstat.signal.stacks import Stackable
from jfstat.signal.templates import Amplitude, stacked
from jfstat.statistic.amplitude import amplitude_of
from jfstat.validation import AngleLike, NumberLike, as_float64

HARMONICS = (1, 2)
"""Frequencies of a signal over the rotation frequency."""
FIELDS = ("c21", "c22", "cosi", "psi", "phi21", "phi22")


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class DualHarmonicAmplitude(Displayed, Stackable):
    """Amplitudes of a signal at the rotation frequency and at twice it.

    With rotational phase phi and antenna patterns F+ and Fx at psi, the strain is the sum of::

        -C21/2 (F+ sin(iota) cos(iota) cos(phi + phi21) + Fx sin(iota) sin(phi + phi21))
        -C22 (F+ (1 + cos(iota)^2) cos(2 phi + phi22) + Fx 2 cos(iota) sin(2 phi + phi22))

    as in LALSuite's XLALHeterodynedPulsarGetModel and cwinpy. A star that rotates about a principal axis has C21 = 0,
    h0 = 2 C22 and phi0 = phi22 + pi.

    Parameters
    ----------
    c21, c22 : float
        C21 and C22, strain, not negative.
    cosi : float
        Cosine of the inclination.
    psi : float or Quantity
        Polarisation angle, rad.
    phi21, phi22 : float or Quantity
        Phases of the two harmonics where the rotational phase is zero: at the template's reference time, rad.

    Raises
    ------
    TypeError
        If a value is no number.
    ValueError
        If a value is impossible, or shapes do not agree.

    Examples
    --------
    >>> both = jfstat.DualHarmonicAmplitude(c21=1e-25, c22=2e-25, cosi=0.3)
    >>> float(both.at_harmonic(2).h0)
    4e-25
    """

    c21: jax.Array
    c22: jax.Array
    cosi: jax.Array
    psi: jax.Array
    phi21: jax.Array
    phi22: jax.Array

    def __init__(
        self,
        c21: NumberLike,
        c22: NumberLike,
        cosi: NumberLike,
        psi: AngleLike = 0.0,
        phi21: AngleLike = 0.0,
        phi22: AngleLike = 0.0,
    ):
        given = c21, c22, cosi, psi, phi21, phi22
        values = [as_float64(x, name, unit(name)) for x, name in zip(given, FIELDS, strict=True)]
        set_fields(self, **dict(zip(FIELDS, stacked(values, "a DualHarmonicAmplitude"), strict=True)))
        for name in FIELDS:
            require_possible(getattr(self, name), name)

    def _facts(self) -> Facts:
        return scalars_facts(self, FIELDS, "signals")

    def at_harmonic(self, harmonic: int) -> Amplitude:
        """Return the amplitudes, as of any signal, of the part at the rotation frequency (1) or at twice it (2).

        They serve wherever jfstat takes amplitudes: with ``pulsar.doppler(harmonic=1)``, `simulate` makes that part of
        the signal, and `log_likelihood` is its likelihood.

        Raises
        ------
        ValueError
            If `harmonic` is neither 1 nor 2.
        """
        if harmonic not in HARMONICS:
            raise ValueError(f"harmonic is {harmonic!r}, but there are two parts: give 1 or 2.")
        if harmonic == 2:
            return amplitude_of(2 * self.c22, self.cosi, self.psi, self.phi22 + np.pi)
        scale, cosi = of_l2m1(self.cosi)
        return amplitude_of(self.c21 * scale, cosi, self.psi + 0.25 * np.pi, self.phi21 + 0.5 * np.pi)


def of_l2m1(cosi: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return h0 over C21, and cosi, of the usual signal that equals the l = 2, m = 1 part, at psi + pi/4.

    In axes turned by 45 degrees the two polarisations change their roles: A+ is then C21 sin(iota)/2 and Ax is
    C21 sin(iota) cos(iota)/2.
    """
    sine2 = 1 - cosi**2
    some = sine2 > 0  # the root has no derivative at 0
    sine = jnp.where(some, jnp.sqrt(jnp.where(some, sine2, 1.0)), 0.0)
    return 0.5 * sine * (1 + sine), cosi / (1 + sine)


@registered
@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class DualHarmonicPrior(Displayed):
    """A prior distribution of C21, C22, cosi and psi; the phases phi21 and phi22 are uniform, and all are independent.

    Parameters
    ----------
    c21, c22 : Uniform, HalfNormal, LogUniform or FermiDirac, optional
        Distributions of C21 and C22 (strain). By default improper uniform priors, as that of h0 in `AmplitudePrior`.
    cosi : float, Normal or Uniform, optional
    psi : float, Normal or Uniform, optional
        As for `AmplitudePrior`.

    Raises
    ------
    TypeError, ValueError
        As for `AmplitudePrior`, and if the star is known to be seen along its axis, where C21 leaves no signal.

    Examples
    --------
    >>> prior = jfstat.DualHarmonicPrior(c21=jfstat.Uniform(0, 1e-22), c22=jfstat.Uniform(0, 1e-22))
    """

    c21: Distribution | None
    c22: Distribution | None
    cosi: Distribution | jax.Array | None
    psi: Distribution | jax.Array | None

    def __init__(
        self,
        c21: Uniform | HalfNormal | LogUniform | FermiDirac | None = None,
        c22: Uniform | HalfNormal | LogUniform | FermiDirac | None = None,
        cosi: NumberLike | Normal | Uniform | None = None,
        psi: NumberLike | Normal | Uniform | None = None,
    ):
        check_strain_prior(c21, "c21")
        check_strain_prior(c22, "c22")
        orientation = AmplitudePrior(cosi=cosi, psi=psi)
        known = orientation.cosi
        if known is not None and not is_distribution(known) and not is_traced(known):
            value = float(np.asarray(known))
            if abs(value) == 1:
                raise ValueError(f"cosi={value:g} has no signal at the rotation frequency: give an AmplitudePrior.")
        set_fields(self, c21=c21, c22=c22, cosi=orientation.cosi, psi=orientation.psi)

    @property
    def orientation(self) -> AmplitudePrior:
        """The prior of cosi and psi."""
        return amplitude_prior_of(None, self.cosi, self.psi)

    def sample(self, key: jax.Array, n: int) -> DualHarmonicAmplitude:
        """Draw signals.

        Parameters
        ----------
        key : jax.Array
            A random key, from ``jax.random.key(seed)``.
        n : int
            Number of signals; static.

        Returns
        -------
        DualHarmonicAmplitude
            A stack of n; psi lies in [-pi/4, pi/4] unless it has a prior of its own.

        Raises
        ------
        ValueError
            If C21 or C22 has no prior.
        """
        for name in ("c21", "c22"):
            if getattr(self, name) is None:
                raise ValueError(f"{name} has no prior with a norm: give one, such as jfstat.HalfNormal.")
        first, second = jax.random.split(key)
        of22 = amplitude_prior_of(self.c22, self.cosi, self.psi).sample(first, n)
        u, v = jax.random.uniform(second, (2, n), jnp.float64)
        c21 = self.c21.quantile(u)  # type: ignore[union-attr]
        return dual_amplitude_of(c21, of22.h0, of22.cosi, of22.psi, 2 * np.pi * v, of22.phi0)


def dual_amplitude_of(*values: jax.Array) -> DualHarmonicAmplitude:
    """Return amplitudes with given fields, in order, without checks."""
    own = object.__new__(DualHarmonicAmplitude)
    set_fields(own, **dict(zip(FIELDS, values, strict=True)))
    return own
