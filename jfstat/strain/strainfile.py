"""The interface of strain files, whatever their format, and their data-quality bits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

Bit = str | int
"""A data-quality bit: its name, or its number in a channel that the user names."""

DATA_QUALITY_BITS = ("DATA", "CBC_CAT1", "CBC_CAT2", "CBC_CAT3", "BURST_CAT1", "BURST_CAT2", "BURST_CAT3")
"""Names of the bits of GWOSC's data-quality channel, from bit 0 on, since O1 (gwosc.org, technical details of O1 to
O4). HDF5 files hold their own names, frame files do not."""
INJECTION_BITS = ("NO_CBC_HW_INJ", "NO_BURST_HW_INJ", "NO_DETCHAR_HW_INJ", "NO_CW_HW_INJ", "NO_STOCH_HW_INJ")
"""Names of the bits of GWOSC's channel of hardware injections, from bit 0 on, since O1."""


class StrainFile(Protocol):
    """A file of strain of one detector that starts on a whole GPS second.

    Attributes
    ----------
    path : Path
    channel : str
        Channel of the strain in the file.
    detector : str
    start : int
        Start of the file, GPS s.
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
        """Return samples `first` up to `stop` of the file: (stop - first,) float64."""
        ...

    def good_seconds(self, bits: Sequence[Bit] | None) -> np.ndarray:
        """Return whether all given data-quality bits are set in each second of the file, (n / rate,) bool.

        None stands for ``DATA`` in files that have GWOSC's bits, and for nothing in others.
        """
        ...


def seconds_with(masks: dict[str, np.ndarray], numbers: Sequence[tuple[str, int]], n_seconds: int) -> np.ndarray:
    """Return whether bits are set in all samples of each second: (n_seconds,) bool.

    Parameters
    ----------
    masks : dict
        Samples, (n,) ints, of the channels of bits by their names, a whole number of samples in a second.
    numbers : sequence of (channel, bit number)
    n_seconds : int
    """
    good = np.ones(n_seconds, bool)
    for channel, bit in numbers:
        good &= (masks[channel].reshape(n_seconds, -1) >> bit & 1).astype(bool).all(axis=1)
    return good


def unusable(path: Path, why: str, instead: str) -> ValueError:
    """Return the error for a file that cannot be used."""
    return ValueError(f"paths: {str(path)!r} cannot be used, {why}: {instead}.")
