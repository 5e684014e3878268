"""Connect the `cuda` engine to the search; see `jfstat.engines.engine.Engine`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.engines.cuda import filters, kernels, launch
from jfstat.engines.cuda.errors import CudaError
from jfstat.engines.cuda.timing import packed_spin_down, packed_timing
from jfstat.engines.engine import (
    Device,
    InBand,
    Loudest,
    Stage,
    StageBytes,
    first_without_spin_down,
    nodes_per_template,
)
from jfstat.engines.reduction import largest
from jfstat.maths.arrays import divided
from jfstat.signal.templates import Doppler
from jfstat.statistic.bins import counted_bins
from jfstat.statistic.combine import antenna_matrix, total_matrix, whitening
from jfstat.statistic.spectrum import in_order
from jfstat.transforms import cuda_factors, section_count

SERIES_BYTES, VALUE_BYTES, NODE_BYTES, LINE_BYTES = 32, 8, 3000, 20
"""Memory per sample of the four series and of two values of the rows that are reduced again, and, measured, per node of
the timing, of which only 20 bytes remain when the series are made.
"""
SHARED_BYTES, LEAST_SHARED = (
    dict.fromkeys((8.0, 8.7), 163 << 10) | dict.fromkeys((9.0, 10.0, 10.3, 11.0), 227 << 10),
    99 << 10,
)
"""Most shared memory of a block by compute capability, from the CUDA C++ programming guide, and for all other devices.
"""
INDICES = 2**31
"""Number of values of an int32 index."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Geometry:
    """Timing and antenna matrices of a stack of templates, as the kernels read them.

    Attributes
    ----------
    own : (B, D, n_blocks, 20) float32
        See `timing.packed_timing`; with a shared series (B, n_blocks, 8), see `timing.packed_spin_down`.
    shared : (D, n_blocks, 20) float32 or None
        Timing of the series that all templates share.
    offsets : (B,) float32
        4 for templates whose A, B and C do not define 2F and whose series are zero, as in `combine.two_f`; otherwise 0.
    orbit : bool, static
        Whether the blocks suit templates with an orbit.
    """

    own: jax.Array
    shared: jax.Array | None
    offsets: jax.Array
    orbit: bool = field(metadata=dict(static=True))


