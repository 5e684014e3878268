"""Options of XLA for programs that must give the same bits every time, or that should be compiled in little time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial, update_wrapper, wraps
from typing import Any

import jax

from jfstat.collecting import no_collection
from jfstat.maths.arrays import within_trace
from jfstat.tracecache import TracedPrograms

NO_TRIALS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Compiler options that keep XLA from timing several kernels for an operation on GPUs and taking the fastest. The next
process may find another one the fastest, which rounds differently, and the trials take time. With these options
small products of matrices are computed by NVIDIA's library, by its first method. Searches over segments take 2 %
longer, others and follow-ups as long."""

SAME_BITS = NO_TRIALS | {"xla_cpu_multi_thread_eigen": False}
"""Compiler options for a computation that gives the same bits every time, whatever the number of cores.

On several threads XLA's FFT groups its transforms by the threads that happen to be free, and matrix products are
divided by the number of threads; both change the rounding. `data.workers.in_order` keeps the cores busy
instead, by running several computations at a time.
"""

LONG_VECTORS = SAME_BITS | {"xla_cpu_prefer_vector_width": 512}
"""Compiler options of `SAME_BITS` with the longest vectors that a CPU has: sums over segments take a fifth less time,
with the same bits."""

NO_EMITTERS = {"xla_cpu_use_fusion_emitters": False}
"""Compiler options by which sums over blocks for a few candidates are compiled in two thirds of the time on a CPU, and
run as fast or faster. Climbs and searches run a tenth slower with them, without being compiled sooner."""

QUICKLY = NO_EMITTERS | {"xla_backend_optimization_level": 0}
"""Compiler options for a program that runs so few times that compiling it takes longer: on a CPU it is compiled in a
quarter of the time and runs at a fifth of the speed. On a GPU programs of `refine` are compiled in half to nine tenths
of the time and run as fast."""


def jit_with(
    options: Mapping[str, Any], *, kept: bool = False, **settings: Any
) -> Callable[[Callable[..., Any]], Jitted]:
    """Return a decorator like ``jax.jit`` with `settings`, whose programs are compiled with some options of XLA.

    Options that XLA does not have are left out, since releases drop options and would refuse to compile. XLA is asked
    when a function is first used, so that importing a module starts no backend.

    With `kept`, programs are kept on disk as they were traced, beside those that JAX keeps compiled, if it does; see
    `tracecache`. This is for functions that take long to trace and whose results do not reach users: results are then
    bound to a device. Of the settings they can have ``static_argnames`` only.
    """
    if kept and set(settings) - {"static_argnames"}:
        raise TypeError(f"kept programs cannot have {', '.join(settings)}.")
    return lambda function: Jitted(function, options, kept, settings)


class Jitted:
    """A function that `jax.jit` is applied to when it is first used; see `jit_with`."""

    def __init__(
        self, function: Callable[..., Any], options: Mapping[str, Any], kept: bool, settings: Mapping[str, Any]
    ):
        update_wrapper(self, function)

        @wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with no_collection:  # JAX calls it only to trace it
                return function(*args, **kwargs)

        self._function = traced
        self._options, self._kept, self._settings = options, kept, settings

    @cached_property
    def _jit(self) -> Callable[..., Any]:
        return partial(jax.jit, compiler_options=known(self._options))

    @cached_property
    def _jitted(self) -> Any:
        return self._jit(self._function, **self._settings)

    @cached_property
    def _plain(self) -> Any:
        return jax.jit(self._function, **self._settings)

    @cached_property
    def _traced(self) -> TracedPrograms:
        static = self._settings.get("static_argnames", ())
        names = (static,) if isinstance(static, str) else tuple(static)
        return TracedPrograms(self.__wrapped__, names, self._jit)  # type: ignore

    def _chosen(self, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        """Return what to call and its arguments: a program from the disk, or the function that JAX traces."""
        if within_trace():  # JAX refuses options of programs that become a part of others
            return self._plain, args, kwargs
        program = self._traced.program(args, kwargs) if self._kept else None
        return (self._jitted, args, kwargs) if program is None else (*program, {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, args, kwargs = self._chosen(args, kwargs)
        return function(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Return the program for some arguments, to be compiled; see `jax.jit`.

        The function then finds it compiled. What is compiled cannot be called with the same arguments if programs are
        kept: these take leaves.
        """
        with no_collection:
            function, args, kwargs = self._chosen(args, kwargs)
            return function.lower(*args, **kwargs)

    @cached_property
    def quickly(self) -> Jitted:
        """The same function, compiled in little time."""
        other = Jitted(self.__wrapped__, {**self._options, **QUICKLY}, self._kept, self._settings)  # type: ignore
        other._function = self._function  # JAX traces for both what one of them has traced
        return other


def known(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that XLA has."""
    return {name: value for name, value in options.items() if _is_known(name)}


@cache
def _is_known(name: str) -> bool:
    """Return whether XLA has an option: it says so before it compiles anything, if the value is one that none has."""
    try:
        _program().compile(compiler_options={name: "no value of any option"})
    except Exception as error:  # of either kind
        return "No such compile option" not in str(error)
    return True


@cache
def _program() -> jax.stages.Lowered:
    """Return the smallest program."""
    return jax.jit(lambda: ()).lower()
