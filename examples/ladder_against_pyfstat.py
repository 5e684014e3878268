"""`jfstat.follow_up` beside PyFstat's ladder of MCMC runs, the same candidates in the same SFT files, on one core.

    python examples/ladder_against_pyfstat.py --output examples/ladder_against_pyfstat.json

Signals near the threshold of a search over 60 segments of a day, drawn as in ladder_injections.py, each in SFT files of
its own, and one candidate for each. PyFstat runs its MCMCFollowUpSearch with the same stages, 60, 10 and 1 segments,
100 walkers and PyFstat's default numbers of steps for such ladders (100 for burning in, 100 more, in each stage), from
a uniform prior in a box about the candidate that just holds the ball of the 60 segments' metric in which candidates
lie. jfstat follows each candidate up alone; the first call compiles, the second counts. Times are seconds of a core.
`twoF` on all data judges both. Needs PyFstat, and Linux to keep to a core.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core for both, before anything counts them
os.environ["TQDM_DISABLE"] = "1"  # PyFstat's progress bars
logging.basicConfig(level=logging.WARNING)  # or PyFstat takes itself to be wanted in full

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import pyfstat  # noqa: E402
from astropy.table import QTable  # noqa: E402
from ladder_injections import (  # noqa: E402
    DAY,
    DAYS,
    GUARD,
    LOST,
    NAMES,
    REFTIME,
    SEGMENTS,
    SQRT_SX,
    START,
    THRESHOLD,
    drawn_amplitude,
    drawn_start,
    template,
)

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402

STAGES = (60, 10, 1)
STEPS, WALKERS = (100, 100), 100
THEIRS = {"freq": "F0", "f1dot": "F1", "alpha": "Alpha", "delta": "Delta"}
"""Parameters, and PyFstat's names for them."""
HALF = 0.01
"""Half the band of the prepared data, Hz."""


