"""Replacement of the bins of known lines in SFTs by noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.data.noise import median_bias
from jfstat.lines.doppler import checked_lines, hertz
from jfstat.public import host
from jfstat.sfts.container import SFTs, SFTSeries, check_sfts
from jfstat.simulate.randomness import random_numbers
from jfstat.validation import whole

if TYPE_CHECKING:
    from astropy.table import QTable

WINDOW = 100
"""Default number of bins on each side of a line that give the noise level, as in lalpulsar_SFTclean."""


@host
def clean(sfts: SFTs, lines: QTable, *, seed: int = 0, window: int = WINDOW, max_bins: int | None = None) -> SFTs:
    """Replace the bins of known lines by Gaussian noise at the level of the neighbouring bins.

    The method follows lalpulsar_SFTclean (``SFTClean.c:LALCleanCOMPLEX8SFT``). A line at f with widths l and r
    affects the bin nearest to f, floor(Tsft l) bins below and floor(Tsft r) bins above it. Real and imaginary parts are
    drawn with the variance m/(2 b), where m is the median power of `window` bins on each side of the line and b the
    bias of the median. Lines are cleaned in the order of the table, so the noise level of a line may come from the bins
    of a neighbour that was cleaned before.

    SFTclean does not clean lines whose central bin lies outside the SFTs, and repeats the last bin where an SFT has
    fewer than `window` bins beside a line. This function replaces all bins of such lines that the SFTs have, and uses
    only bins that exist.

    Cleaned bins hold no signal: 2F of a signal that passes through them is lower than `predict_twoF` says.

    Parameters
    ----------
    sfts : SFTs
    lines : QTable
        Table from `read_lines`. Only lines of the SFTs' detectors are used.
    seed : int
        Seed of the noise, which also depends on where the SFTs begin in time and frequency.
    window : int
        Number of bins on each side of a line that give the noise level.
    max_bins : int, optional
        Clean at most this many bins on each side of a line's central bin, like SFTclean's ``--maxBins``, whose default
        is 20; the outer bins of wider lines are kept. None cleans all.

    Returns
    -------
    SFTs
        A copy; the given SFTs are not changed.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or a line covers all bins of the SFTs.
    """
    check_sfts(sfts)
    table: Any = checked_lines(lines)
    missing = [name for name in ("freq", "left_width", "right_width") if name not in table.colnames]
    if missing:
        raise ValueError(f"lines lacks the column {missing[0]!r}: see jfstat.read_lines.")
    seed, window, series = whole(seed, "seed"), min(whole(window, "window", 1), sfts.n_bins), []
    max_bins = None if max_bins is None else min(whole(max_bins, "max_bins"), sfts.n_bins)
    for own in sfts:
        bins = line_bins(table[np.asarray(table["detector"]) == own.detector], sfts, max_bins)
        rng = random_numbers([int(seed)], "clean", own, sfts.first_bin)
        series.append(_cleaned(own, bins, int(window), rng))
    return SFTs(tuple(series), sfts.tsft, sfts.first_bin)


def line_bins(lines: QTable, sfts: SFTs, max_bins: int | None = None) -> list[tuple[int, int, int]]:
    """Return the column of each line's central bin, and the numbers of bins below and above it that belong to the line.

    Parameters
    ----------
    lines : QTable
        Lines of one detector.
    sfts : SFTs
    max_bins : int, optional
        See `clean`.
    """
    # as C's lround: halves away from zero
    centre = np.floor(hertz(lines["freq"]) * sfts.tsft + 0.5).astype(np.int64) - sfts.first_bin
    # widths of a whole number of bins may be rounded to slightly less
    below, above = (
        np.floor(hertz(lines[name]) * sfts.tsft * (1 + 1e-12)).astype(np.int64)
        for name in ("left_width", "right_width")
    )
    if max_bins is not None:
        below, above = np.minimum(below, max_bins), np.minimum(above, max_bins)
    kept = (centre + above >= 0) & (centre - below < sfts.n_bins)
    return list(zip(centre[kept].tolist(), below[kept].tolist(), above[kept].tolist(), strict=True))


def _cleaned(series: SFTSeries, bins: list[tuple[int, int, int]], window: int, rng: np.random.Generator) -> SFTSeries:
    """Return the SFTs of one detector with the bins of lines replaced."""
    data = series.data.copy()
    n_sfts, n_bins = data.shape
    for centre, below, above in bins:
        first, end = max(centre - below, 0), min(centre + above + 1, n_bins)
        beside = np.concatenate([np.arange(max(first - window, 0), first), np.arange(end, min(end + window, n_bins))])
        if len(beside) == 0:
            raise ValueError(f"lines has one of {series.detector} that covers all bins of the SFTs: leave it out.")
        around = data[:, beside].astype(np.complex128)
        median = np.median(around.real**2 + around.imag**2, axis=1)
        level = np.sqrt(median / (2 * median_bias(len(beside))))
        noise = rng.standard_normal((n_sfts, end - first, 2)) * level[:, None, None]
        data[:, first:end] = noise[..., 0] + 1j * noise[..., 1]
    return replace(series, data=data)
