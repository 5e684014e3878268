"""Estimate the noise floor of SFTs, and the weights of SFTs and detectors that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from jfstat.sfts.container import SFTSeries, refuse_bad_sfts
from jfstat.validation import SqrtSxLike, given_sqrt_sx, is_whole, shown

MEDIAN_BINS = 101
"""Default width of the running median, as in ComputeFstatistic_v2."""
TOGETHER = 1 << 17
"""Number of bins, of several SFTs, whose running medians are computed together: few enough for a core's cache."""
STEADY_BINS = 1001
"""Width of the running median of a `Noise.steady`: it knows the floor of an SFT to some 5 %, of 101 bins to 14 %."""
LEAST_BINS = 3
"""Smallest width of the running median, as in LALSuite."""
MOST_OFF_SOURCE = 10**6
"""Largest number of bins left out; a larger one is taken for a mistake."""
MOST_MEDIAN_BINS = 10**7
"""Largest width of the running median; a larger one is taken for a mistake."""
MOST_POWER = 1e30
"""Largest sum of the squares of the whitened samples, near which powers no longer fit in float32; 2F of a signal is at
most some ten times that, in units of the sampling time.
"""
NO_BIAS = (1.0, 0.0, 0.0)
"""Response of signals where noise floors are given; see `Noise.signal_response`."""
LEAST_OFF_SOURCE = 7
"""Smallest width with off-source bins: the mean of the inverse of a median of less than three bins is infinite."""


def checked_median_bins(median_bins: object) -> int:
    """Return the width of the running median as an int.

    Raises
    ------
    ValueError
        If it is not a whole number of at least 3, and at most 10,000,000.
    """
    if not is_whole(median_bins) or not LEAST_BINS <= median_bins <= MOST_MEDIAN_BINS:
        raise ValueError(
            f"median_bins must be a whole number of at least {LEAST_BINS} and at most {MOST_MEDIAN_BINS}, not "
            f"{shown(median_bins)}: the running median usually has {MEDIAN_BINS} bins."
        )
    return int(median_bins)


