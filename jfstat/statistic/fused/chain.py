"""From a batch of templates to maxima of 2F, by fused kernels: which radices, in which order, with what memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData, Layout
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, whitening
from jfstat.statistic.fused import passes
from jfstat.statistic.fused.butterflies import unit_root
from jfstat.statistic.resample import Resampled, block_and_run, spin_down_cubic, timing
from jfstat.templates import Doppler

RADICES = (4, 6, 8, 9, 12, 16, 18, 24, 27, 32, 36, 48, 54, 64, 72, 96)
"""Lengths of a kernel's butterflies, at most; twice that many registers hold one."""
LARGEST_LAST = 64
"""Largest of the last kernel, which holds powers as well."""
LANES = 8
"""Templates of a group: eight neighbouring floats fill a sector of memory."""


@lru_cache
def radices_for(n_fft: int) -> tuple[int, ...] | None:
    """Radices whose product is n_fft: as few as possible and then of similar size; None if there are none.

    The last is the smallest, since its kernel needs the most registers.
    """

    def factorisations(n: int, count: int, largest: int) -> list[tuple[int, ...]]:
        if count == 1:
            return [(n,)] if n in RADICES and n <= largest else []
        return [(r, *rest) for r in RADICES if r <= largest and n % r == 0 for rest in factorisations(n // r, count - 1, r)]

    for count in range(3, 7):
        found = [f for f in factorisations(n_fft, count, RADICES[-1]) if f[-1] <= LARGEST_LAST]
        if found:
            return min(found, key=lambda f: (sum(f), f))
    return None


def usable(layout: Layout, n_blocks: int, block: int) -> bool:
    """Whether the fused kernels can compute this layout."""
    radices = radices_for(layout.n_fft)
    return radices is not None and layout.n_fft // radices[0] % 4 == 0 and n_blocks * block <= 2 * layout.n_fft


class Maxima(NamedTuple):
    """What is left of a batch after the last kernel.

    Attributes
    ----------
    value : (groups, rows, lanes, 2) float32
        Maximum of 2F over the `radix` bins that a row holds for a template and parity; negative where none counts.
    series : two of (groups, rows, radix, 2, lanes, 2) float32
        What the last kernel transformed, from which `values_of` finds all bins of a row.
    bins : (2, B) int32
        First and last bin that count.
    """

    value: jax.Array
    series: passes.Planes
    bins: jax.Array


def weights(data: FstatData, point: Doppler, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Antenna patterns' cubics combined such that 2F is the sum of the two filters' squares; see `combine.whitening`."""
    total = AntennaMatrix(*(jnp.sum(x, axis=0) for x in antenna_matrix(data, point)))
    aa, ab, bb = (x.astype(a.dtype) for x in whitening(total))
    return aa * a + ab * b, bb * b


def packed_timing(data: FstatData, point: Doppler) -> tuple[jax.Array, jax.Array]:
    """One template's timing as `passes.interpolate` wants it: (D, n_blocks, 16) float32 and (D, n_blocks, 2) int32."""
    cubics = timing(data, point)
    first, second = weights(data, point, cubics.a, cubics.b)
    floats = jnp.concatenate([cubics.shift, cubics.phase.rest, first, second], axis=-1)
    return floats, jnp.stack([cubics.base, cubics.phase.slope], axis=-1)


def interpolated(data: FstatData, points: Doppler, lanes: int, interpret: bool = False) -> passes.Planes:
    """Weighted resampled series of a batch, (B / lanes, n_samples, 2, lanes) each."""
    block, n_blocks = blocks_of(data.layout, points)
    with jax.named_scope("geometry"):
        floats, integers = jax.vmap(packed_timing, (None, 0))(data, points)
    with jax.named_scope("interpolation"):
        reach = (1 / data.band.reach).astype(jnp.float32)[None]
        return passes.interpolate(data.bank, floats, integers, reach, lanes, block, n_blocks, interpret)


def spun_down(data: FstatData, points: Doppler, series: passes.Planes, lanes: int, interpret: bool = False) -> passes.Planes:
    """The same for templates that differ in spin-down only, from one resampled without: (1, n_samples, 2, 1)."""
    block, n_blocks = blocks_of(data.layout, points)
    phase = jax.vmap(spin_down_cubic, (None, 0))(data, points)
    return passes.rotate(series, phase.rest, phase.slope, lanes, block, n_blocks, interpret)


def maxima(data: FstatData, series: passes.Planes, bins: jax.Array, lanes: int, interpret: bool = False) -> Maxima:
    """Transforms of weighted series, 2F, and its maxima over rows of bins."""
    layout = data.layout
    radices = radices_for(layout.n_fft)
    assert radices is not None  # callers ask `usable`
    n_groups = bins.shape[1] // lanes
    n_samples = series[0].size // (2 * bins.shape[1])
    with jax.named_scope("fft"):
        y = passes.first(series, lanes, layout.n_fft, n_samples, radices[0], interpret)
        length = layout.n_fft // radices[0]
        for radix in radices[1:-1]:
            y = passes.middle(y, lanes, length, radix, interpret)
            length //= radix
    with jax.named_scope("2F"):
        value = passes.last(y, bins, lanes, layout.n_fft, radices, layout.n_frequencies, interpret)
    return Maxima(value.reshape(n_groups, -1, lanes, 2), y, bins)


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
    radices = radices_for(layout.n_fft)
    assert radices is not None
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
    number = passes.bin_of(entry, odd[:, None], layout.n_fft, layout.n_frequencies)
    template = jnp.broadcast_to((group * lanes + lane)[:, None], number.shape)
    counts = (number >= found.bins[0][template]) & (number <= found.bins[1][template])
    return jnp.where(counts, value, -1.0), template, number


def blocks_of(layout: Layout, points: Doppler) -> tuple[int, int]:
    """Samples of a block and number of blocks for this kind of template."""
    block, _ = block_and_run(layout, points)
    return block, layout.n_blocks * layout.block // block


def bytes_per_template(layout: Layout, n_samples: int) -> int:
    """Device memory that the kernels' arrays take for each template of a batch."""
    return 16 * n_samples + 32 * layout.n_fft


def lanes_for(n_templates: int) -> int:
    """Templates of a group for a batch of this size."""
    return min(LANES, 1 << (int(np.gcd(n_templates, LANES)).bit_length() - 1)) if n_templates else 1


__all__ = ["Maxima", "Resampled", "interpolated", "maxima", "radices_for", "spun_down", "usable", "values_of"]
