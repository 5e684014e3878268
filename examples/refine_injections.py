"""How often `jfstat.refine` finds the peak, what it gains, and whether its errors are honest: random injections.

    python examples/refine_injections.py --output examples/refine_injections.json
    python examples/refine_injections.py --binary --count 14 --output examples/refine_binaries.json

300 isolated signals in noise, six in each of 50 data sets: random sky, 20 to 1900 Hz, 1 to 30 d, one and two detectors,
some with gaps, expected 2F of 60 to 500. From each, two candidates in random directions of all four parameters: one
where 40 to 85 % of 2F is left, one where 20 to 40 % is. Everything is judged by `twoF` on the full data. About half an
hour on two cores. With --binary the sources have orbits (periods of 5 h to 5 d, asini 0.1 to 5 light-seconds,
eccentricities to 0.3), asini, period and tp are fitted as well, and candidates start where 50 % of 2F is left.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from scipy.optimize import brentq  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402

ISOLATED = ("freq", "f1dot", "alpha", "delta")
BINARY = (*ISOLATED, "asini", "period", "tp")
START = 1167458304
DAYS = (1, 2, 3, 5, 10, 20, 30)
PER_SET, APART, GUARD = 6, 0.02, 0.3
"""Signals in a data set, their distance in frequency, and the guard, Hz."""
SHARES = {"near": (0.40, 0.85), "far": (0.20, 0.40)}
"""Part of 2F left at the start."""
SHARES_BINARY = {"half": (0.4999, 0.5001)}


def data_set(seed: int, binary: bool) -> tuple[jfstat.FstatData, list[jfstat.Doppler], list[dict]]:
    """Prepared data with `PER_SET` signals in noise, apart in frequency; their templates and what describes them."""
    rng = np.random.default_rng([42, seed])
    days = DAYS[seed % len(DAYS)]
    f = float(np.exp(rng.uniform(np.log(20), np.log(500 if binary else 1900))))
    detectors = [["H1"], ["H1", "L1"], ["L1", "V1"]][int(rng.integers(3))]
    duty = float(rng.choice([1.0, 0.75]))
    slots = {name: np.sort(rng.choice(48 * days, round(48 * days * duty), replace=False)) for name in detectors}
    times = {name: START + 1800 * x for name, x in slots.items()}
    half = 0.5 * APART * PER_SET
    orbits = [orbit(rng, days) if binary else None for _ in range(PER_SET)]
    widest = None
    if binary:
        widest = jfstat.Orbit(*(jnp.stack(x) for x in zip(*(jax.tree.leaves(o) for o in orbits), strict=True)))
    shift = max((2 * np.pi * o.asini / o.period / (1 - o.ecc) for o in orbits if o is not None), default=0.0)
    edge = half + 0.02 + (1.2e-4 + float(shift)) * f + GUARD
    noise = jfstat.simulate_sfts(
        detectors, timestamps=times, fmin=f - edge, fmax=f + edge, sqrt_sx=4e-24, seed=int(rng.integers(2**31))
    )
    prepared = dict(fmin=f - half, fmax=f + half, sqrt_sx=4e-24, guard=GUARD, orbit=widest, filters=False)
    data = jfstat.prepare(noise, **prepared)
    points, signals, about = [], [], []
    for k in range(PER_SET):
        fkdot = [f + APART * (k + 0.5) - half, rng.uniform(-1e-9, 1e-9)]
        sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
        point = jfstat.Doppler(*sky, fkdot, START + 43200 * days, orbits[k])
        angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
        wanted = rng.uniform(60, 500)
        unit = float(jfstat.predict_twoF(data, point, jfstat.Amplitude(1e-24, *angles))) - 4
        signals.append((point, jfstat.Amplitude(1e-24 * np.sqrt((wanted - 4) / unit), *angles)))
        points.append(point)
        about.append({"f": fkdot[0], "days": days, "detectors": detectors, "duty": duty, "expected": wanted})
    return jfstat.prepare(jfstat.inject(noise, signals), **prepared), points, about


def orbit(rng: np.random.Generator, days: float) -> jfstat.Orbit:
    """A random orbit that the data see turn."""
    period = 86400 * np.exp(rng.uniform(np.log(0.2), np.log(min(5.0, days))))
    asini = np.exp(rng.uniform(np.log(0.1), np.log(5.0)))
    return jfstat.Orbit(asini, period, START + rng.uniform(0, period), rng.uniform(0, 0.3), rng.uniform(0, 2 * np.pi))


@jax.jit
def height(near: jfstat.NarrowData, coordinates: jfstat.Coordinates, x: jax.Array) -> jax.Array:
    return jfstat.twoF(near, coordinates.point(x))


def start(data: jfstat.FstatData, point: jfstat.Doppler, share: float, rng: np.random.Generator) -> jfstat.Doppler:
    """A template in a random direction from `point` where, for the first time, only that share of 2F is left."""
    coordinates = jfstat.whiten(data, point)
    near = jfstat.narrow(data, point, reach=None if point.orbit else 40 / data.tspan + 6 / 86400)
    p = coordinates.matrix.shape[0]
    top = float(jfstat.twoF(near, point))
    steps = np.linspace(0, 4, 161)
    low = 0
    while not low:  # in some directions, short data lose little anywhere on the sky
        x = rng.normal(size=p)
        x = jnp.asarray(x / np.linalg.norm(x))
        along = np.array([float(height(near, coordinates, r * x)) for r in steps]) / top
        low = int(np.argmax(along < share))
    r = brentq(lambda r: float(height(near, coordinates, r * x)) / top - share, steps[low - 1], steps[low])
    return coordinates.point(r * x)


def follow_up(seed: int, binary: bool) -> list[dict]:
    """The candidates of each injection in a data set, refined."""
    data, points, rows = data_set(seed, binary)
    names = BINARY if binary else ISOLATED
    rng = np.random.default_rng([43, seed])
    full = jax.jit(jfstat.twoF)
    for row, point in zip(rows, points, strict=True):
        row["true_twoF"] = float(full(data, point))
    for name, shares in (SHARES_BINARY if binary else SHARES).items():
        candidates = [start(data, point, rng.uniform(*shares), rng) for point in points]
        refined = jfstat.refine(data, jax.tree.map(lambda *x: jnp.stack(x), *candidates), progress=False)
        plain = {n: np.array(getattr(refined[n], "value", refined[n])) for n in refined.colnames if n != "covariance"}
        for i, (row, point) in enumerate(zip(rows, points, strict=True)):
            truth = np.array([*np.asarray(point.fkdot), float(point.alpha), float(point.delta)])
            if binary:
                truth = np.append(truth, [float(getattr(point.orbit, n)) for n in BINARY[4:]])
            values = np.array([plain[n][i] for n in names])
            errors = np.array([plain[f"{n}_error"][i] for n in names])
            off = values - truth
            off[2] = (off[2] + np.pi) % (2 * np.pi) - np.pi
            refined_orbit = jfstat.Orbit(*values[4:], point.orbit.ecc, point.orbit.argp) if binary else None
            there = jfstat.Doppler(values[2], values[3], values[:2], point.reftime, refined_orbit)
            row[name] = {
                "start_share": float(full(data, candidates[i])) / row["true_twoF"],
                "twoF": float(full(data, there)),
                "reported_twoF": float(plain["twoF"][i]),
                "pulls": (off / errors).tolist(),
                "errors": errors.tolist(),
                "steps": int(plain["steps"][i]),
                "message": str(plain["message"][i]),
            }
    return rows


def summary(rows: list[dict]) -> dict:
    """The figures that the README quotes."""
    kinds = [name for name in (*SHARES, *SHARES_BINARY) if name in rows[0]]
    result: dict = {"injections": len(rows)}
    for name in kinds:
        gain = np.array([row[name]["twoF"] - row["true_twoF"] for row in rows])
        good = gain >= -0.02
        differ = max(abs(r[name]["twoF"] - r[name]["reported_twoF"]) / r[name]["twoF"] for r in rows)
        result[name] = {
            "found": float(np.mean(good)),
            "mean_gain": float(np.mean(gain[good])),
            "largest_difference_from_twoF": differ,
            "mean_steps": float(np.mean([row[name]["steps"] for row in rows])),
        }
    names = BINARY if "half" in kinds else ISOLATED
    pulls = np.array([row[kinds[0]]["pulls"] for row in rows if row[kinds[0]]["twoF"] > row["true_twoF"] - 0.02])
    sound = np.isfinite(pulls).all(axis=1)
    result["with_errors"] = int(np.sum(sound))
    result["pulls"] = {
        name: {
            "standard_deviation": float(np.std(x)),
            "mean": float(np.mean(x)),
            "within_68_percent": float(np.percentile(abs(x), 68.27)),
            "largest": float(np.max(abs(x))),
        }
        for name, x in zip(names, pulls[sound].T, strict=True)
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="first data set")
    parser.add_argument("--count", type=int, default=50, help=f"number of data sets of {PER_SET} injections")
    parser.add_argument("--merge", type=Path, nargs="*", default=[], help="results of other parts to add")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--binary", action="store_true", help="sources in binaries")
    arguments = parser.parse_args()
    rows = [row for path in arguments.merge for row in json.loads(path.read_text())["rows"]]
    for seed in range(arguments.first, arguments.first + arguments.count):
        for row in follow_up(seed, arguments.binary):
            gains = [
                f"{row[name]['twoF'] - row['true_twoF']:8.2f}" for name in (*SHARES, *SHARES_BINARY) if name in row
            ]
            print(f"{row['f']:8.2f} Hz {row['days']:3d} d 2F {row['true_twoF']:6.1f} gain", *gains, flush=True)
            rows.append(row)
        jax.clear_caches()  # every data set has shapes of its own
        write(rows, arguments.output)
    print(json.dumps(write(rows, arguments.output)["summary"], indent=1))


def write(rows: list[dict], path: Path | None) -> dict:
    """Summary and rows so far, written to a JSON file if there is to be one."""
    result = {"version": jfstat.__version__, "command": shlex.join(["python", *sys.argv])}
    result |= {"summary": summary(rows), "rows": rows}
    if path:
        with replacing(path) as file:
            file.write(json.dumps(result, indent=1).encode())
    return result


if __name__ == "__main__":
    main()
