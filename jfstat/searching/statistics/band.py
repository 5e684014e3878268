"""Share what all statistics searched over parts of the band have in common, and what XLA's have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.details import Details
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.tables import Meta
from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.subband import subband
from jfstat.engines.choice import xla_only
from jfstat.engines.engine import BandReduction, InBand, Loudest
from jfstat.engines.reduction import loudest_means
from jfstat.engines.xla import Xla
from jfstat.geometry.doppler import largest_doppler_speed
from jfstat.searching.division import Division
from jfstat.searching.driver.banddivision import band_division
from jfstat.searching.driver.cost import seconds_a_batch, seconds_a_candidate
from jfstat.searching.driver.mesh import gathered
from jfstat.searching.driver.part import Part
from jfstat.searching.options import Keep, Run
from jfstat.searching.reduce.tally import subband_edges
from jfstat.searching.statistic import Parts, Statistic, Task
from jfstat.signal.templates import Doppler
from jfstat.statistic.bins import counts


class BandStatistic(Statistic):
    """A statistic whose search is divided into batches of the bank and, if the device's memory requires it, into parts
    of the band, which data with segments cannot be cut into.
    """

    @abstractmethod
    def reduction(self, task: Task, engine: str | None) -> tuple[str, BandReduction]:
        """Return the name of the engine and the reduction that computes a batch with it; see `Statistic.reduction`."""

    def division(self, task: Task, run: Run) -> Division:
        """Return parts of the band that fit into memory, and batches; see `Statistic.division`."""
        chosen = self.reduction(task, run.engine)
        return band_division(task, *chosen, run.batch_size, None if task.data.n_segments is None else 1)

    def agreed_division(self, task: Task, own: Division) -> Division:
        """Return the division with the smallest batches and the most parts of all processes."""
        each = gathered([own.batch_size, len(own.bands)])
        if np.all(each == each[0]):
            return own
        chosen = self.reduction(task, own.engine)
        return band_division(task, *chosen, int(each[:, 0].min()), int(each[:, 1].max()))

    def parts(self, task: Task, division: Division, jobs: range, mesh: Mesh | None) -> Parts:
        """Yield the parts of the band that the jobs belong to; see `Statistic.parts`."""
        batches = division.batches
        for number in range(len(division.bands)):
            begin, end = (min(max(job - number * len(batches), 0), len(batches)) for job in (jobs.start, jobs.stop))
            if begin < end:
                yield partial(self._part, task, division, number), batches[begin:end]

    def _part(self, task: Task, division: Division, number: int) -> Part:
        """Return a part of the band with its data."""
        data, stack = task.data, task.stack
        first, n_frequencies = division.bands[number]
        whole = len(division.bands) == 1 and bool(data.filters)
        name, reduction = self.reduction(task, division.engine)
        if not whole and data.n_segments is not None:
            raise ValueError(
                "data with segments must have filters to be searched: prepare a narrower band, with filters."
            )
        own = data if whole else subband(data, first, n_frequencies, _margin(data, stack))
        self.check_part(name, reduction, own)
        first_new = division.first_new(number)
        edges = np.maximum(first + subband_edges(own.layout), first_new).tolist()
        return Part(own, stack, task.toplist, division, first, first_new, edges, reduction)

    def check_part(self, engine: str, reduction: Any, data: FstatData) -> None:
        """Raise a ValueError if a part of the band cannot be computed."""

    def seconds(self, task: Task, division: Division) -> float:
        """Return how long all batches take, s, measured on the first few."""
        return seconds_a_batch(partial(self._part, task, division, 0), division.batches) * division.n_jobs

    def candidate_seconds(self, task: Task, n_values: float) -> float:
        """Return how long the columns take, s, for as many candidates as noise gives in a number of values."""
        return seconds_of_candidates(task, partial(self.compute, task.data), self.expected_in_noise(task, n_values))

    def expected_in_noise(self, task: Task, n_values: float) -> float:
        """Return the mean number of values at or above the threshold in noise, given the number of all values."""
        return chi_squared_above(task, n_values)

    @abstractmethod
    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute what `columns` needs for each of some candidates, for timing."""


