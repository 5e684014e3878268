"""From a batch of templates to maxima of 2F, by fused kernels: which radices, in which order, with what memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jfstat.data.fstatdata import FstatData, Layout
from jfstat.maths.lengths import radices_for
from jfstat.statistic.backends.triton import passes
from jfstat.statistic.backends.triton.butterflies import unit_root
from jfstat.statistic.backends.triton.counters import unpacked
from jfstat.statistic.backends.triton.stripes import parts_of_stripe
from jfstat.statistic.combine import antenna_matrix, total_matrix, whitening
from jfstat.statistic.resample import block_and_run, spin_down_cubic, timing
from jfstat.statistic.spectrum import bin_numbers
from jfstat.templates import Doppler

INDICES, LONGEST = 2**31, 200_000_000
"""Numbers of int32, and the longest transform whose twiddles `butterflies.unit_root` can take."""
LANES = 8
"""Templates of a group: eight neighbouring floats fill a sector of memory."""


def usable(layout: Layout) -> bool:
    """Whether the fused kernels can compute this layout: as radices, unfolded once, and indexed by 32 bits."""
    n_samples = layout.n_blocks * layout.block
    return (
        radices_for(layout.n_fft) is not None
        and n_samples <= 2 * layout.n_fft
        and 2 * layout.terms * (layout.n_band + 2 * layout.padding) < INDICES
        and layout.n_fft < LONGEST
        and largest_batch(layout) > 0
    )


def largest_batch(layout: Layout) -> int:
    """Templates whose series 32 bits can index."""
    return (INDICES - 1) // (4 * max(layout.n_fft, layout.n_blocks * layout.block))


class Maxima(NamedTuple):
    """What is left of a batch after the last kernel.

    Attributes
    ----------
    value : (groups, rows, lanes, 2) float32
        Maximum of 2F over the `radix` bins that a row holds for a template and parity; negative where none counts.
    series : two of (groups, rows, radix, 2, lanes, 2) float32
        What the last kernel transformed, from which `values_of` finds all bins of a row.
    histogram : (BINS,) int32
        Values that count in each bin of `counters`.
    parts : (P,) float32
        Largest 2F in each part of the spectrum, as of `searching.tally.part_numbers`; -inf where none counts.
    bins : (2, B) int32
        First and last bin that count.
    degenerate : (B,) bool
        Whether A, B and C allow no 2F, which is then 4, as in `combine.two_f`.
    """

    value: jax.Array
    series: passes.Planes
    histogram: jax.Array
    parts: jax.Array
    bins: jax.Array
    degenerate: jax.Array


def weights(data: FstatData, point: Doppler, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Antenna patterns' cubics, combined such that 2F is the sum of two squares; see `combine.whitening`."""
    aa, ab, bb = (x.astype(a.dtype) for x in whitening(total_matrix(antenna_matrix(data, point))))
    return aa * a + ab * b, bb * b


def packed_timing(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """One template's timing as `passes.interpolate` wants it: (D, n_blocks, 16) float32 and (D, n_blocks, 2) int32."""
    cubics = timing(data, point)
    first, second = weights(data, point, cubics.a, cubics.b)
    floats = jnp.concatenate([cubics.shift, cubics.phase.rest, first, second], axis=-1)
    return floats, jnp.stack([cubics.base, cubics.phase.slope], axis=-1)


def interpolated(data: FstatData, points: Doppler, lanes: int, interpret: bool = False) -> passes.Planes:
    """Weighted resampled series of a batch, (B / lanes, n_samples, 2, lanes) each."""
    with jax.named_scope("geometry"):
        packed = jax.vmap(packed_timing, (None, 0))(data, points)
    return interpolated_from(data, points, packed, lanes, interpret)


def interpolated_from(
    data: FstatData, points: Doppler, packed: tuple[jax.Array, jax.Array], lanes: int, interpret: bool = False
) -> passes.Planes:
    """The same from the templates' `packed_timing`."""
    block, n_blocks = blocks_of(data.layout, points)
    reach = (1 / data.band.reach).astype(jnp.float32)[None]
    with jax.named_scope("interpolation"):
        return passes.interpolate(data.bank, *packed, reach, lanes, block, n_blocks, interpret)


def spun_down(
    data: FstatData, points: Doppler, series: passes.Planes, lanes: int, interpret: bool = False
) -> passes.Planes:
    """The same for templates that differ in spin-down only, from one resampled without: (1, n_samples, 2, 1)."""
    block, n_blocks = blocks_of(data.layout, points)
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
    degenerate = jax.vmap(lambda point: whitening(total_matrix(antenna_matrix(data, point)))[0] == 0)(points)
    with jax.named_scope("2F"):
        # a degenerate template's series are zero
        found = passes.last(y, bins, jnp.where(degenerate, 4, 0).astype(jnp.float32), lanes, layout, radices, interpret)
    value = found.rows.reshape(bins.shape[1] // lanes, -1, lanes, 2)
    parts = largest_of_parts(found.stripes, radices, value.shape[0] * value.shape[1])
    return Maxima(value, y, unpacked(found.counts), parts, bins, degenerate)


def largest_of_parts(tops: jax.Array, radices: Sequence[int], n_rows: int) -> jax.Array:
    """Largest values of a batch in each part of each stripe, (P,) float32, from `passes.Reduced.stripes`.

    Of the `n_rows` rows that the programs went through, those of a part follow one another for a share of each turn of
    the last digit but one.
    """
    n_stripes = tops.shape[1]
    n_parts = parts_of_stripe(radices)
    turns = n_rows // radices[-2] if n_parts > 1 else 1
    tops = jnp.max(tops.reshape(turns, n_parts, -1, n_stripes), axis=(0, 2)).T.reshape(-1)
    return jnp.where(tops < 0, -jnp.inf, tops)


def radices_of(layout: Layout) -> tuple[int, ...]:
    """Radices of a layout that is `usable`."""
    radices = radices_for(layout.n_fft)
    if radices is None:
        raise ValueError(f"the transform's length {layout.n_fft} has no fused kernels: use the library's transform.")
    return radices


def values_of(data: FstatData, found: Maxima, rows: jax.Array, lanes: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """2F at all bins of some rows.

    Parameters
    ----------
    data : FstatData
    found : Maxima
    rows : (k,) int32
        Flat places in ``found.value``.
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
    counts = (number >= found.bins[0][template]) & (number <= found.bins[1][template])
    value = jnp.where(found.degenerate[template], 4.0, value)
    return jnp.where(counts, value, -1.0), template, number


def blocks_of(layout: Layout, points: Doppler) -> tuple[int, int]:
    """Samples of a block and number of blocks for this kind of template."""
    block, _ = block_and_run(layout, points)
    return block, layout.n_blocks * layout.block // block


def lanes_for(n_templates: int) -> int:
    """Templates of a group for a batch of this size."""
    return math.gcd(n_templates, LANES)
