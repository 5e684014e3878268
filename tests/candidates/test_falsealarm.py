"""The chance of a loudest 2F in noise against the paper's number, limits and simulation."""

import numpy as np
import pytest
from scipy.stats import chi2

from jfstat.candidates.falsealarm import false_alarm


def test_the_papers_threshold():
    """Dunn et al., section 4: 2F = 70 and 9.36e12 templates give 20 %."""
    p = false_alarm(70.0, 9.36e12)
    assert round(p, 1) == 0.2
    assert p == pytest.approx(1 - np.exp(-9.36e12 * 36 * np.exp(-35.0)), rel=1e-10)


def test_no_digits_are_lost():
    x = np.array([30.0, 100.0, 400.0, 1400.0])
    tail = chi2.sf(x, 4)
    np.testing.assert_allclose(false_alarm(x, 1), tail, rtol=1e-12)
    np.testing.assert_allclose(false_alarm(x[1:], 1e6), 1e6 * tail[1:], rtol=1e-9)
    assert false_alarm(0.0, 1e12) == 1 and false_alarm(70.0, 1e300) == 1 and false_alarm(1e4, 1e300) == 0
    np.testing.assert_array_equal(false_alarm([0.0, 50.0, np.inf], 0), 0)


def test_elementwise_and_nan():
    x, n = np.array([[20.0], [np.nan]]), np.array([1.0, 10.0, 1e5])
    found = false_alarm(x, n)
    assert found.shape == (2, 3) and np.isnan(found[1]).all()
    for i in range(3):
        assert found[0, i] == false_alarm(20.0, n[i])


def test_is_the_distribution_of_the_loudest():
    loudest = chi2.rvs(4, size=(4000, 50), random_state=1).max(axis=1)
    for level in (10.0, 12.0, 15.0):
        p = false_alarm(level, 50)
        assert abs(np.mean(loudest >= level) - p) < 4 * np.sqrt(p * (1 - p) / 4000)


def test_negative_numbers_are_errors():
    with pytest.raises(ValueError, match="n_twoF"):
        false_alarm(20.0, [1, -1])
