"""One file of strain, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

Bit = str | int
"""A data-quality bit: its name, or its number in a channel that the user names."""

DATA_QUALITY_BITS = ("DATA", "CBC_CAT1", "CBC_CAT2", "CBC_CAT3", "BURST_CAT1", "BURST_CAT2", "BURST_CAT3")
"""Names of the bits of GWOSC's data-quality channel, from bit 0 on, since O1 (gwosc.org, technical details of O1 to
O4). HDF5 files hold names of their own, frame files do not."""
INJECTION_BITS = ("NO_CBC_HW_INJ", "NO_BURST_HW_INJ", "NO_DETCHAR_HW_INJ", "NO_CW_HW_INJ", "NO_STOCH_HW_INJ")
"""The same for the channel of hardware injections."""


class StrainFile(Protocol):
    """A file of strain of one detector, from a whole GPS second on.

    Attributes
    ----------
    path : Path
    channel : str
        Where the strain stands in the file.
    detector : str
    start : int
        GPS s.
    rate : int
        Samples per second.
    n : int
        Number of samples, a whole number of seconds.
    """

    @property
    def path(self) -> Path: ...
    @property
    def channel(self) -> str: ...
    @property
    def detector(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def rate(self) -> int: ...
    @property
    def n(self) -> int: ...

    def read(self, first: int, stop: int) -> np.ndarray:
        """Samples `first` up to `stop` of the file: (stop - first,) float64."""
        ...

    def good_seconds(self, bits: Sequence[Bit] | None) -> np.ndarray:
        """Whether all of these data-quality bits are set in each second of the file, (n / rate,) bool.

        None stands for ``DATA`` in files that have GWOSC's bits, and for nothing in others.
        """
        ...


def seconds_with(masks: dict[str, np.ndarray], numbers: Sequence[tuple[str, int]], n_seconds: int) -> np.ndarray:
    """Whether bits are set in all samples of each second: (n_seconds,) bool.

    Parameters
    ----------
    masks : dict
        Samples of the channels of bits by their names, (n,) ints, a whole number of them in a second.
    numbers : sequence of (channel, bit number)
    n_seconds : int
    """
    good = np.ones(n_seconds, bool)
    for channel, bit in numbers:
        good &= (masks[channel].reshape(n_seconds, -1) >> bit & 1).astype(bool).all(axis=1)
    return good


def unusable(path: Path, why: str, instead: str) -> ValueError:
    """The error for a file that cannot be used."""
    return ValueError(f"paths: {str(path)!r} cannot be used, {why}: {instead}.")
