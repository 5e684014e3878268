"""Sum the power of SFTs along the track of one template in time and frequency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.normalised import NormalisedSFTs
from jfstat.display import Displayed
from jfstat.geometry.frequencies import detector_frequency, ssb_times
from jfstat.maths.vectors import along
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


class SkyPosition(NamedTuple):
    """What all templates at one sky position, and with one proper motion, have in common: D detectors with S SFTs.

    Attributes
    ----------
    t_ssb : (D, S) float64
        SSB times of the middle of the SFTs, s since the epoch.
    rate : (D, S) float64
        Their rate of change.
    weight : (D, S) float64
        (a^2 + b^2)/S in units of the mean of 1/S; zero where there is no SFT.
    """

    t_ssb: jax.Array
    rate: jax.Array
    weight: jax.Array


def sky_position(data: NormalisedSFTs, point: Doppler) -> SkyPosition:
    """Compute what the templates at the sky position of one of them have in common."""
    seen, motion = data.observation, data.motion
    a, b = (along(own.T[..., None], motion.harmonics) for own in seen.pattern_coefficients(point))
    return SkyPosition(*ssb_times(seen.source(point).direction, motion), seen.weight * (a * a + b * b))


def track(data: NormalisedSFTs, sky: SkyPosition, point: Doppler, steps: int) -> jax.Array:
    """Return a template's frequency at the detectors in the middle of each SFT, Hz, (D, S) float64.

    See `kepler_in_steps` for `steps`.
    """
    return detector_frequency(data.observation.source(point), sky.t_ssb, sky.rate, steps)


def power_sum(data: NormalisedSFTs, sky: SkyPosition, point: Doppler, bins: int, steps: int) -> jax.Array:
    """Return the sum over SFTs of the weight times the normalised power at the track of one template, () float64.

    It is NaN if the track leaves the SFTs' band. With `bins` = 1, `data` hold powers; with more, amplitudes, of which
    so many give the amplitude at the track. A signal with a rectangular window has the amplitude
    sinc(x - k) exp(i pi (x - k)) in the bin k if its frequency is that of x bins.
    """
    place = track(data, sky, point, steps) * data.observation.tsft - data.first_bin.astype(jnp.float64)
    first = (jnp.round(place) if bins == 1 else jnp.floor(place) - (bins // 2 - 1)).astype(jnp.int32)
    last = data.bins.shape[0] - bins
    held = (first >= 0) & (first <= last) | (sky.weight == 0)
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
    return jnp.sum(sky.weight * jnp.where(held, power, jnp.nan))


def _values(data: NormalisedSFTs, row: jax.Array) -> jax.Array:
    """Return the bins with given numbers, one in each SFT, (D, S)."""
    whole = np.int32 if data.bins.size < 2**31 else np.int64
    at = row.astype(whole) * whole(row.size) + np.arange(row.size, dtype=whole).reshape(row.shape)
    return data.bins.reshape(-1).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)
