"""How a search is divided: parts of the band, groups of templates, batches."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.engines.choice import engine_for
from jfstat.engines.engine import Engine
from jfstat.maths.ladder import padded_size
from jfstat.searching.driver.memory import most_templates, needed_bytes, parts_needed
from jfstat.searching.driver.work import TransientSearch, stacked_bank
from jfstat.signal.templates import Doppler
from jfstat.statistic.linerobust import LineCut
from jfstat.tracking.engine import Tracks

PADDED = 1.5
"""Largest ratio of computed templates, padding included, to wanted ones at which sharing a series still pays."""
SPIN_DOWNS = 4
"""Mean number of spin-downs per sky position above which it pays to resample once for all of them."""
LEAST_SHARED = 8
"""Smallest batch for which that pays: with smaller ones, as on a CPU, resampling is about as frequent as without."""


class SearchPlan(NamedTuple):
    """How a search is divided, known before anything is computed.

    Attributes
    ----------
    engine : str
        Name of the engine that computes it.
    batch_size : int
        Templates computed at a time; the last batch of a group is padded.
    groups : list of (int, int)
        Ranges of templates. Each batch lies within one.
    same_source : bool
        Whether all templates of a group have the same sky position and orbit, and share a resampled series.
    bands : list of (int, int)
        First frequency and number of frequencies of each part of the band.
    device_bytes : int
        Approximate memory needed on the device, data included.
    n_coherent : int or None
        Of an interpolating search: number of templates computed in the segments, those of all groups together.
    """

    engine: str
    batch_size: int
    groups: list[tuple[int, int]]
    same_source: bool
    bands: list[tuple[int, int]]
    device_bytes: int
    n_coherent: int | None = None

    @property
    def batches(self) -> np.ndarray:
        """First template and number of templates of each batch, (n, 2) int64; each part of the band needs all."""
        size = self.batch_size
        cut = [
            np.stack([start, np.minimum(size, stop - start)], axis=-1)
            for first, stop in self.groups
            for start in [np.arange(first, stop, size)]
        ]
        return np.concatenate(cut)

    @property
    def n_jobs(self) -> int:
        """Number of batches, counted once for each part of the band."""
        return len(self.batches) * len(self.bands)

    def first_new(self, part: int) -> int:
        """First frequency of a part of the band that the part before does not contain: parts may overlap."""
        first = self.bands[part][0]
        return first if part == 0 else max(first, sum(self.bands[part - 1]))


def search_plan(
    data: FstatData,
    bank: Doppler,
    batch_size: int | None = None,
    *,
    n_parts: int | None = None,
    engine: str | None = None,
    lines: LineCut | None = None,
    track: Tracks | None = None,
    transient: TransientSearch | None = None,
) -> SearchPlan:
    """How `search` would divide a search, and how much memory it would need; nothing is computed.

    Parameters
    ----------
    data : FstatData
    bank : Doppler
        A stack of templates.
    batch_size : int, optional
        As for `search`.
    n_parts : int, optional
        Number of parts of the band; by default as many as the memory requires.
    engine : str, optional
        As for `search`.
    lines : LineCut, optional
        See `Keep`.
    track : Tracks, optional
        See `Work`.
    transient : TransientSearch, optional
        See `Work`.

    Raises
    ------
    ValueError
        If the device's memory is too small for any part of the band, or the engine cannot be used.
    """
    stack = stacked_bank(bank)
    if track is not None:
        chosen: Engine = track
    else:
        chosen = engine_for(data, engine, lines) if transient is None else transient.engine
    n_parts = parts_needed(data, stack, chosen) if n_parts is None else n_parts
    # all of the same width, so that they share a compiled program; the last overlaps the one before
    width = -(-data.layout.n_frequencies // n_parts)
    bands = [(min(i * width, data.layout.n_frequencies - width), width) for i in range(n_parts)]

    n = len(stack.alpha)
    most = most_templates(data, stack, chosen, n_parts)
    groups = source_groups(stack)
    lengths = np.array([stop - start for start, stop in groups])
    size = int(batch_size or default_batch_size(int(lengths.max()), most))
    # sharing pays where there are several spin-downs per position and little padding
    same_source = bool(
        size >= LEAST_SHARED
        and n >= SPIN_DOWNS * len(groups)
        and stack.fkdot.shape[1] > 1
        and np.sum(-(-lengths // size)) * size <= PADDED * n
    )
    if not same_source:
        groups, size = [(0, n)], int(batch_size or default_batch_size(n, most))
    size = min(size, chosen.largest_batch(data.layout))
    n_bytes = needed_bytes(data, stack, chosen, n_parts, size)
    return SearchPlan(chosen.name, size, groups, same_source, bands, n_bytes)


def source_groups(stack: Doppler) -> list[tuple[int, int]]:
    """Ranges of consecutive templates with the same sky position, proper motion and orbit."""
    n = len(stack.alpha)
    leaves = jax.tree.leaves((stack.alpha, stack.delta, stack.motion, stack.orbit))
    source = np.concatenate([np.asarray(x).reshape(n, -1).T for x in leaves])
    starts = np.flatnonzero(np.r_[True, (source[:, 1:] != source[:, :-1]).any(axis=0)]).tolist()
    return list(pairwise([*starts, n]))


def default_batch_size(n: int, most: int) -> int:
    """Size of the batches for n templates, at most `most`.

    It is a power of two if one batch holds all: a little padding costs less than compiling again for every n.
    """
    return min(most, padded_size(n, 1))
