"""How much of the semi-coherent rho^2 random signals lose in banks over segments, compared with the mismatches asked.

    python examples/segments_coverage.py --processes 2 --output examples/segments_coverage.json

For each bank 2000 signals, a quarter each in four discs of the sky at random places, of random spin-down, inclination
and polarisation. Of the four nearest templates the best counts, at its best frequency, by the exact loss of each
segment's rho^2 (`jfstat.mismatch`), weighted with rho^2 of the segments: once with every segment at the template
itself, and once, as in an interpolating search, at the nearest point of the segment's own lattice. ``bins`` adds the
loss of whole bins of frequency, of the sum and of each segment. ``--count`` adds, for boxes of the sky, the numbers of
templates and frequencies beside those of lalpulsar_Weave, without measuring points.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from bank_coverage import Neighbours, disc, neighbours, random_sky  # noqa: E402
from bank_coverage import timestamps as gappy_timestamps  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402
from jfstat.banks.coherent import IsolatedGroup  # noqa: E402
from jfstat.banks.space import Templates  # noqa: E402
from jfstat.maths.vectors import angles, unit_vector  # noqa: E402
from jfstat.metrics.phasemetric import factor  # noqa: E402
from jfstat.sfts.container import SFTs  # noqa: E402

START, DAY, YEAR = 1167458304, 86400, 365 * 86400
MISMATCHES = (0.1, 0.3)
KINDS = ("template", "interpolated", "bins")
SKIES = 4
"""Discs of each case."""
BLOCK = 50
"""Points measured by one task."""
BATCH = 8
"""Losses computed together."""


class Case(NamedTuple):
    """Segments of equal length (days), a disc's radius (degrees), top of the band (Hz), ranges of f1dot, ...

    ``away`` is the reference time before the start of the data, s.
    """

    name: str
    n_segments: int
    days: float
    degrees: float
    f: float
    spins: tuple[tuple[float, float], ...]
    away: int = 0


CASES = (
    Case("20 x 0.5 d", 20, 0.5, 10.0, 300.0, ((-1e-9, 0.0),)),
    Case("10 x 1 d", 10, 1.0, 8.0, 100.0, ((-5e-9, 0.0),)),
    Case("10 x 1 d, 1000 Hz", 10, 1.0, 0.5, 1000.0, ((-2e-9, 0.0),), YEAR),
    Case("20 x 5 d", 20, 5.0, 0.5, 100.0, ((-2e-11, 0.0),)),
    Case("12 x 10 d f2dot", 12, 10.0, 0.25, 200.0, ((-5e-12, 0.0), (0.0, 2e-19))),
)


class Counted(NamedTuple):
    """A box to be searched by Weave too: segments, days, sky, f1dot, first frequency and width of the band, Hz."""

    n_segments: int
    days: float
    alpha: tuple[float, float]
    delta: tuple[float, float]
    f1dot: tuple[float, float]
    fmin: float
    width: float


COUNTED = {
    "10 x 1 d": Counted(10, 1.0, (1.0, 1.8), (0.1, 0.8), (-5e-9, 0.0), 100.0, 0.001),
    "20 x 5 d": Counted(20, 5.0, (1.2, 1.25), (0.4, 0.45), (-4e-11, 0.0), 100.0, 0.001),
    "30 x 1 d": Counted(30, 1.0, (4.0, 4.3), (-0.9, -0.6), (-1e-9, 0.0), 200.0, 0.001),
}


def observed(case: Case) -> jfstat.FstatData:
    """Segments without noise in a narrow band that ends at the case's frequency."""
    times = gappy_timestamps(case.n_segments * case.days)
    reach = 0.33 + 1.2e-4 * case.f
    sfts = jfstat.simulate_sfts(
        list(times), timestamps=times, fmin=case.f - reach, fmax=case.f + reach, sqrt_sx=None, signals=[]
    )
    edges = [START + i * case.days * DAY for i in range(case.n_segments + 1)]
    pairs = [pair for pair in pairwise(edges) if has_data(sfts, pair)]
    return jfstat.prepare(sfts, case.f - 0.01, case.f, START, sqrt_sx=1e-23, guard=0.2, filters=False, segments=pairs)


def has_data(sfts: SFTs, edges: tuple[float, float]) -> bool:
    """Whether any SFT starts between two times."""
    return any(np.any((x.gps >= edges[0]) & (x.gps < edges[1])) for x in sfts)


class Bank(NamedTuple):
    """A bank in a disc, its metric, and the points of each segment's lattice that are nearest to its templates."""

    data: jfstat.FstatData
    region: Any
    r: np.ndarray
    templates: Templates
    rows: np.ndarray
    near: list[Any]
    seconds: float


