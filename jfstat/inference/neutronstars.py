"""What a strain amplitude says of a rotating neutron star: `ellipticity` and `spin_down_limit`."""

from __future__ import annotations

from math import pi

import jax
import jax.numpy as jnp

from jfstat.public import public
from jfstat.signal.constants import GRAVITATIONAL_CONSTANT, PARSEC, SPEED_OF_LIGHT
from jfstat.validation import NumberLike, as_float64, in_unit, require

CANONICAL_MOMENT = 1e38
"""Moment of inertia that is assumed for neutron stars by convention, kg m^2."""


def _positive(x: NumberLike, name: str, unit: str) -> jax.Array:
    value = as_float64(in_unit(x, name, unit), name)
    require(value, name, lambda v: v > 0, "positive", f"give it in {unit}")
    return value


def _star(freq: NumberLike, distance: NumberLike, moment: NumberLike) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return frequencies in Hz, distances in m and moments of inertia in kg m^2."""
    distances = _positive(distance, "distance", "kpc") * 1e3 * PARSEC
    return _positive(freq, "freq", "Hz"), distances, _positive(moment, "moment", "kg m2")


@public
def ellipticity(
    h0: NumberLike, freq: NumberLike, distance: NumberLike, *, moment: NumberLike = CANONICAL_MOMENT
) -> jax.Array:
    """Compute the ellipticity of a neutron star whose signal has a given strain amplitude.

    epsilon = c^4 h0 d / (4 pi^2 G I freq^2) for a triaxial star that emits at twice its rotation frequency (Jaranowski,
    Krolak & Schutz 1998, Phys. Rev. D 58, 063001, eq. 23). Pure and differentiable; arguments broadcast.

    Parameters
    ----------
    h0 : float or array
        Strain amplitude, such as samples or limits of `amplitude_posterior`.
    freq : float or Quantity
        Frequency of the signal, twice that of the rotation, Hz.
    distance : float or Quantity
        Distance of the star, kpc.
    moment : float or Quantity
        Moment of inertia about the axis of rotation, kg m^2.

    Returns
    -------
    (...) float64

    Raises
    ------
    ValueError
        If `freq`, `distance` or `moment` is not positive.

    Examples
    --------
    >>> round(float(jfstat.ellipticity(1e-26, 60.0, 2.0)), 8)
    5.26e-06
    """
    frequencies, distances, moments = _star(freq, distance, moment)
    scale = SPEED_OF_LIGHT**4 / (4 * pi**2 * GRAVITATIONAL_CONSTANT)
    return scale * as_float64(h0, "h0") * distances / (moments * frequencies**2)


@public
def spin_down_limit(
    freq: NumberLike, f1dot: NumberLike, distance: NumberLike, *, moment: NumberLike = CANONICAL_MOMENT
) -> jax.Array:
    """Compute the strain amplitude of a neutron star that loses all its rotational energy to gravitational waves.

    h0 = sqrt(5 G I |f1dot| / (2 c^3 freq)) / d (Aasi et al. 2014, Astrophys. J. 785, 119, eq. 5, where frequencies are
    those of the rotation; their ratio is the same). Pure and differentiable; arguments broadcast.

    Parameters
    ----------
    freq, f1dot : float or Quantity
        Frequency of the signal, Hz, and its derivative, Hz/s, or both of the rotation. A star that spins up has no
        such limit: NaN.
    distance : float or Quantity
        Distance of the star, kpc.
    moment : float or Quantity
        Moment of inertia about the axis of rotation, kg m^2.

    Returns
    -------
    (...) float64

    Raises
    ------
    ValueError
        If `freq`, `distance` or `moment` is not positive.

    Examples
    --------
    >>> round(float(jfstat.spin_down_limit(59.3, -7.4e-10, 2.0)) * 1e24, 2)  # the Crab pulsar
    1.42
    """
    frequencies, distances, moments = _star(freq, distance, moment)
    loss = -as_float64(in_unit(f1dot, "f1dot", "Hz/s"), "f1dot")
    slows = loss > 0
    power = 2.5 * GRAVITATIONAL_CONSTANT * moments * jnp.where(slows, loss, 1.0) / (SPEED_OF_LIGHT**3 * frequencies)
    return jnp.where(slows, jnp.sqrt(power) / distances, jnp.nan)
