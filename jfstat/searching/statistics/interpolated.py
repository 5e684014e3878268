"""Search with the mean over segments of 2F read from the segments' own coarser lattices, as LALSuite's Weave does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.details import Details
from jfstat.candidates.semicoherent import semicoherent_columns, semicoherent_programs
from jfstat.candidates.tables import Meta
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.observation import Observation
from jfstat.engines.choice import NAMES, sums_for
from jfstat.engines.coherentbands import PAIR_BYTES
from jfstat.engines.engine import Reduction
from jfstat.public import public
from jfstat.searching.bank import stacked_bank
from jfstat.searching.division import Division
from jfstat.searching.driver.cost import seconds_of
from jfstat.searching.driver.devices import made_ready, run
from jfstat.searching.driver.interpolation import (
    LOOKUP_BYTES,
    bank_part,
    group_of,
    interpolation_division,
    largest_shift,
    planned_room,
)
from jfstat.searching.driver.mesh import gathered, spans_processes
from jfstat.searching.driver.nearest import located
from jfstat.searching.driver.part import Part
from jfstat.searching.options import Keep, Run
from jfstat.searching.reduce.tally import subband_edges
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Parts, Statistic, Task
from jfstat.searching.statistics.band import (
    alarm_of_loudest,
    check_ranking,
    check_segments,
    chi_squared_above,
    seconds_of_candidates,
)
from jfstat.searching.statistics.mean import exact_columns
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values
from jfstat.validation import is_number, shown

SAMPLE, MANY = 1024, 1 << 16
"""Numbers of templates whose sums, and whose nearest points, are timed to estimate the cost."""


@dataclass(frozen=True)
class Interpolated(Statistic):
    """Mean over segments of 2F, read for each template from the nearest template of each segment's own lattice.

    Each segment's 2F is computed at the points of a coarser lattice only, and read at the nearest of them and at the
    nearest frequency (Prix & Shaltev 2012, Phys. Rev. D 85, 084010; Wette 2015, Phys. Rev. D 92, 082003; LALSuite's
    Weave). On average the losses of both lattices add. Frequencies 1/(2T) apart, of the sum and of the segments,
    together lose 0.05 to 0.11 in the mean. Templates may be in binaries, as in BinaryWeave (Mukherjee, Prix & Wette
    2023, Phys. Rev. D 107, 062005): where segments resolve the period less than all of them together, many templates
    share a segment's values. Some bins at the edges of the band cannot be summed and do not count, so prepare the band
    a little wider. Candidates are the loudest of these sums, in the column ``mean_twoF_interpolated``. Their
    ``mean_twoF`` is computed exactly at their own parameters, and the table is sorted by it. Other columns are as for
    `MeanTwoF`. Meta has ``coherent_mismatch`` and ``n_coherent``, the number of segments' 2F values that enter the
    sums (Weave's ``NCOHTPL``), as planned for the whole search.

    Parameters
    ----------
    mismatch : float
        Largest mismatch between each template and the nearest template of a segment's own lattice, between 0 and 1, by
        the metric of the phase.

    Raises
    ------
    ValueError
        If `mismatch` is no number between 0 and 1.

    Examples
    --------
    >>> jfstat.Interpolated(0.2)
    Interpolated(mismatch=0.2)
    """

    plan_computes: ClassVar[bool] = True

    mismatch: float

    def __post_init__(self) -> None:
        if not (is_number(self.mismatch) and 0 < self.mismatch < 1):
            raise ValueError(f"mismatch must be a number between 0 and 1, not {shown(self.mismatch)}: try 0.1.")
        object.__setattr__(self, "mismatch", float(self.mismatch))

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data without segments, or for templates with a proper motion or a phase model."""
        check_segments(data, keep, self.name)
        check_ranking(data, keep, details)
        if not (stack.motion is None and stack.model is None):
            raise ValueError(
                f"{self.name} is for sources at rest with Taylor series of the phase: leave it out for templates with "
                "a proper motion or a phase model."
            )

    @public
    def margin(self, segments: Observation, bank: Doppler, fmax: float) -> float:
        """Return how far the segments' points lie from the templates in frequency at most; see `Statistic.margin`."""
        stack = stacked_bank(bank)
        reftime = segments.reftime.common if stack.reftime is None else stack.reftime.common
        return largest_shift(segments, stack, reftime, fmax, self.mismatch)

    def reduction(self, task: Task, engine: str | None) -> tuple[str, Reduction]:
        """Return the engine's sums of the segments' values; see `Statistic.reduction`."""
        sums = sums_for(device_of(task.data), engine)
        return sums.name, sums

    def division(self, task: Task, run: Run) -> Division:
        """Return parts of the bank whose segments' values fit into memory, and batches."""
        return interpolation_division(task, self.mismatch, run.engine, run.batch_size)

    def agreed_division(self, task: Task, own: Division) -> Division:
        """Return the division by the least memory and the engine that all processes have."""
        each = gathered([own.batch_size, planned_room(task.data, own), NAMES.index(own.engine)])
        if np.all(each == each[0]):
            return own
        size, least, slowest = int(each[:, 0].min()), int(each[:, 1].min()), int(each[:, 2].max())
        return interpolation_division(task, self.mismatch, NAMES[slowest], size, least)

    def parts(self, task: Task, division: Division, jobs: range, mesh: Mesh | None) -> Parts:
        """Yield the parts of the bank that the jobs belong to."""
        batches = division.batches[jobs.start : jobs.stop]
        for start, end in division.groups:
            own = batches[(batches[:, 0] >= start) & (batches[:, 0] < end)]
            if len(own):
                yield partial(self._part, task, division, start, end, mesh), own

    def _part(self, task: Task, division: Division, start: int, stop: int, mesh: Mesh | None) -> Part:
        """Return a part of the bank, with the segments' values that its templates need."""
        own = bank_part(task, self.mismatch, start, stop)
        edges = subband_edges(own.bands.layout).tolist()
        # devices of several processes take what they need from the host
        lookup = jax.tree.map(np.asarray, own.lookup) if spans_processes(mesh) else own.lookup
        _, sums = self.reduction(task, division.engine)
        return Part(own.bands, lookup, task.toplist, division, 0, 0, edges, sums, start, own.order)

    def seconds(self, task: Task, division: Division) -> float:
        """Return how long the segments' values, the lookup and the sums take, s, measured on the first templates."""
        start, stop = division.groups[0]
        stop = min(stop, start + SAMPLE)
        few = division._replace(batch_size=min(division.batch_size, stop - start))
        batches = np.array([[i, min(few.batch_size, stop - i)] for i in range(start, stop, few.batch_size)])
        list(run(made_ready(self._part(task, few, start, stop, None), batches), batches, lambda: 0))
        nearest = seconds_of(partial(self._look_up, task, start, stop))
        parts: list[Part] = []
        values = max(0.0, seconds_of(lambda: parts.append(self._part(task, few, start, stop, None))) - nearest)
        n_coherent = len(np.unique(parts[0].stack.rows))  # type: ignore[union-attr]
        ready = made_ready(parts.pop(), batches)
        sums = seconds_of(lambda: list(run(ready, batches, lambda: 0)))
        coherent = values * (division.n_coherent or 0) / n_coherent
        # lattices take time for each part and nearest points for each template, both twice unless the division's
        # lookups are kept
        first, last = division.groups[0][0], min(division.groups[0][1], start + MANY)
        self._look_up(task, first, last)  # compiled
        more = seconds_of(partial(self._look_up, task, first, last)) - nearest
        each = max(0.0, more) / max(1, last - stop)
        n = len(task.stack.alpha)
        kept = PAIR_BYTES * (task.data.n_segments or 1) * n <= LOOKUP_BYTES
        points = (1 if kept else 2) * (nearest * len(division.groups) + each * n)
        return coherent + points + sums * n / (stop - start)

    def _look_up(self, task: Task, start: int, stop: int) -> None:
        """Look up the points nearest to some templates in all segments' lattices."""
        group = group_of(task.stack, start, stop, device_of(task.data))
        located(task.data, group, task.reftime, self.mismatch)

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, the interpolated mean of 2F, the exact one, and the details that are wanted."""
        columns = parameter_values(found) | {self.loudness({}): peaks.twoF.astype(np.float64)}
        return columns | exact_columns(task.data, found, details)

    def column_programs(self, data: FstatData, templates: Doppler, details: Details) -> Iterator[jax.stages.Lowered]:
        """Yield the programs of the exact mean and the details."""
        yield from semicoherent_programs(data, templates, details.with_amplitudes)

    def candidate_seconds(self, task: Task, n_values: float) -> float:
        """Return how long the columns take, s, for as many candidates as noise gives in a number of values."""
        compute = partial(semicoherent_columns, task.data, amplitudes=True)
        return seconds_of_candidates(task, compute, chi_squared_above(task, n_values))

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the mismatch, and the number of values in segments."""
        if division.n_coherent is None:
            return {"coherent_mismatch": self.mismatch}
        n_coherent = division.n_coherent * task.data.layout.n_frequencies
        return {"coherent_mismatch": self.mismatch, "n_coherent": n_coherent}

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``mean_twoF_interpolated``."""
        return "mean_twoF_interpolated"

    @classmethod
    def sorted_by(cls, meta: Meta) -> str:
        """Return ``mean_twoF``, which is computed again for each candidate."""
        return "mean_twoF"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return the probability by the chi-squared distribution with 4 degrees of freedom per segment."""
        return alarm_of_loudest(columns[cls.loudness(meta)].max(), meta)
