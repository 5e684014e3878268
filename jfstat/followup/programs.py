"""Make the programs that follow up a batch of candidates, compile them at the same time, and run them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.compileroptions import Jitted
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import narrow_plan
from jfstat.data.workers import CompiledLater, compile_together, result_of_shape, results_of
from jfstat.followup.batches import (
    Climbing,
    are_small,
    climbing_for,
    compared_together,
    compressed_together,
    described_together,
    reaches,
    suited,
    wants_few_sizes,
    with_usual_size,
)
from jfstat.followup.climb import climb
from jfstat.followup.coverage import Shared, usual
from jfstat.followup.focus import focus
from jfstat.followup.free import FreeParameters
from jfstat.followup.look import Surroundings, look
from jfstat.followup.method import Method
from jfstat.followup.neighbourhood import TRIAL_SIZES, Neighbourhood, frequency_shifts, survey
from jfstat.followup.peak import Peak, describe
from jfstat.followup.peakvalues import PeakValues, measure
from jfstat.followup.results import CLIMBS, most_climbs
from jfstat.metrics.coordinates import placeholders
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
        climbs = results_of(climbed, like)
        measured = self._suited(measure).lower(*near, around, results_of(looked, like), climbs, n, together)
        yield measured
        trust = results_of(measured, like).shrinkage
        yield self._suited(describe).lower(around.coordinates, around.free, climbs, trust, n, self._described)

    def run(self, around: Surroundings, n: int, later: Sequence[CompiledLater] = ()) -> tuple[PeakValues, Peak]:
        """Return the highest peak around each candidate, and the values there.

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
        measured = self._suited(measure)(*near, around, looked, climbs, filled, together)
        trust = measured.shrinkage
        peak = self._suited(describe)(around.coordinates, around.free, climbs, trust, filled, self._described)
        return measured, peak

    def _narrowing(self, n: int) -> tuple[Any, ...]:
        """Return the arguments of `focus` for the first n candidates."""
        return *self.narrowing[:-1], np.int32(n), self.narrowing[-1]

    @property
    def _described(self) -> int:
        """Number of candidates that `describe` takes together."""
        return described_together(self.data, self._size)

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


@dataclass(frozen=True)
class Foreseen:
    """Programs that candidates most likely need, known before these are surveyed.

    Attributes
    ----------
    shared : Shared
        What candidates share that need them.
    n_trials : int
        How many trial points these have.
    lowered : iterator of Lowered
        The programs, the longest first, each lowered as it is taken; they can be taken once.
    """

    shared: Shared
    n_trials: int
    lowered: Iterator[jax.stages.Lowered]

    @cached_property
    def compiled(self) -> CompiledLater:
        """The programs as they are compiled in other threads."""
        return CompiledLater(self.lowered)

    def serve(self, shared: Shared, n_trials: int) -> bool:
        """Return whether candidates need these programs that share something and have so many trial points each."""
        return self.shared == shared and self.n_trials == n_trials


def foresee(
    data: FstatData, points: Doppler, free: FreeParameters, around: Neighbourhood, in_regions: bool, method: Method
) -> Foreseen | None:
    """Return the programs that a batch of candidates most likely needs.

    Nothing depends on them: if the candidates need others, these are compiled. None where narrow data may be large, and
    where what candidates need differs too much: see `usual`.

    Parameters
    ----------
    data : FstatData
    points : Doppler
        As many templates as the batch has.
    free : FreeParameters
    around : Neighbourhood
        Regions in it need not be known yet.
    in_regions : bool
        Whether there will be regions.
    method : Method
    """
    shared, names = usual(data, reaches(data, points), free.names, around, in_regions), free.names
    if shared is None or not are_small(data, shared.reach):
        return None
    size, p = len(points.alpha), len(names)
    n_trials = TRIAL_SIZES[0] if in_regions else len(around.in_ball(p - ("freq" in names)))

    def lowered() -> Iterator[jax.stages.Lowered]:
        programs = Programs.of(data, points, shared, n_trials, names, method)
        trials, widest = placeholder(size, n_trials, p), placeholder(size)
        coordinates = placeholders(points, names, free.bounded)
        yield from programs.lowered(Surroundings(coordinates, free, trials, programs.shifts, widest))

    return Foreseen(shared, n_trials, lowered())


def placeholder(*shape: int) -> Any:
    """Return what stands for an array of float64 where a program is lowered."""
    return jax.ShapeDtypeStruct(shape, np.float64)
