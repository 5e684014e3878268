"""How `jfstat.follow_up` fares with signals near the threshold of a semi-coherent search, and with noise.

    python examples/ladder_injections.py --output examples/ladder_injections.json --processes 2

60 d of H1 and L1 in sets, each with signals 24 mHz apart: random skies, spin-downs and amplitudes, scaled to a rho^2
of 120 to 200. A candidate of a signal is a random template that lost up to 40 % of it by the metric of 60 segments; it
counts as found if its mean 2F over these exceeds what noise does once in a million templates (chi-squared with 240
degrees of freedom). Those found go up the ladder. A signal's coherent peak is reached if 2F ends at least at its value
at the signal's own parameters less 0.5. Noise candidates are the loudest of a search of noise alone over 60 segments,
one in each 2 mHz. Every set is a process of its own (`campaign`); the file of rows, ladder_injections.jsonl, grows set
by set, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import campaign
import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from astropy.table import QTable  # noqa: E402
from scipy.stats import chi2  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, DAY, DAYS, SEGMENTS = 1167458304, 86400, 60, 60
REFTIME = START + DAYS * DAY // 2
NAMES = ("freq", "f1dot", "alpha", "delta")
KEPT = ("stage", "n_segments", "mean_twoF", "signal_chance", "noise_chance")
APART, GUARD, SQRT_SX = 0.024, 0.15, 4e-24
RHO2, LOST = (120.0, 200.0), 0.4
THRESHOLD = chi2.isf(1e-6, 4 * SEGMENTS) / SEGMENTS
"""Mean 2F from which candidates count as found."""
BATCH = 8
"""Most candidates of a set that are followed up: one batch."""


def template(row: np.ndarray) -> jfstat.Doppler:
    """A template from the values of `NAMES`."""
    return jfstat.Doppler(row[2], row[3], row[:2], REFTIME)


def drawn_amplitude(rng: np.random.Generator, observed: jfstat.Observation, row: np.ndarray) -> jfstat.Amplitude:
    """A random amplitude of a signal, scaled to a rho^2 within `RHO2`."""
    angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
    rho2 = float(jfstat.predict_twoF(observed, template(row), jfstat.Amplitude(1e-26, *angles))) - 4
    return jfstat.Amplitude(1e-26 * (rng.uniform(*RHO2) / rho2) ** 0.5, *angles)


def drawn_start(rng: np.random.Generator, row: np.ndarray, g: np.ndarray) -> np.ndarray:
    """A random candidate of a signal that lost up to `LOST` of it by the metric g."""
    size = np.sqrt(np.diag(g))
    direction = rng.normal(size=4)
    root = np.linalg.cholesky(np.linalg.inv(g / np.outer(size, size)))
    return row + np.sqrt(LOST * rng.uniform()) * root @ (direction / np.linalg.norm(direction)) / size


def one_set(seed: int, n: int, centre: float, stages: tuple[int, ...]) -> list[dict]:
    """Simulate, find and follow up n signals: a row for each that is found."""
    rng = np.random.default_rng([14, seed])
    freqs = centre + APART * (np.arange(n) - 0.5 * (n - 1)) + rng.uniform(-0.004, 0.004, n)
    sky = rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n))
    truth = np.stack([freqs, rng.uniform(-1e-9, 1e-9, n), *sky], axis=1)
    observed = jfstat.observation(["H1", "L1"], START, DAYS * DAY, sqrt_sx=SQRT_SX)
    signals = []
    for row in truth:
        signals.append((template(row), drawn_amplitude(rng, observed, row)))
    low, high = freqs[0] - 0.22, freqs[-1] + 0.22
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, DAYS * DAY, low, high, sqrt_sx=SQRT_SX, signals=signals, seed=[14, seed, 1]
    )
    segments = jfstat.prepare(
        sfts, freqs[0] - 0.01, freqs[-1] + 0.01, REFTIME, SQRT_SX, guard=GUARD, segments=SEGMENTS, filters=False
    )
    starts = []
    for row in truth:
        starts.append(drawn_start(rng, row, np.asarray(jfstat.metric(segments, template(row), NAMES))))
    heights = np.array([float(jfstat.mean_twoF(segments, template(row))) for row in starts])
    sums = [float(jfstat.mean_twoF(segments, template(row))) for row in truth]
    del segments
    found: Any = QTable({name: np.array(starts)[:, i] for i, name in enumerate(NAMES)}, meta={"reftime": REFTIME})
    kept = np.flatnonzero(heights > THRESHOLD)[:BATCH]
    if not len(kept):
        return []
    began, cpu = time.perf_counter(), time.process_time()
    all_pass = jfstat.Stages(stages, veto=0.0, false_alarm=1.0)
    ladder: Any = jfstat.follow_up(sfts, found[kept], all_pass, sqrt_sx=SQRT_SX, guard=GUARD)
    spent = time.perf_counter() - began, time.process_time() - cpu
    data = jfstat.prepare(sfts, freqs[0] - 0.01, freqs[-1] + 0.01, REFTIME, SQRT_SX, guard=GUARD, filters=False)
    rows = []
    for i, row in enumerate(kept):
        own = ladder[ladder["candidate"] == i]
        off = np.array([[float(x.value) for x in own[name]] for name in NAMES]).T - truth[row]
        off[:, 2] = np.mod(off[:, 2] + np.pi, 2 * np.pi) - np.pi
        errors = np.array([[float(x.value) for x in own[f"{name}_error"]] for name in NAMES]).T
        chi2s = [
            float(o @ np.linalg.pinv(np.outer(1 / e, 1 / e) * c, hermitian=True) @ o) if np.isfinite(c).all() else None
            for o, e, c in ((o / e, e, c) for o, e, c in zip(off, errors, np.asarray(own["covariance"]), strict=True))
        ]
        rows.append({
            "set": seed,
            "truth": truth[row].tolist(),
            "start": starts[row].tolist(),
            "found_mean_twoF": float(heights[row]),
            "true_mean_twoF": sums[row],
            "true_twoF": float(jfstat.twoF(data, template(truth[row]))),
            "stage": own["stage"].tolist(),
            "n_segments": own["n_segments"].tolist(),
            "mean_twoF": own["mean_twoF"].tolist(),
            "expected_mean_twoF": own["expected_mean_twoF"].tolist(),
            "signal_chance": own["signal_chance"].tolist(),
            "noise_chance": own["noise_chance"].tolist(),
            "pulls": (off / errors).tolist(),
            "chi2": chi2s,
            "converged": own["converged"].tolist(),
            "message": [str(x) for x in own["message"]],
            "wall_s": spent[0] / len(kept),
            "cpu_s": spent[1] / len(kept),
        })  # fmt: skip
    print(
        f"set {seed}: {np.sum(heights > THRESHOLD)} of {n} found, {len(kept)} followed up in {spent[0]:.0f} s",
        flush=True,
    )
    return rows


def noise_set(seed: int, n: int, centre: float, stages: tuple[int, ...]) -> list[dict]:
    """Follow up the loudest candidates of a search of noise: a row for each."""
    half = 0.001 * n
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, DAYS * DAY, centre - half - 0.22, centre + half + 0.22, sqrt_sx=SQRT_SX, seed=[14, seed, 2]
    )
    rng = np.random.default_rng([14, seed, 3])
    sky = rng.uniform(0, 2 * np.pi, 12), np.arcsin(rng.uniform(-1, 1, 12))
    bank = jfstat.Doppler(*sky, np.stack([np.full(12, centre), rng.uniform(-1e-9, 1e-9, 12)], axis=1), REFTIME)
    segments = jfstat.prepare(sfts, centre - half, centre + half, REFTIME, SQRT_SX, guard=GUARD, segments=SEGMENTS)
    every: Any = jfstat.search(segments, bank, top=200 * n, progress=False)
    del segments
    cell = np.floor((every["freq"].value - centre) / 0.002).astype(int)
    found: Any = every[np.sort(np.unique(cell, return_index=True)[1])][:n]
    began, cpu = time.perf_counter(), time.process_time()
    all_pass = jfstat.Stages(stages, veto=0.0, false_alarm=1.0)
    ladder: Any = jfstat.follow_up(sfts, found, all_pass, jfstat.Fit(NAMES), sqrt_sx=SQRT_SX, guard=GUARD)
    spent = time.perf_counter() - began, time.process_time() - cpu
    rows = []
    for i in range(len(found)):
        own = ladder[ladder["candidate"] == i]
        rows.append({
            "set": seed,
            "found_mean_twoF": float(found["mean_twoF"][i]),
            **{name: own[name].tolist() for name in KEPT},
            "converged": own["converged"].tolist(),
            "wall_s": spent[0] / len(found),
            "cpu_s": spent[1] / len(found),
        })  # fmt: skip
    print(f"noise set {seed}: {len(found)} candidates followed up in {spent[0]:.0f} s", flush=True)
    return rows


def summary(rows: list[dict], noise: list[dict]) -> dict:
    """Figures over all candidates."""
    result: dict = {"found": len(rows), "noise": len(noise)}
    last = max((max(row["stage"]) for row in rows), default=0)
    if rows:
        done = [row for row in rows if row["stage"][-1] == last]
        reached = [row for row in done if row["n_segments"][-1] == 1 and row["mean_twoF"][-1] >= row["true_twoF"] - 0.5]
        result |= {
            "reached": len(reached),
            "of these passed": sum(
                min(row["signal_chance"][1:]) >= 1e-3 and row["noise_chance"][-1] <= 1e-3 for row in reached
            ),
            "reached, rejected on the way": sum(min(row["signal_chance"][1:]) < 1e-3 for row in reached),
            "missed": [row["message"][-1] for row in rows if row not in reached],
            "cpu_s": float(np.median([row["cpu_s"] for row in rows])),
            "wall_s": float(np.median([row["wall_s"] for row in rows])),
            "stages": [],
        }
        for stage in range(last + 1):
            own = [row for row in reached if len(row["chi2"]) > stage and row["chi2"][stage] is not None]
            pulls = np.array([row["pulls"][stage] for row in own])
            distance = np.array([row["chi2"][stage] for row in own])
            result["stages"].append({
                "n_segments": own[0]["n_segments"][stage],
                "rms of pulls": np.sqrt(np.mean(pulls**2, axis=0)).round(2).tolist(),
                "within 1 sigma": np.mean(np.abs(pulls) < 1, axis=0).round(2).tolist(),
                "mean chi2 of 4": round(float(np.mean(distance)), 2),
                "median chi2 of 4 (3.36)": round(float(np.median(distance)), 2),
                "largest chi2 of 4": round(float(np.max(distance)), 1),
            })  # fmt: skip
    if noise:
        final = [row for row in noise if row["n_segments"][-1] == 1]
        chances = np.array([row["noise_chance"][-1] for row in final])
        result |= {
            "noise that reached the last stage": len(final),
            "noise_chance below": {str(x): int(np.sum(chances < x)) for x in (0.5, 0.1, 0.01, 1e-3)},
            "noise signal_chance below 1e-3": sum(min(row["signal_chance"][1:], default=1.0) < 1e-3 for row in noise),
            "noise largest 2F": max((row["mean_twoF"][-1] for row in final), default=None),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="`follow_up` with signals and noise")
    parser.add_argument("--sets", type=int, default=26, help="sets of signals")
    parser.add_argument("--per-set", type=int, default=24, help="signals in each")
    parser.add_argument("--noise-sets", type=int, default=8)
    parser.add_argument("--noise", type=int, default=32, help="candidates of noise in each set")
    parser.add_argument("--freq", type=float, default=100.0, help="Hz")
    parser.add_argument("--stages", default="60,10,1")
    parser.add_argument("--first", type=int, default=0, help="seed of the first set")
    campaign.add_options(parser)
    arguments = parser.parse_args()
    stages = tuple(int(x) for x in arguments.stages.split(","))
    if arguments.job:
        kind, seed = arguments.job.split()
        function, n = (one_set, arguments.per_set) if kind == "signals" else (noise_set, arguments.noise)
        rows = function(int(seed), n, arguments.freq, stages)
        ended = {"case": -1}
        campaign.keep(arguments.output, arguments.job, [{**row, "case": i} for i, row in enumerate(rows)] + [ended])
        return
    seeds = range(arguments.first, arguments.first + arguments.sets)
    jobs = [f"signals {seed}" for seed in seeds] + [f"noise {seed}" for seed in range(arguments.noise_sets)]
    campaign.carry_out(arguments.output, jobs, arguments.processes, arguments.minutes)
    every = campaign.kept(arguments.output)
    rows, noise = ([row for row in every if row["job"].startswith(kind)] for kind in ("signals", "noise"))
    result = {
        "version": jfstat.__version__,
        "command": f"ladder_injections.py --sets {arguments.sets} --noise-sets {arguments.noise_sets}",
        "stages": stages,
        "threshold": THRESHOLD,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[1],
        "summary": summary(rows, noise),
        "rows": rows,
        "noise": noise,
    }
    written_to(arguments.output, json.dumps(result, indent=1).encode())
    print(json.dumps(result["summary"], indent=1))


if __name__ == "__main__":
    main()
