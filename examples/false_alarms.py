"""Claimed and seen false alarms of searches in noise with instrumental lines and drifting floors.

    python examples/false_alarms.py --searches 1000 --processes 16 --output false_alarms.json

Each search is directed: a random position in the sky, a band of 0.1 Hz at random frequencies about 200 Hz, two days of
two detectors with gaps, and a few spin-downs. The noise is Gaussian and stationary; or its floor drifts by factors from
SFT to SFT and has a slope, and there are some lines: steady, drifting or wandering, in one or both detectors, from
hardly visible to loud. Searches claim a false alarm where the smallest probability of their candidates is below 10 % or
1 %, by the formula for Gaussian noise (`false_alarm`) and by the measured background (`empirical_false_alarm`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402

START, DAYS, TSFT, SQRT_SX, DETECTORS = 1_167_458_304, 2.0, 1800, 4e-24, ("H1", "L1")
WIDTH, GUARD = 0.1, 0.3
LEVELS = 0.1, 0.01
KINDS = "gaussian noise", "lines and drifts"


def start_times() -> dict[str, list[int]]:
    """Start times of the SFTs, a quarter of which are missing."""
    rng = np.random.default_rng(0)
    every = START + TSFT * np.arange(round(DAYS * 86400 / TSFT))
    return {name: sorted(rng.choice(every, round(0.75 * len(every)), replace=False).tolist()) for name in DETECTORS}


def noise(rng: np.random.Generator, fmin: float, fmax: float) -> jfstat.SFTs:
    """Gaussian noise with gaps."""
    seed = int(rng.integers(2**31))
    return jfstat.simulate_sfts(DETECTORS, fmin=fmin, fmax=fmax, timestamps=start_times(), sqrt_sx=SQRT_SX, seed=seed)


def drifting(rng: np.random.Generator, sfts: jfstat.SFTs) -> jfstat.SFTs:
    """The noise with a floor that drifts by factors and has a slope over frequency."""
    series = []
    for own in sfts:
        t = own.since(START) / 86400
        drift = sum(
            rng.normal(0, 0.3) * np.sin(2 * np.pi * (t * rate + rng.uniform())) for rate in (0.3, 1.0, 2.7, 7.0)
        )
        slope = np.linspace(-1, 1, own.data.shape[1]) * rng.normal(0, 0.3)
        series.append(replace(own, data=(own.data * np.exp(drift[:, None] + slope)).astype(np.complex64)))
    return replace(sfts, series=tuple(series))


def lines(rng: np.random.Generator, low: float, high: float) -> list[jfstat.Artefact]:
    """Some instrumental lines."""
    found = []
    for _ in range(rng.poisson(2.0)):
        own: dict[str, Any] = {"freq": rng.uniform(low, high), "phi0": rng.uniform(0, 2 * np.pi)}
        own["h0"] = (
            SQRT_SX * np.sqrt(1 / TSFT) * 10 ** rng.uniform(-0.8, 0.7)
        )  # in an SFT: from 0.1 to 3.5 of the noise
        kind = rng.integers(3)
        if kind == 1:
            own["f1dot"] = rng.normal(0, 3e-9)
        elif kind == 2:
            period = rng.uniform(3600, 86400)
            own |= {"period": period, "swing": rng.uniform(0, 1e-3) * period / (2 * np.pi)}
        if rng.uniform() < 0.7:
            own["detectors"] = [str(rng.choice(DETECTORS))]
        found.append(jfstat.Artefact(**own))
    return found


def search(rng: np.random.Generator, disturbed: bool, positions: int | None) -> dict[str, float]:
    """Smallest false-alarm probabilities of a search in noise."""
    f = float(rng.uniform(150, 250))
    alpha, delta = float(rng.uniform(0, 2 * np.pi)), float(np.arcsin(rng.uniform(-0.9, 0.9)))
    sfts = noise(rng, f - GUARD - 0.1, f + WIDTH + GUARD + 0.1)
    if disturbed:
        wing = 1.1e-4 * f
        sfts = jfstat.inject_artefacts(drifting(rng, sfts), lines(rng, f - wing, f + WIDTH + wing))
    data = jfstat.prepare(sfts, f, f + WIDTH, START, guard=GUARD)
    bank = jfstat.Doppler(np.full(3, alpha), np.full(3, delta), [[f, f1dot] for f1dot in (-4e-10, -2e-10, 0.0)])
    found = jfstat.search(data, bank, top=100, details=jfstat.Details(False, False), progress=False)
    measured = jfstat.background(data, bank, positions=positions, progress=False)
    judged = jfstat.empirical_false_alarm(found, measured)
    return {
        "gaussian": found.meta["false_alarm"],
        "empirical": judged.meta["empirical_false_alarm"],
        "loudest": float(found["twoF"][0]),
        **{key: int(x) for key, x in judged.meta["background"].items()},
    }


def rates(searches: list[dict[str, float]]) -> dict[str, Any]:
    """Fractions of searches that claim a false alarm, with the standard deviation that the claim implies."""
    result: dict[str, Any] = {"searches": len(searches)}
    for name in ("gaussian", "empirical"):
        own = np.array([one[name] for one in searches])
        result[name] = {str(p): round(float(np.mean(own <= p)), 5) for p in LEVELS}
    result["standard_deviation"] = {str(p): round(float(np.sqrt(p * (1 - p) / len(searches))), 5) for p in LEVELS}
    for name in ("positions", "subbands", "common", "own", "rank"):
        result[f"mean_{name}"] = round(float(np.mean([one[name] for one in searches])), 2)
    return result


def one_search(seed: int, kind: int, number: int, positions: int | None) -> dict[str, float]:
    """One search of a kind, given what its random numbers depend on."""
    return search(np.random.default_rng([seed, kind, number]), KINDS[kind] == "lines and drifts", positions)


def main() -> None:
    """Run the searches and write their rates."""
    parser = argparse.ArgumentParser(description="claimed and seen false alarms in noise with lines")
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--positions", type=int, help="as for jfstat.background")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    n = arguments.searches
    kinds = "" if arguments.kinds == KINDS else f" --kinds {shlex.join(arguments.kinds)}"
    words = f"--searches {n} --processes {arguments.processes} --seed {arguments.seed}{kinds}"
    result: dict[str, Any] = {"command": f"python examples/false_alarms.py {words}"}
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for kind, name in enumerate(KINDS):
            if name not in arguments.kinds:
                continue
            began, done = time.perf_counter(), []
            jobs = partial(one_search, arguments.seed, kind, positions=arguments.positions)
            for one in pool.imap_unordered(jobs, range(n)):
                done.append(one)
                if len(done) % 100 == 0:
                    seconds = (time.perf_counter() - began) / len(done)
                    print(name, len(done), rates(done), f"{seconds:.2f} s each", flush=True)
            result[name] = rates(done)
            if arguments.output is not None:
                arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
