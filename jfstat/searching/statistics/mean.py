"""Search with the mean over segments of 2F, every segment computed at every template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.semicoherent import semicoherent_columns, semicoherent_details, semicoherent_programs
from jfstat.candidates.tables import Meta
from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.engines.engine import BandReduction, Loudest
from jfstat.engines.reduction import histogram_of_means, largest_of_sections_in_order, loudest_means
from jfstat.engines.xla import Xla, two_f_in_order
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import (
    XlaStatistic,
    alarm_of_loudest,
    check_ranking,
    check_segments,
    where_counted,
)
from jfstat.searching.statistics.linerobust import (
    each_bytes,
    log10_bsgl_of_sums,
    no_sums,
    persistent,
    summed_segments,
)
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.linerobust import LineCut


@dataclass(frozen=True)
class MeanTwoF(XlaStatistic):
    """Mean over segments of 2F (Weave's ``mean2F``), the default statistic of `search` for data with segments.

    The column ``mean_twoF`` holds its values; `Details` adds ``mean_twoF_H1``, ... over the segments in which a
    detector has data, ``log10BSGL`` of the sums over segments, whose `LinePrior.fstar0` is the transition scale of the
    sum, and amplitudes as from `semicoherent_amplitude`. The histogram's bins are as wide as the noise requires, and
    values below the first edge are in the first bin. ``false_alarm`` is for sums with 4 degrees of freedom per segment.
    """

    cannot: ClassVar[str] = "do this for data with segments"

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data without segments, or for options that data with segments do not have."""
        check_segments(data, keep, self.name, cuts=True)
        check_ranking(data, keep, details)

    def reduction(self, task: Task, engine: str | None) -> tuple[str, BandReduction]:
        """Return XLA's name and this statistic, with the cut by log10BSGL that is asked for, if any."""
        name, own = super().reduction(task, engine)
        return name, own if task.toplist.lines is None else _MeanWithoutLines(task.toplist.lines)

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return the device memory per template, bytes: one segment's transforms, and the sum with its copies."""
        return Xla().template_bytes(layout, n_detectors, orbit) + 4 * FLOAT32 * layout.n_frequencies

    def n_averaged(self, data: FstatData) -> int:
        """Return the number of segments."""
        return data.series.shape[0]

    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Return means over segments; segments are transformed and added one after the other, in their order."""

        def add(total: jax.Array, own: FstatData) -> tuple[jax.Array, None]:
            return total + two_f_in_order(own, points, same_source), None

        shape = (points.alpha.shape[0], data.layout.n_frequencies)
        total, _ = jax.lax.scan(add, jnp.zeros(shape, jnp.float32), data)
        return where_counted(total * np.float32(1 / data.series.shape[0]), bins)

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, the mean of 2F, and the details that are wanted; see `Statistic.columns`."""
        columns = parameter_values(found) | {self.loudness({}): peaks.twoF.astype(np.float64)}
        if details.wanted:
            columns |= {x: y for x, y in exact_columns(task.data, found, details).items() if x not in columns}
        return columns

    def column_programs(self, data: FstatData, templates: Doppler, details: Details) -> Iterator[jax.stages.Lowered]:
        """Yield the programs of the details, if any are wanted."""
        if details.wanted:
            yield from semicoherent_programs(data, templates, details.with_amplitudes)

    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute all details of some candidates."""
        return semicoherent_columns(data, found, True)

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``mean_twoF``."""
        return "mean_twoF"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return the probability by the chi-squared distribution with 4 degrees of freedom per segment."""
        return alarm_of_loudest(columns[cls.loudness(meta)].max(), meta)


@dataclass(frozen=True)
class _MeanWithoutLines(MeanTwoF):
    """The mean of 2F where log10BSGL of the sums over segments is above a threshold; tallies count all values."""

    lines: LineCut

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return the device memory per template, bytes: each detector's transforms of a segment, and its sum."""
        return each_bytes(layout, n_detectors, orbit, n_sums=1)

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the largest means of a batch of templates that pass the cut, and tallies of all."""
        n_segments = self.n_averaged(data)
        total, each = summed_segments(data, points, same_source, no_sums(data, points), persistent)
        means = where_counted(total * np.float32(1 / n_segments), bins)
        above = log10_bsgl_of_sums(total, each, self.lines) >= self.lines.threshold
        found = loudest_means(data.layout, jnp.where(above, means, np.float32(-np.inf)), n_segments, keep)
        return found._replace(
            histogram=histogram_of_means(means, n_segments), sections=largest_of_sections_in_order(data.layout, means)
        )


def exact_columns(
    data: FstatData, found: Doppler, details: Details, frequencies: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return the exact mean of 2F of each candidate and the details that are wanted, (k,) float64 each.

    Parameters
    ----------
    data : FstatData
        Data with K segments.
    found : Doppler
        Stack of k candidates, NumPy leaves (k, ...).
    details : Details
    frequencies : (k, K) float64 ndarray, optional
        The frequency of each candidate in each segment, Hz, if it wanders.
    """
    kept = semicoherent_columns(data, found, details.with_amplitudes, frequencies)
    return semicoherent_details(kept, data.observation.detectors, data.n_segments or 0, details)
