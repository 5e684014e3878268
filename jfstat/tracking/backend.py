"""The best path of each template of a batch: what `Segments` is for the mean over segments."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.statistic.backends.backend import Loudest
from jfstat.statistic.backends.library import Library, two_f_in_order
from jfstat.statistic.backends.reduction import largest, largest_of_sections_in_order
from jfstat.statistic.backends.segments import InBandOrder, histogram_of_means
from jfstat.statistic.bins import counts
from jfstat.templates import Doppler
from jfstat.tracking.transitions import FLOOR, NONE, model_of


@dataclass(frozen=True)
class Tracks(InBandOrder):
    """The log-likelihood of the best path of each template; see `backend.Backend`.

    What it counts is the log-likelihood of the best path that ends at each frequency; of each template only the best
    path of all is kept.

    Attributes
    ----------
    transitions : tuple of float
        Log-probabilities of jumps from -w to w bins.
    """

    transitions: tuple[float, ...]

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """That of one segment, and the log-likelihoods of paths with their copies."""
        return Library().template_bytes(layout, n_detectors, orbit) + 6 * FLOAT32 * layout.n_frequencies

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """The best path of each template of a batch, the loudest first; see `backend.Backend`.

        The histogram is of ``4 + (2 x/K - 4) sqrt(K)``, x being the log-likelihood of the best path that ends at a
        frequency and K the number of segments, as that of the mean of 2F over segments; see `loudest_means`.
        """
        values = self.values(data, points, bins, same_source)
        n_segments = data.series.shape[0]
        frequency = jnp.argmax(values, axis=1).astype(jnp.int32)
        best, template = largest(jnp.max(values, axis=1), min(keep, len(values)))
        # filled up, so that fewer than asked for are seen to be all
        best = jnp.pad(best, (0, keep - len(best)), constant_values=-jnp.inf)
        template = jnp.pad(template.astype(jnp.int32), (0, keep - len(template)))
        return Loudest(
            best,
            template,
            frequency[template],
            histogram_of_means(values * np.float32(2 / n_segments), n_segments),
            largest_of_sections_in_order(data.layout, values),
        )

    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Log-likelihood of the best path that ends at each frequency, (B, n_frequencies) float32.

        -inf where no path can end. One segment after the other is transformed, so that results do not depend on the
        batch, and paths are not stored: `track` finds that of a template that is kept.
        """
        model = model_of(self.transitions, None, 1, jnp.float32)  # type: ignore[arg-type]
        number = jnp.arange(data.layout.n_frequencies, dtype=jnp.int32)
        counted = counts(number, *bins[:, :, None])

        def step(carry: tuple[jax.Array, jax.Array], own: FstatData) -> tuple[tuple[jax.Array, jax.Array], None]:
            delta, first = carry
            emission = jnp.where(counted, 0.5 * two_f_in_order(own, points, same_source), FLOOR)
            before = jnp.where(first, 0.0, jax.vmap(model.largest_predecessors)(delta[:, None])[:, 0])
            return (emission + before, jnp.zeros_like(first)), None

        shape = (points.alpha.shape[0], data.layout.n_frequencies)
        (delta, _), _ = jax.lax.scan(step, (jnp.zeros(shape, jnp.float32), jnp.ones((), bool)), data)
        return jnp.where(delta > NONE, delta, -jnp.inf)
