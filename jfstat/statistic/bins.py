"""Determine which bins of the band count for a template."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData
from jfstat.data.protocol import Searchable
from jfstat.geometry.doppler import doppler_speed
from jfstat.lines.doppler import LineBands, affected_range
from jfstat.maths.arrays import with_axes
from jfstat.maths.lengths import largest_divisor
from jfstat.signal.possible import physical
from jfstat.signal.templates import Doppler

AT_A_TIME = 8
"""Number of templates for which vetoed bins are computed together."""


def counts(number: jax.Array, first: jax.Array, last: jax.Array, *vetoed: jax.Array) -> jax.Array:
    """Return whether bins are among those that count: from the first to the last, except vetoed ones.

    Parameters
    ----------
    number : (...) int32
        Indices into ``data.frequencies``, possibly beyond its ends, as from `spectrum.bin_numbers`.
    first, last : int32
        Shapes that broadcast with `number`; none counts where `last` is less than `first`.
    *vetoed : int32
        First and last of each range of bins that do not count, one after the other.
    """
    number = with_axes(number, jnp.ndim(first))
    counted = (number >= first) & (number <= last)
    for begin, end in zip(vetoed[::2], vetoed[1::2], strict=True):
        counted &= (number < begin) | (number > end)
    return counted


def covered_bins(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """Return the first and last bin that stay in the pass band for a template, () int32; all bins without an orbit."""
    last_bin = data.layout.n_frequencies - 1
    if point.orbit is None:
        return jnp.asarray(0, jnp.int32), jnp.asarray(last_bin, jnp.int32)
    numbers, observation = data.band, data.observation
    speed = doppler_speed(point.orbit)
    drift_low, drift_high = observation.drift(point)
    low = (numbers.pass_low - numbers.slack) / (1 - speed) - drift_low
    high = (numbers.pass_high + numbers.slack) / (1 + speed) - drift_high
    first, last = jnp.ceil((low - numbers.fmin) / numbers.dfreq), jnp.floor((high - numbers.fmin) / numbers.dfreq)
    return jnp.clip(first, 0, last_bin + 1).astype(jnp.int32), jnp.clip(last, -1, last_bin).astype(jnp.int32)


def vetoed_bins(data: Searchable, point: Doppler, bands: LineBands) -> jax.Array:
    """Return the first and last bin of each range that known lines affect, one after the other: (2 L,) int32."""
    low, high = affected_range(data.observation, point, bands)
    end = data.layout.n_frequencies
    first, last = jnp.ceil((low - data.fmin) / data.dfreq), jnp.floor((high - data.fmin) / data.dfreq)
    return jnp.stack([jnp.clip(first, 0, end), jnp.clip(last, -1, end)], axis=-1).reshape(-1).astype(jnp.int32)


def counted_bins(
    data: FstatData,
    points: Doppler,
    n_valid: jax.Array | int,
    first_bin: jax.Array | int = 0,
    bands: LineBands | None = None,
) -> jax.Array:
    """Return the first and last bin that count, and of each vetoed range, for a stack of templates: (2 + 2 L, B) int32.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        A stack of B templates.
    n_valid : int
        Templates from this one on are padding: none of their bins counts. Nor do the bins of an impossible template,
        whose 2F is NaN and would spread to the maxima of others.
    first_bin : int
        Bins before this one do not count.
    bands : LineBands, optional
        L bands of known lines: bins that they affect do not count; see `counts`.
    """
    covered = jax.vmap(covered_bins, (None, 0))
    if data.n_segments is None:
        return counted_within(*covered(data, points), data, points, n_valid, first_bin, bands)
    each = jax.vmap(covered, (0, None))(data, points)  # those that count in all segments
    ends = jnp.max(each[0], axis=0), jnp.min(each[1], axis=0)
    return counted_within(*ends, data, points, n_valid, first_bin, bands)


def counted_within(
    first: jax.Array,
    last: jax.Array,
    data: Searchable,
    points: Doppler,
    n_valid: jax.Array | int,
    first_bin: jax.Array | int = 0,
    bands: LineBands | None = None,
) -> jax.Array:
    """Return the bins that count, as `counted_bins`, given the first and last that the data cover, (B,) int32."""
    real = (jnp.arange(points.alpha.shape[0]) < jnp.asarray(n_valid, jnp.int64)) & physical(points, ("freq",))
    last = jnp.where(real, last, -1)
    counted = jnp.stack([jnp.maximum(first, first_bin).astype(jnp.int32), last])
    if bands is None:
        return counted
    # few templates at a time: the frequencies at all times of many would take much memory
    few = largest_divisor(points.alpha.shape[0], AT_A_TIME)
    vetoed = jax.lax.map(
        lambda point: vetoed_bins(data, point, bands), jax.tree.map(jnp.asarray, points), batch_size=few
    )
    return jnp.concatenate([counted, vetoed.T])
