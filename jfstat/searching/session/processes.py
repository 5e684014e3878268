"""Coordinate processes that search together: the first reads and writes files, and all make the same decisions."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from jfstat.searching.division import Division
from jfstat.searching.driver.mesh import gathered
from jfstat.searching.session.banksums import bank_sums, same_sums
from jfstat.searching.statistic import Task

NOTHING, CONTENT, ERROR, FILE_ERROR = 0, 1, 2, 3
"""Kinds of message that the first process sends."""


def is_first() -> bool:
    """Return whether this process is the only one, or the first of the processes that jax.distributed joined."""
    return jax.process_index() == 0


def first_does(work: Callable[[], bytes | None], together: bool) -> bytes | None:
    """Call a function in the first process and return its result in all; its ValueError or OSError is raised in all.

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


def agreed_division(task: Task, division: Division) -> Division:
    """Return one division that fits into the memory of every process; all processes must call this.

    Raises
    ------
    ValueError
        If the processes search different data or banks.
    """
    data, stack, layout = task.data, task.stack, task.data.layout
    sums = bank_sums(stack)
    same = gathered(
        [len(stack.alpha), layout.n_frequencies, layout.n_fft, int(np.min(data.observation.epoch)), len(sums)]
    )
    agree = np.all(same == same[0])
    if agree:  # only then have the arrays to gather equal shapes
        banks = gathered(sums)
        agree = all(same_sums(bank, banks[0].tolist()) for bank in banks)
    if not agree:
        raise ValueError("data and bank must be the same in all processes: prepare the same files everywhere.")
    return task.statistic.agreed_division(task, division)
