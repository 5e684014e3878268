"""What maxima say of one more maximum is right as a frequency, and the test of Anderson and Darling refuses others."""

import numpy as np
import pytest
from scipy.stats import gumbel_r

from jfstat.maths.gumbel import Maximum, Scale, is_gumbel, log_likelihood


@pytest.mark.parametrize(("n", "others"), [(5, 0), (20, 0), (20, 5)])
def test_as_many_exceed_a_prediction_as_it_says(n, others):
    """With a scale of their own, and one in common with samples elsewhere."""
    rng, trials, levels = np.random.default_rng(n + others), 1500, np.array([0.3, 0.1, 0.01])
    seen = np.zeros(3)
    for _ in range(trials):
        samples = 30 + rng.normal(0, 5, (1 + others, 1)) + 2.3 * rng.gumbel(size=(1 + others, n + 1))
        scale = Scale.of(list(samples[:, :-1]))
        seen += Maximum(samples[0, :-1], scale).exceeded(samples[0, -1]) < levels
    assert np.all(np.abs(seen - trials * levels) < 3.5 * np.sqrt(trials * levels * (1 - levels)))


def test_the_prediction_is_the_mean_over_what_is_left_open():
    """By a plain sum over location and scale."""
    x = np.random.default_rng(1).gumbel(20, 2, 12)
    mu, beta = np.meshgrid(np.linspace(-20, 60, 3001), np.exp(np.linspace(-1, 2.5, 401)))
    log_p = np.sum(gumbel_r.logpdf(x, mu[..., None], beta[..., None]), axis=-1)
    weight = np.exp(log_p - log_p.max())
    for value in (22.0, 30.0, 40.0):
        mean = np.sum(weight * gumbel_r.sf(value, mu, beta)) / weight.sum()
        assert Maximum.of(x).exceeded(np.float64(value)) == pytest.approx(mean, rel=2e-3)
    # of ln(beta), on a regular grid, what is left once locations are integrated over
    own, plain = log_likelihood([x], beta[:, 0]), np.log(weight.sum(axis=1))
    assert np.ptp((own - plain)[own > own.max() - 10]) < 1e-5


def test_quantiles_invert_predictions_and_intervals_hold_the_truth():
    rng, inside, trials = np.random.default_rng(2), 0, 300
    for _ in range(trials):
        own = Maximum.of(rng.gumbel(50, 3, 30))
        low, high = own.interval(np.array([60.0]), 0.9)
        inside += low[0] <= gumbel_r.sf(60.0, 50, 3) <= high[0]
    assert abs(inside - 0.9 * trials) < 3.5 * np.sqrt(trials * 0.09)
    for p in (0.5, 0.01, 1e-6):
        assert own.exceeded(np.float64(own.quantile(p))) == pytest.approx(p)
    assert own.exceeded(np.array([-1e6, 1e6])) == pytest.approx([1, 0])


def test_the_error_of_a_quantile_is_its_spread_among_samples():
    rng = np.random.default_rng(3)
    owns = [Maximum.of(rng.gumbel(0, 1, 100)) for _ in range(200)]
    spread = np.std([own.quantile(0.01) for own in owns])
    assert np.mean([own.quantile_error(0.01) for own in owns]) == pytest.approx(spread, rel=0.2)


def test_gumbel_samples_are_taken_for_such_and_others_are_not():
    rng = np.random.default_rng(4)
    assert sum(is_gumbel(rng.gumbel(30, 2, 50)) for _ in range(300)) >= 297
    mixed = np.concatenate([rng.gumbel(30, 2, 40), rng.gumbel(60, 10, 20)])
    assert not is_gumbel(mixed) and not is_gumbel(rng.uniform(size=300))
