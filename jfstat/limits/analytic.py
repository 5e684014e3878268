"""Detection probability and sensitivity of searches by formula, in Gaussian noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import observation_of
from jfstat.data.eachsegment import each_segment
from jfstat.data.fstatdata import FstatData
from jfstat.data.observation import Observation
from jfstat.limits.population import MOST_SIGNALS, Population
from jfstat.public import host
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.statistic.combine import antenna_matrix, total_matrix
from jfstat.statistic.fstat import noise_level, optimal_power, require_noise_floor
from jfstat.validation import NumberLike, float64_of, positive_number, probability, shown, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

ANY_FREQUENCY = 100.0
"""Frequency of the draws, Hz; the signal-to-noise ratio does not depend on it."""
LEAST_THRESHOLD, LARGEST_THRESHOLD = 1e-3, 1e5
"""Smallest and largest threshold on 2F; beyond, the non-central chi-squared distribution is not computed well."""
CERTAIN = 10.0
"""Multiple of threshold and degrees of freedom beyond which rho^2 exceeds the threshold with a probability of 1."""
AT_ONCE = 256
"""Number of signals whose antenna matrices are computed together."""


@host(population=kinds.instance(Population, or_none=True))
def detection_probability(
    data: Observation | FstatData,
    h0: ArrayLike,
    threshold: NumberLike,
    population: Population | None = None,
    *,
    mismatch: ArrayLike = 0.0,
    samples: int = 10000,
    seed: int = 0,
) -> np.ndarray:
    """Compute the probability that 2F of a signal exceeds a threshold, averaged over a population, in Gaussian noise.

    Given a signal's parameters, K times the mean of 2F over K segments is non-central chi-squared with 4 K degrees of
    freedom and the non-centrality rho^2 (1 - mismatch). The average is over draws from the population, with the antenna
    matrix of the data's real times, gaps and noise weights at each draw's position (Wette 2012, Phys. Rev. D 85,
    042003; Dreissigacker, Prix & Wette 2018, Phys. Rev. D 98, 084058; the package cows3 does the same).

    Parameters
    ----------
    data : Observation or FstatData
        Data, with segments for semi-coherent searches. An observation must know its noise floor.
    h0 : float or (n,) array_like
        Strain amplitudes.
    threshold : float
        Value of 2F, or of its mean over segments, at which a search calls a candidate a detection.
    population : Population, optional
        Distribution of the signals; by default isotropic positions and orientations.
    mismatch : float or array_like
        Fraction of rho^2 that the search loses because its templates are discrete, or a sample of such fractions, from
        which each draw takes one. Sources are `jfstat.mismatch`, injections, or the literature.
    samples : int
        Number of draws.
    seed : int

    Returns
    -------
    float64 or (n,) float64 ndarray

    Raises
    ------
    TypeError
        If `data` or `population` is of another kind.
    ValueError
        If an argument is out of range, or the noise floor is not known.

    Examples
    --------
    >>> seen = jfstat.observation(["H1", "L1"], start, 864000, sqrt_sx=4e-24)
    >>> p = jfstat.detection_probability(seen, [0.0, 1e-25], threshold=50.0)
    >>> bool(p[0] < 1e-8 and p[1] > 0.3)
    True
    """
    strains = checked_strains(h0)
    least = checked_threshold(threshold)
    n_segments, power = unit_power(data, population, mismatch, samples, seed)
    values = [_passing(n_segments * least, 4 * n_segments, x, power) for x in np.atleast_1d(strains)]
    return np.asarray(values).reshape(strains.shape)[()]


@host(population=kinds.instance(Population, or_none=True))
def sensitivity(
    data: Observation | FstatData,
    threshold: NumberLike,
    population: Population | None = None,
    *,
    confidence: NumberLike = 0.95,
    mismatch: ArrayLike = 0.0,
    samples: int = 10000,
    seed: int = 0,
) -> float:
    """Compute the h0 at which signals of a population exceed a threshold with a given probability, in Gaussian noise.

    h0 is found by solving `detection_probability`, whose documentation gives the formulas and their sources. No strain
    is used: the result says before a search how weak a signal it can find. `upper_limit` gives the limit from real
    data.

    Parameters
    ----------
    data, threshold, population, mismatch, samples, seed
        See `detection_probability`. With 10000 samples h0 is accurate to about 0.2 % for two
        detectors and 0.5 % for one, at a confidence of 0.95.
    confidence : float
        Detection probability, between 0 and 1.

    Returns
    -------
    float
        Strain amplitude h0.

    Raises
    ------
    TypeError
        If `data` or `population` is of another kind.
    ValueError
        If an argument is out of range, the noise floor is not known, or noise alone exceeds the threshold with that
        probability.

    Examples
    --------
    >>> seen = jfstat.observation(["H1", "L1"], start, 864000, sqrt_sx=4e-24)
    >>> h0 = jfstat.sensitivity(seen, threshold=50.0)
    >>> bool(abs(jfstat.detection_probability(seen, h0, threshold=50.0) - 0.95) < 1e-6)
    True
    """
    least = checked_threshold(threshold)
    wanted = probability(confidence, "confidence", "give one such as 0.95")
    n_segments, power = unit_power(data, population, mismatch, samples, seed)
    return strain_exceeding([(least, power)], n_segments, wanted)


def strain_exceeding(conditions: Sequence[tuple[float, np.ndarray]], n_segments: int, wanted: float) -> float:
    """Return the h0 at which draws meet all conditions with at least a wanted probability; see `sensitivity`.

    Parameters
    ----------
    conditions : sequence of (float, (n,) float64)
        Values of 2F, or of its mean over segments, that must be exceeded, and the power from `unit_power` of the value
        that must exceed each. The probability of missing several is taken to be the sum of those of missing each.
    n_segments : int
    wanted : float
    """
    from scipy.optimize import brentq

    middle = min(float(np.median(power)) for _, power in conditions)
    if not middle > 0:
        raise ValueError("most signals of the population leave no trace in the data: check its positions.")

    def excess(root: float) -> float:
        h0 = root / np.sqrt(middle)
        missed = sum(1 - _passing(n_segments * least, 4 * n_segments, h0, power) for least, power in conditions)
        return 1 - missed - wanted

    largest = max(least for least, _ in conditions)
    if excess(0.0) >= 0:
        raise ValueError(f"threshold={largest:g} is exceeded by noise alone with this confidence: raise it.")
    high = np.sqrt(n_segments * largest)
    while excess(high) < 0:
        high *= 2
    found: Any = brentq(excess, 0.0, high, xtol=1e-9 * high)
    return float(found / np.sqrt(middle))


@host
def sensitivity_depth(data: Observation | FstatData, h0: ArrayLike) -> np.ndarray:
    """Compute the sensitivity depth sqrt(S)/h0 of data at an amplitude, 1/sqrt(Hz).

    S is the harmonic mean of the single-sided power spectral density over all SFTs and detectors (Behnke, Papa & Prix
    2015, Phys. Rev. D 91, 064007; Dreissigacker, Prix & Wette 2018, Phys. Rev. D 98, 084058). SFTs that are left out,
    by `leave_out` or a window, do not count.

    Parameters
    ----------
    data : Observation or FstatData
        Data; an observation must know its noise floor. With segments, all SFTs of all segments count.
    h0 : float or array_like
        Strain amplitudes, positive.

    Returns
    -------
    float64 or ndarray

    Raises
    ------
    TypeError
        If `data` is of another kind.
    ValueError
        If `h0` is not positive, or the noise floor is not known.

    Examples
    --------
    >>> round(float(jfstat.sensitivity_depth(data, 1e-25)), 3)
    40.0
    """
    strains = float64_of(h0, "h0")
    if not np.all(np.isfinite(strains)) or np.any(strains <= 0):
        raise ValueError(f"h0 must be positive strain amplitudes, not {shown(h0)}.")
    seen = observation_of(data, segments=True)
    require_noise_floor(seen)
    return (1 / np.sqrt(np.nanmean(seen.unbiased_sqrt_sx**-2)) / strains)[()]


def checked_strains(h0: ArrayLike) -> np.ndarray:
    """Return strain amplitudes, () or (n,); raise a ValueError unless they are finite and not negative."""
    strains = float64_of(h0, "h0")
    if strains.ndim > 1 or not np.all(np.isfinite(strains)) or np.any(strains < 0):
        raise ValueError(f"h0 must be strain amplitudes of 0 or more, a number or a sequence, not {shown(h0)}.")
    return strains


def checked_threshold(threshold: object) -> float:
    """Return a value of 2F for which non-central chi-squared can be computed; raise a ValueError for other values."""
    value = positive_number(threshold, "threshold", "a value of 2F")
    if not LEAST_THRESHOLD <= value <= LARGEST_THRESHOLD:
        raise ValueError(f"threshold={value:g} must be from {LEAST_THRESHOLD:g} to {LARGEST_THRESHOLD:g}: it is 2F.")
    return value


def checked_mismatch(mismatch: object, n: int, seed: int) -> np.ndarray:
    """Return a mismatch for each of n draws, (n,), from one mismatch or a sample of mismatches."""
    given = np.atleast_1d(float64_of(mismatch, "mismatch"))
    if given.ndim != 1 or given.size == 0 or not np.all((given >= 0) & (given < 1)):
        raise ValueError(f"mismatch must be a fraction from 0 to below 1, or a sample of them, not {shown(mismatch)}.")
    return np.random.default_rng([whole(seed, "seed"), 1]).choice(given, n)


def unit_power(
    data: Observation | FstatData, population: Population | None, mismatch: ArrayLike, samples: int, seed: int
) -> tuple[int, np.ndarray]:
    """Return the number of segments, and rho^2 of draws at h0 = 1 after the mismatch, summed over segments, (n,)."""
    seen = observation_of(data, segments=True)
    require_noise_floor(seen)
    chosen = population or Population()
    samples = whole(samples, "samples", 1, MOST_SIGNALS)
    point, amplitude = chosen.draw(samples, seed, freq=ANY_FREQUENCY)
    power = np.asarray(_powers(seen, point, amplitude))
    return seen.n_segments or 1, power * (1 - checked_mismatch(mismatch, samples, seed))


@jax.jit
def _powers(observation: Observation, point: Doppler, amplitude: Amplitude) -> jax.Array:
    """Return rho^2 of each of a stack of signals, summed over segments, (n,) float64."""

    def one(signal: tuple[Doppler, Amplitude]) -> jax.Array:
        point, amplitude = signal

        def of_segment(seen: Observation) -> jax.Array:
            return optimal_power(noise_level(seen), amplitude.canonical, total_matrix(antenna_matrix(seen, point)))

        return jnp.sum(each_segment(of_segment, observation))

    return jax.lax.map(one, (point, amplitude), batch_size=AT_ONCE)


def _passing(threshold: float, degrees: int, h0: float, power: np.ndarray) -> float:
    """Return the mean probability that non-central chi-squared variables, h0^2 power, exceed a threshold."""
    from scipy.stats import ncx2

    with np.errstate(over="ignore"):  # SciPy gives NaN for powers far beyond, where the probability is 1
        powers = np.minimum((h0 * np.sqrt(power)) ** 2, CERTAIN * (threshold + degrees + 1e3))
    return float(np.mean(ncx2.sf(threshold, degrees, powers)))