@dataclass(frozen=True)
class Noise:
    """Noise floor of SFTs: a given one, or how it is estimated from each SFT.

    Without `sqrt_sx` each SFT is weighted by the mean of its estimated floor over the band and its Doppler shifts. 2F
    of a template therefore changes by some per cent, as in LALSuite, with the band that is prepared; with a given floor
    it does not. Estimated amplitudes are corrected for what such weights do to signals, see `signal_response`.

    Parameters
    ----------
    sqrt_sx : float, sequence or mapping, optional
        Noise floor in 1/sqrt(Hz), one for all detectors or one for each in the order of ``sfts.detectors``. None
        estimates it.
    median_bins : int
        Width in bins of the running median that estimates the noise floor, as ComputeFstatistic_v2's
        ``--RngMedWindow``. The SFTs should extend beyond the band by half of it.
    off_source : int, optional
        Estimate the noise floor at each bin from the bins on both sides that are more than this number of bins away,
        `median_bins` in all, instead of the running median. A signal that is loud in each SFT raises the running median
        about it, and its own 2F is too low: by 1.6 % where 2F is 500 in a day, by 4.4 % where it is 5000. From
        off-source bins it is 0.6 % too low in both cases, as for weak signals. 10 bins are enough for most signals;
        more where a signal exceeds the noise of an SFT a thousandfold. None uses the running median, as LALSuite does.

    Raises
    ------
    ValueError
        If `median_bins` is no whole number of at least 3 or `off_source` none of at least 0, if the median is too
        narrow for `off_source`, or if `sqrt_sx` is given and so nothing is to be estimated.

    Examples
    --------
    >>> jfstat.prepare(sfts, 100.0, 100.02, sqrt_sx=jfstat.Noise(off_source=10), guard=0.3)
    FstatData of H1, L1
      span       GPS 1167458304 to 1167501504, 0.5 d
      SFTs       24 of H1, 24 of L1, 1800 s each
      reftime    GPS 1167458304
      band       100 to 100.02 Hz, 1729 frequencies 1.157e-05 Hz apart
      ...
    """

    sqrt_sx: SqrtSxLike | None = None
    median_bins: int = MEDIAN_BINS
    off_source: int | None = None

    def __post_init__(self) -> None:
        window, left_out = checked_median_bins(self.median_bins), self.off_source
        if left_out is not None:
            if not is_whole(left_out) or not 0 <= left_out <= MOST_OFF_SOURCE:
                raise ValueError(
                    f"off_source must be None or a whole number from 0 to {MOST_OFF_SOURCE}, not {shown(left_out)}: it "
                    "is the number of bins on each side of a bin that its own noise floor leaves out; 10 is enough for "
                    "most signals."
                )
            if window < LEAST_OFF_SOURCE:
                raise ValueError(f"median_bins must be at least {LEAST_OFF_SOURCE} with off_source, not {window}.")
            left_out = int(left_out)
        if self.sqrt_sx is not None and (window != MEDIAN_BINS or left_out is not None):
            raise ValueError(
                "sqrt_sx gives the noise floor, and median_bins and off_source say how to estimate it: leave sqrt_sx "
                "or these out."
            )
        object.__setattr__(self, "median_bins", window)
        object.__setattr__(self, "off_source", left_out)

    @classmethod
    def of(cls, sqrt_sx: NoiseLike | None) -> Noise:
        """Return what the argument `sqrt_sx` of a function stands for: a Noise as it is, or a given floor."""
        return sqrt_sx if isinstance(sqrt_sx, Noise) else cls(sqrt_sx)

    @classmethod
    def steady(cls, n_bins: int, off_source: int | None = None) -> Noise:
        """Return the median of 1001 bins, or of as many as SFTs of `n_bins` hold, but no fewer than the default's.

        It is the running median, or that of bins more than `off_source` away.
        """
        held = n_bins - 1 | 1 if off_source is None else 2 * ((n_bins - 1) // 2 - off_source) - 1
        return cls(median_bins=max(MEDIAN_BINS, min(STEADY_BINS, held)), off_source=off_source)

    def require_middle(self) -> None:
        """Raise a ValueError if the running median has an even number of bins, and so no middle one.

        Narrow data of SFTs take it at a few bins only, by a partial sort that finds one value.
        """
        if self.off_source is None and self.median_bins % 2 == 0:
            raise ValueError(
                f"sqrt_sx has median_bins={self.median_bins}, which must be odd for single templates: give "
                f"{self.median_bins + 1}."
            )

    def by_detector(self, detectors: Sequence[str]) -> Noise:
        """Return the noise with the name of each detector for its given floor, so that some of them may be missing."""
        given = self.floors(detectors)
        return self if self.sqrt_sx is None else Noise(dict(zip(detectors, given, strict=True)))  # type: ignore[arg-type]

    def floors(self, detectors: Sequence[str]) -> Sequence[float | None]:
        """Return the given floor of each detector, 1/sqrt(Hz), or None.

        Raises
        ------
        ValueError
            If a value is not positive and finite or the detectors do not match.
        """
        return given_sqrt_sx(detectors, self.sqrt_sx)

    @property
    def words(self) -> str:
        """What the noise floor is, for a table's meta."""
        if self.sqrt_sx is not None:
            return "given"
        beyond = "" if self.off_source is None else f" more than {self.off_source} away"
        return f"median of {self.median_bins} bins{beyond}"

    @property
    def least_bins(self) -> int:
        """Number of bins that an SFT must have for an estimate."""
        return self.median_bins if self.off_source is None else 2 * (self.off_source + side_bins(self.median_bins)) + 1

    @property
    def reach(self) -> int:
        """Number of bins on each side of a bin on which its estimate depends."""
        return self.median_bins // 2 if self.off_source is None else self.off_source + side_bins(self.median_bins)

    @property
    def whitened_power(self) -> float:
        """Mean ratio of a bin's power to its estimate, in Gaussian noise."""
        if self.off_source is None:
            return whitened_power(self.median_bins)
        return off_source_power(side_bins(self.median_bins))

    def signal_response(self, n: int, spacing: float = 1.0) -> tuple[float, float, float]:
        """Return the mean amplitude of a signal in weighted data, over what it would be if the estimates were exact.

        See `signal_response`; a given floor is exact, and the response 1.

        Parameters
        ----------
        n : int
            Number of bins whose mean floor weighs an SFT. The signal is at any of them.
        spacing : float
            Bins between two of them.

        Returns
        -------
        weak : float
            For signals whose power in a single SFT is small compared with the noise.
        by_own, by_all : float
            By how much the logarithm grows with the power of a signal, see `Observation.level`.
        """
        if self.sqrt_sx is not None:
            return NO_BIAS
        return signal_response(self.median_bins, self.off_source, n, spacing)

    def around(self, bins: slice, n_bins: int) -> slice:
        """Return the columns, of SFTs that have `n_bins`, on which the estimates at some columns depend."""
        # a whole window also at the edges of the SFTs
        low = max(0, min(bins.start - self.reach, n_bins - self.least_bins))
        return slice(low, min(n_bins, max(bins.stop + self.reach, self.least_bins)))

    def psds(self, series: SFTSeries, bins: slice, tsft: float) -> np.ndarray:
        """Estimate the single-sided PSDs of SFTs at some of their columns, (n_sfts, n_bins) float64, strain^2/Hz."""
        used = self.around(bins, series.data.shape[1])
        sfts = series.data[:, used]
        if self.off_source is None:
            psds = running_median_psd(sfts, tsft, self.median_bins)
        else:
            psds = np.stack([off_source_psd(sft, tsft, self.median_bins, self.off_source) for sft in sfts])
        return psds[:, bins.start - used.start : bins.stop - used.start]


NoiseLike = SqrtSxLike | Noise
"""A noise floor in 1/sqrt(Hz), or a `Noise`."""


def side_bins(median_bins: int) -> int:
    """Return the number of off-source bins on each side: half of the running median's, an odd number."""
    return median_bins // 2 | 1


def median_bias(n: int) -> float:
    """Return the expected median of `n` exponential variables over their mean (LALSuite: XLALRngMedBias).

    The median of an even number is the mean of the middle two; it has the expected value of the median of one variable
    less.
    """
    k = np.arange(1, n + n % 2)
    return float(np.sum((-1.0) ** (k + 1) / k))


@lru_cache(maxsize=16)
def whitened_power(n: int) -> float:
    """Return the expected ratio, in Gaussian noise, of a bin's power to the running median of `n` bins around it.

    The median, corrected by `median_bias`, is unbiased, but the mean of its inverse exceeds 1, by 2 % for 101 bins.
    Half of that is compensated because the bin itself is part of the median. LALSuite does not correct for the rest,
    and its 2F has mean 4.04.

    By symmetry among the bins, this is the expected value of (mean of all bins)/median. Given the median m of an odd
    number of exponential variables, the bins below it are exponential variables truncated at m, and those above it are
    m plus exponential variables. With an even number, the same holds of the middle two bins, the upper of which exceeds
    the lower by an exponential variable of mean 2/n.
    """
    lower, half = (n + 1) // 2 - 1, n // 2  # bins below the lower of the middle, and bins above it
    m, density = _median_density(lower, half)
    below = 1 - m / np.expm1(m)
    if n % 2:
        ratio = (lower * below + m + half * (m + 1)) / n / m
    else:
        nodes, node_weights = np.polynomial.laguerre.laggauss(20)
        upper = m[:, None] + nodes / half
        total = (lower * below + m)[:, None] + upper + (half - 1) * (upper + 1)
        ratio = (total / n / (0.5 * (m[:, None] + upper))) @ node_weights
    return float(median_bias(n) * np.sum(density * ratio) / np.sum(density))


@lru_cache(maxsize=16)
def off_source_power(n: int) -> float:
    """Return the expected ratio, in Gaussian noise, of a bin's power to a floor from `off_source_psd`, `n` bins a side.

    The bin is independent of both medians, whose inverses are averaged, so the ratio is the expected inverse of one
    median.
    """
    m, density = _median_density((n - 1) // 2, n // 2)
    return float(median_bias(n) * np.sum(density / m) / np.sum(density))


@lru_cache(maxsize=64)
def signal_response(median_bins: int, off_source: int | None, n: int, spacing: float) -> tuple[float, float, float]:
    """Return the mean amplitude of a signal in weighted data, over what it would be if the estimates were exact.

    In units of the true S let S_o be the estimate at the signal's bin, S_m the mean estimate of `n` bins, and P the
    power of the noise in the signal's bin. Data are divided by sqrt(c S_o), c being the `Noise.whitened_power` that
    keeps 2F at 4 in noise, and times sqrt(w), with weights w proportional to 1/S_m; the antenna matrix and Sinv_Tsft
    take 1/S_m. So what a weak signal adds to the data, by Stein's lemma, and its ratio to what it should add, are

        E[P (S_o S_m)^(-1/2)],    G = E[P (S_o S_m)^(-1/2)] / (sqrt(c) E[1/S_m]).

    log S_o has the variance v, and covariances with the logs of estimates some bins away that are proportional to the
    number of bins that both take. These give the variance v_m of log S_m, which over all places of the signal is on
    average its covariance with log S_o, too. With the covariances k_o and k_m of P with both, and ln E[S_o] =
    v - ln c - k_o, to second order, and exactly for off-source bins and n = 1,

        ln G = (v - ln c - k_o)/2 - v/8 - 3/8 v_m - k_m/2.

    A bin with a loud signal is always above the median of a window that holds it. One with noise only is so half of the
    time, and the mean log of the estimate is then higher by k/ln 2, k being its covariance with P. Let f_j be the
    fraction of this that the signal in the j-th bin from its own causes, 0 for weak signals and 1 for loud ones. Their
    sum shifts ln E[1/S_m] by -k_m/ln 2. It shifts the log of what the signal adds in a bin by -(k_o + k_m)/(2 ln 2) for
    each of the other bins, and for the bin itself, whose k counts already, by -(k_o + k_m) (1/ln 2 - 1)/2. With the
    average f_own of f_j over the signal's power, ln G becomes

        ln G + f_own (k_o + k_m)/2 + (sum f_j) (k_m - k_o)/(2 ln 2).

    Simulations agree with this to 0.05 % for 101 bins (tests/data/test_unbiased_amplitude.py). With fewer than some 50
    bins third-order terms are larger.

    Parameters
    ----------
    median_bins : int
    off_source : int or None
    n : int
    spacing : float
        See `Noise.signal_response`.

    Returns
    -------
    weak : float
        G for signals whose power in a single SFT is small compared with the noise.
    by_own, by_all : float
        Factors of f_own and of the sum of f_j.
    """
    if off_source is None:
        taken = np.ones(median_bins)
        variance, power = _log_variance(median_bins), whitened_power(median_bins)
        held = own = variance - np.log(power)  # since the mean of a median is right
    else:
        side = side_bins(median_bins)
        taken = np.concatenate([np.ones(side), np.zeros(2 * off_source + 1), np.ones(side)])
        variance, power = 0.5 * _log_variance(side), off_source_power(side)
        held, own = 0.5 * (_log_variance(side) - np.log(whitened_power(side))), 0.0
    # numbers of pairs of the n bins by their distance, which matters up to the length of the window
    apart = np.arange(n)
    apart = apart[apart * spacing <= len(taken)]
    pairs = np.where(apart == 0, n, 2 * (n - apart)) / float(n) ** 2
    nearby = np.concatenate([taken[len(taken) // 2 :], [0.0]])
    inside = nearby[np.minimum(np.round(apart * spacing).astype(int), len(nearby) - 1)]
    # fraction of a window's bins that another one also takes, by their distance
    common = np.correlate(taken, taken, "full")[len(taken) - 1 :] / np.sum(taken)
    of_mean = variance * float(pairs @ np.interp(apart * spacing, np.arange(len(common)), common, right=0.0))
    of_power = held * float(pairs @ inside)
    weak = 0.5 * (variance - np.log(power) - own) - variance / 8 - 3 / 8 * of_mean - 0.5 * of_power
    return float(np.exp(weak)), 0.5 * (own + of_power), 0.5 * (of_power - own) / float(np.log(2))


def _log_variance(n: int) -> float:
    """Return the variance of the logarithm of the median of `n` exponential variables; of an even number, nearly."""
    if n % 2 == 0:
        return 0.5 * (_log_variance(n - 1) + _log_variance(n + 1))
    m, density = _median_density(n // 2, n // 2)
    mean = np.average(np.log(m), weights=density)
    return float(np.average((np.log(m) - mean) ** 2, weights=density))


def _median_density(lower: int, upper: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values of an exponential variable with `lower` below, `upper` above it, and their density (unscaled)."""
    edges = np.linspace(0.0, max(3.0, 60.0 / (upper + 1)), 30001)
    m = 0.5 * (edges[1:] + edges[:-1])
    log_density = lower * np.log1p(-np.exp(-m)) - (upper + 1) * m
    return m, np.exp(log_density - log_density.max())


def running_median_psd(sft: np.ndarray, tsft: float, bins: int = MEDIAN_BINS) -> np.ndarray:
    """Estimate the single-sided noise PSD of SFTs by the running median of their periodograms.

    Within half a window of either edge the nearest full window gives the value (LALSuite: XLALPeriodoToRngmed).

    Parameters
    ----------
    sft : (..., n_bins) complex64
    tsft : float
        s.
    bins : int
        Width of the running median; at most n_bins.

    Returns
    -------
    (..., n_bins) float64 ndarray, strain^2/Hz.
    """
    from scipy.ndimage import median_filter, rank_filter  # takes 0.1 s to import

    x = sft.astype(np.complex128)
    power = (x.real**2 + x.imag**2).ravel()  # SFTs in a row: windows that reach into the next one are replaced below
    median = median_filter(power, bins)  # the upper of the middle two, if their number is even
    if bins % 2 == 0:
        median = 0.5 * (median + rank_filter(power, bins // 2 - 1, bins))
    median = median.reshape(sft.shape)
    first, last = bins // 2, bins // 2 + sft.shape[-1] - bins
    median[..., :first] = median[..., first, None]
    median[..., last + 1 :] = median[..., last, None]
    return median * (2.0 / (tsft * median_bias(bins)))


def off_source_psd(sft: np.ndarray, tsft: float, bins: int, off_source: int) -> np.ndarray:
    """Estimate the single-sided noise PSD of one SFT at each bin from the bins on both sides of it, not from itself.

    A signal, whose power is in a few bins, raises the running median about it and so lowers its own 2F by per cents
    if it is loud in each SFT. Here the floor at a bin is the harmonic mean of the medians of those bins on either side
    that are more than `off_source` bins away; a floor that rises linearly makes no difference, and a broad line on one
    side raises it by no more than a factor of 2. Within reach of an end of the SFT it is the median of the inner side.

    Parameters
    ----------
    sft : (n_bins,) complex64
    tsft : float
        s.
    bins : int
        Number of bins of both sides together, like the width of the running median.
    off_source : int
        Number of bins on each side that are left out.

    Returns
    -------
    (n_bins,) float64 ndarray, strain^2/Hz.
    """
    from scipy.ndimage import median_filter

    side, n = side_bins(bins), len(sft)
    x = sft.astype(np.complex128)
    median = median_filter(x.real**2 + x.imag**2, side)
    # centres of the windows of a bin, and whether they lie within the SFT
    reach = off_source + 1 + side // 2
    left, right = np.arange(n) - reach, np.arange(n) + reach
    has_left, has_right = left >= side // 2, right < n - side // 2
    medians = median[np.maximum(left, 0)], median[np.minimum(right, n - 1)]
    return of_both_sides(medians, (has_left, has_right)) * (2.0 / (tsft * median_bias(side)))


def of_both_sides(medians: Sequence[np.ndarray], fits: Sequence[np.ndarray]) -> np.ndarray:
    """Return the harmonic mean of the medians below and above; one of them where the SFT ends on the other side."""
    with np.errstate(divide="ignore"):
        below, above = (np.where(has, 1 / x, 0.0) for x, has in zip(medians, fits, strict=True))
    return np.sum(fits, axis=0) / (below + above)


@dataclass(frozen=True, eq=False)
class NoiseFloor:
    """Noise floor of one detector's SFTs around the searched band, of some SFTs at a time.

    Attributes
    ----------
    series : SFTSeries
    tsft : float
    sqrt_sx : float or None
        A given noise floor in 1/sqrt(Hz), or None for an estimate.
    bins : slice
        Columns of the SFTs to whiten.
    band : slice
        Columns of the searched band, within `bins`: the noise there sets the SFTs' weights.
    noise : Noise
        How the noise floor is estimated.
    """

    series: SFTSeries
    tsft: float
    sqrt_sx: float | None
    bins: slice
    band: slice
    noise: Noise = Noise()

    @cached_property
    def whitened_power(self) -> float:
        """Mean ratio of a bin's power to its estimated noise floor; 1 for a given floor."""
        return self.noise.whitened_power if self.sqrt_sx is None else 1.0

    def psds(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the single-sided PSDs over `bins`, strain^2/Hz, of some SFTs at a time, and which ones these are.

        Yields
        ------
        rows : slice
        psds : (n, n_bins) float64

        Raises
        ------
        ValueError
            If a bin is not finite or the running median vanishes somewhere.
        """
        n_sfts, n_bins = self.series.data.shape
        used = self.noise.around(self.bins, n_bins)
        together = max(1, TOGETHER // (used.stop - used.start))
        for start in range(0, n_sfts, together):
            rows = slice(start, min(start + together, n_sfts))
            some = self.series[rows]
            bad = np.any(~np.isfinite(some.data[:, used]), axis=1)
            self._refuse(bad, start, "bins that are not finite: leave it out")
            if self.sqrt_sx is not None:
                psds = np.full((len(some), self.bins.stop - self.bins.start), self.sqrt_sx**2)
            else:
                psds = self.noise.psds(some, self.bins, self.tsft)
                lacking = "all-zero bins and so no noise floor: leave it out, or give its floor where data are prepared"
                self._refuse(~(psds.min(axis=1) > 0), start, lacking)
            yield rows, psds

    def _refuse(self, bad: np.ndarray, start: int, what: str) -> None:
        """Raise a ValueError that says what the first bad SFT has, if any of the ones from row `start` on is bad."""
        refuse_bad_sfts(self.series.detector, self.series.gps[start:], bad, what)

    def band_means(self, psds: np.ndarray) -> np.ndarray:
        """Return the means, (n,), of PSDs from `psds` over the searched band, which weigh the SFTs.

        LALSuite's XLALComputeMultiNoiseWeights takes the mean over all loaded bins that have a full window.
        """
        return psds[:, self.band.start - self.bins.start : self.band.stop - self.bins.start].mean(axis=1)

    def all_band_means(self) -> np.ndarray:
        """Return `band_means` of all SFTs, (n_sfts,) float64; there may be none.

        Raises
        ------
        ValueError
            See `psds`.
        """
        means = np.empty(len(self.series))
        for rows, psds in self.psds():
            means[rows] = self.band_means(psds)
        return means


def refuse_loud(power: float, detector: str) -> None:
    """Raise a ValueError if the sum of the squares of a detector's whitened samples is beyond `MOST_POWER`, or NaN."""
    if not power <= MOST_POWER:
        raise ValueError(
            f"sqrt_sx: the SFTs of {detector} are so much louder than their noise floor, or it varies so much, that "
            "2F would not be finite: correct the noise floor, in 1/sqrt(Hz), or the SFTs."
        )


def noise_weights(mean_psd: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """Return the weights of the SFTs from their band-mean PSDs (LALSuite: XLALComputeMultiNoiseWeights).

    Parameters
    ----------
    mean_psd : sequence of (n_sfts,) float64 ndarrays
        One for each detector, single-sided, strain^2/Hz.

    Returns
    -------
    weights : list of (n_sfts,) float64 ndarrays
        Proportional to 1/S; their mean over all SFTs of all detectors is 1.
    mean_inverse : float
        Mean of 1/S over all SFTs, Hz/strain^2; times Tsft it is LALSuite's ``Sinv_Tsft``.
    """
    inverse = [1.0 / s for s in mean_psd]
    mean_inverse = float(np.mean(np.concatenate(inverse)))
    return [x / mean_inverse for x in inverse], mean_inverse
