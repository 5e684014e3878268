"""Division of SFT files into files of narrow bands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jfstat import kinds
from jfstat.geometry.detectors import DETECTORS, Detector, DetectorLike
from jfstat.public import host
from jfstat.sfts.patterns import Pattern, find_files
from jfstat.sfts.reading import band_of, read_sfts
from jfstat.sfts.writing import keep_sources, merged_names, write_sfts
from jfstat.signal.times import TimeLike
from jfstat.validation import FrequencyLike, frequency

MOST_BANDS = 10**6
"""Largest number of narrow bands; more are taken for a mistake."""


@host(
    detectors=kinds.detectors,
    start=kinds.time,
    end=kinds.time,
    directory=kinds.path,
    comment=kinds.text,
    description=kinds.text,
)
def split_sfts(
    pattern: Pattern,
    directory: str | os.PathLike,
    width: FrequencyLike,
    overlap: FrequencyLike = 0.0,
    *,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    comment: str = "split by jfstat",
    description: str = "",
) -> list[Path]:
    """Write the SFTs of some files as files of narrow bands, one for each detector and band.

    One band at a time is in memory. The values of the bins are not changed.

    Parameters
    ----------
    pattern : str, path or sequence of these
        SFT files; see `read_sfts`.
    directory : str or path
        Directory to write to; it is created if it does not exist.
    width, overlap : float or Quantity
        Width of a band, and how far it extends into the next one, Hz; both are rounded up to whole bins. The last band
        may be narrower.
    fmin, fmax : float or Quantity, optional
        Split the bins that cover [fmin, fmax), Hz; by default all bins of the files.
    detectors, start, end
        SFTs to take; see `read_sfts`.
    comment, description : str
        See `write_sfts`.

    Returns
    -------
    list of Path
        Files by band and detector. Names follow the convention of LIGO-T040164, as lalpulsar_splitSFTs writes them,
        with the band as in ``NBF0099Hz900W0000Hz900``: first bin and number of bins, in whole Hz and remaining bins.

    Raises
    ------
    FileNotFoundError, OSError
        If a file cannot be read or written.
    ValueError
        If a file is not valid, the files do not cover the band, `width` is not larger than `overlap`, or a file that is
        read would be replaced. All bytes of all files are verified before the first file is written.
    """
    named = [] if detectors is None else [detectors] if isinstance(detectors, (str, Detector)) else list(detectors)
    for site in named:
        if isinstance(site, Detector) and site.prefix in DETECTORS:
            raise ValueError(
                f"detectors has a Detector {site.prefix}, whose place splitting does not need: give the prefix."
            )
    chosen: dict[str, Any] = {"detectors": named or None, "start": start, "end": end}
    sources = find_files(pattern)  # once: what is written may match the pattern too
    tsft, first_bin, last_bin = band_of(sources, fmin=fmin, fmax=fmax, **chosen)
    bins, shared = _whole_bins(width, "width", tsft), _whole_bins(overlap, "overlap", tsft)
    n_bands = (last_bin - first_bin + 1) / max(frequency(width, "width") * tsft, 1 / MOST_BANDS)
    if bins and n_bands > MOST_BANDS:
        raise ValueError(
            f"width must divide the band into at most {MOST_BANDS} parts, not {n_bands:.3g}: give more Hz."
        )
    bands = list(narrow_bands(first_bin, last_bin, bins, shared))
    files = []
    for i, (first, n_bins) in enumerate(bands):
        sfts = read_sfts(sources, fmin=first / tsft, fmax=(first + n_bins) / tsft, check_crc=i == 0, **chosen)
        if i == 0:
            names = [name for band in bands for name in merged_names(sfts, description, band)]
            if len(set(names)) < len(names):  # as those of narrow bands below 1 Hz, whose names do not tell the band
                raise ValueError("width: files of several bands would have one name: start at fmin of 1 Hz or above.")
            keep_sources([Path(directory) / name for name in names], sources)
        files += write_sfts(sfts, directory, comment=comment, description=description)
    return files


def narrow_bands(first_bin: int, last_bin: int, width: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield the first bin and the number of bins of each narrow band; all counts are in bins.

    The bands are divided as in ``splitSFTs.c``, except that a last bin that begins a new band is not dropped.

    Raises
    ------
    ValueError
        If `width` is not larger than `overlap`.
    """
    if not 0 <= overlap < width:
        raise ValueError(f"width of {width} bins must be larger than overlap of {overlap}: widen it.")
    for first in range(first_bin, last_bin + 1, width - overlap):
        yield first, min(width, last_bin + 1 - first)


def _whole_bins(x: FrequencyLike, name: str, tsft: float) -> int:
    """Return a width in Hz as a number of bins, rounded up."""
    value = frequency(x, name)
    if value < 0:
        raise ValueError(f"{name} must not be negative, not {value}: give it in Hz.")
    return -int(-value * tsft * (1 - 1e-12) // 1)
