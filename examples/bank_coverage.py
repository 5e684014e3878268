"""How much of 2F random signals lose in the banks of `jfstat.template_bank`, compared with the mismatch asked for.

    python examples/bank_coverage.py --output examples/bank_coverage.json
    python examples/bank_coverage.py --cases "patch 30 d" "box 5 d" --points 500 --signals 0

Per bank 2000 signals at random sky positions and spin-downs, of random inclination and polarisation. Of the four
nearest templates the best counts, at its best frequency, by `jfstat.mismatch`, which is what `twoF` of noise-free
data loses: 8 signals a bank are simulated to see it. For comparison with where the metric holds, the same
averaged over amplitudes and of the phase alone, and the distance by the metric. Of 30 days of data and more, 500 of
the points are measured. Half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from astropy.coordinates import SkyCoord  # noqa: E402
from omega_centauri import BANDS, WHOLE, patch  # noqa: E402
from omega_centauri import timestamps as pilot_timestamps  # noqa: E402
from scipy.spatial import KDTree  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402
from jfstat.banks.regions import Box, Disc, Polygon, Region, WholeSky  # noqa: E402
from jfstat.maths.vectors import angles, tangents, unit_vector  # noqa: E402
from jfstat.metrics.phasemetric import drift, factor  # noqa: E402

START, TSFT, YEAR = 1167458304, 1800, 365 * 86400
PILOT = next(band for band in BANDS if band.name == "C1")
KINDS = ("given", "averaged", "phase")
"""Amplitudes as drawn, averaged over, antenna patterns neglected."""
NEAREST = 4
"""Templates looked at for each point."""
SMALL_ANGLE = 0.3
"""Loss per rad^2 added to the metric when templates near by are looked for: a day's hardly knows north from south."""
LONG = 30
"""Days of data from which on only every fourth point is measured, all of them by the metric."""
BATCH = 16
"""Templates whose mismatch is computed together."""


class Case(NamedTuple):
    """A bank: where it is, ranges of f1dot, ..., days and top of the band (Hz), reference time before the data, s."""

    name: str
    where: dict[str, Any]
    region: Region
    days: float
    f: float
    spins: tuple[tuple[float, float], ...] = ()
    away: int = 0
    mismatches: tuple[float, ...] = (0.1, 0.3)
    pilot: bool = False


def disc(alpha: float, delta: float, degrees: float) -> tuple[dict[str, Any], Region]:
    """A disc for `template_bank`, and the same as a region."""
    radius = float(np.deg2rad(degrees))
    return {"region": (SkyCoord(alpha, delta, unit="rad"), radius)}, Disc(unit_vector(alpha, delta), radius)


def box(alpha: tuple[float, float], delta: tuple[float, float]) -> tuple[dict[str, Any], Region]:
    """A box for `template_bank`, and the same as a region."""
    return {"alpha": alpha, "delta": delta}, Box(alpha[0], alpha[1] - alpha[0], *delta)


def polygon(alpha: list[float], delta: list[float]) -> tuple[dict[str, Any], Region]:
    """A polygon for `template_bank`, and the same as a region."""
    sky = SkyCoord(alpha, delta, unit="rad")
    return {"region": sky}, Polygon(unit_vector(np.array(alpha), np.array(delta)))


def position(alpha: float, delta: float) -> tuple[dict[str, Any], Region]:
    """A single position for `template_bank`, and the same as a region."""
    return {"alpha": alpha, "delta": delta}, Disc(unit_vector(alpha, delta), 0.0)


