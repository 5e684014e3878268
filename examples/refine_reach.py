"""From how far `jfstat.refine` reaches the peak: random injections, and starts that lost a known part of rho^2.

    python examples/refine_reach.py --output examples/refine_reach.json --processes 2

Data of 0.5, 1.5, 4 and 30 d of H1 and L1, every other set with a quarter of the SFTs missing; in each, signals of
random sky, spin-down and amplitude in noise, 2F of 60 to 300, 80 to 1200 Hz; isolated, and in binaries with periods
from 5 h to the length of the data, at most 5 d. For each signal two starts where 20 to 50 % of rho^2 are lost and two
where 50 to 75 % are (`jfstat.mismatch`, for the signal's own amplitudes), in random directions of the metric's unit
ball. The offsets are added to right ascension, declination, frequency, f1dot, asini, period and tp as they are, so that
they know nothing of the coordinates that `refine` climbs in. A start has reached the peak if 2F is at least that at the
signal's parameters less 0.5, or, to 1e-3, what refining from there gives. Every data set is a process of its own
(`campaign`); the file of rows, refine_reach.jsonl, grows by `TOGETHER` cases at a time, and the same command goes on
where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial

import campaign
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.signal.values import replaced, values  # noqa: E402

ISOLATED = ("freq", "f1dot", "alpha", "delta")
BINARY = (*ISOLATED, "asini", "period", "tp")
START = 1167458304
DAYS = (0.5, 1.5, 4.0, 30.0)
LOSSES = {"20-50 %": (0.2, 0.5), "50-75 %": (0.5, 0.75)}
PER_SET, STARTS, APART, GUARD = 8, 2, 0.05, 0.3
"""Signals in a data set, starts of each in a range of losses, the signals' distance in frequency, and the guard, Hz."""
TOGETHER = 8
"""Starts that are refined together."""
PARTS = 4
"""Processes among which the signals of long data with binaries are divided."""
NEAR = 0.5
"""By how much 2F may be lower than at the signal's parameters."""
FIGURES = ("start_twoF", "twoF", "peak_probability", "noise_chance", "moved", "steps")
"""Columns of `refine` that are kept."""
DRAWS, ROUNDS = 256, 400
"""Starts that are drawn at a time, and how often at most: only some lose the part of rho^2 that is wanted."""
FASTEST = 3e-4
"""Largest speed of a source in its orbit, in units of c."""


def signals(rng: np.random.Generator, f: float, days: float, binary: bool) -> list[jfstat.Doppler]:
    """Signals of a data set, `APART` in frequency about f."""
    points = []
    for k in range(PER_SET):
        fkdot = [f + APART * (k - 0.5 * (PER_SET - 1)), rng.uniform(-1e-9, 1e-9)]
        sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
        points.append(jfstat.Doppler(*sky, fkdot, START + 43200 * days, orbit(rng, days) if binary else None))
    return points


def orbit(rng: np.random.Generator, days: float) -> jfstat.Orbit:
    """A random orbit that turns at least once during the data."""
    period = 86400 * np.exp(rng.uniform(np.log(0.2), np.log(min(5.0, days))))
    asini = FASTEST * period / (2 * np.pi) * np.exp(rng.uniform(np.log(0.1), 0))
    return jfstat.Orbit(asini, period, START + rng.uniform(0, period), rng.uniform(0, 0.3), rng.uniform(0, 2 * np.pi))


def data_set(
    days: float, binary: bool, seed: int, count: int
) -> tuple[jfstat.FstatData, list[jfstat.Doppler], list[jfstat.Amplitude]]:
    """Prepared data with `PER_SET` signals in noise, and the signals; the seed-th of `count` frequencies."""
    rng = np.random.default_rng([14, int(10 * days), binary, seed])
    f = float(80 * 15 ** ((seed + rng.uniform()) / count))
    n_slots = round(48 * days)
    duty = 0.75 if seed % 2 else 1.0
    times = {
        name: START + 1800 * np.sort(rng.choice(n_slots, round(n_slots * duty), replace=False)) for name in ("H1", "L1")
    }
    points = signals(rng, f, days, binary)
    half = 0.5 * APART * PER_SET
    edge = half + 0.02 + (1.3e-4 + 1.5 * FASTEST * binary) * f + GUARD
    noise = jfstat.simulate_sfts(
        ["H1", "L1"], timestamps=times, fmin=f - edge, fmax=f + edge, sqrt_sx=4e-24, seed=int(rng.integers(2**31))
    )
    prepared = dict(fmin=f - half, fmax=f + half, sqrt_sx=4e-24, guard=GUARD, orbit=stack(points).orbit, filters=False)
    observed = jfstat.prepare(noise, **prepared)
    amplitudes = []
    for point in points:
        angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
        unit = float(jfstat.predict_twoF(observed, point, jfstat.Amplitude(1e-24, *angles))) - 4
        amplitudes.append(jfstat.Amplitude(1e-24 * np.sqrt(rng.uniform(56, 296) / unit), *angles))
    return (
        jfstat.prepare(jfstat.inject(noise, list(zip(points, amplitudes, strict=True))), **prepared),
        points,
        amplitudes,
    )


