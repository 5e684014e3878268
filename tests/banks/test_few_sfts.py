"""Lattices for one to three SFTs: no signal in the ranges loses more phase coherence than the mismatch, no warnings."""

import warnings

import jax
import numpy as np
import pytest

import jfstat
from jfstat.geometry.nearby import phase_difference, sites

START, FREQ = 1167458304, 300.0
CASES = {
    "sky": dict(alpha=(1.0, 2.5), delta=(-0.3, 0.9)),
    "spins": dict(alpha=1.2, delta=0.3, f1dot=(-2e-6, 2e-6)),
    "both spins": dict(alpha=1.2, delta=0.3, f1dot=(-2e-6, 0.0), f2dot=(0.0, 2e-9)),
    "sky and spins": dict(alpha=(1.0, 2.5), delta=(-0.3, 0.9), f1dot=(-1e-6, 0.0)),
    "orbit": dict(alpha=1.2, delta=0.3, orbit=dict(asini=(1.0, 3.0), period=9000.0, tp=(START, START + 3000.0))),
}


def observed(detectors, n, gap):
    """SFTs of 1800 s that start `gap` s after each other."""
    times = {name: START + gap * np.arange(n) for name in detectors}
    return jfstat.observation(detectors, timestamps=times, sqrt_sx=1e-23, reftime=START)


@jax.jit
def cycles_of(observation, signal, templates):
    """Phases of templates minus the signal's, (n, times), cycles; many times in each SFT, and their weights."""
    time, weight = observation.quadrature(24)
    centre = observation.source(signal)
    here = jax.vmap(lambda own, t: sites(own, centre, t))(observation.trajectory, time)

    def one(template):
        other = observation.source(template)
        return jax.vmap(lambda own: phase_difference(own, centre, other))(here).reshape(-1)

    return jax.lax.map(one, templates), time.reshape(-1), weight.reshape(-1)


def least_loss(observation, signal, bank):
    """Smallest fraction of power lost at any template, at the best frequency near the mean one."""
    n = len(bank.alpha)
    padded = np.minimum(np.arange(max(64, 1 << (n - 1).bit_length())), n - 1)  # few lengths: each is compiled anew
    templates = jax.tree.map(lambda x: np.asarray(x)[padded], bank)
    fkdot = templates.fkdot
    fkdot[:, 0] = float(np.asarray(signal.fkdot)[0])
    templates = jfstat.Doppler(templates.alpha, templates.delta, fkdot, START, templates.orbit)
    cycles, time, weight = (np.asarray(x) for x in cycles_of(observation, signal, templates))
    cycles = cycles[:n]
    share, t = weight / weight.sum(), time - time @ weight / weight.sum()
    slope = cycles @ (share * t) / (share @ t**2)
    shifts = np.linspace(-1, 1, 41) / float(observation.tspan)
    near = np.argsort(((cycles - slope[:, None] * t - (cycles @ share)[:, None]) ** 2) @ share)[:20]
    phases = (cycles - slope[:, None] * t)[near, None] + shifts[:, None] * t
    return 1 - np.max(np.abs(np.exp(2j * np.pi * phases) @ share) ** 2)


def drawn(random, case):
    """A signal in the ranges of a case."""

    def value(x):
        return random.uniform(*x) if isinstance(x, tuple) else x

    spins = [value(case[name]) for name in ("f1dot", "f2dot") if name in case] or [0.0]
    orbit = jfstat.Orbit(**{name: value(x) for name, x in case["orbit"].items()}) if "orbit" in case else None
    return jfstat.Doppler(value(case["alpha"]), value(case["delta"]), [FREQ, *spins], START, orbit)


FEW = [(("H1",), 1, 1800), (("H1",), 2, 1800), (("H1", "L1"), 2, 1800), (("H1",), 3, 1800), (("H1", "L1"), 1, 1800)]
MORE = [(("H1",), n, gap) for n, gap in ((2, 3000), (3, 2500), (4, 1800), (7, 1800))]


def marked(name, detectors, n, gap):
    """Lattices of orbits take minutes."""
    if name == "orbit" and n > 1:
        return pytest.param(name, detectors, n, gap, marks=pytest.mark.slow)
    return pytest.param(name, detectors, n, gap, marks=pytest.mark.ci if (detectors, n, gap) in MORE else ())


@pytest.mark.ci
@pytest.mark.parametrize("name, detectors, n, gap", [marked(name, *own) for name in CASES for own in (*FEW, *MORE)])
def test_no_signal_is_lost(name, detectors, n, gap):
    observation, case, mismatch = observed(detectors, n, gap), CASES[name], 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank = jfstat.template_bank(**case, data=observation, mismatch=mismatch, freq=(FREQ - 0.1, FREQ))
    random = np.random.default_rng(n)
    losses = [least_loss(observation, drawn(random, case), bank) for _ in range(4)]
    assert max(losses) < 1.05 * mismatch  # the metric is the second order
    few = jax.tree.map(lambda x: x[:1], bank)
    if name in ("spins", "both spins") and len(bank.alpha) > 20:  # or the test could not fail
        assert max(least_loss(observation, drawn(random, case), few) for _ in range(8)) > mismatch
