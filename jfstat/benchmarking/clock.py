"""Time jitted functions, and measure the memory and bandwidth that they use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.workers import in_order, workers_for

Result = TypeVar("Result")
LEAST_SECONDS = 0.2
"""Least duration over which calls are timed together, s: a single call's time jitters too much."""
MOST_CALLS = 64
COPY_BYTES = {"cpu": 64 << 20}
COPY_BYTES_ELSEWHERE = 1 << 28


def compiled(function: jax.stages.Wrapped, *arguments: object) -> tuple[jax.stages.Compiled, float]:
    """Return a jitted function compiled for its arguments, and how many seconds that took."""
    began = time.perf_counter()
    program = function.lower(*arguments).compile()
    return program, time.perf_counter() - began


def seconds_per_call(function: Callable[..., Result], calls: Sequence[tuple]) -> tuple[float, list[Result]]:
    """Return seconds per call, with several calls running at a time as in `search`, and the results.

    Parameters
    ----------
    function : callable
        Compiled.
    calls : sequence of tuples
        Arguments of each call, ready on the device.
    """
    workers = min(len(calls), workers_for(jax.devices()[0]))
    began = time.perf_counter()
    results = list(in_order(lambda arguments: jax.block_until_ready(function(*arguments)), calls, workers))
    return (time.perf_counter() - began) / len(calls), results


def seconds_repeating(function: Callable[..., Result], arguments: tuple, calls: int) -> tuple[float, Result | None]:
    """Return seconds per call when one call is repeated, and the last result; holds a single result at a time."""
    result = None
    began = time.perf_counter()
    for _ in range(calls):
        result = None
        result = function(*arguments)
    jax.block_until_ready(result)
    return (time.perf_counter() - began) / calls, result


def calls_per_time(seconds: float) -> int:
    """Return how many calls to time together if one takes a given number of seconds."""
    return int(np.clip(np.ceil(LEAST_SECONDS / seconds), 1, MOST_CALLS))


def copy_bandwidth(platform: str, seed: int, repeats: int = 7) -> float:
    """Return the bytes per second, read and written, of ``x + 1`` on a large float32 array."""
    size = COPY_BYTES.get(platform, COPY_BYTES_ELSEWHERE)
    x = jax.random.uniform(jax.random.key(seed), (size // 4,), jnp.float32)
    program, _ = compiled(jax.jit(lambda x: x + jnp.float32(1)), x)
    calls = calls_per_time(seconds_repeating(program, (x,), 2)[0])
    times = [seconds_repeating(program, (x,), calls)[0] for _ in range(repeats)]
    return 2 * size / float(np.median(times))


def memory_bytes(program: jax.stages.Compiled) -> dict[str, int]:
    """Return bytes of a compiled function's arguments, results and temporary arrays; empty where JAX cannot tell."""
    analysis = program.memory_analysis()
    if analysis is None:
        return {}
    return {kind: int(getattr(analysis, f"{kind}_size_in_bytes")) for kind in ("argument", "output", "temp")}
