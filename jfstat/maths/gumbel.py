"""Describe maxima of many random values by Gumbel distributions, with all that a few maxima leave open.

The largest of many values whose distributions fall exponentially has the distribution function
exp(-exp(-(x - mu)/beta)). What samples of maxima say of mu and beta follows from Bayes' theorem, with a flat prior in
mu and in ln(beta). For distributions with a location and a scale this prior makes predictions right as frequencies,
too: among many samples of any number of maxima, as many further maxima exceed a value as the prediction says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LOG_RANGE, COARSE, FINE = 3.0, 241, 201
"""Range of ln(beta) on both sides of a first estimate, and numbers of values on two grids."""
NEGLIGIBLE = 30.0
"""Differences of log-probability beyond which values of beta do not matter."""
LOCATIONS = 32
"""Number of equally likely values of exp(mu/beta) that stand for its distribution."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Distribution of the scale beta, given samples of maxima that have it in common but each a location of its own.

    Attributes
    ----------
    beta : (n,) float64 ndarray
        Values, in units of the samples.
    probability : (n,) float64 ndarray
        Their probabilities, sum 1.
    """

    beta: np.ndarray
    probability: np.ndarray

    @classmethod
    def of(cls, samples: Sequence[np.ndarray]) -> Scale:
        """Return the distribution that some samples give, each of at least two different values."""
        spread = np.sqrt(np.mean([np.var(x, ddof=1) for x in samples]))
        centre = np.log(spread * np.sqrt(6) / np.pi)
        grid = centre + np.linspace(-LOG_RANGE, LOG_RANGE, COARSE)
        likelihood = log_likelihood(samples, np.exp(grid))
        counts = np.flatnonzero(likelihood > likelihood.max() - NEGLIGIBLE)
        low, high = grid[max(counts[0] - 1, 0)], grid[min(counts[-1] + 1, COARSE - 1)]
        fine = np.exp(np.linspace(low, high, FINE))
        likelihood = log_likelihood(samples, fine)
        weight = np.exp(likelihood - likelihood.max())
        return cls(fine, weight / weight.sum())


def log_likelihood(samples: Sequence[np.ndarray], beta: np.ndarray) -> np.ndarray:
    """Return the logarithm of the probability of samples of maxima at scales (n,), up to a constant: (n,).

    Locations are integrated over. With K maxima x of mean m, the integral over mu of the product of
    exp(-(x - mu)/beta - exp(-(x - mu)/beta))/beta is beta^(1 - K) exp(-K m/beta) S^(-K) (K - 1)!, with S the sum of
    exp(-x/beta).
    """
    total = np.zeros(len(beta))
    for x in samples:
        below = x - x.min()  # whatever is taken off cancels
        sums = np.sum(np.exp(-below / beta[:, None]), axis=1)
        total += (1 - len(x)) * np.log(beta) - below.sum() / beta - len(x) * np.log(sums)
    return total


@dataclass(frozen=True, eq=False)
class Maximum:
    """What a sample of maxima says of one more maximum.

    Parameters
    ----------
    sample : (K,) float64 ndarray
        At least two different values.
    scale : Scale
        Distribution of the scale.
    """

    sample: np.ndarray
    scale: Scale

    @classmethod
    def of(cls, sample: np.ndarray) -> Maximum:
        """Return what a sample says alone."""
        return cls(sample, Scale.of([sample]))

    def _log_sums(self) -> np.ndarray:
        """Return the logarithm of the sum of exp(-x/beta) over the sample, (n,)."""
        low = self.sample.min()
        return np.log(np.sum(np.exp(-(self.sample - low) / self.scale.beta[:, None]), axis=1)) - low / self.scale.beta

    def exceeded(self, x: ArrayLike) -> np.ndarray:
        """Return the probability that one more maximum reaches x: (...) from (...).

        Given beta, exp(mu/beta) has a gamma distribution of shape K and rate S, the sum of exp(-x/beta) over the
        sample; the mean over it of the Gumbel distribution is (1 + exp(-x/beta)/S)^(-K).
        """
        ratio = np.exp(np.minimum(-np.asarray(x)[..., None] / self.scale.beta - self._log_sums(), 700.0))
        return -np.expm1(-len(self.sample) * np.log1p(ratio)) @ self.scale.probability

    def quantile(self, p: float) -> float:
        """Return the value that one more maximum reaches with the probability p, predicted as by `exceeded`."""
        from scipy.optimize import brentq

        middle, step = float(np.median(self.sample)), float(self.scale.beta @ self.scale.probability)
        low, high = middle - step, middle + step
        while self.exceeded(low) < p:
            low -= 2 * (middle - low)
        while self.exceeded(high) > p:
            high += 2 * (high - middle)
        found: Any = brentq(lambda x: float(self.exceeded(x)) - p, low, high)
        return float(found)

    def _locations(self) -> tuple[np.ndarray, np.ndarray]:
        """Return equally likely values of mu/beta at each beta, (n, LOCATIONS), and the probability of each."""
        from scipy.special import gammaincinv

        quantiles = gammaincinv(len(self.sample), (np.arange(LOCATIONS) + 0.5) / LOCATIONS)
        each = np.log(quantiles) - self._log_sums()[:, None]
        return each, np.repeat(self.scale.probability[:, None] / LOCATIONS, LOCATIONS, axis=1)

    def interval(self, x: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the equal-tailed interval that holds the true chance of reaching x with a probability.

        That chance is -expm1(-exp((mu - x)/beta)), of which the sample leaves open mu and beta.
        """
        location, weight = self._locations()
        ends = []
        for one in np.ravel(x):
            exponent = (location - one / self.scale.beta[:, None]).ravel()
            order = np.argsort(exponent)
            cumulative = np.cumsum(weight.ravel()[order])
            tails = np.searchsorted(cumulative, [0.5 * (1 - probability), 0.5 * (1 + probability)])
            ends.append(exponent[order[np.minimum(tails, len(order) - 1)]])
        low, high = -np.expm1(-np.exp(np.reshape(ends, (-1, 2)).T))
        return low.reshape(np.shape(x)), high.reshape(np.shape(x))

    def quantile_error(self, p: float) -> float:
        """Return the standard deviation of the value that is truly reached with the probability p."""
        location, weight = self._locations()
        values = self.scale.beta[:, None] * (location - np.log(-np.log1p(-p)))
        mean = np.sum(weight * values)
        return float(np.sqrt(np.sum(weight * (values - mean) ** 2)))


