"""Strain files in GWOSC's HDF5 layout, read with h5py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jfstat.files import opened, unreadable
from jfstat.strain.strainfile import Bit, seconds_with, unusable

STRAIN = "strain/Strain"
MASKS = (
    ("quality/simple/DQmask", "quality/simple/DQShortnames"),
    ("quality/injections/Injmask", "quality/injections/InjShortnames"),
)
"""Paths of the data-quality bits, one number a second, and of the names of these bits."""
INSTEAD = "give HDF5 files as gwosc.org has them, or read this one yourself and use sfts_from_strain"


@dataclass(frozen=True, eq=False)
class GwoscFile:
    """An HDF5 file of GWOSC; an implementation of `strainfile.StrainFile`."""

    path: Path
    detector: str
    start: int
    rate: int
    n: int

    @classmethod
    def of(cls, path: Path) -> GwoscFile:
        """Read the description of a file.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If the file lacks something or is inconsistent, or h5py is not installed.
        """
        with _Opened(path) as file:
            strain, meta = file[STRAIN], file["meta"]
            detector = _text(meta["Detector"][()])
            start, duration = int(meta["GPSstart"][()]), int(meta["Duration"][()])
            n, spacing = int(strain.shape[0]), float(strain.attrs["Xspacing"])
            rate = round(1 / spacing) if spacing > 0 else 0
            if strain.ndim != 1 or strain.dtype.kind != "f":
                raise unusable(path, f"its strain is of {strain.dtype} and shape {strain.shape}", INSTEAD)
            if rate < 1 or abs(rate * spacing - 1) > 1e-9 or n != duration * rate or start <= 0 or n == 0:
                raise unusable(
                    path,
                    f"its {n} samples spaced by {spacing:g} s are not the {duration} s from GPS {start} on that its "
                    "meta states",
                    INSTEAD,
                )
            return cls(path, detector, start, rate, n)

    @property
    def channel(self) -> str:
        return f"{self.detector}:GWOSC_STRAIN"

    def read(self, first: int, stop: int) -> np.ndarray:
        """Read samples `first` up to `stop` of the file; see `strainfile.StrainFile`."""
        with _Opened(self.path) as file:
            return np.asarray(file[STRAIN][first:stop], np.float64)

    def good_seconds(self, bits: Sequence[Bit] | None) -> np.ndarray:
        """Return whether data-quality bits are set in each second; see `strainfile.StrainFile`."""
        n_seconds = self.n // self.rate
        with _Opened(self.path) as file:
            masks, names = {}, {}
            for mask, shortnames in MASKS:
                if mask in file and shortnames in file:
                    masks[mask] = np.asarray(file[mask][()], np.int64)
                    names |= {_text(name): (mask, bit) for bit, name in enumerate(file[shortnames][()])}
        if bits is None:
            bits = [name for name in ("DATA",) if name in names]
        for bit in bits:
            if bit not in names:
                there = ", ".join(names) or "none"
                raise ValueError(
                    f"quality has {bit!r}, which is not a data-quality bit of {str(self.path)!r}: there are {there}."
                )
        for mask, values in masks.items():
            if values.shape != (n_seconds,):
                raise unusable(self.path, f"{mask} has {values.size} values for {n_seconds} s", INSTEAD)
        return seconds_with(masks, [names[str(bit)] for bit in bits], n_seconds)


class _Opened:
    """Context manager that opens an HDF5 file for reading and turns its errors into messages for users."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Any:
        try:
            import h5py
        except ImportError:
            raise ValueError("paths: HDF5 files need h5py: run pip install h5py.") from None
        try:
            self.raw = opened(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        try:
            self.file = h5py.File(self.raw, "r")
        except Exception as error:  # whatever HDF5 finds wrong
            self.raw.close()
            raise unusable(self.path, "it is not an HDF5 file, or it is damaged", INSTEAD) from error
        return self.file

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self.file.close()
        self.raw.close()
        if isinstance(error, KeyError):
            raise unusable(self.path, f"it lacks what GWOSC's files have ({error.args[0]})", INSTEAD) from error
        if isinstance(error, (OSError, RuntimeError, TypeError, AttributeError)):  # h5py's errors for damaged files
            raise unusable(self.path, f"it is damaged ({error})", INSTEAD) from error


def _text(x: Any) -> str:
    return x.decode() if isinstance(x, bytes) else str(x)
