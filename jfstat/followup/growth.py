"""Predict how 2F of signals and of noise changes between stages of a follow-up, as segments become longer.

2F of each of K segments is the squared length of the projection of the data on four amplitudes. If segments are joined
to K', their 4 K' amplitudes span a subspace of the former 4 K, which holds the signal. So at the signal's own template
the sums over segments S obey

    S_K = S_K' + D,  with D chi-squared with 4 (K - K') degrees of freedom and independent of S_K',

with or without a signal, however strong. In noise alone directions are random: however the candidate was chosen by S_K,
S_K' / S_K has a beta distribution with parameters 2 K' and 2 (K - K'). Each stage chooses the highest S_K' of the
templates it tries, which raises the S_K' of noise: only the last choice matters for the next stage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jfstat.candidates.falsealarm import false_alarm, in_trials

TOLERANCE = 1e-3
"""Fraction by which 2F of joined segments may fall short for reasons other than noise: series of different lengths are
low-passed differently."""
LEAST_TRUST = 0.1
"""Smallest value of 1 - 4 K / S with which errors are estimated."""


class Growth(NamedTuple):
    """Gamma distribution of a signal's maximum of S_K minus its maximum of S_K'.

    Attributes
    ----------
    mean, variance : (n,) float64
    """

    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def expected(cls, total: np.ndarray, n_from: int, n_to: int, n_parameters: int) -> Growth:
        """Return the distribution for signals whose sum over `n_from` segments is `total` at its maximum.

        D has mean 4 (K - K') and variance 8 (K - K'). Each sum is higher at its maximum than at the signal by (1 + 4 K
        / rho^2) times a chi-squared variable with as many degrees of freedom as fitted parameters: the gradient there
        has the variance 4 g (rho^2 + 4 K), and the Hessian is -2 g rho^2, g being the metric of segments that are taken
        to be alike. rho^2 is estimated from `total`.

        Parameters
        ----------
        total : (n,) float64
        n_from, n_to : int
            Numbers of segments K and K'.
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
        """Return the probability that S falls by a given amount or more, (n,)."""
        from scipy.special import gammaincc

        shape, scale = self.mean**2 / self.variance, self.variance / self.mean
        return gammaincc(shape, np.maximum(fall, 0.0) / scale)

    def fall(self, chance: float) -> np.ndarray:
        """Return the fall of S that is reached or exceeded with a given probability, (n,)."""
        from scipy.special import gammainccinv

        shape, scale = self.mean**2 / self.variance, self.variance / self.mean
        return scale * gammainccinv(shape, chance)


class Before(NamedTuple):
    """Sums of 2F by which n candidates were chosen in the stage before.

    Attributes
    ----------
    total : (n,) float64
        Sum of 2F over segments.
    n_segments : int
        Number of segments of the stage before.
    """

    total: np.ndarray
    n_segments: int


def stage_chance(total: np.ndarray, n_segments: int, n_trials: np.ndarray, before: Before | None = None) -> np.ndarray:
    """Return the probability that the highest of some templates reaches a sum of 2F over segments in Gaussian noise,
    (n,).

    After another stage, it is the larger of two probabilities: that noise divides that stage's sum as unevenly among
    the joined segments, and that noise reaches as high a sum anywhere. If nothing was joined, it is 1.

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
    return in_trials(np.maximum(alone, divided), n_trials)


def noise_chance(chances: np.ndarray) -> np.ndarray:
    """Return an upper bound on the probability that noise is as unlikely in any of k stages as in the least likely,
    (n,).

    Parameters
    ----------
    chances : (k, n) float64
        Probability of noise in each stage, given the one before.
    """
    return np.minimum(1.0, len(chances) * np.min(chances, axis=0))
