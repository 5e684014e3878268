"""Run a function on a sequence of jobs in several threads, with the results in order; compile programs in parallel."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, suppress
from threading import Thread
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jax.stages import Lowered
from jax.typing import DTypeLike

from jfstat.data.memory import Device

Job = TypeVar("Job")
Result = TypeVar("Result")
P = ParamSpec("P")
MOST = 16
"""Largest number of jobs that run at a time."""
CONTEXTS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "jax_enable_x64": jax.enable_x64,
    "jax_default_device": jax.default_device,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_numpy_rank_promotion": jax.numpy_rank_promotion,
    "jax_debug_nans": jax.debug_nans,
    "jax_debug_infs": jax.debug_infs,
}
"""Settings of JAX that a thread may have for itself, each with the context that sets it."""


def cores() -> int:
    """Return the number of cores that this process may use, at most `MOST`."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(own, MOST)


def workers_for(device: Device, n: int = 1) -> int:
    """Return the number of computations that should run at a time on n devices of a kind.

    On a CPU this is one more than the cores that this process may use, which its devices share: XLA computes most of a
    template on one core, and the additional computation starts as soon as another ends. On other devices it is two for
    each: the device computes one while the host processes the result of the other.
    """
    if device.platform != "cpu":
        return 2 * n
    own = cores()
    return min(own + 1, MOST) if own > 1 else 1


def in_order(function: Callable[[Job], Result], jobs: Iterable[Job], workers: int, ahead: int = 1) -> Iterator[Result]:
    """Yield the results of a function for all jobs, in the order of the jobs, computed by `workers` threads.

    The threads run in parallel because JAX computes outside of Python's global lock. At most `workers` + `ahead` jobs
    are under way, or done without their results being taken: with more ahead, threads wait less for a slower one.
    """
    function = in_callers_context(function)
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(function, job))
                if len(waiting) >= workers + ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:  # after an error, or when the caller wants no more results
                future.cancel()


def in_callers_context(function: Callable[P, Result]) -> Callable[P, Result]:
    """Wrap a function so that another thread runs it with the caller's settings of JAX.

    What ``with jax.enable_x64(True):`` and the like set holds in the thread that entered them alone. A mesh that the
    caller has set is left out: functions that work in threads place their data themselves.
    """
    settings = {name: getattr(jax.config, name) for name in CONTEXTS}

    def called(*arguments: P.args, **named: P.kwargs) -> Result:
        with ExitStack() as entered:
            for name, value in settings.items():
                entered.enter_context(CONTEXTS[name](value))
            return function(*arguments, **named)

    return called


def in_background(function: Callable[[], Result]) -> Future[Result]:
    """Start a function in a thread of its own."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="jfstat-background")
    future = pool.submit(in_callers_context(function))
    pool.shutdown(wait=False)
    return future


def ensure_started(thread: Thread | None) -> None:
    """Start a thread, if there is one, unless it was started before."""
    if thread is not None and thread.ident is None:
        thread.start()


class CompiledLater:
    """Programs that are needed later than others: they begin to compile when those have begun, in other threads.

    They are compiled to the end even if nobody needs them in the end.

    Parameters
    ----------
    programs : iterable of Lowered or None
        Traced and lowered as they are taken from it, in the thread that begins them. None says that the next one cannot
        be lowered yet. After an error there are no more: whoever runs a program meets the error again.
    """

    def __init__(self, programs: Iterable[Lowered | None]):
        self._programs = iter(programs)
        self._compiling: list[Future[object]] = []

    def begin_next(self) -> bool:
        """Lower the next program and begin to compile it; return whether there was one that could be lowered."""
        program = None
        with suppress(Exception):
            program = next(self._programs, None)
            if program is not None:
                self._compiling.append(in_background(program.compile))
        return program is not None

    def wait(self) -> None:
        """Wait for the programs that have begun to compile."""
        wait(self._compiling)


def begin_in_turns(several: Sequence[CompiledLater]) -> None:
    """Lower all programs of several that can be lowered, and begin to compile them: one of each in turn.

    What several have to compile for long, which comes first, then begins early.
    """
    while any([later.begin_next() for later in several]):
        pass


def compile_together(programs: Iterable[Lowered], later: Iterable[CompiledLater] = ()) -> None:
    """Compile programs, each as soon as the iterable gives it and all at the same time.

    The functions that they were lowered from then find them compiled. Those of `later` begin to compile when the last
    of these has (`begin_in_turns`), and are not waited for.
    """

    def in_turn() -> Iterator[Lowered]:
        yield from programs
        begin_in_turns([*later])

    list(in_order(lambda program: program.compile(), in_turn(), MOST))


def results_of(program: Lowered, like: jax.Array | np.ndarray) -> Any:
    """Return placeholders for a program's results, used to lower another program that takes them."""
    return jax.tree.map(lambda x: result_of_shape(x.shape, x.dtype, like), program.out_info)


def result_of_shape(shape: tuple[int, ...], dtype: DTypeLike, like: jax.Array | np.ndarray) -> jax.ShapeDtypeStruct:
    """Return a placeholder for a result of this shape of a program that takes the array `like`.

    If `like` is bound to a device or a mesh, so is the result; an array on the host is not.
    """
    where = like.sharding if isinstance(like, jax.Array) and like.committed else None
    if isinstance(where, NamedSharding):  # whose axes are those of `like`: the result is whole on each device
        where = NamedSharding(where.mesh, PartitionSpec())
    return jax.ShapeDtypeStruct(shape, dtype, sharding=where)
