"""Seconds a candidate of `jfstat.follow_up` for many candidates, and what becomes of injected signals.

    python examples/ladder_scale.py --output examples/ladder_scale_h200.json

Ten days of H1 and L1 with 200 signals, 3 mHz apart, at random positions in a patch of the sky, with random spin-downs
and amplitudes scaled to a rho^2 of 120 to 200. The candidate of each is a random template that lost up to 40 % of it by
the metric of 20 segments; all other candidates are random templates. They go up from 20 segments through 4 to all data.
A signal's coherent peak is reached if 2F ends at least at its value at the signal's own parameters less 0.5. Times of
the first number of candidates are of the first call, with compilation, and of the second.
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

START, DAYS, DAY, STAGES = 1167458304, 10, 86400, (20, 4, 1)
SIGNALS, APART, SQRT_SX = 200, 3e-3, 1e-23
RHO2, LOST = (120.0, 200.0), 0.4
NAMES = ("freq", "f1dot", "alpha", "delta")
BAND = 100.0, 100.0 + SIGNALS * APART


def drawn(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random values of `NAMES`, (n, 4)."""
    return np.column_stack(
        [rng.uniform(*BAND, n), rng.uniform(-1e-9, 0, n), rng.uniform(1.0, 1.3, n), rng.uniform(0.3, 0.5, n)]
    )


def templates(rows: np.ndarray) -> jfstat.Doppler:
    """A template, or a stack, from values of `NAMES`."""
    return jfstat.Doppler(rows[..., 2], rows[..., 3], rows[..., :2], START)


def injected(rng: np.random.Generator) -> tuple[Any, np.ndarray, np.ndarray]:
    """SFTs with all signals, the signals' rows, and a candidate's row for each."""
    edges = [(START + k * DAY / 2, START + (k + 1) * DAY / 2) for k in range(STAGES[0])]
    rows = drawn(rng, SIGNALS)
    rows[:, 0] = BAND[0] + APART * (np.arange(SIGNALS) + rng.uniform(0.3, 0.7, SIGNALS))
    shell = jfstat.simulate_sfts(["H1", "L1"], START, DAYS * DAY, 99.9, 100.0, sqrt_sx=None)
    observed = jfstat.observation(["H1", "L1"], START, DAYS * DAY, sqrt_sx=SQRT_SX)
    segments = jfstat.segment_observations(shell, edges, sqrt_sx=SQRT_SX, reftime=START)
    signals, starts = [], []
    for row in rows:
        point = templates(row)
        angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
        rho2 = float(jfstat.predict_twoF(observed, point, jfstat.Amplitude(1e-25, *angles))) - 4
        signals.append((point, jfstat.Amplitude(1e-25 * (rng.uniform(*RHO2) / rho2) ** 0.5, *angles)))
        step = rng.normal(size=len(NAMES))
        step *= np.sqrt(rng.uniform(0, LOST)) / np.linalg.norm(step)
        there = jfstat.whiten(segments, point, NAMES).point(jax.numpy.asarray(step))
        starts.append([*np.asarray(there.fkdot), float(there.alpha), float(there.delta)])
    low, high = BAND[0] - 0.4, BAND[1] + 0.4
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, DAYS * DAY, low, high, sqrt_sx=SQRT_SX, seed=5, signals=signals)
    return sfts, rows, np.array(starts)


def main() -> None:
    """Follow up different numbers of candidates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--candidates", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    sfts, truth, starts = injected(rng)
    coherent = jfstat.prepare(sfts, *BAND, reftime=START, sqrt_sx=SQRT_SX, filters=False)
    expected = [float(jfstat.twoF(coherent, templates(row))) for row in truth]
    order = rng.permutation(SIGNALS)
    result: dict[str, Any] = {
        "version": jfstat.__version__,
        "command": shlex.join(["python", "examples/ladder_scale.py", *sys.argv[1:]]),
        "device": jax.devices()[0].device_kind,
        "stages": STAGES,
        "rows": [],
    }
    for i, n in enumerate(args.candidates):
        own = order[: max(1, n // 5)]  # one in five is a signal's, as long as there are signals
        rows = np.concatenate([starts[own], drawn(rng, n - len(own))])
        seconds = []
        for _ in range(2 if i == 0 else 1):
            began = time.perf_counter()
            table = jfstat.follow_up(sfts, templates(rows), STAGES, jfstat.Fit(NAMES), sqrt_sx=SQRT_SX, progress=False)
            seconds.append(time.perf_counter() - began)
        last = jfstat.last_stage(table)
        twoF = np.asarray(last["mean_twoF"])
        reached = np.asarray(last["passed"])[: len(own)] & (twoF[: len(own)] >= np.array(expected)[own] - 0.5)
        row = {
            "candidates": n,
            "seconds": [round(x, 2) for x in seconds],
            "ms_a_candidate": round(1e3 * seconds[-1] / n, 2),
            "signals": len(own),
            "reached": int(np.sum(reached)),
            "passed": int(np.sum(np.asarray(last["passed"])[: len(own)])),
            "others": n - len(own),
            "others_passed": int(np.sum(np.asarray(last["passed"])[len(own) :])),
        }
        print(json.dumps(row), flush=True)
        result["rows"].append(row)
        if args.output:
            with replacing(args.output) as part:
                part.write(json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main()
