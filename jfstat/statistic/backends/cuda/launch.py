"""Programs for the GPU: kernels with all their constants, compiled and loaded once, as functions that JAX can trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import Any, TypeAlias

import jax

from jfstat.data.memory import Device
from jfstat.maths.lengths import largest_divisor
from jfstat.statistic.backends.cuda import handler
from jfstat.statistic.backends.cuda.cubins import Constants, cubin, key
from jfstat.statistic.backends.cuda.driver import Kernel

LEAST_CAPABILITY = 8.0
"""Of NVIDIA GPUs, for reductions of warps and cache hints."""
MOST_BLOCKS = 65535
"""Of a launch, in the second and the third direction."""
Shapes: TypeAlias = Sequence[tuple[int, ...]]
"""Of a kernel's arguments and results."""
Grid: TypeAlias = Callable[["Program", Shapes], tuple[int, int, int]]
"""Number of blocks in each direction, from a program and the shapes of what it takes and returns."""
_LOADING = Lock()


@dataclass(frozen=True)
class Program:
    """A kernel with all its constants; hashable, so that it is loaded once.

    Attributes
    ----------
    source, name : str
        File and function.
    constants : Constants
    grid : Grid
    threads, shared, static : int
        Threads and bytes of shared memory of a block, given at its launch and declared in the source.
    """

    source: str
    name: str
    constants: Constants
    grid: Grid
    threads: int
    shared: int = 0
    static: int = 0

    @classmethod
    def of(
        cls,
        source: str,
        name: str,
        constants: Mapping[str, int | float],
        grid: Grid,
        threads: int,
        shared: int = 0,
        static: int = 0,
    ) -> Program:
        """A program from the values of its constants by name."""
        return cls(source, name, tuple(sorted(constants.items())), grid, threads, shared, static)

    def __getitem__(self, name: str) -> int:
        return dict(self.constants)[name]  # type: ignore[return-value]


def tile_grid(tiles: int) -> tuple[int, int]:
    """Blocks in the second and third direction for so many tiles, of which one direction may not take all."""
    second = largest_divisor(tiles, MOST_BLOCKS)
    return second, tiles // second


def capability(device: Device) -> float:
    """Compute capability of an NVIDIA GPU; 0 for other devices."""
    nvidia = device.platform in ("gpu", "cuda") and "nvidia" in device.device_kind.lower()
    return float(getattr(device, "compute_capability", 0)) if nvidia else 0.0


def capable(device: Device) -> bool:
    """Whether kernels can run on a device."""
    return capability(device) >= LEAST_CAPABILITY


@lru_cache
def architecture() -> str:
    """Of JAX's first GPU, such as ``sm_90``."""
    major, minor = str(jax.devices("gpu")[0].compute_capability).split(".")
    return f"sm_{major}{minor}"


@cache
def _compilers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="jfstat-nvrtc")


@lru_cache(maxsize=64)
def _code(program: Program) -> Future[bytes]:
    """Machine code, from the disk or from a thread that compiles it."""
    return _compilers().submit(cubin, program.source, program.constants, architecture())


def compile_together(programs: Sequence[Program | None]) -> None:
    """Begin to compile kernels, all at the same time, while the caller goes on; None are left out.

    What fails here is told when the kernel is loaded.
    """
    for program in programs:
        if program is not None:
            _code(program)


@cache
def _loaded(program: Program) -> str:
    def kernel(code: bytes) -> Kernel:
        return Kernel(code, program.name, program.threads, program.shared)

    try:
        own = kernel(_code(program).result())
    except Exception:  # what is on disk may be damaged, and what has failed once may succeed
        own = kernel(cubin(program.source, program.constants, architecture(), stored=False))
    target = f"jfstat_{program.name}_{key(program.source, program.constants, architecture())}"

    def launch(stream: int | None, arrays: list[handler.Array]) -> None:
        own.launch(stream, program.grid(program, [x.shape for x in arrays]), [x.address for x in arrays])

    handler.register(target, launch)
    return target


def loaded(program: Program) -> str:
    """Compile and load a kernel, once, and make it a target of XLA's; returns the target's name.

    Raises
    ------
    CudaError
        If it cannot be compiled or loaded.
    """
    with _LOADING:  # searches trace in several threads
        return _loaded(program)


def call(program: Program, results: Any, aliases: dict[int, int] | None = None) -> Callable[..., Any]:
    """A function of arrays that runs a kernel, for traced code.

    Parameters
    ----------
    program : Program
    results : jax.ShapeDtypeStruct, or a tuple of them
    aliases : dict, optional
        Arguments whose memory results take, by their numbers.
    """
    return jax.ffi.ffi_call(loaded(program), results, vmap_method="sequential", input_output_aliases=aliases)
