"""From a layout and a device to the memory that a search takes: known before anything runs."""

from __future__ import annotations

import numpy as np

from jfstat.data.fstatdata import FstatData, Layout
from jfstat.data.memory import bank_bytes, data_bytes, device_of, free_bytes
from jfstat.statistic.backends.loudest import Method
from jfstat.statistic.backends.triton import chain
from jfstat.templates import Doppler

CPU_BYTES = 32 << 20
"""What a batch may take on a CPU, if it is more than one template: larger ones fall out of the caches."""
MOST_BYTES = 16 << 30
"""The same on accelerators, however much is free."""
USABLE = 0.8
"""Part of a device's free memory that a search may take; the rest is for fragments and the library's work space."""
USABLE_IN_PARTS = 0.5
"""The same where the band is cut into parts, whose arrays come and go and leave the memory in fragments."""
LEAST_BATCH, MOST_PARTS = 2, 256
"""Templates computed at a time, at the least, where the band is cut into parts; and how many parts at most."""
MAKING = 80
"""Bytes for each sample while a part's bank is made, in double precision."""
MARGIN = 1.2
"""By how much the Doppler margins make parts wider than their share."""
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


def most_templates(data: FstatData, points: Doppler, method: Method, n_parts: int = 1) -> int:
    """Templates that fit into the device's free memory at a time, 1 at the least; eights, if there are so many."""
    each = _each(data, points, method, n_parts)
    free = free_bytes(device_of(data))
    if free is None:
        most = CPU_BYTES // each
    else:
        room = USABLE * free
        if n_parts > 1:
            room = USABLE_IN_PARTS * free - bank_bytes(data.layout, len(data.detectors)) * MARGIN / n_parts
        most = int(min(room, MOST_BYTES) // each)
        if method is not Method.LIBRARY:
            most = min(most, n_parts * chain.largest_batch(data.layout))
    # groups of templates lie side by side in powers of two
    return max(1, most - most % chain.LANES if most > chain.LANES else 1 << max(0, most.bit_length() - 1))


def parts_needed(data: FstatData, points: Doppler, method: Method) -> int:
    """Parts of the band to be searched one after the other so that one part fits into the device's memory.

    Raises
    ------
    ValueError
        If that would be more than `MOST_PARTS`.
    """
    free = free_bytes(device_of(data))
    if free is None or (data.bank and _each(data, points, method, 1) <= USABLE * free):
        return 1
    layout = data.layout
    whole = MARGIN * (
        bank_bytes(layout, len(data.detectors))
        + max(LEAST_BATCH * _each(data, points, method, 1), MAKING * layout.n_band)
    )
    parts = int(np.ceil(whole / (USABLE_IN_PARTS * free)))
    if parts > MOST_PARTS:
        raise ValueError(
            f"the search needs {whole / 1e9:.1f} GB and the device has {free / 1e9:.3f} GB free: free some memory or "
            "prepare a narrower band."
        )
    return parts


def needed_bytes(data: FstatData, points: Doppler, method: Method, n_parts: int, batch_size: int) -> int:
    """Device memory that a search takes, data included."""
    banks = 0 if n_parts == 1 else int(MARGIN * bank_bytes(data.layout, len(data.detectors)) / n_parts)
    return data_bytes(data) + banks + batch_size * _each(data, points, method, n_parts)


def _each(data: FstatData, points: Doppler, method: Method, n_parts: int) -> int:
    whole = bytes_per_template(data.layout, method, len(data.detectors), points.orbit is not None)
    return whole if n_parts == 1 else int(MARGIN * whole / n_parts)
