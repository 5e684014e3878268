"""From a band to be searched and the SFTs at hand to all frequencies and sizes of the series that `prepare` makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jfstat.data.band import terms_needed
from jfstat.data.fstatdata import Band, Layout
from jfstat.data.grid import Grid
from jfstat.geometry.barycenter import DOPPLER, MAX_DELAY
from jfstat.geometry.orbit import cubic_length, orbit_speed
from jfstat.maths.lengths import (
    block_length,
    largest_divisor,
    smooth_length,
    smooth_lengths,
    transform_cost,
    transform_length,
)
from jfstat.sfts.container import SFTs
from jfstat.templates import Orbit

TRANSITION = 0.02
"""Width of the low-pass's transition on each side, relative to its pass band."""
MIN_TRANSITION = 0.01
"""The least such width, Hz: it sets how long the filter rings."""
USABLE = 0.1
"""Part of the transition in which the low-pass still passes 0.9998 of the amplitude."""
USUAL_F1DOT, MAX_USUAL_DRIFT = 1e-9, 0.02
"""Spin-down that `prepare` allows for if told of none, Hz/s, as long as the frequency drifts less than that, Hz."""
RINGING = 12.0
"""Quiet time at both ends of the series in units of 1/transition: the filter's ringing has then died out."""
HEADROOM = 1.1
"""Least bandwidth of the wide series relative to the band series', whose length is rounded up to a smooth number."""
BLOCK_SECONDS = 1800.0
"""Longest block: the antenna patterns are then cubics to 2e-6."""
RUN_DRIFT = 0.014
"""How far, in samples, the position in the band series may drift against the samples of a run in half of it."""
MISMATCH = 2e-5
"""Relative difference allowed between the spacings of the band series and of the source-frame grid."""
BLOCK_CYCLES = 1e-6
"""Phase error in cycles that a block's cubic may have, from the Earth's rotation or from the orbit."""
EARTH = dict(asini=0.0213, period=86164.1)
"""The Earth's rotation as an orbit."""
SHORTEST_PERIOD, LARGEST_ECC, LARGEST_ASINI = 7200.0, 0.5, 50.0
"""Orbits that templates may have if `prepare` is told of none; s, 1, light-seconds."""
BANK_TOLERANCE = 7e-5
"""First term of the interpolation bank to be left out, at the edge of the band and of the bank's reach."""


@dataclass(frozen=True)
class BandPlan:
    """Frequencies and sizes of the wide and of the band series.

    Attributes
    ----------
    bins : slice
        Columns of the SFTs to read.
    searched : slice
        Those of the pass band.
    centre_bin : int
        Column that the wide series' heterodyne moves to zero.
    wide : Grid
        Of the wide series.
    offset_bins : int
        Bin of the wide series' transform that becomes the band series' zero frequency.
    n_band : int
        Samples of the band series.
    half_pass, half_stop : float
        Half widths of the low-pass's pass and stop band, Hz.
    band : Band
    layout : Layout
    """

    bins: slice
    searched: slice
    centre_bin: int
    wide: Grid
    offset_bins: int
    n_band: int
    half_pass: float
    half_stop: float
    band: Band
    layout: Layout

    @property
    def n_bins(self) -> int:
        return self.bins.stop - self.bins.start


