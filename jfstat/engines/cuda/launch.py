"""Compile and load kernels once, with all their constants, and make them functions that JAX can trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import Any, TypeAlias

import jax

from jfstat.data.memory import Device
from jfstat.engines.cuda import handler
from jfstat.engines.cuda.cubins import Constants, cubin, key
from jfstat.engines.cuda.driver import Kernel
from jfstat.maths.lengths import largest_divisor

LEAST_CAPABILITY = 8.0
"""Least compute capability of NVIDIA GPUs, for reductions of warps and cache hints."""
MOST_BLOCKS = 65535
"""Largest number of blocks of a launch in the second and the third direction."""
Shapes: TypeAlias = Sequence[tuple[int, ...]]
"""Shapes of a kernel's arguments and results."""
Grid: TypeAlias = Callable[["Program", Shapes], tuple[int, int, int]]
"""Number of blocks in each direction, from a program and the shapes of its arguments and results."""
_REGISTERING = Lock()


@dataclass(frozen=True)
class Program:
    """Kernel with all its constants; hashable, so that it is loaded once.

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
        """Return a program from the values of its constants by name."""
        return cls(source, name, tuple(sorted(constants.items())), grid, threads, shared, static)

    def __getitem__(self, name: str) -> int:
        return dict(self.constants)[name]  # type: ignore[return-value]


def tile_grid(tiles: int) -> tuple[int, int]:
    """Return the blocks in the second and third direction for tiles that may exceed one direction's limit."""
    second = largest_divisor(tiles, MOST_BLOCKS)
    return second, tiles // second


def capability(device: Device) -> float:
    """Return the compute capability of an NVIDIA GPU; 0 for other devices."""
    nvidia = device.platform in ("gpu", "cuda") and "nvidia" in device.device_kind.lower()
    return float(getattr(device, "compute_capability", 0)) if nvidia else 0.0


def capable(device: Device) -> bool:
    """Return whether kernels can run on a device."""
    return capability(device) >= LEAST_CAPABILITY


@lru_cache
def architecture() -> str:
    """Return the architecture of JAX's first GPU, such as ``sm_90``."""
    major, minor = str(jax.devices("gpu")[0].compute_capability).split(".")
    return f"sm_{major}{minor}"


@cache
def _compilers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="jfstat-nvrtc")


def _load(program: Program, stored: bool = True) -> Kernel:
    code = cubin(program.source, program.constants, architecture(), stored)
    return Kernel(code, program.name, program.threads, program.shared)


@lru_cache(maxsize=64)
def _loading(program: Program) -> Future[Kernel]:
    return _compilers().submit(_load, program)


@cache
def loaded(program: Program) -> Kernel:
    """Return a kernel, compiled and loaded once, perhaps by a thread; failures are tried again at the next call.

    Raises
    ------
    CudaError
        If it cannot be compiled or loaded.
    """
    try:
        return _loading(program).result()
    except Exception:  # what is on disk may be damaged, and what has failed once may succeed
        return _load(program, stored=False)


def compile_together(programs: Sequence[Program | None]) -> None:
    """Begin to compile and load kernels, all at the same time, while the caller goes on; None are left out.

    Failures are reported when the kernel is started.
    """
    for program in programs:
        if program is not None:
            _loading(program)


@cache
def _target(program: Program) -> str:
    """Register a kernel as a target of XLA and return its name; its first start waits until the kernel is loaded."""
    target = f"jfstat_{program.name}_{key(program.source, program.constants, architecture())}"

    def launch(stream: int | None, arrays: list[handler.Array]) -> None:
        grid = program.grid(program, [x.shape for x in arrays])
        loaded(program).launch(stream, grid, [x.address for x in arrays])

    handler.register(target, launch)
    return target


def target(program: Program) -> str:
    """Return the name by which XLA starts a kernel, which a thread compiles and loads in the meantime."""
    compile_together([program])
    with _REGISTERING:  # searches trace in several threads
        return _target(program)


def call(program: Program, results: Any, aliases: dict[int, int] | None = None) -> Callable[..., Any]:
    """Return a function of arrays that runs a kernel, for traced code.

    Parameters
    ----------
    program : Program
    results : jax.ShapeDtypeStruct, or a tuple of them
    aliases : dict, optional
        Arguments whose memory results take, by their numbers.
    """
    return jax.ffi.ffi_call(target(program), results, vmap_method="sequential", input_output_aliases=aliases)
