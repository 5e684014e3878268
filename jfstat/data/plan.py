"""Choose the frequencies and sizes of all series that `prepare` makes, for a band to be searched and given SFTs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jfstat.data.bandseries import Band, Grid, Layout, frequency_count
from jfstat.data.observation import Span
from jfstat.data.sizes import Blocks, LowPass, layout_of, low_pass
from jfstat.geometry.barycenter import MAX_DELAY
from jfstat.geometry.doppler import EARTH_SPEED, drift_range, largest_doppler_speed
from jfstat.geometry.orbit import cubic_length
from jfstat.maths.lengths import largest_divisor, smooth_length, smooth_lengths
from jfstat.sfts.container import SFTs
from jfstat.signal.templates import Orbit
from jfstat.signal.times import GPSTime
from jfstat.transforms import block_length

ONE_BIN = 0.25
"""Least width of a band, for a single frequency, in bins of 1/T; the spacing of frequencies is half a bin."""
USABLE = 0.1
"""Fraction of the transition in which the low-pass still passes 0.9998 of the amplitude."""
HEADROOM = 1.1
"""Least bandwidth of the wide series relative to the band series', whose length is rounded up to a smooth number."""
WIDTHS = 4
"""Number of widths to which pass bands are rounded in each factor of two."""
BLOCK_SECONDS = 1800.0
"""Longest block, s, in which cubics follow the antenna patterns to 2e-6."""
RUN_DRIFT = 0.014
"""Largest drift of the position in the band series over half a run, samples."""
MISMATCH = 2e-5
"""Relative difference allowed between the spacings of the band series and of the source-frame grid."""
BLOCK_CYCLES = 1e-6
"""Largest phase error of a block's cubic, cycles, from the Earth's rotation."""
ORBIT_CYCLES = 2e-6
"""Largest phase error of a block's cubic, cycles, from the orbit where it turns fastest; it changes 2F by 2e-6
(relative L2).
"""
SIDEREAL_DAY = 86164.1
"""Length of a sidereal day, s."""
EARTH = dict(asini=0.0213, period=SIDEREAL_DAY)
"""The Earth's rotation as an orbit."""
SHORTEST_PERIOD, LARGEST_ECC, LARGEST_ASINI = 7200.0, 0.5, 50.0
"""Limits of templates' orbits if `prepare` is given none: s, dimensionless, light-seconds."""


@dataclass(frozen=True)
class Search:
    """The templates that will be searched for, in the SSB.

    Attributes
    ----------
    fmin, fmax : float
        Band at the reference time, Hz.
    guard : float
        Requested guard beyond the Doppler shifts, Hz.
    orbit : Orbit or None
        The tightest and widest orbits of the templates.
    fdots : sequence of (low, high) or None
        Ranges of the templates' f1dot, f2dot, ..., Hz/s^k.
    dfreq : float or None
        Spacing of frequencies, Hz; None for 1/(2T).
    max_block : float
        Longest time that one cubic may follow, s.
    rounded : bool
        Whether to round the pass band's width up, if the SFTs have room, to one of `WIDTHS` values for each factor of
        two, so that data of other candidates use the same compiled programs.
    """

    fmin: float
    fmax: float
    guard: float
    orbit: Orbit | None
    fdots: Sequence[tuple[float, float]] | None
    dfreq: float | None = None
    max_block: float = BLOCK_SECONDS
    rounded: bool = False

    def pass_band(self, first: float, last: float) -> tuple[float, float]:
        """Return the lowest and highest frequency at the detectors, Hz, from `first` to `last`, s since `reftime`."""
        speed = largest_doppler_speed(self.orbit)
        drift_low, drift_high = drift_range(self.fdots, first, last)
        return self.fmin + drift_low - speed * self.fmax, self.fmax + drift_high + speed * self.fmax


class Edges(NamedTuple):
    """The pass band of one span of the data.

    Attributes
    ----------
    low, high : float
        Hz.
    bins : slice
        Columns of the SFTs to read: the pass band and the guard, as far as the SFTs have them.
    searched : slice
        Columns of the pass band.
    centre_bin : int
        Column in the middle of the pass band.
    """

    low: float
    high: float
    bins: slice
    searched: slice
    centre_bin: int


@dataclass(frozen=True)
class BandPlan:
    """Frequencies and sizes of the wide and of the band series.

    Attributes
    ----------
    span : Span
    edges : Edges
        The wide series' heterodyne moves the column ``edges.centre_bin`` to zero.
    wide : Grid
        Sample times of the wide series.
    offset_bins : int
        Bin of the wide series' transform that becomes the band series' zero frequency.
    n_band : int
        Samples of the band series.
    half_pass, half_stop : float
        Half widths of the low-pass's pass and stop band, Hz.
    band : Band
        Of NumPy arrays.
    layout : Layout
    """

    span: Span
    edges: Edges
    wide: Grid
    offset_bins: int
    n_band: int
    half_pass: float
    half_stop: float
    band: Band
    layout: Layout


