"""Data and templates on which the kernels of the `cuda` engine are tried, by tests and under compute-sanitizer."""

from importlib import import_module

import jax
import numpy as np

import jfstat
from jfstat.engines.xla import Xla

START = 1167458304
ORBIT = jfstat.Orbit(asini=0.5, period=7200.0, tp=START + 1000.0, ecc=0.1, argp=0.7)


def engines_by_name(set_to, kernels):
    """Let `search(engine="cuda")` take `kernels`, emulated ones; `set_to` is setattr or pytest's."""
    kinds = {"cuda": kernels, "xla": Xla()}
    target = import_module("jfstat.searching.statistics.coherent")
    set_to(target, "engine_for", lambda data, name, lines: kinds[name])


def noise(detectors, hours, bandwidth, orbit=None, seed=1):
    """Noise of half-hour SFTs, of which each detector misses others, ready to search 100 Hz to 100 Hz + bandwidth."""
    rng = np.random.default_rng(seed)
    starts = START + 1800 * np.arange(2 * hours)
    kept = [np.r_[True, rng.uniform(size=len(starts) - 2) < 0.8, True] for _ in detectors]
    times = {name: starts[own] for name, own in zip(detectors, kept, strict=True)}
    wide = 1.2 if orbit is None else 1.3
    sfts = jfstat.simulate_sfts(
        detectors, fmin=100 - wide, fmax=100 + bandwidth + wide, timestamps=times, sqrt_sx=4e-24, seed=seed
    )
    return jfstat.prepare(sfts, 100.0, 100.0 + bandwidth, sqrt_sx=4e-24, orbit=orbit, fdots=[(-1e-8, 1e-8)])


def bank(n, same_source=False, orbit=None, seed=0):
    rng = np.random.default_rng(seed)
    alpha, delta = rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n))
    if same_source:
        alpha[:], delta[:] = alpha[0], delta[0]
    if orbit is not None:
        orbit = jax.tree.map(lambda x: np.full(n, float(x)), orbit)
    fkdot = np.stack([np.full(n, 100.0), rng.uniform(-1e-8, 0, n)], axis=1)
    return jfstat.Doppler(alpha, delta, fkdot, START, orbit)
