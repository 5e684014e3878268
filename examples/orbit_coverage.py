"""How much of 2F random signals lose in banks with ranges of orbits, compared with the mismatch asked for.

    python examples/orbit_coverage.py --output examples/orbit_coverage.json
    python examples/orbit_coverage.py --cases "19 h, 3 d" --points 500

Per bank 2000 signals with random orbits (sky positions, spin-downs), inclination and polarisation, a quarter of them
on the edges of the ranges. Of the three nearest templates by the metric the best counts, at its best frequency. The
loss is that of the phase alone, averaged over amplitudes, and with the amplitudes drawn; of some signals, 2F of
simulated data without noise tells the same. Beside the number of templates is that of Leaci & Prix (2015, Phys. Rev. D
91, 102003): theta_n m^(-n/2) times the integral of sqrt(det g) over the ranges, with their metric for data much longer
than a period. It leaves out templates that only edges need, and holds for long data alone. Half an hour on two cores.
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
from scipy.spatial import KDTree  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402
from jfstat.banks.chart import ChartedSpace, charted_space  # noqa: E402
from jfstat.banks.comparison import Phases  # noqa: E402
from jfstat.banks.lattice import LEAST, _planned, divided  # noqa: E402
from jfstat.geometry.antenna import harmonic_sum, pattern_coefficients  # noqa: E402
from jfstat.geometry.nearby import phase_difference, sites  # noqa: E402
from jfstat.metrics.mismatch import loss  # noqa: E402
from jfstat.signal.parameters import ORBIT_FIELDS, spin_name  # noqa: E402
from jfstat.signal.times import gps_time  # noqa: E402

START, TSFT, HOUR = 1167458304, 1800, 3600.0
ALPHA, DELTA = 4.276, -0.273
"""Sco X-1."""
NEAREST, PREFILTERED = 3, 64
"""Templates looked at for each point, and those of which they are the nearest by the local metric."""
KINDS = ("given", "averaged", "phase")
"""Amplitudes as drawn, averaged over, antenna patterns neglected."""
OFFSETS = np.linspace(-0.6, 0.6, 31)
"""Offsets from the frequency of the best straight line through the phase difference, 1/T."""


class Case(NamedTuple):
    """A bank: days of data, top of the band (Hz), ranges; periapsis in s since the start of the data.

    With segments the days are of each, and segments begin `every` so many days.
    """

    name: str
    days: float
    f: float
    asini: tuple[float, float]
    period: tuple[float, float]
    tp: tuple[float, float]
    ecc: tuple[float, float] = (0.0, 0.0)
    argp: tuple[float, float] = (0.0, 0.0)
    spins: tuple[tuple[float, float], ...] = ()
    sky: tuple[float, float] = (0.0, 0.0)
    detectors: tuple[str, ...] = ("H1", "L1")
    mismatches: tuple[float, ...] = (0.1, 0.3)
    segments: int = 0
    every: float = 0.0

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Ranges by name; periapsis in GPS s."""
        alpha, delta = self.sky
        return {
            "alpha": (ALPHA - alpha, ALPHA + alpha),
            "delta": (DELTA - delta, DELTA + delta),
            **{spin_name(k): x for k, x in enumerate(self.spins, 1)},
            "asini": self.asini,
            "period": self.period,
            "tp": (START + self.tp[0], START + self.tp[1]),
            "ecc": self.ecc,
            "argp": self.argp,
        }


