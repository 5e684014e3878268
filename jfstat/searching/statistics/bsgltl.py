"""Search with log10 B_S/GLtL over segments, robust against persistent lines and lines in a single segment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.semicoherent import semicoherent_columns, semicoherent_programs
from jfstat.candidates.tables import Meta
from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.engines.engine import Loudest
from jfstat.engines.reduction import histogram_of_means, loudest_means
from jfstat.engines.xla import Xla, two_f_each_in_order
from jfstat.searching.division import Division
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import XlaStatistic, check_segments
from jfstat.searching.statistics.mean import exact_columns
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.statistic.bins import counts
from jfstat.statistic.linerobust import LineCut, LinePrior
from jfstat.validation import shown


@dataclass(frozen=True)
class BSGLtL(XlaStatistic):
    """log10 odds of a signal against Gaussian noise, a line in one detector, or a line in one segment of a detector.

    This statistic is for data with segments of several detectors. A line in one detector does not raise it, be it there
    for all segments or for a single one, whereas the mean of 2F would fill the table with both. With F and F_X the sums
    of 2F/2 over the N segments, for all detectors and for each, F*_0 the transition scale of the sum, o_X the odds of
    lines, o their sum, C = F*_0 - ln(1 + o) and p_X = o_X/(1 + o), ln B = F - ln(exp(C) + sum_X p_X/2 [exp(F_X) + 1/N
    sum_l exp(F_Xl + (N - 1)/N F*_0)]). N counts all segments, also those in which a detector has no data (Keitel 2016,
    Phys. Rev. D 93, 084024, equation 23; LALSuite's XLALComputeBSGLtL takes the largest term of the sum in place of the
    sum). The transforms of each detector are needed, so with two detectors a search takes about twice as long as with
    `MeanTwoF`.

    The column ``log10BSGLtL`` holds its values, computed in float32: to some 1e-3 where 2F is large. ``mean_twoF`` and
    the columns of `Details` are as for `MeanTwoF`, with this prior of lines.
    ``twoF_histogram`` counts the mean of 2F; ``loudest_per_subband`` holds this statistic. Its distribution in noise is
    not known in closed form, so ``false_alarm`` is None.

    Parameters
    ----------
    line_prior : LinePrior, optional
        Transition scale of the sum over segments, and prior odds of lines, half for persistent and half for transient
        lines.

    Raises
    ------
    TypeError
        If `line_prior` is of another kind.

    Examples
    --------
    >>> jfstat.BSGLtL(jfstat.LinePrior(fstar0=20.0))
    BSGLtL(line_prior=LinePrior(fstar0=20.0, olgx=None))
    """

    band_in_parts: ClassVar[bool] = False
    cannot: ClassVar[str] = "compute log10BSGLtL"
    quantity: ClassVar[str] = "log10BSGLtL"
    loudest: ClassVar[str] = "largest log10BSGLtL"

    line_prior: LinePrior = LinePrior()

    def __post_init__(self) -> None:
        if not isinstance(self.line_prior, LinePrior):
            raise TypeError(f"line_prior must be a jfstat.LinePrior, not {shown(self.line_prior)}.")

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data without segments or of one detector, and for another ranking."""
        check_segments(data, keep, self.name)
        self.line_prior.odds(len(data.detectors))
        if details.line_prior not in (None, self.line_prior):
            raise ValueError(f"line_prior of Details differs from the one of {self.name}: leave it out of Details.")
        if keep.ranking != "F":
            raise ValueError(f"ranking {keep.ranking!r} does not go with {self.name}, which its table is sorted by.")

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return the device memory per template, bytes: each detector's transforms of a segment, and running sums with
        copies."""
        # with a cut by log10BSGL, XLA holds each detector's transforms too
        transforms = Xla(LineCut(0.0, 0.0, ())).template_bytes(layout, n_detectors, orbit)
        return transforms + (4 + 6 * n_detectors) * FLOAT32 * layout.n_frequencies

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the largest values of a batch of templates, and tallies with a histogram of the mean of 2F."""
        odds, total = self._odds_and_sums(data, points, same_source)
        n_segments = data.series.shape[0]
        number = jnp.arange(total.shape[1], dtype=jnp.int32)
        counted = counts(number, *bins[:, :, None])
        found = loudest_means(data.layout, jnp.where(counted, odds, np.float32(-np.inf)), 1, keep)
        means = jnp.where(counted, total * np.float32(1 / n_segments), np.float32(-np.inf))
        return found._replace(histogram=histogram_of_means(means, n_segments))

    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Return values at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""
        odds, _ = self._odds_and_sums(data, points, same_source)
        number = jnp.arange(odds.shape[1], dtype=jnp.int32)
        return jnp.where(counts(number, *bins[:, :, None]), odds, np.float32(-np.inf))

    def _odds_and_sums(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[jax.Array, jax.Array]:
        """Return log10 of the odds and the sums over segments of 2F, (B, n_frequencies) float32 each.

        One segment after the other is transformed and added, so that the segments' values need not be kept.
        """
        n_segments, n_detectors = data.series.shape[0], len(data.detectors)
        shape = (points.alpha.shape[0], n_detectors, data.layout.n_frequencies)

        def add(sums: tuple[jax.Array, ...], own: FstatData) -> tuple[tuple[jax.Array, ...], None]:
            total, persistent, transient = sums
            twoF, each = two_f_each_in_order(own, points, same_source)
            there = jnp.any(own.observation.weight > 0, axis=-1)[None, :, None]  # a detector without data adds nothing
            persistent = persistent + jnp.where(there, 0.5 * each, 0.0)
            transient = jnp.where(there, jnp.logaddexp(transient, 0.5 * each), transient)
            return (total + twoF, persistent, transient), None

        nothing = jnp.zeros((shape[0], shape[2]), jnp.float32), jnp.zeros(shape, jnp.float32)
        (total, persistent, transient), _ = jax.lax.scan(add, (*nothing, jnp.full(shape, -jnp.inf, jnp.float32)), data)
        odds, scale = self.line_prior.odds(n_detectors), self.line_prior.fstar0
        gaussian = scale - math.log1p(sum(odds))
        one_segment = (0.0 if n_segments == 1 else scale * (n_segments - 1) / n_segments) - math.log(n_segments)
        others = jnp.full_like(total, gaussian)
        for i, odd in enumerate(odds):
            prior = math.log(odd) - math.log1p(sum(odds)) - math.log(2) if odd > 0 else -math.inf
            others = jnp.logaddexp(others, prior + persistent[:, i])
            others = jnp.logaddexp(others, prior + one_segment + transient[:, i])
        return (0.5 * total - others) * np.float32(1 / math.log(10)), total

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, the statistic, the exact mean of 2F, and the details that are wanted."""
        columns = parameter_values(found) | {self.loudness({}): peaks.twoF.astype(np.float64)}
        return columns | exact_columns(task.data, found, replace(details, line_prior=self.line_prior))

    def column_programs(self, data: FstatData, templates: Doppler, details: Details) -> Iterator[jax.stages.Lowered]:
        """Yield the programs of the exact mean and the details."""
        yield from semicoherent_programs(data, templates, details.with_amplitudes)

    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute all details of some candidates."""
        return semicoherent_columns(data, found, True)

    def expected_in_noise(self, task: Task, n_values: float) -> float:
        """Return the number of all values, of which an unknown share is above a threshold."""
        return n_values

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the prior of lines, by ComputeFstatistic_v2's names."""
        return dict(self.line_prior.meta)

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``log10BSGLtL``."""
        return "log10BSGLtL"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return None: the distribution in noise is not known in closed form."""
