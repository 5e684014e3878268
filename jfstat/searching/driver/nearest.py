"""Find the segments' templates nearest to each template of a bank, with the rows and shifts of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.banks.nearest import Group, Nearest
from jfstat.data.fstatdata import FstatData
from jfstat.data.workers import cores, in_order
from jfstat.engines.coherentbands import BITS, HALF_PIECE, Lookup
from jfstat.maths.arrays import module_for
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime


class Located(NamedTuple):
    """Segments' templates that a range of the bank needs, and where sums find their values.

    Attributes
    ----------
    lookup : Lookup
        Rows and shifts of all templates of the range: NumPy arrays, or arrays on an accelerator padded by repeating the
        last; rows are counted from the first segment's first template on.
    templates : list of Doppler
        Points of each segment's lattice, NumPy leaves.
    change : float
        Largest change of a shift from one bin of the band to the next, in bins.
    furthest : float
        Upper limit on the shifts at all frequencies of the band, in bins.
    order : (m,) int32 ndarray
        Order in which to sum the templates: neighbours in all parameters read the same values; see
        `shared.shared_sums`.
    """

    lookup: Lookup
    templates: list[Doppler]
    change: float
    furthest: float
    order: np.ndarray

    @property
    def counts(self) -> list[int]:
        """Number of templates of each segment."""
        return [len(own.alpha) for own in self.templates]


def located(
    data: FstatData,
    group: Group,
    reftime: GPSTime,
    mismatch: float,
    fits: Callable[[int, float], bool] = lambda *_: True,
) -> Located | None:
    """Return the points of the segments' lattices nearest to a group of templates of the bank, computed on all cores.

    Parameters
    ----------
    data : FstatData
        Data with segments.
    group : Group
    reftime : GPSTime
        Reference time of the spin-downs.
    mismatch : float
        Largest mismatch of the segments' lattices.
    fits : callable, optional
        Function that says, given the number of templates and the largest shift of the first segments, whether there is
        memory for their values. None is returned as soon as it returns False.
    """
    fmin, fmax, dfreq = float(data.fmin), float(data.frequencies[-1]), float(data.dfreq)
    n_segments = data.n_segments or 0
    places = _places if group.on_cpu else _places_on_device
    _ = group.pieces  # once, not in each thread
    observation = jax.tree.map(np.asarray, data.observation)  # of which each segment takes a part
    columns = _OnHost(len(group), n_segments) if group.on_cpu else _OnDevice()

    def of_segment(i: int) -> tuple[Doppler, float, float]:
        near: Nearest = group.nearest(observation.segment(i), reftime, fmax, mismatch)
        own, change, furthest = places(near.index, near.shift, fmin, fmax, dfreq)
        columns.put(i, own)
        return near.templates, float(change), float(furthest)

    all_templates, n_coherent, largest_change, largest_shift = [], 0, 0.0, 0.0
    for i, (templates, change, furthest) in enumerate(in_order(of_segment, range(n_segments), cores())):
        columns.count_from(i, n_coherent)
        n_coherent += len(templates.alpha)
        all_templates.append(templates)
        largest_change, largest_shift = max(largest_change, change), max(largest_shift, furthest)
        if not fits(n_coherent, largest_shift):
            return None
    return Located(
        columns.lookup, all_templates, largest_change, largest_shift, group.order(observation, reftime, fmax)
    )


class _OnHost:
    """Columns of a `Lookup` as NumPy arrays, which the segments' threads fill."""

    def __init__(self, n: int, n_segments: int):
        self.lookup = Lookup.empty(n, n_segments)

    def put(self, i: int, own: Lookup) -> None:
        """Set the columns of a segment, (n,) each."""
        for whole, column in zip(self.lookup, own, strict=True):
            whole[:, i] = column

    def count_from(self, i: int, first: int) -> None:
        """Shift a segment's rows so that they begin at a given row."""
        self.lookup.rows[:, i] += first


class _OnDevice:
    """Columns of a `Lookup` on an accelerator, stacked at the end."""

    def __init__(self) -> None:
        self._columns: dict[int, Lookup] = {}

    def put(self, i: int, own: Lookup) -> None:
        self._columns[i] = own

    def count_from(self, i: int, first: int) -> None:
        own = self._columns[i]
        self._columns[i] = own._replace(rows=own.rows + np.int32(first))

    @property
    def lookup(self) -> Lookup:
        return jax.tree.map(lambda *x: jnp.stack(x, axis=1), *(own for _, own in sorted(self._columns.items())))


def _places(index: Any, shift: Any, fmin: float, fmax: float, dfreq: float) -> tuple[Lookup, Any, Any]:
    """Return a segment's columns of a `Lookup`, (m,) each, and the largest change and the largest size of its shifts,
    in bins."""
    xp = module_for(shift)
    per_bin = shift[1] / fmax
    base = xp.rint((shift[0] + per_bin * fmin) * (2**BITS / dfreq)).astype(np.int64)
    step = xp.rint(per_bin * (HALF_PIECE * 2**BITS)).astype(np.int32)
    furthest = xp.max(xp.abs(shift[0]) + xp.abs(shift[1])) / dfreq
    return Lookup(index.astype(np.int32), base, step), xp.max(xp.abs(per_bin)), furthest


_places_on_device = jax.jit(_places)
