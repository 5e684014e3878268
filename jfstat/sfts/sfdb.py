"""Reading of SFDBs, the Rome group's files of short Fourier transforms: `read_sfdb`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from io import FileIO
from pathlib import Path

import numpy as np

from jfstat import kinds
from jfstat.files import opened, stamp_of, unreadable
from jfstat.geometry.detectors import DETECTORS, DetectorLike
from jfstat.public import host
from jfstat.sfts.container import CLOSE, SFTs, SFTSeries
from jfstat.sfts.headers import LONGEST
from jfstat.sfts.layout import bins_of_band
from jfstat.sfts.patterns import Pattern, find_files
from jfstat.sfts.selection import band_limits, require_present, sites_of, time_range
from jfstat.sfts.windows import TUKEY_STEPS
from jfstat.signal.times import TimeLike
from jfstat.validation import FrequencyLike, shown, time_pairs

SUFFIXES = (".SFDB09", ".sfdb09", ".SFDB", ".sfdb")
SHORTEST = 1e-3
"""Shortest length of a transform, s."""
MOST_BINS = 2**31
DETECTOR_OF = {1: "V1", 2: "H1", 3: "L1"}
"""Detectors by the numbers in headers; 0 was the bar Nautilus."""
WINDOWS = {0: "rectangular", 1: "hann"}
FLAT_TOP = 5
"""Number of the window that is flat between edges of a cosine's shape."""

_HEADER = np.dtype(
    [
        ("count", "<f8"),
        ("detector", "<i4"),
        ("gps", "<i4"),
        ("gps_ns", "<i4"),
        ("tbase", "<f8"),  # length in s
        ("firstfrind", "<i4"),
        ("nsamples", "<i4"),  # number of bins
        ("red", "<i4"),  # by how much shorter the spectra are
        ("typ", "<i4"),
        ("n_flag", "<f4"),
        ("einstein", "<f4"),  # unit of the bins
        ("mjdtime", "<f8"),
        ("nfft", "<i4"),
        ("wink", "<i4"),  # number of the window
        ("normd", "<f4"),
        ("normw", "<f4"),  # one over the window's root mean square
        ("frinit", "<f8"),  # frequency of the first bin, Hz
        ("tsamplu", "<f8"),  # sampling time, s
        ("deltanu", "<f8"),  # spacing of bins, Hz
        ("velocity", "<f8", 3),
        ("position", "<f8", 3),
        ("n_zeroes", "<i4"),  # samples of strain that were set to zero
        ("sat_howmany", "<f8"),
        ("spare", "<f8", 3),
        ("spare_float", "<f4", 3),
        ("lavesp", "<i4"),  # length of the spectra; else it follows from red
        ("spare_int", "<i4", 2),
    ]
)
_PLACED = np.dtype([("header", _HEADER), ("file", "<i8"), ("offset", "<i8"), ("stamp", "<u8")])
"""A header, the index of its file, where in it the bins begin, and `stamp_of` the file."""


