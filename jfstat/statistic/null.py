"""Compute how likely Gaussian noise is as loud as a candidate: distributions of maxima from weighted simulations.

Some of the simulations hold signals of several strengths, and each is weighted by the ratio of its probability in noise
to the probability with which it was drawn (importance sampling, by the mixture of all strengths: Owen & Zhou 2000, J.
Am. Stat. Assoc. 95, 135). Small probabilities are therefore as well known as large ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jfstat.display import Displayed
from jfstat.maths.tail import smooth_tail, tail_slope
from jfstat.public import host
from jfstat.validation import float64_of, probability, whole


@dataclass(frozen=True, repr=False, eq=False)
class NullDistribution(Displayed):
    """Distribution of a largest value in Gaussian noise; made by `transient_null` and `viterbi_null`.

    Attributes
    ----------
    statistic : str
        ``"max_twoF"`` and ``"log10BtSG"``: of a map of windows; ``"log_likelihood"``: of the best path.
    value : (S,) float64 ndarray
        Values of the statistic, rising.
    log_rate : (S,) float64 ndarray
        ln(-ln(1 - p)), p being the probability that a simulation of noise is as loud.
    n_simulations : float
        How many independent simulations are as loud as the data: the ratio of their numbers of frequencies, where the
        data have more.
    """

    statistic: str
    value: np.ndarray
    log_rate: np.ndarray
    n_simulations: float = 1.0

    @classmethod
    def of_mixture(
        cls,
        statistic: str,
        values: np.ndarray,
        log_ratios: np.ndarray,
        n_simulations: float = 1.0,
        degree: int = 3,
        least: float = 0.0,
    ) -> NullDistribution:
        """Fit the distribution to simulations, as many with signals of each strength.

        Parameters
        ----------
        statistic, n_simulations
            See the attributes.
        values : (N,) float64
            The largest value of each simulation.
        log_ratios : (N, S) float64
            Logarithm of its probability with signals of each of S strengths over its probability in noise.
        degree, least
            See `smooth_tail`.
        """
        n_each = values.size // log_ratios.shape[1]
        weights = np.exp(-np.logaddexp.reduce(log_ratios, axis=1)) / n_each
        return cls(statistic, *smooth_tail(values, weights, degree, least), n_simulations)

    @host
    def false_alarm(self, value: ArrayLike, n_trials: int = 1) -> np.ndarray:
        """Return the probability that noise is as loud, or the loudest of several independent trials.

        Parameters
        ----------
        value : float or array_like
            Value of the statistic: ``TransientMap.max_twoF``, or ``log10_bayes_factor`` with the range's `rho_max`; or
            ``ViterbiPath.log_likelihood``.
        n_trials : int
            Number of independent maps or tables. Neighbouring templates and frequencies give similar ones: for the
            number that a search computed, the result is an upper bound.

        Returns
        -------
        ndarray or float64
            0 to 1; NaN for NaN. Beyond the loudest simulations, about 1e-9 for paths and 1e-12 for maps, it falls
            exponentially, as it does there.

        Raises
        ------
        ValueError
            If an argument makes no sense.
        """
        x, trials = float64_of(value, "value"), whole(n_trials, "n_trials", 1) * self.n_simulations
        values, rate = self.value, self.log_rate
        beyond = rate[-1] - tail_slope(values, rate) * (x - values[-1])
        log_rate = np.where(x > values[-1], beyond, np.interp(x, values, rate))
        p = -np.expm1(-np.exp(log_rate + np.log(trials)))
        return np.where(np.isnan(x), np.nan, np.where(x < values[0], 1.0, p))[()]

    @host
    def threshold(self, false_alarm: float, n_trials: int = 1) -> float:
        """Return the value that noise exceeds with a given probability.

        Parameters
        ----------
        false_alarm : float
            Between 0 and 1.
        n_trials : int
            Number of independent maps or tables, see `false_alarm`.

        Raises
        ------
        ValueError
            If an argument makes no sense.
        """
        wanted = probability(false_alarm, "false_alarm")
        trials = whole(n_trials, "n_trials", 1) * self.n_simulations
        rate = np.log(-np.log1p(-wanted)) - np.log(trials)
        if rate < self.log_rate[-1]:
            return float(self.value[-1] + (self.log_rate[-1] - rate) / tail_slope(self.value, self.log_rate))
        return float(np.interp(-rate, -self.log_rate, self.value))