SCO = 68023.7
SHORT, LONG = 7 * HOUR, 3 * 24 * HOUR
CASES = (
    Case("7 h, 0.5 d", 0.5, 100.0, (0.05, 0.1), (SHORT, SHORT), (0, SHORT)),
    Case("7 h, 3 d, period", 3, 50.0, (0.02, 0.06), (SHORT - 50, SHORT + 50), (0, SHORT)),
    Case("7 h, 10 d, period", 10, 50.0, (0.02, 0.05), (SHORT - 10, SHORT + 10), (0, 4000), detectors=("H1",)),
    Case("19 h, 0.5 d", 0.5, 300.0, (1.26, 1.62), (SCO, SCO), (-300, 300)),
    Case("19 h, 0.5 d, period", 0.5, 50.0, (1.0, 1.8), (SCO - 200, SCO + 200), (-1000, 1000)),
    Case("19 h, 3 d", 3, 200.0, (1.4, 1.5), (SCO, SCO), (-100, 100), detectors=("H1",)),
    Case("19 h, 3 d, period", 3, 30.0, (0.4, 1.6), (SCO - 100, SCO + 100), (-300, 300)),
    Case("19 h, 10 d, period known to 0.1 s", 10, 100.0, (1.4, 1.5), (SCO - 0.1, SCO + 0.1), (-100, 100)),
    Case("3 d, 0.5 d, whole orbit", 0.5, 50.0, (1.0, 3.0), (LONG - 3000, LONG + 3000), (0, LONG)),
    Case("3 d, 3 d, period", 3, 40.0, (1.0, 1.5), (LONG - 500, LONG + 500), (0, 10000)),
    Case("3 d, 10 d", 10, 100.0, (1.0, 1.2), (LONG, LONG), (0, 2000)),
    Case("19 h, 3 d, ecc", 3, 40.0, (1.4, 1.42), (SCO, SCO), (-30, 30), (0.0, 0.01), (0.0, 2 * np.pi)),
    Case("19 h, 3 d, large ecc", 3, 30.0, (1.4, 1.42), (SCO, SCO), (-30, 30), (0.29, 0.3), (0.5, 0.55)),
    Case("19 h, 3 d, f1dot", 3, 100.0, (1.4, 1.45), (SCO, SCO), (-60, 60), spins=((-2e-9, 0.0),)),
    Case("19 h, 0.5 d, f1dot", 0.5, 100.0, (1.3, 1.6), (SCO, SCO), (-1000, 1000), spins=((-3e-8, 0.0),)),
    Case("19 h, 3 d, sky", 3, 60.0, (1.4, 1.42), (SCO, SCO), (-60, 60), sky=(0.03, 0.03)),
    Case("Sco X-1, 12 x 1 d in 56 d", 1, 100.0, (1.4, 1.6), (SCO - 0.5, SCO + 0.5), (-60, 60), segments=12, every=5),
    Case("19 h, 8 x 0.5 d, period", 0.5, 50.0, (1.0, 1.4), (SCO - 20, SCO + 20), (-300, 300), segments=8, every=0.5),
    Case(
        "7 h, 6 x 1 d, ecc",
        1,
        20.0,
        (0.5, 0.52),
        (SHORT - 1, SHORT + 1),
        (0, 300),
        (0.0, 0.02),
        (0.0, 2 * np.pi),
        segments=6,
        every=3,
    ),
    Case(
        "19 h, 6 x 2 d, f1dot",
        2,
        60.0,
        (1.4, 1.42),
        (SCO - 0.2, SCO + 0.2),
        (-60, 60),
        spins=((-2e-10, 0.0),),
        segments=6,
        every=4,
    ),
    Case("far periapsis, 3 d, period", 3, 50.0, (1.4, 1.5), (SCO - 1, SCO + 1), (-1000 * SCO, -1000 * SCO + 500)),
)