@host(detectors=kinds.detectors, start=kinds.time, end=kinds.time, segments=kinds.sequence)
def read_sfdb(
    pattern: Pattern,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    segments: Sequence[tuple[TimeLike, TimeLike]] | None = None,
    zeros: float = 0.0,
) -> SFTs:
    """Read SFDB files (short Fourier transform database, Astone, Frasca & Palomba 2005) of Virgo, H1 and L1.

    The bins are those of ``SFDBfileIO.c:XLALReadSFDB``. Only the band is read.

    Fourier transforms in SFDBs usually overlap by half. The F-statistic takes each sample of the strain once, and so of
    those that overlap the earliest is kept, then the next that begins after its end, and so on. Where strain is
    missing, SFDBs have zeros: the noise, and with it the estimated noise floor, is then too low.

    Parameters
    ----------
    pattern : str, path or sequence of these
        Files, as for `read_sfts`; of a directory those that end in .SFDB09 or .SFDB, in letters of either case.
    detectors : str, Detector or iterable of these, optional
        Detectors to keep, by default all. Data with the prefix of a given Detector are taken as data of that one.
    start, end : float or Time, optional
        Keep the transforms that start in [start, end), GPS s.
    fmin, fmax : float or Quantity, optional
        Keep the bins that cover [fmin, fmax), Hz, as `read_sfts` does. By default the band of the files, which in most
        begins at 0 Hz and takes much memory.
    segments : sequence of (start, end), optional
        Science segments, GPS s: keep transforms that lie in one of them as a whole. For several detectors with segments
        of their own, read one after the other and use `join_sfts`.
    zeros : float
        Keep transforms of which at most this part of the strain, 0 to 1, was set to zero; by default none of it.

    Returns
    -------
    SFTs
        Detectors in alphabetical order, transforms in time order. The window is ``"rectangular"``, ``"hann"``, for the
        flat top with cosine edges ``"tukey:<beta>"`` with beta from its stated root mean square, or else
        ``"unknown"``. A warning says how many transforms were left out because they overlap others or have zeros.

    Raises
    ------
    FileNotFoundError
        If a pattern matches no file.
    OSError
        If a file cannot be opened.
    ValueError
        If an argument makes no sense or selects nothing; if a file is no SFDB or damaged; if transforms have different
        lengths or, for one detector, different windows, or are there twice; if one lacks part of the band; if all of a
        named detector have zeros.

    Examples
    --------
    >>> sfts = jfstat.read_sfdb('sfdbs/*.SFDB09', fmin=49.0, fmax=51.0)  # doctest: +SKIP
    """
    low, high = band_limits(fmin, fmax)
    if isinstance(zeros, bool) or not isinstance(zeros, (int, float, np.number)) or not 0 <= zeros <= 1:
        raise ValueError(f"zeros must be a number from 0 to 1, not {shown(zeros)}: give the part that may be zero.")
    sites = sites_of(detectors)
    files = find_files(pattern, "SFDB", SUFFIXES)
    table = np.concatenate([_scanned(path, i) for i, path in enumerate(files)])
    table = table[_asked_for(table, list(sites), start, end, segments)]
    tsft = float(table["header"]["tbase"][0])
    other = table["header"]["tbase"] != tsft
    if np.any(other):
        length = float(table["header"]["tbase"][np.argmax(other)])
        raise ValueError(f"pattern: the SFDBs have transforms of {tsft!r} s and {length!r} s: read one kind at a time.")
    zeroed = _zeros(table["header"]) > zeros
    parts: dict[str, np.ndarray] = {}
    for name, number in sorted((name, number) for number, name in DETECTOR_OF.items()):
        own = table[(table["header"]["detector"] == number) & ~zeroed]
        if len(own):
            parts[name] = own[_apart(files, own, tsft)]
    if not parts:
        raise ValueError(f"zeros={zeros:g}: more of the strain is zero in all {len(table)} transforms; raise it.")
    lost = [name for name in sites if name not in parts]
    if lost:
        raise ValueError(f"zeros={zeros:g}: more of the strain is zero in all transforms of {lost[0]}; raise it.")
    first, last = _band(files, np.concatenate(list(parts.values())), low, high)
    series = []
    for name, own in parts.items():
        header, site = own["header"], sites.get(name) or DETECTORS[name]
        data = _read(files, own, first, last)
        gps, gps_ns = header["gps"].astype(np.int64), header["gps_ns"].astype(np.int64)
        series.append(SFTSeries.of(site, gps, gps_ns, data, _window(files, own)))
    n_zeroed = int(zeroed.sum())
    overlapping = len(table) - n_zeroed - sum(map(len, parts.values()))
    if n_zeroed or overlapping:
        warnings.warn(
            f"{n_zeroed + overlapping} of {len(table)} transforms are left out: {_counted(table[zeroed])} "
            f"have more zeros than {zeros:g} of their strain, {overlapping} overlap others.",
            stacklevel=3,
        )
    return SFTs(tuple(series), tsft, first)


def _scanned(path: Path, index: int) -> np.ndarray:
    """Return the headers of all transforms in a file: (n,) ndarray of `_PLACED`.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is no SFDB, or ends too early.
    """
    rows = []
    with _opened(path) as file:
        size, offset, stamp = os.fstat(file.fileno()).st_size, 0, stamp_of(file)
        while offset < size:
            file.seek(offset)
            raw = file.read(_HEADER.itemsize)
            if len(raw) < _HEADER.itemsize:
                raise _bad(path, "it ends within a header")
            header = np.frombuffer(raw, _HEADER)[0]
            problem = _problem(header)
            if problem:
                raise _bad(path, f"its transform {len(rows)} {problem}")
            offset += _HEADER.itemsize + 4 * sum(_spectra(header))
            rows.append((header, index, offset, stamp))
            offset += 8 * int(header["nsamples"])
            if offset > size:
                raise _bad(path, f"it ends within the bins of its transform {len(rows) - 1}")
    if not rows:
        raise _bad(path, "it is empty")
    return np.array(rows, _PLACED)


