"""Arrangement of the bins of SFTs in one array, with checks that the SFTs fit together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jfstat.sfts.headers import start_ns

# LALSuite's allowance for rounding (SFTinternal.h): a frequency this close to a bin is at the bin
_FUDGE = 10 * float(np.finfo(np.float64).eps)


class Layout(NamedTuple):
    """The places of the bins of SFTs in an array with a row for each detector and time.

    Attributes
    ----------
    table : (n_sfts,) ndarray of `headers.TABLE`
        The SFTs by detector, time, first bin and number of bins.
    row : (n_sfts,) int64 ndarray
        Row of the array for each SFT; SFTs that hold different bands of one time share a row.
    fresh : (n_sfts,) int64 ndarray
        First bin of each SFT that the SFTs before it in its row do not have.
    heads : (n_rows,) int64 ndarray
        Index in `table` of the first SFT of each row.
    first_bin, last_bin : int
        Band of the array, both ends included.
    """

    table: np.ndarray
    row: np.ndarray
    fresh: np.ndarray
    heads: np.ndarray
    first_bin: int
    last_bin: int


def arrange(files: list[Path], table: np.ndarray, fmin: float | None, fmax: float | None) -> Layout:
    """Lay SFTs out over the bins that cover [fmin, fmax), Hz; None means the limit of the SFTs.

    Raises
    ------
    ValueError
        If Tsft is mixed; if one detector has mixed windows, an SFT twice or SFTs that overlap in time; if the band has
        no bin, some time lacks part of it or, without a limit, bands differ between times.
    """
    table = table[np.lexsort([table["n_bins"], table["first_bin"], start_ns(table), table["detector"]])]
    new_detector = np.append(True, table["detector"][1:] != table["detector"][:-1])
    new_row = new_detector | np.append(True, np.diff(start_ns(table)) != 0)
    row, heads = np.cumsum(new_row) - 1, np.flatnonzero(new_row)
    check_tsft(files, table)
    _check_windows(files, table, new_detector)
    _check_times(files, table, new_row, heads)
    first_bin, last_bin = _limits(table, heads, fmin, fmax)

    # reach: number of bins of the band that the SFTs of a row fill, up to and including this one
    last = np.minimum(table["first_bin"] + table["n_bins"] - 1, last_bin)
    inside = np.maximum(table["first_bin"], first_bin) <= last
    step = last_bin - first_bin + 2
    reach = np.maximum.accumulate(row * step + np.where(inside, last - first_bin + 1, 0)) - row * step
    fresh = first_bin + np.where(new_row, 0, np.append(0, reach[:-1]))
    gap = inside & (table["first_bin"] > fresh)
    if np.any(gap):
        k = np.argmax(gap)
        tsft = table["tsft"][0]
        raise ValueError(
            f"the {_describe(table[k])} lack {fresh[k] / tsft:.10g} to {table['first_bin'][k] / tsft:.10g} Hz: "
            "add the files of that band or choose fmin and fmax on one side of it."
        )
    return Layout(table, row, fresh, heads, first_bin, last_bin)


def check_tsft(files: list[Path], table: np.ndarray) -> None:
    """Raise a ValueError unless all SFTs have the same length."""
    other = table["tsft"] != table["tsft"][0]
    if np.any(other):
        a, b = table[0], table[np.argmax(other)]
        raise ValueError(
            f"the SFTs have mixed Tsft: {a['tsft']:g} s in {_name(files, a)} and {b['tsft']:g} s in {_name(files, b)}; "
            "read one kind at a time."
        )


def _check_windows(files: list[Path], table: np.ndarray, new_detector: np.ndarray) -> None:
    mixed = ~new_detector[1:] & (np.diff(table["window"]) != 0)
    if np.any(mixed):
        a, b = table[np.argmax(mixed)], table[np.argmax(mixed) + 1]
        raise ValueError(
            f"detector {a['detector'].decode()} has mixed windows: code {a['window']} in {_name(files, a)} and "
            f"{b['window']} in {_name(files, b)}; read one kind at a time."
        )


def _check_times(files: list[Path], table: np.ndarray, new_row: np.ndarray, heads: np.ndarray) -> None:
    twice = ~new_row[1:] & (np.diff(table["first_bin"]) == 0) & (np.diff(table["n_bins"]) == 0)
    if np.any(twice):
        a, b = table[np.argmax(twice)], table[np.argmax(twice) + 1]
        raise ValueError(
            f"the {_describe(a)} are given twice, in {_name(files, a)} and in {_name(files, b)}: leave one out."
        )
    rows = table[heads]
    shortfall = np.diff(start_ns(rows)) < round(table["tsft"][0].item() * 1e9)
    overlap = (rows["detector"][1:] == rows["detector"][:-1]) & shortfall
    if np.any(overlap):
        a, b = rows[np.argmax(overlap)], rows[np.argmax(overlap) + 1]
        raise ValueError(
            f"the {_describe(b)}, in {_name(files, b)}, overlap in time with those at GPS {a['gps']}, in "
            f"{_name(files, a)}: leave one out."
        )


def _limits(table: np.ndarray, heads: np.ndarray, fmin: float | None, fmax: float | None) -> tuple[int, int]:
    """Return the first and the last bin of the band, which every time has."""
    tsft = table["tsft"][0].item()
    lows = table["first_bin"][heads]
    highs = np.maximum.reduceat(table["first_bin"] + table["n_bins"] - 1, heads)
    for ends, limit in ((lows, fmin), (highs, fmax)):
        other = ends != ends[0]
        if limit is None and np.any(other):
            a, b = 0, np.argmax(other)
            bands = [
                f"{lows[i] / tsft:.10g} to {highs[i] / tsft:.10g} Hz ({_describe(table[heads[i]])})" for i in (a, b)
            ]
            raise ValueError(f"the SFTs have mixed bands, {bands[0]} and {bands[1]}: give fmin and fmax.")
    first = int(lows[0]) if fmin is None else _bin_down(fmin, tsft)
    last = int(highs[0]) if fmax is None else _bin_up(fmax, tsft) - 1
    lacking = (lows > first) | (highs < last)
    if np.any(lacking) or first > last:
        i = np.argmax(lacking)
        raise ValueError(
            f"the band fmin={first / tsft:.10g} to fmax={(last + 1) / tsft:.10g} Hz is not covered: the "
            f"{_describe(table[heads[i]])} cover {lows[i] / tsft:.10g} to {highs[i] / tsft:.10g} Hz; "
            "choose a band in it."
        )
    return first, last


def bins_of_band(fmin: float, fmax: float, tsft: float) -> tuple[int, int]:
    """Return the first and the last bin of those that cover [fmin, fmax), Hz."""
    return _bin_down(fmin, tsft), _bin_up(fmax, tsft) - 1


def _bin_down(f: float, tsft: float) -> int:
    """Round a frequency down to a bin, as SFTtypes.c:XLALRoundFrequencyDownToSFTBin."""
    return math.floor(f / (1.0 / tsft) * (1 + _FUDGE))


def _bin_up(f: float, tsft: float) -> int:
    """Round a frequency up to a bin, as SFTtypes.c:XLALRoundFrequencyUpToSFTBin."""
    return math.ceil(f / (1.0 / tsft) * (1 - _FUDGE))


def _name(files: list[Path], sft: Any) -> str:
    return repr(str(files[sft["file"]]))


def _describe(sft: Any) -> str:
    return f"data of {sft['detector'].decode()} at GPS {sft['gps']}"
