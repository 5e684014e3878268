"""2F's distribution: chi^2 with four degrees of freedom in noise, shifted by rho^2 with a signal."""

import numpy as np
import pytest
from scipy import stats

import jfstat

START = 1_167_458_304
FLOORS = {"H1": 4e-24, "L1": 7e-24}


def gappy(rng, days, keep):
    n = 48 * days
    return {name: START + 1800 * np.sort(rng.choice(n, keep, replace=False)) for name in ("H1", "L1")}


@pytest.mark.parametrize("sqrt_sx", [FLOORS, None], ids=["given", "running median"])
def test_noise_is_chi_squared(sqrt_sx):
    rng = np.random.default_rng(12)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=gappy(rng, 2, 72), fmin=98.3, fmax=101.7, sqrt_sx=FLOORS, seed=5
    )
    data = jfstat.prepare(sfts, 99.4, 100.6, sqrt_sx=sqrt_sx)
    band = np.asarray(jfstat.twoF_band(data, jfstat.Doppler(1.0, 0.5, [100.0])), float)
    independent = band[::2]  # a bin of 1/T apart
    assert len(independent) > 2e5
    assert abs(independent.mean() - 4) < 0.02
    # the running median's own scatter, 2 % a bin, broadens the distribution by half a per cent
    assert stats.kstest(independent, "chi2", args=(4,)).pvalue > (1e-2 if sqrt_sx else 1e-4)
    np.testing.assert_allclose(np.var(independent), 8, rtol=0.05)


@pytest.mark.slow
def test_mean_of_injections_is_four_plus_rho_squared():
    rng = np.random.default_rng(3)
    excess = []
    for seed in range(4):
        signals = []
        for f in 60 + 0.01 * np.arange(50):
            doppler = jfstat.Doppler(rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1)), [f, -1e-10], START)
            amplitude = jfstat.Amplitude(3e-25, rng.uniform(-1, 1), rng.uniform(-0.7, 0.7), rng.uniform(0, 6))
            signals.append((doppler, amplitude))
        stamps = gappy(rng, 1, 40)
        sfts = jfstat.simulate_sfts(
            ["H1", "L1"], timestamps=stamps, fmin=59.5, fmax=61.0, sqrt_sx=FLOORS, signals=signals, seed=seed
        )
        data = jfstat.prepare(sfts, 59.9, 60.6, sqrt_sx=FLOORS, guard=0.3)
        for doppler, amplitude in signals:
            expected = float(jfstat.predict_twoF(data, doppler, amplitude))
            excess.append((float(jfstat.twoF(data, doppler)) - expected, np.sqrt(8 + 4 * (expected - 4))))
    difference, sigma = np.array(excess).T
    assert len(difference) == 200
    assert abs(difference.mean()) < 3 * sigma.mean() / np.sqrt(200)
    assert 0.85 < np.std(difference / sigma) < 1.15
