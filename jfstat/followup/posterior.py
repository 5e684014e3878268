"""From narrow data and coordinates to the log-posterior that samplers take."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.nearby import covers
from jfstat.metrics.coordinates import Coordinates
from jfstat.parameters import physical
from jfstat.statistic.check import check_data, fit
from jfstat.statistic.fstat import twoF


def log_posterior(data: FstatData | NarrowData, coordinates: Coordinates, x: jax.Array) -> jax.Array:
    """Log of the posterior density of a candidate's parameters, in whitened coordinates, but for a constant.

    F = 2F/2 is the log of the likelihood ratio, maximised over the four amplitudes or, but for a slowly varying factor,
    averaged over them with a prior flat in each (Prix and Krishnan 2009, Class. Quantum Grav. 26, 204013). The prior of
    the parameters is flat in frequency, its derivatives and the orbit, isotropic on the sky.

    Pure and differentiable: hand ``functools.partial(log_posterior, near, coordinates)`` to a sampler such as
    BlackJAX's or NumPyro's NUTS. A peak is about 1/sqrt(2F) wide in every direction of x.

    Parameters
    ----------
    data : FstatData or NarrowData
        Narrow data, for speed.
    coordinates : Coordinates
        From `whiten`.
    x : (p,) float64
        Whitened coordinates.

    Returns
    -------
    () float64. -inf, with no slope, for templates that are none (an eccentricity of 1, say), do not fit the data or are
    out of reach of the narrow data, which thus limits the prior; the coordinates' sky is one hemisphere at most.

    Raises
    ------
    ValueError
        If `data` or `coordinates` is of another kind.
    """
    check_data(data, or_narrow=True)
    if not isinstance(coordinates, Coordinates):
        raise ValueError(f"coordinates must come from jfstat.whiten, not {type(coordinates).__name__}.")
    return _log_posterior(data, coordinates, x)


@jax.jit
def _log_posterior(data: FstatData | NarrowData, coordinates: Coordinates, x: jax.Array) -> jax.Array:
    point = coordinates.point(x)
    inside = covers(data, point) if isinstance(data, NarrowData) else jnp.max(jnp.stack(fit(data, point, False))) <= 0
    inside = inside & physical(point)
    safe = jnp.where(inside, x, jnp.zeros_like(x))  # or the NaN beyond would spoil gradients
    value = 0.5 * twoF(data, coordinates.point(safe)) + coordinates.log_volume(safe)
    return jnp.where(inside, value, -jnp.inf)
