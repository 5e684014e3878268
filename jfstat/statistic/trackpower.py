"""Sum the power of SFTs along the track of one template in time and frequency."""

from __future__ import annotations

from collections.abc import Sequence
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

CLOSEST = 8
"""Distance from a bin, in units of rounding, below which frequencies count as this far from it."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class NormalisedPower(Displayed):
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


def track(data: NormalisedSFTs, sky: SkyPosition, point: Doppler, steps: int) -> tuple[jax.Array, jax.Array]:
    """Return a template's frequency at the detectors in the middle of each SFT, Hz, and its derivative with respect to
    the template's frequency, (D, S) float64 each.

    See `kepler_in_steps` for `steps`.
    """
    return detector_frequency(data.observation.source(point), sky.t_ssb, sky.rate, steps)


def power_sums(columns: jax.Array, data: NormalisedSFTs, sky: SkyPosition, point: Doppler, steps: int) -> jax.Array:
    """Return the sum over SFTs of the weight times the normalised power at the track of one template, (D,) float64.

    It is NaN if the track leaves the SFTs' band.

    Parameters
    ----------
    columns : (n_bins, D, S) float32 or complex64
        ``data.values`` with the bins first: tracks move slowly from bin to bin, so that the values along them lie close
        together in memory.
    data : NormalisedSFTs
        Its values are not used.
    sky : SkyPosition
    point : Doppler
    steps : int
        See `kepler_in_steps`.
    """
    bins, (frequency, _) = data.layout.bins, track(data, sky, point, steps)
    place = frequency * data.observation.tsft - data.first_bin.astype(jnp.float64)
    first = (jnp.round(place) if bins == 1 else jnp.floor(place) - (bins // 2 - 1)).astype(jnp.int32)
    last = columns.shape[0] - bins
    held = (first >= 0) & (first <= last) | (sky.weight == 0)
    first = jnp.clip(first, 0, last)
    if bins == 1:
        power = _values(columns, first).astype(jnp.float64)
    else:
        near = [_values(columns, first + k).astype(jnp.complex128) for k in range(bins)]
        power = joined_power(near, place - first.astype(jnp.float64))
    return jnp.sum(sky.weight * jnp.where(held, power, jnp.nan), axis=-1)


def joined_power(near: Sequence[jax.Array], place: jax.Array) -> jax.Array:
    """Return the power at a frequency from the amplitudes of some neighbouring bins, elementwise.

    A signal with a rectangular window has the amplitude sinc(x - k) exp(i pi (x - k)) in the bin k if its frequency is
    that of x bins. Of this, sin(pi x)/pi exp(i pi x) is common to all bins and what remains is 1/(x - k).

    Parameters
    ----------
    near : sequence of complex arrays
        Amplitudes of the bins, in order.
    place : array of their precision
        Frequency, in bins from the first of these bins on.
    """
    closest = CLOSEST * jnp.finfo(place.dtype).eps
    real = imag = norm = jnp.zeros_like(place)
    for k, value in enumerate(near):
        distance = place - k
        part = 1 / jnp.where(jnp.abs(distance) < closest, closest, distance)
        real, imag, norm = real + value.real * part, imag + value.imag * part, norm + part * part
    return (real * real + imag * imag) / norm


def _values(columns: jax.Array, row: jax.Array) -> jax.Array:
    """Return the bins with given numbers, one in each SFT, (D, S)."""
    whole = np.int32 if columns.size < 2**31 else np.int64
    at = row.astype(whole) * whole(row.size) + np.arange(row.size, dtype=whole).reshape(row.shape)
    return columns.reshape(-1).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)
