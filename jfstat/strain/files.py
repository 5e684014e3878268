"""SFTs from strain files of GWOSC and frame files."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jfstat import kinds
from jfstat.files import text_of_named
from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DetectorLike, get_detector
from jfstat.public import host, public
from jfstat.sfts.container import SFTs
from jfstat.sfts.patterns import Pattern, find_files
from jfstat.signal.times import TimeLike
from jfstat.strain.frames import FrameFile
from jfstat.strain.gwosc import GwoscFile
from jfstat.strain.making import Conditioning, Making, made_sfts, sfts_of, together
from jfstat.strain.strainfile import NO_CW_INJECTION, Bit, StrainFile, UnknownBit
from jfstat.validation import DurationLike, FrequencyLike, gps_seconds, is_whole, shown, time_pairs

FRAME_SUFFIX = ".gwf"
HDF5_SUFFIXES = (".hdf5", ".h5", ".hdf")


@dataclass(frozen=True)
class DataQuality:
    """Which times of the strain in files are good.

    Parameters
    ----------
    bits : sequence of str or int, optional
        Data-quality bits that must be set in each second: names of GWOSC's bits, such as ``["DATA", "CBC_CAT1"]``, or
        numbers of the bits of `channel`. None asks for ``DATA`` in HDF5 files and in frame files that have GWOSC's
        bits, and for nothing in other frame files; an empty sequence for nothing. ``NO_CW_HW_INJ`` throws most of a
        LIGO run away, as simulated continuous waves were injected into the hardware most of the time.
    channel : str, optional
        Channel of frame files whose bits are meant by numbers, such as ``"H1:GDS-CALIB_STATE_VECTOR"``.
    segments : sequence of (start, end), optional
        Science segments, GPS s; what lies outside is left out.
    start, end : float or Time, optional
        Use strain in [start, end), GPS s.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind, segments have start and end in the wrong order, or `channel` has no use.

    Examples
    --------
    >>> jfstat.DataQuality(["DATA", "CBC_CAT1"], start=1167458304)
    DataQuality(bits=('DATA', 'CBC_CAT1'), channel=None, segments=None, start=1167458304.0, end=None)
    """

    bits: Sequence[Bit] | None = None
    channel: str | None = None
    segments: Sequence[tuple[TimeLike, TimeLike]] | None = None
    start: TimeLike | None = None
    end: TimeLike | None = None

    def __post_init__(self) -> None:
        bits = _bits(self.bits)
        object.__setattr__(self, "bits", None if bits is None else tuple(bits))
        if self.channel is not None and not isinstance(self.channel, str):
            raise TypeError(f"channel must be a string, not {shown(self.channel)}.")
        if self.channel is not None and all(isinstance(bit, str) for bit in bits or ()):
            raise ValueError(f"channel={self.channel!r} is for numbers of bits: give these as bits, or leave it out.")
        if self.segments is not None:
            object.__setattr__(self, "segments", tuple(time_pairs(self.segments)))
        for name in ("start", "end"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, gps_seconds(getattr(self, name), name))


@dataclass(frozen=True, eq=False)
class FilesOfStrain:
    """Strain in files of one detector, in time order; an implementation of `strain.Strain`.

    Attributes
    ----------
    files : tuple of StrainFile
    stretches : list of (int, int)
        First sample and end of each stretch of good time.
    """

    site: Detector
    files: tuple[StrainFile, ...]
    stretches: list[tuple[int, int]]

    @property
    def origin(self) -> int:
        return self.files[0].start

    @property
    def rate(self) -> int:
        return self.files[0].rate

    @property
    def channel(self) -> str:
        return self.files[0].channel

    def read(self, first: int, stop: int) -> np.ndarray:
        """Read samples from the files, with NaN in gaps; see `strain.Strain`."""
        begins = [(file.start - self.origin) * self.rate for file in self.files]
        x = np.full(stop - first, np.nan)
        for file, begin in list(zip(self.files, begins, strict=True))[max(bisect_right(begins, first) - 1, 0) :]:
            low, high = max(first, begin), min(stop, begin + file.n)
            if begin >= stop:
                break
            if low < high:
                x[low - first : high - first] = file.read(low - begin, high - begin)
        return x


@host(paths=kinds.paths, channel=kinds.text)
def sfts_from_frames(
    paths: Pattern,
    channel: str | None = None,
    detector: DetectorLike | None = None,
    tsft: DurationLike = 1800,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    quality: DataQuality | None = None,
    conditioning: Conditioning | None = None,
) -> SFTs:
    """Make SFTs from one detector's strain in HDF5 files of GWOSC or frame files.

    SFTs are ``dt * DFT / rms(window)``, phases referred to each SFT's start. They follow one another without overlap
    from the start of each stretch of good time, as lalpulsar_MakeSFTs makes them of science segments. A time is good if
    the files hold finite strain for it and `quality` allows it; files that adjoin leave no gap.

    All SFTs are kept in memory: give `fmin` and `fmax`, or use ``jfstat make-sfts``, which writes one after the other.

    Parameters
    ----------
    paths : str, path or sequence of these
        Files, globs, several of these joined by ``;``, or ``list:<file>``, see `read_sfts`: .hdf5 in GWOSC's layout
        (needs h5py), .gwf (format of LIGO-T970130, versions 6 to 8).
    channel : str, optional
        Channel of frame files, such as ``"H1:GDS-CALIB_STRAIN_CLEAN"``; by default the only one whose name ends in
        STRAIN.
    detector : str or Detector, optional
        Prefix of the detector whose files are used; not needed if all files are of one detector. Or a user's own
        `Detector`.
    tsft, fmin, fmax, conditioning
        See `sfts_from_strain`.
    quality : DataQuality, optional
        Which times are good; by default those with GWOSC's bit ``DATA``, and all in frame files without GWOSC's bits.

    Returns
    -------
    SFTs

    Raises
    ------
    OSError
        If a file cannot be read.
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a file is damaged or lacks the channel, files overlap or are of different detectors or rates, a package that
        reads them is not installed, no SFT fits, or an argument is out of range.
    """
    strain = find_strain(paths, channel, detector, quality)
    return sfts_of(strain, Making.of(strain.rate, tsft, fmin, fmax, conditioning))


@public(paths=kinds.paths, channel=kinds.text)
def find_strain(
    paths: Pattern,
    channel: str | None = None,
    detector: DetectorLike | None = None,
    quality: DataQuality | None = None,
) -> FilesOfStrain:
    """Find the good time of strain files, which are read later as they are needed; see `each_sft`.

    Parameters
    ----------
    paths, channel, detector, quality
        As for `sfts_from_frames`.

    Returns
    -------
    FilesOfStrain

    Raises
    ------
    OSError, TypeError, ValueError
        As `sfts_from_frames`, as far as there is no SFT to be made.
    """
    wanted_times = DataQuality() if quality is None else quality
    if not isinstance(wanted_times, DataQuality):
        raise TypeError(f"quality must be a jfstat.DataQuality or None, not {shown(quality)}.")
    low = -math.inf if wanted_times.start is None else gps_seconds(wanted_times.start, "start")
    high = math.inf if wanted_times.end is None else gps_seconds(wanted_times.end, "end")
    own = None if detector is None else get_detector(detector)
    found = find_files(paths, "strain", (FRAME_SUFFIX, *HDF5_SUFFIXES))
    for name, own_channel in {"channel": channel, "quality.channel": wanted_times.channel}.items():
        if own_channel is not None and all(path.suffix in HDF5_SUFFIXES for path in found):
            raise ValueError(f"{name}={own_channel!r} is for frame files, and paths hold none: leave it out.")
    files = [_described(path, channel, wanted_times.channel) for path in found]
    names = sorted({file.detector for file in files})
    wanted = names[0] if own is None else own.prefix
    if own is None and len(names) > 1:
        raise ValueError(f"paths hold strain of {' and '.join(names)}: name one as detector.")
    files = sorted((file for file in files if file.detector == wanted), key=lambda file: file.start)
    if not files:
        raise ValueError(f"detector is {wanted}, but paths hold strain of {', '.join(names)} only.")
    _check_together(files)
    files = [file for file in files if file.start < high and file.start + file.n // file.rate > low]
    if not files:
        raise ValueError(f"paths hold no strain from start={low:.16g} to end={high:.16g}: give other times or files.")
    good = [_good(file, wanted_times, low, high) for file in files]
    return FilesOfStrain(get_detector(wanted) if own is None else own, tuple(files), _stretches(files, good))


def detectors_in(paths: Pattern, channel: str | None) -> list[str]:
    """Return the detectors of strain files, in alphabetical order; see `find_strain` for the arguments and errors."""
    found = find_files(paths, "strain", (FRAME_SUFFIX, *HDF5_SUFFIXES))
    return sorted({_described(path, channel, None).detector for path in found})


def with_cw_injections(strain: FilesOfStrain) -> FilesOfStrain:
    """Return strain without the seconds of which a bit says that no continuous waves were injected into the hardware.

    Files that do not have the bit count as if there were injections at all times.

    Raises
    ------
    ValueError
        If there were no injections at all.
    """
    good = []
    for file in strain.files:
        seconds = file.n // file.rate
        own = np.zeros(seconds, bool)
        since = file.start - strain.origin
        for first, stop in strain.stretches:
            low, high = first // strain.rate - since, stop // strain.rate - since
            own[max(low, 0) : max(high, 0)] = True
        with suppress(UnknownBit):
            own &= ~file.good_seconds([NO_CW_INJECTION])
        good.append(own)
    stretches = _stretches(strain.files, good)
    if not stretches:
        raise ValueError(
            f"paths hold no good second of {strain.site.prefix} with continuous waves in the hardware: their bits say "
            f"{NO_CW_INJECTION}."
        )
    return replace(strain, stretches=stretches)


class MadeSFT(NamedTuple):
    """An SFT of strain, or the stretch for which there is none because too much of it would be gated.

    Attributes
    ----------
    gps : int
        Start, GPS s.
    gated : float
        How much of it was set to zero, s.
    sfts : SFTs or None
        This one SFT.
    """

    gps: int
    gated: float
    sfts: SFTs | None


@host
def each_sft(
    strain: FilesOfStrain,
    tsft: DurationLike = 1800,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    conditioning: Conditioning | None = None,
) -> Iterator[MadeSFT]:
    """Make the SFTs of strain files one after the other, each of which may be written before the next is made.

    Parameters
    ----------
    strain : FilesOfStrain
        From `find_strain`.
    tsft, fmin, fmax, conditioning
        As for `sfts_from_frames`.

    Yields
    ------
    MadeSFT

    Raises
    ------
    OSError, TypeError, ValueError
        As `sfts_from_frames`.
    """
    if not isinstance(strain, FilesOfStrain):
        raise TypeError(f"strain must be from jfstat.find_strain, not {shown(strain)}.")
    making = Making.of(strain.rate, tsft, fmin, fmax, conditioning)
    return (MadeSFT(x.gps, x.gated, together(strain, making, [x])) for x in made_sfts(strain, making))


def _bits(quality: object) -> list[Bit] | None:
    """Check data-quality bits and return them as a list."""
    if quality is None:
        return None
    bits = [] if isinstance(quality, (str, bytes)) or not isinstance(quality, Sequence) else list(quality)
    right = not isinstance(quality, (str, bytes)) and isinstance(quality, Sequence)
    if not right or not all(isinstance(bit, str) or (is_whole(bit) and 0 <= bit < 63) for bit in bits):
        raise ValueError("bits must be a sequence of names such as 'DATA', or of numbers of bits from 0 to 62.")
    return bits


def _described(path: Path, channel: str | None, quality_channel: str | None) -> StrainFile:
    """Return the description of a file of either format."""
    if path.suffix == FRAME_SUFFIX:
        return FrameFile.of(path, channel, quality_channel)
    if path.suffix in HDF5_SUFFIXES:
        return GwoscFile.of(path)
    raise ValueError(f"paths has {str(path)!r}, which is neither {FRAME_SUFFIX} nor {', '.join(HDF5_SUFFIXES)}.")


def _check_together(files: Sequence[StrainFile]) -> None:
    """Raise a ValueError if files in time order overlap or differ in rate."""
    for a, b in pairwise(files):
        if a.rate != b.rate:
            raise ValueError(
                f"paths hold different rates, {a.rate} Hz in {str(a.path)!r} and {b.rate} Hz in {str(b.path)!r}: "
                "choose one."
            )
        if b.start < a.start + a.n // a.rate:
            raise ValueError(f"paths: {str(a.path)!r} and {str(b.path)!r} overlap in time: leave out one of them.")


def _good(file: StrainFile, quality: DataQuality, low: float, high: float) -> np.ndarray:
    """Return whether each second of a file is good, (n_seconds,) bool; seconds that are good only in part are not."""
    good = file.good_seconds(None if quality.bits is None else list(quality.bits))
    t = file.start + np.arange(len(good))
    good = good & (t >= low) & (t + 1 <= high)
    if quality.segments is not None:
        inside = np.zeros(len(good), bool)
        for begin, end in time_pairs(quality.segments):
            inside |= (t >= begin) & (t + 1 <= end)
        good &= inside
    return good


def _stretches(files: Sequence[StrainFile], good: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """Return first sample and end of each run of good seconds, across files that adjoin."""
    rate, origin = files[0].rate, files[0].start
    found: list[tuple[int, int]] = []
    for file, seconds in zip(files, good, strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], seconds, [False]]).astype(np.int8)))
        for begin, end in edges.reshape(-1, 2).tolist():
            first, stop = (file.start + begin - origin) * rate, (file.start + end - origin) * rate
            if found and found[-1][1] == first:
                found[-1] = (found[-1][0], stop)
            else:
                found.append((first, stop))
    return found


@public(path=kinds.path)
def read_frame_cache(path: str | os.PathLike) -> list[str]:
    """Read the paths in a frame cache file, of lines ``observatory description start length URL``.

    Parameters
    ----------
    path : str or path
        As lalpulsar_MakeSFTs takes it.

    Returns
    -------
    list of str
        As `sfts_from_frames` takes them.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file has no line of this form, or other lines.
    """
    paths = []
    for line in text_of_named(path, "is not text: give a frame cache.").splitlines():
        fields = line.split()
        if not fields or fields[0].startswith(("#", "%")):
            continue
        if len(fields) != 5:
            raise ValueError(
                f"path {str(path)!r} has a line {line!r}: give 'observatory description start length URL'."
            )
        paths.append(fields[4].removeprefix("file://localhost").removeprefix("file://"))
    if not paths:
        raise ValueError(f"path {str(path)!r} names no frame file.")
    return paths
