"""How much of rho^2 random signals lose in banks of `lattice_bank` and `remnant_bank`, beside the mismatch asked for.

    python examples/lattice_coverage.py --output examples/lattice_coverage.json
    python examples/lattice_coverage.py --cases glitch remnant --points 500

Per bank 2000 random signals, a quarter of them on the edges of the ranges. Of the three nearest templates by the metric
the best counts, at its best frequency. The loss is that of the exact phase: direct sums over the middles of SFTs, in
double precision. Remnants follow braking indices exactly, not the pieces of their templates. Numbers of templates stand
beside those of a hexagonal lattice laid by hand in a constant metric (waves), and of `template_bank` (sky). Ten minutes
on two cores.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from scipy.spatial import KDTree  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402
from jfstat.banks import lattice_bank, remnants  # noqa: E402
from jfstat.banks.chart import coordinates  # noqa: E402
from jfstat.banks.lattice import LEAST  # noqa: E402
from jfstat.geometry.nearby import phase_difference, sites  # noqa: E402
from jfstat.signal.values import columns, replaced  # noqa: E402

START, DAY = 1167458304, 86400.0
SKY = 2.1, 0.47
NEAREST, PREFILTERED = 3, 64
"""Templates looked at for each signal, and those of which they are the nearest by the local metric."""
OFFSETS = np.linspace(-0.6, 0.6, 31)
"""Offsets from the frequency of the best straight line through the phase difference, 1/T."""


class Case(NamedTuple):
    """A bank.

    Attributes
    ----------
    observation : Observation
    point : Doppler
    ranges : mapping
        For `lattice_bank`, or the arguments of `remnant_bank`.
    mismatch : float
    truth : callable, optional
        Function from a point and parameters by name, (n,) each, to signals; by default the parameters are the point's.
    beside : callable, optional
        Function to the number of templates of another lattice.
    """

    observation: Any
    point: jfstat.Doppler
    ranges: Mapping[str, Any]
    mismatch: float
    truth: Callable[[jfstat.Doppler, Mapping[str, np.ndarray]], jfstat.Doppler] | None = None
    beside: Callable[[], int] | None = None


def glitch(t: Any, p: Any) -> Any:
    """A step of the frequency at a time that decays."""
    later = jnp.maximum(t - p["time"], 0.0)
    return p["df"] * p["tau"] * (1 - jnp.exp(-later / p["tau"]))


def waves(t: Any, p: Any) -> Any:
    """Two harmonics of timing noise with a period of six days."""
    x = 2 * jnp.pi * t / (6 * DAY)
    return p["a"] * jnp.sin(x) + p["b"] * jnp.cos(x) + p["c"] * jnp.sin(2 * x)


def braking(t: Any, p: Any) -> Any:
    """The phase of a source with a braking index, less that of its first frequency."""
    m, x = p["n"] - 1, p["slope"] / p["freq"] * t
    return p["freq"] ** 2 / p["slope"] * jnp.expm1((m - 1) / m * jnp.log1p(-m * x)) / (1 - m) - p["freq"] * t


def wandering(t: Any, p: Any) -> Any:
    """The same with a braking index for each of several pieces, that begin at the knots."""
    knots = p["knots"]
    freq, slope, cycles = p["freq"], p["slope"], jnp.zeros(())
    for k in range(len(knots) - 1):
        length = jnp.clip(t, knots[k], knots[k + 1]) - knots[k]
        length = length + (jnp.minimum(t - knots[0], 0.0) if k == 0 else 0.0)
        length = length + (jnp.maximum(t - knots[-1], 0.0) if k == len(knots) - 2 else 0.0)
        own = {"n": p["n"][k], "slope": slope, "freq": freq}
        cycles = cycles + braking(length, own) + (freq - p["freq"]) * length
        freq, slope, _ = jfstat.braking_evolution(freq, slope, p["n"][k], knots[k + 1] - knots[k])
    return cycles


def observed(days: float, every: float | None = None, segments: int | None = None) -> Any:
    """H1 and L1 with three tenths of SFTs missing; or segments of so many days."""
    times = {}
    for name in ("H1", "L1"):
        rng = np.random.default_rng([5, *name.encode()])
        there = rng.uniform(size=round(48 * days)) < 0.7
        there[[0, -1]] = True
        own = START + 1800 * np.flatnonzero(there)
        shifts = np.arange(segments or 1) * round((every or 0.0) * DAY)
        times[name] = (shifts[:, None] + own).reshape(-1)
    if segments is None:
        return jfstat.observation(list(times), timestamps=times)
    spans = [(START + k * every * DAY, START + (k * every + days) * DAY) for k in range(segments)]
    sfts = jfstat.simulate_sfts(list(times), timestamps=times, fmin=100.0, fmax=100.1, sqrt_sx=None)
    return jfstat.segment_observations(sfts, spans, sqrt_sx=1e-23, reftime=START)


def braked_signals(point: jfstat.Doppler, at: Mapping[str, np.ndarray]) -> jfstat.Doppler:
    """Signals whose frequency falls by braking indices."""
    n = len(at["model.f1dot[0]"])
    knots = np.asarray(point.model.parameters["knots"])
    first = at["braking_index[0]"]
    indices = np.stack([at.get(f"braking_index[{k}]", first) for k in range(len(knots) - 1)], axis=-1)
    freq = np.full(n, float(point.fkdot[0]))  # the first frequency is known
    own = {"freq": freq, "slope": at["model.f1dot[0]"], "n": indices, "knots": np.tile(knots, (n, 1))}
    model = jfstat.PhaseModel(wandering, own)
    return jfstat.Doppler(np.full(n, SKY[0]), SKY[1], freq[:, None], point.reftime, model=model)


def by_hand(case: Case, names: tuple[str, str]) -> int:
    """Points of a hexagonal lattice in a constant metric whose cells touch a rectangle of two parameters."""
    g = np.asarray(jfstat.metric(case.observation, case.point, ("freq", *names), phase_only=True))
    g = g[1:, 1:] - np.outer(g[1:, 0], g[0, 1:]) / g[0, 0]  # for the best frequency
    radius = np.sqrt(case.mismatch)
    rows = radius * np.array([[np.sqrt(3), 0.0], [np.sqrt(3) / 2, 1.5]])  # corners of the hexagons at `radius`
    white = np.linalg.cholesky(g).T
    ends = np.array([case.ranges[name] for name in names])
    u = np.stack(np.meshgrid(*(np.linspace(*x, 1200) for x in ends), indexing="ij"), axis=-1).reshape(-1, 2) @ white.T
    near = np.floor(u @ np.linalg.inv(rows))
    corners = near[:, None] + np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    best = np.argmin(np.linalg.norm(u[:, None] - corners @ rows, axis=-1), axis=1)
    return len(np.unique(corners[np.arange(len(u)), best], axis=0))


def cases() -> dict[str, Case]:
    """All banks by name."""
    ten, three, day = observed(10), observed(3), observed(1)
    wave = jfstat.PhaseModel(waves, {"a": 0.0, "b": 0.0, "c": 0.0})
    step = jfstat.PhaseModel(glitch, {"time": 4e5, "df": 2e-6, "tau": 1e5})
    still = jfstat.Doppler(*SKY, [100.02, -1e-10], START)
    moving = jfstat.Doppler(*SKY, [100.02, 0.0], START, motion=(0.0, 0.0))
    orbit = jfstat.Doppler(*SKY, [100.02, 0.0], START, orbit=jfstat.Orbit(1.44, 68023.7, START))
    braked = jfstat.Doppler(*SKY, [100.02, 0.0, 0.0], START)
    with_model = lambda model: jfstat.Doppler(*SKY, [100.02, -1e-10], START, model=model)  # noqa: E731
    box = {"alpha": (2.05, 2.15), "delta": (0.45, 0.5), "f1dot": (-1e-9, 0.0)}
    all_cases = {
        "waves": Case(ten, with_model(wave), {"model.a": (-2.0, 2.0), "model.b": (-1.0, 1.0)}, 0.1),
        "more waves": Case(
            ten,
            with_model(wave),
            {"model.a": (-1.0, 1.0), "model.b": (-1.0, 1.0), "model.c": (-0.5, 0.5), "f1dot": (-1e-9, 0.0)},
            0.2,
        ),
        "glitch": Case(ten, with_model(step), {"model.df": (-1e-5, 2e-5), "model.tau": (5e4, 2e5)}, 0.1),
        "glitch at any time": Case(
            ten,
            with_model(step),
            {"model.df": (1e-6, 1e-5), "model.tau": (5e4, 2e5), "model.time": (3e5, 6e5), "f1dot": (-1e-10, 0.0)},
            0.2,
        ),
        "glitch over segments": Case(
            observed(1.0, 2.0, 20), with_model(step), {"model.df": (-1e-5, 2e-5), "f1dot": (-1e-10, 0.0)}, 0.2
        ),
        "sky": Case(
            ten,
            still,
            box,
            0.2,
            beside=lambda: len(jfstat.template_bank(**box, data=ten, freq=100.02, mismatch=0.2)),
        ),
        "sky and waves": Case(three, with_model(wave), box | {"model.a": (-0.5, 0.5)}, 0.2),
        "braking index": Case(
            observed(30),
            braked,
            {
                "n": (2.0, 7.0),
                "f1dot": (-1e-8, -1e-9),
                "f2dot": lambda p: p["n"] * p["f1dot"] ** 2 / p["freq"],
            },
            0.2,
        ),
        "proper motion": Case(observed(365), moving, {"pmra": (-5e-12, 5e-12), "pmdec": (-5e-12, 5e-12)}, 0.2),
        "orbit and sky": Case(three, orbit, box | {"alpha": (2.05, 2.1), "asini": (1.43, 1.45)}, 0.2),
    }
    remnant = jfstat.Doppler(*SKY, [300.0], START - 1000)
    pieces = dict(f1dot=(-1.02e-5, -1e-5), braking_index=(3.0, 5.0))
    fast = dict(f1dot=(-1.0e-3, -0.999999e-3), braking_index=(4.9999, 5.0001))
    changing = dict(f1dot=(-1.001e-5, -1e-5), braking_index=(3.0, 5.0), change=0.5, knots=[0.0, 3e4, 6e4, 8.8e4])
    all_cases |= {
        "remnant": Case(day, remnant, pieces, 0.2, braked_signals),
        "fast remnant": Case(day, remnant, fast, 0.2, braked_signals),
        "remnant, index changing": Case(day, remnant, changing, 0.2, braked_signals),
        "remnant over segments": Case(observed(0.25, 0.25, 4), remnant, pieces, 0.2, braked_signals),
    }
    return all_cases


@jax.jit
def losses(observation: Any, signals: jfstat.Doppler, templates: jfstat.Doppler) -> jax.Array:
    """Loss of the phase of pairs at the best frequency, (k,); over segments the mean."""
    segments = observation if observation.n_segments else jax.tree.map(lambda x: x[None], observation)

    def one(pair: Any) -> Any:
        def of_segment(observation: Any) -> Any:
            time, weight = observation.quadrature(1)
            share = weight / jnp.sum(weight)
            centred = time - jnp.sum(share * time)
            signal, template = (observation.source(x) for x in pair)
            cycles = jax.vmap(lambda own, t: phase_difference(sites(own, signal, t), signal, template))(
                observation.trajectory, time
            )
            return share, centred, cycles, jnp.sum(share * centred * cycles), jnp.sum(share * centred**2)

        share, centred, cycles, moment, square = jax.vmap(of_segment)(segments)
        steps = jnp.sum(moment) / jnp.sum(square) + jnp.asarray(OFFSETS) / jnp.max(segments.tspan)
        angle = 2 * jnp.pi * (cycles - steps[:, None, None, None] * centred)
        found = sum(jnp.sum(share * x, axis=(2, 3)) ** 2 for x in (jnp.cos(angle), jnp.sin(angle)))
        return jnp.min(1 - jnp.mean(found, axis=1))

    return jax.lax.map(one, (signals, templates))


def measure(name: str, case: Case, n: int) -> dict[str, Any]:
    """One bank and how far random signals are from it."""
    began = time.perf_counter()
    point, ranges = case.point, case.ranges
    given = (point, ranges, case.mismatch)
    if case.truth is not None:
        given = remnants._lattice(case.observation, point, mismatch=case.mismatch, **ranges)
    bank = jfstat.lattice_bank(case.observation, *given)
    plan = lattice_bank._Plan(case.observation, *given)
    seconds = time.perf_counter() - began
    space = plan.space
    rng = np.random.default_rng([17, *name.encode()])
    d = len(space.low)
    u = rng.uniform(space.low, space.high, (n, d))
    edge = rng.integers(d, size=n // 4)
    u[np.arange(n // 4), edge] = np.where(rng.uniform(size=n // 4) < 0.5, space.low[edge], space.high[edge])
    at, y = space.domain.values(u), space.coordinates(u)
    own = columns(bank)
    x = np.asarray(coordinates(space.chart, space.place, {key: own[key] for key in space.chart.names}))
    lattice = plan.boxes[0].lattice
    k = min(PREFILTERED, len(x))
    white = lattice.factor / lattice.scale
    _, index = KDTree(x @ white.T).query(y @ white.T, k=k)
    index = index.reshape(n, k)
    least = np.array([LEAST.get(key, -np.inf) for key in space.domain.axes])
    local = space.factors(space.coordinates(np.maximum(u, least)), lattice.scale)
    distance = np.sum(np.einsum("nij,nkj->nki", local, (x[index] - y[:, None]) / lattice.scale) ** 2, axis=-1)
    index = np.take_along_axis(index, np.argsort(distance, axis=1)[:, :NEAREST], axis=1)
    if case.truth is None:
        stack = jax.tree.map(lambda v: jnp.broadcast_to(jnp.asarray(v), (n, *jnp.shape(v))), space.place.point)
        signals = replaced(stack, space.chart.names, jnp.stack([jnp.asarray(at[key]) for key in space.chart.names], -1))
    else:
        signals = case.truth(space.place.point, at)
    rows = lambda tree, some: jax.tree.map(lambda v: jnp.asarray(v)[some], tree)  # noqa: E731
    m = index.shape[1]
    lost = losses(case.observation, rows(signals, np.repeat(np.arange(n), m)), rows(bank, index.ravel()))
    lost = np.asarray(lost).reshape(n, m).min(axis=1)
    if name == "waves":
        case = case._replace(beside=lambda: by_hand(case, tuple(case.ranges)))
    row = {
        "case": name,
        "mismatch": case.mismatch,
        "templates": len(bank),
        "expected": round(plan.expected, 1),
        "beside": None if case.beside is None else case.beside(),
        "boxes": len(plan.boxes),
        "dimensions": [d, max(box.lattice.n_wide for box in plan.boxes)],
        "seconds": round(seconds, 1),
        "signals": n,
        "above": int(np.sum(lost > case.mismatch)),
        "largest": round(float(lost.max()), 4),
        "mean": round(float(lost.mean()), 4),
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Measure all banks, or some."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--cases", nargs="+", help="names of cases; by default all")
    parser.add_argument("--points", type=int, default=2000, help="number of signals of each bank")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    known = cases()
    strange = set(args.cases or ()) - set(known)
    if strange:
        parser.error(f"unknown cases {', '.join(sorted(strange))}: choose from {', '.join(known)}")
    found = [measure(name, known[name], args.points) for name in args.cases or known]
    if args.output:
        command = shlex.join(["python", "examples/lattice_coverage.py", *sys.argv[1:]])
        with replacing(args.output) as part:
            part.write(
                json.dumps({"version": jfstat.__version__, "command": command, "banks": found}, indent=1).encode()
            )


if __name__ == "__main__":
    main()
