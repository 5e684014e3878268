"""Define the interface of all statistics: what a search asks of the statistic whose loudest values it keeps.

A statistic is one file in `jfstat.searching.statistics`: a frozen dataclass that derives from `Statistic`, or, where
XLA computes its values at the frequencies of the band, from `statistics.band.BandStatistic`; and one line in
`statistics.STATISTICS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jfstat.candidates.details import Details
from jfstat.candidates.tables import Meta
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.engines.engine import Reduction
from jfstat.searching.bank import check_all_fit
from jfstat.searching.division import Division
from jfstat.searching.driver.part import Part
from jfstat.searching.options import Keep, Run
from jfstat.searching.reduce.tally import HISTOGRAM_EDGES
from jfstat.searching.reduce.toplist import Peaks, Toplist
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime

Parts = Iterator[tuple[Callable[[], Part], np.ndarray]]
"""Functions that make each part of a search, with its batches: first template and number of templates, (n, 2)."""


class Statistic(ABC):
    """Interface of what a search computes at each template and frequency, and of the columns and meta it adds to the
    table.

    Methods are asked in this order: `check`, `division`, `parts` (with `reduction` for what is computed on the device),
    `columns` and `meta`; then, of the table alone, because `merge` has nothing else, `loudness`, `sorted_by` and
    `false_alarm`.

    Attributes
    ----------
    takes : type
        Kind of data that it is computed from: FstatData, or another that is `data.protocol.Searchable`.
    quantity, loudest, computed : str
        In messages: what a threshold is on, the largest value of a search, and what it computes values of.
    joins_side_lobes : bool
        Whether `Keep.cluster` also joins what one signal explains, see `clusters.explained`.
    plan_computes : bool
        Whether `division` takes so long that other programs should be compiled meanwhile.
    columns_in_parts : bool
        Whether `columns` may be called for some candidates at a time: not where they share work.
    """

    takes: ClassVar[type] = FstatData
    quantity: ClassVar[str] = "2F"
    loudest: ClassVar[str] = "largest 2F"
    computed: ClassVar[str] = "2F"
    joins_side_lobes: ClassVar[bool] = False
    plan_computes: ClassVar[bool] = False
    columns_in_parts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Name of the statistic in tables and checkpoints."""
        return type(self).__name__

    # What it needs

    @abstractmethod
    def check(self, data: Any, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data, templates or options that do not go with this statistic."""

    def check_bank(self, data: Any, stack: Doppler) -> None:
        """Raise a ValueError for the first template that is impossible or does not fit the data."""
        check_all_fit(data, stack)

    def threshold(self, value: float | None) -> float | None:
        """Return a threshold on what `Reduction.reduced` gives, from a user's threshold on the column that `loudness`
        names."""
        return value

    def as_column(self, values: np.ndarray) -> np.ndarray:
        """Return values as the column that `loudness` names has them, from what `Reduction.reduced` gives."""
        return values

    def margin(self, segments: Observation, bank: Doppler, fmax: float) -> float:
        """Return how much wider a band must be on either side for all its frequencies to be searched, Hz.

        Parameters
        ----------
        segments : Observation
            From `segment_observations`, or `observation` for a search without segments.
        bank : Doppler
            A stack, as from `template_bank`.
        fmax : float
            Highest frequency of the band, Hz.
        """
        return 0.0

    def line_margin(self, data: Any) -> float:
        """Return how far from its band a line still affects values, Hz."""
        return 0.0

    def identity(self, data: Any) -> dict[str, Any]:
        """Return what distinguishes a search from others besides the data's samples, by name, as JSON can hold it."""
        return {}

    # What is computed, and how it is divided

    @abstractmethod
    def reduction(self, task: Task, engine: str | None) -> tuple[str, Reduction]:
        """Return the name of the engine, by default the fastest usable one, and the reduction that computes a batch
        with it.

        Raises
        ------
        ValueError
            If there is no such engine, or it cannot be used.
        """

    @abstractmethod
    def division(self, task: Task, run: Run) -> Division:
        """Return how the search is divided, and how much memory it needs.

        Raises
        ------
        ValueError
            If the device's memory is too small, or the engine cannot be used.
        """

    @abstractmethod
    def agreed_division(self, task: Task, own: Division) -> Division:
        """Return one division that fits into the memory of every process; all processes must call this."""

    @abstractmethod
    def parts(self, task: Task, division: Division, jobs: range, mesh: Mesh | None) -> Parts:
        """Return the parts of a search that some of its jobs belong to.

        Job j is batch j % n of part j // n of the band, n being the number of batches.
        """

    @abstractmethod
    def seconds(self, task: Task, division: Division) -> float:
        """Return how long the batches take on one device, s, measured on some of them; see `driver.cost`."""

    # The table

    @abstractmethod
    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return the columns of the candidates, (k,) each, in the order of the peaks, before they are clustered.

        Parameters
        ----------
        task : Task
        found : Doppler
            The templates with their frequencies, NumPy leaves (k, ...).
        peaks : Peaks
            Values of the candidates as `Reduction.reduced` gives them.
        details : Details
        """

    def column_programs(self, data: Any, templates: Doppler, details: Details) -> Iterator[jax.stages.Lowered]:
        """Yield the programs that `columns` will run for candidates among some templates, to be compiled early."""
        yield from ()

    @abstractmethod
    def candidate_seconds(self, task: Task, n_values: float) -> float:
        """Return how long `columns` takes, s, for as many candidates as noise gives in a number of values."""

    def histogram_edges(self, n_segments: int | None) -> np.ndarray:
        """Return the lower edges of the histogram's bins: as wide as for 2F, divided by sqrt(n_segments)."""
        return 4 + (HISTOGRAM_EDGES - 4) / np.sqrt(n_segments or 1)

    def meta(self, task: Task, division: Division) -> Meta:
        """Return the entries of a table's meta that only this statistic has, besides its name."""
        return {}

    @classmethod
    @abstractmethod
    def loudness(cls, meta: Meta) -> str:
        """Return the name of the column with the values whose loudest the search kept, given the meta of a table."""

    @classmethod
    def sorted_by(cls, meta: Meta) -> str:
        """Return the name of the column that the table is sorted by."""
        return cls.loudness(meta)

    @classmethod
    @abstractmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return the probability that the loudest value of a whole search in noise is as loud; None if it is not known.

        Parameters
        ----------
        columns : dict of (k,) ndarrays
            Columns of at least one candidate.
        meta : dict
        """


class Task(NamedTuple):
    """Data, bank and options of a search.

    Attributes
    ----------
    data : Searchable
        Of the kind that the statistic takes.
    stack : Doppler
        The bank, NumPy leaves of one leading axis.
    statistic : Statistic
    toplist : Toplist
        Which values are kept.
    memo : dict or None
        Results of `Statistic.division` that `Statistic.parts` will use. None if nothing is kept, as when only the cost
        is wanted.
    progress : bool
        Whether `Statistic.columns` shows the progress of long work.
    """

    data: Any
    stack: Doppler
    statistic: Statistic
    toplist: Toplist
    memo: dict[Any, Any] | None = None
    progress: bool = False

    @property
    def reftime(self) -> GPSTime:
        """GPS time at which the templates hold."""
        reftime = self.stack.reftime
        return self.data.observation.reftime.common if reftime is None else reftime.common
