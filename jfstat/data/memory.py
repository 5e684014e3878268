"""How much memory prepared data take on a device, and how much it has."""

from __future__ import annotations

from typing import Any

import jax

from jfstat.data.fstatdata import FstatData, Layout

FLOAT32 = 4
"""Bytes."""


def bank_bytes(layout: Layout, n_detectors: int) -> int:
    """Memory of the interpolation banks."""
    return n_detectors * layout.terms * 2 * FLOAT32 * (layout.n_band + 2 * layout.padding)


def data_bytes(data: FstatData) -> int:
    """Device memory that prepared data take."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(data))


def device_of(data: FstatData) -> Any:
    """The device on which the data lie, or else the default one."""
    leaf = data.series
    return next(iter(leaf.devices())) if isinstance(leaf, jax.Array) else jax.devices()[0]


def total_bytes(device: Any) -> int | None:
    """Memory that JAX may use on a device; None where it does not say, as on a CPU."""
    return _statistics(device).get("bytes_limit")


def free_bytes(device: Any) -> int | None:
    """Memory that a device has free; None where it does not say, as on a CPU."""
    total = total_bytes(device)
    return None if total is None else total - _statistics(device).get("bytes_in_use", 0)


def _statistics(device: Any) -> dict[str, int]:
    return {} if device.platform == "cpu" else device.memory_stats() or {}
