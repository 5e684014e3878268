"""`jfstat.refine` beside PyFstat's MCMC on the same SFT files and one core: time per candidate, and 2F reached.

    python examples/refine_against_pyfstat.py --output examples/refine_against_pyfstat.json --plot refine.png

Signals in noise of two detectors, each written to SFT files of its own and started where 40 to 85 % of its 2F is left.
PyFstat computes 2F some 40,000 times, its walkers starting around that candidate, spread by jfstat's metric
(`--walkers` starts them otherwise); jfstat refines it alone and as one of 256; `twoF` on the full data judges both.
Reading files, preparing data and compiling are timed apart. Needs PyFstat, and matplotlib for the picture; about a
minute a candidate.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core for both, before anything counts them
os.environ["TQDM_DISABLE"] = "1"  # PyFstat's progress bars
logging.basicConfig(level=logging.WARNING)  # or PyFstat takes itself to be wanted in full

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import pyfstat  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402
from jfstat.plots import BLUE, GREY, ORANGE  # noqa: E402

NAMES = {"freq": "F0", "f1dot": "F1", "alpha": "Alpha", "delta": "Delta"}
"""Parameters, and PyFstat's names for them."""
START, TSFT, DETECTORS, SQRT_SX = 1167458304, 1800, ("H1", "L1"), 4e-24
HALF, GUARD, FILES = 0.05, 0.4, 0.5
"""Hz either side of the signal: jfstat's band, its guard, and what the files hold (and the Doppler shift, 1.2e-4)."""
SHARES = (0.40, 0.85)
"""Part of 2F left at the start."""
WALKERS = 100
REPEATS = 3
"""How often to time jfstat on a candidate; the median counts."""
SPREAD = 0.5
"""Of PyFstat's walkers at first, in units of mismatch 1."""
WALKERS_START = {
    "metric": f"normally spread by {SPREAD} in jfstat's whitened coordinates around the candidate",
    "axes": f"normally spread by {SPREAD} / sqrt(diag(metric)) around the candidate",
    "box": "anywhere in the prior",
}
FILE = ("output", "plot")
"""Options that the results do not depend on."""
EQUAL = 0.01
"""Difference in 2F that does not count."""


class Search(pyfstat.MCMCSearch):
    """PyFstat's, which also tells how long it took to load the SFTs, and how often it computed 2F.

    Its walkers can start at given points, (walkers, p) in the order of `theta_keys`.
    """

    evaluations, load_s, first = 0, 0.0, None

    def _generate_initial_p0(self) -> Any:
        if self.first is None:
            return super()._generate_initial_p0()
        return np.array([self.first] * self.ntemps)

    def _initiate_search_object(self) -> None:
        self.load_s, _ = timed(super()._initiate_search_object)

    def _logl(self, theta: Any, search: Any) -> float:
        self.evaluations += 1
        return super()._logl(theta, search)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--days", type=int, default=10, help="length of the data")
    parser.add_argument("--batch", type=int, default=256, help="candidates that jfstat refines in one call")
    parser.add_argument("--width", type=float, default=3.0, help="half of PyFstat's box, in units of the metric's ball")
    parser.add_argument("--walkers", choices=list(WALKERS_START), default="metric", help="where PyFstat's start")
    parser.add_argument("--evaluations", type=int, default=40_000, help="of 2F by PyFstat")
    parser.add_argument("--temperatures", type=int, default=1, help="of PyFstat's sampler")
    parser.add_argument("--seed", type=int, default=1, help="of all but PyFstat's sampler, which takes none")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--plot", type=Path, help="picture")
    options = parser.parse_args()

    rows = []
    for k in range(options.candidates):
        rows.append(compare(np.random.default_rng([options.seed, k]), options))
        print(f"{k + 1} of {options.candidates}: {line(rows[-1])}", flush=True)
    result = {
        "what": "refining candidates by jfstat.refine and by PyFstat's MCMC, on one core; seconds per candidate, and "
        "2F at the final points by jfstat.twoF on the full data",
        "command": "python examples/refine_against_pyfstat.py "
        + " ".join(
            f"--{k} {v:g}" if k != "walkers" else f"--{k} {v}" for k, v in vars(options).items() if k not in FILE
        ),
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "settings": {
            "data": f"{options.days} d of {' and '.join(DETECTORS)} from GPS {START}, SFTs of {TSFT} s, noise of "
            f"{SQRT_SX} / sqrt(Hz), its level given to both",
            "signals": "50 to 1000 Hz, |f1dot| up to 1e-9 Hz/s, random sky, expected 2F 60 to 500",
            "candidates": "a random direction of all four parameters, 40 to 85 % of 2F left; the same for both",
            "PyFstat": f"MCMCSearch.run() without loading SFTs, plots and files; {WALKERS} walkers, {steps(options)} "
            f"steps of burn-in and as many after, ntemps={options.temperatures}; uniform priors of +-{options.width:g} "
            "sqrt(diag(inv(metric))) around the candidate; walkers start "
            f"{WALKERS_START[options.walkers]}",
            "jfstat": f"refine with its defaults; median of {REPEATS} calls, after one with another candidate; a batch "
            f"of {options.batch} such candidates of the same signal, its second call",
        },
        "versions": {name: version(name) for name in ("pyfstat", "ptemcee", "lalsuite", "jax", "numpy", "scipy")}
        | {"jfstat": jfstat.__version__, "python": platform.python_version()},
        "summary": summary(rows),
        "rows": rows,
    }
    print(table(rows))
    print(json.dumps(result["summary"], indent=1))
    if options.output:
        with replacing(options.output) as file:
            file.write(json.dumps(result, indent=1).encode() + b"\n")
    if options.plot:
        draw(rows, options)


