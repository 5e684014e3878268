"""Reduce 2F on the device for all engines: the largest values, a histogram, the maxima of sections."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.protocol import Sizes
from jfstat.engines.engine import Loudest
from jfstat.maths.arrays import divided
from jfstat.transforms import section_count

ROW = 64
"""Number of values whose maximum is taken first."""
BINS, WIDTH = 30, 2.0
"""Number of bins of the histogram of 2F, which begins at 0, and their width. The last bin has no upper end."""
COLUMNS = 32
"""Number of counters of each bin of the histogram, see `histogram_of`."""
SORTED = 1 << 16
"""Least number of values of which XLA finds the largest on GPUs by a sort that is already compiled; compiling one for
fewer takes 1.3 s and more.
"""


def top(values: jax.Array, keep: int) -> tuple[jax.Array, jax.Array]:
    """Return the result of ``jax.lax.top_k`` of (n,) float32, filled up to `SORTED` on accelerators."""
    n = values.shape[0]

    def plain(values: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, place = jax.lax.top_k(values, keep)
        return value, place

    def filled(values: jax.Array) -> tuple[jax.Array, jax.Array]:
        # of equal values, which may be -inf, the first come first, so the padding is never chosen
        return plain(jnp.pad(values, (0, max(0, SORTED - n)), constant_values=-jnp.inf))

    return jax.lax.platform_dependent(values, cpu=plain, default=filled)


@partial(jax.jit, static_argnames=("keep",))
def largest(values: jax.Array, keep: int) -> tuple[jax.Array, jax.Array]:
    """Return the `keep` largest values, in falling order, and their places; of equal values the first.

    The result equals ``jax.lax.top_k``, but only the values of the `keep` rows with the largest maxima are sorted.

    Parameters
    ----------
    values : (n,) float32
    keep : int
        At most n.

    Returns
    -------
    values : (keep,) float32
    places : (keep,) int
    """
    n = values.shape[0]
    n_rows = -(-n // ROW)
    rows = jnp.pad(values, (0, n_rows * ROW - n), constant_values=-jnp.inf).reshape(n_rows, ROW)
    if keep >= n_rows:
        return top(values, keep)
    _, chosen = top(jnp.max(rows, axis=1), keep)
    chosen = jnp.sort(chosen)  # so that the first of equal values still comes first
    found, within = top(rows[chosen].reshape(-1), keep)
    row, column = divided(within, ROW)
    return found, chosen[row] * ROW + column


def largest_of_rows(
    value: jax.Array, template: jax.Array, number: jax.Array, keep: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the `keep` largest values of some rows, in falling order, with their templates and bins.

    Parameters
    ----------
    value, number : (k, n) float32, int32
    template : (k, n) or (k, 1) int32
    keep : int

    Returns
    -------
    value, template, number : (min(keep, k n),)
    """
    found, place = top(value.reshape(-1), min(keep, value.size))
    return found, jnp.broadcast_to(template, value.shape).reshape(-1)[place], number.reshape(-1)[place]


def histogram_of(values: jax.Array) -> jax.Array:
    """Return the number of values in each bin of the histogram; values rounded below 0 are in the first.

    Parameters
    ----------
    values : (n, k) float32
        -inf for values that do not count. Each of the k columns has its own counters, so that neighbouring values do
        not wait for each other; a few tens of columns are best.

    Returns
    -------
    (BINS,) int32
    """
    k = values.shape[1]
    place = jnp.minimum(values * np.float32(1 / WIDTH), BINS - 1).astype(jnp.int32)
    place = jnp.maximum(place, 0) * k + jnp.arange(k, dtype=jnp.int32)[None]
    counts = jnp.zeros(BINS * k, jnp.int32)
    counts = counts.at[place].add((values > -jnp.inf).astype(jnp.int32), mode="promise_in_bounds")
    return jnp.sum(counts.reshape(BINS, k), axis=1, dtype=jnp.int32)


