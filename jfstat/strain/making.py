"""Computation of SFTs from strain, one after the other: their start times and their bins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jfstat import kinds
from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.windows import window_samples
from jfstat.signal.times import TimeLike
from jfstat.strain.filters import high_passed
from jfstat.strain.gating import Gating, gate_window
from jfstat.strain.strain import Strain
from jfstat.validation import DurationLike, FrequencyLike, frequency, gps_integer, sft_seconds

SLACK = 1e-6
"""Tolerance for numbers that were rounded, in bins or samples."""


@dataclass(frozen=True, eq=False)
class Making:
    """Options for computing SFTs from strain.

    Attributes
    ----------
    tsft : float
        Length of an SFT, s.
    n : int
        Number of samples of an SFT.
    bins : slice
        Range of bins of the Fourier transform.
    window : str
    highpass : float or None
        Knee frequency, Hz.
    gating : Gating or None
    """

    tsft: float
    n: int
    bins: slice
    window: str
    highpass: float | None
    gating: Gating | None

    @classmethod
    def of(
        cls,
        rate: int,
        tsft: DurationLike,
        fmin: FrequencyLike | None,
        fmax: FrequencyLike | None,
        window: str,
        highpass: FrequencyLike | None,
        gating: Gating | None,
    ) -> Making:
        """Make the options from users' arguments.

        Raises
        ------
        TypeError
            If `gating` is of another kind.
        ValueError
            If a number makes no sense at this rate.
        """
        length = sft_seconds(tsft)
        n = round(length * rate)
        if n < 1 or abs(n - length * rate) > SLACK:
            raise ValueError(f"tsft={length:g} must be a whole number of samples of 1/{rate} s: choose another tsft.")
        low = 0.0 if fmin is None else frequency(fmin, "fmin")
        high = 0.5 * rate if fmax is None else frequency(fmax, "fmax")
        if not 0 <= low < high <= 0.5 * rate:
            raise ValueError(f"fmin={low} and fmax={high} must fulfil 0 <= fmin < fmax <= {0.5 * rate} Hz (Nyquist).")
        bins = slice(int(np.floor(low * length + SLACK)), int(np.ceil(high * length - SLACK)))
        if bins.stop <= bins.start:
            raise ValueError(
                f"the band from fmin={low} to fmax={high} Hz holds no bin of width {1 / length:g} Hz: widen it."
            )
        knee = None if highpass is None else frequency(highpass, "highpass")
        if knee is not None and not 0 < knee < 0.5 * rate:
            raise ValueError(
                f"highpass={knee} must be above 0 and below {0.5 * rate} Hz (Nyquist); None filters nothing."
            )
        kinds.instance(Gating, or_none=True)(gating, "gating")
        window_samples(window, n)
        return cls(length, n, bins, window, knee, gating)


@dataclass(frozen=True, eq=False)
class Made:
    """One SFT, or a stretch without an SFT because too much of it would be gated.

    Attributes
    ----------
    gps : int
        Start, GPS s.
    bins : (n_bins,) complex64 ndarray, or None
    gated : float
        Time that gating set to zero, s.
    """

    gps: int
    bins: np.ndarray | None
    gated: float


def made_sfts(strain: Strain, making: Making, starts: Sequence[int] | None = None) -> Iterator[Made]:
    """Compute the SFTs of strain one after the other, in order of time.

    Parameters
    ----------
    strain : Strain
    making : Making
    starts : sequence of int, optional
        GPS seconds, increasing. By default as many SFTs as fit, one after the other from the first whole second of
        each stretch of finite samples on.

    Raises
    ------
    ValueError
        If there is no strain at one of the `starts`.
    """
    window = window_samples(making.window, making.n)
    places = _fitting(strain, making.n) if starts is None else _asked_for(strain, making, starts)
    for first, stretch, x in places:
        gps, gated = strain.origin + first // strain.rate, 0.0
        if making.gating is not None:
            gates = _gates(strain, making, making.gating, first, stretch, x)
            gated = float(np.count_nonzero(gates == 0)) / strain.rate
            if gated > making.gating.most_gated * making.tsft:
                yield Made(gps, None, gated)
                continue
            x = x * gates
        if making.highpass is not None:
            x = high_passed(x, strain.rate, making.highpass)
        yield Made(gps, (np.fft.rfft(x * window)[making.bins] / strain.rate).astype(np.complex64), gated)


def sfts_of(strain: Strain, making: Making, starts: Sequence[int] | None = None) -> SFTs:
    """Compute the SFTs of strain and hold them in memory; see `made_sfts` for the arguments.

    Raises
    ------
    ValueError
        If there are no SFTs.
    """
    made = [sft for sft in made_sfts(strain, making, starts) if sft.bins is not None]
    if not made:
        gated = "" if making.gating is None else " that gating leaves"
        raise ValueError(
            f"there is no stretch of {making.tsft:g} s of good, finite samples{gated}: use a shorter tsft."
        )
    gps = np.array([sft.gps for sft in made], np.int64)
    data = np.stack([sft.bins for sft in made if sft.bins is not None])
    series = SFTSeries.of(strain.site, gps, np.zeros_like(gps), data, making.window)
    return SFTs((series,), making.tsft, making.bins.start)


Place = tuple[int, tuple[int, int], np.ndarray]
"""First sample of an SFT, the stretch that holds it, and its samples."""


def _fitting(strain: Strain, n: int) -> Iterator[Place]:
    """Yield as many SFTs as fit into the stretches."""
    rate = strain.rate
    for low, stop in strain.stretches:
        first = -(-low // rate) * rate
        while first + n <= stop:
            x = strain.read(first, first + n)
            bad = np.flatnonzero(~np.isfinite(x))
            if len(bad) == 0:
                yield first, (low, stop), x
            behind = first + (n if len(bad) == 0 else int(bad[-1]) + 1)
            first = -(-behind // rate) * rate


def _asked_for(strain: Strain, making: Making, starts: Sequence[int]) -> Iterator[Place]:
    """Yield SFTs at given GPS seconds."""
    for gps in starts:
        first = (gps - strain.origin) * strain.rate
        stretch = next((s for s in strain.stretches if s[0] <= first and first + making.n <= s[1]), None)
        x = None if stretch is None else strain.read(first, first + making.n)
        if stretch is None or x is None or not np.isfinite(x).all():
            raise ValueError(
                f"timestamps: the series lacks finite samples of all of GPS {gps} to {gps + making.tsft:g}: leave it "
                "out."
            )
        yield first, stretch, x


def checked_starts(timestamps: Sequence[TimeLike], tsft: float) -> list[int]:
    """Return start times of SFTs as whole GPS seconds.

    Raises
    ------
    ValueError
        If there are no times, they are not whole seconds, or SFTs would overlap.
    """
    gps = [gps_integer(t, "timestamps") for t in timestamps]
    if not gps or any(b - a < tsft for a, b in pairwise(gps)):
        raise ValueError(
            f"timestamps must increase by at least tsft={tsft:g} s and not be empty: SFTs must not overlap."
        )
    return gps


def _gates(
    strain: Strain, making: Making, gating: Gating, first: int, stretch: tuple[int, int], x: np.ndarray
) -> np.ndarray:
    """Return the window of gates over an SFT's samples x; glitches shortly before and after the SFT count too."""
    margin = math.ceil(gating.reach * strain.rate)
    low, stop = max(stretch[0], first - margin), min(stretch[1], first + making.n + margin)
    before, after = strain.read(low, first), strain.read(first + making.n, stop)
    # only as far as samples are finite
    bad = np.flatnonzero(~np.isfinite(before))
    before = before[bad[-1] + 1 :] if len(bad) else before
    bad = np.flatnonzero(~np.isfinite(after))
    after = after[: bad[0]] if len(bad) else after
    window = gate_window(np.concatenate([before, x, after]), strain.rate, gating)
    return window[len(before) : len(before) + making.n]
