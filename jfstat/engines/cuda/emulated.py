"""Compute the kernels' results in plain JAX: slow, for tests on machines without a GPU and to read beside the sources.

Arguments and results are described in `kernels`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.blocks import SLOPES
from jfstat.engines.cuda import filters
from jfstat.engines.reduction import BINS, histogram_of
from jfstat.maths.turns import turn


def interpolate(words: jax.Array, timing: jax.Array, numbers: np.ndarray) -> jax.Array:
    """Return the weighted series of one template; see `kernels.interpolate`."""
    _, block, n_blocks, length = (int(x) for x in numbers)
    form = filters.form_of(length)
    a = b = jnp.zeros((n_blocks, block), jnp.complex64)
    u, j = _places(block)
    for own, line in zip(words, timing, strict=True):
        shift, phase, first, second = (_cubic(line[:, 4 * k : 4 * k + 4], u) for k in range(4))
        base, slope = (jax.lax.bitcast_convert_type(line[:, 16 + k], jnp.int32)[:, None] for k in range(2))
        number = jnp.floor((shift + 0.5) * form.planes).astype(jnp.int32)
        whole, plane = number // form.planes, number % form.planes
        x = (shift + 0.5 - (number.astype(jnp.float32) + 0.5) / form.planes) / form.reach
        index = jnp.clip(base + j + whole, 0, length - 1)
        value = _interpolated(own[:, plane, index], x) * _phasor(phase, slope, j)
        a, b = a + _times(value, first), b + _times(value, second)
    a, b = a.reshape(-1), b.reshape(-1)
    return jnp.stack([a.real, a.imag, b.real, b.imag], axis=-1)


def columns(given: jax.Array, timing: jax.Array, numbers: np.ndarray, n1: int, tile: int, shared: bool) -> jax.Array:
    """Return transforms over columns, (B, 4, tiles, N1, columns of a tile) complex64."""
    n_columns, block, _, _ = (int(x) for x in numbers)
    n_total = n1 * n_columns
    sign = np.where(np.arange(4) < 2, 1, -1).astype(np.float32)[:, None]
    n = np.arange(n_total)
    half = np.exp(-1j * np.pi * n / n_total).astype(np.complex64)
    inner = np.exp(-2j * np.pi * np.outer(np.arange(n1), np.arange(n_columns)) / n_total).astype(np.complex64)

    def one(line: jax.Array) -> jax.Array:
        series = _rotated(given, line, block) if shared else interpolate(given, line, numbers)
        z = jax.lax.complex(series[:, 0::2], series[:, 1::2]).T  # (2, n_samples)
        z = jnp.tile(z, (2, 1))  # even, then odd bins
        beyond = jnp.pad(z[:, n_total:], ((0, 0), (0, 2 * n_total - z.shape[1])))
        folded = z[:, :n_total] + _times(beyond, jnp.asarray(sign))
        folded = jnp.where(sign > 0, folded, folded * half)
        y = jnp.fft.fft(folded.reshape(4, n1, n_columns), axis=1) * inner
        return y.reshape(4, n1, -1, tile).transpose(0, 2, 1, 3).astype(jnp.complex64)

    return jax.lax.map(one, timing)


def middle(series: jax.Array, length: int) -> jax.Array:
    """Return transforms over the first digit of the columns' numbers."""
    n_batch, n_series, n_tiles, n1, width = series.shape
    n2 = n_tiles * width
    last = n2 // length
    x = series.reshape(n_batch, n_series, length, n_tiles // length, n1, width)
    y = jnp.fft.fft(x, axis=2)
    k, n = np.arange(length), np.arange(last).reshape(-1, width)
    inner = np.exp(-2j * np.pi * k[:, None, None] * n / n2).astype(np.complex64)
    return (y * inner[:, :, None, :]).astype(jnp.complex64).reshape(series.shape)


def reduced(
    series: jax.Array, bins: jax.Array, offsets: jax.Array, n_rows: int, length: int, n_sections: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the largest 2F of rows and of sections, and the histogram."""
    value = _two_f(series, bins, offsets, n_rows, length)  # (B, 2, n_rows, length)
    # by entry: sections are equal parts of the transform
    by_entry = jnp.moveaxis(value, 2, 3).reshape(*value.shape[:2], n_sections, -1)
    histogram = histogram_of(jnp.where(value < 0, -jnp.inf, value).reshape(-1, length))
    return jnp.max(value, axis=-1), histogram.reshape(1, BINS), jnp.max(by_entry, axis=(0, 1, 3))[None]


def values(
    series: jax.Array, bins: jax.Array, offsets: jax.Array, n_rows: int, length: int, chosen: jax.Array
) -> jax.Array:
    """Return 2F of all bins of some rows."""
    return _two_f(series, bins, offsets, n_rows, length).reshape(-1, length)[chosen]


def _two_f(series: jax.Array, bins: jax.Array, offsets: jax.Array, n_rows: int, length: int) -> jax.Array:
    n_batch, _, n_tiles, n1, width = series.shape
    between = n_rows // n1
    x = series.reshape(n_batch, 2, 2, between, n_tiles // between, n1, width)
    x = x.transpose(0, 1, 2, 3, 5, 4, 6).reshape(n_batch, 2, 2, n_rows, length)  # row k1 + N1 k
    y = jnp.fft.fft(x)
    value = jnp.sum(y.real**2 + y.imag**2, axis=2) + offsets[:, None, None, None]
    n_total = n_rows * length
    entry = np.arange(n_rows)[:, None] + n_rows * np.arange(length)
    number = np.where(entry < (n_total + 1) // 2, entry, entry - n_total)
    place = number.astype(np.int32) - bins[:, :, :1, None]
    counted = (place >= 0) & (place < bins[:, :, 1:, None]) & ~jnp.isnan(value)
    return jnp.where(counted, value, -1.0).astype(jnp.float32)


def _rotated(series: jax.Array, line: jax.Array, block: int) -> jax.Array:
    u, j = _places(block)
    slope = jax.lax.bitcast_convert_type(line[:, 4], jnp.int32)[:, None]
    phasor = _phasor(_cubic(line[:, :4], u), slope, j).reshape(-1, 1)
    z = jax.lax.complex(series[:, 0::2], series[:, 1::2]) * phasor
    return jnp.stack([z.real, z.imag], axis=-1).reshape(-1, 4)


def _places(block: int) -> tuple[jax.Array, jax.Array]:
    j = jnp.arange(block, dtype=jnp.int32)
    return (2 * j + 1).astype(jnp.float32) / block - 1, j


def _cubic(c: jax.Array, u: jax.Array) -> jax.Array:
    return c[:, :1] + u * (c[:, 1:2] + u * (c[:, 2:3] + u * c[:, 3:4]))


def _phasor(phase: jax.Array, slope: jax.Array, j: jax.Array) -> jax.Array:
    cycles = ((slope * j) % SLOPES).astype(jnp.float32) / SLOPES + phase
    return jax.lax.complex(*turn(jnp.round(cycles) - cycles))


def _times(z: jax.Array, weight: jax.Array) -> jax.Array:
    return jax.lax.complex(z.real * weight, z.imag * weight)


def _interpolated(words: jax.Array, x: jax.Array) -> jax.Array:
    """Return the value from the words of each sample, (terms / 2, ..., 4)."""
    words = jnp.moveaxis(words, 0, -2)
    terms = words.reshape(*words.shape[:-2], -1, 2)
    total = jnp.zeros_like(terms[..., 0, :])
    for p in reversed(range(terms.shape[-2])):
        total = total * x[..., None] + terms[..., p, :]
    return jax.lax.complex(total[..., 0], total[..., 1])
