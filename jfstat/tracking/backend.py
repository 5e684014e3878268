"""The best path of each template of a batch: what `Segments` is for the mean over segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.statistic.backends.backend import Device, Loudest, Stage
from jfstat.statistic.backends.library import Library, two_f_in_order
from jfstat.statistic.backends.reduction import histogram_of, largest, largest_of_sections_in_order
from jfstat.statistic.backends.segments import COLUMNS, Segments
from jfstat.statistic.bins import counts
from jfstat.templates import Doppler
from jfstat.tracking.transitions import FLOOR, NONE, Model, model_of


@dataclass(frozen=True)
class Tracks:
    """The log-likelihood of the best path of each template; see `backend.Backend`.

    What it counts is the log-likelihood of the best path that ends at each frequency; of each template only the best
    path of all is kept.

    Attributes
    ----------
    transitions : tuple of float
        Log-probabilities of jumps from -w to w bins.
    """

    transitions: tuple[float, ...]
    name: ClassVar[str] = "library"
    needs: ClassVar[str] = "nothing but JAX"

    def usable(self, layout: Layout, device: Device) -> bool:
        """Always."""
        return True

    def unavailable(self) -> None:
        """Nothing is in the way."""

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """That of one segment, and the log-likelihoods of paths with their copies."""
        return Library().template_bytes(layout, n_detectors, orbit) + 6 * FLOAT32 * layout.n_frequencies

    def largest_batch(self, layout: Layout) -> int:
        """Number of templates whose values can be indexed with 32 bits."""
        return Segments().largest_batch(layout)

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """None: it takes the data's filters."""
        return 0

    def ready(self, data: FstatData) -> FstatData:
        """The data as they are."""
        return data

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """The best path of each template of a batch, the loudest first; see `backend.Backend`.

        The histogram is of ``4 + (2 x/K - 4) sqrt(K)``, x being the log-likelihood of the best path that ends at a
        frequency and K the number of segments, as that of the mean of 2F over segments; see `loudest_means`.
        """
        values = self.values(data, points, bins, same_source)
        n_segments = data.series.shape[0]
        frequency = jnp.argmax(values, axis=1).astype(jnp.int32)
        best, template = largest(jnp.max(values, axis=1), min(keep, len(values)))
        mean = values * np.float32(2 / n_segments)
        spread = 4 + (mean - 4) * np.float32(np.sqrt(n_segments))
        spread = jnp.pad(spread.reshape(-1), (0, -spread.size % COLUMNS), constant_values=-jnp.inf)
        # filled up, so that fewer than asked for are seen to be all
        best = jnp.pad(best, (0, keep - len(best)), constant_values=-jnp.inf)
        template = jnp.pad(template.astype(jnp.int32), (0, keep - len(template)))
        return Loudest(
            best,
            template,
            frequency[template],
            histogram_of(spread.reshape(-1, COLUMNS)),
            largest_of_sections_in_order(data.layout, values),
        )

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """The log-likelihood of the best path of each template, (B,) float32."""
        every = jnp.asarray([[0], [data.layout.n_frequencies - 1]], jnp.int32)
        return jnp.max(self.values(data, points, every, same_source), axis=1)

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """None: the segments' are those of the library."""
        return ()

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
            before = jnp.where(first, 0.0, best_of_each(model, delta))
            return (emission + before, jnp.zeros_like(first)), None

        shape = (points.alpha.shape[0], data.layout.n_frequencies)
        (delta, _), _ = jax.lax.scan(step, (jnp.zeros(shape, jnp.float32), jnp.ones((), bool)), data)
        return jnp.where(delta > NONE, delta, -jnp.inf)


def best_of_each(model: Model, delta: jax.Array) -> jax.Array:
    """The largest candidate for each state of several tables, (B, N)."""
    return jax.vmap(model.largest_predecessors)(delta[:, None])[:, 0]