def starts(
    data: jfstat.FstatData, point: jfstat.Doppler, amplitude: jfstat.Amplitude, rng: np.random.Generator
) -> dict[str, list[tuple[jfstat.Doppler, float]]]:
    """`STARTS` templates and their losses of rho^2 in each range of losses, offset within the metric's unit ball."""
    names = ISOLATED if point.orbit is None else BINARY
    g = np.asarray(jfstat.metric(data, point, names))
    scale = 1 / np.sqrt(np.diag(g))
    size, axes = np.linalg.eigh(g * np.outer(scale, scale))
    unit = scale[:, None] * axes / np.sqrt(np.maximum(size, 1e-12))
    here = np.asarray(values(point, names))
    found: dict[str, list[tuple[jfstat.Doppler, float]]] = {name: [] for name in LOSSES}
    for _ in range(ROUNDS):
        x = rng.normal(size=(DRAWS, len(names)))
        x *= (rng.uniform(size=DRAWS) ** (1 / len(names)) / np.linalg.norm(x, axis=1))[:, None]
        there = here + x @ unit.T
        there = there[possible(there, here)]
        if not len(there):
            continue
        padded = there[np.arange(DRAWS) % len(there)]
        loss = np.asarray(losses(data.observation, point, amplitude, jnp.asarray(padded), names))[: len(there)]
        for name, (low, high) in LOSSES.items():
            for i in np.flatnonzero((loss > low) & (loss < high))[: STARTS - len(found[name])]:
                found[name].append((replaced(point, names, jnp.asarray(there[i])), float(loss[i])))
        if all(len(pairs) == STARTS for pairs in found.values()):
            return found
    raise RuntimeError(f"no start found around {point}")