def plan_bands(sfts: SFTs, search: Search, reftime: GPSTime, spans: Sequence[Span]) -> list[BandPlan]:
    """Choose the band in the detectors' frame, the sampling, and the lengths of transforms and blocks.

    Parameters
    ----------
    sfts : SFTs
        From any of the spans; only their band and length are used.
    search : Search
    reftime : GPSTime
        Time at which the band and the spin-downs are given.
    spans : sequence of Span
        Segments, of equal length, or one span of all data. All sizes are the same for all spans.

    Returns
    -------
    list of BandPlan

    Raises
    ------
    ValueError
        If the SFTs do not cover the band with its Doppler shifts.
    """
    tspan, tsft = spans[0].length, sfts.tsft
    # bins are half as far apart as 1/duration: the spacing is exact, whatever the transforms' number of samples
    duration = tspan if search.dfreq is None else 0.5 / search.dfreq
    dfreq = 0.5 / duration if search.dfreq is None else search.dfreq
    n_frequencies = frequency_count(search.fmin, search.fmax, dfreq)
    search = replace(search, fmax=max(search.fmax, search.fmin + ONE_BIN / tspan))
    references = [float(reftime.since(span.epoch)) for span in spans]
    bands = [search.pass_band(s.start - r, s.end - r) for s, r in zip(spans, references, strict=True)]
    half_pass = max(0.5 * (high - low) for low, high in bands)
    if search.rounded:
        wider = 2.0 ** (np.ceil(WIDTHS * np.log2(half_pass)) / WIDTHS)
        lowest, highest = (0.5 * f([low + high for low, high in bands]) for f in (min, max))
        if sfts.frequencies[0] <= lowest - wider and highest + wider <= sfts.frequencies[-1]:
            half_pass = float(wider)
    edges = [_edges(sfts, 0.5 * (low + high), half_pass, search.guard) for low, high in bands]
    passed = low_pass(half_pass, duration)
    # the wide series has room for all bins used, and for the whole band series
    n_around = 2 * max(max(e.centre_bin - e.bins.start, e.bins.stop - e.centre_bin) for e in edges)
    least_rate = max(n_around / tsft, HEADROOM / passed.dtau) + 2 / tsft
    dt_wide, n_wide, n_band = _matching_lengths(tsft, least_rate, tspan + 2 * passed.quiet, passed.dtau)
    length = n_wide * dt_wide

    blocks, asini = _blocks(search, passed)
    # delays to the SSB and across the orbit stretch the series in the source frame
    stretch = min(2 * MAX_DELAY, EARTH_SPEED * length) + 2 * asini
    layout = layout_of(passed, blocks, n_band, length, n_frequencies, tspan + 2 * passed.quiet + stretch)
    number: Any = partial(np.array, dtype=np.float64)
    plans = []
    for span, e in zip(spans, edges, strict=True):
        lead = round(0.5 * (n_wide - tspan / dt_wide))
        # half a sample off the SFTs' starts: sums over samples are then symmetric about the middle of an SFT, like its
        # Fourier integral, and the tails of a signal add in phase
        wide = Grid(span.epoch, span.start - (lead - 0.5) * dt_wide, dt_wide, n_wide)
        f_wide = (sfts.first_bin + e.centre_bin) / tsft
        offset_bins = round((0.5 * (e.low + e.high) - f_wide) * wide.length)
        used = sfts.frequencies[e.bins]
        guard = float(min(e.low - used[0], used[-1] - e.high))
        band = Band(
            start=number(wide.start),
            dt=number(wide.length / n_band),
            dtau=number(passed.dtau),
            heterodyne=number(f_wide + offset_bins / wide.length),
            fmin=number(search.fmin),
            dfreq=number(dfreq),
            f_centre=number(search.fmin + (layout.n_frequencies // 2) * dfreq),
            pass_low=number(e.low),
            pass_high=number(e.high),
            slack=number(USABLE * (passed.half_stop - half_pass)),
            guard=number(guard),
            expected_loss=number(guard_loss(guard, tsft)),
            reach=number(blocks.reach),
        )
        plans.append(BandPlan(span, e, wide, offset_bins, n_band, half_pass, passed.half_stop, band, layout))
    return plans


def _edges(sfts: SFTs, centre: float, half_pass: float, guard: float) -> Edges:
    low, high = centre - half_pass, centre + half_pass
    bins, searched = _columns(sfts, low, high, guard), _columns(sfts, low, high, 0.0)
    return Edges(low, high, bins, searched, round(centre * sfts.tsft) - sfts.first_bin)


def _matching_lengths(tsft: float, least_rate: float, least_length: float, dtau: float) -> tuple[float, int, int]:
    """Return spacing and length of the wide series, and the length of the band series, in samples.

    Both numbers have only small prime factors, and the spacing of the band series is `dtau` to within `MISMATCH`:
    consecutive samples in the source's frame are then interpolated from consecutive samples in the detector's.
    """
    factors = (2, 3, 5, 7, 11)
    for room in (1.1, 1.5, 4.0):
        rates = smooth_lengths(least_rate * tsft, room * least_rate * tsft + 2, factors) / tsft
        wide = [smooth_lengths(least_length * r, room * least_length * r + 2, factors) / r for r in rates]
        lengths, which = np.concatenate(wide), np.repeat(np.arange(len(rates)), [len(w) for w in wide])
        order = np.argsort(lengths * rates[which], kind="stable")
        lengths, which = lengths[order], which[order]
        band = smooth_lengths(lengths.min() / dtau - 1, lengths.max() / dtau + 1, factors)
        right = np.clip(np.searchsorted(band, lengths / dtau), 1, len(band) - 1)
        nearest = np.where(
            lengths / dtau - band[right - 1] < band[right] - lengths / dtau, band[right - 1], band[right]
        )
        good = np.flatnonzero(abs(nearest * dtau / lengths - 1) < MISMATCH)
        if len(good):
            rate, length = float(rates[which[good[0]]]), float(lengths[good[0]])
            return 1 / rate, round(length * rate), int(nearest[good[0]])
    rate = smooth_length(least_rate * tsft) / tsft
    n_wide = smooth_length(least_length * rate)
    return 1 / rate, n_wide, round(n_wide / rate / dtau)


def _blocks(search: Search, passed: LowPass) -> tuple[Blocks, float]:
    """Return blocks that divide the transform's length and are short enough for cubics, and the longest delay, s."""
    orbit, fmax, dtau = search.orbit, search.fmax, passed.dtau
    # if none is given, the most extreme orbit that the pass band can hold
    rate = 2 * np.pi / SHORTEST_PERIOD * np.sqrt((1 + LARGEST_ECC) / (1 - LARGEST_ECC))
    widest = orbit or Orbit(passed.half_pass / (fmax * rate), SHORTEST_PERIOD, 0.0, LARGEST_ECC)
    seconds = min(BLOCK_SECONDS, search.max_block, float(cubic_length(Orbit(**EARTH, tp=0.0), fmax, BLOCK_CYCLES)))
    seconds_orbit = min(seconds, float(np.min(np.asarray(cubic_length(widest, fmax, ORBIT_CYCLES)))))
    block = block_length(passed.n_fft, seconds / dtau)
    block_orbit = largest_divisor(block, seconds_orbit / dtau)
    drift, drift_orbit = EARTH_SPEED + MISMATCH, largest_doppler_speed(widest) + MISMATCH
    run = largest_divisor(block, 2 * RUN_DRIFT / drift)
    run_orbit = largest_divisor(block_orbit, 2 * RUN_DRIFT / drift_orbit)
    reach = 0.5 + 0.5 * max(run * drift, run_orbit * drift_orbit)
    return Blocks(block, block_orbit, run, run_orbit, reach), max(
        LARGEST_ASINI, float(np.max(np.asarray(widest.asini) * (1 + np.asarray(widest.ecc))))
    )


def _columns(sfts: SFTs, pass_low: float, pass_high: float, guard: float) -> slice:
    """Return the SFTs' columns that cover the pass band and, as far as they reach, the guard on both sides."""
    f = sfts.frequencies
    if not f[0] <= pass_low <= pass_high <= f[-1]:
        raise ValueError(
            f"the SFTs cover {f[0]:.10g} to {f[-1]:.10g} Hz but the band needs {pass_low:.10g} to {pass_high:.10g} Hz "
            "with its Doppler shifts: read SFTs with a wider band or narrow fmin and fmax."
        )
    low = int(np.floor((pass_low - guard) * sfts.tsft)) - sfts.first_bin
    high = int(np.ceil((pass_high + guard) * sfts.tsft)) - sfts.first_bin
    return slice(max(0, low), min(sfts.n_bins, high + 1))


def guard_loss(guard: float, tsft: float) -> float:
    """Return an upper bound on the expected fraction of rho^2 lost because SFTs are cut `guard` Hz beyond the band.

    A fraction 1/(pi^2 K) of a signal's energy in an SFT lies more than K bins away on both sides, averaged over its
    position between two bins. The recovered amplitude decreases by this fraction, and rho^2 by twice as much, or only
    by this fraction if SFTs start half a sample before a sample of the series, as they do without irregular gaps. The
    low-pass costs nothing: templates have no gaps, and so no tails.

    Parameters
    ----------
    guard : float
        Hz.
    tsft : float
        s.
    """
    return min(1.0, 2.0 / (np.pi**2 * max(guard * tsft, 1e-3)))
