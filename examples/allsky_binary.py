"""Search 0.1 Hz of simulated data for unknown binaries over the whole sky, and follow candidates up to coherent 2F.

    python examples/allsky_binary.py --depths 8 12 16 --output examples/allsky_binary.json

Ten days of two detectors. Data sets hold ten signals each, one in every 0.01 Hz, with random sky position, orbit,
inclination and polarisation; the sensitivity depth sqrt(S)/h0 is the same for all. One bank of the whole sky and of all
orbits searches the power along tracks in each data set. The loudest candidate of each 0.01 Hz counts if the probability
that noise has one as loud in the whole search is below 1 %; it is then followed up through ever longer segments. A
signal is found if the last stage's frequency and orbit are the signal's, within five standard deviations.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402

START, DAY, NOISE = 1_167_458_304, 86_400.0, 1e-23
SPAN, FMIN, FMAX, GUARD = 10 * DAY, 100.0, 100.1, 0.35
ASINI, PERIOD = (0.2, 0.6), (1.0 * DAY, 1.5 * DAY)
TP = START, START + PERIOD[1]
SUB_BAND, ALARM, RATIO = 0.01, 0.01, 6.5
"""Width of the sub-bands, Hz, the false-alarm probability of a candidate, and the critical ratio of those looked at."""
SKY_MISMATCH, ORBIT_MISMATCH = 0.15, 0.25
STAGES = (120, 60, 30, 15, 5, 1)
FITTED = ["freq", "alpha", "delta", "asini", "period", "tp"]


def sky_bank(data: jfstat.NormalisedSFTs) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the whole sky, from boxes of less than a radian."""
    found = []
    edges = np.linspace(-np.pi / 2, np.pi / 2, 7)
    for south, north in pairwise(edges):
        n = max(7, int(np.ceil(2 * np.pi * np.cos(min(abs(south), abs(north))) / 0.6)))
        sides = np.linspace(0, 2 * np.pi, n + 1)
        for west, east in pairwise(sides):
            own = jfstat.template_bank((west, east), (south, north), data=data, mismatch=SKY_MISMATCH, reftime=START)
            found.append(np.stack([own.alpha, own.delta]))
    return tuple(np.concatenate(found, axis=1))


def whole_bank(data: jfstat.NormalisedSFTs) -> jfstat.Doppler:
    """All orbits at each position: their lattice hardly depends on the position."""
    alpha, delta = sky_bank(data)
    orbit = dict(asini=ASINI, period=PERIOD, tp=TP)
    orbits = jfstat.template_bank(1.0, 0.3, orbit=orbit, data=data, mismatch=ORBIT_MISMATCH, reftime=START).orbit
    n, m = len(alpha), len(orbits.asini)
    print(f"{n} positions, {m} orbits", flush=True)
    sky, own = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    fkdot = np.tile([[FMIN, 0.0]], (n * m, 1))
    return jfstat.Doppler(alpha[sky], delta[sky], fkdot, START, jax.tree.map(lambda x: np.asarray(x)[own], orbits))


def drawn(rng: np.random.Generator, h0: float) -> list[tuple[jfstat.Doppler, jfstat.Amplitude]]:
    """A signal in each sub-band."""
    signals = []
    for k in range(round((FMAX - FMIN) / SUB_BAND)):
        f = FMIN + (k + rng.uniform(0.3, 0.7)) * SUB_BAND
        orbit = jfstat.Orbit(rng.uniform(*ASINI), rng.uniform(*PERIOD), START + rng.uniform(0, PERIOD[0]))
        sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
        amplitude = jfstat.Amplitude(h0, *(rng.uniform(*x) for x in ((-1, 1), (0, np.pi / 2), (0, 2 * np.pi))))
        signals.append((jfstat.Doppler(*sky, [f, 0.0], START, orbit), amplitude))
    return signals


