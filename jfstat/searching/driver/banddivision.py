"""Divide a search into parts of the band, groups of templates that share a source, and batches."""

from __future__ import annotations

from itertools import pairwise

import jax
import numpy as np

from jfstat.engines.engine import BandReduction
from jfstat.maths.ladder import padded_size
from jfstat.searching.division import Division
from jfstat.searching.driver.memory import most_templates, needed_bytes, parts_needed
from jfstat.searching.statistic import Task
from jfstat.signal.templates import Doppler

PADDED = 1.5
"""Largest ratio of computed templates, padding included, to wanted ones at which sharing a series still pays."""
SPIN_DOWNS = 4
"""Mean number of spin-downs per sky position above which it pays to resample once for all of them."""
LEAST_SHARED = 8
"""Smallest batch for which sharing a resampled series pays: smaller ones, as on a CPU, need about as many resamplings
as without sharing."""


def band_division(
    task: Task, engine: str, reduction: BandReduction, batch_size: int | None, n_parts: int | None = None
) -> Division:
    """Return how a search is divided into parts of the band and batches, and how much memory it needs.

    Parameters
    ----------
    task : Task
    engine : str
        Name of the engine.
    reduction : BandReduction
        From `Statistic.reduction`.
    batch_size : int or None
        See `Run`.
    n_parts : int, optional
        Number of parts of the band; by default as many as the memory requires.

    Raises
    ------
    ValueError
        If the device's memory is too small for any part of the band.
    """
    data, stack = task.data, task.stack
    n_parts = parts_needed(data, stack, reduction) if n_parts is None else n_parts
    # all of the same width, so that they share a compiled program; the last overlaps the one before
    width = -(-data.layout.n_frequencies // n_parts)
    bands = [(min(i * width, data.layout.n_frequencies - width), width) for i in range(n_parts)]

    n = len(stack.alpha)
    most = most_templates(data, stack, reduction, n_parts)
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
    size = min(size, reduction.largest_batch(data.layout))
    n_bytes = needed_bytes(data, stack, reduction, n_parts, size)
    return Division(engine, size, groups, same_source, bands, n_bytes)


def source_groups(stack: Doppler) -> list[tuple[int, int]]:
    """Return ranges of consecutive templates with the same sky position, proper motion and orbit."""
    n = len(stack.alpha)
    leaves = jax.tree.leaves((stack.alpha, stack.delta, stack.motion, stack.orbit))
    source = np.concatenate([np.asarray(x).reshape(n, -1).T for x in leaves])
    starts = np.flatnonzero(np.r_[True, (source[:, 1:] != source[:, :-1]).any(axis=0)]).tolist()
    return list(pairwise([*starts, n]))


def default_batch_size(n: int, most: int) -> int:
    """Return the size of the batches for n templates, at most `most`.

    It is a power of two if one batch holds all: a little padding costs less than compiling again for every n.
    """
    return min(most, padded_size(n, 1))
