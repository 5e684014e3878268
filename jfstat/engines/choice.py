"""Choose an engine: by name, or the fastest that is usable."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import TypeVar

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import Device, device_of
from jfstat.engines.engine import Engine
from jfstat.engines.xlasums import XlaSums
from jfstat.statistic.linerobust import LineCut

Some = TypeVar("Some", Engine, XlaSums)
PACKAGE = "jfstat.engines"
CLASSES = {"cuda": ("cuda.engine", "Cuda"), "xla": ("xla", "Xla")}
"""Module and class of each engine by its name, the fastest first. A module is imported when its engine is chosen."""
NAMES = tuple(CLASSES)
SUMS = {"cuda": ("cuda.sums", "CudaSums"), "xla": ("xlasums", "XlaSums")}
"""Module and class that sum segments' values in interpolating searches, by the name of the engine, the fastest first.
"""


@lru_cache
def engine_named(name: str, lines: LineCut | None = None) -> Engine:
    """Return the engine with this name, with a cut by the line-robust statistic if wanted.

    Raises
    ------
    ValueError
        If there is none, or it cannot make the cut.
    """
    _check_name(name)
    if lines is not None and name != "xla":
        raise ValueError(f"engine {name!r} cannot cut by log10BSGL: use the engine 'xla', or None.")
    module, kind = CLASSES[name]
    return getattr(import_module(f"{PACKAGE}.{module}"), kind)(*(() if lines is None else (lines,)))


def xla_only(name: str | None, what: str) -> Engine:
    """Return XLA, the only engine that computes a statistic; `what` says in messages what other engines cannot do.

    Raises
    ------
    ValueError
        If another engine was asked for.
    """
    if name is not None:
        _check_name(name)
    if name not in (None, "xla"):
        raise ValueError(f"engine {name!r} cannot {what}: use the engine 'xla', or None.")
    return engine_named("xla")


@lru_cache
def _sums_named(name: str) -> XlaSums:
    """Return what sums up segments' values in interpolating searches, by the name of its engine.

    Raises
    ------
    ValueError
        If there is none.
    """
    _check_name(name)
    module, kind = SUMS[name]
    return getattr(import_module(f"{PACKAGE}.{module}"), kind)()


def sums_for(device: Device, name: str | None = None) -> XlaSums:
    """Return what sums up segments' values on a device, by default the fastest.

    Raises
    ------
    ValueError
        If there is no such engine, or it cannot be used on the device.
    """
    if name is None:
        if device.platform == "cpu":  # do not import what needs a GPU
            return _sums_named("xla")
        usable = (own for own in map(_sums_named, NAMES) if own.usable(device))
        return _first_available(usable)
    sums = _sums_named(name)
    if not sums.usable(device):
        raise ValueError(
            f"engine {name!r} cannot sum on {device.device_kind}: it needs {sums.needs}; use the engine 'xla', "
            "or None for the fastest one."
        )
    _check_available(sums)
    return sums


def engine_for(data: FstatData, name: str | None = None, lines: LineCut | None = None) -> Engine:
    """Return the engine that computes 2F of some data.

    Parameters
    ----------
    data : FstatData
        Without segments.
    name : str, optional
        By default the fastest one that the data's device can use.
    lines : LineCut, optional
        Cut by the line-robust statistic, which only XLA can make.

    Raises
    ------
    ValueError
        If there is no such engine, or it cannot compute these data on their device.
    """
    device = device_of(data)
    if lines is not None:
        return engine_named("xla" if name is None else name, lines)
    if name is None:
        return fastest(data.layout, device)
    engine = engine_named(name)
    if not engine.usable(data.layout, device):
        raise ValueError(
            f"engine {name!r} cannot compute these data on {device.device_kind}: it needs {engine.needs}; use the "
            "engine 'xla', or None for the fastest one."
        )
    _check_available(engine)
    return engine


def fastest(layout: Layout, device: Device) -> Engine:
    """Return the fastest engine that can compute data of a layout on a device."""
    if device.platform == "cpu":  # do not import what needs a GPU
        return engine_named("xla")
    return _first_available(own for own in map(engine_named, NAMES) if own.usable(layout, device))


def _check_name(name: str) -> None:
    if name not in NAMES:
        listed = ", ".join(map(repr, NAMES))
        raise ValueError(f"engine must be None or one of {listed}, not {name!r}: None takes the fastest one.")


def _check_available(engine: Engine | XlaSums) -> None:
    if why := engine.unavailable():
        raise ValueError(f"engine {engine.name!r} cannot be used on this machine: {why}; use the engine 'xla'.")


def _first_available(usable: Iterable[Some]) -> Some:
    """Return the first of some engines that this machine can run; the last one always can."""
    for engine in usable:
        why = engine.unavailable()
        if why is None:
            return engine
        warnings.warn(
            f"the fast engine {engine.name!r} cannot be used on this machine: {why}; jfstat takes a slower one.",
            stacklevel=4,
        )
    raise AssertionError("the library can always be used")
