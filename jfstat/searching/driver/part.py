"""Hold what all batches of a part of a search, of its band or of its bank, have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.engines.coherentbands import CoherentBands, Lookup
from jfstat.engines.engine import Loudest, Reduction
from jfstat.maths.arrays import LEAST
from jfstat.searching.division import Division
from jfstat.searching.reduce.state import State
from jfstat.searching.reduce.tally import subband_maxima
from jfstat.searching.reduce.toplist import Peaks, Toplist
from jfstat.signal.templates import Doppler

SPARE = 64
"""Extra values of a batch to ask for where equal values are not in the order of the templates."""

Step = tuple[State, int]
"""State after the batches of a step, and the number of the signal that asked a process to stop, or 0."""


class Part(NamedTuple):
    """Part of the band or of the bank, with what all its batches have in common.

    Attributes
    ----------
    data : FstatData or CoherentBands
        Data of the part; after `made_ready` in the form that the reduction takes.
    stack : Doppler or Lookup
        The whole bank, or in an interpolating search the lookup for a part of it. NumPy leaves, or for a lookup arrays
        on an accelerator.
    toplist : Toplist
    division : Division
    first : int
        Index of the part's first frequency in the whole band.
    first_new : int
        Index in the whole band of the part's first frequency that counts; parts may overlap.
    edges : list of int
        Edges of the part's sub-bands, as indices into the whole band.
    reduction : Reduction
    offset : int
        Index in the bank of the first template of `stack`.
    order : ndarray of int or None
        Order in which the templates of `stack` are taken, if not one after the other: template i of the batches is then
        ``offset + order[i - offset]`` of the bank.
    """

    data: FstatData | CoherentBands
    stack: Doppler | Lookup
    toplist: Toplist
    division: Division
    first: int
    first_new: int
    edges: list[int]
    reduction: Reduction
    offset: int = 0
    order: np.ndarray | None = None

    @property
    def n_values(self) -> int:
        """Number of values of 2F in a batch."""
        return self.division.batch_size * self.data.layout.n_frequencies

    @property
    def stack_is_on_device(self) -> bool:
        """Whether the templates are rows of arrays on an accelerator."""
        return isinstance(jax.tree.leaves(self.stack)[0], jax.Array)

    def points(self, start: int, n_valid: int) -> Doppler | Lookup:
        """Return the templates of a batch, padded by repeating the last."""
        size = self.division.batch_size
        rows = self._rows(np.minimum(np.arange(start, start + size), start + max(n_valid, 1) - 1))
        if self.stack_is_on_device:
            return _rows_of(self.stack, rows)
        return jax.tree.map(lambda x: x[rows], self.stack)

    def arguments(self, points: Doppler | Lookup, n_valid: int, keep: int) -> tuple[Any, ...]:
        """Return the positional arguments of `loudest` for a batch's `points`; passed by name, XLA would round
        differently."""
        first_bin = self.first_new - self.first
        return (
            self.data,
            points,
            n_valid,
            keep,
            self.reduction,
            self.division.same_source,
            first_bin,
            self.toplist.bands,
        )

    def _rows(self, templates: np.ndarray) -> np.ndarray:
        """Return the rows of `stack` that hold some templates of the batches."""
        rows = templates - self.offset
        return rows if self.order is None else self.order[rows]

    def first_asked(self) -> int:
        """Return how many of a batch's values to ask the device for first.

        Where templates are taken in another order, this is more than are kept: among equal values the first templates
        count, which may not come first.
        """
        return self.toplist.first_asked(self.n_values, 0 if self.order is None else SPARE)

    def state(self, start: int, result: Loudest) -> State:
        """Return what was found in the batch that begins with a given template."""
        found: Any = jax.tree.map(np.asarray, result)
        real = found.twoF > LEAST  # others are padding of the batch or beyond the band
        peaks = Peaks(
            found.twoF[real],
            self.offset + self._rows(start + found.template[real]).astype(np.int64),
            self.first + found.frequency[real].astype(np.int64),
        )
        tops = subband_maxima(self.data.layout, found.sections)
        loudest_of = zip(self.edges[:-1], self.edges[1:], tops.tolist(), strict=True)
        subbands = {(begin, end): twoF for begin, end, twoF in loudest_of if twoF > LEAST}
        return State(1, peaks, found.histogram.astype(np.int64), subbands)


@jax.jit
def _rows_of(stack: Any, rows: np.ndarray) -> Any:
    """Return some rows of the leaves of a stack that is on a device."""
    return jax.tree.map(lambda x: x[rows], stack)