@cache
def bank_of(number: int, sky: int, mismatch: float) -> Bank:
    """The bank of a case in one of its discs."""
    case = CASES[number]
    rng = np.random.default_rng((29, number, sky))
    alpha, delta = float(rng.uniform(0, 2 * np.pi)), float(np.arcsin(rng.uniform(-1, 1)))
    where, region = disc(alpha, delta, case.degrees)
    data, reftime = data_of(number), START - case.away
    names = dict(zip(("f1dot", "f2dot"), case.spins, strict=False))
    began = time.perf_counter()
    bank: Any = jfstat.template_bank(**where, **names, mismatch=mismatch, data=data, reftime=reftime)
    seconds = time.perf_counter() - began
    templates = Templates(np.asarray(bank.alpha), np.asarray(bank.delta), np.asarray(bank.fkdot)[:, 1 : 1 + len(names)])
    common = bank.reftime.common
    fmax = float(data.frequencies[-1])
    group = IsolatedGroup(jax.tree.map(np.asarray, bank))
    near = [group.nearest(own, common, fmax, mismatch) for own in data.observation.segments]
    r = factor(data.observation, len(names), common, fmax)
    rows = np.concatenate([templates.spins, unit_vector(templates.alpha, templates.delta)], axis=1)
    return Bank(data, region, r, templates, rows, near, seconds)


@cache
def data_of(number: int) -> jfstat.FstatData:
    """The data of a case."""
    return observed(CASES[number])


