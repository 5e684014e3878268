"""Search 0.1 Hz of simulated data for unknown binaries over the whole sky, and follow candidates up to coherent 2F.

    python examples/allsky_binary.py --output examples/allsky_binary.json

Ten days of two detectors. Data sets hold two signals each, one in each half of the band, with random sky position,
orbit, inclination and polarisation; the sensitivity depth sqrt(S)/h0 is the same for all. One bank of the whole sky and
of all orbits searches the power along tracks in each data set. A signal is detected if the loudest candidate of its
half is within a bin and the Doppler shift of wrong sky positions of it, and the probability that noise has one as loud
in the whole search is below 1 %. The candidates of the first data sets are followed up through ever longer segments. A
signal is recovered if its candidate passes all stages and ends at the signal's frequency, size and period of the orbit,
within five standard deviations.
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
ASINI, PERIOD = (0.2, 0.4), (1.0 * DAY, 1.2 * DAY)
TP = START, START + PERIOD[1]
HALF, ALARM, RATIO, SHIFT = 0.05, 0.01, 6.0, 0.02
"""Width of half the band, Hz; false-alarm probability of a candidate, critical ratio of those looked at, and Doppler
shift, Hz, that wrong positions in the sky make."""
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
    """A signal in each half of the band."""
    signals = []
    for low in (FMIN, FMIN + HALF):
        f = low + rng.uniform(0.3, 0.7) * HALF
        orbit = jfstat.Orbit(rng.uniform(*ASINI), rng.uniform(*PERIOD), START + rng.uniform(0, PERIOD[0]))
        sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
        amplitude = jfstat.Amplitude(h0, *(rng.uniform(*x) for x in ((-1, 1), (0, np.pi / 2), (0, 2 * np.pi))))
        signals.append((jfstat.Doppler(*sky, [f, 0.0], START, orbit), amplitude))
    return signals


def made(depth: float, k: int) -> tuple[jfstat.SFTs, list[tuple[jfstat.Doppler, jfstat.Amplitude]]]:
    """A data set, and its signals; none at a depth of 0."""
    rng = np.random.default_rng([int(10 * depth), k])
    signals = drawn(rng, NOISE / depth) if depth else []
    band = dict(fmin=FMIN - GUARD, fmax=FMAX + GUARD, sqrt_sx=NOISE, seed=int(rng.integers(1 << 30)))
    return jfstat.simulate_sfts(["H1", "L1"], START, SPAN, signals=signals, **band), signals


def searched(bank: jfstat.Doppler, depth: float, k: int) -> dict[str, Any]:
    """Search a data set: the loudest candidates of the halves, and whether they are the signals."""
    sfts, signals = made(depth, k)
    row: dict[str, Any] = {"depth": depth, "set": k, "candidates": [], "seconds": 0.0}
    for half, low in enumerate((FMIN, FMIN + HALF)):
        data = jfstat.normalise(sfts, low, low + HALF - 1e-4, sqrt_sx=NOISE)
        began = time.perf_counter()
        found = jfstat.search(data, bank, top=3, threshold=RATIO, progress=False)
        row["seconds"] += time.perf_counter() - began
        if len(found) and (alarm := 2 * found.meta["false_alarm"]) < ALARM:  # two halves
            own = {name: float(np.asarray(found[name][0])) for name in (*FITTED, "critical_ratio")}
            near = bool(signals) and abs(own["freq"] - float(signals[half][0].fkdot[0])) < SHIFT
            row["candidates"].append(own | {"half": half, "false_alarm": alarm, "detected": near})
    return row


def followed(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Follow up the candidates of a data set."""
    sfts, signals = made(row["depth"], row["set"])
    own = row["candidates"]
    at = {name: np.array([x[name] for x in own]) for name in FITTED}
    orbit = jfstat.Orbit(at["asini"], at["period"], at["tp"], np.zeros(len(own)), np.zeros(len(own)))
    fkdot = np.stack([at["freq"], np.zeros(len(own))], axis=-1)
    points = jfstat.Doppler(at["alpha"], at["delta"], fkdot, START, orbit)
    rungs = jfstat.follow_up(sfts, points, stages=STAGES, fit=jfstat.Fit(FITTED), sqrt_sx=NOISE, progress=False)
    results = []
    for last in jfstat.last_stage(rungs):
        half = own[int(last["candidate"])]["half"]
        same = bool(signals) and is_signal(last, signals[half][0])
        results.append(
            {
                "half": half,
                "stage": int(last["stage"]),
                "mean_twoF": float(last["mean_twoF"]),
                "passed": bool(last["passed"]),
                "is_signal": same,
                "recovered": bool(last["passed"]) and same,
            }
        )
    return results


