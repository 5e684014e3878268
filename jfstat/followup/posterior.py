"""Compute the log-posterior of a candidate's parameters, for samplers."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.protocol import Data
from jfstat.metrics.coordinates import Coordinates
from jfstat.public import public
from jfstat.statistic.fstat import twoF_of
from jfstat.validation import as_float64


@public
def log_posterior(data: FstatData | NarrowData, coordinates: Coordinates, x: jax.Array) -> jax.Array:
    """Return the log of the posterior density of a candidate's parameters, in whitened coordinates, up to a constant.

    F = 2F/2 is the log of the likelihood ratio, maximised over the four amplitudes. Up to a slowly varying factor it is
    also the average with a prior flat in each of them (Prix and Krishnan 2009, Class. Quantum Grav. 26, 204013). The
    prior of the parameters is flat in frequency, its derivatives and the orbit, and isotropic on the sky.

    The function is pure and differentiable: give ``functools.partial(log_posterior, near, coordinates)`` to a sampler
    such as BlackJAX's or NumPyro's NUTS. A peak is about 1/sqrt(2F) wide in every direction of x.

    Parameters
    ----------
    data : FstatData or NarrowData
        Data of the band; narrow data are faster.
    coordinates : Coordinates
        Whitened coordinates from `whiten`.
    x : (p,) float64
        Whitened coordinates.

    Returns
    -------
    () float64
        Log-posterior; -inf, with zero gradient, for impossible templates (such as an eccentricity of 1) and for
        templates that do not fit the data or lie beyond the reach of narrow data. The reach therefore limits the prior;
        the coordinates' sky is one hemisphere at most.

    Raises
    ------
    TypeError
        If `data` is of another kind, or `coordinates` do not come from `whiten`.

    Examples
    --------
    >>> near, coordinates = jfstat.narrow(data, point), jfstat.whiten(data, point)
    >>> float(jfstat.log_posterior(near, coordinates, jnp.zeros(4))) > 10
    True
    """
    check_data(data, or_narrow=True)
    if not isinstance(coordinates, Coordinates):
        raise TypeError(f"coordinates must come from jfstat.whiten, not {type(coordinates).__name__}.")
    return _log_posterior(data.for_one_template, coordinates, as_float64(x, "x"))


@jax.jit
def _log_posterior(data: Data, coordinates: Coordinates, x: jax.Array) -> jax.Array:
    point = coordinates.point(x)
    inside = data.fits(point)
    safe = jnp.where(inside, x, jnp.zeros_like(x))  # otherwise NaN outside would spread to gradients
    value = 0.5 * twoF_of(data, coordinates.point(safe)) + coordinates.log_volume(safe)
    return jnp.where(inside, value, -jnp.inf)
