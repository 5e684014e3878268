"""Compute the power of SFTs along the track of one template in time and frequency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.normalised import NormalisedSFTs
from jfstat.display import Displayed
from jfstat.geometry.frequencies import along, detector_frequency
from jfstat.signal.templates import Doppler


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class TrackPower(Displayed):
    """Power of SFTs along the tracks of templates; made by `track_power`. Fields have the templates' shape, (...).

    Attributes
    ----------
    power : (...) float64
        Weighted mean of the normalised power of the SFTs; its mean in noise is 1.
    deviation : (...) float64
        Standard deviation of `power` in Gaussian noise.
    """

    power: jax.Array
    deviation: jax.Array

    @property
    def critical_ratio(self) -> jax.Array:
        """Excess of the power over its mean in noise, in standard deviations, (...) float64."""
        return (self.power - 1) / self.deviation


class PowerSums(NamedTuple):
    """Weighted sums over SFTs along a track.

    Attributes
    ----------
    power : () float64
        Sum of w times the normalised power; NaN if the track leaves the SFTs' band.
    weight, weight2 : () float64
        Sums of w and of its square.
    """

    power: jax.Array
    weight: jax.Array
    weight2: jax.Array


def track(data: NormalisedSFTs, point: Doppler, steps: int) -> jax.Array:
    """Return a template's frequency at the detectors in the middle of each SFT, Hz, (D, S) float64.

    See `kepler_in_steps` for `steps`.
    """
    return detector_frequency(data.observation.source(point), data.motion, steps)


def track_weights(data: NormalisedSFTs, point: Doppler) -> jax.Array:
    """Return (a^2 + b^2)/S of each SFT, in units of the mean of 1/S, (D, S) float64; zero where there is no SFT."""
    a, b = (along(own.T[..., None], data.motion.harmonics) for own in data.observation.pattern_coefficients(point))
    return data.observation.weight * (a * a + b * b)


def power_sums(data: NormalisedSFTs, point: Doppler, bins: int, steps: int) -> PowerSums:
    """Return the sums of `track_power` over all SFTs for one template, without any checks.

    With `bins` = 1, `data` hold powers; with more, amplitudes, of which so many give the amplitude at the track. The
    amplitude of a signal with a rectangular window is sinc(x - k) exp(i pi (x - k)) in the bin k if its frequency is
    that of x bins.
    """
    frequency, weight = track(data, point, steps), track_weights(data, point)
    place = frequency * data.observation.tsft - data.first_bin.astype(jnp.float64)
    first = (jnp.round(place) if bins == 1 else jnp.floor(place) - (bins // 2 - 1)).astype(jnp.int32)
    last = data.bins.shape[0] - bins
    held = (first >= 0) & (first <= last) | (weight == 0)
    first = jnp.clip(first, 0, last)
    if bins == 1:
        power = _values(data, first).astype(jnp.float64)
    else:
        within = place - first.astype(jnp.float64)
        real = imag = norm = jnp.zeros(first.shape)
        for k in range(bins):
            value, part = _values(data, first + k), (-1.0) ** k * jnp.sinc(within - k)
            real, imag = (x + y.astype(jnp.float64) * part for x, y in ((real, value.real), (imag, value.imag)))
            norm = norm + part * part
        power = (real * real + imag * imag) / norm
    # sums only of what few operations give: XLA computes each anew
    return PowerSums(jnp.sum(weight * jnp.where(held, power, jnp.nan)), jnp.sum(weight), jnp.sum(weight * weight))


def _values(data: NormalisedSFTs, row: jax.Array) -> jax.Array:
    """Return the bins with given numbers, one in each SFT, (D, S)."""
    whole = np.int32 if data.bins.size < 2**31 else np.int64
    at = row.astype(whole) * whole(row.size) + np.arange(row.size, dtype=whole).reshape(row.shape)
    return data.bins.reshape(-1).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)