def is_signal(row: Any, signal: jfstat.Doppler) -> bool:
    """Whether frequency, size and period of a refined candidate are those of a signal."""
    truth = {"freq": signal.fkdot[0], "asini": signal.orbit.asini, "period": signal.orbit.period}  # type: ignore
    return all(
        abs(row[name].value - float(value)) < 5 * max(row[f"{name}_error"].value, 1e-10 * float(value))
        for name, value in truth.items()
    )


def summed(rows: list[dict[str, Any]], depth: float) -> dict[str, int]:
    """Numbers of signals at one depth: all, detected, followed up, recovered."""
    own = [row for row in rows if row["depth"] == depth]
    results = [x for row in own for x in row.get("followed", [])]
    return {
        "signals": 2 * len(own) * (depth > 0),
        "candidates": sum(len(row["candidates"]) for row in own),
        "detected": sum(x["detected"] for row in own for x in row["candidates"]),
        "followed": len(results),
        "passed": sum(x["passed"] for x in results),
        "recovered": sum(x["recovered"] for x in results),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depths", type=float, nargs="+", default=[12.0, 16.0, 20.0], help="1/sqrt(Hz)")
    parser.add_argument("--sets", type=int, default=50, help="data sets at each depth, of two signals each")
    parser.add_argument("--noise", type=int, default=5, help="data sets without signals")
    parser.add_argument("--follow", type=int, default=10, help="data sets at each depth whose candidates are followed")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing new after this time")
    parser.add_argument("--resume", type=Path, help="report to go on with")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    began = time.perf_counter()
    rows: list[dict[str, Any]] = json.loads(options.resume.read_text())["sets"] if options.resume else []
    done = {(row["depth"], row["set"]) for row in rows}
    depths = [0.0, *options.depths]
    cases = [(d, k) for k in range(options.sets) for d in depths if k < (options.sets if d else options.noise)]
    device = jax.devices()[0].device_kind
    waiting = [case for case in cases if case not in done]
    bank = None
    if waiting:
        bank = whole_bank(jfstat.normalise(made(0.0, 0)[0], FMIN, FMAX, sqrt_sx=NOISE))
        print(f"bank: {time.perf_counter() - began:.0f} s", flush=True)

    def report() -> None:
        found = {
            "command": " ".join(["python", "examples/allsky_binary.py", *map(shlex.quote, sys.argv[1:])]),
            "device": str(device),
            "versions": {"jax": jax.__version__, "jfstat": jfstat.__version__},
            "seconds_a_search": float(np.median([row["seconds"] for row in rows])),
            "depths": {f"{depth:g}": summed(rows, depth) for depth in depths},
            "sets": rows,
        }
        with replacing(options.output) as file:
            file.write((json.dumps(found, indent=1) + "\n").encode())
        print({name: x for name, x in found.items() if name != "sets"}, flush=True)

    for n, (depth, k) in enumerate(waiting):
        if bank is None or time.perf_counter() - began > options.seconds:
            break
        rows.append(searched(bank, depth, k))
        if n % 20 == 0:
            report()
    report()
    for row in rows:
        if row["set"] >= options.follow or not row["candidates"] or "followed" in row:
            continue
        if time.perf_counter() - began > options.seconds:
            break
        start = time.perf_counter()
        row["followed"] = followed(row)
        row["follow_up_seconds"] = time.perf_counter() - start
        print(row["depth"], row["set"], f"{row['follow_up_seconds']:.0f} s", row["followed"], flush=True)
    report()


if __name__ == "__main__":
    main()
