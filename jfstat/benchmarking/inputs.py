"""Make inputs of the benchmark: prepared random data and stacks of random templates, both on the device."""

from __future__ import annotations

import jax
import numpy as np

from jfstat.benchmarking.settings import Setting
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.prepare import prepare
from jfstat.engines.engine import Engine
from jfstat.geometry.doppler import EARTH_SPEED, drift_range
from jfstat.geometry.ephemeris import EphemerisFiles
from jfstat.searching.driver.memory import most_templates
from jfstat.signal.templates import Doppler
from jfstat.simulate.simulate import simulate_sfts

START, TSFT, SQRT_SX, GUARD = 1167458304, 1800, 4e-24, 1.0
"""Start of the data, GPS s, length of an SFT, s, noise floor, 1/sqrt(Hz), and guard, Hz."""
F1DOT = 1e-9
"""Largest spin-down of the templates, Hz/s: f1dot lies between minus this value and 0."""
CPU_SAMPLES = 1 << 17
"""Number of samples in the transforms of a batch on a CPU: few, so that they stay in its caches."""
LEAST_AT_POSITION, MOST_TEMPLATES = 8, 2048


def prepared(setting: Setting, seed: int, ephemeris: EphemerisFiles) -> FstatData:
    """Simulate Gaussian noise around a setting's band and prepare it."""
    fmin, fmax = setting.frequency, setting.frequency + setting.bandwidth
    duration = TSFT * max(1, round(setting.days * 86400 / TSFT))
    fdots = [(-F1DOT, 0.0)]
    margin = GUARD + EARTH_SPEED * fmax - drift_range(fdots, 0.0, duration)[0] + 4 / TSFT
    if fmin < margin:
        raise ValueError(f"--frequency must be at least {margin:.3g} Hz, not {fmin:g}: the data reach so far below it.")
    sfts = simulate_sfts(
        setting.detectors, START, duration, fmin - margin, fmax + margin, TSFT, SQRT_SX, seed=seed, ephemeris=ephemeris
    )
    data = prepare(sfts, fmin, fmax, START, SQRT_SX, ephemeris, GUARD, fdots=fdots)
    return jax.block_until_ready(jax.device_put(data, jax.local_devices()[0]))


def random_points(rng: np.random.Generator, data: FstatData, n: int, one_position: bool) -> Doppler:
    """Return a stack of n random templates, on the device, at isotropic positions or all at the same one."""
    n_sky = 1 if one_position else n
    alpha, sin_delta = rng.uniform(0, 2 * np.pi, n_sky), rng.uniform(-1, 1, n_sky)
    fkdot = np.stack([np.full(n, data.frequencies[0]), rng.uniform(-F1DOT, 0, n)], axis=1)
    points = Doppler(np.broadcast_to(alpha, n), np.broadcast_to(np.arcsin(sin_delta), n), fkdot, data.reftime)
    return jax.block_until_ready(jax.device_put(points, jax.local_devices()[0]))


def default_batch(setting: Setting, data: FstatData, engine: Engine) -> int:
    """Return the number of templates of a batch, a power of two; at least `LEAST_AT_POSITION` at one sky position."""
    if device_of(data).platform == "cpu":
        most = CPU_SAMPLES / data.layout.n_fft
    else:
        most = most_templates(data, random_points(np.random.default_rng(0), data, 1, False), engine)
    least = LEAST_AT_POSITION if setting.one_position else 1
    return int(np.clip(2 ** np.floor(np.log2(most)), least, MOST_TEMPLATES))
