"""Time the whole computation of a setting and its stages."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from jfstat.benchmarking.clock import (
    calls_per_time,
    compiled,
    copy_bandwidth,
    memory_bytes,
    seconds_per_call,
    seconds_repeating,
)
from jfstat.benchmarking.inputs import default_batch, prepared, random_points
from jfstat.benchmarking.settings import Setting
from jfstat.data.fstatdata import FstatData
from jfstat.engines.choice import engine_for
from jfstat.engines.engine import Stage
from jfstat.geometry.ephemeris import EphemerisFiles
from jfstat.signal.templates import Doppler
from jfstat.statistic.fstat import compiled_band

TOLERANCE = 1e-4
"""Relative difference allowed between the timed maximum and the maximum of `twoF_band` by XLA."""
PASS_BYTES = 16
"""Bytes of reading and writing a complex64."""


@dataclass(frozen=True)
class Request:
    """Request for a measurement.

    Attributes
    ----------
    setting : Setting
    batch : int or None
        Templates of a batch; None chooses by platform and length.
    repeats : int
    seed : int
    ephemeris : str or two paths
    path : str or None
        Name of an engine; None as `search` would choose.
    """

    setting: Setting
    batch: int | None = None
    repeats: int = 7
    seed: int = 0
    ephemeris: EphemerisFiles = "DE405"
    path: str | None = None


@dataclass(frozen=True)
class StageTime:
    """Time of one stage: seconds per batch, part of tau, and passes over memory.

    `seconds` is the median of `repeats`; `tau` is the stage's part of tau, s; `least_passes` are the fewest possible.
    """

    name: str
    seconds: float
    repeats: list[float]
    tau: float
    passes: float
    least_passes: float


@dataclass(frozen=True)
class Measurement:
    """Times of one setting; `jfstat benchmark --help` says what `tau` and passes are.

    Attributes
    ----------
    platform, device : str
    cores : int or None
        Number of cores that this process may use; None if the system does not tell.
    path : str
        Name of the engine.
    batch, n_fft, n_frequencies : int
    calls : int
        Calls over which one time is taken.
    tau : float
        Median, s.
    seconds : list of float
        Per batch, each repeat.
    compile_seconds : float
    memory : dict
        Bytes of the compiled function's arguments, results and temporary arrays.
    copy_bandwidth : float
        Bytes/s.
    stages : list of StageTime
    check : dict
        Maximum of 2F of one template: as timed, and of `twoF_band`.
    """

    platform: str
    device: str
    cores: int | None
    path: str
    batch: int
    n_fft: int
    n_frequencies: int
    calls: int
    tau: float
    seconds: list[float]
    compile_seconds: float
    memory: dict[str, int]
    copy_bandwidth: float
    stages: list[StageTime]
    check: dict[str, float]


def measure(request: Request, rounds: int = 1, between: Callable[[FstatData], None] | None = None) -> Measurement:
    """Time a setting on the default device of this process.

    Parameters
    ----------
    request : Request
    rounds : int
        Into how many parts the repeats are divided.
    between : callable, optional
        Called with the data after each part: another program that takes turns with jfstat.

    Raises
    ------
    ValueError
        If the data cannot be made, a result is not finite and positive, or differs from `twoF_band`.
    """
    gc.collect()  # frees arrays of the previous row that reference cycles may still hold
    setting, rng = request.setting, np.random.default_rng(request.seed)
    device = jax.devices()[0]
    data = prepared(setting, request.seed, request.ephemeris)
    n_fft = data.layout.n_fft
    engine = engine_for(data, request.path)
    batch = request.batch or default_batch(setting, data, engine)
    whole_data, data = data, engine.ready(data)

    def draw() -> Doppler:
        return random_points(rng, data, batch, setting.one_position)

    points = draw()
    whole = jax.jit(lambda data, points: engine.maxima(data, points, setting.one_position))
    stages = engine.stages(data, points, setting.one_position)
    program, compile_seconds = compiled(whole, data, points)
    check = checked(setting, whole_data, points, np.asarray(program(data, points)), int(rng.integers(batch)))
    calls = calls_per_time(seconds_per_call(program, [(data, draw())])[0])

    seconds: list[float] = []
    for share in np.array_split(np.arange(request.repeats), rounds):
        seconds += [_whole_seconds(setting, program, data, draw, calls) for _ in share]
        if between is not None:
            between(whole_data)

    stage_times = _stage_seconds(setting, stages, program, data, draw, request.repeats)
    per_bin = data.layout.n_frequencies * batch * len(data.detectors)
    bandwidth = copy_bandwidth(device.platform, request.seed)
    one_pass = PASS_BYTES * n_fft * batch / bandwidth
    return Measurement(
        platform=device.platform,
        device=device.device_kind,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        path=engine.name,
        batch=batch,
        n_fft=n_fft,
        n_frequencies=data.layout.n_frequencies,
        calls=calls,
        tau=float(np.median(seconds)) / per_bin,
        seconds=seconds,
        compile_seconds=compile_seconds,
        memory=memory_bytes(program),
        copy_bandwidth=bandwidth,
        stages=[
            StageTime(
                name=stage.name,
                seconds=(median := float(np.median(times))),
                repeats=times,
                tau=median / per_bin,
                passes=median / one_pass,
                least_passes=stage.least_bytes / bandwidth / one_pass,
            )
            for stage, times in zip(stages, stage_times, strict=True)
        ],
        check=check,
    )


def _whole_seconds(
    setting: Setting, program: jax.stages.Compiled, data: FstatData, draw: Callable[[], Doppler], calls: int
) -> float:
    """Return seconds per batch of the whole computation; each call gets other templates."""
    seconds, results = seconds_per_call(program, [(data, draw()) for _ in range(calls)])
    _require_sound(setting, np.asarray(results))
    return seconds


def _stage_seconds(
    setting: Setting,
    stages: Sequence[Stage],
    program: jax.stages.Compiled,
    data: FstatData,
    draw: Callable[[], Doppler],
    repeats: int,
) -> list[list[float]]:
    """Return seconds per batch of each stage, for each repeat; a stage's input is the previous stage's output.

    Raises
    ------
    ValueError
        If the last stage does not agree with the whole computation.
    """
    x, points, calls = None, draw(), []
    for stage in stages:
        jax.block_until_ready(stage.run(data, points, x))  # compiles
        seconds, x = seconds_repeating(stage.run, (data, points, x), 1)
        calls.append(calls_per_time(seconds))
    if not np.allclose(np.asarray(x), np.asarray(program(data, points)), rtol=TOLERANCE, atol=0.0):
        raise ValueError(f"row {setting.name}: the stages give other maxima of 2F than the whole: report this.")
    times: list[list[float]] = [[] for _ in stages]
    for _ in range(repeats):
        x, points = None, draw()
        for stage, own, n in zip(stages, times, calls, strict=True):
            seconds, x = seconds_repeating(stage.run, (data, points, x), n)
            own.append(seconds)
    return times


def checked(setting: Setting, data: FstatData, points: Doppler, maxima: np.ndarray, which: int) -> dict[str, float]:
    """Compare the timed maximum of one template of a batch with the maximum of `twoF_band` by XLA.

    Raises
    ------
    ValueError
        If they differ, or a maximum is not finite and positive.
    """
    _require_sound(setting, maxima)
    one = jax.tree.map(lambda x: x[which], points)
    timed, expected = float(maxima[which]), float(np.max(np.asarray(compiled_band(data, one))))
    if not abs(timed - expected) <= TOLERANCE * expected:
        raise ValueError(
            f"row {setting.name}: the timed computation's largest 2F is {timed:.6g}, but {expected:.6g} by XLA: "
            "its time means nothing; report this."
        )
    return {"timed": timed, "twoF_band": expected}


def _require_sound(setting: Setting, maxima: np.ndarray) -> None:
    """Raise a ValueError unless all maxima of 2F are finite and positive."""
    if not (np.isfinite(maxima).all() and (maxima > 0).all()):
        raise ValueError(f"row {setting.name}: a largest 2F is not finite and positive: report this.")
