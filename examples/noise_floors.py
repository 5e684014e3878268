"""How a loud signal raises its own noise floor and lowers its 2F, and how off-source bins end that.

    python examples/noise_floors.py --output examples/noise_floors.json

Signals at random sky positions and frequencies up to 1900 Hz in Gaussian noise of known floor, two detectors with gaps:
2F with the floor estimated in four ways over 2F with the known floor, as mean and standard deviation over signals, and
the mean of 2F in noise alone. tests/data/test_noise_floors.py runs a few of the cases.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402

START, SQRT_SX = 1_167_458_304, 4e-24
Ways = dict[str, jfstat.Noise]
WAYS: Ways = {
    "101 bins": jfstat.Noise(),
    "101 bins, off_source=10": jfstat.Noise(off_source=10),
    "1001 bins": jfstat.Noise(median_bins=1001),
    "1001 bins, off_source=10": jfstat.Noise(median_bins=1001, off_source=10),
}
"""How the floor is estimated."""


def start_times(rng: np.random.Generator, days: float) -> dict[str, list[int]]:
    """Start times of SFTs of two detectors, a quarter of which are missing."""
    every = START + 1800 * np.arange(round(days * 48))
    return {name: sorted(rng.choice(every, round(0.75 * len(every)), replace=False).tolist()) for name in ("H1", "L1")}


def case(rng: np.random.Generator, days: float, twoF: float, ways: Ways = WAYS) -> dict[str, float]:
    """2F of a random signal that should have `twoF`, with a floor estimated in each way, over the known one's."""
    f, times = float(rng.uniform(30, 1900)), start_times(rng, days)
    point = jfstat.Doppler(rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1)), [f, rng.uniform(-1e-9, 0)], START)
    cosi, psi, phi0 = rng.uniform(-1, 1), rng.uniform(-0.7, 0.7), rng.uniform(0, 6)
    detectors = ["H1", "L1"]
    observed = jfstat.observation(detectors, timestamps=times, sqrt_sx=SQRT_SX)
    unit = float(jfstat.predict_twoF(observed, point, jfstat.Amplitude(1e-24, cosi, psi, phi0))) - 4
    amplitude = jfstat.Amplitude(1e-24 * np.sqrt((twoF - 4) / unit), cosi, psi, phi0)
    wing = 0.7 + 2e-4 * f
    options = dict(timestamps=times, sqrt_sx=SQRT_SX, signals=[(point, amplitude)], seed=int(rng.integers(2**31)))
    sfts = jfstat.simulate_sfts(detectors, fmin=f - wing, fmax=f + wing, **options)

    def found(noise: jfstat.Noise) -> float:
        return float(jfstat.twoF(jfstat.prepare(sfts, f, f, START, noise, guard=0.3, filters=False), point))

    known = found(jfstat.Noise(SQRT_SX))
    return {name: found(noise) / known for name, noise in ways.items()}


def noise_mean(rng: np.random.Generator, days: float, ways: Ways = WAYS) -> dict[str, float]:
    """Mean of 2F over a band of Gaussian noise, with a floor estimated in each way."""
    times, f = start_times(rng, days), 1234.0
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], fmin=f - 2, fmax=f + 2, timestamps=times, sqrt_sx=SQRT_SX, seed=int(rng.integers(2**31))
    )
    point = jfstat.Doppler(rng.uniform(0, 2 * np.pi), 0.3, [f, 0.0], START)
    return {
        name: float(np.nanmean(jfstat.twoF_band(jfstat.prepare(sfts, f - 0.3, f + 0.3, START, noise), point)))
        for name, noise in ways.items()
    }


def summary(cases: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean, its error, and standard deviation of each way over cases."""
    result = {}
    for name in WAYS:
        x = np.array([case[name] for case in cases])
        result[name] = {
            "mean": round(float(x.mean()), 5),
            "error of the mean": round(float(x.std(ddof=1) / np.sqrt(len(x))), 5) if len(x) > 1 else np.nan,
            "standard deviation": round(float(x.std(ddof=1)), 5) if len(x) > 1 else np.nan,
        }
    return result


def measured(signals: int, bands: int, cases: list[tuple[float, float]], save: Any = None) -> dict[str, Any]:
    """All figures; `save` is called with them after each."""
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {"signals": signals, "2F over 2F with the known floor": rows}
    for days, twoF in cases:
        rng = np.random.default_rng([int(days * 10), int(twoF)])
        rows.append({"days": days, "2F": twoF} | summary([case(rng, days, twoF) for _ in range(signals)]))
        print(rows[-1], flush=True)
        if save:
            save(result)
    rng = np.random.default_rng(3)
    result["mean of 2F in noise"] = summary([noise_mean(rng, 2.0) for _ in range(bands)])
    print(result["mean of 2F in noise"])
    if save:
        save(result)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--signals", type=int, default=12)
    given = parser.parse_args()

    def save(result: dict[str, Any]) -> None:
        """Write what there is so far."""
        if given.output:
            command = f"python examples/noise_floors.py --signals {given.signals} --output examples/noise_floors.json"
            given.output.write_text(json.dumps({"command": command} | result, indent=1) + "\n")

    measured(given.signals, 6, [(1.0, 500.0), (10.0, 500.0), (1.0, 5000.0), (1.0, 50000.0)], save)
