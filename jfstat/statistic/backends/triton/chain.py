"""The sequence of kernels for a batch of templates, and what they return of 2F."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.statistic.backends.triton import passes
from jfstat.statistic.backends.triton.butterflies import unit_root
from jfstat.statistic.backends.triton.counters import unpacked
from jfstat.statistic.bins import counts
from jfstat.statistic.combine import antenna_matrix, total_matrix, whitening
from jfstat.statistic.resample import block_and_run, spin_down_cubic, timing
from jfstat.statistic.spectrum import bin_numbers
from jfstat.templates import Doppler
from jfstat.transforms import sections_per_digit, triton_radices

INDICES, LONGEST = 2**31, 200_000_000
"""Number of values of an int32 index, and the longest transform whose twiddles `butterflies.unit_root` computes."""
LANES = 8
"""Templates of a group: eight neighbouring floats fill a sector of memory."""
PackedTiming: TypeAlias = tuple[jax.Array, jax.Array]
"""Timing as `passes.interpolate` needs it: (D, n_blocks, 16) float32 and (D, n_blocks, 2) int32."""


def usable(layout: Layout) -> bool:
    """Whether the kernels can compute this layout: its length has radices, is folded once at most, and fits 32 bits."""
    n_samples = layout.n_blocks * layout.block
    return (
        triton_radices(layout.n_fft) is not None
        and n_samples <= 2 * layout.n_fft
        and 2 * layout.terms * (layout.n_band + 2 * layout.padding) < INDICES
        and layout.n_fft < LONGEST
        and largest_batch(layout) > 0
    )


def largest_batch(layout: Layout) -> int:
    """Number of templates whose series can be indexed with 32 bits."""
    return (INDICES - 1) // (4 * max(layout.n_fft, layout.n_blocks * layout.block))


class Maxima(NamedTuple):
    """What the last kernel returns of a batch.

    Attributes
    ----------
    value : (groups, rows, lanes, 2) float32
        Maximum of 2F over the `radix` bins of a row, template and parity; negative if none of them counts.
    series : two of (groups, rows, radix, 2, lanes, 2) float32
        Input of the last kernel, from which `values_of` computes all bins of a row.
    histogram : (BINS,) int32
        Values that count in each bin of `counters`.
    sections : (P,) float32
        See `backend.Loudest`.
    bins : (2, B) int32
        First and last bin that count.
    degenerate : (B,) bool
        Whether A, B and C do not define 2F, which is then 4, as in `combine.two_f`.
    """

    value: jax.Array
    series: passes.Planes
    histogram: jax.Array
    sections: jax.Array
    bins: jax.Array
    degenerate: jax.Array


def _weights(data: FstatData, point: Doppler, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Antenna patterns' cubics, combined such that 2F is the sum of two squares; see `combine.whitening`."""
    aa, ab, bb = (x.astype(a.dtype) for x in whitening(total_matrix(antenna_matrix(data.observation, point))))
    return aa * a + ab * b, bb * b


def packed_timing(data: FstatData, point: Doppler) -> PackedTiming:
    """One template's timing."""
    cubics = timing(data, point)
    first, second = _weights(data, point, cubics.a, cubics.b)
    floats = jnp.concatenate([cubics.shift, cubics.phase.rest, first, second], axis=-1)
    return floats, jnp.stack([cubics.base, cubics.phase.slope], axis=-1)


def interpolated(data: FstatData, points: Doppler, lanes: int, interpret: bool = False) -> passes.Planes:
    """Weighted resampled series of a batch, (B / lanes, n_samples, 2, lanes) each."""
    with jax.named_scope("geometry"):
        packed = jax.vmap(packed_timing, (None, 0))(data, points)
    return interpolated_from(data, points, packed, lanes, interpret)


def interpolated_from(
    data: FstatData, points: Doppler, packed: PackedTiming, lanes: int, interpret: bool = False
) -> passes.Planes:
    """The same from the templates' `packed_timing`."""
    block, n_blocks = _blocks_of(data.layout, points)
    reach = (1 / data.band.reach).astype(jnp.float32)[None]
    with jax.named_scope("interpolation"):
        return passes.interpolate(data.filters, *packed, reach, lanes, block, n_blocks, interpret)


def spun_down(
    data: FstatData, points: Doppler, series: passes.Planes, lanes: int, interpret: bool = False
) -> passes.Planes:
    """The same for templates that differ only in spin-down, from one series without it, (1, n_samples, 2, 1)."""
    block, n_blocks = _blocks_of(data.layout, points)
    phase = jax.vmap(spin_down_cubic, (None, 0))(data, points)
    # templates last, as in the series' lanes
    cubics, slopes = jnp.moveaxis(phase.rest, 0, -1), jnp.moveaxis(phase.slope, 0, -1)
    return passes.rotate(series, cubics, slopes, lanes, block, n_blocks, interpret)