def possible(there: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Which offset parameters, (n, p), are those of a source that the data's band holds."""
    good = np.abs(there[:, 3]) < np.pi / 2
    good &= np.abs(there[:, 0] - here[0]) < APART
    good &= np.abs(there[:, 1]) < 5e-8
    if there.shape[1] > 4:
        good &= (there[:, 4] > 0) & (there[:, 5] > 0.7 * here[5])
        good &= 2 * np.pi * there[:, 4] / there[:, 5] < 1.2 * FASTEST
    return good


@partial(jax.jit, static_argnames="names")
def losses(
    observation: jfstat.Observation,
    point: jfstat.Doppler,
    amplitude: jfstat.Amplitude,
    there: jax.Array,
    names: tuple[str, ...],
) -> jax.Array:
    """Loss of rho^2 at each row of parameters, (n, p): (n,)."""

    def one(x: jax.Array) -> jax.Array:
        return jfstat.mismatch(observation, point, replaced(point, names, x), amplitude=amplitude)

    return jax.lax.map(one, there, batch_size=16)


def follow_up(
    data: jfstat.FstatData,
    points: list[jfstat.Doppler],
    pairs: list[tuple[int, str, jfstat.Doppler, float]],
    options: dict,
    done: set[int],
    keep: Callable[[list[dict]], None],
) -> None:
    """Refine the starts in a data set that are not done, and hand on a dictionary for each.

    `pairs` has for each start the number of its signal, the range of losses, the template and the loss.
    """
    names = ISOLATED if points[0].orbit is None else BINARY
    refine = partial(jfstat.refine, data, fit=jfstat.Fit(names, **options), progress=False)
    twoF = jax.jit(jfstat.twoF)
    for first in range(0, len(pairs), TOGETHER):
        cases = range(first, min(first + TOGETHER, len(pairs)))
        if done.issuperset(cases):
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        refined = refine(stack([pairs[case][2] for case in cases]))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        true = [float(twoF(data, points[pairs[case][0]])) for case in cases]
        own = np.full(len(cases), np.nan)
        if np.any(refined["twoF"] < np.array(true) - NEAR):
            own = np.asarray(refine(stack([points[pairs[case][0]] for case in cases]))["twoF"])
        rows = []
        for row, case in enumerate(cases):
            i, kind, _, loss = pairs[case]
            rows.append({
                "case": case,
                "days": round(float(data.tspan) / 86400, 1),
                "binary": points[0].orbit is not None,
                "kind": kind,
                "freq": float(points[i].fkdot[0]),
                "loss": loss,
                "true_twoF": true[row],
                "own_twoF": float(own[row]),
                **{name: float(refined[name][row]) for name in FIGURES},
                "converged": bool(refined["converged"][row]),
                "message": str(refined["message"][row]),
                "compiled": first > 0,
                "cpu_s": cpu / len(cases),
                "wall_s": wall / len(cases),
            })  # fmt: skip
        keep(rows)


def stack(points: list[jfstat.Doppler]) -> jfstat.Doppler:
    """Templates with a leading axis."""
    return jax.tree.map(lambda *x: jnp.stack(x), *points)


def reached(row: dict) -> bool:
    """Whether a start reached its signal's peak."""
    return row["twoF"] >= row["true_twoF"] - NEAR or row["twoF"] >= row["own_twoF"] - 1e-3


def summary(rows: list[dict]) -> list[dict]:
    """A row of figures for each class."""
    classes = dict.fromkeys((row["days"], row["binary"], row["kind"]) for row in rows)
    result = []
    for days, binary, kind in classes:
        own = [row for row in rows if (row["days"], row["binary"], row["kind"]) == (days, binary, kind)]
        missed = [row for row in own if not reached(row)]
        result.append(
            {
                "days": days,
                "binary": binary,
                "loss": kind,
                "starts": len(own),
                "reached": len(own) - len(missed),
                "missed_without_a_word": sum(row["message"] == "converged" for row in missed),
                "missed_with_peak_probability_above_half": sum(row["peak_probability"] > 0.5 for row in missed),
                "reached_with_a_word": sum(row["message"] != "converged" for row in own if reached(row)),
                "cpu_ms": 1e3 * float(np.median([row["cpu_s"] for row in own if row["compiled"]] or [np.nan])),
            }
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, nargs="*", default=DAYS, help="lengths of data")
    parser.add_argument("--kinds", nargs="*", default=["isolated", "binary"], choices=["isolated", "binary"])
    parser.add_argument("--sets", type=int, default=13, help=f"data sets of {PER_SET} signals for each class")
    parser.add_argument("--only", type=int, nargs="*", help="seeds of the data sets to do (default: all)")
    parser.add_argument("--options", type=json.loads, default={}, help="options of refine, JSON")
    campaign.add_options(parser)
    arguments = parser.parse_args()
    if arguments.job:
        days, kind, seed, part, n_parts = arguments.job.split()
        data, points, amplitudes = data_set(float(days), kind == "binary", int(seed), arguments.sets)
        pairs = []
        for i in range(PER_SET)[int(part) :: int(n_parts)]:
            rng = np.random.default_rng([15, int(10 * float(days)), kind == "binary", int(seed), i])
            found = starts(data, points[i], amplitudes[i], rng)
            pairs += [(i, name, *pair) for name, own in found.items() for pair in own]
        done = {row["case"] for row in campaign.kept(arguments.output) if row["job"] == arguments.job}
        keep = partial(campaign.keep, arguments.output, arguments.job)
        follow_up(data, points, pairs, arguments.options, done, keep)
        keep([{"case": -1}])
        return
    # one set of each class after the other: when the time is up all classes have some
    seeds = arguments.only or range(arguments.sets)
    classes = [(days, kind) for days in sorted(arguments.days)[::-1] for kind in arguments.kinds[::-1]]
    jobs = [
        f"{days} {kind} {seed} {part} {n_parts}"
        for seed in seeds
        for days, kind in classes
        for n_parts in [PARTS if kind == "binary" and days > 10 else 1]
        for part in range(n_parts)
    ]
    campaign.carry_out(arguments.output, jobs, arguments.processes, arguments.minutes)
    rows = campaign.kept(arguments.output)
    for row in rows:
        if not reached(row):
            print({k: row[k] for k in ("job", "case", "freq", "loss", "true_twoF", "twoF", "message")})
    for line in summary(rows):
        print(line)
    result = {
        "version": jfstat.__version__,
        "command": shlex.join(["python", *sys.argv]),
        "summary": summary(rows),
        "rows": rows,
    }
    campaign.write(arguments.output, result)


if __name__ == "__main__":
    main()