CASES = (
    Case("whole sky 6 h", {"region": "all"}, WholeSky(), 0.25, 100.0),
    Case("disc 20 deg 12 h", *disc(1.0, 0.2, 20), 0.5, 200.0, ((-1e-8, 0.0),)),
    Case("whole sky 1 d", {"region": "all"}, WholeSky(), 1, 40.0),
    Case("disc 10 deg 2 d", *disc(2.0, -0.5, 10), 2, 100.0),
    Case("disc 20 deg 3 d", *disc(4.0, 0.7, 20), 3, 60.0, ((-1e-9, 0.0),)),
    Case("box 5 d", *box((1.0, 1.3), (0.2, 0.4)), 5, 200.0, ((-1e-10, 0.0),)),
    Case("polygon 10 d", *polygon([1.0, 1.2, 1.1], [-0.2, -0.1, 0.1]), 10, 100.0, ((-2e-10, 0.0),), YEAR),
    Case("patch 10 d f2dot", *box((3.0, 3.05), (0.6, 0.65)), 10, 100.0, ((-1e-10, 0.0), (0.0, 2e-16))),
    Case("box 10 d f2dot", *box((5.0, 5.3), (-0.5, -0.2)), 10, 60.0, ((-3e-11, 0.0), (0.0, 1e-16)), YEAR),
    Case("patch 30 d", *box((0.5, 0.52), (-1.0, -0.98)), 30, 300.0, ((-1e-11, 0.0),)),
    Case("patch 40 d f2dot", *box((2.5, 2.52), (0.0, 0.02)), 40, 100.0, ((-1e-12, 0.0), (0.0, 2e-19))),
    Case("pilot C1 100 d", *box(*patch(WHOLE)), 100, PILOT.fmin + 1, (PILOT.f1dot,), 0, (0.1,), True),
    Case("position 100 d", *position(3.0, -0.8), 100, 300.0, ((-3e-12, 0.0), (-1e-19, 1e-19))),
    Case("position 100 d, a year", *position(1.0, 0.3), 100, 300.0, ((-3e-12, 0.0), (-1e-19, 1e-19)), YEAR, (0.3,)),
)


