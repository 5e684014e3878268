"""Compute the power of SFTs along tracks at all frequencies of a band, for one template."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.normalised import BandLayout, NormalisedSFTs
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields
from jfstat.statistic.trackpower import joined_power, sky_position, track


class Blocks(NamedTuple):
    """How the frequencies of a band are divided so that tracks of a block differ little in shape.

    The frequencies of a block are a bin apart, and so are their tracks, but for Doppler shifts: if these are at most a
    fraction v of the frequency, the tracks of n frequencies are n - 1 bins apart to within (n - 1) v. While this is at
    most 1, the values of an SFT for the whole block are neighbours in memory, with at most one step among them.

    Attributes
    ----------
    size, number : int
        Frequencies of a block, and blocks of the band; the last overlaps the one before.
    """

    size: int
    number: int

    @classmethod
    def of(cls, layout: BandLayout, speed: float, largest: int) -> Blocks:
        """Return the fewest blocks for templates whose Doppler shift is at most `speed`, none larger than `largest`.

        Their number is a power of two, so that banks share programs.
        """
        n = -(-layout.n_frequencies // layout.per_bin)
        most = min(1 + int(1 / speed), largest)
        number = 1 << max(0, math.ceil(math.log2(n / most)))
        return cls(-(-n // number), number)


def critical_ratios(data: NormalisedSFTs, point: Doppler, blocks: Blocks, steps: int) -> jax.Array:
    """Return the critical ratio of a template at all frequencies of the band, (n_frequencies,) float32.

    Parameters
    ----------
    data : NormalisedSFTs
    point : Doppler
        Its own frequency does not matter.
    blocks : Blocks
    steps : int
        See `kepler_in_steps`.
    """
    layout = data.layout
    fkdot = jnp.asarray(point.fkdot).at[0].set(data.fmin)
    point = with_fields(point, fkdot=fkdot)
    sky = sky_position(data, point)
    frequency, rate = (x.reshape(-1) for x in track(data, sky, point, steps))
    tsft = data.observation.tsft
    place = frequency * tsft - data.first_bin.astype(jnp.float64)
    step = rate * (data.dfreq * tsft)  # in bins, from one frequency to the next
    weight = sky.weight.reshape(-1)
    weight = (weight / jnp.sqrt(jnp.sum(weight * weight))).astype(jnp.float32)

    n = -(-layout.n_frequencies // layout.per_bin)  # a bin apart
    first = np.minimum(np.arange(blocks.number) * blocks.size, n - blocks.size)
    starts = np.arange(layout.per_bin)[:, None] + layout.per_bin * first

    def block(start: jax.Array) -> jax.Array:
        return _block(data, place + start * step, step * layout.per_bin - 1, weight, blocks.size)

    found = jax.lax.map(block, starts.reshape(-1).astype(np.float64)).reshape(*starts.shape, blocks.size)
    each = np.arange(n)
    own = np.minimum(each // blocks.size, blocks.number - 1)
    return found[:, own, each - first[own]].T.reshape(-1)[: layout.n_frequencies]


def _block(data: NormalisedSFTs, place: jax.Array, drift: jax.Array, weight: jax.Array, size: int) -> jax.Array:
    """Return the critical ratios of a block, (size,) float32.

    Parameters
    ----------
    data : NormalisedSFTs
    place : (N,) float64
        Frequency of the block's first track in each of the N SFTs of all detectors, in bins from the first one on.
    drift : (N,) float64
        By how much more than one bin the frequency grows from one track to the next.
    weight : (N,) float32
        Sum of squares 1.
    size : int
    """
    bins = data.layout.bins
    edge = 0.5 if bins == 1 else 1.0  # the place at which the bins that are needed change to the next ones
    base = jnp.floor(place + 0.5 * (size - 1) * drift - (edge - 0.5))
    number = np.arange(size, dtype=np.float32)[None]
    within = (place - base).astype(jnp.float32)[:, None] + number * drift.astype(jnp.float32)[:, None]
    first = base.astype(jnp.int32) - max(0, bins // 2 - 1)
    rows = data.values.reshape(-1, data.values.shape[-1])
    held = jnp.all((first >= 0) & (first + (size + bins) <= rows.shape[1]) | (weight == 0))
    near = jax.vmap(lambda row, k: jax.lax.dynamic_slice(row, (k,), (size + bins,)))(rows, first)
    later = within >= edge

    def bin_number(k: int) -> jax.Array:
        return jnp.where(later, near[:, k + 1 : k + 1 + size], near[:, k : k + size])

    if bins == 1:
        power = bin_number(0)
    else:
        from_first = within - later.astype(jnp.float32) + np.float32(bins // 2 - 1)
        power = joined_power([bin_number(k) for k in range(bins)], from_first)
    return jnp.where(held, jnp.sum(weight[:, None] * (power - 1), axis=0), np.float32(-np.inf))
