"""Strain in frame files (.gwf)."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from jfstat.files import opened, unreadable
from jfstat.strain.gwf import CHANNELS, Frame, FrameError, Vector, frames_of
from jfstat.strain.gwfsamples import require_samples, samples
from jfstat.strain.series import channel_prefix
from jfstat.strain.strainfile import (
    DATA_QUALITY_BITS,
    FIRST_RUN,
    INJECTION_BITS,
    Bit,
    numbered,
    require_times,
    seconds_with,
    unknown_bit,
    unusable,
)

INSTEAD = "give whole frame files that hold the channel"
SLACK = 1e-9
"""Relative tolerance for lengths that were computed from rounded spacings."""
PHYSICAL = ((1.0, 0.0), (0.0, 0.0))
"""Slope and bias of channels that are in physical units: none, or none stated."""


@dataclass(frozen=True, eq=False)
class FrameFile:
    """A frame file; an implementation of `strainfile.StrainFile`.

    Attributes
    ----------
    channel : str
        Name of the channel, such as ``H1:GDS-CALIB_STRAIN``.
    quality_channel : str or None
        Channel to which numbers of bits refer.
    frames : tuple of Frame
        What the file holds, in order of time and without gaps.
    ends : tuple of int
        Number of samples from the start of the file to the end of each frame.
    """

    path: Path
    channel: str
    quality_channel: str | None
    detector: str
    start: int
    rate: int
    frames: tuple[Frame, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, channel: str | None, quality_channel: str | None) -> FrameFile:
        """Read the description of a file; the default `channel` is the only one whose name ends in STRAIN.

        Raises
        ------
        OSError
            If the file cannot be opened.
        ValueError
            If the file is damaged, lacks the channel or has gaps.
        """
        with _opened(path) as file:
            frames = frames_of(file, os.stat(path).st_size)
        if not frames:
            raise unusable(path, "it holds no frame", INSTEAD)
        channel = _only_strain(path, frames) if channel is None else channel
        detector = channel_prefix(channel)
        if detector is None:
            raise ValueError(
                f"channel {channel!r} does not begin with a detector: give one such as 'H1:GDS-CALIB_STRAIN'."
            )
        start, rate, end, ends = frames[0].start, 0, frames[0].start, []
        for k, frame in enumerate(frames):
            seconds, n = frame.seconds, _vector(path, frame, channel).n
            own = round(n / seconds) if 0 < seconds < np.inf else 0
            if own < 1 or own * seconds != n or frame.nanoseconds or seconds != int(seconds):
                raise unusable(path, f"frame {k} does not hold a whole number of samples each second", INSTEAD)
            rate = own if k == 0 else rate
            if own != rate or frame.start != end:
                raise unusable(path, f"there is a gap or another rate before its frame {k}", INSTEAD)
            end += int(seconds)
            ends.append((end - start) * rate)
        require_times(path, start, end - start, INSTEAD)
        return cls(path, channel, quality_channel, detector, start, rate, frames, tuple(ends))

    @property
    def n(self) -> int:
        return self.ends[-1]

    def read(self, first: int, stop: int) -> np.ndarray:
        """Read samples `first` up to `stop` of the file; see `strainfile.StrainFile`."""
        parts, begin = [], 0
        for frame, end in zip(self.frames, self.ends, strict=True):
            low, high = max(first, begin), min(stop, end)
            if low < high:
                # where the detector's electronics recorded nothing valid is a gap
                own = _samples(self, frame, self.channel).astype(np.float64)[low - begin : high - begin]
                parts.append(own if frame.channels[self.channel].valid else np.full_like(own, np.nan))
            begin = end
        return np.concatenate(parts) if parts else np.empty(0)

    def good_seconds(self, bits: Sequence[Bit] | None) -> np.ndarray:
        """Return whether data-quality bits are set in each second; see `strainfile.StrainFile`."""
        n_seconds = self.n // self.rate
        names = self._names()
        if bits is None:
            bits = ["DATA"] if "DATA" in names else []
        numbers = [self._numbered(bit, names) for bit in bits]
        masks = {c: self._mask(c, n_seconds) for c in {c for c, _ in numbers}}
        return seconds_with(masks, numbers, n_seconds)

    def _names(self) -> dict[str, tuple[str, int]]:
        """Return the channel and the number of each data-quality bit of GWOSC by its name."""
        base = self.channel.removesuffix("STRAIN")
        if base == self.channel or not base.endswith(("_", "-")):
            return {}
        names: dict[str, tuple[str, int]] = {}
        for suffix, usual in (("DQMASK", DATA_QUALITY_BITS), ("INJMASK", INJECTION_BITS)):
            channel = f"{base}{suffix}"
            stated = {_vector(self.path, frame, channel).units for frame in self.frames if channel in frame.channels}
            if not stated:
                continue
            if len(stated) > 1 or any(channel not in frame.channels for frame in self.frames):
                raise unusable(self.path, f"its frames differ in the bits of {channel}", INSTEAD)
            # GWOSC's frames name the bits in the unit of the mask: '... 0:DATA 1:CBC_CAT1 ...' (its readligo.py)
            own = [word.partition(":")[2] for word in stated.pop().split()]
            if not all(own) or not own:
                own = list(usual if self.start >= FIRST_RUN else usual[:1] if suffix == "DQMASK" else ())
            names |= numbered(self.path, channel, own, names, INSTEAD)
        return names

    def _numbered(self, bit: Bit, names: dict[str, tuple[str, int]]) -> tuple[str, int]:
        """Return the channel and the number of a bit."""
        if isinstance(bit, str):
            if bit not in names:
                listed = ", ".join(names) or f"none, as it has no channel {self.channel.removesuffix('STRAIN')}DQMASK"
                raise unknown_bit(self.path, bit, listed)
            return names[bit]
        if self.quality_channel is None:
            raise ValueError(
                f"quality has the bit number {bit}, and the channel of its bits is missing: give it, or a name."
            )
        return self.quality_channel, bit

    def _mask(self, channel: str, n_seconds: int) -> np.ndarray:
        values = np.concatenate([_samples(self, frame, channel) for frame in self.frames])
        if values.dtype.kind == "f":  # as some frames have them
            if not np.array_equal(values, np.round(values)) or np.any(np.abs(values) >= 2**53):
                raise unusable(self.path, f"{channel} does not hold whole numbers", INSTEAD)
            values = values.astype(np.int64)
        if len(values) % n_seconds:
            raise unusable(self.path, f"{channel} has no whole number of values each second", INSTEAD)
        return values


def channels(frames: Sequence[Frame]) -> list[str]:
    """List the channels of frames with calibrated data; if there are none those with simulated or recorded data."""
    for kind in CHANNELS:
        names = {name for frame in frames for name, channel in frame.channels.items() if channel.kind == kind}
        if names:
            return sorted(names)
    return []


def _only_strain(path: Path, frames: Sequence[Frame]) -> str:
    """Return the only channel of strain in a file."""
    found = [name for name in channels(frames) if name.endswith("STRAIN")]
    if len(found) != 1:
        listed = ", ".join((found or channels(frames))[:10]) or "none"
        raise ValueError(f"channel is missing, and {str(path)!r} has not one channel named ..STRAIN: it has {listed}.")
    return found[0]


def _vector(path: Path, frame: Frame, name: str) -> Vector:
    """Return the samples of a channel in a frame, as they lie in the file, if they are those of the frame's time."""
    channel = frame.channels.get(name)
    if channel is None:
        listed = ", ".join(channels([frame])[:10]) or "none"
        raise ValueError(f"channel {name!r} is not in {str(path)!r}: it has {listed}.")
    vector = frame.vectors.get(channel.vector)
    if vector is None:
        raise unusable(path, f"{name} has no samples", INSTEAD)
    if channel.shift != 0:
        raise unusable(path, f"{name} is heterodyned by {channel.shift:g} Hz", INSTEAD)
    if channel.scale not in PHYSICAL:
        raise unusable(path, f"{name} holds counts of {channel.scale[0]:g}, not physical units", INSTEAD)
    # spacings are stated to rounding
    whole = abs(vector.n * vector.spacing - frame.seconds) < SLACK * frame.seconds
    if not (whole and channel.offset == vector.offset == 0):
        raise unusable(path, f"the samples of {name} do not begin and end with the frame", INSTEAD)
    try:
        require_samples(vector)
    except FrameError as error:
        raise unusable(path, f"{name}: {error}", INSTEAD) from None
    return vector


@lru_cache(maxsize=2)
def _samples(own: FrameFile, frame: Frame, channel: str) -> np.ndarray:
    """Return the samples of a channel in a frame; the last frames are cached, as SFTs end within frames."""
    with _opened(own.path) as file:
        return samples(file, _vector(own.path, frame, channel))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Yield an opened file, with errors for users."""
    try:
        with io.BufferedReader(opened(path)) as file:
            yield file
    except OSError as error:
        raise unreadable(path, error) from error
    except FrameError as error:
        raise unusable(path, str(error), INSTEAD) from None