class XlaStatistic(BandStatistic, InBand):
    """A statistic whose values at the frequencies of the band are computed by XLA for a batch of templates.

    It is its own `engines.engine.Reduction`. A statistic gives `values`, and `template_bytes` for its memory; if its
    values are no means of 2F over `n_averaged` segments, it overrides `reduced` so that the histogram is of such means,
    whose bins `Statistic.histogram_edges` describes (`linerobust.py`). Values of all batches are computed in the same
    way, so that results do not depend on how a search is divided.

    Attributes
    ----------
    cannot : str
        What engines other than XLA cannot do, for error messages.
    """

    cannot: ClassVar[str]

    def reduction(self, task: Task, engine: str | None) -> tuple[str, BandReduction]:
        """Return XLA's name and this statistic; see `Statistic.reduction`."""
        return xla_only(engine, self.cannot).name, self

    def largest_batch(self, layout: Layout) -> int:
        """Return the number of templates whose values can be indexed with 32 bits."""
        return min(Xla().largest_batch(layout), (2**31 - 1) // layout.n_frequencies)

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """Return 0, since the data's own filters are used."""
        return 0

    def ready(self, data: FstatData) -> FstatData:
        """Return the data as they are."""
        return data

    @abstractmethod
    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return an upper limit of the device memory per template of a batch."""

    def reduced(self, data: FstatData, points: Doppler, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the largest values of a batch of templates, and tallies; see `Reduction.reduced`."""
        return loudest_means(data.layout, self.values(data, points, bins, same_source), self.n_averaged(data), keep)

    def n_averaged(self, data: FstatData) -> int:
        """Return how many values of 2F each value is the mean of, for the histogram; traceable."""
        return 1

    @abstractmethod
    def values(self, data: FstatData, points: Doppler, bins: jax.Array, same_source: bool) -> jax.Array:
        """Return values at the frequencies of the band, (B, n_frequencies) float32; -inf where none counts."""


def where_counted(values: jax.Array, bins: jax.Array) -> jax.Array:
    """Return values at the frequencies of the band, (B, n_frequencies), with -inf where none counts."""
    number = jnp.arange(values.shape[1], dtype=jnp.int32)
    return jnp.where(counts(number, *bins[:, :, None]), values, np.float32(-np.inf))


def _margin(data: FstatData, stack: Doppler) -> float:
    """Return how far orbits move signals, Hz, whether `prepare` was told of them or not."""
    return 0.0 if stack.orbit is None else float(largest_doppler_speed(stack.orbit) * data.frequencies[-1])


def check_ranking(data: FstatData | NarrowData, keep: Keep, details: Details) -> None:
    """Raise a ValueError for a ranking by log10BSGL that is impossible."""
    if keep.ranking == "BSGL" and (not details.per_detector or len(data.detectors) < 2):
        raise ValueError("ranking 'BSGL' needs several detectors and per_detector: log10BSGL compares them.")


def check_segments(data: FstatData, keep: Keep, name: str, cuts: bool = False) -> None:
    """Raise a ValueError for data without segments, and for options that do not go with a statistic of segments, one
    that `cuts` by log10BSGL or not."""
    if data.n_segments is None:
        raise ValueError(f"{name} is for data with segments: prepare with segments=.")
    if keep.veto_lines:
        raise ValueError("veto_lines is for data without segments: leave it out.")
    if keep.bsgl_threshold is not None and not cuts:
        raise ValueError(f"bsgl_threshold does not go with {name}: search with MeanTwoF, or leave it out.")


def check_whole(data: FstatData, name: str) -> None:
    """Raise a ValueError for data with segments."""
    if data.n_segments is not None:
        raise ValueError(f"{name} is for data without segments: prepare without segments=.")


def alarm_of_loudest(loudest: float, meta: Meta) -> float:
    """Return the false-alarm probability of the largest 2F, or mean of 2F over segments, of a whole search in noise."""
    return float(false_alarm(loudest, meta["n_twoF"], meta.get("n_segments") or 1))


def chi_squared_above(task: Task, n_values: float) -> float:
    """Return how many values of 2F, or of its mean over segments, reach the threshold in noise, of so many."""
    return float(false_alarm(task.toplist.threshold or 0.0, 1, task.data.n_segments or 1)) * n_values


def seconds_of_candidates(task: Task, compute: Callable[[Doppler], object], in_noise: float) -> float:
    """Return how long a function takes, s, for as many candidates as there are in noise, of which `top` are kept."""
    top = np.inf if task.toplist.top is None else task.toplist.top
    return seconds_a_candidate(compute, task.stack) * min(in_noise, top)