def is_signal(row: Any, signal: jfstat.Doppler) -> bool:
    """Whether frequency, size and period of a refined candidate are those of a signal."""
    truth = {"freq": float(signal.fkdot[0]), "asini": float(signal.orbit.asini), "period": float(signal.orbit.period)}
    return all(
        abs(row[name].value - value) < 5 * max(row[f"{name}_error"].value, 1e-7 * value)
        for name, value in truth.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=float, nargs="+", default=[8.0, 12.0, 16.0], help="1/sqrt(Hz)")
    parser.add_argument("--sets", type=int, default=10, help="data sets at each depth, of ten signals each")
    parser.add_argument("--follow", type=int, default=10, help="data sets at each depth whose candidates are followed")
    parser.add_argument("--noise", type=int, default=3, help="data sets without signals")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    bank, rows, times = None, [], {"search": [], "follow_up": []}
    band = dict(fmin=FMIN - GUARD, fmax=FMAX + GUARD, sqrt_sx=NOISE)
    cases = [(0.0, k) for k in range(options.noise)] + [(d, k) for d in options.depths for k in range(options.sets)]
    for depth, k in cases:
        rng = np.random.default_rng([int(10 * depth), k])
        signals = drawn(rng, NOISE / depth) if depth else []
        sfts = jfstat.simulate_sfts(["H1", "L1"], START, SPAN, **band, signals=signals, seed=int(rng.integers(1 << 30)))
        data = jfstat.normalise(sfts, FMIN, FMAX)
        if bank is None:
            began = time.perf_counter()
            bank = whole_bank(data)
            made = time.perf_counter() - began
        began = time.perf_counter()
        found = jfstat.search(data, bank, top=200_000, threshold=RATIO, progress=False)
        times["search"].append(time.perf_counter() - began)
        alarm = 1e-300 + found["false_alarm"] * found.meta["n_twoF"]
        number = np.floor((found["freq"].value - FMIN) / SUB_BAND + 1e-6).astype(int)
        loudest = [np.flatnonzero((number == i) & (alarm < ALARM))[:1] for i in range(len(signals) or 10)]
        chosen = np.concatenate(loudest)
        own = {int(number[i]): float(found["critical_ratio"][i]) for i in chosen}
        passed: dict[int, bool] = {}
        if len(chosen) and k < options.follow:
            began = time.perf_counter()
            rungs = jfstat.follow_up(
                sfts, found[chosen], stages=STAGES, fit=jfstat.Fit(FITTED), sqrt_sx=NOISE, progress=False
            )
            times["follow_up"].append((time.perf_counter() - began, len(chosen)))
            for row in jfstat.last_stage(rungs):
                i = int(number[chosen[row["candidate"]]])
                same = bool(signals) and is_signal(row, signals[i][0])
                passed[i] = bool(row["passed"]) and same
                print(i, row["stage"], row["n_segments"], f"{row['mean_twoF']:.1f}", row["passed"], same, flush=True)
        rows.append({"depth": depth, "set": k, "found": own, "followed": passed, "above": len(found)})
        print(rows[-1], {name: x[-1] for name, x in times.items() if x}, flush=True)
    report = {
        "command": " ".join(["python", "examples/allsky_binary.py", *map(shlex.quote, sys.argv[1:])]),
        "device": str(jax.devices()[0].device_kind),
        "versions": {"jax": jax.__version__, "jfstat": jfstat.__version__},
        "templates": len(bank.alpha),
        "frequencies": data.layout.n_frequencies,
        "bank_seconds": round(made, 1),
        "search_seconds": float(np.median(times["search"])),
        "follow_up_seconds": times["follow_up"],
        "depths": {
            f"{depth:g}": {
                "signals": 10 * sum(r["depth"] == depth for r in rows) * (depth > 0),
                "candidates": sum(len(r["found"]) for r in rows if r["depth"] == depth),
                "followed": sum(len(r["followed"]) for r in rows if r["depth"] == depth),
                "recovered": sum(sum(r["followed"].values()) for r in rows if r["depth"] == depth),
            }
            for depth in dict.fromkeys(r["depth"] for r in rows)
        },
        "sets": rows,
    }
    print(json.dumps({name: x for name, x in report.items() if name != "sets"}, indent=1))
    if options.output:
        with replacing(options.output) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
