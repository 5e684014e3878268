"""Access to parts of SFTs, in files or in memory, and to SFTs between two times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jfstat.sfts.container import SFTs


class PartsOfSFTs(Protocol):
    """SFTs of which parts can be read: `sfts.reading.SFTFiles`, `InMemory` or `Between`."""

    @property
    def times(self) -> SFTs: ...

    @property
    def first_bin(self) -> int: ...

    @property
    def last_bin(self) -> int: ...

    def read(self, detector: str, rows: slice, first_bin: int, last_bin: int) -> NDArray[np.complex64]:
        """Return the bins of some SFTs of a detector, (n_rows, n_bins) complex64."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """SFTs in memory, with the interface of `PartsOfSFTs`."""

    times: SFTs

    @property
    def first_bin(self) -> int:
        return self.times.first_bin

    @property
    def last_bin(self) -> int:
        return self.times.first_bin + self.times.n_bins - 1

    def read(self, detector: str, rows: slice, first_bin: int, last_bin: int) -> NDArray[np.complex64]:
        return self.times[detector].data[rows, first_bin - self.first_bin : last_bin + 1 - self.first_bin]


@dataclass(frozen=True, eq=False)
class Between:
    """SFTs between two times, with the interface of `PartsOfSFTs`."""

    whole: PartsOfSFTs
    times: SFTs
    offsets: dict[str, int]

    @property
    def first_bin(self) -> int:
        return self.whole.first_bin

    @property
    def last_bin(self) -> int:
        return self.whole.last_bin

    def read(self, detector: str, rows: slice, first_bin: int, last_bin: int) -> np.ndarray:
        offset = self.offsets[detector]
        return self.whole.read(detector, slice(rows.start + offset, rows.stop + offset), first_bin, last_bin)


def between(parts: PartsOfSFTs, start: float, end: float) -> PartsOfSFTs:
    """Return the SFTs that lie entirely between two GPS times."""
    times = parts.times
    if start <= times.start and end >= times.end:
        return parts
    chosen = times.select(start, end - times.tsft + 1e-3)
    offsets = {s.detector: int(np.searchsorted(times[s.detector].since(0), s.since(0)[0] - 1e-3)) for s in chosen}
    return Between(parts, chosen, offsets)
