"""Weight the losses of segments by what each adds to rho^2, so that their mean is the loss of the sum over segments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jfstat.data.eachsegment import each_segment
from jfstat.data.observation import Observation
from jfstat.signal.templates import Amplitude, Doppler


def power(
    observation: Observation, point: Doppler, amplitude: Amplitude | None = None, phase_only: bool = False
) -> jax.Array:
    """Return rho^2 of a signal in one segment up to a factor that all segments share: () float64.

    Parameters
    ----------
    observation : Observation
        Of one segment. If noise floors are not known, segments count by their numbers of SFTs.
    point : Doppler
    amplitude : Amplitude, optional
        None averages over the orientations of the source, for which rho^2 is proportional to A + B (Jaranowski, Krolak
        & Schutz 1998, Phys. Rev. D 58, 063001).
    phase_only : bool
        Neglect the antenna patterns: see `time_over_noise`.
    """
    if phase_only:
        return time_over_noise(observation)
    a, b = observation.pattern_coefficients(point)
    a1, a2, a3, a4 = (1.0, 0.0, 0.0, 1.0) if amplitude is None else amplitude.canonical
    waves = jnp.stack([a1 * a + a2 * b, a3 * a + a4 * b])
    return jnp.einsum("cdm,dmn,cdn->", waves, observation.moments, waves) * _inverse_floor(observation)


def time_over_noise(observation: Observation) -> Any:
    """Return the time observed over the noise in it, up to a factor: () float64, or (K,) of K segments."""
    n_sfts = observation.moments[..., 0, 0].sum(axis=-1)  # the sum of the weights
    return n_sfts * _inverse_floor(observation)


def _inverse_floor(observation: Observation) -> Any:
    return 1.0 if observation.sinv_tsft is None else observation.sinv_tsft


def mean_loss(
    loss: Callable[[Observation], jax.Array],
    observation: Observation,
    point: Doppler,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> jax.Array:
    """Return the mean of a loss, or a metric, over segments, weighted by their `power`; without segments the loss.

    See `losses` for the parameters.
    """
    each, shares = losses(loss, observation, point, amplitude, phase_only)
    return jnp.tensordot(shares, each, 1)


def losses(
    loss: Callable[[Observation], jax.Array],
    observation: Observation,
    point: Doppler,
    amplitude: Amplitude | None = None,
    phase_only: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Return a loss, or a metric, of each of K segments, (K, ...), and their shares of rho^2, (K,); K is 1 without
    segments.

    Segments are computed one after the other, to save memory. The loss of one without data is 0.

    Parameters
    ----------
    loss : callable
        From one segment's observation to an array.
    observation : Observation
    point, amplitude, phase_only
        See `power`.
    """
    if observation.n_segments is None:
        return loss(observation)[None], jnp.ones(1)
    each, powers = each_segment(lambda own: (loss(own), power(own, point, amplitude, phase_only)), observation)
    held = (powers > 0).reshape(-1, *[1] * (each.ndim - 1))
    return jnp.where(held, each, 0.0), powers / jnp.sum(powers)