def compare(rng: np.random.Generator, options: argparse.Namespace) -> dict:
    """One signal, followed up by both programs: what it is, how long they took, and where they ended."""
    full = jax.jit(jfstat.twoF)
    with tempfile.TemporaryDirectory() as directory:
        point, expected = write_signal(rng, options.days, directory)
        f = float(point.fkdot[0])
        read_s, sfts = timed(lambda: jfstat.read_sfts(directory))
        prepare_s, data = timed(lambda: prepared(sfts, f))
        stack = starts(data, point, options.batch, rng)
        candidate, other = (jax.tree.map(lambda x, i=i: x[i], stack) for i in (0, 1))
        alone = [timed(lambda c=c: jfstat.refine(data, c, progress=False)) for c in [other, *[candidate] * REPEATS]]
        batch = [timed(lambda: jfstat.refine(data, stack, progress=False)) for _ in range(2)]
        sampled = sample(data, candidate, point, directory, options)
    alone_s, batch_s = float(np.median([s for s, _ in alone[1:]])), batch[1][0] / options.batch
    refined, many = alone[-1][1], batch[1][1]
    true_twoF = float(full(data, point))
    return {
        "frequency": f,
        "f1dot": float(point.fkdot[1]),
        "alpha": float(point.alpha),
        "delta": float(point.delta),
        "expected_twoF": expected,
        "true_twoF": true_twoF,
        "start_twoF": float(full(data, candidate)),
        "pyfstat": sampled,
        "jfstat": {
            "twoF": float(full(data, template(values_of(refined[0]), point.reftime))),
            "message": str(refined["message"][0]),
            "steps": int(refined["steps"][0]),
            "read_s": read_s,
            "prepare_s": prepare_s,
            "compile_s": alone[0][0] - alone_s,
            "repeats_s": [s for s, _ in alone[1:]],
            "refine_s": alone_s,
        },
        "batch": {
            "compile_s": batch[0][0] - batch[1][0],
            "refine_s": batch_s,
            "at_least_pyfstat": share_above(many, sampled["twoF"]),  # by refine's own twoF, which is right to 1e-6
            "at_least_truth": share_above(many, true_twoF),
            "converged": float(np.mean(many["converged"])),
        },
    }


def share_above(refined: Any, twoF: float) -> float:
    """Part of a table's rows that reach a given 2F."""
    return float(np.mean(np.asarray(refined["twoF"]) >= twoF - EQUAL))