def transformed(
    layout: Layout, series: passes.Planes, n_templates: int, lanes: int, interpret: bool = False
) -> passes.Planes:
    """All radices but the last of the transforms of weighted series."""
    *radices, _ = radices_of(layout)
    n_samples = series[0].size // (2 * n_templates)
    with jax.named_scope("fft"):
        y = passes.first(series, lanes, layout.n_fft, n_samples, radices[0], interpret)
        length = layout.n_fft // radices[0]
        for radix in radices[1:]:
            y = passes.middle(y, lanes, length, radix, interpret)
            length //= radix
    return y


def maxima_of(
    data: FstatData, points: Doppler, y: passes.Planes, bins: jax.Array, lanes: int, interpret: bool = False
) -> Maxima:
    """The last radix, 2F, its maxima over rows of bins and over parts of the spectrum, and its histogram."""
    layout = data.layout
    radices = radices_of(layout)
    degenerate = jax.vmap(lambda point: whitening(total_matrix(antenna_matrix(data.observation, point)))[0] == 0)(
        points
    )
    with jax.named_scope("2F"):
        # a degenerate template's series are zero
        found = passes.last(y, bins, jnp.where(degenerate, 4, 0).astype(jnp.float32), lanes, layout, radices, interpret)
    value = found.rows.reshape(bins.shape[1] // lanes, -1, lanes, 2)
    sections = largest_of_sections(found.stripes, radices, value.shape[0] * value.shape[1])
    return Maxima(value, y, unpacked(found.counts), sections, bins, degenerate)


def largest_of_sections(tops: jax.Array, radices: Sequence[int], n_rows: int) -> jax.Array:
    """Largest values of a batch in each section of the spectrum, from `passes.Reduced.stripes`.

    The programs went through `n_rows` rows. In each cycle of the last digit but one, the rows of a section follow one
    another.
    """
    n_stripes, radix = tops.shape[1], radices[-1]
    each = sections_per_digit(radices)
    turns = n_rows // radices[-2] if each > 1 else 1
    tops = jnp.max(tops.reshape(turns, each, -1, n_stripes), axis=(0, 2)).T
    if radix % 2:
        # the middle stripe comes twice: positive frequencies are in the first half of its entries, negative ones in the
        # second
        middle, half = radix // 2, (each + 1) // 2
        ends = [tops[middle, :half], tops[middle + 1, each - half :]]
        flat = jnp.concatenate([tops[:middle].reshape(-1), *ends, tops[middle + 2 :].reshape(-1)])
    else:
        flat = tops.reshape(-1)
    return jnp.where(flat < 0, -jnp.inf, flat)


def radices_of(layout: Layout) -> tuple[int, ...]:
    """Radices of a layout that is `usable`."""
    radices = triton_radices(layout.n_fft)
    if radices is None:
        raise ValueError(f"the backend 'triton' has no transforms of length {layout.n_fft}: use the backend 'library'.")
    return radices


def values_of(data: FstatData, found: Maxima, rows: jax.Array, lanes: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """2F in all bins of some rows.

    Parameters
    ----------
    data : FstatData
    found : Maxima
    rows : (k,) int32
        Flat indices into ``found.value``.
    lanes : int

    Returns
    -------
    value : (k, radix) float32
        -1 for bins that do not count.
    template, bin : (k, radix) int32
    """
    layout = data.layout
    radices = radices_of(layout)
    radix, n_rows = radices[-1], layout.n_fft // radices[-1]
    odd, lane, place = rows % 2, rows // 2 % lanes, rows // (2 * lanes)
    group, row = place // n_rows, place % n_rows
    step = jnp.arange(radix, dtype=jnp.int32)
    series = jnp.arange(2, dtype=jnp.int32)[:, None]
    index = ((place[:, None, None] * radix + step) * 2 + series) * (2 * lanes) + (2 * lane + odd)[:, None, None]
    x = jax.lax.complex(found.series[0][index], found.series[1][index])  # (k, 2, radix)
    matrix = jax.lax.complex(*unit_root(step[:, None] * step % radix, radix))
    spectrum = jnp.einsum("ksp,pq->ksq", x, matrix, precision="highest")
    value = jnp.sum(spectrum.real**2 + spectrum.imag**2, axis=1)
    entry = passes.entry_of(row, radices)[:, None] + step * n_rows
    number = bin_numbers(layout, odd[:, None], entry)
    template = jnp.broadcast_to((group * lanes + lane)[:, None], number.shape)
    value = jnp.where(found.degenerate[template], 4.0, value)
    return jnp.where(counts(number, *found.bins[:, template]), value, -1.0), template, number


def _blocks_of(layout: Layout, points: Doppler) -> tuple[int, int]:
    """Samples of a block and number of blocks, for templates with or without orbit."""
    block, _ = block_and_run(layout, points)
    return block, layout.n_blocks * layout.block // block


def lanes_for(n_templates: int) -> int:
    """Number of templates of a group for a batch of this size."""
    return math.gcd(n_templates, LANES)
