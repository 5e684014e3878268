"""Pulls of start times and durations from `refine`, over injected transient signals with random skies and windows.

    python examples/transient_injections.py                       # 200 signals of either shape, on all cores
    python examples/transient_injections.py --processes 32 --each 200 --lines /tmp/lines.jsonl

Each signal is in four days of H1 and L1 with noise of its own, at a random sky position, frequency and spin-down, with
random start and duration. `search` with `Transient` looks for it with 13 spin-downs at its sky position and windows in
steps of four hours, and `refine` fits frequency, spin-down, t0 and tau of the loudest candidate, with ``--sky`` its
position too. A pull is the difference between fit and truth over the error. Each signal is a line of JSON, appended as
soon as it is done; signals whose lines are there are not done again. LALSuite is not needed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

JSON = Path(__file__).with_suffix(".json")
START, DAYS, SQRT_SX = 1_167_458_304, 4, 1e-23
STEP = 14400.0
SHAPES = ("rectangular", "exponential")
PULLS, SKY = ("t0", "tau", "freq", "f1dot"), ("alpha", "delta")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sky", action="store_true", help="fit the sky position too")
    parser.add_argument("--each", type=int, default=200, help="signals of each shape")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="signals at a time, each on a core")
    parser.add_argument("--lines", type=Path, help="file of lines, one a signal")
    parser.add_argument("--output", type=Path, help="summary")
    options = parser.parse_args()
    own = JSON.with_stem(JSON.stem + "_sky") if options.sky else JSON
    options.output = options.output or own
    options.lines = options.lines or own.with_suffix(".jsonl")
    done = {(row["shape"], row["seed"]) for row in rows(options.lines)}
    jobs = [(shape, seed, options.sky) for seed in range(options.each) for shape in SHAPES if (shape, seed) not in done]
    began = time.perf_counter()
    if jobs:
        context, n = multiprocessing.get_context("spawn"), min(options.processes, len(jobs))
        with context.Pool(n, on_one_core) as pool, options.lines.open("a") as file:
            for row in pool.imap_unordered(injected, jobs):
                file.write(json.dumps(row) + "\n")
                file.flush()
    report = summary(rows(options.lines), time.perf_counter() - began if jobs else None, options)
    print(json.dumps(report, indent=1))
    options.output.write_text(json.dumps(report, indent=1) + "\n")


def on_one_core() -> None:
    """Keep a process of the pool on a core, before it imports JAX."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        number = multiprocessing.current_process()._identity[0]
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def injected(job: tuple[str, int, bool]) -> dict[str, Any]:
    """One signal, searched for and refined."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jfstat

    shape, seed, sky = job
    random = np.random.default_rng([seed, SHAPES.index(shape)])
    span = DAYS * 86400.0
    alpha, delta = random.uniform(0, 2 * np.pi), np.arcsin(random.uniform(-1, 1))
    freq, f1dot = 100.0 + random.uniform(-1e-4, 1e-4), random.uniform(-3e-10, 3e-10)
    tau = random.uniform(0.15, 0.5) * span if shape == "rectangular" else random.uniform(0.05, 0.15) * span
    length = tau if shape == "rectangular" else 3 * tau
    t0 = START + random.uniform(0.02 * span, 0.98 * span - length)
    point = jfstat.Doppler(alpha, delta, [freq, f1dot], START)
    window = jfstat.TransientWindow(shape, t0, tau)
    amplitude = dict(cosi=random.uniform(-1, 1), psi=random.uniform(-0.75, 0.75), phi0=random.uniform(0, 6))
    observed = jfstat.windowed(
        jfstat.prepare(jfstat.simulate_sfts(["H1", "L1"], START, span, 99.4, 100.6, sqrt_sx=SQRT_SX, seed=0),
                       99.99, 100.01, sqrt_sx=SQRT_SX, guard=0.5), window)  # fmt: skip
    unit = float(jfstat.predict_twoF(observed, point, jfstat.Amplitude(1e-24, **amplitude))) - 4
    rho2 = random.uniform(80.0, 250.0)
    h0 = 1e-24 * np.sqrt(rho2 / unit)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, span, 99.4, 100.6, sqrt_sx=SQRT_SX, seed=seed + 1,
        signals=[(point, jfstat.Amplitude(h0, **amplitude), window)],
    )  # fmt: skip
    data = jfstat.prepare(sfts, 99.99, 100.01, sqrt_sx=SQRT_SX, guard=0.5)
    fkdot = np.array([[100.0, x] for x in np.linspace(-3e-10, 3e-10, 13)])
    bank = jfstat.Doppler(np.full(13, alpha), np.full(13, delta), fkdot, START)
    n = int(span / STEP)
    scales = STEP * np.arange(1, n + 1) if shape == "rectangular" else STEP * np.arange(1, n // 3)
    wanted = jfstat.TransientRange(shape, START + STEP * np.arange(n), scales)
    found = jfstat.search(data, bank, jfstat.Transient(wanted), top=1, progress=False)
    names = (*SKY, "freq", "f1dot") if sky else None
    better = jfstat.refine(data, found, fit=jfstat.Fit(names), progress=False)[0]

    def plain(x: Any) -> float:
        return float(getattr(x, "value", x))

    truth = {"t0": t0, "tau": tau, "freq": freq, "f1dot": f1dot} | ({"alpha": alpha, "delta": delta} if sky else {})
    off = {name: plain(better[name]) - x for name, x in truth.items()}
    if sky:
        off["alpha"] = (off["alpha"] + np.pi) % (2 * np.pi) - np.pi
    pulls = {name: x / plain(better[f"{name}_error"]) for name, x in off.items()}
    return {
        "shape": shape,
        "seed": seed,
        "rho2": rho2,
        "tau": tau,
        "h0": h0,
        "max_twoF": plain(found["max_twoF"][0]),
        "twoF": plain(better["twoF"]),
        "h0_pull": (plain(better["h0"]) - h0) / plain(better["h0_error"]),
        "errors": {name: plain(better[f"{name}_error"]) for name in truth},
        "pulls": pulls,
        "converged": bool(better["converged"]),
        "message": str(better["message"]),
    }


def summary(found: list[dict[str, Any]], seconds: float | None, options: argparse.Namespace) -> dict[str, Any]:
    report: dict[str, Any] = {
        "what": "pulls (fit minus truth over error) of transient signals found by search(Transient) and refined",
        "command": f"python examples/transient_injections.py --each {options.each} --processes {options.processes}"
        + " --sky" * options.sky,
        "data": f"{DAYS} d of H1 and L1 near 100 Hz, rho^2 within the window 80 to 250, windows in steps of {STEP:g} s",
        "seconds": seconds,
    }
    for shape in SHAPES:
        own = [row for row in found if row["shape"] == shape]
        if not own:
            continue
        good = [row for row in own if row["converged"]]
        report[shape] = {"signals": len(own), "converged": len(good)}
        for name in (*PULLS, *SKY) if options.sky else PULLS:
            pulls = np.array([row["pulls"][name] for row in good])
            report[shape][name] = {
                "mean": float(pulls.mean()),
                "standard deviation": float(pulls.std()),
                "share within 1 and 2 errors": [float(np.mean(np.abs(pulls) < k)) for k in (1, 2)],
                "largest": float(np.abs(pulls).max()),
                "median error": float(np.median([row["errors"][name] for row in good])),
            }
    return report


if __name__ == "__main__":
    main()
