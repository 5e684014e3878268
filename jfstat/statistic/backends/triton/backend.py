"""The `triton` backend's interface to the search; see `jfstat.statistic.backends.backend.Backend`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.statistic.backends.backend import (
    Device,
    Loudest,
    Stage,
    StageBytes,
    first_without_spin_down,
    nodes_per_template,
)
from jfstat.statistic.backends.reduction import largest, largest_of_rows
from jfstat.statistic.backends.triton import chain
from jfstat.statistic.backends.triton.passes import Planes
from jfstat.statistic.bins import counted_bins
from jfstat.templates import Doppler

SAMPLE_BYTES, NODE_BYTES = 16 + 32, 3000
"""Measured bytes per sample (two weighted series, and four during their transform) and per node of the timing."""


@dataclass(frozen=True)
class Triton:
    """2F by Pallas-Triton kernels; see `backend.Backend`.

    Attributes
    ----------
    interpret : bool
        Whether Pallas interprets the kernels, slowly, on any device: for tests on a CPU.
    """

    name: ClassVar[str] = "triton"
    needs: ClassVar[str] = (
        "an NVIDIA GPU of compute capability 8.0 or higher, and transforms of half the data's span or more, whose "
        "length its kernels can factor and whose samples 32 bits can index"
    )
    interpret: bool = False

    def usable(self, layout: Layout, device: Device) -> bool:
        """Whether the device is a recent NVIDIA GPU and the kernels can compute the layout."""
        nvidia = device.platform in ("gpu", "cuda") and "nvidia" in device.device_kind.lower()
        # Pallas' Triton needs Ampere or later
        recent = nvidia and float(getattr(device, "compute_capability", 0)) >= 8
        return (recent or self.interpret) and chain.usable(layout)

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Upper limit of the device memory per template of a batch."""
        nodes = nodes_per_template(layout, n_detectors, orbit)
        return layout.n_blocks * layout.block * SAMPLE_BYTES + nodes * NODE_BYTES

    def largest_batch(self, layout: Layout) -> int:
        """Number of templates whose series can be indexed with 32 bits."""
        return chain.largest_batch(layout)

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """First the last kernel's maxima of rows, then all values of the rows with the largest maxima."""
        found = self._row_maxima(data, points, bins, same_source)
        flat = found.value.reshape(-1)
        _, rows = largest(flat, min(keep, flat.size))
        value, template, number = chain.values_of(
            data, found, rows.astype(jnp.int32), chain.lanes_for(points.alpha.shape[0])
        )
        best = largest_of_rows(jnp.where(value < 0, -jnp.inf, value), template, number, keep)
        return Loudest(*best, found.histogram, found.sections)

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """The largest 2F over the band of each template, (B,) float32."""
        bins = counted_bins(data, points, points.alpha.shape[0])
        return _of_templates(self._row_maxima(data, points, bins, same_source))

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """Geometry, interpolation, spin-down where templates share a source, transform, and 2F with its maxima."""
        batch, size, interpret = points.alpha.shape[0], StageBytes(data), self.interpret
        lanes, n_radices = chain.lanes_for(batch), len(chain.radices_of(data.layout))

        @jax.jit
        def geometry(data: FstatData, points: Doppler, _: None) -> chain.PackedTiming:
            return jax.vmap(chain.packed_timing, (None, 0))(data, points)

        @jax.jit
        def interpolation(data: FstatData, points: Doppler, packed: chain.PackedTiming) -> Planes:
            return chain.interpolated_from(data, points, packed, lanes, interpret)

        @jax.jit
        def once(data: FstatData, points: Doppler, _: None) -> Planes:
            return _interpolated_once(data, points, interpret)

        @jax.jit
        def spin_down(data: FstatData, points: Doppler, series: Planes) -> Planes:
            return chain.spun_down(data, points, series, lanes, interpret)

        @jax.jit
        def transforms(data: FstatData, points: Doppler, series: Planes) -> Planes:
            return chain.transformed(data.layout, series, points.alpha.shape[0], lanes, interpret)

        @jax.jit
        def two_f_and_maxima(data: FstatData, points: Doppler, y: Planes) -> jax.Array:
            bins = counted_bins(data, points, points.alpha.shape[0])
            return _of_templates(chain.maxima_of(data, points, y, bins, lanes, interpret))

        resampling = (
            (
                Stage("geometry, interpolation", once, size.filtered + size.cubics + size.series),
                Stage("spin-down", spin_down, (1 + batch) * size.series),
            )
            if same_source
            else (
                Stage("geometry", geometry, batch * size.cubics),
                Stage("interpolation", interpolation, size.filtered + batch * (size.cubics + size.series)),
            )
        )
        return (
            *resampling,
            Stage("fft", transforms, batch * (size.series + (2 * n_radices - 3) * size.transforms)),
            Stage("2F and maxima", two_f_and_maxima, batch * size.transforms),
        )

    def _row_maxima(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> chain.Maxima:
        n, interpret = points.alpha.shape[0], self.interpret
        lanes = chain.lanes_for(n)
        if same_source:
            series = chain.spun_down(data, points, _interpolated_once(data, points, interpret), lanes, interpret)
        else:
            series = chain.interpolated(data, points, lanes, interpret)
        y = chain.transformed(data.layout, series, n, lanes, interpret)
        return chain.maxima_of(data, points, y, bins, lanes, interpret)


def _interpolated_once(data: FstatData, points: Doppler, interpret: bool) -> Planes:
    """The weighted series that templates of one source share, without spin-down."""
    one = jax.tree.map(lambda x: x[None], first_without_spin_down(points))
    return chain.interpolated(data, one, 1, interpret)


def _of_templates(found: chain.Maxima) -> jax.Array:
    """The largest 2F of each template, (B,)."""
    return jnp.max(found.value, axis=(1, 3)).reshape(-1)
