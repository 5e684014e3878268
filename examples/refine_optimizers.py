"""Optimisers of optax beside the Newton method of `jfstat.refine`: time, compilation, and how many reach the peak.

    python examples/refine_optimizers.py --output examples/refine_optimizers.json

Three kinds of candidates, H1 and L1, signals of random sky, spin-down and amplitude in noise, 2F of 60 to 300 (of the
segments: of their sum, less its mean in noise), several in one data set:

- ``data``: 4 d, a candidate's sky position, frequency and f1dot;
- ``segments``: the same over 50 segments of 12 h, a day apart;
- ``model``: 4 d, a known sky position, frequency, f1dot and the 18 coefficients of a phase model, 20 parameters, of
  which only the frequency is covered beforehand (`mismatch=0`).

The starts are in random directions of whitened coordinates, where 20 to 60 % of rho^2 are lost by the metric. All
optimisers have the same starts. Times are of the CPU, so that other work on the machine counts less, of calls after the
first, the shortest of `REPEATS`, divided by the candidates; compilation is that of the program that climbs, tracing
included, by the clock. A candidate has reached the peak if its 2F (the sum over segments) is within `SAME` of the
highest that any of the optimisers found for it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402

START, DAY = 1_167_458_304, 86400
FREQ, APART, GUARD = 137.0, 0.04, 0.3
"""Of the signals, and how far they are apart; Hz."""
HARMONICS = 9
"""Of the phase model, each with a sine and a cosine."""
SEGMENTS = 50
SAME = 1e-3
REPEATS = 1
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Newton": lambda: None,
    "optax.lbfgs(1.0, linesearch=None)": lambda: optax.lbfgs(1.0, linesearch=None),
    "optax.adam(0.05)": lambda: optax.adam(0.05),
    "optax.lbfgs()": lambda: optax.lbfgs(),
}

COMPILING: list[float] = []
"""Seconds that tracing, lowering and compiling the program that climbs took."""


def note_compiling(event: str, duration_secs: float, **kwargs: str | int) -> None:
    """Add to `COMPILING` what JAX says of `jfstat.followup.climb.climb`."""
    if event.startswith("/jax/core/compile/") and kwargs.get("fun_name") in ("climb", "jit(climb)"):
        COMPILING.append(duration_secs)


def waves(t: jax.Array, p: jax.Array) -> jax.Array:
    """Slow waves of the phase, in cycles: the first harmonics of 4 d."""
    turns = 2 * jnp.pi * t / (4 * DAY) * jnp.arange(1.0, HARMONICS + 1)
    return p[:HARMONICS] @ jnp.sin(turns) + p[HARMONICS:] @ jnp.cos(turns)


def signals(kind: str, n: int, rng: np.random.Generator) -> list[jfstat.Doppler]:
    """n signals, `APART` in frequency."""
    points = []
    for k in range(n):
        fkdot = [FREQ + APART * (k - 0.5 * (n - 1)), rng.uniform(-1e-9, 1e-9)]
        model = jfstat.PhaseModel(waves, rng.normal(0, 0.2, 2 * HARMONICS)) if kind == "model" else None
        sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
        points.append(jfstat.Doppler(*sky, fkdot, START + 2 * DAY, model=model))
    return points


def data_set(kind: str, n: int, seed: int) -> tuple[jfstat.FstatData, list[jfstat.Doppler]]:
    """Prepared data with n signals in noise, and the signals."""
    rng = np.random.default_rng([seed, len(kind)])
    points = signals(kind, n, rng)
    half = 0.5 * APART * n
    edge = half + 1.3e-4 * FREQ + 0.02 + GUARD
    days = SEGMENTS if kind == "segments" else 4
    slots = np.arange(48 * days)
    times = {name: START + 1800 * (slots[slots % 48 < 24] if kind == "segments" else slots) for name in ("H1", "L1")}
    noise = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=FREQ - edge, fmax=FREQ + edge, sqrt_sx=4e-24, seed=int(rng.integers(2**31))
    )
    pairs = [(START + i * DAY, START + i * DAY + DAY // 2) for i in range(SEGMENTS)] if kind == "segments" else None
    prepared: dict[str, Any] = dict(fmin=FREQ - half, fmax=FREQ + half, sqrt_sx=4e-24, guard=GUARD, filters=False)
    whole = jfstat.observation(noise, sqrt_sx=4e-24)
    signal = []
    for point in points:
        angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
        unit = float(jfstat.predict_twoF(whole, point, jfstat.Amplitude(1e-24, *angles))) - 4
        rho2 = rng.uniform(56, 296) * (2 if kind == "segments" else 1)
        signal.append((point, jfstat.Amplitude(1e-24 * np.sqrt(rho2 / unit), *angles)))
    return jfstat.prepare(jfstat.inject(noise, signal), segments=pairs, **prepared), points


def starts(data: jfstat.FstatData, points: list[jfstat.Doppler], names: list[str], n: int, seed: int) -> jfstat.Doppler:
    """n templates about each signal that have lost 20 to 60 % of rho^2, a stack."""
    rng = np.random.default_rng([seed, 1])
    found = []
    for point in points:
        coordinates = jfstat.whiten(data, point, names)
        x = rng.normal(size=(n, len(names)))
        x *= (np.sqrt(rng.uniform(0.2, 0.6, n)) / np.linalg.norm(x, axis=1))[:, None]
        found.append(jax.vmap(coordinates.point)(jnp.asarray(x)))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *found)


def measured(kind: str, chosen: list[str], n_signals: int, n_starts: int, seed: int) -> dict[str, Any]:
    """Some optimisers, Newton's method among them, on one kind of candidates."""
    data, points = data_set(kind, n_signals, seed)
    names = ["freq", "f1dot", "alpha", "delta"]
    fit = jfstat.Fit(names)
    if kind == "model":
        names = ["freq", "f1dot", *(f"model[{i}]" for i in range(2 * HARMONICS))]
        fit = jfstat.Fit(names, mismatch=0.0)
    found = starts(data, points, names, n_starts, seed)
    tables, rows = {}, []
    for name in chosen:
        make = OPTIMIZERS[name]
        COMPILING.clear()
        jfstat.refine(data, found, make(), fit, progress=False)
        seconds, cpu = sum(COMPILING), []
        for _ in range(REPEATS):
            began = time.process_time()
            tables[name] = jfstat.refine(data, found, make(), fit, progress=False)
            cpu.append(time.process_time() - began)
        rows.append({"optimizer": name, "cpu_ms": 1e3 * min(cpu) / len(found.alpha), "compilation_s": seconds})
        print(kind, rows[-1], flush=True)
    loud = "mean_twoF" if kind == "segments" else "twoF"
    heights = {name: np.asarray(table[loud]) * (data.n_segments or 1) for name, table in tables.items()}
    best = np.nanmax(list(heights.values()), axis=0)
    newton = tables["Newton"]
    for row in rows:
        table = tables[row["optimizer"]]
        row["reached"] = float(np.mean(heights[row["optimizer"]] > best - SAME))
        row["converged"] = float(np.mean(table["converged"]))
        row["steps"] = float(np.mean(table["steps"]))
        same = np.abs(heights[row["optimizer"]] - heights["Newton"]) < SAME
        ratio = [np.asarray(table[f"{x}_error"] / newton[f"{x}_error"])[same] for x in names]
        row["errors_differ"] = float(np.nanmax(np.abs(np.array(ratio) - 1))) if np.any(same) else None
    return {"kind": kind, "candidates": len(found.alpha), "parameters": len(names), "rows": rows}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["data", "segments", "model"])
    parser.add_argument("--optimizers", nargs="+", default=list(OPTIMIZERS), choices=list(OPTIMIZERS))
    parser.add_argument("--signals", type=int, default=2)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    jax.monitoring.register_event_duration_secs_listener(note_compiling)
    report: dict[str, Any] = {"cores": os.cpu_count(), "jax": jax.__version__, "optax": optax.__version__}
    report |= {"command": shlex.join(["python", *sys.argv]), "seed": given.seed, "results": []}
    for kind in given.kinds:
        before = os.getloadavg()[0]
        result = measured(kind, given.optimizers, given.signals, given.starts, given.seed)
        report["results"].append(result | {"load_before": before, "load_after": os.getloadavg()[0]})
        print(json.dumps(result, indent=1), flush=True)
        if given.output is not None:
            with replacing(given.output) as part:
                part.write(f"{json.dumps(report, indent=1)}\n".encode())


if __name__ == "__main__":
    main()
