"""A part of the band, or of an interpolating search's bank: what all its batches have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.subband import subband
from jfstat.engines.choice import engine_named, sums_for
from jfstat.engines.coherentbands import CoherentBands, Lookup
from jfstat.engines.engine import Engine, Loudest
from jfstat.engines.interpolated import Interpolated
from jfstat.geometry.doppler import largest_doppler_speed
from jfstat.searching.driver.interpolation import bank_part
from jfstat.searching.driver.mesh import spans_processes
from jfstat.searching.driver.plan import SearchPlan
from jfstat.searching.driver.work import Work
from jfstat.searching.reduce.keep import Keep, Peaks
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import subband_edges, subband_maxima
from jfstat.signal.templates import Doppler

SPARE = 64
"""Values of a batch asked for beyond those that are kept, where equal ones are not in the order of the templates."""

Step = tuple[State, int]
"""What was found in the batches of a step, and the number of the signal that asked a process to stop, or 0."""


class Part(NamedTuple):
    """A part of the band, and what all its batches have in common.

    Attributes
    ----------
    data : FstatData or CoherentBands
        Of the part, from `made_ready` on as the engine takes them.
    stack : Doppler or Lookup
        The whole bank, or what stands for a part of it in an interpolating search. NumPy leaves, or those of the latter
        on an accelerator.
    keep : Keep
    plan : SearchPlan
    first : int
        Index of the part's first frequency in the whole band.
    first_new : int
        Index in the whole band of the part's first frequency that counts; parts may overlap.
    edges : list of int
        Where its sub-bands begin and end, indices into the whole band.
    engine : Engine or Interpolated
    offset : int
        Template of the bank with which `stack` begins.
    order : ndarray of int or None
        In which the templates of `stack` are taken, if not one after the other: template i of the batches is then
        ``offset + order[i - offset]`` of the bank.
    """

    data: FstatData | CoherentBands
    stack: Doppler | Lookup
    keep: Keep
    plan: SearchPlan
    first: int
    first_new: int
    edges: list[int]
    engine: Engine | Interpolated
    offset: int = 0
    order: np.ndarray | None = None

    @property
    def n_values(self) -> int:
        """Values of 2F in a batch."""
        return self.plan.batch_size * self.data.layout.n_frequencies

    @property
    def stack_is_on_device(self) -> bool:
        """Whether the templates are rows of arrays on an accelerator."""
        return isinstance(jax.tree.leaves(self.stack)[0], jax.Array)

    def points(self, start: int, n_valid: int) -> Doppler | Lookup:
        """Templates of a batch, padded by repeating the last."""
        size = self.plan.batch_size
        rows = self._rows(np.minimum(np.arange(start, start + size), start + max(n_valid, 1) - 1))
        if self.stack_is_on_device:
            return _rows_of(self.stack, rows)
        return jax.tree.map(lambda x: x[rows], self.stack)

    def arguments(self, points: Doppler | Lookup, n_valid: int, keep: int) -> tuple[Any, ...]:
        """Those of `loudest` for a batch's `points`, in their order: by name, XLA would round in other places."""
        first_bin = self.first_new - self.first
        return self.data, points, n_valid, keep, self.engine, self.plan.same_source, first_bin, self.keep.bands

    def _rows(self, templates: np.ndarray) -> np.ndarray:
        """Rows of `stack` of some templates of the batches."""
        rows = templates - self.offset
        return rows if self.order is None else self.order[rows]

    def first_asked(self) -> int:
        """How many of a batch's values to ask the device for first.

        Where templates are taken in another order, some more than are kept: of equal values those of the first
        templates are, which may not come first.
        """
        return self.keep.first_asked(self.n_values, 0 if self.order is None else SPARE)

    def state(self, start: int, result: Loudest) -> State:
        """What was found in the batch that begins with a template."""
        found: Any = jax.tree.map(np.asarray, result)
        real = found.twoF > -np.inf  # others are padding of the batch or beyond the band
        peaks = Peaks(
            found.twoF[real],
            self.offset + self._rows(start + found.template[real]).astype(np.int64),
            self.first + found.frequency[real].astype(np.int64),
        )
        tops = subband_maxima(self.data.layout, found.sections)
        loudest_of = zip(self.edges[:-1], self.edges[1:], tops.tolist(), strict=True)
        subbands = {(begin, end): twoF for begin, end, twoF in loudest_of if twoF > -np.inf}
        return State(1, peaks, found.histogram.astype(np.int64), subbands)


@jax.jit
def _rows_of(stack: Any, rows: np.ndarray) -> Any:
    """Some rows of the leaves of a stack that is on a device."""
    return jax.tree.map(lambda x: x[rows], stack)


def part_of(work: Work, plan: SearchPlan, number: int) -> Part:
    """A part of the band, with its data prepared, for `made_ready`."""
    data, stack = work.data, work.stack
    first, n_frequencies = plan.bands[number]
    whole = len(plan.bands) == 1 and bool(data.filters)
    if work.track is not None:
        engine: Engine = work.track
    elif work.transient is not None:
        engine = work.transient.engine
    else:
        engine = engine_named(plan.engine, work.keep.lines, data.n_segments is not None)
    if data.n_segments is not None and not whole:
        raise ValueError("data with segments must have filters to be searched: prepare a narrower band, with filters.")
    own = data if whole else subband(data, first, n_frequencies, _margin(data, stack))
    if not engine.usable(own.layout, device_of(own)):
        raise ValueError(
            f"engine {plan.engine!r} cannot transform a part of the band, of {own.layout.n_fft} samples: use "
            "the engine 'xla'."
        )
    first_new = plan.first_new(number)
    edges = np.maximum(first + subband_edges(own.layout), first_new).tolist()
    return Part(own, stack, work.keep, plan, first, first_new, edges, engine)


def _margin(data: FstatData, stack: Doppler) -> float:
    """How far orbits move signals, Hz, whether `prepare` was told of them or not."""
    return 0.0 if stack.orbit is None else float(largest_doppler_speed(stack.orbit) * data.frequencies[-1])


def interpolated_part(work: Work, plan: SearchPlan, start: int, stop: int, mesh: Mesh | None) -> Part:
    """A part of the bank, with the segments' values that its templates need, for `made_ready`."""
    own = bank_part(work, start, stop)
    edges = subband_edges(own.bands.layout).tolist()
    # devices of several processes take what they need from the host
    lookup = jax.tree.map(np.asarray, own.lookup) if spans_processes(mesh) else own.lookup
    return Part(
        own.bands,
        lookup,
        work.keep,
        plan,
        0,
        0,
        edges,
        sums_for(device_of(work.data), plan.engine),
        start,
        own.order,
    )
