"""What 2F of a signal and of noise do from one stage of a follow-up to the next, with fewer and longer segments.

2F of each of K segments is the squared length of the projection of the data on four amplitudes. If segments are joined
to K', the 4 K' amplitudes of these span a subspace of the former's 4 K, which holds the signal. So at the signal's own
template the sums over segments S obey

    S_K = S_K' + D,  with D chi-squared with 4 (K - K') degrees of freedom and independent of S_K',

with or without a signal, however strong. In noise alone directions are random: whatever made the candidate be chosen by
S_K, S_K' / S_K has a beta distribution with parameters 2 K' and 2 (K - K'). Each stage chooses the highest S_K' of the
templates it tries, which raises the S_K' of noise: what counts for the next stage is the last choice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.candidates.falsealarm import false_alarm

TOLERANCE = 1e-3
"""Fraction by which 2F of joined segments may fall short for reasons other than noise: a series of another length is
low-passed in another way."""
LEAST_TRUST = 0.1
"""Least value of 1 - 4 K / S with which errors are estimated."""


class Growth(NamedTuple):
    """The distribution of a signal's S_K at its highest minus its S_K' at its highest: a gamma distribution.

    Attributes
    ----------
    mean, variance : (n,) float64
    """

    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def expected(cls, total: np.ndarray, n_from: int, n_to: int, n_parameters: int) -> Growth:
        """What to expect of signals whose sum over `n_from` segments, at the highest, is `total`.

        D has the mean 4 (K - K') and twice that as variance. Each of the sums is higher at its maximum than at the
        signal by (1 + 4 K / rho^2) times a chi-squared variable with as many degrees of freedom as parameters that are
        fitted: the gradient there has the variance 4 g (rho^2 + 4 K), and the Hessian is -2 g rho^2, g being the
        metric. rho^2 is estimated by `total`.

        Parameters
        ----------
        total : (n,) float64
        n_from, n_to : int
            K and K'.
        n_parameters : int
        """
        total = np.asarray(total, np.float64)
        before = np.maximum(1 - 4 * n_from / total, LEAST_TRUST)
        rho2 = np.maximum(total * before - n_parameters / before, 0.0)
        after = np.maximum(rho2 / (rho2 + 4 * n_to), LEAST_TRUST)
        dof = 4 * (n_from - n_to)
        mean = dof + n_parameters * (1 / before - 1 / after)
        variance = 2 * dof + 2 * n_parameters * (1 / before**2 + 1 / after**2)
        return cls(np.maximum(mean, 1.0), variance)

    def chance(self, fall: np.ndarray) -> np.ndarray:
        """Probability that S falls by as much or more, (n,)."""
        from scipy.special import gammaincc

        shape, scale = self.mean**2 / self.variance, self.variance / self.mean
        return gammaincc(shape, np.maximum(fall, 0.0) / scale)

    def fall(self, chance: float) -> np.ndarray:
        """By how much S falls, or more, with a given probability, (n,)."""
        from scipy.special import gammainccinv

        shape, scale = self.mean**2 / self.variance, self.variance / self.mean
        return scale * gammainccinv(shape, chance)


class Before(NamedTuple):
    """What n candidates were chosen by in the stage before.

    Attributes
    ----------
    total : (n,) float64
        Sum of 2F over segments.
    n_segments : int
    """

    total: np.ndarray
    n_segments: int


def stage_chance(total: np.ndarray, n_segments: int, n_trials: np.ndarray, before: Before | None = None) -> np.ndarray:
    """Probability that the highest of some templates reaches a sum of 2F over segments in Gaussian noise, (n,).

    After another stage, that is the chance that noise divides the sum of that stage as unevenly among the joined
    segments, or that it reaches as much anywhere, if that is higher. If nothing was joined, it is 1.

    Parameters
    ----------
    total : (n,) float64
        Sum over segments.
    n_segments : int
    n_trials : (n,) float64
        Number of independent templates.
    before : Before, optional
        The stage before, whose segments were joined.
    """
    if before is None:
        return false_alarm(total / n_segments, n_trials, n_segments)
    if before.n_segments <= n_segments:  # the others hold no data
        return np.ones_like(total)
    from scipy.special import betaincc

    ratio = np.clip(total / before.total, 0.0, 1.0)
    alone = false_alarm(total / n_segments, 1.0, n_segments)
    divided = betaincc(2.0 * n_segments, 2.0 * (before.n_segments - n_segments), ratio)
    return _highest(np.maximum(alone, divided), n_trials)


def noise_chance(chances: np.ndarray) -> np.ndarray:
    """Probability that noise alone is as unlikely in one of k stages as in the least likely one, at the most, (n,).

    Parameters
    ----------
    chances : (k, n) float64
        Of each stage, given the one before.
    """
    return np.minimum(1.0, len(chances) * np.min(chances, axis=0))


def _highest(alone: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Probability that one of n independent trials succeeds, from that of each."""
    return -np.expm1(n * np.log1p(-np.minimum(alone, np.nextafter(1.0, 0.0))))