def timestamps(case: Case) -> dict[str, np.ndarray]:
    """Starts of SFTs with gaps of hours and single SFTs that miss; half a day has few."""
    times = {}
    for name in case.detectors:
        rng = np.random.default_rng([3, *name.encode()])
        n = round(case.days * 86400 / TSFT)
        each = []
        for start, _ in edges(case):
            there = (np.repeat(rng.uniform(size=n // 6 + 1) < 0.8, 6)[:n]) & (rng.uniform(size=n) < 0.95)
            there[[0, -1]] = True
            each.append(start + TSFT * np.flatnonzero(there))
        times[name] = np.concatenate(each)
    return times


def edges(case: Case) -> list[tuple[int, int]]:
    """Starts and ends of the segments, or of all data."""
    starts = [START + round(i * case.every * 86400) for i in range(max(1, case.segments))]
    return [(start, start + round(case.days * 86400)) for start in starts]


def observed(case: Case, times: dict[str, np.ndarray]) -> jfstat.Observation:
    """Observation of the data, of each segment if there are any."""
    if not case.segments:
        return jfstat.observation(list(times), timestamps=times, tsft=TSFT)
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, tsft=TSFT, fmin=case.f, fmax=case.f + 0.01, sqrt_sx=None)
    return jfstat.segment_observations(sfts, edges(case), sqrt_sx=1e-23, reftime=START)


def template_count(case: Case, mismatch: float) -> float | None:
    """Templates by the metric of Leaci & Prix for data much longer than a period; orbits that are circular only.

    g_asini = 2 pi^2 f^2, g_tasc = 2 pi^2 (f asini Omega)^2, g_Omega = (pi f asini T)^2/6, and no other terms. The
    larger of the numbers with the period and without, because a narrow range of periods needs no templates of its own.
    """
    if case.spins or any(case.sky) or case.ecc[1]:
        return None
    period = 0.5 * sum(case.period)
    (a1, a2), rate, length = case.asini, 2 * np.pi / period, edges(case)[-1][1] - START
    width = min(case.tp[1] - case.tp[0], period)
    first = 2 * np.pi**2 * case.f**2 * rate * width
    counts = [_thickness(2) / mismatch * first * (a2**2 - a1**2) / 2]
    if case.period[1] > case.period[0]:
        d_rate = rate * (case.period[1] - case.period[0]) / period
        volume = first * (a2**3 - a1**3) / 3 * np.pi * case.f * length / np.sqrt(6) * d_rate
        counts.append(_thickness(3) * mismatch**-1.5 * volume)
    return float(max(counts))


def _thickness(n: int) -> float:
    """Normalised thickness of A_n* (Conway & Sloane 1999, chapter 2)."""
    return float(np.sqrt(n + 1) * (n * (n + 2) / (12 * (n + 1))) ** (0.5 * n))


def stack(case: Case, space: ChartedSpace, u: np.ndarray) -> jfstat.Doppler:
    """Templates at parameters u, (k, d), of a space; periapsis and all are as drawn."""
    names, limits = space.chart.names, case.limits
    at = {name: np.full(len(u), 0.5 * sum(x)) for name, x in limits.items()}
    at |= {spin_name(1): np.zeros(len(u))} if not case.spins else {}
    at |= {name: u[:, i] for i, name in enumerate(names)}
    if "phase" in at:  # psi = Omega (t_middle - t_asc)
        at["tp"] = space.place.middle - (at["phase"] - at["argp"]) * at["period"] / (2 * np.pi)
    fkdot = [np.full(len(u), case.f), *(at[spin_name(k)] for k in range(1, max(1, len(case.spins)) + 1))]
    orbit = jfstat.Orbit(*(at[name] for name in ORBIT_FIELDS))
    return jfstat.Doppler(at["alpha"], at["delta"], np.stack(fkdot, axis=-1), START, orbit)


@partial(jax.jit, static_argnames="n_nodes")
def losses(observation: Any, signals: Any, templates: Any, amplitudes: Any, n_nodes: int) -> tuple[Any, Any]:
    """Losses (n, 3), see `KINDS`, and the best frequencies less those of the signals, Hz, (n,)."""
    segments = observation if observation.n_segments else jax.tree.map(lambda x: x[None], observation)

    def one(row: Any) -> Any:
        signal, other, amplitude = row

        def of_segment(observation: Any) -> Any:
            t, weight = observation.quadrature(n_nodes)
            time = t - observation.middle
            centre = observation.source(signal)

            def each(trajectory: Any, response: Any, t: Any) -> Any:
                place = sites(trajectory, centre, t)
                cycles = phase_difference(place, centre, observation.source(other))
                patterns = [
                    jnp.stack(
                        [harmonic_sum(c, place.sidereal) for c in pattern_coefficients(response, p.alpha, p.delta)]
                    )
                    for p in (signal, other)
                ]
                return cycles, *patterns

            cycles, here, there = jax.vmap(each)(observation.trajectory, observation.response, t)
            share = weight / jnp.sum(weight)
            centred = time - jnp.sum(share * time)
            return time, weight, cycles, here, there, jnp.sum(share * centred * cycles), jnp.sum(share * centred**2)

        *rows, moment, square = jax.vmap(of_segment)(segments)
        slope = jnp.sum(moment) / jnp.sum(square)
        steps = slope - jnp.asarray(OFFSETS) / jnp.max(segments.tspan)

        def at(step: Any) -> Any:
            def of_one(time: Any, weight: Any, cycles: Any, here: Any, there: Any) -> Any:
                own = partial(loss, cycles - step * time, weight, here, there)
                return jnp.stack([own(jfstat.Amplitude(1e-24, *amplitude, 0.0)), own(), own(phase_only=True)])

            return jnp.mean(jax.vmap(of_one)(*rows), axis=0)

        lost = jax.lax.map(at, steps)
        return jnp.min(lost, axis=0), -steps[jnp.argmin(lost[:, 0])]

    return jax.lax.map(one, (signals, templates, amplitudes))


def measure(case: Case, mismatch: float, n: int, n_signals: int) -> dict[str, Any]:
    """One bank and how far random signals are from it."""
    rng = np.random.default_rng([17, *case.name.encode()])
    times = timestamps(case)
    observation = observed(case, times)
    limits, s = case.limits, max(1, len(case.spins))
    began = time.perf_counter()
    given = {name: x if x[0] < x[1] else x[0] for name, x in limits.items()}
    bank = jfstat.template_bank(
        *(given.pop(name) for name in ("alpha", "delta")),
        **{name: given.pop(name) for name in list(given) if name.endswith("dot")},
        orbit=given,
        data=observation,
        freq=case.f,
        mismatch=mismatch,
        reftime=START,
    )
    planned = time.perf_counter() - began
    limits = {
        name: limits.get(name, (0.0, 0.0)) for name in ("alpha", "delta", *(spin_name(k) for k in range(1, s + 1)))
    }
    limits |= {name: case.limits[name] for name in ORBIT_FIELDS}
    space = charted_space(Phases.of(observation), limits, s, gps_time(START, "reftime"), case.f, mismatch)
    space = divided(space)[0].space  # in the coordinates of the bank
    u = rng.uniform(space.low, space.high, (n, len(space.low)))
    edge = rng.integers(len(space.low), size=n // 4)  # a quarter lies on the edges
    u[np.arange(n // 4), edge] = np.where(rng.uniform(size=n // 4) < 0.5, space.low[edge], space.high[edge])
    signals = stack(case, space, u)
    amplitude = np.column_stack([rng.uniform(-1, 1, n), rng.uniform(-np.pi / 4, np.pi / 4, n)])

    # coordinates of templates and points, and the nearest by the metric of the point
    at = {"alpha": bank.alpha, "delta": bank.delta, **{name: getattr(bank.orbit, name) for name in ORBIT_FIELDS}}
    at |= {spin_name(k): bank.fkdot[:, k] for k in range(1, s + 1)}
    if "phase" in space.chart.names:
        at["phase"] = 2 * np.pi / at["period"] * (space.place.middle - at["tp"]) + at["argp"]
    x = space.coordinates(np.stack([np.asarray(at[name]) for name in space.chart.names], axis=-1))
    y = space.coordinates(u)
    box = _planned(space, space.low, space.high)
    white = box.lattice.factor / box.lattice.scale
    k = min(PREFILTERED, len(x))
    _, index = KDTree(x @ white.T).query(y @ white.T, k=k)
    index = index.reshape(n, k)
    least = np.array([LEAST.get(name, -np.inf) for name in space.chart.names])
    local = space.factors(space.coordinates(np.maximum(u, least)), box.lattice.scale)
    offset = (x[index] - y[:, None]) / box.lattice.scale
    distance = np.sum(np.einsum("nij,nkj->nki", local, offset) ** 2, axis=-1)
    near = np.argsort(distance, axis=1)[:, :NEAREST]
    index = np.take_along_axis(index, near, axis=1)
    m = index.shape[1]
    pick = lambda tree, rows: jax.tree.map(lambda v: jnp.asarray(v)[rows], tree)  # noqa: E731
    both = pick(signals, np.repeat(np.arange(n), m)), pick(bank, index.ravel())
    fkdot = both[1].fkdot.at[:, 0].set(case.f)
    templates = jfstat.Doppler(both[1].alpha, both[1].delta, fkdot, START, both[1].orbit)
    lost, step = losses(observation, both[0], templates, np.repeat(amplitude, m, axis=0), 1)
    lost, step = np.asarray(lost).reshape(n, m, 3), np.asarray(step).reshape(n, m)
    least = np.min(lost, axis=1)
    best = np.argmin(lost[..., 0], axis=1)
    differ = []
    for i in rng.choice(n, n_signals, replace=False):
        j = i * m + best[i]
        template = jax.tree.map(lambda v, j=j: v[j], templates)
        moved = jfstat.Doppler(
            template.alpha, template.delta, template.fkdot.at[0].add(step[i, best[i]]), START, template.orbit
        )
        signal = jax.tree.map(lambda v, i=i: jnp.asarray(v)[i], signals)
        differ.append(difference(case, times, signal, amplitude[i], moved, lost[i, best[i], 0]))
    row: dict[str, Any] = {
        **{name: x for name, x in case._asdict().items() if name not in ("name", "mismatches")},
        "case": case.name,
        "mismatch": mismatch,
        "templates": len(bank.alpha),
        "leaci_prix": template_count(case, mismatch),
        "seconds": round(planned, 2),
        "points": n,
        "signals": len(differ),
        "largest_difference_from_twoF": max(differ, default=None),
    }
    for kind, x in zip(KINDS, least.T, strict=True):
        row[kind] = {
            "mean_over_m": float(np.mean(x)) / mismatch,
            "largest_over_m": float(np.max(x)) / mismatch,
            "fraction_above": float(np.mean(x > mismatch)),
        }
    return row


def difference(case: Case, times: Any, signal: Any, amplitude: Any, template: Any, lost: float) -> float:
    """Between the loss of 2F of a simulated signal without noise and the loss computed."""
    reach = 0.4 + 1.2e-4 * case.f + case.f * 2 * np.pi * case.asini[1] / case.period[0] * 2
    sfts = jfstat.simulate_sfts(
        list(times),
        timestamps=times,
        tsft=TSFT,
        fmin=case.f - reach,
        fmax=case.f + reach,
        sqrt_sx=None,
        signals=[(signal, jfstat.Amplitude(1e-24, *amplitude, 0.3))],
    )
    orbits = jax.tree.map(lambda a, b: jnp.stack([a, b]), signal.orbit, template.orbit)
    segments = edges(case) if case.segments else None
    data = jfstat.prepare(
        sfts, case.f - 0.1, case.f + 0.1, START, sqrt_sx=1e-23, guard=0.2, filters=False, orbit=orbits,
        fdots=[(min(x[0], -1e-12), max(x[1], 1e-12)) for x in case.spins] or None, segments=segments,
    )  # fmt: skip
    each = [data[i] for i in range(case.segments)] if case.segments else [data]
    return float(abs(1 - np.mean([jfstat.twoF(x, template) / jfstat.twoF(x, signal) for x in each]) - lost))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="*", help="only those with such names (default: all)")
    parser.add_argument("--points", type=int, default=2000, help="random points a bank")
    parser.add_argument("--signals", type=int, default=4, help="signals a bank that are simulated")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    print(f"{'bank':34s}    m templates   L&P time   " + "  ".join(f"{x:>20s}" for x in KINDS) + "   twoF")
    rows = []
    for case in [x for x in CASES if arguments.cases is None or x.name in arguments.cases]:
        for mismatch in case.mismatches:
            began = time.perf_counter()
            row = measure(case, mismatch, arguments.points, arguments.signals)
            rows.append(row)
            print(
                f"{case.name:34s} {mismatch:4.2f} {row['templates']:9d} {row['leaci_prix'] or 0:9.0f}",
                f"{row['seconds']:5.1f}",
                *(
                    f" {x['mean_over_m']:5.2f} {x['largest_over_m']:6.3f} {100 * x['fraction_above']:6.2f}%"
                    for x in (row[kind] for kind in KINDS)
                ),
                f" {row['largest_difference_from_twoF'] or 0:.1e}  ({time.perf_counter() - began:.0f} s)",
                flush=True,
            )
            if arguments.output:
                with replacing(arguments.output) as file:
                    command = shlex.join(["python", *sys.argv])
                    result = {"version": jfstat.__version__, "command": command, "banks": rows}
                    file.write(json.dumps(result, indent=1).encode())
        jax.clear_caches()  # every case has shapes of its own


if __name__ == "__main__":
    main()
