"""dual_harmonic_posterior: the signal beside LALSuite's, the density by numerical integration, calibration."""

import jax
import numpy as np
import pytest
from likelihoods import fisher_matrices, likelihoods, one
from scipy.special import i0e, logsumexp
from scipy.stats import kstest

import jfstat
from jfstat.inference.dualposterior import dual_posterior_of

AMPLITUDES = dict(c21=1.3, c22=0.7, cosi=0.4, psi=0.3, phi21=1.1, phi22=2.2)


def in_axes(amplitude):
    """Complex amplitudes of F+ and Fx at psi = 0, as LALSuite's model of heterodyned data has them."""
    a1, a2, a3, a4 = np.moveaxis(np.asarray(amplitude.canonical), -1, 0)
    return 0.5 * np.array([a1 - 1j * a3, a2 - 1j * a4])


@pytest.mark.parametrize("harmonic", [1, 2])
def test_signals_are_those_of_lalsuite(harmonic, tmp_path):
    simulator = pytest.importorskip("lalpulsar.simulateHeterodynedCW").HeterodynedCWSimulator
    star = (
        "PSRJ J0123+1234\nRAJ 01:23:45.0\nDECJ 12:34:56.0\nF0 100.0\nF1 -1e-11\nPEPOCH 55000\nEPHEM DE405\nUNITS TDB\n"
    )
    names = dict(c21="C21", c22="C22", cosi="COSIOTA", psi="PSI", phi21="PHI21", phi22="PHI22")
    (tmp_path / "star.par").write_text(star)
    (tmp_path / "signal.par").write_text(star + "".join(f"{names[k]} {x}\n" for k, x in AMPLITUDES.items()))
    model = simulator(str(tmp_path / "star.par"), "H1", times=9e8 + 3600.0 * np.arange(24))
    wanted = np.squeeze(model.model(str(tmp_path / "signal.par"), freqfactor=float(harmonic)))
    found = in_axes(jfstat.DualHarmonicAmplitude(**AMPLITUDES).at_harmonic(harmonic))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def simulated(rng, signals, conditions):
    fisher = [fisher_matrices(rng, conditions) for _ in range(2)]
    return [likelihoods(x, signals.at_harmonic(i), rng) for i, x in enumerate(fisher, 1)]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_bayes_factor_and_densities_are_integrals(seed):
    rng = np.random.default_rng(seed)
    signal = jfstat.DualHarmonicAmplitude([4.0], [2.5], [0.35], [0.2], [1.0], [2.0])
    of21, of22 = (one(x, 0) for x in simulated(rng, signal, [4.0]))
    prior = jfstat.DualHarmonicPrior(c21=jfstat.HalfNormal(6.0), c22=jfstat.HalfNormal(3.0))
    key = jax.random.key(0)
    found = jax.jit(lambda *x: dual_posterior_of((x[0], 1.0), (x[1], 1.0), prior, key, 4000))(of21, of22)

    psi = np.linspace(0, np.pi, 48, endpoint=False)[:, None, None]  # both periods
    iota = (np.arange(128) + 0.5)[:, None] / 128 * np.pi
    size = {"c21": np.linspace(0, 24, 241), "c22": np.linspace(0, 12, 241)}
    logs = {}
    for name, likelihood, harmonic in (("c21", of21, 1), ("c22", of22, 2)):
        unit = {"c21": 0.0, "c22": 0.0, name: 1.0}
        shape = jfstat.DualHarmonicAmplitude(cosi=np.cos(iota[None]), psi=psi, phi21=0, phi22=0, **unit)
        ua, ub = (2 * in_axes(shape.at_harmonic(harmonic)))[..., 0]
        A, B, C = (float(x) for x in likelihood.fisher)
        z = np.abs(np.conj(ua) * complex(likelihood.xa) + np.conj(ub) * complex(likelihood.xb))
        q = A * np.abs(ua) ** 2 + B * np.abs(ub) ** 2 + 2 * C * np.real(ua * np.conj(ub))
        x = size[name][:, None, None] * z[None]
        sigma = getattr(prior, name).sigma
        density = np.sqrt(2 / np.pi) / sigma * np.exp(-0.5 * (size[name] / sigma) ** 2)
        with np.errstate(divide="ignore"):
            logs[name] = x + np.log(i0e(x)) - 0.5 * size[name][:, None, None] ** 2 * q[None]
            logs[name] += np.log(density)[:, None, None]
    weight = np.log(np.sin(iota[None, :, 0]) / np.sum(np.sin(iota)) / len(psi))
    step = {name: x[1] - x[0] for name, x in size.items()}
    over = {name: logsumexp(x, axis=0, b=ends(x.shape)) + np.log(step[name]) for name, x in logs.items()}
    wanted = logsumexp(weight + over["c21"] + over["c22"])
    assert float(found.log_bstat) == pytest.approx(wanted, abs=2e-4)
    for name, other in (("c21", "c22"), ("c22", "c21")):
        density = np.exp(logsumexp(weight + over[other] + logs[name], axis=(1, 2)) - wanted)
        own = getattr(found, name)
        near = np.asarray(own.values) < size[name][-1]
        wanted_there = np.interp(own.values, size[name], density)
        np.testing.assert_allclose(own.density[near], wanted_there[near], atol=2e-3 * density.max())
        below = np.append(0, np.cumsum(0.5 * (own.density[1:] + own.density[:-1]) * np.diff(own.values)))
        assert below[-1] == pytest.approx(1.0, abs=2e-3)
        assert kstest(np.interp(getattr(found.samples, name), own.values, below), "uniform").pvalue > 0.01


