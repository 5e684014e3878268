"""Computation of SFTs from strain, one after the other: their start times and their bins."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from jfstat.sfts.container import SFTs, SFTSeries
from jfstat.sfts.windows import window_samples
from jfstat.signal.times import TimeLike
from jfstat.strain.filters import high_passed, high_passed_by_fft
from jfstat.strain.gating import Gating, gate_window
from jfstat.strain.strain import Strain
from jfstat.validation import DurationLike, FrequencyLike, frequency, gps_integer, sft_seconds, shown

SLACK = 1e-6
"""Tolerance for numbers that were rounded, in bins or samples."""


@dataclass(frozen=True)
class Conditioning:
    """What is done to strain before each SFT's Fourier transform.

    Parameters
    ----------
    window : str
        ``"rectangular"``, ``"hann"`` or ``"tukey:<beta>"``. The default is that of the LIGO-Virgo-KAGRA collaboration's
        SFTs (lalpulsar_MakeSFTDAG): its ends fall to zero, which keeps loud low frequencies from leaking into the
        band, and its taper of 1/1000 of the SFT loses hardly any signal.
    highpass : float or Quantity, optional
        Knee frequency of a high-pass filter, Hz, see `strain.filters.high_passed`. Strain of detectors is orders of
        magnitude louder below 10 Hz than in the sensitive band and leaks into it; 7 Hz is usual. None filters
        nothing.
    gating : Gating, optional
        Fade the strain out around loud glitches. None takes it as it is.

    Raises
    ------
    TypeError
        If `window` is no string or `gating` is no Gating.
    ValueError
        If there is no such window, or `highpass` is not positive.

    Examples
    --------
    >>> jfstat.Conditioning(highpass=7)
    Conditioning(window='tukey:0.001', highpass=7.0, gating=None)
    """

    window: str = "tukey:0.001"
    highpass: FrequencyLike | None = None
    gating: Gating | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.window, str):
            raise TypeError(f"window must be a string, not {shown(self.window)}.")
        window_samples(self.window, 100)
        knee = None if self.highpass is None else frequency(self.highpass, "highpass")
        if knee is not None and not knee > 0:
            raise ValueError(f"highpass={knee} must be above 0 Hz; None filters nothing.")
        if self.gating is not None and not isinstance(self.gating, Gating):
            raise TypeError(f"gating must be a jfstat.Gating or None, not {type(self.gating).__name__}.")
        object.__setattr__(self, "highpass", knee)


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
    conditioning : Conditioning
    high_pass : callable
        The high-pass filter: `strain.filters.high_passed`, or `high_passed_by_fft`, which takes a fraction of the time.
    """

    tsft: float
    n: int
    bins: slice
    conditioning: Conditioning
    high_pass: Callable[[np.ndarray, float, float], np.ndarray] = high_passed

    @classmethod
    def of(
        cls,
        rate: int,
        tsft: DurationLike,
        fmin: FrequencyLike | None,
        fmax: FrequencyLike | None,
        conditioning: Conditioning | None,
    ) -> Making:
        """Make the options from users' arguments.

        Raises
        ------
        TypeError
            If `conditioning` is of another kind.
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
        before = Conditioning() if conditioning is None else conditioning
        if not isinstance(before, Conditioning):
            raise TypeError(f"conditioning must be a jfstat.Conditioning or None, not {shown(before)}.")
        if before.highpass is not None and not before.highpass < 0.5 * rate:
            raise ValueError(f"highpass={before.highpass} must be below {0.5 * rate} Hz (Nyquist).")
        window_samples(before.window, n)
        return cls(length, n, bins, before)


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


def made_sfts(strain: Strain, making: Making, starts: Sequence[int] | None = None, threads: int = 1) -> Iterator[Made]:
    """Compute the SFTs of strain one after the other, in order of time.

    Parameters
    ----------
    strain : Strain
    making : Making
    starts : sequence of int, optional
        GPS seconds, increasing. By default as many SFTs as fit, one after the other from the first whole second of
        each stretch of finite samples on.
    threads : int
        SFTs that are made at a time.

    Raises
    ------
    ValueError
        If there is no strain at one of the `starts`, or an SFT's bins are too large for complex64.
    """
    window = window_samples(making.conditioning.window, making.n)
    places = _fitting(strain, making.n) if starts is None else _asked_for(strain, making, starts)
    if threads == 1:
        for place in places:
            yield _made(strain, making, window, place)
        return
    with ThreadPoolExecutor(threads) as pool:  # Fourier transforms are computed outside of Python's lock
        waiting: deque[Future[Made]] = deque()
        for place in places:
            waiting.append(pool.submit(_made, strain, making, window, place))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@np.errstate(over="ignore", invalid="ignore")  # what becomes too large is refused
def _made(strain: Strain, making: Making, window: np.ndarray, place: Place) -> Made:
    """Compute the SFT of strain at a place."""
    first, stretch, samples = place
    gps, gated, x = strain.origin + first // strain.rate, 0.0, samples
    if making.conditioning.gating is not None:
        gates = _gates(strain, making, making.conditioning.gating, first, stretch, x)
        gated = float(np.count_nonzero(gates == 0)) / strain.rate
        if gated > making.conditioning.gating.most_gated * making.tsft:
            return Made(gps, None, gated)
        x = x * gates
    if making.conditioning.highpass is not None:
        x = making.high_pass(x, strain.rate, float(making.conditioning.highpass))
    bins = np.fft.rfft(x * window)[making.bins] / strain.rate
    if not max(np.max(np.abs(bins.real)), np.max(np.abs(bins.imag))) <= np.finfo(np.float32).max:
        raise ValueError(
            f"the strain from GPS {gps} on reaches {np.max(np.abs(samples)):g}, and bins of SFTs no more than 3.4e38: "
            "scale it, or leave this time out."
        )
    return Made(gps, bins.astype(np.complex64), gated)


def sfts_of(strain: Strain, making: Making, starts: Sequence[int] | None = None) -> SFTs:
    """Compute the SFTs of strain and hold them in memory; see `made_sfts` for the arguments.

    Raises
    ------
    ValueError
        If there are no SFTs.
    """
    made = [sft for sft in made_sfts(strain, making, starts) if sft.bins is not None]
    if not made:
        raise _none(making)
    whole = together(strain, making, made)
    assert whole is not None
    return whole


def sfts_of_bands(strain: Strain, making: Making, bands: Sequence[tuple[float, float]], threads: int = 1) -> list[SFTs]:
    """Compute the SFTs of strain in some bands, and hold these in memory, one object for each band.

    Each SFT is transformed once, with a high-pass filter by Fourier transforms.

    Parameters
    ----------
    strain : Strain
    making : Making
        Its band holds all others.
    bands : sequence of (float, float)
        Lowest and highest frequency of each, Hz.
    threads : int
        As for `made_sfts`.

    Raises
    ------
    ValueError
        If there are no SFTs.
    """
    cuts = [
        slice(max(making.bins.start, int(low * making.tsft)), min(making.bins.stop, int(high * making.tsft) + 1))
        for low, high in bands
    ]
    kept: list[list[Made]] = [[] for _ in cuts]
    for sft in made_sfts(strain, replace(making, high_pass=high_passed_by_fft), None, threads):
        if sft.bins is None:
            continue
        for own, cut in zip(kept, cuts, strict=True):
            bins = sft.bins[cut.start - making.bins.start : cut.stop - making.bins.start]
            own.append(replace(sft, bins=bins.copy()))
    if not kept or not kept[0]:
        raise _none(making)
    wholes = [together(strain, replace(making, bins=cut), own) for cut, own in zip(cuts, kept, strict=True)]
    return [whole for whole in wholes if whole is not None]


def _none(making: Making) -> ValueError:
    """Return the error for strain of which no SFT can be made."""
    gated = "" if making.conditioning.gating is None else " that gating leaves"
    return ValueError(f"there is no stretch of {making.tsft:g} s of good, finite samples{gated}: use a shorter tsft.")


def together(strain: Strain, making: Making, made: Sequence[Made]) -> SFTs | None:
    """Return some SFTs as one object; None if there are none."""
    made = [sft for sft in made if sft.bins is not None]
    if not made:
        return None
    gps = np.array([sft.gps for sft in made], np.int64)
    data = np.stack([sft.bins for sft in made if sft.bins is not None])
    series = SFTSeries.of(strain.site, gps, np.zeros_like(gps), data, making.conditioning.window)
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
                f"timestamps: the series lacks finite samples of all of GPS {gps} to {gps + making.tsft:.16g}: "
                "leave it out."
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
