"""Tallies of a batch of 2F: a histogram of all values, and the largest value of each sub-band.

Sub-bands are what the last kernel of `statistic.backends.triton` gets for nothing: the outputs of the last radix are
that many stripes of the entries, and the digit of the radix before cuts each stripe into a few parts. The other methods
cut the band in the same places.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import Layout
from jfstat.maths.lengths import largest_divisor, radices_for
from jfstat.statistic.backends.triton.counters import BINS, WIDTH
from jfstat.statistic.backends.triton.stripes import MOST, parts_of_stripe

HISTOGRAM_EDGES = WIDTH * np.arange(BINS)
"""Lower edges of the histogram's bins of 2F; the last is open above, and rounding below 0 counts in the first."""
SLIVER = 0.5
"""Part of a sub-band below which what the band's edge leaves of it goes to the neighbour."""


def stripes(layout: Layout) -> tuple[int, int]:
    """Stripes of the transform's entries, and parts that each is cut into."""
    radices = radices_for(layout.n_fft)
    if radices is None:
        return largest_divisor(layout.n_fft, MOST), 1
    return radices[-1], parts_of_stripe(radices)


def part_numbers(layout: Layout) -> np.ndarray:
    """Number in the band of each part's first bin; negative or too large outside of it.

    Returns
    -------
    (P,) int64
        In the order of the transform's entries. A stripe that holds both ends of the spectrum, as the middle one of an
        odd number does, comes twice, as `tops_of_entries` gives it: once for the end of the positive frequencies, once
        for the start of the negative ones.
    """
    n, cuts = stripes(layout)
    half = (layout.n_fft + 1) // 2
    starts = np.arange(n * cuts, dtype=np.int64).reshape(n, cuts) * (layout.n_fft // (n * cuts))
    positive = np.minimum(starts[: (n + 1) // 2], half)
    negative = np.maximum(starts[n // 2 :], half) - layout.n_fft
    return 2 * np.concatenate([positive, negative]).ravel() + layout.n_frequencies // 2


def subband_edges(layout: Layout) -> np.ndarray:
    """Where the sub-bands lie whose maxima `loudest` gives: s holds the bins edges[s] to edges[s + 1] - 1.

    Returns
    -------
    (S + 1,) int64
        Rising, from 0 to ``layout.n_frequencies``.
    """
    end = layout.n_frequencies
    edges = np.unique(np.clip([0, *part_numbers(layout), end], 0, end))
    n, cuts = stripes(layout)
    least = SLIVER * 2 * layout.n_fft / (n * cuts)
    inner = edges[1:-1]
    return np.array([0, *inner[(inner >= least) & (end - inner >= least)], end], np.int64)


def tops_of_parts(layout: Layout, parts: jax.Array) -> jax.Array:
    """Largest 2F of each sub-band from those of the parts, (S,) and (P,) float32; -inf where no bin counts."""
    edges, numbers = subband_edges(layout), part_numbers(layout)
    # parts beyond the band hold no bin that counts, and may go anywhere
    own = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    return jnp.full(len(edges) - 1, -jnp.inf, parts.dtype).at[own].max(parts)


def tops_of_entries(layout: Layout, values: jax.Array) -> jax.Array:
    """Largest 2F of each sub-band.

    Parameters
    ----------
    layout : Layout
    values : (B, 2, n_fft) float32
        As of `loudest.two_f_of_entries`; -inf for those that do not count.

    Returns
    -------
    (S,) float32
    """
    n, cuts = stripes(layout)
    values = values.reshape(*values.shape[:2], n, cuts, -1)
    parts = jnp.max(values, axis=(0, 1, 4))
    if n % 2:
        middle = values[:, :, n // 2]
        entries = n // 2 * (layout.n_fft // n) + np.arange(layout.n_fft // n).reshape(cuts, -1)
        positive = entries < (layout.n_fft + 1) // 2
        ends = [jnp.max(jnp.where(own, middle, -jnp.inf), axis=(0, 1, 3))[None] for own in (positive, ~positive)]
        parts = jnp.concatenate([parts[: n // 2], *ends, parts[n // 2 + 1 :]])
    return tops_of_parts(layout, parts.reshape(-1))


def histogram_of(values: jax.Array) -> jax.Array:
    """How many values lie in each bin of `HISTOGRAM_EDGES`.

    Parameters
    ----------
    values : (n, k) float32
        -inf for those that do not count. Each of the k columns has counters of its own, so that of neighbouring values
        none waits for the other: some tens are best.

    Returns
    -------
    (BINS,) int32
    """
    k = values.shape[1]
    place = jnp.minimum(values * np.float32(1 / WIDTH), BINS - 1).astype(jnp.int32)
    place = jnp.maximum(place, 0) * k + jnp.arange(k, dtype=jnp.int32)
    counts = jnp.zeros(BINS * k, jnp.int32)
    counts = counts.at[place].add((values > -jnp.inf).astype(jnp.int32), mode="promise_in_bounds")
    return jnp.sum(counts.reshape(BINS, k), axis=1, dtype=jnp.int32)