def timestamps(days: float) -> dict[str, np.ndarray]:
    """Starts of SFTs of two detectors with gaps of hours and single SFTs that miss."""
    times = {}
    for name in ("H1", "L1"):
        rng = np.random.default_rng([3, *name.encode()])
        n = round(days * 86400 / TSFT)
        there = (np.repeat(rng.uniform(size=n // 6 + 1) < 0.8, 6)[:n]) & (rng.uniform(size=n) < 0.95)
        there[[0, -1]] = True
        times[name] = START + TSFT * np.flatnonzero(there)
    return times


def prepared(case: Case, times: dict[str, np.ndarray], signals: list[Any]) -> jfstat.FstatData:
    """A narrow band that ends at the case's frequency, without noise."""
    reach = 0.33 + 1.2e-4 * case.f
    sfts = jfstat.simulate_sfts(
        list(times), timestamps=times, fmin=case.f - reach, fmax=case.f + reach, sqrt_sx=None, signals=signals
    )
    return jfstat.prepare(sfts, case.f - 0.01, case.f, START, sqrt_sx=1e-23, guard=0.2, filters=False)


def random_sky(region: Region, rng: np.random.Generator, n: int) -> np.ndarray:
    """Positions spread evenly over a region, (n, 3)."""
    centre, radius = region.cap
    if radius == 0:
        return np.tile(centre, (n, 1))
    axes = tangents(centre)
    found = np.empty((0, 3))
    while len(found) < n:
        polar = 2 * np.arcsin(np.sin(0.5 * radius) * np.sqrt(rng.uniform(size=(4 * n, 1))))
        turn = rng.uniform(0, 2 * np.pi, 4 * n)
        ring = np.stack([np.cos(turn), np.sin(turn)], axis=-1) @ axes
        x = np.cos(polar) * centre + np.sin(polar) * ring
        found = np.concatenate([found, x[region.contains(x)]])
    return found[:n]


class Neighbours(NamedTuple):
    """Of n points: the nearest templates, (n, NEAREST), their frequencies by the metric, and its distance squared."""

    index: np.ndarray
    frequency: np.ndarray
    distance: np.ndarray

    def first(self, n: int) -> Neighbours:
        """Those of the first n points."""
        return Neighbours(*(x[:n] for x in self))


def neighbours(
    r: np.ndarray, n_spins: int, templates: np.ndarray, points: np.ndarray, frequency: np.ndarray
) -> Neighbours:
    """The templates that the metric calls best; `templates` and `points` are rows of spin-downs and unit vector."""
    white = np.concatenate([r[1:, 1:], np.eye(3 + n_spins)[n_spins:] * np.sqrt(SMALL_ANGLE)])
    middle = np.mean(points, axis=0)
    k = min(NEAREST, len(templates))
    _, index = KDTree((templates - middle) @ white.T).query((points - middle) @ white.T, k=k)
    index = index.reshape(len(points), k)
    offset = templates[index] - points[:, None]
    best = frequency[:, None] - offset @ drift(r, 1)[0]
    return Neighbours(index, best, np.sum((offset @ r[1:, 1:].T) ** 2, axis=-1))


@partial(jax.jit, static_argnames="reftime")
def losses(data: jfstat.FstatData, rows: tuple[jax.Array, jax.Array, jax.Array], reftime: int) -> jax.Array:
    """Losses (n, 3), see `KINDS`, from rows of signals (alpha, delta, f, ...), their (cosi, psi) and templates."""

    def one(row: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        point, amplitude, other = row
        signal = jfstat.Doppler(point[0], point[1], point[2:], reftime)
        template = jfstat.Doppler(other[0], other[1], other[2:], reftime)
        loss = partial(jfstat.mismatch, data, signal, template)
        return jnp.stack([loss(amplitude=jfstat.Amplitude(1e-24, *amplitude, 0.0)), loss(), loss(phase_only=True)])

    return jax.lax.map(one, rows, batch_size=BATCH)


@jax.jit
def stacked_two_f(data: jfstat.FstatData, points: jfstat.Doppler) -> jax.Array:
    return jax.lax.map(partial(jfstat.twoF, data), points)


def prepared_case(case: Case) -> tuple[dict[str, np.ndarray], jfstat.FstatData]:
    """Timestamps and data without signal."""
    times = pilot_timestamps(case.days) if case.pilot else timestamps(case.days)
    return times, prepared(case, times, [])


def measure(
    case: Case, mismatch: float, times: dict[str, np.ndarray], data: jfstat.FstatData, n: int, n_signals: int
) -> dict[str, Any]:
    """One bank and how far random signals are from it."""
    rng = np.random.default_rng([17, *case.name.encode()])
    names = dict(zip(("f1dot", "f2dot"), case.spins, strict=False))
    reftime, s = START - case.away, len(case.spins)
    began = time.perf_counter()
    bank = jfstat.template_bank(**case.where, **names, mismatch=mismatch, data=data, reftime=reftime)
    planned = time.perf_counter() - began
    fkdot = np.asarray(bank.fkdot)[:, : 1 + s]
    sky = np.stack([bank.alpha, bank.delta], axis=-1)

    low, high = np.array(case.spins, float).reshape(-1, 2).T
    spins = rng.uniform(low, high, (n, s))
    direction = random_sky(case.region, rng, n)
    # all have the same frequency at the start of the data
    f = case.f - spins @ [case.away**k / k for k in range(1, s + 1)]
    r = factor(data, s, reftime, float(data.frequencies[-1]))
    templates = np.concatenate([fkdot[:, 1:], unit_vector(sky[:, 0], sky[:, 1])], axis=1)
    near = neighbours(r, s, templates, np.concatenate([spins, direction], axis=1), f)
    distance = np.min(near.distance, axis=1)
    if case.days >= LONG:
        n //= 4
        near, f, spins, direction = near.first(n), f[:n], spins[:n], direction[:n]

    point = np.column_stack([*angles(direction), f, spins])
    amplitude = np.column_stack([rng.uniform(-1, 1, n), rng.uniform(-np.pi / 4, np.pi / 4, n)])
    k = near.index.shape[1]
    other = np.concatenate([sky[near.index], near.frequency[..., None], fkdot[near.index][..., 1:]], axis=-1)
    first = losses(
        data, (np.repeat(point, k, axis=0), np.repeat(amplitude, k, axis=0), other.reshape(n * k, -1)), reftime
    )
    first = np.asarray(first).reshape(n, k, 3)
    # the best template at the metric's frequency, a step aside, and where a parabola through these is lowest
    best = np.argmin(first[..., 0], axis=1)
    other = other[np.arange(n), best]
    step = np.sqrt(0.05) / r[0, 0] * np.array([-1.0, 1.0])
    left, right = (np.asarray(losses(data, (point, amplitude, moved(other, x)), reftime)) for x in step)
    middle = first[np.arange(n), best]
    bend = np.maximum(left + right - 2 * middle, 1e-9)[:, 0]
    lowest = np.clip(0.5 * step[1] * (left - right)[:, 0] / bend, 2 * step[0], 2 * step[1])
    last = np.asarray(losses(data, (point, amplitude, moved(other, lowest)), reftime))
    loss = np.min([np.min(first, axis=1), left, right, last], axis=0)
    differ = [
        differences(case, times, point[i], amplitude[i], moved(other, lowest)[i], last[i, 0], reftime)
        for i in range(min(n_signals, n))
    ]
    row: dict[str, Any] = {
        "case": case.name,
        "mismatch": mismatch,
        "days": case.days,
        "freq": case.f,
        "spin_downs": case.spins,
        "reference_before_start_s": case.away,
        "templates": len(fkdot),
        "sky_positions": len(np.unique(sky, axis=0)),
        "seconds": round(planned, 2),
        "points": n,
    }
    for kind, x in zip((*KINDS, "metric"), (*loss.T, distance), strict=True):
        row[kind] = {
            "mean_over_m": float(np.mean(x)) / mismatch,
            "largest_over_m": float(np.max(x)) / mismatch,
            "fraction_above": float(np.mean(x > mismatch)),
        }
    row["signals"] = len(differ)
    row["largest_difference_from_twoF"] = max(differ, default=None)
    return row


def moved(rows: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Templates, rows (alpha, delta, f, ...), with f a step higher."""
    rows = rows.copy()
    rows[:, 2] += step
    return rows


def differences(case: Case, times: Any, point: Any, amplitude: Any, other: Any, loss: float, reftime: int) -> float:
    """Between the loss of 2F of a simulated signal without noise and what `jfstat.mismatch` says."""
    signal = jfstat.Doppler(point[0], point[1], point[2:], reftime)
    data = prepared(case, times, [(signal, jfstat.Amplitude(1e-24, *amplitude, 0.3))])
    both = np.stack([point, other])
    peak, value = np.asarray(stacked_two_f(data, jfstat.Doppler(both[:, 0], both[:, 1], both[:, 2:], reftime)))
    return float(abs(1 - value / peak - loss))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="*", help="only those with such names (default: all)")
    parser.add_argument("--points", type=int, default=2000, help="random points a bank")
    parser.add_argument("--signals", type=int, default=8, help="signals a bank that are simulated")
    parser.add_argument("--merge", type=Path, nargs="*", default=[], help="results of earlier runs, to add to")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    print(f"{'bank':24s}    m templates  time   " + "   ".join(f"{x:>20s}" for x in (*KINDS, "metric")) + "   twoF")
    print(" " * 46 + "   mean   max    above" * 4)
    earlier = [row for path in arguments.merge for row in json.loads(path.read_text())["banks"]]
    rows = {(row["case"], row["mismatch"]): row for row in earlier}
    for case in [x for x in CASES if arguments.cases is None or x.name in arguments.cases]:
        times, data = prepared_case(case)
        for mismatch in case.mismatches:
            began = time.perf_counter()
            row = measure(case, mismatch, times, data, arguments.points, arguments.signals)
            rows[case.name, mismatch] = row
            print(
                f"{case.name:24s} {mismatch:4.2f} {row['templates']:9d} {row['seconds']:5.1f}",
                *(
                    f"  {x['mean_over_m']:5.2f} {x['largest_over_m']:6.3f} {100 * x['fraction_above']:6.2f}%"
                    for x in (row[kind] for kind in (*KINDS, "metric"))
                ),
                f" {row['largest_difference_from_twoF'] or 0:.1e}  ({time.perf_counter() - began:.0f} s)",
                flush=True,
            )
            if arguments.output:
                with replacing(arguments.output) as file:
                    banks = [rows[x.name, m] for x in CASES for m in x.mismatches if (x.name, m) in rows]
                    command = shlex.join(["python", *sys.argv])
                    result = {"version": jfstat.__version__, "command": command, "banks": banks}
                    file.write(json.dumps(result, indent=1).encode())
        jax.clear_caches()  # every case has shapes of its own


if __name__ == "__main__":
    main()
