"""The mean over segments of 2F, every segment at every template: what `Xla` is for data without segments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.engines.engine import Loudest, Stage
from jfstat.engines.reduction import histogram_of, largest, largest_of_sections_in_order
from jfstat.engines.xla import Anywhere, Xla, two_f_in_order
from jfstat.signal.templates import Doppler
from jfstat.statistic.bins import counts

COLUMNS = 32
"""Counters of each bin of the histogram, see `reduction.histogram_of`."""


class InBandOrder(Anywhere, ABC):
    """What engines have in common whose values are in the order of the band's frequencies; see `engine.Engine`."""

    def largest_batch(self, layout: Layout) -> int:
        """Number of templates whose values can be indexed with 32 bits."""
        return min(Xla().largest_batch(layout), (2**31 - 1) // layout.n_frequencies)

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """None: what they transform is timed with the library."""
        return ()

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """The largest value over the band of each template, (B,) float32."""
        every = jnp.asarray([[0], [data.layout.n_frequencies - 1]], jnp.int32)
        return jnp.max(self.values(data, points, every, same_source), axis=1)

    @abstractmethod
    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Values at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""


@dataclass(frozen=True)
class Segments(InBandOrder):
    """The mean of 2F over segments by the library engine; see `engine.Engine`.

    One segment after the other is transformed and added, in their order, so that results do not depend on the batch.
    """

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """That of one segment, and the sum with its copies."""
        return Xla().template_bytes(layout, n_detectors, orbit) + 4 * FLOAT32 * layout.n_frequencies

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """The largest means over segments of a batch of templates; see `engine.Engine`."""
        return loudest_means(data.layout, self.values(data, points, bins, same_source), data.series.shape[0], keep)

    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Means over segments at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""

        def add(total: jax.Array, own: FstatData) -> tuple[jax.Array, None]:
            return total + two_f_in_order(own, points, same_source), None

        shape = (points.alpha.shape[0], data.layout.n_frequencies)
        total, _ = jax.lax.scan(add, jnp.zeros(shape, jnp.float32), data)
        number = jnp.arange(shape[1], dtype=jnp.int32)
        return jnp.where(
            counts(number, *bins[:, :, None]), total * np.float32(1 / data.series.shape[0]), np.float32(-np.inf)
        )


def loudest_means(layout: Layout, means: jax.Array, n_segments: int, keep: int) -> Loudest:
    """The largest of some means over segments, and tallies of all.

    Parameters
    ----------
    layout : Layout
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
    """Histogram, (BINS,) int32, of means in the scale of `spread_means`; -inf does not count."""
    spread = spread_means(means, n_segments)
    spread = jnp.pad(spread.reshape(-1), (0, -spread.size % COLUMNS), constant_values=-jnp.inf)
    return histogram_of(spread.reshape(-1, COLUMNS))


def spread_means(means: jax.Array, n_segments: int) -> jax.Array:
    """Means of 2F over segments stretched about 4 such that in noise they have the mean and the variance of 2F."""
    return 4 + (means - 4) * np.float32(np.sqrt(n_segments))