def plan_band(
    sfts: SFTs,
    fmin: float,
    fmax: float,
    guard: float,
    orbit: Orbit | None,
    fdots: Sequence[tuple[float, float]] | None,
    reftime: int,
) -> BandPlan:
    """Choose the band in the detectors' frame, the sampling, and the lengths of transforms and blocks.

    Parameters
    ----------
    sfts : SFTs
    fmin, fmax : float
        Band of the search in the SSB, Hz.
    guard : float
        Wanted guard, Hz.
    orbit : Orbit or None
        Extremes of the templates' orbits.
    fdots : sequence of (low, high) or None
        Ranges of the templates' f1dot, f2dot, ..., Hz/s^k.
    reftime : int
        GPS time at which the band and `fdots` hold.

    Raises
    ------
    ValueError
        If the SFTs do not cover the band with its Doppler shifts.
    """
    epoch, tsft = sfts.start, sfts.tsft
    earliest = float(min(s.since(epoch)[0] for s in sfts))
    latest = float(max(s.since(epoch)[-1] for s in sfts)) + tsft
    tspan = latest - earliest

    speed = 0.0 if orbit is None else float(jnp.max(orbit_speed(orbit)))
    shift = (DOPPLER + speed * (1 + DOPPLER)) * fmax
    drift_low, drift_high = drift_range(fdots, earliest + epoch - reftime, latest + epoch - reftime)
    pass_low, pass_high = fmin + drift_low - shift, fmax + drift_high + shift
    bins = _columns(sfts, pass_low, pass_high, guard)
    used = sfts.frequencies[bins]
    guard_low, guard_high = float(pass_low - used[0]), float(used[-1] - pass_high)
    half_pass = 0.5 * (pass_high - pass_low)
    transition = least_transition(half_pass)
    n_fft = transform_length(2 * (half_pass + transition) * tspan, transform_cost)
    dtau = tspan / n_fft
    half_stop = (
        0.5 / dtau
    )  # room that the length leaves is for the transition: the wider, the sooner the filter is quiet
    transition = half_stop - half_pass
    centre = 0.5 * (pass_low + pass_high)
    centre_bin = round(centre * tsft) - sfts.first_bin
    # the wide series has room for every bin used at its own frequency, and for all of the band series
    n_around = 2 * max(centre_bin - bins.start, bins.stop - centre_bin)
    least_rate = max(n_around / tsft, HEADROOM / dtau) + 2 / tsft
    quiet = RINGING / transition
    dt_wide, n_wide, n_band = _matching_lengths(tsft, least_rate, tspan + 2 * quiet, dtau)
    lead = round(0.5 * (n_wide - tspan / dt_wide))
    # half a sample off the SFTs' starts: sums over samples are then symmetric about an SFT's middle, as its Fourier
    # integral is, and the tails of a signal add in phase
    wide = Grid(epoch, earliest - (lead - 0.5) * dt_wide, dt_wide, n_wide)
    f_wide = (sfts.first_bin + centre_bin) / tsft
    offset_bins = round((centre - f_wide) * wide.length)

    blocks = _blocks(orbit, fmax, half_pass, n_fft, dtau)
    # the delay to the SSB and across the orbit stretches the series in the source frame
    stretch = min(2 * MAX_DELAY, DOPPLER * wide.length) + 2 * blocks.asini
    n_frequencies = int((fmax - fmin) * 2 * tspan * (1 + 1e-12)) + 1
    return BandPlan(
        bins=bins,
        searched=_columns(sfts, pass_low, pass_high, 0.0),
        centre_bin=centre_bin,
        wide=wide,
        offset_bins=offset_bins,
        n_band=n_band,
        half_pass=half_pass,
        half_stop=half_stop,
        band=Band(
            start=jnp.asarray(wide.start),
            dt=jnp.asarray(wide.length / n_band),
            dtau=jnp.asarray(dtau),
            heterodyne=jnp.asarray(f_wide + offset_bins / wide.length),
            fmin=jnp.asarray(fmin),
            f_centre=jnp.asarray(fmin + (n_frequencies // 2) / (2 * tspan)),
            pass_low=jnp.asarray(pass_low),
            pass_high=jnp.asarray(pass_high),
            slack=jnp.asarray(USABLE * transition),
            guard=jnp.asarray(min(guard_low, guard_high)),
            expected_loss=jnp.asarray(guard_loss(min(guard_low, guard_high), tsft)),
            middle=jnp.asarray(0.5 * (earliest + latest)),
            reach=jnp.asarray(blocks.reach),
        ),
        layout=Layout(
            n_fft=n_fft,
            n_frequencies=n_frequencies,
            block=blocks.block,
            block_orbit=blocks.block_orbit,
            run=blocks.run,
            run_orbit=blocks.run_orbit,
            n_blocks=max(n_fft // blocks.block, int(np.ceil((tspan + 2 * quiet + stretch) / dtau / blocks.block))),
            padding=blocks.run,
            n_band=n_band,
            terms=terms_needed(2 * np.pi * half_pass * wide.length / n_band * blocks.reach, BANK_TOLERANCE),
        ),
    )


def least_transition(half_pass: float) -> float:
    """Least width of the low-pass's transition on each side, Hz."""
    return max(2 * half_pass * TRANSITION, MIN_TRANSITION)


def _matching_lengths(tsft: float, least_rate: float, least_length: float, dtau: float) -> tuple[float, int, int]:
    """Spacing and number of samples of the wide series, and samples of the band series, which has the same length.

    All are made of small primes, and the band series' spacing is `dtau` to `MISMATCH`: samples that follow one another
    in the source's frame are then interpolated from samples that follow one another in the detector's.
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


class Blocks(NamedTuple):
    """Lengths of blocks and runs in samples, the bank's reach in samples, the largest delay across the orbit in s."""

    block: int
    block_orbit: int
    run: int
    run_orbit: int
    reach: float
    asini: float


def _blocks(orbit: Orbit | None, fmax: float, half_pass: float, n_fft: int, dtau: float) -> Blocks:
    """Blocks that tile the transform's length, short enough for cubics, and the runs that they are made of."""
    # told of none, as wild an orbit as the pass band can hold
    rate = 2 * np.pi / SHORTEST_PERIOD * np.sqrt((1 + LARGEST_ECC) / (1 - LARGEST_ECC))
    widest = orbit or Orbit(half_pass / (fmax * rate), SHORTEST_PERIOD, 0.0, LARGEST_ECC)
    speed = float(jnp.max(orbit_speed(widest)))
    seconds = min(BLOCK_SECONDS, float(cubic_length(Orbit(**EARTH, tp=0.0), fmax, BLOCK_CYCLES)))
    seconds_orbit = min(seconds, float(jnp.min(cubic_length(widest, fmax, BLOCK_CYCLES))))
    block = block_length(n_fft, seconds / dtau)
    block_orbit = largest_divisor(block, seconds_orbit / dtau)
    drift, drift_orbit = DOPPLER + MISMATCH, DOPPLER + speed * (1 + DOPPLER) + MISMATCH
    run = largest_divisor(block, 2 * RUN_DRIFT / drift)
    run_orbit = largest_divisor(block_orbit, 2 * RUN_DRIFT / drift_orbit)
    reach = 0.5 + 0.5 * max(run * drift, run_orbit * drift_orbit)
    return Blocks(
        block, block_orbit, run, run_orbit, reach, max(LARGEST_ASINI, float(jnp.max(widest.asini * (1 + widest.ecc))))
    )


def _columns(sfts: SFTs, pass_low: float, pass_high: float, guard: float) -> slice:
    """Columns of the SFTs that cover the pass band and, as far as they go, the guard on both sides."""
    f = sfts.frequencies
    if f[0] > pass_low or f[-1] < pass_high:
        raise ValueError(
            f"the SFTs cover {f[0]:.6f} to {f[-1]:.6f} Hz but the band needs {pass_low:.6f} to {pass_high:.6f} Hz with "
            "its Doppler shifts: read SFTs with a wider band or narrow fmin and fmax."
        )
    low = int(np.floor((pass_low - guard) * sfts.tsft)) - sfts.first_bin
    high = int(np.ceil((pass_high + guard) * sfts.tsft)) - sfts.first_bin
    return slice(max(0, low), min(sfts.n_bins, high + 1))


def guard_loss(guard: float, tsft: float) -> float:
    """Expected fraction of rho^2 lost because SFTs are cut `guard` Hz beyond the searched band; at most that.

    A signal leaves 1/(pi^2 K) of its energy in an SFT beyond K bins on both sides, averaged over its place between two
    bins. The recovered amplitude falls by that fraction, rho^2 by twice; by once only where SFTs start half a sample
    before a sample of the series, as those do that follow the first without odd gaps. What the low-pass cuts off costs
    nothing: templates have no gaps, and so no tails.

    Parameters
    ----------
    guard : float
        Hz.
    tsft : float
        s.
    """
    return min(1.0, 2.0 / (np.pi**2 * max(guard * tsft, 1e-3)))


def drift_range(fdots: Sequence[tuple[float, float]] | None, first: float, last: float) -> tuple[float, float]:
    """Lowest and highest drift of the frequency that spin-downs cause during the data, Hz.

    Parameters
    ----------
    fdots : sequence of (low, high) or None
        Ranges of f1dot, f2dot, ..., Hz/s^k; None for the usual one.
    first, last : float
        Start and end of the data, s since the reference time.
    """
    times = [first, last, min(max(0.0, first), last)]
    if fdots is None:
        usual = min(USUAL_F1DOT * max(abs(t) for t in times), MAX_USUAL_DRIFT)
        return -usual, usual
    low = high = 0.0
    for k, extremes in enumerate(fdots, start=1):
        drifts = [f * t**k / factorial(k) for f in extremes for t in times]
        low, high = low + min(drifts), high + max(drifts)
    return min(low, 0.0), max(high, 0.0)
