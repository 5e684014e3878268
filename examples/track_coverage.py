"""How much of their power random signals lose in banks laid by the metric of tracks, compared with the mismatch.

    python examples/track_coverage.py --output examples/track_coverage.json

Six days of two detectors with gaps, 60 Hz. Of each of 2000 signals the nearest template counts, found among all of
them by a direct sum: the mean square of the distance between the tracks, for the best frequency. For power in the
nearest bins the loss is also that of the power of signals without noise, averaged over frequencies between two bins.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402
from jfstat.banks.comparison import JOINED_BINS, NEAREST_BIN  # noqa: E402
from jfstat.signal.values import with_fields  # noqa: E402
from jfstat.statistic.trackpower import sky_position, track  # noqa: E402

START, DAY, TSFT, F, NOISE = 1_167_458_304, 86_400, 1800, 60.0, 4e-24
ORBITS = {
    "orbits": dict(asini=(0.2, 0.3), period=(0.9 * DAY, DAY), tp=(START, START + DAY)),
    "eccentric orbits": dict(asini=(0.2, 0.22), period=DAY, tp=(START, START + 5e3), ecc=(0.0, 0.3), argp=(0.0, 1.0)),
    "orbits and sky": dict(asini=(0.1, 0.15), period=(DAY, 1.1 * DAY), tp=(START, START + DAY)),
}
RANGES: dict[str, dict[str, Any]] = {
    "sky and f1dot": dict(alpha=(1.0, 1.5), delta=(-0.6, -0.1), f1dot=(-2e-8, 0.0)),
    "orbits": dict(alpha=1.0, delta=0.3, orbit=ORBITS["orbits"]),
    "eccentric orbits": dict(alpha=1.0, delta=0.3, orbit=ORBITS["eccentric orbits"]),
    "orbits and sky": dict(alpha=(1.0, 1.2), delta=(0.3, 0.5), orbit=ORBITS["orbits and sky"]),
}
MEAN_POWER = 0.7737
"""Mean of sinc^2 over the nearest bin."""


def drawn(rng: np.random.Generator, n: int, ranges: dict[str, Any]) -> jfstat.Doppler:
    """Signals uniform in the ranges."""
    given = dict(f1dot=0.0) | {name: x for name, x in ranges.items() if name != "orbit"} | ranges.get("orbit", {})
    at = {name: rng.uniform(*x, n) if isinstance(x, tuple) else np.full(n, float(x)) for name, x in given.items()}
    orbit = None
    if "orbit" in ranges:
        angles = (at.get(name, np.zeros(n)) for name in ("ecc", "argp"))
        orbit = jfstat.Orbit(at["asini"], at["period"], at["tp"], *angles)
    return jfstat.Doppler(at["alpha"], at["delta"], np.stack([np.full(n, F), at["f1dot"]], axis=-1), START, orbit)


def tracks_of(data: jfstat.NormalisedSFTs, points: Any) -> np.ndarray:
    """Tracks in bins, (n, N), of SFTs that exist."""
    there = np.asarray(data.observation.weight).reshape(-1) > 0

    def one(point: jfstat.Doppler) -> jax.Array:
        return track(data, sky_position(data, point), point, 5)[0].reshape(-1)

    every = jax.jit(lambda p: jax.lax.map(one, p, batch_size=256))(jax.tree.map(np.asarray, points))
    return np.asarray(every)[:, there] * TSFT


def measured(name: str, bins: int, mismatch: float, n: int) -> dict[str, Any]:
    """Losses of random signals in one bank."""
    rng = np.random.default_rng([bins, *name.encode()])
    times = {x: START + TSFT * np.sort(rng.choice(288, 173, replace=False)) for x in ("H1", "V1")}
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=F - 1, fmax=F + 1, sqrt_sx=NOISE, seed=1)
    data = jfstat.normalise(sfts, F - 0.01, F, bins=bins, sqrt_sx=NOISE)
    began = time.perf_counter()
    bank = jfstat.template_bank(**RANGES[name], data=data, mismatch=mismatch, reftime=START)
    seconds = time.perf_counter() - began
    fkdot = np.asarray(bank.fkdot).copy()
    fkdot[:, 0] = F
    templates = tracks_of(data, with_fields(bank, fkdot=fkdot)).astype(np.float32)
    signals = tracks_of(data, drawn(rng, n, RANGES[name]))
    other = (templates - templates.mean(axis=1, keepdims=True)).astype(np.float64)
    norm = np.mean(other**2, axis=1)
    square, index = np.empty(n), np.empty(n, int)
    for i, own in enumerate(signals - signals.mean(axis=1, keepdims=True)):
        each = norm - 2 * (other @ own) / own.size + np.mean(own**2)
        index[i] = np.argmin(each)
        square[i] = each[index[i]]
    lost = (NEAREST_BIN if bins == 1 else JOINED_BINS) * square
    row = {
        "ranges": name,
        "bins": bins,
        "mismatch": mismatch,
        "templates": len(bank.alpha),
        "seconds": round(seconds, 2),
        "signals": n,
        "mean_over_m": float(np.mean(lost)) / mismatch,
        "largest_over_m": float(np.max(lost)) / mismatch,
        "fraction_above": float(np.mean(lost > mismatch)),
    }
    if bins == 1:
        best = templates[index] - np.mean(templates[index] - signals, axis=1, keepdims=True)
        place = rng.uniform(size=(200, 1, 1))  # of the frequency between two bins
        power = [
            np.mean(np.sinc(s - np.round(b + place[:, 0]) + place[:, 0]) ** 2)
            for s, b in zip(signals, best, strict=True)
        ]
        own = 1 - np.array(power) / MEAN_POWER
        row |= {
            "mean_of_power_over_m": float(np.mean(own)) / mismatch,
            "largest_of_power_over_m": float(np.max(own)) / mismatch,
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--signals", type=int, default=2000)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    rows = []
    for name in RANGES:
        for bins in (1, 4):
            rows.append(measured(name, bins, 0.3, given.signals))
            print(rows[-1], flush=True)
            command = "python " + shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
            with replacing(given.output) as file:
                file.write((json.dumps({"command": command, "banks": rows}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