def write_signal(rng: np.random.Generator, days: int, directory: str) -> tuple[jfstat.Doppler, float]:
    """SFT files of a random signal in noise; its template, and the 2F to expect."""
    f = float(np.exp(rng.uniform(np.log(50), np.log(1000))))
    reftime = START + days * 43200  # in the middle, where frequency and f1dot are least correlated
    # LALSuite refuses right ascensions beyond 2 pi, to which walkers may wander
    sky = rng.uniform(0.5, 5.8), np.arcsin(rng.uniform(-1, 1))
    point = jfstat.Doppler(*sky, [f, rng.uniform(-1e-9, 1e-9)], reftime)
    edge = FILES + 1.2e-4 * f
    times = dict.fromkeys(DETECTORS, START + TSFT * np.arange(days * 86400 // TSFT))
    noise = jfstat.simulate_sfts(
        list(DETECTORS),
        timestamps=times,
        fmin=f - edge,
        fmax=f + edge,
        tsft=TSFT,
        sqrt_sx=SQRT_SX,
        seed=int(rng.integers(2**31)),
    )
    angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
    expected = rng.uniform(60, 500)
    unit = float(jfstat.predict_twoF(prepared(noise, f), point, jfstat.Amplitude(1e-24, *angles))) - 4
    amplitude = jfstat.Amplitude(1e-24 * np.sqrt((expected - 4) / unit), *angles)
    jfstat.write_sfts(jfstat.inject(noise, [(point, amplitude)]), directory)
    return point, expected


def prepared(sfts: jfstat.SFTs, f: float) -> jfstat.FstatData:
    return jax.block_until_ready(jfstat.prepare(sfts, f - HALF, f + HALF, sqrt_sx=SQRT_SX, guard=GUARD))


@jax.jit
def heights(near: jfstat.NarrowData, coordinates: jfstat.Coordinates, x: jax.Array, steps: jax.Array) -> jax.Array:
    """2F along directions x, (n, p), at distances `steps`, (m,), from the centre: (n, m)."""
    at = jax.vmap(lambda r, x: jfstat.twoF(near, coordinates.point(r * x)), (0, None))
    return jax.lax.map(lambda x: at(steps, x), x)


def starts(data: jfstat.FstatData, point: jfstat.Doppler, n: int, rng: np.random.Generator) -> jfstat.Doppler:
    """A stack of templates in random directions from `point` where, for the first time, only a share of 2F is left."""
    coordinates = jfstat.whiten(data, point)
    near = jfstat.narrow(data, point, reach=40 / data.tspan + 6 / 86400)
    steps = np.linspace(0, 4, 161)
    found = np.empty((0, len(NAMES)))
    while len(found) < n:  # in some directions little is lost anywhere
        x = rng.normal(size=(n, len(NAMES)))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        share = rng.uniform(*SHARES, n)
        left = np.asarray(heights(near, coordinates, jnp.asarray(x), jnp.asarray(steps)))
        left = left / left[:, :1]
        low = np.argmax(left < share[:, None], axis=1)
        rows = np.flatnonzero(low)
        low, share = low[rows], share[rows]
        above, below = left[rows, low - 1], left[rows, low]
        r = steps[low - 1] + (steps[low] - steps[low - 1]) * (above - share) / (above - below)
        found = np.concatenate([found, (r[:, None] * x[rows])[np.isfinite(r)]])
    return jax.vmap(coordinates.point)(jnp.asarray(found[:n]))


def sample(
    data: jfstat.FstatData,
    candidate: jfstat.Doppler,
    truth: jfstat.Doppler,
    directory: str,
    options: argparse.Namespace,
) -> dict:
    """PyFstat's MCMC around a candidate: its loudest sample and its times."""
    centre, half = vector(candidate), options.width * extent(data, candidate)
    low, high = centre - half, centre + half
    low[3], high[3] = max(low[3], -np.pi / 2), min(high[3], np.pi / 2)
    off = vector(truth) - centre
    off[2] = (off[2] + np.pi) % (2 * np.pi) - np.pi
    inside = bool(np.all((centre + off >= low) & (centre + off <= high)))
    prior = {
        theirs: {"type": "unif", "lower": float(a), "upper": float(b)}
        for theirs, a, b in zip(NAMES.values(), low, high, strict=True)
    }
    search_s, search = timed(
        lambda: Search(
            theta_prior=prior | {"F2": 0.0},
            tref=candidate.reftime,
            label="mcmc",
            outdir=f"{directory}/mcmc",
            sftfilepattern=f"{directory}/*.sft",
            nsteps=[steps(options)] * 2,
            nwalkers=WALKERS,
            ntemps=options.temperatures,
            assumeSqrtSX=[SQRT_SX] * len(DETECTORS),
        )
    )
    search.first = walkers(data, candidate, options)
    run_s, _ = timed(
        lambda: search.run(save_pickle=False, export_samples=False, save_loudest=False, plot_walkers=False)
    )
    best, reported = search.get_max_twoF()
    there = template([best[NAMES[name]] for name in NAMES], candidate.reftime)
    return {
        "twoF": float(jax.jit(jfstat.twoF)(data, there)),
        "own_twoF": float(reported),
        "prior_holds_truth": inside,
        "prior_half_widths": dict(zip(NAMES, half.tolist(), strict=True)),
        "evaluations": search.evaluations,
        "setup_s": search_s + search.load_s,
        "run_s": run_s - search.load_s,
    }


def walkers(data: jfstat.FstatData, candidate: jfstat.Doppler, options: argparse.Namespace) -> np.ndarray | None:
    """Where PyFstat's walkers start, (walkers, p) in the order of `NAMES`; None where its prior says."""
    x = SPREAD * np.random.default_rng(options.seed).normal(size=(WALKERS, len(NAMES)))
    if options.walkers == "box":
        return None
    if options.walkers == "axes":
        return vector(candidate) + x / np.sqrt(np.diagonal(jfstat.metric(data, candidate, list(NAMES))))
    points = jax.vmap(jfstat.whiten(data, candidate).point)(jnp.asarray(x))
    return np.column_stack([points.fkdot, points.alpha, points.delta])


def extent(data: jfstat.FstatData, point: jfstat.Doppler) -> np.ndarray:
    """Half the sides of the box around the metric's ellipsoid of mismatch 1: Hz, Hz/s, rad, rad."""
    g = np.asarray(jfstat.metric(data, point, list(NAMES)))
    scale = np.sqrt(np.diagonal(g))  # 20 orders of magnitude lie between them
    half = np.sqrt(np.diagonal(np.linalg.inv(g / np.outer(scale, scale)))) / scale
    return np.minimum(half, [np.inf, np.inf, np.pi, np.pi])


def steps(options: argparse.Namespace) -> int:
    """Of burn-in, and again of production."""
    return options.evaluations // (2 * WALKERS * options.temperatures)


def vector(point: jfstat.Doppler) -> np.ndarray:
    """Parameters in the order of `NAMES`."""
    return np.array([*np.asarray(point.fkdot), float(point.alpha), float(point.delta)])


def values_of(row: Any) -> list[float]:
    return [float(getattr(row[name], "value", row[name])) for name in NAMES]


def template(values: list[float], reftime: float) -> jfstat.Doppler:
    """The other way round."""
    f, f1dot, alpha, delta = values
    return jfstat.Doppler(alpha % (2 * np.pi), delta, [f, f1dot], reftime)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def summary(rows: list[dict]) -> dict:
    """The figures that the README quotes."""
    gain = np.array([row["jfstat"]["twoF"] - row["pyfstat"]["twoF"] for row in rows])
    theirs = np.array([row["pyfstat"]["run_s"] for row in rows])
    result: dict = {
        "candidates": len(rows),
        "jfstat_at_least_pyfstat": float(np.mean(gain >= -EQUAL)),
        "jfstat_at_least_truth": float(np.mean([r["jfstat"]["twoF"] >= r["true_twoF"] - EQUAL for r in rows])),
        "pyfstat_at_least_truth": float(np.mean([r["pyfstat"]["twoF"] >= r["true_twoF"] - EQUAL for r in rows])),
        "batch_at_least_truth": float(np.mean([r["batch"]["at_least_truth"] for r in rows])),
        "batch_at_least_pyfstat": float(np.mean([r["batch"]["at_least_pyfstat"] for r in rows])),
        "twoF_gain_over_pyfstat": {"median": float(np.median(gain)), "worst": float(np.min(gain))},
        "prior_holds_truth": float(np.mean([r["pyfstat"]["prior_holds_truth"] for r in rows])),
        "pyfstat_s": {"median": float(np.median(theirs)), "worst": float(np.max(theirs))},
        "pyfstat_evaluations": float(np.median([r["pyfstat"]["evaluations"] for r in rows])),
        "pyfstat_setup_s": float(np.median([r["pyfstat"]["setup_s"] for r in rows])),
        "jfstat_read_and_prepare_s": float(np.median([r["jfstat"]["read_s"] + r["jfstat"]["prepare_s"] for r in rows])),
    }
    for key, name in (("jfstat", "alone"), ("batch", "batch")):
        ours = np.array([row[key]["refine_s"] for row in rows])
        result |= {
            f"{name}_s": {"median": float(np.median(ours)), "worst": float(np.max(ours))},
            f"pyfstat_over_{name}": {"median": float(np.median(theirs / ours)), "worst": float(np.min(theirs / ours))},
            f"{name}_compile_s": {
                "median": float(np.median([r[key]["compile_s"] for r in rows])),
                "worst": float(np.max([r[key]["compile_s"] for r in rows])),
            },
        }
    return result


COLUMNS = {
    "f / Hz": lambda r: f"{r['frequency']:.1f}",
    "2F at start": lambda r: f"{r['start_twoF']:.1f}",
    "at truth": lambda r: f"{r['true_twoF']:.1f}",
    "by PyFstat": lambda r: f"{r['pyfstat']['twoF']:.2f}",
    "by jfstat": lambda r: f"{r['jfstat']['twoF']:.2f}",
    "PyFstat / s": lambda r: f"{r['pyfstat']['run_s']:.2f}",
    "jfstat alone / s": lambda r: f"{r['jfstat']['refine_s']:.3f}",
    "in a batch / s": lambda r: f"{r['batch']['refine_s']:.4f}",
    "compiling / s": lambda r: f"{r['jfstat']['compile_s']:.1f}",
}


def table(rows: list[dict]) -> str:
    """Markdown: a row a candidate."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cell(row) for cell in COLUMNS.values()) + " |" for row in rows])


def line(row: dict) -> str:
    return ", ".join(f"{name} {cell(row)}" for name, cell in COLUMNS.items())


def draw(rows: list[dict], options: argparse.Namespace) -> None:
    """Times, and differences in final 2F, over frequency."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    f = [row["frequency"] for row in rows]
    for label, key, what, colour, mark in (
        (f"PyFstat MCMC, {options.evaluations} evaluations", "pyfstat", "run_s", ORANGE, "s"),
        ("jfstat.refine, one by one", "jfstat", "refine_s", BLUE, "o"),
        (f"jfstat.refine, {options.batch} at once", "batch", "refine_s", BLUE, "^"),
    ):
        left.loglog(f, [row[key][what] for row in rows], mark, color=colour, ms=5, label=label)
    low, high = left.get_ylim()
    left.set_ylim(low, 30 * high)  # room for the legend
    left.set_ylabel("time per candidate (s)")
    left.set_title(f"{processor()}, one core", fontsize="medium")
    for label, key, colour, mark in (("PyFstat MCMC", "pyfstat", ORANGE, "s"), ("jfstat.refine", "jfstat", BLUE, "o")):
        right.semilogx(f, [r[key]["twoF"] - r["true_twoF"] for r in rows], mark, color=colour, ms=5, label=label)
    right.axhline(0, color=GREY, lw=0.9, ls=":")
    right.set_yscale("symlog", linthresh=10)
    right.set_ylabel("final $2\\mathcal{F}$ $-$ $2\\mathcal{F}$ at the true template")
    right.set_title(f"{options.days} d, {' and '.join(DETECTORS)}", fontsize="medium")
    for ax in (left, right):
        ax.set_xlabel("frequency (Hz)")
        ax.grid(alpha=0.3)
        ax.legend(loc="best", frameon=False, fontsize="small")
    with replacing(options.plot) as file:
        figure.savefig(file, format=options.plot.suffix[1:].lower(), dpi=130)


def processor() -> str:
    """The processor's model, where the system tells."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
