"""The interface of strain files, whatever their format, and their data-quality bits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
NO_CW_INJECTION = "NO_CW_HW_INJ"
"""Bit of seconds without hardware injections of continuous waves."""
GWOSC_RATE, GWOSC_VALID = 4096, 1600.0
"""GWOSC's lower sampling rate, 1/s, and the frequency up to which strain at that rate is surely right, Hz."""
FIRST_RUN = 1_126_051_217
"""Start of O1, GPS s: before it, bits other than the first one of data quality had other names."""
MOST_BITS = 63
"""Most bits of a mask."""
LAST_TIME = 2**31
"""GPS times from here on are taken for a mistake, s: the year 2048."""


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

        None stands for ``DATA`` in files of GWOSC, and for nothing in other frame files.
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


def numbered(
    path: Path, mask: str, names: Sequence[str], before: Collection[str], instead: str
) -> dict[str, tuple[str, int]]:
    """Return the mask and the number of each bit by its name.

    Parameters
    ----------
    path : Path
    mask : str
    names : sequence of str
        Names of the bits of this mask, from bit 0 on.
    before : collection of str
        Names of the bits of other masks of the file.
    instead : str
        As for `unusable`.

    Raises
    ------
    ValueError
        If a name stands for two bits, or there are too many.
    """
    twice = next((name for k, name in enumerate(names) if name in before or name in names[:k]), None)
    if twice is not None:
        raise unusable(path, f"its masks have two bits that are named {twice!r}", instead)
    if len(names) > MOST_BITS:
        raise unusable(path, f"it names {len(names)} bits of {mask}, which can have {MOST_BITS}", instead)
    return {name: (mask, bit) for bit, name in enumerate(names)}


def require_times(path: Path, start: int, seconds: int, instead: str) -> None:
    """Raise a ValueError if a file states times at which no detector has run."""
    if not 0 < start < start + seconds < LAST_TIME:
        raise unusable(path, f"it states {seconds} s from GPS {start} on, when no detector ran", instead)


class UnknownBit(ValueError):
    """A file does not have a data-quality bit."""


def unknown_bit(path: Path, bit: Bit, there: str) -> UnknownBit:
    """Return the error for a data-quality bit that a file does not have; `there` lists those that it has."""
    return UnknownBit(f"quality has {bit!r}, which is not a data-quality bit of {str(path)!r}: there are {there}.")


def unusable(path: Path, why: str, instead: str) -> ValueError:
    """Return the error for a file that cannot be used."""
    return ValueError(f"paths: {str(path)!r} cannot be used, {why}: {instead}.")
