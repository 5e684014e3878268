"""From data and a bank to how a search is cut up: parts of the band, batches of templates, shares of the work."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.searching.driver.memory import most_templates, needed_bytes, parts_needed
from jfstat.statistic.backends.loudest import Method, method_for
from jfstat.templates import Doppler

PADDED = 1.5
"""Templates computed for each one asked for, at most, for that to pay."""
SPIN_DOWNS = 4
"""Spin-downs a sky position, in the mean, from which on it pays to resample once for all of them."""
LEAST_SHARED = 8
"""Templates of a batch from which on it pays: smaller ones, as on a CPU, would resample as often as before."""


class SearchPlan(NamedTuple):
    """How a search is cut up, known before anything is computed.

    Attributes
    ----------
    method : Method
    batch_size : int
        Templates computed at a time; the last batch of a group is padded.
    groups : list of (int, int)
        Ranges of templates that batches do not straddle.
    same_source : bool
        Whether all templates of a group have one sky position and orbit, and share a resampled series.
    bands : list of (int, int)
        First frequency and number of frequencies of the parts of the band.
    device_bytes : int
        Memory that it takes on the device, about, data included.
    """

    method: Method
    batch_size: int
    groups: list[tuple[int, int]]
    same_source: bool
    bands: list[tuple[int, int]]
    device_bytes: int

    @property
    def batches(self) -> np.ndarray:
        """First template and number of templates of each batch, (n, 2) int64; every part of the band takes them all."""
        size = self.batch_size
        cut = [
            np.stack([start, np.minimum(size, stop - start)], axis=-1)
            for first, stop in self.groups
            for start in [np.arange(first, stop, size)]
        ]
        return np.concatenate(cut)

    def first_new(self, part: int) -> int:
        """First frequency of a part of the band that the part before does not hold: parts may overlap."""
        first = self.bands[part][0]
        return first if part == 0 else max(first, sum(self.bands[part - 1]))


def search_plan(
    data: FstatData, bank: Doppler, batch_size: int | None = None, *, n_parts: int | None = None
) -> SearchPlan:
    """How `search` would cut up a search, and the memory that it would take; nothing is run.

    Parameters
    ----------
    data : FstatData
    bank : Doppler
        A stack of templates.
    batch_size : int, optional
        As for `search`.
    n_parts : int, optional
        Parts of the band, instead of as many as the memory needs.

    Raises
    ------
    ValueError
        If the device's memory suffices for no part of the band.
    """
    stack = stacked_bank(bank)
    method = method_for(data)
    n_parts = parts_needed(data, stack, method) if n_parts is None else n_parts
    # all of one width, so that one compilation serves them; the last overlaps with the one before
    width = -(-data.layout.n_frequencies // n_parts)
    bands = [(min(i * width, data.layout.n_frequencies - width), width) for i in range(n_parts)]

    n = len(stack.alpha)
    most = most_templates(data, stack, method, n_parts)
    groups = source_groups(stack)
    lengths = np.array([stop - start for start, stop in groups])
    size = int(batch_size or default_batch_size(int(lengths.max()), most))
    # worth it where positions have several spin-downs each and little is padded
    same_source = bool(
        size >= LEAST_SHARED
        and n >= SPIN_DOWNS * len(groups)
        and stack.fkdot.shape[1] > 1
        and np.sum(-(-lengths // size)) * size <= PADDED * n
    )
    if not same_source:
        groups, size = [(0, n)], int(batch_size or default_batch_size(n, most))
    return SearchPlan(method, size, groups, same_source, bands, needed_bytes(data, stack, method, n_parts, size))


def source_groups(stack: Doppler) -> list[tuple[int, int]]:
    """Ranges of templates that follow one another and have one sky position and orbit."""
    source = np.stack([stack.alpha, stack.delta, *(() if stack.orbit is None else jax.tree.leaves(stack.orbit))])
    starts = np.flatnonzero(np.r_[True, (source[:, 1:] != source[:, :-1]).any(axis=0)]).tolist()
    return list(pairwise([*starts, len(stack.alpha)]))


def default_batch_size(n: int, most: int) -> int:
    """Length of the batches in which to do n things, at most `most` at a time.

    A power of two where one batch holds all: a little padding costs less than to compile for each n anew.
    """
    return min(most, 1 << (n - 1).bit_length())


def share(n_jobs: int, unit: tuple[int, int] | None) -> tuple[int, int]:
    """The range of jobs that is unit i of n, i from 1 to n; all if None."""
    if unit is None:
        return 0, n_jobs
    i, n = unit
    return n_jobs * (i - 1) // n, n_jobs * i // n


def stacked_bank(bank: Any) -> Doppler:
    """The bank with NumPy leaves of exactly one leading axis, on the host, where batches are cut.

    Raises
    ------
    ValueError
        If it is no Doppler or holds no templates.
    """
    if not isinstance(bank, Doppler):
        raise ValueError(f"bank must be a jfstat.Doppler, one or a stack, not {type(bank).__name__}: see jfstat.grid.")
    if np.size(bank.alpha) == 0:
        raise ValueError("bank holds no templates: give at least one.")
    return jax.tree.map(
        lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(bank.alpha) :]), bank
    )  # a Doppler's leaves have the same batch axes
