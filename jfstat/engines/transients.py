"""The map of a transient signal at each template and frequency: what `Xla` is for persistent signals."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32, default_device, device_of, free_bytes
from jfstat.engines.engine import COMPLEX, Device, Loudest, first_without_spin_down, nodes_per_template
from jfstat.engines.segments import InBandOrder, loudest_means
from jfstat.engines.xla import NODE_BYTES
from jfstat.signal.templates import Doppler
from jfstat.signal.transientwindow import Shape, end_of
from jfstat.statistic.bins import counts
from jfstat.statistic.resample import Resampled, resampled, spun_down
from jfstat.statistic.transientband import Kind, TransientBand, band_values, transient_band
from jfstat.statistic.transients import TransientRange

CPU_BYTES = 8 << 20
"""Memory for the sums over slices at the frequencies that are computed at a time on a CPU: some caches' size."""
MOST_BYTES, SHARE = 4 << 30, 0.2
"""The same on an accelerator at most, and as a share of its free memory."""


@dataclass(frozen=True)
class Transients(InBandOrder):
    """The largest 2F of a transient signal's windows, or their Bayes factor, at each frequency; see `engine.Engine`.

    Templates are computed one after the other, and frequencies in groups whose sums over slices fit into the memory.

    Attributes
    ----------
    shape, end
        Of the windows, see `TransientWindow`.
    t0, tau : tuple of float
        Start times, GPS s, and time scales, s.
    duration : float
        See `TransientRange`.
    bayes : bool
        See `Kind`.
    """

    shape: Shape
    end: float
    t0: tuple[float, ...]
    tau: tuple[float, ...]
    duration: float
    bayes: bool

    @classmethod
    def of(cls, transient: TransientRange, bayes: bool) -> Transients:
        """That of a range of windows."""
        t0, tau = (tuple(np.asarray(x).tolist()) for x in (transient.t0, transient.tau))
        return cls(transient.shape, transient.end, t0, tau, transient.duration, bayes)

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Interpolated series of each detector, their sums with copies, and the values of all frequencies."""
        n_samples = layout.n_blocks * layout.block
        nodes = nodes_per_template(layout, n_detectors, orbit)
        return n_samples * (8 * n_detectors + 8 * COMPLEX) + nodes * NODE_BYTES + 6 * FLOAT32 * layout.n_frequencies

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """The sums over slices at the frequencies that are computed at a time."""
        return most_bytes(default_device())

    def ready(self, data: FstatData) -> TransientBand:
        """The data with the windows, which the methods below take."""
        wanted = TransientRange(
            self.shape,
            np.array(self.t0),
            np.array(self.tau),
            end=end_of(self.shape, self.end),
            duration=self.duration,
        )
        return transient_band(data, wanted, most_bytes(device_of(data)))

    def reduced(self, data: TransientBand, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """The largest values of a batch of templates, and tallies of all; see `engine.Engine`."""
        return loudest_means(data.layout, self.values(data, points, bins, same_source), 1, keep)

    def values(self, data: TransientBand, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Values at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""
        kind = Kind(self.shape, self.end, self.bayes)
        one = resampled(data.data, first_without_spin_down(points)) if same_source else None

        def of(point: Doppler) -> jax.Array:
            series: Resampled = resampled(data.data, point) if one is None else spun_down(data.data, point, one)
            return band_values(data, point, jnp.stack([x.reshape(-1) for x in series]), kind)

        values = jax.lax.map(of, jax.tree.map(jnp.asarray, points))
        number = jnp.arange(data.layout.n_frequencies, dtype=jnp.int32)
        return jnp.where(counts(number, *bins[:, :, None]), values, np.float32(-np.inf))


def most_bytes(device: Device) -> int:
    """Memory for the sums over slices at the frequencies that are computed at a time."""
    free = free_bytes(device)
    return CPU_BYTES if free is None else int(min(MOST_BYTES, SHARE * free))