@dataclass(frozen=True)
class Cuda(InBand):
    """Engine that computes 2F by kernels in CUDA C++; see `engine.Engine`.

    Attributes
    ----------
    emulate : bool
        Whether to compute what the kernels compute in plain JAX, slowly, on any device: for tests on a CPU.
    """

    name: ClassVar[str] = "cuda"
    needs: ClassVar[str] = (
        "an NVIDIA GPU of compute capability 8.0 or higher, and transforms of half the data's span or more, of a "
        "length that its kernels have"
    )
    emulate: bool = False

    def usable(self, layout: Layout, device: Device) -> bool:
        """Return whether the device is a recent NVIDIA GPU and the kernels can compute the layout."""
        if not (_has_kernels(layout) and (self.emulate or launch.capable(device))):
            return False
        return self.emulate or _shared_bytes(layout) <= SHARED_BYTES.get(launch.capability(device), LEAST_SHARED)

    def unavailable(self) -> str | None:
        """Return the message of the driver or compiler about a first kernel; None if it works."""
        return None if self.emulate else _problem()

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return an upper limit of the device memory per template of a batch."""
        nodes = nodes_per_template(layout, n_detectors, orbit)
        lasting = layout.n_fft * VALUE_BYTES + nodes * LINE_BYTES
        return lasting + max(layout.n_fft * SERIES_BYTES, nodes * NODE_BYTES)

    def largest_batch(self, layout: Layout) -> int:
        """Return the number of templates whose rows can be indexed with 32 bits, and that one launch takes."""
        return min(launch.MOST_BLOCKS, (INDICES - 1) // (2 * _n_rows(layout)))

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """Return the memory of the filters in the kernels' form."""
        return filters.subdivided_bytes(layout.n_band + 2 * layout.padding, n_detectors)

    def ready(self, data: FstatData) -> FstatData:
        """Return the data with filters for parts of the interval between samples, from `filters.subdivided`."""
        return replace(data, filters=(filters.subdivided(data.filters, data.band.reach),))

    def geometry(self, data: FstatData, points: Doppler, same_source: bool) -> Geometry:
        """Return what the kernels read of each template; see `engine.HasGeometry`.

        The kernels are compiled meanwhile.
        """
        orbit = points.orbit is not None
        plan = self._plan(data, orbit, same_source)
        if not self.emulate:
            launch.compile_together([x for x in plan if same_source or x is not plan.interpolate])
        weights = jax.vmap(lambda point: whitening(total_matrix(antenna_matrix(data.observation, point))))(points)
        with jax.named_scope("geometry"):
            if same_source:
                first = jax.tree.map(lambda x: x[0], weights)
                shared = packed_timing(data, first_without_spin_down(points), first)
                own = jax.vmap(packed_spin_down, (None, 0))(data, points)
            else:
                shared, own = None, jax.vmap(packed_timing, (None, 0, 0))(data, points, weights)
        return Geometry(own, shared, jnp.where(weights[0] == 0, 4, 0).astype(jnp.float32), orbit)

    def reduced(self, data: FstatData, points: Geometry, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the loudest values: first the last kernel's maxima of rows, then all values of the loudest rows."""
        plan = self._plan(data, points.orbit, same_source)
        series = self._series(plan, data, points)
        ranges, offsets = _ranges(data.layout, bins), points.offsets
        n_rows = _n_rows(data.layout)
        found = self._reduced(plan, data.layout, series, ranges, offsets)
        flat = found.largest.reshape(-1)
        _, rows = largest(flat, min(keep, flat.size))
        rows = rows.astype(jnp.int32)
        value = kernels.values(plan.values, series, ranges, offsets, n_rows, rows, self.emulate)
        top, place = largest(value.reshape(-1), min(keep, value.size))
        chosen, within = divided(place, value.shape[1])
        transform, row = divided(rows[chosen], n_rows)
        template, odd = divided(transform, 2)
        entry = row + n_rows * within
        signed = jnp.where(entry < (data.layout.n_fft + 1) // 2, entry, entry - data.layout.n_fft)
        number = 2 * signed + odd + data.layout.n_frequencies // 2
        sections = jnp.max(found.sections, axis=0)
        return Loudest(
            jnp.where(top < 0, -jnp.inf, top),
            template,
            number,
            jnp.sum(found.histogram, axis=0, dtype=jnp.int32),
            jnp.where(sections < 0, -jnp.inf, sections),
        )

    @property
    def platform(self) -> str:
        """Platform of the kernels, or of their emulation."""
        return "cpu" if self.emulate else "cuda"

    def band(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Return 2F at the band's frequencies: all rows of the last kernel, put in order; see `engine.HasBand`."""
        layout, n_rows = data.layout, _n_rows(data.layout)
        plan = self._plan(data, points.orbit is not None, same_source)
        geometry = self.geometry(data, points, same_source)
        series = self._series(plan, data, geometry)
        n_batch = geometry.own.shape[0]
        every = jnp.broadcast_to(jnp.array([[0], [layout.n_frequencies - 1]], jnp.int32), (2, n_batch))
        rows = jnp.arange(2 * n_batch * n_rows, dtype=jnp.int32)
        with jax.named_scope("rows"):
            value = kernels.values(
                plan.values, series, _ranges(layout, every), geometry.offsets, n_rows, rows, self.emulate
            )
        by_entry = value.reshape(n_batch, 2, n_rows, -1).swapaxes(2, 3).reshape(n_batch, 2, layout.n_fft)
        return jax.vmap(in_order, (0, None))(by_entry, layout)

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Return the largest 2F over the band of each template, (B,) float32."""
        plan = self._plan(data, points.orbit is not None, same_source)
        geometry = self.geometry(data, points, same_source)
        return self._maxima(plan, data, points, geometry.offsets, self._series(plan, data, geometry))

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """Return the stages: geometry and each kernel; a series shared by all templates is part of the first kernel."""
        batch, size = points.alpha.shape[0], StageBytes(data)
        plan = self._plan(data, points.orbit is not None, same_source)

        @jax.jit
        def made(data: FstatData, points: Doppler, _: None) -> Geometry:
            return self.geometry(data, points, same_source)

        @jax.jit
        def columns(data: FstatData, points: Doppler, geometry: Geometry) -> tuple[jax.Array, jax.Array]:
            return self._columns(plan, data, geometry), geometry.offsets

        @jax.jit
        def middle(data: FstatData, points: Doppler, given: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            series, offsets = given
            return kernels.middle(plan.middle, series, self.emulate, in_place=False), offsets  # type: ignore[arg-type]

        @jax.jit
        def rows(data: FstatData, points: Doppler, given: tuple[jax.Array, jax.Array]) -> jax.Array:
            series, offsets = given
            return self._maxima(plan, data, points, offsets, series)

        given = size.series if same_source else size.filtered
        between = () if plan.middle is None else (Stage("middle", middle, batch * 2 * size.transforms),)
        return (
            Stage("geometry", made, batch * size.cubics),
            Stage("columns", columns, given + batch * (size.cubics + size.transforms)),
            *between,
            Stage("rows, 2F and maxima", rows, batch * size.transforms),
        )

    def _plan(self, data: FstatData, orbit: bool, same_source: bool) -> kernels.Plan:
        return kernels.plan(data.layout, len(data.detectors), orbit, same_source)

    def _columns(self, plan: kernels.Plan, data: FstatData, geometry: Geometry) -> jax.Array:
        layout, block = data.layout, data.layout.block_of(geometry.orbit)
        columns, _, _ = kernels.factors_of(layout)
        numbers = [layout.n_fft // columns, block, layout.n_blocks * layout.block // block, data.filters[0].shape[3]]
        numbers = np.array(numbers, np.int32)
        (given,) = data.filters
        with jax.named_scope("columns"):
            if geometry.shared is not None:
                given = kernels.interpolate(plan.interpolate, given, geometry.shared, numbers, self.emulate)
            return kernels.columns(plan.columns, given, geometry.own, numbers, self.emulate)

    def _series(self, plan: kernels.Plan, data: FstatData, geometry: Geometry) -> jax.Array:
        """Return transforms of the weighted series up to the last kernel."""
        series = self._columns(plan, data, geometry)
        if plan.middle is not None:
            with jax.named_scope("middle"):
                series = kernels.middle(plan.middle, series, self.emulate)
        return series

    def _reduced(
        self, plan: kernels.Plan, layout: Layout, series: jax.Array, ranges: jax.Array, offsets: jax.Array
    ) -> kernels.Reduced:
        with jax.named_scope("rows"):
            return kernels.reduced(plan.reduced, series, ranges, offsets, _n_rows(layout), _live(layout), self.emulate)

    def _maxima(
        self, plan: kernels.Plan, data: FstatData, points: Doppler, offsets: jax.Array, series: jax.Array
    ) -> jax.Array:
        bins = counted_bins(data, points, points.alpha.shape[0])
        found = self._reduced(plan, data.layout, series, _ranges(data.layout, bins), offsets)
        return jnp.max(found.largest, axis=(1, 2))


def _has_kernels(layout: Layout) -> bool:
    """Return whether the kernels have this length, its samples are folded at most once, and 32-bit indices suffice."""
    n_samples, n_filters = layout.n_blocks * layout.block, layout.n_band + 2 * layout.padding
    return (
        cuda_factors(layout.n_fft) is not None
        and n_samples <= 2 * layout.n_fft
        and 16 * n_samples < 2 * INDICES  # bytes of a shared series
        and 16 * filters.form_of(n_filters).planes * n_filters < 2 * INDICES  # bytes
    )


def _shared_bytes(layout: Layout) -> int:
    """Return the largest shared memory of a block of any kernel for a layout."""
    programs = kernels.plan(layout, 1, False, False)
    return max(program.shared + program.static for program in programs if program is not None)


@cache
def _problem() -> str | None:
    try:
        kernels.probe()
    except CudaError as error:
        return str(error)
    except (RuntimeError, OSError, AttributeError) as error:  # other versions of the driver, the compiler or XLA
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def _n_rows(layout: Layout) -> int:
    columns, middle, _ = kernels.factors_of(layout)
    return columns * middle


def _ranges(layout: Layout, bins: jax.Array) -> jax.Array:
    """Return the entries that count, (B, 2, 2) int32, from the first and last bin, (2, B).

    For even and odd bins they are the lowest entry, negative in the second half, and the number of entries.
    """
    odd = jnp.arange(2, dtype=jnp.int32)
    first, last = (row[:, None] - layout.n_frequencies // 2 - odd for row in bins)
    low, high = (first + 1) >> 1, last >> 1  # half of each, rounded into the range
    return jnp.stack([low, jnp.maximum(high - low + 1, 0)], axis=-1).astype(jnp.int32)


def _live(layout: Layout) -> np.ndarray:
    """Return which sections of the spectrum hold bins of the band."""
    n, sections = layout.n_fft, section_count(layout.n_fft)
    half = (n + 1) // 2
    starts = np.arange(sections) * (n // sections)
    stops = starts + n // sections
    highest, lowest = layout.n_frequencies - 1 - layout.n_frequencies // 2, -(layout.n_frequencies // 2)
    positive = (starts < half) & (2 * starts <= highest)
    negative = (stops > half) & (2 * (stops - 1 - n) + 1 >= lowest)
    return positive | negative
