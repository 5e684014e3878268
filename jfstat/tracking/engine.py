"""The best path of each template of a batch: what `Segments` is for the mean over segments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.checks import check_amplitude
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.engines.engine import Loudest
from jfstat.engines.reduction import largest, largest_of_sections_in_order
from jfstat.engines.segments import InBandOrder, histogram_of_means
from jfstat.engines.xla import Xla, two_f_in_order, values_in_order
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.statistic.bins import counts
from jfstat.statistic.fstat import noise_level
from jfstat.tracking.emission import known_amplitude
from jfstat.tracking.transitions import FLOOR, NONE, TransitionsLike, model_of, plain_transitions


@dataclass(frozen=True)
class Tracks(InBandOrder):
    """The log-likelihood of the best path of each template; see `engine.Engine`.

    What it counts is the log-likelihood of the best path that ends at each frequency; of each template only the best
    path of all is kept.

    Attributes
    ----------
    transitions : tuple of float
        Log-probabilities of jumps from -w to w bins.
    amplitude : tuple of float or None
        h0, cosi and psi of a signal whose log-likelihood is the emission; None for half of 2F.
    """

    transitions: tuple[float, ...]
    amplitude: tuple[float, float, float] | None = None

    @classmethod
    def of(cls, track: TransitionsLike, amplitude: Amplitude | None) -> Tracks:
        """That of the arguments `track` and `amplitude` of `search`.

        Raises
        ------
        TypeError, ValueError
            If one of them is of another kind, or traced, or makes no sense.
        """
        transitions = plain_transitions(track)
        if amplitude is None:
            return cls(transitions)
        check_amplitude(amplitude)
        fields = amplitude.h0, amplitude.cosi, amplitude.psi
        if any(isinstance(x, jax.core.Tracer) for x in fields):
            raise ValueError("amplitude must not be traced: call search outside of transformations.")
        h0, cosi, psi = map(float, fields)
        return cls(transitions, (h0, cosi, psi))

    @property
    def known(self) -> Amplitude | None:
        """The known amplitude, if any."""
        return None if self.amplitude is None else Amplitude(*self.amplitude)

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """That of one segment, and the log-likelihoods of paths with their copies."""
        return Xla().template_bytes(layout, n_detectors, orbit) + 6 * FLOAT32 * layout.n_frequencies

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """The best path of each template of a batch, the loudest first; see `engine.Engine`.

        The histogram is of ``4 + (2 x/K - 4) sqrt(K)``, x being the log-likelihood of the best path that ends at a
        frequency and K the number of segments, as that of the mean of 2F over segments; see `loudest_means`. With a
        known amplitude it is of ``4 + 2 (x - p)/sqrt(K)``, p being the log-probability of the likeliest jumps: the
        noise's x is about p where the amplitude is weak.
        """
        values = self.values(data, points, bins, same_source)
        n_segments = data.series.shape[0]
        frequency = jnp.argmax(values, axis=1).astype(jnp.int32)
        best, template = largest(jnp.max(values, axis=1), min(keep, len(values)))
        # filled up, so that fewer than asked for are seen to be all
        best = jnp.pad(best, (0, keep - len(best)), constant_values=-jnp.inf)
        template = jnp.pad(template.astype(jnp.int32), (0, keep - len(template)))
        likeliest = (n_segments - 1) * max(self.transitions)
        shift = 0.0 if self.amplitude is None else 4 - 2 * likeliest / n_segments
        means = values * np.float32(2 / n_segments) + np.float32(shift)
        return Loudest(
            best,
            template,
            frequency[template],
            histogram_of_means(means, n_segments),
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
            emission = jnp.where(counted, self._emission(own, points, same_source), FLOOR)
            before = jnp.where(first, 0.0, jax.vmap(model.largest_predecessors)(delta[:, None])[:, 0])
            return (emission + before, jnp.zeros_like(first)), None

        shape = (points.alpha.shape[0], data.layout.n_frequencies)
        (delta, _), _ = jax.lax.scan(step, (jnp.zeros(shape, jnp.float32), jnp.ones((), bool)), data)
        return jnp.where(delta > NONE, delta, -jnp.inf)

    def _emission(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Log-likelihood of a segment at the frequencies of the band, (B, n_frequencies) float32."""
        if self.known is None:
            return 0.5 * two_f_in_order(data, points, same_source)
        value = partial(known_amplitude, noise_level(data.observation), self.known.canonical)
        return values_in_order(value, data, points, same_source)
