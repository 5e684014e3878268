"""Frame files (.gwf) with the strain that SFTs are the Fourier transforms of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jfstat import kinds
from jfstat.atomic import made_directory, replaced_by
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts
from jfstat.sfts.writing import keep_sources
from jfstat.validation import shown

CHANNEL = "JFSTAT_STRAIN"
"""Name of a channel behind the detector's prefix, unless users give another."""


@host(directory=kinds.path, channels=kinds.sequence, description=kinds.text, sources=kinds.paths)
def write_frames(
    sfts: SFTs,
    directory: str | os.PathLike,
    channels: Sequence[str] | None = None,
    *,
    description: str = "jfstat",
    sources: str | os.PathLike | Sequence[str | os.PathLike] = (),
) -> list[Path]:
    """Write frame files with the strain of which SFTs are the Fourier transforms.

    Outside the SFTs' band the strain is zero. Its rate is the lowest power of two, in Hz, that is twice the band's
    upper end or more. `sfts_from_frames` with a rectangular window gives the same SFTs again, to rounding. Strain that
    lalpulsar_Makefakedata_v5 writes to frames is shifted in frequency by its ``--fmin``; this one is not.

    Parameters
    ----------
    sfts : SFTs
        Of a rectangular window, whole seconds long and at whole GPS seconds, such as `simulate_sfts` makes.
    directory : str or path
        Directory to write to; it is created if it does not exist.
    channels : sequence of str, optional
        Name of each detector's channel, which begins with its prefix, as ``["H1:STRAIN", "L1:STRAIN"]``. By default
        ``H1:JFSTAT_STRAIN`` and so on.
    description : str
        Field of the files' names, up to 100 ASCII letters, digits and underscores.
    sources : path or sequence of paths
        Files from which the SFTs come, none of which is replaced.

    Returns
    -------
    list of Path
        The files, one for each run of SFTs without a gap, by detector and time, such as
        ``H-H1_jfstat-1167458304-86400.gwf``; a frame in them is as long as an SFT. Each is written under a temporary
        name and then renamed.

    Raises
    ------
    OSError
        If the directory cannot be made or a file cannot be written.
    ValueError
        If LALSuite, which writes the files, is not installed, the SFTs are of another window, overlap, or start or
        last fractions of a second, or a name cannot be used; nothing is then written.

    Examples
    --------
    >>> jfstat.write_frames(sfts, 'frames')[0].name
    'H-H1_jfstat-1167458304-43200.gwf'
    """
    check_sfts(sfts)
    library = _library()
    named = _channels(channels, [series.detector for series in sfts])
    if not re.fullmatch(r"\w{1,100}", description, re.ASCII):
        raise ValueError(
            f"description {shown(description)} must be of 1 to 100 ASCII letters, digits or underscores: choose "
            "another."
        )
    directory = Path(directory)
    files = {
        directory / f"{series.detector[0]}-{series.detector}_{description}-{first}-{n * round(sfts.tsft)}.gwf": (
            series,
            rows,
        )
        for series in sfts
        for rows, first, n in _runs(series, sfts.tsft)
    }
    keep_sources(files, sources)
    made_directory(directory, "directory")
    for path, (series, rows) in files.items():
        _write(library, path, named[series.detector], sfts, series, rows)
    return list(files)


def _channels(channels: Sequence[str] | None, prefixes: Sequence[str]) -> dict[str, str]:
    """Return the name of each detector's channel."""
    if channels is None:
        return {prefix: f"{prefix}:{CHANNEL}" for prefix in prefixes}
    found = {name[:2]: name for name in channels if isinstance(name, str) and re.fullmatch(r"\S\S:[!-~]+", name)}
    if sorted(found) != sorted(prefixes) or len(channels) != len(found):
        raise ValueError(
            f"channels={list(channels)!r} must name one channel of each of {', '.join(prefixes)}, such as "
            f"'{prefixes[0]}:{CHANNEL}'."
        )
    return found


def strain_of(data: np.ndarray, first_bin: int, tsft: float) -> tuple[np.ndarray, int]:
    """Return the strain of an SFT of a rectangular window: (n,) float64, and its rate in Hz."""
    stop = first_bin + len(data)
    rate = 1 << max(int(np.ceil(2 * stop / tsft)) - 1, 0).bit_length()
    n = round(tsft) * rate
    bins = np.zeros(n // 2 + 1, np.complex128)
    bins[first_bin:stop] = data
    return np.fft.irfft(bins * rate, n), rate


def _library() -> tuple[Any, Any]:
    """Return LALSuite's library of time series, and that for frame files."""
    try:
        import lal
        import lalframe
    except ImportError:
        raise ValueError(
            "frame files are written by LALSuite, which is not installed: run pip install 'jfstat[frames]'."
        ) from None
    return lal, lalframe


def _runs(series: SFTSeries, tsft: float) -> Iterator[tuple[slice, int, int]]:
    """Yield each run of SFTs without a gap: its rows, start in GPS s and number of SFTs."""
    gps, name = np.asarray(series.gps), series.detector
    if series.window != "rectangular":
        raise ValueError(
            f"the SFTs of {name!r} are of window {series.window!r}, from which strain cannot be told: give SFTs of a "
            "rectangular one."
        )
    if tsft != round(tsft) or np.any(np.asarray(series.gps_ns)):
        raise ValueError(f"the SFTs of {name!r} start or last fractions of a second: frames hold whole seconds.")
    gaps = np.diff(gps) - round(tsft)
    if np.any(gaps < 0):
        raise ValueError(f"the SFTs of {name!r} overlap: give those that do not.")
    edges = [0, *(np.flatnonzero(gaps) + 1).tolist(), len(gps)]
    for low, high in pairwise(edges):
        yield slice(low, high), int(gps[low]), high - low


def _write(library: tuple[Any, Any], path: Path, channel: str, sfts: SFTs, series: SFTSeries, rows: slice) -> None:
    """Write a file, a frame for each of some SFTs."""
    lal, lalframe = library
    try:
        with replaced_by(path) as temporary:
            file = lalframe.FrameUFrFileOpen(str(temporary), "w")
            for k, (gps, data) in enumerate(
                zip(*(np.asarray(x)[rows] for x in (series.gps, series.data)), strict=True)
            ):
                x, rate = strain_of(data, sfts.first_bin, sfts.tsft)
                epoch = lal.LIGOTimeGPS(int(gps))
                frame = lalframe.FrameNew(epoch, sfts.tsft, "jfstat", 0, k, 0)
                own = lal.CreateREAL8TimeSeries(channel, epoch, 0.0, 1 / rate, lal.StrainUnit, len(x))
                own.data.data = x
                lalframe.FrameAddREAL8TimeSeriesProcData(frame, own)
                lalframe.FrameUFrameHWrite(file, frame)
            del file  # which closes it
    except (OSError, RuntimeError) as error:
        raise OSError(
            f"frame file {str(path)!r} cannot be written ({error}): make room or choose another directory."
        ) from error