def largest_of_sections(layout: Sizes, values: jax.Array) -> jax.Array:
    """Return the largest 2F of `transforms.section_count` equal sections of the spectrum, in the order of entries.

    If their number is odd, the middle one contains the end of the positive frequencies and the start of the negative
    ones, and is listed twice, once for each.

    Parameters
    ----------
    layout : Sizes
    values : (B, 2, n_fft) float32
        2F at the entries of `spectrum.spectra`; -inf for entries that do not count.

    Returns
    -------
    (P,) float32
    """
    n = section_count(layout.n_fft)
    values = values.reshape(*values.shape[:2], n, -1)
    tops = jnp.max(values, axis=(0, 1, 3))
    if n % 2:
        middle = values[:, :, n // 2]
        entries = n // 2 * (layout.n_fft // n) + np.arange(layout.n_fft // n)
        positive = entries < (layout.n_fft + 1) // 2
        ends = [jnp.max(jnp.where(own, middle, -jnp.inf))[None] for own in (positive, ~positive)]
        tops = jnp.concatenate([tops[: n // 2], *ends, tops[n // 2 + 1 :]])
    return tops


def section_starts(layout: Sizes) -> np.ndarray:
    """Return the bin of the band at which each section starts; negative or too large outside the band.

    Returns
    -------
    (P,) int64
        In the order of `largest_of_sections`.
    """
    n = section_count(layout.n_fft)
    half = (layout.n_fft + 1) // 2
    starts = np.arange(n, dtype=np.int64) * (layout.n_fft // n)
    positive = np.minimum(starts[: (n + 1) // 2], half)
    negative = np.maximum(starts[n // 2 :], half) - layout.n_fft
    return 2 * np.concatenate([positive, negative]) + layout.n_frequencies // 2


def largest_of_sections_in_order(layout: Sizes, values: jax.Array) -> jax.Array:
    """Return the largest 2F of sections from values in the order of the band's frequencies, (B, n_frequencies)."""
    starts = section_starts(layout)
    order = np.argsort(starts, kind="stable")
    ends = np.empty_like(starts)
    ends[order] = np.append(starts[order][1:], layout.n_frequencies)
    first, last = (np.clip(x, 0, layout.n_frequencies) for x in (starts, ends))
    empty = jnp.full((), -jnp.inf, values.dtype)
    tops = jnp.max(values, axis=0)
    return jnp.stack([jnp.max(tops[a:b]) if a < b else empty for a, b in zip(first, last, strict=True)])


def loudest_means(layout: Sizes, means: jax.Array, n_segments: int, keep: int) -> Loudest:
    """Return the largest of some means over segments, and tallies of all.

    Parameters
    ----------
    layout : Sizes
    means : (B, n_frequencies) float32
        -inf for values that do not count.
    n_segments : int
    keep : int

    Returns
    -------
    Loudest
        The histogram is of ``4 + (mean - 4) sqrt(n_segments)``, which in noise has the mean and the variance of 2F.
    """
    n = layout.n_frequencies
    twoF, place = largest(means.reshape(-1), min(keep, means.size))
    template, frequency = (x.astype(jnp.int32) for x in (place // n, place % n))
    histogram = histogram_of_means(means, n_segments)
    return Loudest(twoF, template, frequency, histogram, largest_of_sections_in_order(layout, means))


def histogram_of_means(means: jax.Array, n_segments: int) -> jax.Array:
    """Return the histogram, (BINS,) int32, of means in the scale of `spread_means`; -inf does not count."""
    spread = spread_means(means, n_segments)
    spread = jnp.pad(spread.reshape(-1), (0, -spread.size % COLUMNS), constant_values=-jnp.inf)
    return histogram_of(spread.reshape(-1, COLUMNS))


def spread_means(means: jax.Array, n_segments: int) -> jax.Array:
    """Return means of 2F over segments, stretched about 4 to have the mean and the variance of 2F in noise."""
    return 4 + (means - 4) * np.float32(np.sqrt(n_segments))
