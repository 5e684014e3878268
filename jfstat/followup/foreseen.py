"""Foresee the programs of a follow-up's next stage, so that they compile while those of this stage still do."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jax.stages import Lowered

from jfstat.data.fstatdata import FstatData
from jfstat.followup.batches import batch_size, programs_cost_more
from jfstat.followup.candidates import Candidates, program_of_misfits
from jfstat.followup.programs import foresee, placeholder, surveying
from jfstat.followup.refine import Refining, points_of, programs_of_mismatches


def programs_of_next_stage(data: FstatData, candidates: Candidates, how: Refining, n_peaks: int) -> Iterator[Lowered]:
    """Yield the programs that a stage most likely needs for those of some candidates that the stage before passes.

    Nothing depends on them: if the stage needs others, it compiles those. On a CPU, and for so many candidates that the
    number which is passed makes a difference to the size of batches, none are foreseen.

    Parameters
    ----------
    data : FstatData
        Data of the next stage.
    candidates : Candidates
        Candidates of the stage before.
    how : Refining
        What is refined in the next stage, and how; its neighbourhood is not known yet.
    n_peaks : int
        Number of regions that are covered around each candidate, at most.
    """
    n = len(candidates.points.alpha)
    for isolated in (True, False):
        rows = np.flatnonzero(candidates.sound & (candidates.isolated == isolated))
        free = how.of(isolated).free
        if not (len(rows) and free.names and programs_cost_more(data, len(rows))):
            continue
        size = batch_size(data, len(rows), in_regions=True)
        points, p = points_of(candidates.points, np.resize(rows, size), isolated), len(free.names)
        regions = placeholder(size, p, p), placeholder(size, n_peaks, p)
        program, arguments = surveying(data, points, free, how.around.mismatch, regions, size)
        yield program.lower(*arguments)
        foreseen = foresee(data, points, free, how.around, True, how.method)
        if foreseen is not None:
            yield from foreseen.lowered
    if programs_cost_more(data, n):
        # of tables of the usual size, which more candidates may exceed
        yield program_of_misfits(data, jax.tree.map(lambda x: x[:1], candidates.points))
        yield from programs_of_mismatches(data, (candidates.points, candidates.points), n, True)
