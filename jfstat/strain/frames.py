"""Strain in frame files (.gwf), read with LALSuite's lalframe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from jfstat.files import opened, unreadable
from jfstat.strain.series import channel_prefix
from jfstat.strain.strainfile import DATA_QUALITY_BITS, INJECTION_BITS, Bit, seconds_with, unusable

MAGIC = b"IGWD"
"""First bytes of a frame file (LIGO-T970130)."""
INSTEAD = "give whole frame files that hold the channel"


@dataclass(frozen=True, eq=False)
class FrameFile:
    """A frame file; an implementation of `strainfile.StrainFile`.

    Attributes
    ----------
    channel : str
        Name of the channel, such as ``H1:GDS-CALIB_STRAIN``.
    quality_channel : str or None
        Channel to which numbers of bits refer.
    ends : tuple of int
        Number of samples from the start of the file to the end of each frame.
    """

    path: Path
    channel: str
    quality_channel: str | None
    detector: str
    start: int
    rate: int
    ends: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, channel: str | None, quality_channel: str | None) -> FrameFile:
        """Read the description of a file; the default `channel` is the only one whose name ends in STRAIN.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If the file is damaged, lacks the channel or has gaps, or lalframe is not installed.
        """
        channel = _only_strain(path) if channel is None else channel
        detector = channel_prefix(channel)
        if detector is None:
            raise ValueError(
                f"channel {channel!r} does not begin with a detector: give one such as 'H1:GDS-CALIB_STRAIN'."
            )
        start, rate, end, ends = None, 0, 0.0, []
        with _opened(path) as (lalframe, lal, file):
            for k in range(lalframe.FrFileQueryNFrame(file)):
                begin = lal.LIGOTimeGPS()
                lalframe.FrFileQueryGTime(begin, file, k)
                seconds, n = float(lalframe.FrFileQueryDt(file, k)), _vector_length(path, lalframe, file, channel, k)
                own = round(n / seconds) if seconds > 0 else 0
                if own < 1 or own * seconds != n or begin.gpsNanoSeconds or seconds != int(seconds):
                    raise unusable(path, f"frame {k} does not hold a whole number of samples each second", INSTEAD)
                if start is None:
                    start, rate, end = int(begin.gpsSeconds), own, int(begin.gpsSeconds)
                if own != rate or begin.gpsSeconds != end:
                    raise unusable(path, f"there is a gap or another rate before its frame {k}", INSTEAD)
                end += int(seconds)
                ends.append((end - start) * rate)
        if start is None:
            raise unusable(path, "it holds no frame", INSTEAD)
        return cls(path, channel, quality_channel, detector, start, rate, tuple(ends))

    @property
    def n(self) -> int:
        return self.ends[-1]

    @cached_property
    def _begins(self) -> tuple[int, ...]:
        return (0, *self.ends[:-1])

    def read(self, first: int, stop: int) -> np.ndarray:
        """Read samples `first` up to `stop` of the file; see `strainfile.StrainFile`."""
        parts = []
        for k, (begin, end) in enumerate(zip(self._begins, self.ends, strict=True)):
            low, high = max(first, begin), min(stop, end)
            if low < high:
                parts.append(_frame(self.path, self.channel, k)[low - begin : high - begin])
        return np.concatenate(parts).astype(np.float64) if parts else np.empty(0)

    def good_seconds(self, bits: Sequence[Bit] | None) -> np.ndarray:
        """Return whether data-quality bits are set in each second; see `strainfile.StrainFile`."""
        n_seconds = self.n // self.rate
        base = self.channel.removesuffix("STRAIN")
        there = set(channels(self.path)) if self.channel.endswith("_STRAIN") else set()
        named = ((f"{base}DQMASK", DATA_QUALITY_BITS), (f"{base}INJMASK", INJECTION_BITS))
        names = {name: (c, bit) for c, bit_names in named if c in there for bit, name in enumerate(bit_names)}
        if bits is None:
            bits = ["DATA"] if "DATA" in names else []
        numbers = [self._numbered(bit, names) for bit in bits]
        masks = {c: self._mask(c, n_seconds) for c in {c for c, _ in numbers}}
        return seconds_with(masks, numbers, n_seconds)

    def _numbered(self, bit: Bit, names: dict[str, tuple[str, int]]) -> tuple[str, int]:
        """Return the channel and the number of a bit."""
        if isinstance(bit, str):
            if bit not in names:
                listed = ", ".join(names) or f"none, as it has no channel {self.channel.removesuffix('STRAIN')}DQMASK"
                raise ValueError(
                    f"quality has {bit!r}, which is not a data-quality bit of {str(self.path)!r}: there are {listed}."
                )
            return names[bit]
        if self.quality_channel is None:
            raise ValueError(
                f"quality has the bit number {bit}, and the channel of its bits is missing: give it, or a name."
            )
        return self.quality_channel, bit

    def _mask(self, channel: str, n_seconds: int) -> np.ndarray:
        with _opened(self.path) as (lalframe, _, file):
            for k in range(len(self.ends)):
                _vector_length(self.path, lalframe, file, channel, k)
        values = np.concatenate([_frame(self.path, channel, k) for k in range(len(self.ends))])
        if values.dtype.kind == "f":  # as some frames have them
            if not np.array_equal(values, np.round(values)):
                raise unusable(self.path, f"{channel} does not hold whole numbers", INSTEAD)
            values = values.astype(np.int64)
        if len(values) % n_seconds:
            raise unusable(self.path, f"{channel} has no whole number of values each second", INSTEAD)
        return values


def channels(path: Path) -> list[str]:
    """List the channels with calibrated or simulated data in a frame file, or all channels if there are no such."""
    with _opened(path), _lal_frame_u(path) as (lalframe, toc):
        for kind in ("Proc", "Sim", "Adc"):
            n = getattr(lalframe, f"FrameUFrTOCQuery{kind}N")(toc)
            names = [getattr(lalframe, f"FrameUFrTOCQuery{kind}Name")(toc, i) for i in range(n)]
            if names:
                return sorted(names)
    return []


def _only_strain(path: Path) -> str:
    """Return the only channel of strain in a file."""
    found = [name for name in channels(path) if name.endswith("STRAIN")]
    if len(found) != 1:
        listed = ", ".join((found or channels(path))[:10]) or "none"
        raise ValueError(f"channel is missing, and {str(path)!r} has not one channel named ..STRAIN: it has {listed}.")
    return found[0]


def _vector_length(path: Path, lalframe: Any, file: Any, channel: str, frame: int) -> int:
    """Return the number of samples of a channel in a frame."""
    try:
        return int(lalframe.FrFileQueryChanVectorLength(file, channel, frame))
    except RuntimeError:
        listed = ", ".join(channels(path)[:10]) or "none"
        raise ValueError(f"channel {channel!r} is not in {str(path)!r}: it has {listed}.") from None


@lru_cache(maxsize=2)
def _frame(path: Path, channel: str, frame: int) -> np.ndarray:
    """Return the samples of a channel in a frame; the last frames are cached, as SFTs end within frames."""
    with _opened(path) as (lalframe, lal, file):
        kinds = {getattr(lal, f"{name}_TYPE_CODE"): kind for name, kind in KINDS.items()}
        kind = kinds.get(lalframe.FrFileQueryChanType(file, channel, frame))
        if kind is None:
            raise unusable(path, f"{channel} does not hold real numbers", INSTEAD)
        try:
            return getattr(lalframe, f"FrFileRead{kind}TimeSeries")(file, channel, frame).data.data.copy()
        except RuntimeError as error:
            raise unusable(path, f"it is damaged ({error})", INSTEAD) from None


KINDS = {
    "D": "REAL8",
    "S": "REAL4",
    "I8": "INT8",
    "I4": "INT4",
    "I2": "INT2",
    "U8": "UINT8",
    "U4": "UINT4",
    "U2": "UINT2",
}
"""LALSuite's types of real numbers by the names of their codes."""


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any, Any]]:
    """Yield lalframe, lal and the opened file."""
    lalframe, lal = _lalsuite()
    try:
        with opened(path) as raw:
            magic = raw.read(len(MAGIC))
    except OSError as error:
        raise unreadable(path, error) from error
    if magic != MAGIC:
        raise unusable(path, "it is not a frame file", INSTEAD)
    with _quiet(lal):
        try:
            file = lalframe.FrFileOpenURL(str(path.absolute()))
        except RuntimeError:
            raise unusable(path, "it is damaged", INSTEAD) from None
        yield lalframe, lal, file


@contextmanager
def _lal_frame_u(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield lalframe and a file's table of contents."""
    lalframe, _ = _lalsuite()
    file = lalframe.FrameUFrFileOpen(str(path.absolute()), "r")
    yield lalframe, lalframe.FrameUFrTOCRead(file)


def _lalsuite() -> tuple[Any, Any]:
    """Import and return the modules lalframe and lal."""
    try:
        import lal
        import lalframe
    except ImportError:
        raise ValueError("paths: frame files need LALSuite: run pip install lalsuite.") from None
    return lalframe, lal


@contextmanager
def _quiet(lal: Any) -> Iterator[None]:
    """Silence LALSuite's printed errors, which its Python functions raise as well."""
    usual = lal.GetDebugLevel()
    lal.ClobberDebugLevel(0)
    try:
        yield
    finally:
        lal.ClobberDebugLevel(usual)