def drawn(rng: np.random.Generator, freq: float, directory: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """SFT files of a signal that a search over 60 segments finds: its parameters, a candidate's, a metric, the SFTs."""
    observed = jfstat.observation(["H1", "L1"], START, DAYS * DAY, sqrt_sx=SQRT_SX)
    while True:
        # LALSuite refuses right ascensions beyond 2 pi, to which walkers may wander
        sky = rng.uniform(0.5, 5.8), np.arcsin(rng.uniform(-1, 1))
        truth = np.array([freq + rng.uniform(-0.004, 0.004), rng.uniform(-1e-9, 1e-9), *sky])
        amplitude = drawn_amplitude(rng, observed, truth)
        sfts = jfstat.simulate_sfts(
            ["H1", "L1"], START, DAYS * DAY, freq - 0.25, freq + 0.25, sqrt_sx=SQRT_SX,
            signals=[(template(truth), amplitude)], seed=int(rng.integers(2**31)),
        )  # fmt: skip
        segments = jfstat.prepare(
            sfts, freq - HALF, freq + HALF, REFTIME, SQRT_SX, guard=GUARD, segments=SEGMENTS, filters=False
        )
        g = np.asarray(jfstat.metric(segments, template(truth), NAMES))
        start = drawn_start(rng, truth, g)
        if float(jfstat.mean_twoF(segments, template(start))) > THRESHOLD:
            jfstat.write_sfts(sfts, directory)
            return truth, start, g, sfts


def theirs(start: np.ndarray, g: np.ndarray, directory: str) -> tuple[float, float, np.ndarray]:
    """PyFstat's ladder: seconds to set up and to run, and the parameters of its loudest last sample."""
    size = np.sqrt(np.diag(g))
    half = np.sqrt(LOST * np.diag(np.linalg.inv(g / np.outer(size, size)))) / size
    low, high = start - half, start + half
    low[3], high[3] = max(low[3], -np.pi / 2), min(high[3], np.pi / 2)
    prior = {THEIRS[name]: {"type": "unif", "lower": low[i], "upper": high[i]} for i, name in enumerate(NAMES)}
    began = time.process_time()
    search = pyfstat.MCMCFollowUpSearch(
        theta_prior=prior | {"F2": 0.0},
        tref=REFTIME,
        label="ladder",
        outdir=f"{directory}/mcmc",
        sftfilepattern=f"{directory}/*.sft",
        minStartTime=START,
        maxStartTime=START + DAYS * DAY,
        nwalkers=WALKERS,
        ntemps=1,
        assumeSqrtSX=[SQRT_SX, SQRT_SX],
    )
    set_up = time.process_time() - began
    setup = [(STEPS, n, False) for n in STAGES]
    began = time.process_time()
    search.run(
        run_setup=setup,
        save_pickle=False,
        export_samples=False,
        save_loudest=False,
        plot_walkers=False,
        log_table=False,
        gen_tex_table=False,
    )
    best, _ = search.get_max_twoF()
    return set_up, time.process_time() - began, np.array([best[THEIRS[name]] for name in NAMES])


def compared(seed: int) -> dict:
    """One signal, followed up by both."""
    rng = np.random.default_rng([15, seed])
    full = jax.jit(jfstat.twoF)
    with tempfile.TemporaryDirectory() as directory:
        freq = float(np.exp(rng.uniform(np.log(50), np.log(300))))
        truth, start, g, sfts = drawn(rng, freq, directory)
        found = QTable({name: start[i : i + 1] for i, name in enumerate(NAMES)}, meta={"reftime": REFTIME})
        seconds = []
        for _ in range(2):
            began = time.process_time()
            all_pass = jfstat.Stages(STAGES, veto=0.0, false_alarm=1.0)
            ladder: Any = jfstat.follow_up(sfts, found, all_pass, sqrt_sx=SQRT_SX, guard=GUARD)
            seconds.append(time.process_time() - began)
        last = jfstat.last_stage(ladder)[0]
        ours = np.array([float(last[name].value) for name in NAMES])
        set_up, run, end = theirs(start, g, directory)
        data = jfstat.prepare(sfts, freq - HALF, freq + HALF, REFTIME, SQRT_SX, guard=GUARD, filters=False)
        twoF = {name: float(full(data, template(x))) for name, x in
                (("truth", truth), ("start", start), ("jfstat", ours), ("pyfstat", end))}  # fmt: skip
    row = {
        "seed": seed,
        "truth": truth.tolist(),
        "twoF": twoF,
        "jfstat_first_s": seconds[0],
        "jfstat_s": seconds[1],
        "jfstat_passed": bool(last["passed"]),
        "pyfstat_set_up_s": set_up,
        "pyfstat_s": run,
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no candidate after this time")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args()
    if options.candidates < 1:
        parser.error("--candidates must be at least 1")
    began, rows = time.perf_counter(), []
    for seed in range(options.candidates):
        if not rows or time.perf_counter() - began < 60 * options.minutes:
            rows.append(compared(seed))
    reached = {
        name: sum(row["twoF"][name] >= row["twoF"]["truth"] - 0.5 for row in rows) for name in ("jfstat", "pyfstat")
    }
    medians = {name: float(np.median([row[name] for row in rows])) for name in rows[0] if name.endswith("_s")}
    result = {
        "command": f"python examples/ladder_against_pyfstat.py --candidates {len(rows)}",
        "stages": STAGES,
        "pyfstat": {"steps": STEPS, "walkers": WALKERS},
        "versions": {name: version(name) for name in ("pyfstat", "ptemcee", "lalsuite", "jax", "numpy")}
        | {"jfstat": jfstat.__version__, "python": platform.python_version()},
        "candidates": len(rows),
        "reached the signal's coherent 2F": reached,
        "median seconds": medians,
        "rows": rows,
    }
    print(json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1))
    if options.output:
        with replacing(options.output) as file:
            file.write(json.dumps(result, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
