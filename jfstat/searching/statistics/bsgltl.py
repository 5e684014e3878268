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
from jfstat.data.fstatdata import FstatData
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import check_segments
from jfstat.searching.statistics.linerobust import LineRobust, no_sums, persistent, summed_segments
from jfstat.searching.statistics.mean import exact_columns
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values


@dataclass(frozen=True)
class BSGLtL(LineRobust):
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
        lines. The scale must be above the sum that noise has: with 0, the default, a line in one segment never exceeds
        the sum over all, and the statistic is that of `BSGL` plus 0 to log10(2).

    Raises
    ------
    TypeError
        If `line_prior` is of another kind.

    Examples
    --------
    >>> jfstat.BSGLtL(jfstat.LinePrior(fstar0=20.0))
    BSGLtL(line_prior=LinePrior(fstar0=20.0, olgx=None))
    """

    cannot: ClassVar[str] = "compute log10BSGLtL"
    quantity: ClassVar[str] = "log10BSGLtL"
    loudest: ClassVar[str] = "largest log10BSGLtL"
    n_sums: ClassVar[int] = 2

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data without segments or of one detector, and for another ranking."""
        check_segments(data, keep, self.name)
        super().check(data, stack, keep, details)

    def odds_and_sums(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[jax.Array, jax.Array]:
        """Return log10 of the odds and the sums over segments of 2F, (B, n_frequencies) float32 each."""
        n_segments, n_detectors = data.n_segments or 1, len(data.detectors)

        def add(sums: tuple[jax.Array, jax.Array], own: jax.Array) -> tuple[jax.Array, jax.Array]:
            steady, transient = sums
            return persistent(steady, own), jnp.logaddexp(transient, own)

        nothing = no_sums(data, points), no_sums(data, points, -math.inf)
        total, (steady, transient) = summed_segments(data, points, same_source, nothing, add)
        odds, scale = self.line_prior.odds(n_detectors), self.line_prior.fstar0
        gaussian = scale - math.log1p(sum(odds))
        one_segment = (0.0 if n_segments == 1 else scale * (n_segments - 1) / n_segments) - math.log(n_segments)
        others = jnp.full_like(total, gaussian)
        for i, odd in enumerate(odds):
            prior = math.log(odd) - math.log1p(sum(odds)) - math.log(2) if odd > 0 else -math.inf
            others = jnp.logaddexp(others, prior + steady[:, i])
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
