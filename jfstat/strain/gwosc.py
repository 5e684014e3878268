"""Strain files in GWOSC's HDF5 layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jfstat.strain.hdf5 import HDF5Error, described, part_of
from jfstat.strain.strainfile import Bit, numbered, require_times, seconds_with, unknown_bit, unusable

STRAIN, DETECTOR, START, DURATION = "strain/Strain", "meta/Detector", "meta/GPSstart", "meta/Duration"
MASKS = (
    ("quality/simple/DQmask", "quality/simple/DQShortnames"),
    ("quality/injections/Injmask", "quality/injections/InjShortnames"),
)
"""Paths of the data-quality bits, one number a second, and of the names of these bits."""
INSTEAD = "give HDF5 files as gwosc.org has them, or read this one yourself and use sfts_from_strain"


@dataclass(frozen=True, eq=False)
class GwoscFile:
    """An HDF5 file of GWOSC; an implementation of `strainfile.StrainFile`.

    Attributes
    ----------
    names : dict of str to (str, int)
        Mask and number of each data-quality bit by its name.
    """

    path: Path
    detector: str
    start: int
    rate: int
    n: int
    names: dict[str, tuple[str, int]]

    @classmethod
    def of(cls, path: Path) -> GwoscFile:
        """Read the description of a file.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If the file is damaged, lacks something or is inconsistent, or h5py is not installed.
        """
        masks = [name for pair in MASKS for name in pair]
        with _errors(path):
            items = described(path, [STRAIN, DETECTOR, START, DURATION, *masks])
            missing = next((name for name in (STRAIN, DETECTOR, START, DURATION) if items[name] is None), None)
            if missing is not None:
                raise HDF5Error(f"it lacks what GWOSC's files have ({missing})")
            strain = items[STRAIN]
            if strain["kind"] != "f" or len(strain["shape"]) != 1:
                raise HDF5Error(f"its strain is of {strain['type']} and shape {tuple(strain['shape'])}")
            start, duration = _whole(items[START]["values"], START), _whole(items[DURATION]["values"], DURATION)
            require_times(path, start, duration, INSTEAD)
            (n,), spacing = strain["shape"], _number(strain["attributes"].get("Xspacing"), f"Xspacing of {STRAIN}")
            rate = round(1 / spacing) if 1e-9 < spacing < np.inf else 0
            if rate < 1 or abs(rate * spacing - 1) > 1e-9 or n != duration * rate:
                raise HDF5Error(
                    f"its {n} samples spaced by {spacing:g} s are not the {duration} s from GPS {start} on that its "
                    "meta states"
                )
            _require(strain["attributes"], STRAIN, Xstart=start, Npoints=n)
            names = _bits(path, items, start, duration)
            return cls(path, _text(items[DETECTOR]["values"]), start, rate, n, names)

    @property
    def channel(self) -> str:
        return f"{self.detector}:GWOSC_STRAIN"

    def read(self, first: int, stop: int) -> np.ndarray:
        """Read samples `first` up to `stop` of the file; see `strainfile.StrainFile`."""
        with _errors(self.path):
            return part_of(self.path, STRAIN, first, stop)

    def good_seconds(self, bits: Sequence[Bit] | None) -> np.ndarray:
        """Return whether data-quality bits are set in each second; see `strainfile.StrainFile`."""
        if bits is None:
            if "DATA" not in self.names:
                why = f"it has no bit DATA in {MASKS[0][0]}, which says which of its strain is good"
                raise unusable(self.path, why, "ask for other bits, or for none of them to take all as good")
            bits = ["DATA"]
        for bit in bits:
            if bit not in self.names:
                raise unknown_bit(self.path, bit, ", ".join(self.names) or "none")
        numbers, n_seconds = [self.names[str(bit)] for bit in bits], self.n // self.rate
        with _errors(self.path):
            masks = {mask: part_of(self.path, mask, 0, n_seconds) for mask in {mask for mask, _ in numbers}}
        return seconds_with(masks, numbers, n_seconds)


def _bits(path: Path, items: dict[str, Any], start: int, n_seconds: int) -> dict[str, tuple[str, int]]:
    """Return mask and number of each data-quality bit by its name."""
    names: dict[str, tuple[str, int]] = {}
    for mask, shortnames in MASKS:
        values, own = items[mask], items[shortnames]
        if values is None and own is None:
            continue
        if own is None:
            raise HDF5Error(f"it has {mask}, but lacks {shortnames}, the names of its bits")
        if values is None:
            raise HDF5Error(f"it has {shortnames}, but lacks {mask}, the bits that they name")
        if values["kind"] not in "iu":
            raise HDF5Error(f"its {mask} holds no whole numbers, but {values['type']}")
        if values["shape"] != [n_seconds]:
            raise HDF5Error(f"its {mask} has {np.prod(values['shape'])} values for {n_seconds} s")
        _require(values["attributes"], mask, Xstart=start, Xspacing=1, Npoints=n_seconds)
        if own["values"] is None or own["kind"] not in "SO" or not own["values"]:
            raise HDF5Error(f"its {shortnames} are not names of bits")
        names |= numbered(path, mask, [str(name) for name in own["values"]], names, INSTEAD)
    return names


def _require(attributes: dict[str, list], name: str, **expected: int) -> None:
    """Raise an HDF5Error if a dataset's attributes contradict what the file states elsewhere."""
    for key, value in expected.items():
        if key in attributes and _number(attributes[key], f"{key} of {name}") != value:
            raise HDF5Error(f"its {key} of {name} is {attributes[key][0]}, and the rest of the file says {value}")


def _number(values: list | None, name: str) -> float:
    """Return the only value of an item, which must be a number."""
    if not values or len(values) != 1 or isinstance(values[0], str):
        raise HDF5Error(f"its {name} is no number")
    return values[0]


def _whole(values: list | None, name: str) -> int:
    """Return the only value of an item, which must be a whole number."""
    value = _number(values, name)
    if not (abs(value) < 2**53 and value == int(value)):
        raise HDF5Error(f"its {name} is {value}, not a whole number of seconds")
    return int(value)


def _text(values: list | None) -> str:
    """Return the only value of an item, which must be text."""
    if not values or len(values) != 1 or not isinstance(values[0], str):
        raise HDF5Error(f"its {DETECTOR} is no text")
    return values[0]


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn what is wrong with a file into errors for users."""
    try:
        yield
    except HDF5Error as error:
        raise unusable(path, str(error), INSTEAD) from None
