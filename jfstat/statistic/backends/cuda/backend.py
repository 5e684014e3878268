"""The `cuda` backend's interface to the search; see `jfstat.statistic.backends.backend.Backend`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.maths.arrays import divided
from jfstat.statistic.backends.backend import (
    Device,
    Loudest,
    Stage,
    StageBytes,
    first_without_spin_down,
    nodes_per_template,
)
from jfstat.statistic.backends.cuda import filters, kernels, launch
from jfstat.statistic.backends.cuda.errors import CudaError
from jfstat.statistic.backends.cuda.timing import packed_spin_down, packed_timing
from jfstat.statistic.backends.reduction import largest
from jfstat.statistic.bins import counted_bins
from jfstat.statistic.combine import antenna_matrix, total_matrix, whitening
from jfstat.statistic.resample import block_and_run
from jfstat.templates import Doppler
from jfstat.transforms import cuda_factors, section_count

SERIES_BYTES, VALUE_BYTES, NODE_BYTES = 32, 8, 3000
"""Bytes per sample of the four series and of two values of the rows looked at again, and, measured, per node of the
timing, which is done with before the series are made."""
SHARED_BYTES, LEAST_SHARED = (
    dict.fromkeys((8.0, 8.7), 163 << 10) | dict.fromkeys((9.0, 10.0, 10.3, 11.0), 227 << 10),
    99 << 10,
)
"""Most shared memory of a block by compute capability, from the CUDA C++ programming guide, and of all others."""
Weights: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""Of antenna patterns; see `combine.whitening`."""
INDICES = 2**31
"""Number of values of an int32 index."""


