"""Several processes that search together: the first reads and writes files, and all make the same decisions."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from jfstat.engines.choice import NAMES
from jfstat.searching.driver.interpolation import interpolation_plan, planned_room
from jfstat.searching.driver.plan import SearchPlan, search_plan
from jfstat.searching.driver.work import Work
from jfstat.searching.session.banksums import bank_sums, same_sums

NOTHING, CONTENT, ERROR, FILE_ERROR = 0, 1, 2, 3
"""Kinds of message that the first process sends."""


def is_first() -> bool:
    """Whether this process is the only one, or the first of those that jax.distributed joined."""
    return jax.process_index() == 0


def first_does(work: Callable[[], bytes | None], together: bool) -> bytes | None:
    """Call a function in the first process; all return its result, or raise its ValueError or OSError.

    Parameters
    ----------
    work : callable
    together : bool
        Whether the processes work together and all call this. If not, each calls the function itself.
    """
    if not together or jax.process_count() == 1:
        return work()
    from jax.experimental.multihost_utils import broadcast_one_to_all

    kind, content = NOTHING, b""
    if is_first():
        try:
            found = work()
            kind, content = (NOTHING, b"") if found is None else (CONTENT, found)
        except (OSError, ValueError) as error:
            kind, content = FILE_ERROR if isinstance(error, OSError) else ERROR, str(error).encode()
    kind, size = (int(x) for x in broadcast_one_to_all(np.array([kind, len(content)], np.int64)))
    if kind == NOTHING:
        return None
    own = np.frombuffer(content, np.uint8) if is_first() else np.zeros(size, np.uint8)
    content = np.asarray(broadcast_one_to_all(own), np.uint8).tobytes()
    if kind in (ERROR, FILE_ERROR):
        raise (ValueError if kind == ERROR else OSError)(content.decode())
    return content


def agreed_plan(work: Work, plan: SearchPlan, together: bool) -> SearchPlan:
    """One plan for all processes, which fits into the memory of each.

    Raises
    ------
    ValueError
        If the processes search different data or banks.
    """
    if not together:
        return plan
    from jax.experimental.multihost_utils import process_allgather

    data, stack, layout = work.data, work.stack, work.data.layout
    same = [
        len(stack.alpha),
        layout.n_frequencies,
        layout.n_fft,
        int(np.min(data.observation.epoch)),
    ]
    sums = bank_sums(stack)
    each = np.asarray(process_allgather(np.array([plan.batch_size, len(plan.bands), *same, len(sums)], np.float64)))
    each = each.reshape(-1, 3 + len(same))
    agree = np.all(each[:, 2:] == each[0, 2:])
    if agree:  # only then can all gather what has the same shape
        banks = np.asarray(process_allgather(np.array(sums))).reshape(-1, len(sums))
        agree = all(same_sums(bank, banks[0].tolist()) for bank in banks)
    if not agree:
        raise ValueError("data and bank must be the same in all processes: prepare the same files everywhere.")
    if work.coherent_mismatch is not None:
        return _agreed_interpolation(work, plan)
    size, n_parts = int(each[:, 0].min()), int(each[:, 1].max())
    if np.all(each[:, 0] == size) and np.all(each[:, 1] == n_parts):
        return plan
    return search_plan(
        data,
        stack,
        size,
        n_parts=n_parts,
        engine=plan.engine,
        lines=work.keep.lines,
        track=work.track,
        transient=work.transient,
    )


def _agreed_interpolation(work: Work, plan: SearchPlan) -> SearchPlan:
    """The plan of an interpolating search by the least memory and the engine that all processes have."""
    from jax.experimental.multihost_utils import process_allgather

    own = [plan.batch_size, planned_room(work, plan), NAMES.index(plan.engine)]
    each = np.asarray(process_allgather(np.array(own, np.float64))).reshape(-1, len(own))
    if np.all(each == each[0]):
        return plan
    size, least, slowest = int(each[:, 0].min()), int(each[:, 1].min()), int(each[:, 2].max())
    return interpolation_plan(work, size, NAMES[slowest], least)
