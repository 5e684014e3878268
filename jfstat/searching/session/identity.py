"""Identify a search, so that checkpoints and units of different searches are never mixed."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, fields, is_dataclass
from typing import Any, TypeAlias

import jax
import numpy as np

from jfstat.data.memory import device_of
from jfstat.searching.session.banksums import bank_sums, column_sums, same_sums
from jfstat.searching.statistic import Task

Identity: TypeAlias = dict[str, Any]
"""Properties that distinguish a search from others, by name, as JSON can hold them; see `identity`."""
PIECES = 8
"""Number of pieces of the data whose sums distinguish one data set from another."""
SAME_DATA = 1e-5
"""Relative difference up to which sums over data count as equal: processors round differently."""
WORDS = {
    "times": "the times of the SFTs",
    "sites": "the sites of the detectors",
    "vetoed": "the vetoed lines",
    "samples": "the SFTs' samples",
    "positions": "the tables of the ephemeris",
    "candidates": "the candidates",
    "search": "what the candidates' table says of their search",
    "known_lines": "the known lines",
}
"""Words for properties that differ, where numbers would say nothing."""
SUMS = {"bank": "the bank's templates", "orbits": "the tables of the ephemeris"}
"""Words for properties that differ by their `column_sums`."""


def identity(task: Task, unit: tuple[int, int] | None) -> Identity:
    """Return the properties that distinguish a search from others, for `differences`."""
    from jfstat.version import __version__

    data, stack = task.data, task.stack
    # with random signs, anything added to the data, such as a signal, changes the sums by the root of its power
    series = np.asarray(data.samples).reshape(-1, data.samples.shape[-1])
    signs = 2 * np.random.default_rng(0).integers(0, 2, series.shape[1], np.int8) - 1
    sums = [[x.sum(dtype=np.complex128) for x in np.array_split(detector * signs, PIECES)] for detector in series]
    numbers = np.stack([np.real(sums), np.imag(sums)]).ravel()
    times = np.stack([data.observation.start, np.asarray(data.observation.weight) > 0])
    return {
        "jfstat": __version__,
        "jax": jax.__version__,
        "platform": device_of(data).platform,
        "detectors": list(data.detectors),
        "sites": digest(np.round(data.observation.response, 9)),
        "start": int(np.min(data.observation.epoch)),
        "segments": data.n_segments,
        "statistic": _described(task.statistic),
        "tspan": float(data.tspan),
        "fmin": float(data.fmin),
        "dfreq": float(data.dfreq),
        "n_frequencies": data.layout.n_frequencies,
        "ephemeris": data.ephemeris,
        # files of other content may have the same name
        "orbits": column_sums(data.observation.trajectory.positions.reshape(-1, 6).T),
        "reftime": [float(task.reftime.seconds), float(task.reftime.nanoseconds)],
        "times": digest(times),
        "data": [float(f"{x:.8g}") for x in numbers],
        "n_templates": len(stack.alpha),
        "bank": bank_sums(stack),
        "model": None if stack.model is None else getattr(stack.model.function, "__qualname__", "unnamed"),
        "top": task.toplist.top,
        "threshold": task.toplist.threshold,
        "lines": None if task.toplist.lines is None else [*astuple(task.toplist.lines)[:2], *task.toplist.lines.odds],
        "vetoed": None if task.toplist.bands is None else digest(*task.toplist.bands),
        "unit": None if unit is None else list(unit),
        **task.statistic.identity(data),
    }


def _described(value: Any) -> str:
    """Return a short text that differs between statistics, or parts of them, with other parameters."""
    if is_dataclass(value):
        own = ", ".join(_described(getattr(value, x.name)) for x in fields(value) if x.init)
        return f"{type(value).__name__}({own})"
    if isinstance(value, np.ndarray | jax.Array):
        return digest(value)
    return getattr(value, "__qualname__", "unnamed") if callable(value) else repr(value)


def digest(*arrays: Any) -> str:
    """Return a short text that differs if any of some arrays does."""
    together = hashlib.sha256()
    for x in arrays:
        own = np.ascontiguousarray(x)
        together.update(f"{own.dtype} {own.shape} ".encode())
        together.update(own.reshape(-1).view(np.uint8).data)
    return together.hexdigest()[:16]


def differences(first: Identity, second: Identity, ignore: tuple[str, ...] = ()) -> str:
    """Return what differs between two identities, in words; "" if they agree."""
    found = []
    for name in second:
        if name in ignore:
            continue
        one, other = first.get(name), second[name]
        if name == "data":
            if not _close(one, other):
                found.append("the data's samples")
        elif name in SUMS:
            if not same_sums(one, other):
                found.append(SUMS[name])
        elif name in WORDS:
            if one != other:
                found.append(WORDS[name])
        elif one != other:
            found.append(f"{name} ({one} there, {other} here)")
    return ", ".join(found)


def _close(first: Any, second: Any) -> bool:
    """Return whether sums over data are equal up to rounding, relative to their root mean square."""
    try:
        one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    except (TypeError, ValueError, OverflowError):  # no numbers, in a file that jfstat did not write
        return False
    if one.shape != other.shape or not one.size or not np.isfinite([one, other]).all():
        return False
    return bool(np.all(np.abs(one - other) <= SAME_DATA * np.sqrt(np.mean(other**2))))
