"""Search with log10 B_S/GL, robust against persistent lines in one detector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import numpy as np

from jfstat.candidates.details import Details, column_programs, detail_columns, kept_columns
from jfstat.candidates.semicoherent import semicoherent_columns, semicoherent_programs
from jfstat.data.fstatdata import FstatData
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import check_segments
from jfstat.searching.statistics.linerobust import (
    LineRobust,
    log10_bsgl_of_sums,
    no_sums,
    persistent,
    summed_segments,
)
from jfstat.searching.statistics.mean import exact_columns
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values


@dataclass(frozen=True)
class BSGL(LineRobust):
    """log10 odds of a signal against Gaussian noise or a line in one detector, for data of several detectors.

    Of all templates and frequencies those with the largest odds are kept, as by ComputeFstatistic_v2's
    ``--RankingStatistic=BSGL``. ``Keep(ranking="BSGL")`` and jfstat's option of that name, in contrast, sort the
    loudest in 2F. With F and F_X those of all detectors and of each, F*_0 the transition scale, o_X the odds of lines
    and o their sum, ln B = F - ln(exp(F*_0) + sum_X o_X exp(F_X)) + ln(1 + o) (Keitel, Prix, Papa, Leaci & Siddiqi
    2014, Phys. Rev. D 89, 064023; LALSuite's XLALComputeBSGL). Over segments the F are sums, to which a detector
    without data in a segment adds nothing. The transforms of each detector are needed, so with two detectors a search
    takes two and a half times as long as with `MeanTwoF`, and three and a half times as with `TwoF` (on a CPU); only
    XLA can do it.

    The column ``log10BSGL`` holds its values, computed in float32: to some 1e-3 where 2F is large. ``twoF``, or
    ``mean_twoF``, and the columns of `Details` are as for the usual statistic, with this prior of lines.
    ``twoF_histogram`` counts 2F or its mean; ``loudest_per_subband`` holds this statistic. Its distribution in noise is
    not known in closed form, so ``false_alarm`` is None.

    Parameters
    ----------
    line_prior : LinePrior, optional
        Transition scale, of the sum over segments if there are any, and prior odds of lines.

    Raises
    ------
    TypeError
        If `line_prior` is of another kind.

    Examples
    --------
    >>> jfstat.BSGL(jfstat.LinePrior(fstar0=20.0))
    BSGL(line_prior=LinePrior(fstar0=20.0, olgx=None))
    """

    cannot: ClassVar[str] = "rank by log10BSGL"
    quantity: ClassVar[str] = "log10BSGL"
    loudest: ClassVar[str] = "largest log10BSGL"

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data of one detector, and for another ranking or a second threshold."""
        if keep.bsgl_threshold is not None:
            raise ValueError(f"bsgl_threshold does not go with {self.name}: give threshold, which is on log10BSGL.")
        if data.n_segments is not None:
            check_segments(data, keep, self.name)
        super().check(data, stack, keep, details)

    def odds_and_sums(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[jax.Array, jax.Array]:
        """Return log10 of the odds and the sums over segments of 2F, (B, n_frequencies) float32 each."""
        total, each = summed_segments(data, points, same_source, no_sums(data, points), persistent)
        return log10_bsgl_of_sums(total, each, self.line_prior), total

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, the statistic, exact 2F or its mean, and the details that are wanted."""
        own = {"log10BSGL": peaks.twoF.astype(np.float64)}
        details = replace(details, line_prior=self.line_prior)
        if task.data.n_segments is None:
            kept = kept_columns(task.data, found, details.with_amplitudes)
            exact = {"twoF": kept["twoF"]} | detail_columns(kept, task.data.detectors, kept["twoF"], details)
        else:
            exact = exact_columns(task.data, found, details)
        return parameter_values(found) | own | {name: x for name, x in exact.items() if name not in own}

    def column_programs(self, data: FstatData, templates: Doppler, details: Details) -> Iterator[jax.stages.Lowered]:
        """Yield the programs of exact 2F and the details."""
        programs = column_programs if data.n_segments is None else semicoherent_programs
        yield from programs(data, templates, details.with_amplitudes)

    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute all details of some candidates."""
        return (kept_columns if data.n_segments is None else semicoherent_columns)(data, found, True)
