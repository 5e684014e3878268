"""Estimate, before a search runs, how much memory it needs on a device and how many templates fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import data_bytes, device_of, filter_bytes, free_bytes
from jfstat.engines.engine import BandReduction
from jfstat.signal.templates import Doppler

CPU_BYTES = 32 << 20
"""Largest batch on a CPU, bytes, unless a single template needs more: larger ones do not fit into the caches."""
MOST_BYTES = 16 << 30
"""Largest batch on an accelerator, bytes, however much memory is free."""
USABLE = 0.8
"""Fraction of a device's free memory that a search may take; fragments and the library's work space need the rest."""
USABLE_IN_PARTS = 0.5
"""Fraction of a device's free memory that a search in parts of the band may take: freed arrays fragment the memory."""
LEAST_BATCH, MOST_PARTS = 2, 256
"""Smallest number of templates computed at a time if the band is cut into parts, and largest number of parts."""
MAKING = 80
"""Bytes per sample needed to make a part's filtered series, in double precision."""
MARGIN = 1.2
"""Ratio of a part's width with Doppler margins to its width without."""
GROUP = 8
"""Batch sizes are multiples of this, or powers of two below: engines may compute this many templates side by side."""


def most_templates(data: FstatData, points: Doppler, reduction: BandReduction, n_parts: int = 1) -> int:
    """Return the largest batch that fits into the device's free memory: at least 1, a multiple of `GROUP` if larger."""
    each = _each(data, points, reduction, n_parts)
    free = free_bytes(device_of(data))
    if free is None:
        most = CPU_BYTES // each
    else:
        room = USABLE * free - reduction.filter_bytes(data.layout, len(data.detectors))
        if n_parts > 1:
            room = USABLE_IN_PARTS * free - _filters(data, reduction, n_parts)
        most = min(int(min(room, MOST_BYTES) // each), reduction.largest_batch(data.layout))
    most = max(1, most)
    return most - most % GROUP if most > GROUP else 1 << (most.bit_length() - 1)


def parts_needed(data: FstatData, points: Doppler, reduction: BandReduction) -> int:
    """Return the number of parts of the band, searched one after the other, that makes each fit into the device's
    memory.

    Raises
    ------
    ValueError
        If more than `MOST_PARTS` parts would be needed.
    """
    free = free_bytes(device_of(data))
    layout = data.layout
    one = reduction.filter_bytes(layout, len(data.detectors)) + _each(data, points, reduction, 1)
    if free is None or (data.filters and one <= USABLE * free):
        return 1
    whole = MARGIN * (
        _filters(data, reduction) + max(LEAST_BATCH * _each(data, points, reduction, 1), MAKING * layout.n_band)
    )
    parts = int(np.ceil(whole / (USABLE_IN_PARTS * free)))
    if parts > MOST_PARTS:
        raise ValueError(
            f"the search needs {whole / 1e9:.1f} GB and the device has {free / 1e9:.3f} GB free: free some memory or "
            "prepare a narrower band."
        )
    return parts


def needed_bytes(data: FstatData, points: Doppler, reduction: BandReduction, n_parts: int, batch_size: int) -> int:
    """Return the device memory that a search needs, bytes, data included."""
    own = reduction.filter_bytes(data.layout, len(data.detectors))
    filters = own if n_parts == 1 else _filters(data, reduction, n_parts)
    return data_bytes(data) + filters + batch_size * _each(data, points, reduction, n_parts)


def _filters(data: FstatData, reduction: BandReduction, n_parts: int = 1) -> int:
    """Return the memory of the filters of the whole band or of a part, as `prepare` and as the reduction makes them."""
    layout, n_detectors = _of_part(data.layout, n_parts), len(data.detectors)
    return filter_bytes(layout, n_detectors) + reduction.filter_bytes(layout, n_detectors)


def _each(data: FstatData, points: Doppler, reduction: BandReduction, n_parts: int) -> int:
    layout = _of_part(data.layout, n_parts)
    return reduction.template_bytes(layout, len(data.detectors), points.orbit is not None)


def _of_part(layout: Layout, n_parts: int) -> Layout:
    """Return approximate sizes of one part of the band: fewer samples, in equally many blocks; a reduction may keep
    more per sample."""
    if n_parts == 1:
        return layout
    names = ("n_fft", "n_band", "n_frequencies", "block")
    fewer = {name: max(1, int(MARGIN * getattr(layout, name) / n_parts)) for name in names}
    return replace(layout, block_orbit=max(1, layout.block_orbit * fewer["block"] // layout.block), **fewer)
