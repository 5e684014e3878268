"""Reads SFT files: `read_sfts`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from jfstat.geometry.detector import Detector
from jfstat.geometry.detectors import DETECTORS, DetectorLike, get_detectors
from jfstat.sfts.blocks import read_batches
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.headers import scan_file, start_ns
from jfstat.sfts.layout import Layout, arrange
from jfstat.sfts.patterns import Pattern, find_files
from jfstat.sfts.windows import window_name
from jfstat.times import TimeLike
from jfstat.validation import FrequencyLike, frequency, gps_seconds


def read_sfts(
    pattern: Pattern,
    detectors: DetectorLike | Iterable[DetectorLike] | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    fmin: FrequencyLike | None = None,
    fmax: FrequencyLike | None = None,
    *,
    check_crc: bool = True,
) -> SFTs:
    """Read SFT files: versions 2 and 3, either byte order, one or many SFTs each.

    The files may be given in any order, and the band may be spread over several of them (narrow-band SFTs): bands of
    one detector and time are joined, and bins that two of them share must agree.

    Parameters
    ----------
    pattern : str, path or sequence of these
        A file; a directory, for the ``*.sft`` in it; a glob; several of these joined by ``;``; or ``list:<file>``, a
        file with one path per line.
    detectors : str, Detector or iterable of these, optional
        Prefixes, such as ``"H1"``, of the detectors to keep; by default all. SFTs with the prefix of a Detector are
        taken as that detector's, also where jfstat knows another one by this prefix: files hold nothing but the prefix.
    start, end : float or astropy.time.Time, optional
        Keep the SFTs that start in [start, end), GPS s, as ``SFTcatalog.c:XLALSFTdataFind`` does.
    fmin, fmax : float or astropy.units.Quantity, optional
        Keep the bins that cover [fmin, fmax), Hz, as ``SFTfileIO.c:XLALLoadSFTs`` does: from fmin rounded down to a bin
        to the last bin below fmax. By default the files' band.
    check_crc : bool
        By default all bytes of all files are read and verified, even if few are kept. If False, only headers, comments
        and the bins to keep are read.

    Returns
    -------
    SFTs
        Detectors in alphabetical order, SFTs in time order.

    Raises
    ------
    FileNotFoundError
        If a pattern matches no file, or a list names a file that does not exist.
    OSError
        If a file cannot be opened.
    ValueError
        If an argument makes no sense or selects nothing; if a file is not a valid SFT file by LALSuite's standards; if
        the SFTs have different Tsft or, for one detector, different windows, an SFT twice or SFTs that overlap in time;
        if part of the band is missing at some time or, without fmin or fmax, bands differ.
    """
    sites = _sites(detectors)
    own = [name for name, site in sites.items() if DETECTORS.get(name) != site]
    since, until = _time_range(start, end)
    low = None if fmin is None else frequency(fmin, "fmin")
    high = None if fmax is None else frequency(fmax, "fmax")
    if (low is not None and low < 0) or (high is not None and high <= (low or 0.0)):
        raise ValueError(f"the band must have 0 <= fmin < fmax, not fmin={low} and fmax={high} Hz: correct it.")
    files = find_files(pattern)
    table = np.concatenate([scan_file(path, i, own) for i, path in enumerate(files)])
    chosen = _choose(table, list(sites) or None, since, until)
    layout = arrange(files, table[chosen], low, high)
    data = _read(files, layout, table[~chosen] if check_crc else table[:0], check_crc)
    return _as_sfts(layout, data, sites)


def _sites(detectors: DetectorLike | Iterable[DetectorLike] | None) -> dict[str, Detector]:
    """The detectors to keep by their prefixes; none means all."""
    return {} if detectors is None else {site.prefix: site for site in get_detectors(detectors)}


def _time_range(start: TimeLike | None, end: TimeLike | None) -> tuple[int | None, int | None]:
    """The limits in GPS nanoseconds, which compare exactly with the files' times."""
    limits = []
    for time, name in ((start, "start"), (end, "end")):
        seconds = None if time is None else gps_seconds(time, name)
        limits.append(None if seconds is None else math.floor(seconds) * 10**9 + round(seconds % 1 * 1e9))
    since, until = limits
    if since is not None and until is not None and since >= until:
        raise ValueError(f"start must be before end, not start={start!s} and end={end!s}: correct them.")
    return since, until


def _choose(table: np.ndarray, wanted: list[str] | None, since: int | None, until: int | None) -> np.ndarray:
    """Which SFTs have the wanted detectors and times, (n_sfts,) bool."""
    times = start_ns(table)
    chosen = np.ones(len(table), bool)
    if since is not None:
        chosen &= times >= since
    if until is not None:
        chosen &= times < until
    if not np.any(chosen):
        raise ValueError(
            f"no SFT starts between start and end: the SFTs start at GPS {times.min() // 10**9} to "
            f"{times.max() // 10**9}; choose times among these."
        )
    present = [name.decode() for name in np.unique(table["detector"][chosen])]
    if wanted is None:
        return chosen
    absent = [name for name in wanted if name not in present]
    if absent:
        raise ValueError(
            f"detectors: there are no SFTs of {', '.join(absent)} among the files and times asked for, only of "
            f"{', '.join(present)}; add files or leave detectors out."
        )
    return chosen & np.isin(table["detector"], np.array(wanted, "S2"))


def _read(files: list[Path], layout: Layout, others: np.ndarray, check_crc: bool) -> np.ndarray:
    """Bins of the layout, (n_rows, n_bins) complex64; the SFTs in `others` are only verified."""
    data = np.empty((len(layout.heads), layout.last_bin - layout.first_bin + 1), np.complex64)
    table = np.concatenate([layout.table, others])
    for sfts, start, values in read_batches(files, table, layout.first_bin, layout.last_bin, check_crc=check_crc):
        kept = sfts < len(layout.table)
        sfts, values = sfts[kept], values[kept]
        column = start - layout.first_bin
        columns = slice(column, column + values.shape[1])
        shared = np.clip(layout.fresh[sfts] - start, 0, values.shape[1])
        for k in np.flatnonzero(shared):
            sft = layout.table[sfts[k]]
            if not np.array_equal(data[layout.row[sfts[k]], columns][: shared[k]], values[k, : shared[k]]):
                raise ValueError(
                    f"SFT file {str(files[sft['file']])!r}: at GPS {sft['gps']} it differs from another file in "
                    "bins that both have; leave one of the files out."
                )
        data[layout.row[sfts], columns] = values
    return data


def _as_sfts(layout: Layout, data: np.ndarray, sites: Mapping[str, Detector]) -> SFTs:
    rows = layout.table[layout.heads]
    names, starts = np.unique(rows["detector"], return_index=True)
    series = []
    for name, start, stop in zip(names, starts, [*starts[1:], len(rows)], strict=True):
        part = rows[start:stop]
        window = window_name(int(part["window"][0]))
        site = sites.get(name.decode()) or DETECTORS[name.decode()]
        series.append(SFTSeries.of(site, part["gps"].copy(), part["gps_ns"].copy(), data[start:stop], window))
    return SFTs(tuple(series), float(rows["tsft"][0]), layout.first_bin)
