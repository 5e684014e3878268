"""Choosing a backend: by name, or the fastest that is usable."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import TypeVar

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import Device, device_of
from jfstat.statistic.backends.backend import Backend
from jfstat.statistic.backends.interpolated import Interpolated
from jfstat.statistic.backends.segments import Segments
from jfstat.statistic.linerobust import LineCut

Some = TypeVar("Some", Backend, Interpolated)
PACKAGE = "jfstat.statistic.backends"
CLASSES = {"cuda": ("cuda.backend", "Cuda"), "library": ("library", "Library")}
"""Module and class of each backend by its name, the fastest first. A module is imported when its backend is chosen."""
NAMES = tuple(CLASSES)
SUMS = {"cuda": ("cuda.sums", "CudaInterpolated"), "library": ("interpolated", "Interpolated")}
"""The same for the sums of interpolating searches."""


@lru_cache
def backend_named(name: str, lines: LineCut | None = None, segments: bool = False) -> Backend:
    """The backend with this name, with a cut by the line-robust statistic if wanted, or for data with segments.

    Raises
    ------
    ValueError
        If there is none, or it cannot make the cut.
    """
    _check_name(name)
    if lines is not None and name != "library":
        raise ValueError(f"backend {name!r} cannot cut by log10BSGL: use the backend 'library', or None.")
    if segments:
        if name != "library" or lines is not None:
            raise ValueError(f"backend {name!r} cannot do this for data with segments: use the backend 'library'.")
        return Segments()
    module, kind = CLASSES[name]
    return getattr(import_module(f"{PACKAGE}.{module}"), kind)(*(() if lines is None else (lines,)))


@lru_cache
def _sums_named(name: str) -> Interpolated:
    """What sums up segments' values in interpolating searches, by the name of its backend.

    Raises
    ------
    ValueError
        If there is none.
    """
    _check_name(name)
    module, kind = SUMS[name]
    return getattr(import_module(f"{PACKAGE}.{module}"), kind)()


def sums_for(device: Device, name: str | None = None) -> Interpolated:
    """The same for a device, by default the fastest.

    Raises
    ------
    ValueError
        If there is no such backend, or it cannot be used on the device.
    """
    if name is None:
        if device.platform == "cpu":  # do not import what needs a GPU
            return _sums_named("library")
        usable = (own for own in map(_sums_named, NAMES) if own.usable(device))
        return _first_available(usable)
    sums = _sums_named(name)
    if not sums.usable(device):
        raise ValueError(
            f"backend {name!r} cannot sum on {device.device_kind}: it needs {sums.needs}; use the backend 'library', "
            "or None for the fastest one."
        )
    _check_available(sums)
    return sums


def backend_for(data: FstatData, name: str | None = None, lines: LineCut | None = None) -> Backend:
    """The backend that computes 2F of some data.

    Parameters
    ----------
    data : FstatData
    name : str, optional
        By default the fastest one that the data's device can use.
    lines : LineCut, optional
        A cut by the line-robust statistic, which only the library can make.

    Raises
    ------
    ValueError
        If there is no such backend, or it cannot compute these data on their device.
    """
    device = device_of(data)
    if data.n_segments is not None:
        return backend_named("library" if name is None else name, lines, True)
    if lines is not None:
        return backend_named("library" if name is None else name, lines)
    if name is None and device.platform == "cpu":  # do not import what needs a GPU
        return backend_named("library")
    if name is None:
        usable = (own for own in map(backend_named, NAMES) if own.usable(data.layout, device))
        return _first_available(usable)
    backend = backend_named(name)
    if not backend.usable(data.layout, device):
        raise ValueError(
            f"backend {name!r} cannot compute these data on {device.device_kind}: it needs {backend.needs}; use the "
            "backend 'library', or None for the fastest one."
        )
    _check_available(backend)
    return backend


def _check_name(name: str) -> None:
    if name not in NAMES:
        listed = ", ".join(map(repr, NAMES))
        raise ValueError(f"backend must be None or one of {listed}, not {name!r}: None takes the fastest one.")


def _check_available(backend: Backend | Interpolated) -> None:
    if why := backend.unavailable():
        raise ValueError(f"backend {backend.name!r} cannot be used on this machine: {why}; use the backend 'library'.")


def _first_available(usable: Iterable[Some]) -> Some:
    """The first of some backends that this machine can run; the last one always can."""
    for backend in usable:
        why = backend.unavailable()
        if why is None:
            return backend
        warnings.warn(
            f"the fast backend {backend.name!r} cannot be used on this machine: {why}; the search takes a slower one.",
            stacklevel=4,
        )
    raise AssertionError("the library can always be used")