def is_gumbel(sample: np.ndarray) -> bool:
    """Return whether a sample looks like maxima of a Gumbel distribution, as a whole and by its largest value.

    As a whole, by the test of Anderson and Darling: with location and scale by the method of maximum likelihood, A^2 (1
    + 0.2/sqrt(K)) exceeds 1.038 in one of a hundred (Stephens 1977, Biometrika 64, 583), and `CRITICAL` in one of a
    thousand. The distance of the largest value from the median in units of the distance between the quartiles exceeds
    `LARGEST` in one of two hundred; it finds the few values that something else than noise made. Both critical values
    are from 1e5 simulated samples or more.
    """
    from scipy.stats import gumbel_r

    low, median, high = np.quantile(sample, [0.25, 0.5, 0.75])
    if sample.max() - median > (high - low) * np.interp(
        np.log(len(sample)), np.log(list(LARGEST)), [*LARGEST.values()]
    ):
        return False
    location, scale = gumbel_r.fit(sample)
    x = np.sort((sample - location) / scale)
    k = np.arange(1, len(x) + 1)
    log_below = -np.exp(-x)
    log_above = np.log(-np.expm1(log_below))
    squared = -len(x) - np.mean((2 * k - 1) * (log_below + log_above[::-1]))
    return bool(squared * (1 + 0.2 / np.sqrt(len(x))) < CRITICAL)


CRITICAL = 1.46
"""Value of Anderson's and Darling's test that one sample of a thousand exceeds."""
LARGEST = {10: 8.48, 20: 6.87, 30: 6.62, 50: 6.46, 64: 6.46, 100: 6.54, 300: 7.01, 1000: 7.64}
"""Distance of the largest value from the median that one sample of two hundred exceeds, by the size of the sample."""
