"""Make the programs that follow up a batch of candidates, compile them at the same time, and run them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.compileroptions import Jitted
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import narrow_plan
from jfstat.data.workers import CompiledLater, compile_together, result_of_shape, results_of
from jfstat.followup.batches import (
    Climbing,
    climbing_for,
    compared_together,
    compressed_together,
    suited,
    wants_few_sizes,
    with_usual_size,
)
from jfstat.followup.climb import climb
from jfstat.followup.coverage import Shared
from jfstat.followup.focus import focus
from jfstat.followup.free import FreeParameters
from jfstat.followup.look import Surroundings, look
from jfstat.followup.method import Method
from jfstat.followup.neighbourhood import frequency_shifts, survey
from jfstat.followup.peak import Peak, describe
from jfstat.followup.results import CLIMBS, most_climbs
from jfstat.signal.templates import Doppler


def surveying(
    data: FstatData,
    points: Doppler,
    free: FreeParameters,
    mismatch: float,
    regions: tuple[Any, Any] | None,
    n: int,
) -> tuple[Jitted, tuple[Any, ...]]:
    """Return the program that surveys a batch of candidates, `survey`, and its arguments.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        As many templates as the batch has.
    free, mismatch, regions
        As in `survey`.
    n : int
        How many candidates there are in the batch.
    """
    size = len(points.alpha)
    seen = data.observation.in_few_sizes if wants_few_sizes(data, size) else data.observation
    own = seen, points, free, mismatch, regions, np.int32(n), compared_together(data, size)
    return suited(survey, data, size), own


class Programs(NamedTuple):
    """Programs for a batch of candidates, from their data to their peaks.

    Attributes
    ----------
    data : FstatData
    shared : Shared
    narrowing : tuple
        Arguments of `focus`: data, templates, reach and plan, and how many are computed together.
    climbing : Climbing
    method : Method
    """

    data: FstatData
    shared: Shared
    narrowing: tuple[Any, ...]
    climbing: Climbing
    method: Method

    @classmethod
    def of(
        cls,
        data: FstatData,
        points: Doppler,
        shared: Shared,
        n_trials: int,
        names: tuple[str, ...],
        method: Method,
    ) -> Programs:
        """Return the programs for a stack of candidates, with so many trial points each.

        Parameters
        ----------
        data : FstatData
        points : Doppler
            As many templates as a batch has.
        shared : Shared
        n_trials : int
        names : tuple of str
            Parameters to refine.
        method : Method
        """
        size, n_shifts = len(points.alpha), len(frequency_shifts(shared.bins, float(data.tspan)))
        plan = with_usual_size(narrow_plan(data, points, shared.reach), wants_few_sizes(data, size))
        # at other frequencies alone there are no other peaks to be told apart
        n_climbs = min(most_climbs(len(names)) if n_trials > 1 else CLIMBS, n_trials * n_shifts)
        climbing = climbing_for(data, size, plan.first.size, n_climbs, n_trials)
        narrowing = data.for_one_template, points, shared.reach, plan, compressed_together(data, size)
        return cls(data, shared, narrowing, climbing, method)

    @property
    def shifts(self) -> np.ndarray:
        """Frequency offsets at which 2F is computed at each trial point, Hz, (F,) float64."""
        return frequency_shifts(self.shared.bins, float(self.data.tspan))

    def lowered(self, around: Surroundings) -> Iterator[jax.stages.Lowered]:
        """Yield the programs that `run` needs, the longest first."""
        names, like, together = around.coordinates.names, self.data.series, self.climbing.candidates
        focused = self._suited(focus).lower(*self._narrowing(self._size))
        near = self._observation, results_of(focused, like)
        starts = result_of_shape((self._size, self.climbing.n_climbs, len(names)), np.float64, like)
        n = np.int32(self._size)
        climbed = self._climb.lower(*near, around, starts, n, *self._steps)
        yield climbed
        yield focused
        looked = self._suited(look).lower(*near, around, n, self.climbing)
        yield looked
        found = (results_of(x, like) for x in (looked, climbed))
        yield self._suited(describe).lower(*near, around, *found, n, together)

    def run(self, around: Surroundings, n: int, later: Sequence[CompiledLater] = ()) -> Peak:
        """Return the highest peak around each candidate.

        Parameters
        ----------
        around : Surroundings
        n : int
            How many candidates there are in the batch: results of rows that only fill it mean nothing.
        later : sequence of CompiledLater
            Programs that are needed later: Python lowers them while XLA still compiles these.
        """
        # at the same time, since XLA takes seconds for each program; a few milliseconds if already compiled
        compile_together(self.lowered(around), later)
        together = self.climbing.candidates
        near = self._observation, self._suited(focus)(*self._narrowing(-(-n // together) * together))
        filled = np.int32(n)
        looked = self._suited(look)(*near, around, filled, self.climbing)
        climbs = self._climb(*near, around, looked.starts, filled, *self._steps)
        return self._suited(describe)(*near, around, looked, climbs, filled, together)

    def _narrowing(self, n: int) -> tuple[Any, ...]:
        """Return the arguments of `focus` for the first n candidates."""
        return *self.narrowing[:-1], np.int32(n), self.narrowing[-1]

    @property
    def _size(self) -> int:
        return len(self.narrowing[1].alpha)

    @property
    def _observation(self) -> Any:
        return self.data.observation.without_times

    @property
    def _steps(self) -> tuple[Any, ...]:
        return self.climbing.candidates, self.method.max_steps, self.method.optimizer

    @property
    def _climb(self) -> Any:
        return suited(climb, self.data, self._size, 1)  # it takes most of the time

    def _suited(self, program: Any) -> Any:
        return suited(program, self.data, self._size)
