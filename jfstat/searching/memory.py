"""From a layout and a device to the memory that a search takes: known before anything runs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jfstat.data.fstatdata import FstatData, Layout
from jfstat.searching.loudest import Method
from jfstat.templates import Doppler

CPU_BYTES = 32 << 20
"""What a batch may take on a CPU, if it is more than one template: larger ones fall out of the caches."""
MOST_BYTES = 16 << 30
"""The same on accelerators, however much is free."""
USABLE = 0.8
"""Part of a device's free memory that a batch may take; the rest is for fragments and the library's work space."""
NODE_BYTES = {Method.LIBRARY: 5000, Method.FUSED: 3000, Method.INTERPRETED: 3000}
"""For each node of the timing, measured."""


def bytes_per_template(layout: Layout, method: Method, n_detectors: int, orbit: bool) -> int:
    """Device memory that each template of a batch takes, at the most.

    For each sample: interpolated series (8 bytes a detector), four folded series and their transforms (32 each), and as
    much again for the library's work space; or, fused, two weighted series (16) and four in the course of their
    transform (32).
    """
    n = layout.n_blocks * layout.block
    per_sample = 8 * n_detectors + 96 if method is Method.LIBRARY else 16 + 32
    return (
        n * per_sample + 4 * (n // (layout.block_orbit if orbit else layout.block)) * NODE_BYTES[method] * n_detectors
    )


def data_bytes(data: FstatData) -> int:
    """Device memory that the prepared data take."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(data))


def device_of(data: FstatData) -> Any:
    """The device on which the data lie, or else the default one."""
    leaf = data.bank[0]
    return next(iter(leaf.devices())) if isinstance(leaf, jax.Array) else jax.devices()[0]


def free_bytes(device: Any) -> int | None:
    """Memory that a device has free; None where it does not say, as on a CPU."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    return None if not stats or "bytes_limit" not in stats else stats["bytes_limit"] - stats.get("bytes_in_use", 0)


def largest_batch(data: FstatData, points: Doppler, method: Method) -> int:
    """Templates that fit into the device's free memory at a time.

    Raises
    ------
    ValueError
        If not even one does.
    """
    device = device_of(data)
    each = bytes_per_template(data.layout, method, len(data.detectors), points.orbit is not None)
    free = free_bytes(device)
    if free is None:
        return max(1, CPU_BYTES // each)
    if each > USABLE * free:
        raise ValueError(
            f"one template needs {each / 1e9:.2f} GB and {device} has {free / 1e9:.2f} GB free: prepare a narrower "
            "band and search its parts one after the other."
        )
    return int(np.clip(USABLE * free, each, max(each, MOST_BYTES)) // each)
