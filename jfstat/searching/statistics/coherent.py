"""Search with the coherent F-statistic, 2F of all data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from jfstat.candidates.details import Details, column_programs, detail_columns, kept_columns
from jfstat.candidates.tables import Meta
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.engines.choice import engine_for
from jfstat.engines.engine import Engine
from jfstat.searching.options import Keep
from jfstat.searching.reduce.toplist import Peaks
from jfstat.searching.statistic import Task
from jfstat.searching.statistics.band import BandStatistic, alarm_of_loudest, check_ranking, check_whole
from jfstat.signal.templates import Doppler
from jfstat.signal.values import columns as parameter_values


@dataclass(frozen=True)
class TwoF(BandStatistic):
    """Coherent 2F of all data, the default statistic of `search` for data without segments.

    The column ``twoF`` holds its values, as from `twoF_band`; `Details` adds ``twoF_H1``, ..., ``log10BSGL`` and
    amplitudes. ``false_alarm`` of the table's meta is the probability that the loudest value in noise alone is as loud,
    an upper bound because values are correlated.
    """

    joins_side_lobes: ClassVar[bool] = True

    def check(self, data: FstatData, stack: Doppler, keep: Keep, details: Details) -> None:
        """Raise a ValueError for data with segments, or a ranking that is impossible."""
        check_whole(data, self.name)
        check_ranking(data, keep, details)

    def reduction(self, task: Task, engine: str | None) -> tuple[str, Engine]:
        """Return the engine, which reduces 2F itself; XLA if lines are vetoed. See `Statistic.reduction`."""
        if task.toplist.bands is not None:
            if engine not in (None, "xla"):
                raise ValueError(f"engine {engine!r} cannot veto lines: use the engine 'xla', or None.")
            engine = "xla"
        chosen = engine_for(task.data, engine, task.toplist.lines)
        return chosen.name, chosen

    def check_part(self, engine: str, reduction: Any, data: FstatData) -> None:
        """Raise a ValueError if the engine cannot transform a part of the band."""
        if not reduction.usable(data.layout, device_of(data)):
            raise ValueError(
                f"engine {engine!r} cannot transform a part of the band, of {data.layout.n_fft} samples: use the "
                "engine 'xla'."
            )

    def columns(self, task: Task, found: Doppler, peaks: Peaks, details: Details) -> dict[str, np.ndarray]:
        """Return parameters, 2F, and the details that are wanted; see `Statistic.columns`."""
        columns = parameter_values(found) | {"twoF": peaks.twoF.astype(np.float64)}
        if details.wanted:
            kept = kept_columns(task.data, found, details.with_amplitudes)
            columns |= detail_columns(kept, task.data.detectors, columns["twoF"], details)
        return columns

    def column_programs(self, data: FstatData, templates: Doppler, details: Details) -> Iterator[jax.stages.Lowered]:
        """Yield the programs of the details, if any are wanted."""
        if details.wanted:
            yield from column_programs(data, templates, details.with_amplitudes)

    def compute(self, data: FstatData, found: Doppler) -> object:
        """Compute all details of some candidates."""
        return kept_columns(data, found, True)

    @classmethod
    def loudness(cls, meta: Meta) -> str:
        """Return ``twoF``."""
        return "twoF"

    @classmethod
    def false_alarm(cls, columns: dict[str, np.ndarray], meta: Meta) -> float | None:
        """Return the probability by the chi-square distribution with 4 degrees of freedom."""
        return alarm_of_loudest(columns["twoF"].max(), meta)
