"""Compute the memory that prepared data need, and look up the memory that a device has."""

from __future__ import annotations

from typing import Protocol

import jax
import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData

FLOAT32 = 4
"""Size of a float32, bytes."""


class Device(Protocol):
    """Parts of a `jax.Device` that are used here."""

    @property
    def platform(self) -> str: ...
    @property
    def device_kind(self) -> str: ...
    def memory_stats(self) -> dict[str, int] | None: ...


def filter_bytes(layout: Layout, n_detectors: int) -> int:
    """Return the memory of the filtered series, bytes."""
    return n_detectors * layout.terms * 2 * FLOAT32 * (layout.n_band + 2 * layout.padding)


def data_bytes(data: FstatData) -> int:
    """Return the device memory of prepared data, bytes."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(data))


def device_of(data: object) -> Device:
    """Return the device that holds data of any kind; the default one if they are on the host or on several."""
    leaf = data.series if isinstance(data, FstatData) else jax.tree.leaves(data)[0]
    devices = list(leaf.devices()) if isinstance(leaf, jax.Array) else []
    if len(devices) == 1:
        return devices[0]
    default = default_device()
    return devices[0] if devices and default not in devices else default


def default_device() -> Device:
    """Return the device on which JAX creates arrays: this process's first, or ``jax.default_device``."""
    return next(iter(jax.device_put(np.float32(0)).devices()))


def is_exhausted(error: Exception) -> bool:
    """Return whether an error says that a device is out of memory."""
    return "RESOURCE_EXHAUSTED" in str(error)


def total_bytes(device: Device) -> int | None:
    """Return the memory that JAX may use on a device, bytes; None if unknown, as on a CPU."""
    return _statistics(device).get("bytes_limit")


def free_bytes(device: Device) -> int | None:
    """Return the free memory of a device, bytes; None if unknown, as on a CPU."""
    total = total_bytes(device)
    return None if total is None else total - _statistics(device).get("bytes_in_use", 0)


def _statistics(device: Device) -> dict[str, int]:
    return {} if device.platform == "cpu" else device.memory_stats() or {}
