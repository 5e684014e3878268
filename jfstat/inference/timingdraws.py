"""Draw timing solutions from their posterior, for integrals over the errors of a .par file.

Solutions are drawn from the errors first. Where a signal is loud it measures some of them far better, and few draws
would count: then further ones are drawn from normal distributions that are fitted to those before (adaptive multiple
importance sampling, Cornuet, Marin, Mira & Robert 2012, Scand. J. Stat. 39, 798). All draws count, each with the prior
density over the mean of the densities from which they were drawn. Of these some are kept, half of them by the
likelihood and half by the prior alone, so that they serve for other likelihoods too, those without a signal among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DRAWS = 512
"""Number of draws from each distribution."""
MOST_ROUNDS = 12
"""Largest number of distributions."""
ENOUGH = 500.0
"""Effective number of draws at which no further distribution is needed."""
KEPT = 64
"""Number of draws of the result."""
FIT_FROM = 30, 4
"""Least effective number of draws from which a distribution is fitted: of any number of errors, and for each error."""
WIDENED = 1.2
"""Widths of a fitted distribution over those of the draws."""


class TimingDraws(NamedTuple):
    """Draws of a timing solution.

    Attributes
    ----------
    z : (J, d) float64
        Differences of the entries from their values, in standard errors.
    index : (J,) int
        Places among all draws for which the likelihood was asked.
    log_weight : (J,) float64
        Logarithms of weights with which a sum over the draws is a mean over the errors, of a likelihood too.
    effective : float
        Effective number of draws for the likelihood, of which these are taken.
    """

    z: np.ndarray
    index: np.ndarray
    log_weight: np.ndarray
    effective: float


def timing_draws(log_likelihood: Callable[[np.ndarray], np.ndarray], n_errors: int, seed: int = 0) -> TimingDraws:
    """Draw timing solutions, given the logarithm of the likelihood at draws in standard errors, (DRAWS, d)."""
    random = np.random.default_rng(seed)
    sources: list[_Normal] = [_Normal(np.zeros(n_errors), np.eye(n_errors))]
    z, log_value = np.zeros((0, n_errors)), np.zeros(0)
    for _ in range(MOST_ROUNDS):
        drawn = sources[-1].drawn(random, DRAWS)
        z, log_value = np.concatenate([z, drawn]), np.concatenate([log_value, log_likelihood(drawn)])
        densities = np.stack([source.log_density(z) for source in sources])
        # over the mean of the densities from which they were drawn
        log_prior = densities[0] - np.logaddexp.reduce(densities) + np.log(len(densities))
        log_weight = log_value + log_prior
        effective = _effective(log_weight)
        if effective >= ENOUGH:
            break
        sources.append(_fitted(z, log_weight, FIT_FROM[0] + FIT_FROM[1] * n_errors))
    chance = 0.5 * (_shares(log_weight) + _shares(log_prior))
    # in the order of the likelihood, on which an amplitude depends most: few draws then stand for all
    order = np.argsort(log_value)
    below = np.cumsum(chance[order])
    index = order[np.searchsorted(below, (np.arange(KEPT) + random.uniform()) / KEPT * below[-1])]
    kept = log_prior[index] - np.log(len(z) * KEPT * chance[index])
    return TimingDraws(z[index], index, kept, effective)


class _Normal(NamedTuple):
    """A normal distribution of d numbers, with the Cholesky factor of its covariance."""

    mean: np.ndarray
    factor: np.ndarray

    def drawn(self, random: np.random.Generator, n: int) -> np.ndarray:
        return self.mean + random.normal(size=(n, len(self.mean))) @ self.factor.T

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the logarithm of the density up to a constant that all have in common, (n,)."""
        off = np.linalg.solve(self.factor, (z - self.mean).T)
        return -0.5 * np.sum(off * off, axis=0) - np.sum(np.log(np.diag(self.factor)))


def _shares(log_weight: np.ndarray) -> np.ndarray:
    weight = np.exp(log_weight - np.max(log_weight))
    return weight / np.sum(weight)


def _effective(log_weight: np.ndarray) -> float:
    return float(1 / np.sum(_shares(log_weight) ** 2))


def _fitted(z: np.ndarray, log_weight: np.ndarray, least: float) -> _Normal:
    """Return a normal distribution like that of the draws, with their weights to a power at which enough count."""
    power = 1.0
    while _effective(power * log_weight) < min(least, 0.5 * len(z)):
        power *= 0.7
    weight = _shares(power * log_weight)
    mean = weight @ z
    off = z - mean
    return _Normal(mean, WIDENED * np.linalg.cholesky((off * weight[:, None]).T @ off))