def _opened(path: Path) -> FileIO:
    try:
        return opened(path)
    except OSError as error:
        raise unreadable(path, error) from error


def _bad(path: Path, problem: str) -> ValueError:
    return ValueError(f"pattern: SFDB file {str(path)!r}: {problem}; replace the file or leave it out.")


def _problem(header: np.void) -> str | None:
    """Return what is wrong with a header, None if nothing."""
    if int(header["detector"]) not in DETECTOR_OF:
        return f"is of detector number {header['detector']}, not 1 to 3 (V1, H1, L1)"
    length, n = float(header["tbase"]), int(header["nsamples"])
    if not (SHORTEST <= length <= LONGEST and n > 0 and abs(length * float(header["deltanu"]) - 1) < 1e-6):
        return f"has a length of {length:g} s, {n} bins and bins of {header['deltanu']:g} Hz, which do not fit together"
    if header["lavesp"] < 0 or (header["lavesp"] == 0 and header["red"] <= 0):
        return "does not state the length of its spectra"
    if not (header["gps"] >= 0 and 0 <= header["gps_ns"] < 10**9) or header["n_zeroes"] < 0:
        return "has a negative number of zeros, or no valid time"
    scale = [float(header[name]) for name in ("einstein", "normw", "tsamplu")]
    if not all(0 < x < np.inf for x in scale) or not 0 <= header["frinit"] < np.inf:
        return "has a factor or a frequency that is not positive"
    begin = float(header["frinit"]) * length
    if begin + n >= MOST_BINS:
        return f"has bins up to {(begin + n) / length:g} Hz, which is too many"
    if abs(begin - round(begin)) > 1e-6:
        return f"begins at {header['frinit']:.10g} Hz, between two bins"
    return None


def _spectra(header: np.void) -> tuple[int, int]:
    """Return the lengths of the two spectra between a header and its bins."""
    if header["lavesp"] > 0:
        return int(header["lavesp"]), int(header["lavesp"])
    return int(header["red"]), int(header["nsamples"]) // int(header["red"])


def _counted(table: np.ndarray) -> str:
    """Return the number of transforms in words, with that of each detector."""
    numbers, counts = np.unique(table["header"]["detector"], return_counts=True)
    each = ", ".join(f"{count} of {DETECTOR_OF[int(n)]}" for n, count in zip(numbers, counts, strict=True))
    return each or "none"


def _zeros(headers: np.ndarray) -> np.ndarray:
    """Return the part of each transform's strain that was set to zero, (n,)."""
    return headers["n_zeroes"] * headers["tsamplu"] / headers["tbase"]


def _asked_for(
    table: np.ndarray,
    detectors: list[str],
    start: TimeLike | None,
    end: TimeLike | None,
    segments: Sequence[tuple[TimeLike, TimeLike]] | None,
) -> np.ndarray:
    """Return which transforms have the wanted detectors and times, (n,) bool.

    Raises
    ------
    ValueError
        If none has, or a detector none of the times.
    """
    header, (since, until) = table["header"], time_range(start, end)
    times, names = _seconds(header), np.array([DETECTOR_OF[int(n)] for n in header["detector"]])
    exact = header["gps"] * np.int64(10**9) + header["gps_ns"]
    chosen = np.ones(len(table), bool)
    if since is not None:
        chosen &= exact >= since
    if until is not None:
        chosen &= exact < until
    if segments is not None:
        pairs = np.array(time_pairs(segments))
        ends = times + header["tbase"]
        inside = (times[:, None] >= pairs[:, 0] - CLOSE) & (ends[:, None] <= pairs[:, 1] + CLOSE)
        chosen &= inside.any(axis=1)
    if not np.any(chosen):
        raise ValueError(
            f"no transform lies in start, end and segments: those of the files start at GPS {times.min():.0f} to "
            f"{times.max():.0f}; choose times among these."
        )
    require_present(detectors, np.unique(names[chosen]).tolist(), "transforms")
    return chosen & np.isin(names, detectors) if detectors else chosen