@pytest.mark.ci
@pytest.mark.parametrize("largest", [None, pytest.param(1e4, marks=pytest.mark.slow)])
def test_wide_priors_are_summed(largest):
    """Face on C21 is not seen at all, so its range is thousands of times wider than its posterior."""
    rng = np.random.default_rng(4)
    signal = jfstat.DualHarmonicAmplitude([0.0], [0.0], [0.35], [0.2], [1.0], [2.0])
    of21, of22 = (one(x, 0) for x in simulated(rng, signal, [4.0]))
    flat = largest and jfstat.Uniform(0.0, largest)
    prior, key = jfstat.DualHarmonicPrior(c21=flat, c22=flat), jax.random.key(0)
    found = jax.jit(lambda *x: dual_posterior_of((x[0], 1.0), (x[1], 1.0), prior, key, 4000))(of21, of22)
    for name in ("c21", "c22"):
        own, drawn = getattr(found, name), np.asarray(getattr(found.samples, name))
        assert np.trapezoid(own.density, own.values) == pytest.approx(1.0, abs=3e-3)
        for p in (0.5, 0.95):
            assert np.mean(drawn < float(own.quantile(p))) == pytest.approx(p, abs=0.03)


@pytest.mark.slow
def test_limits_and_samples_are_calibrated():
    """Of 500 signals drawn from the prior, each parameter's rank among the samples is uniform (Cook et al. 2006)."""
    n, samples = 500, 999
    prior = jfstat.DualHarmonicPrior(c21=jfstat.HalfNormal(5.0), c22=jfstat.Uniform(0.0, 5.0))
    signals = prior.sample(jax.random.key(3), n)
    rng = np.random.default_rng(5)
    of21, of22 = simulated(rng, signals, 10 ** rng.uniform(0, 1, n))
    keys = jax.random.split(jax.random.key(4), n)

    @jax.jit
    def all_of_them(of21, of22, keys):
        return jax.lax.map(
            lambda x: dual_posterior_of((x[0], 1.0), (x[1], 1.0), prior, x[2], samples), (of21, of22, keys)
        )

    found = all_of_them(of21, of22, keys)
    for name in AMPLITUDES:
        truth, drawn = np.asarray(getattr(signals, name)), np.asarray(getattr(found.samples, name))
        ranks = np.sum(drawn < truth[:, None], axis=1)
        assert kstest((ranks + rng.uniform(size=n)) / (samples + 1), "uniform").pvalue > 0.01, name
    for name in ("c21", "c22"):
        limits = jax.vmap(lambda x: x.limit(0.95))(getattr(found, name))
        assert 0.93 <= np.mean(np.asarray(getattr(signals, name)) < np.asarray(limits)) <= 0.97


def ends(shape):
    """Weights of the trapezoidal rule along the first axis."""
    weights = np.ones(shape)
    weights[[0, -1]] = 0.5
    return weights