@dataclass(frozen=True)
class Cuda:
    """2F by kernels in CUDA C++; see `backend.Backend`.

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
        """Whether the device is a recent NVIDIA GPU and the kernels can compute the layout."""
        if not (_has_kernels(layout) and (self.emulate or launch.capable(device))):
            return False
        return self.emulate or _shared_bytes(layout) <= SHARED_BYTES.get(launch.capability(device), LEAST_SHARED)

    def unavailable(self) -> str | None:
        """What the driver or the compiler says to a first kernel."""
        return None if self.emulate else _problem()

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Upper limit of the device memory per template of a batch."""
        nodes = nodes_per_template(layout, n_detectors, orbit)
        return layout.n_fft * VALUE_BYTES + max(layout.n_fft * SERIES_BYTES, nodes * NODE_BYTES)

    def largest_batch(self, layout: Layout) -> int:
        """Number of templates whose rows can be indexed with 32 bits, and that one launch takes."""
        return min(launch.MOST_BLOCKS, (INDICES - 1) // (2 * _n_rows(layout)))

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """Memory of the filters in the kernels' form."""
        return filters.subdivided_bytes(layout.n_band + 2 * layout.padding, n_detectors)

    def ready(self, data: FstatData) -> FstatData:
        """The data with filters for parts of the interval between samples, `filters.subdivided`."""
        return replace(data, filters=(filters.subdivided(data.filters, data.band.reach),))

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """First the last kernel's maxima of rows, then all values of the rows with the largest maxima."""
        weights = _weights(data, points)
        plan, series = self._series(data, points, same_source, weights, True)
        ranges, offsets = _ranges(data.layout, bins), _offsets(weights)
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

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """The largest 2F over the band of each template, (B,) float32."""
        weights = _weights(data, points)
        plan, series = self._series(data, points, same_source, weights, False)
        return self._maxima(plan, data, points, series, weights)

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """Geometry, each kernel; where templates share a source, the series that they share is part of the first."""
        batch, size = points.alpha.shape[0], StageBytes(data)
        plan = self._plan(data, points, same_source)

        @jax.jit
        def geometry(data: FstatData, points: Doppler, _: None) -> tuple[jax.Array, ...]:
            return self._timing(data, points, same_source, _weights(data, points))

        @jax.jit
        def columns(data: FstatData, points: Doppler, timing: tuple[jax.Array, ...]) -> jax.Array:
            return self._columns(data, points, timing, same_source)

        @jax.jit
        def middle(data: FstatData, points: Doppler, series: jax.Array) -> jax.Array:
            return kernels.middle(plan.middle, series, self.emulate, in_place=False)  # type: ignore[arg-type]

        @jax.jit
        def rows(data: FstatData, points: Doppler, series: jax.Array) -> jax.Array:
            return self._maxima(plan, data, points, series, _weights(data, points))

        given = size.series if same_source else size.filtered
        between = () if plan.middle is None else (Stage("middle", middle, batch * 2 * size.transforms),)
        return (
            Stage("geometry", geometry, batch * size.cubics),
            Stage("columns", columns, given + batch * (size.cubics + size.transforms)),
            *between,
            Stage("rows, 2F and maxima", rows, batch * size.transforms),
        )

    def _plan(self, data: FstatData, points: Doppler, same_source: bool) -> kernels.Plan:
        return kernels.plan(data.layout, len(data.detectors), points.orbit is not None, same_source)

    def _timing(self, data: FstatData, points: Doppler, same_source: bool, weights: Weights) -> tuple[jax.Array, ...]:
        """What the first kernel reads of each template; for a shared source also the timing of its series."""
        with jax.named_scope("geometry"):
            if not same_source:
                return (jax.vmap(packed_timing, (None, 0, 0))(data, points, weights),)
            own = jax.vmap(packed_spin_down, (None, 0))(data, points)
            first = jax.tree.map(lambda x: x[0], weights)
            return own, packed_timing(data, first_without_spin_down(points), first)

    def _columns(self, data: FstatData, points: Doppler, timing: tuple[jax.Array, ...], same_source: bool) -> jax.Array:
        layout, plan = data.layout, self._plan(data, points, same_source)
        block, _ = block_and_run(layout, points)
        columns, _, _ = kernels.factors_of(layout)
        numbers = [layout.n_fft // columns, block, layout.n_blocks * layout.block // block, data.filters[0].shape[3]]
        numbers = np.array(numbers, np.int32)
        (given,) = data.filters
        with jax.named_scope("columns"):
            if same_source:
                given = kernels.interpolate(plan.interpolate, given, timing[1], numbers, self.emulate)
            return kernels.columns(plan.columns, given, timing[0], numbers, self.emulate)

    def _series(
        self, data: FstatData, points: Doppler, same_source: bool, weights: Weights, with_values: bool
    ) -> tuple[kernels.Plan, jax.Array]:
        """Transforms of the weighted series up to the last kernel, all kernels compiled, `values` if it is needed."""
        plan = self._plan(data, points, same_source)
        if not self.emulate:
            launch.compile_together(
                [
                    plan.columns,
                    plan.middle,
                    plan.reduced,
                    plan.values if with_values else None,
                    plan.interpolate if same_source else None,
                ]
            )
        series = self._columns(data, points, self._timing(data, points, same_source, weights), same_source)
        if plan.middle is not None:
            with jax.named_scope("middle"):
                series = kernels.middle(plan.middle, series, self.emulate)
        return plan, series

    def _reduced(
        self, plan: kernels.Plan, layout: Layout, series: jax.Array, ranges: jax.Array, offsets: jax.Array
    ) -> kernels.Reduced:
        with jax.named_scope("rows"):
            return kernels.reduced(plan.reduced, series, ranges, offsets, _n_rows(layout), _live(layout), self.emulate)

    def _maxima(
        self, plan: kernels.Plan, data: FstatData, points: Doppler, series: jax.Array, weights: Weights
    ) -> jax.Array:
        bins = counted_bins(data, points, points.alpha.shape[0])
        found = self._reduced(plan, data.layout, series, _ranges(data.layout, bins), _offsets(weights))
        return jnp.max(found.largest, axis=(1, 2))


def _has_kernels(layout: Layout) -> bool:
    """Whether the kernels have this layout's length, its samples are folded once at most, and fit 32 bits."""
    n_samples, n_filters = layout.n_blocks * layout.block, layout.n_band + 2 * layout.padding
    return (
        cuda_factors(layout.n_fft) is not None
        and n_samples <= 2 * layout.n_fft
        and 16 * n_samples < 2 * INDICES  # bytes of a shared series
        and 16 * filters.form_of(n_filters).planes * n_filters < 2 * INDICES  # bytes
    )


def _shared_bytes(layout: Layout) -> int:
    """The largest shared memory of a block of any kernel for a layout."""
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
    """The entries that count, (B, 2, 2) int32: for even and odd bins the lowest, negative in the second half, and their
    number, from the first and last bin, (2, B)."""
    odd = jnp.arange(2, dtype=jnp.int32)
    first, last = (row[:, None] - layout.n_frequencies // 2 - odd for row in bins)
    low, high = (first + 1) >> 1, last >> 1  # half of each, rounded into the range
    return jnp.stack([low, jnp.maximum(high - low + 1, 0)], axis=-1).astype(jnp.int32)


def _weights(data: FstatData, points: Doppler) -> Weights:
    """`combine.whitening` for a stack of templates, (B,) float64 each."""
    return jax.vmap(lambda point: whitening(total_matrix(antenna_matrix(data.observation, point))))(points)


def _offsets(weights: Weights) -> jax.Array:
    """4 for templates whose A, B and C do not define 2F and whose series are zero, as in `combine.two_f`; (B,)."""
    return jnp.where(weights[0] == 0, 4, 0).astype(jnp.float32)


def _live(layout: Layout) -> np.ndarray:
    """Which sections of the spectrum hold bins of the band."""
    n, sections = layout.n_fft, section_count(layout.n_fft)
    half = (n + 1) // 2
    starts = np.arange(sections) * (n // sections)
    stops = starts + n // sections
    highest, lowest = layout.n_frequencies - 1 - layout.n_frequencies // 2, -(layout.n_frequencies // 2)
    positive = (starts < half) & (2 * starts <= highest)
    negative = (stops > half) & (2 * (stops - 1 - n) + 1 >= lowest)
    return positive | negative