@partial(jax.jit, static_argnames="reftime")
def losses(data: jfstat.FstatData, rows: tuple[jax.Array, jax.Array, jax.Array], reftime: int) -> jax.Array:
    """Losses (n,) of rho^2 of all segments together.

    Rows are of signals (alpha, delta, f, ...), of their (cosi, psi), and of a template for each segment, (n, K, ...).
    """

    def one(row: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        point, amplitude, others = row
        signal = jfstat.Doppler(point[0], point[1], point[2:], reftime)
        strength = jfstat.Amplitude(1e-24, amplitude[0], amplitude[1], 0.0)

        def segment(part: tuple[Any, jax.Array]) -> tuple[jax.Array, jax.Array]:
            observation, other = part
            template = jfstat.Doppler(other[0], other[1], other[2:], reftime)
            weight = jfstat.predict_twoF(observation, signal, strength) - 4
            return weight, jfstat.mismatch(observation, signal, template, amplitude=strength)

        weight, lost = jax.lax.map(segment, (data.observation, others))
        return jnp.sum(weight * lost) / jnp.sum(weight)

    return jax.lax.map(one, rows, batch_size=BATCH)


class Points(NamedTuple):
    """Signals (n, 2 + 1 + s), their (cosi, psi), (n, 2), and their nearest templates."""

    rows: np.ndarray
    amplitude: np.ndarray
    near: Neighbours


def random_points(number: int, sky: int, mismatch: float, seed: int, n: int) -> Points:
    """Signals drawn in a disc and the ranges of spin-down."""
    case, bank = CASES[number], bank_of(number, sky, mismatch)
    rng = np.random.default_rng((41, number, sky, seed))
    low, high = np.array(case.spins, float).T
    spins = rng.uniform(low, high, (n, len(case.spins)))
    direction = random_sky(bank.region, rng, n)
    # all have the same frequency at the start of the data
    f = case.f - 0.005 - spins @ [case.away**k / k for k in range(1, 1 + len(case.spins))]
    near = neighbours(bank.r, len(case.spins), bank.rows, np.concatenate([spins, direction], axis=1), f)
    amplitude = np.column_stack([rng.uniform(-1, 1, n), rng.uniform(-np.pi / 4, np.pi / 4, n)])
    return Points(np.column_stack([*angles(direction), f, spins]), amplitude, near)


def others(bank: Bank, index: np.ndarray, f: np.ndarray, kind: str) -> np.ndarray:
    """What each segment is computed at for templates (m,) at frequencies (m,): (m, K, 3 + s)."""
    dfreq, own, n_segments = float(bank.data.dfreq), bank.templates, len(bank.near)
    if kind == "template":
        row = np.column_stack([own.alpha[index], own.delta[index], f, own.spins[index]])
        return np.repeat(row[:, None], n_segments, axis=1)
    parts = []
    for near in bank.near:
        place = near.index[index]
        shift = near.shift[:, index].sum(axis=0)
        shift = np.rint(shift / dfreq) * dfreq if kind == "bins" else shift
        there = near.templates
        parts.append(np.column_stack([there.alpha[place], there.delta[place], f + shift, there.fkdot[place, 1:]]))
    return np.stack(parts, axis=1)


def measure(number: int, sky: int, mismatch: float, seed: int, n: int) -> dict[str, Any]:
    """Losses of n random points of one disc, of each kind."""
    case, bank = CASES[number], bank_of(number, sky, mismatch)
    reftime, dfreq = START - case.away, float(bank.data.dfreq)
    points = random_points(number, sky, mismatch, seed, n)
    step = np.sqrt(0.05) / bank.r[0, 0]

    def lost(index: np.ndarray, f: np.ndarray, which: np.ndarray, kind: str) -> np.ndarray:
        """Of templates at frequencies, for the points `which`."""
        there = others(bank, index, f, kind)
        rows = points.rows[which], points.amplitude[which], there
        return np.asarray(losses(bank.data, rows, reftime))

    found: dict[str, Any] = {}
    every, k = np.arange(n), points.near.index.shape[1]
    for kind in ("template", "interpolated"):
        index, f = points.near.index.reshape(-1), points.near.frequency.reshape(-1)
        first = lost(index, f, np.repeat(every, k), kind).reshape(n, k)
        best = np.argmin(first, axis=1)
        index, f = (x[every, best] for x in (points.near.index, points.near.frequency))
        # a parabola through three frequencies
        left, middle, right = lost(index, f - step, every, kind), first[every, best], lost(index, f + step, every, kind)
        bend = np.maximum(left + right - 2 * middle, 1e-9)
        lowest = f + step * np.clip(0.5 * (left - right) / bend, -2, 2)
        last = lost(index, lowest, every, kind)
        found[kind] = np.min([middle, left, right, last], axis=0).tolist()
        if kind == "interpolated":
            on_bin = float(bank.data.fmin) + np.rint((lowest - float(bank.data.fmin)) / dfreq) * dfreq
            found["bins"] = lost(index, on_bin, every, "bins").tolist()
    found |= {"templates": len(bank.rows), "coherent": sum(len(x.templates.alpha) for x in bank.near)}
    return found | {"seconds": bank.seconds}


def tasks(names: list[str] | None, n_points: int) -> Iterator[tuple[int, int, float, int, int]]:
    """Arguments of `measure`, such that the tasks of a bank follow one another."""
    for number, case in enumerate(CASES):
        if names is not None and case.name not in names:
            continue
        for mismatch in MISMATCHES:
            for sky in range(SKIES):
                left = n_points // SKIES
                for seed in range(-(-left // BLOCK)):
                    yield number, sky, mismatch, seed, min(BLOCK, left - seed * BLOCK)


def summary(parts: dict[tuple[int, float], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each bank."""
    rows = []
    for (number, mismatch), own in sorted(parts.items()):
        case = CASES[number]
        row: dict[str, Any] = {"case": case.name, **case._asdict(), "mismatch": mismatch, "coherent_mismatch": mismatch}
        row |= {"templates": sorted({x["templates"] for x in own}), "coherent": sorted({x["coherent"] for x in own})}
        row["points"] = sum(len(x["template"]) for x in own)
        for kind in KINDS:
            asked = mismatch * (1 if kind == "template" else 2)
            x = np.concatenate([part[kind] for part in own])
            row[kind] = {
                "asked": asked,
                "mean": float(np.mean(x)),
                "quantiles": {str(q): float(np.quantile(x, q)) for q in (0.5, 0.9, 0.99)},
                "largest": float(np.max(x)),
                "fraction_above": float(np.mean(x > asked)),
            }
        rows.append(row)
    return rows


def counts(box: Counted, mismatch: float) -> dict[str, Any]:
    """Numbers of templates and frequencies of jfstat and of Weave."""
    from astropy.io import fits
    from search_against_lalsuite import lal_program

    length = int(box.days * DAY)
    reftime = START + box.n_segments * length // 2
    edges = [(START + i * length, START + (i + 1) * length) for i in range(box.n_segments)]
    times = {x: START + 1800 * np.arange(box.n_segments * length // 1800) for x in ("H1", "L1")}
    sfts = jfstat.simulate_sfts(
        list(times), timestamps=times, fmin=box.fmin - 0.4, fmax=box.fmin + box.width + 0.4, sqrt_sx=None, signals=[]
    )
    data = jfstat.prepare(
        sfts, box.fmin, box.fmin + box.width, reftime, sqrt_sx=1e-23, guard=0.2, filters=False, segments=edges
    )
    bank: Any = jfstat.template_bank(alpha=box.alpha, delta=box.delta, f1dot=box.f1dot, mismatch=mismatch, data=data)
    templates = Templates(np.asarray(bank.alpha), np.asarray(bank.delta), np.asarray(bank.fkdot)[:, 1:])
    fmax, n = float(data.frequencies[-1]), data.layout.n_frequencies
    group, common = IsolatedGroup(jax.tree.map(np.asarray, bank)), bank.reftime.common
    near = (group.nearest(own, common, fmax, mismatch) for own in data.observation.segments)
    coherent = sum(len(x.templates.alpha) for x in near)
    with tempfile.TemporaryDirectory() as folder:
        setup, result = f"{folder}/setup.fits", f"{folder}/weave.fits"
        first = [lal_program("lalpulsar_WeaveSetup"), f"--first-segment={START},{START + length}", "--detectors=H1,L1"]
        first += [f"--segment-count={box.n_segments}", f"--ref-time={reftime}", f"--output-file={setup}"]
        subprocess.run(first, check=True, capture_output=True)
        run = [lal_program("lalpulsar_Weave"), f"--setup-file={setup}", f"--output-file={result}", "--simulate-search"]
        run += [f"--alpha={box.alpha[0]},{box.alpha[1]}", f"--delta={box.delta[0]},{box.delta[1]}"]
        run += [f"--freq={box.fmin},{box.fmin + box.width}", f"--f1dot={box.f1dot[0]},{box.f1dot[1]}"]
        run += [f"--semi-max-mismatch={mismatch}", f"--coh-max-mismatch={mismatch}", "--toplist-limit=1"]
        subprocess.run(run, check=True, capture_output=True)
        with fits.open(result) as file:
            header: Any = file[0].header  # type: ignore[attr-defined]
    return {
        "mismatch": mismatch,
        **box._asdict(),
        "jfstat": {"templates": len(templates.alpha), "n_twoF": len(templates.alpha) * n, "n_coherent": coherent * n},
        "weave": {"n_twoF": int(header["NSEMITPL"]), "n_coherent": int(header["NCOHTPL"])},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="*", help="only those with such names (default: all)")
    parser.add_argument("--points", type=int, default=2000, help="random points a bank")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--count", action="store_true", help="count templates beside Weave's instead")
    parser.add_argument("--merge", type=Path, help="JSON file of an earlier run, to add to")
    parser.add_argument("--output", type=Path, help="JSON file, written after each bank")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"version": jfstat.__version__}
    if arguments.merge:
        result |= json.loads(arguments.merge.read_text())
    kept = {(row["case"], row["mismatch"]): row for row in result.get("banks", [])}
    own_command = " ".join(["segments_coverage.py", *sys.argv[1:]])
    result["commands"] = [*result.get("commands", []), own_command]

    def write() -> None:
        if arguments.output:
            written_to(arguments.output, (json.dumps(result, indent=1) + "\n").encode())

    if arguments.count:
        result["counts"] = []
        for name, box in COUNTED.items():
            for mismatch in MISMATCHES:
                result["counts"].append({"setup": name, **counts(box, mismatch)})
                print(result["counts"][-1], flush=True)
                write()
        return
    parts: dict[tuple[int, float], list[dict[str, Any]]] = {}
    jobs = list(tasks(arguments.cases, arguments.points))
    began = time.perf_counter()
    with ProcessPoolExecutor(arguments.processes, get_context("spawn")) as pool:
        running = {pool.submit(measure, *job): job for job in jobs}
        for done, future in enumerate(as_completed(running), 1):
            number, _, mismatch, _, _ = running[future]
            parts.setdefault((number, mismatch), []).append(future.result())
            kept |= {(row["case"], row["mismatch"]): row for row in summary(parts)}
            order = [(case.name, m) for case in CASES for m in MISMATCHES]
            result["banks"] = [kept[key] for key in order if key in kept]
            if done % 10 == 0 or done == len(jobs):
                write()
                print(f"{done} of {len(jobs)} tasks, {time.perf_counter() - began:.0f} s", flush=True)
    for row in result["banks"]:
        print(
            f"{row['case']:20s} {row['mismatch']:4.2f} {row['templates'][-1]:8d} templates {row['points']:5d} points",
            *(
                f"  {kind} {x['mean']:.3f} mean {x['largest']:.3f} largest {100 * x['fraction_above']:.2f}% above"
                for kind in KINDS
                for x in [row[kind]]
            ),
        )


if __name__ == "__main__":
    main()