def _seconds(headers: np.ndarray) -> np.ndarray:
    return headers["gps"] + 1e-9 * headers["gps_ns"]


def _apart(files: list[Path], own: np.ndarray, tsft: float) -> np.ndarray:
    """Return the indices of one detector's transforms that are kept, in time order: none overlaps another.

    Raises
    ------
    ValueError
        If two start at the same time.
    """
    times = _seconds(own["header"])
    order = np.argsort(times, kind="stable")
    twice = np.flatnonzero(np.diff(times[order]) < CLOSE)
    if len(twice):
        a, b = (str(files[own["file"][order[twice[0] + i]]]) for i in (0, 1))
        gps = own["header"]["gps"][order[twice[0]]]
        raise ValueError(f"pattern: the transform at GPS {gps} is there twice, in {a!r} and in {b!r}: leave one out.")
    kept, end = [], -np.inf
    for i in order:
        if times[i] >= end - CLOSE:
            kept.append(i)
            end = times[i] + tsft
    return np.array(kept)


def _window(files: list[Path], own: np.ndarray) -> str:
    """Return the name of one detector's window."""
    header = own["header"]
    other = (header["wink"] != header["wink"][0]) | (header["normw"] != header["normw"][0])
    if np.any(other):
        path = str(files[own["file"][np.argmax(other)]])
        raise ValueError(f"pattern: one detector's transforms differ in their windows, as in {path!r}: leave some out.")
    number = int(header["wink"][0])
    if number != FLAT_TOP:
        return WINDOWS.get(number, "unknown")
    # the mean square of a Tukey window is 1 - 5 beta/8
    beta = round(1.6 * (1 - float(header["normw"][0]) ** -2) * TUKEY_STEPS) / TUKEY_STEPS
    return f"tukey:{beta:g}" if 0 <= beta <= 1 else "unknown"


def _bins(headers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first bin of each transform, and the one after its last: (n,) int64."""
    begin = np.round(headers["frinit"] * headers["tbase"]).astype(np.int64)
    return begin, begin + headers["nsamples"]


def _band(files: list[Path], own: np.ndarray, fmin: float | None, fmax: float | None) -> tuple[int, int]:
    """Return the first and the last bin of a band that all transforms have.

    Raises
    ------
    ValueError
        If one lacks a part of it or, without a limit, their bands differ.
    """
    tsft, (begin, stop) = float(own["header"]["tbase"][0]), _bins(own["header"])
    if (fmin is None and np.ptp(begin)) or (fmax is None and np.ptp(stop)):
        raise ValueError("pattern: the transforms have mixed bands: give fmin and fmax.")
    low, high = begin[0] / tsft if fmin is None else fmin, stop[0] / tsft if fmax is None else fmax
    first, last = bins_of_band(float(low), float(high), tsft)
    lacking = (begin > first) | (stop <= last)
    if np.any(lacking) or first > last:
        i = int(np.argmax(lacking))
        raise ValueError(
            f"the band is not covered: the transforms in {str(files[own['file'][i]])!r} have {begin[i] / tsft:.10g} to "
            f"{stop[i] / tsft:.10g} Hz; choose fmin and fmax in it."
        )
    return first, last


def _read(files: list[Path], own: np.ndarray, first: int, last: int) -> np.ndarray:
    """Read a range of bins of one detector's transforms, scaled to strain/Hz: (n, n_bins) complex64."""
    data = np.empty((len(own), last - first + 1), np.complex64)
    begins = _bins(own["header"])[0]
    for k in np.argsort(own["file"], kind="stable"):
        header, path = own["header"][k], files[own["file"][k]]
        with _opened(path) as file:
            if stamp_of(file) != own["stamp"][k]:
                raise _bad(path, "it was replaced or changed while it was read")
            file.seek(int(own["offset"][k]) + 8 * (first - int(begins[k])))
            bins = np.frombuffer(file.read(data[k].nbytes), "<c8")
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = bins * header["einstein"] * float(header["tsamplu"]) * float(header["normw"])
            data[k] = scaled
        if not np.all(np.isfinite(data[k])):
            raise _bad(path, f"a bin at GPS {header['gps']} is infinite, not a number or too large for complex64")
    return data
