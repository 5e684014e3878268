"""How long maps of a transient signal and searches with them take, on whatever device JAX has.

Three things are timed: the map of 2F over start times and durations from given atoms, one at a time and many together;
the largest 2F of such maps at many frequencies, whose values are not stored; and a whole search of 10 d of H1 and L1,
0.1 Hz, one sky position and 100 values of f1dot with hourly start times and durations. Prints what it measures and
writes it to a JSON file. LALSuite is not needed.

    python examples/transient_search_speed.py --output examples/transient_search_speed.json
    python examples/transient_search_speed.py --f1dots 4 --parts maps search      # less, on a CPU
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.statistic.combine import AntennaMatrix, two_f_of_powers  # noqa: E402
from jfstat.statistic.transientband import Kind, Weights, in_tiles, rectangular_tiles, tile_forms  # noqa: E402
from jfstat.statistic.transientband import with_weights as largest_with_weights  # noqa: E402

START, TSFT, DAY = 1_150_000_000, 1800, 86400
SPELL = 1.0
"""Seconds for which something is done again and again."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to time")
    parser.add_argument("--windows", type=int, default=500, help="start times, and time scales, of a map")
    parser.add_argument("--bins", type=int, default=1000, help="maps that are made together")
    parser.add_argument("--f1dots", type=int, default=100, help="templates of the search")
    parser.add_argument("--days", type=float, default=10, help="data of the search")
    parser.add_argument("--band", type=float, default=0.1, help="of the search, Hz")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args()
    report: dict[str, Any] = {
        "what": "seconds for maps of a transient signal and for a search, the best of several after compilation",
        "command": "python examples/transient_search_speed.py " + " ".join(sys.argv[1:]),
        "settings": {name: getattr(options, name) for name in ("windows", "bins", "f1dots", "days", "band")},
        "device": jax.devices()[0].device_kind,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": {"jfstat": jfstat.__version__, "jax": jax.__version__, "python": platform.python_version()},
    }
    for part in options.parts:
        report[part] = PARTS[part](options)
        print(json.dumps({part: report[part]}, indent=1), flush=True)
        if options.output is not None:
            options.output.write_text(json.dumps(report, indent=1) + "\n")


def timed(function: Callable[[], Any]) -> float:
    """Its least time in the calls of `SPELL` seconds, two at least, after a first one; s."""
    jax.block_until_ready(function())
    times: list[float] = []
    while sum(times) < SPELL or len(times) < 2:
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return min(times)


def noise_atoms(rng: np.random.Generator, n_slices: int, n_detectors: int) -> jfstat.Atoms:
    """Atoms of Gaussian noise with random antenna patterns, as in transients_against_lalsuite.py."""
    shape = (2, 3, n_detectors, n_slices)
    a, b = rng.normal(size=shape)
    noise = rng.normal(size=shape)
    z = (noise[0] + 1j * noise[1]) / np.sqrt(2)
    start = TSFT * np.arange(n_slices, dtype=float)
    arrays = ((a * z).sum(0), (b * z).sum(0), (a * a).sum(0), (b * b).sum(0), (a * b).sum(0), start, start + TSFT)
    names = tuple(f"X{i + 1}" for i in range(n_detectors))
    return jfstat.Atoms(*map(jnp.asarray, arrays), epoch=jnp.asarray(START), detectors=names)


def grid(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Start times, GPS s, and time scales, s."""
    return START + TSFT * np.arange(n, dtype=float), TSFT * (2.0 + np.arange(n))


def maps(options: argparse.Namespace) -> dict[str, Any]:
    """Whole maps in float64, from atoms on the device: one, and several together."""
    n = options.windows
    one = noise_atoms(np.random.default_rng(0), 2 * n, 1)
    t0, tau = grid(n)
    several = min(options.bins, 64 if jax.devices()[0].platform != "cpu" else 4)
    rng = np.random.default_rng(1)
    stack = jax.tree.map(lambda *x: jnp.stack(x), *(noise_atoms(rng, 2 * n, 1) for _ in range(several)))
    stacked = (stack.Fa, stack.Fb, stack.A, stack.B, stack.C)
    found: dict[str, Any] = {}

    def map_of(arrays: tuple[jax.Array, ...], shape: str) -> jax.Array:
        own = jfstat.Atoms(*arrays, one.start, one.end, one.epoch, one.detectors)
        return jfstat.transient_map(own, shape, t0, tau).twoF

    # a lower limit: 2F of every pair of a start and an end, from sums that are there already, in either precision
    rng = np.random.default_rng(2)
    for dtype in (jnp.float64, jnp.float32):
        ends = [jnp.asarray(rng.normal(size=(7, n)) + shift, dtype) for shift in (0.0, 5.0)]
        found[f"arithmetic of a map in {dtype.__name__}, s"] = timed(partial(pairs, *ends))

    for shape in ("rectangular", "exponential"):
        together = jax.jit(jax.vmap(partial(map_of, shape=shape)))
        found[shape] = {
            "largest 2F": float(jfstat.transient_map(one, shape, t0, tau).max_twoF),
            "one map, s": timed(partial(jfstat.transient_map, one, shape, t0, tau)),
            f"a map of {several} together, s": timed(partial(together, stacked)) / several,
        }
    return found


@jax.jit
def pairs(start: jax.Array, end: jax.Array) -> jax.Array:
    """2F from sums up to starts and ends, (7, n) each."""
    a_re, a_im, b_re, b_im, A, B, C = (y[None, :] - x[:, None] for x, y in zip(start, end, strict=True))
    cross = a_re * b_re + a_im * b_im
    return two_f_of_powers(a_re**2 + a_im**2, b_re**2 + b_im**2, cross, AntennaMatrix(A, B, C))


def largest(options: argparse.Namespace) -> dict[str, Any]:
    """The largest 2F of a map at each of many frequencies, by the program that searches use, in float32."""
    n, n_bins = options.windows, options.bins
    one = noise_atoms(np.random.default_rng(0), 2 * n, 1)
    t0, tau = (np.asarray(x) for x in grid(n))
    sums = [np.asarray(x)[0] for x in (one.Fa, one.Fb)]
    turns = np.exp(2j * np.pi * np.arange(n_bins) / n_bins)  # each frequency has other phases, and the same 2F
    a, b = (np.asarray(x)[:, None] * turns for x in sums)
    rows = np.stack([a.real, a.imag, b.real, b.imag], axis=1).astype(np.float32)
    matrix = AntennaMatrix(*(jnp.asarray(x[0]) for x in (one.A, one.B, one.C)))
    last = float(one.end[-1])
    made = rectangular_tiles(t0 - START, tau, 0.0, last, last)
    assert made is not None
    edges, tiles, _ = made
    # slices between edges that no window has are joined to the next
    number = np.searchsorted(np.asarray(one.start), edges[:-1] - 1e-6)
    parts = jnp.asarray(np.add.reduceat(rows, number, axis=0))
    joined = AntennaMatrix(*(jnp.asarray(np.add.reduceat(np.asarray(x), number)) for x in matrix))
    device_tiles = jax.tree.map(jnp.asarray, tiles)

    @jax.jit
    def rectangular(parts: jax.Array) -> jax.Array:
        return in_tiles(device_tiles, tile_forms(device_tiles, joined), parts, False).twoF

    start, scale = (x.reshape(-1, 16) for x in np.meshgrid(t0 - START, tau, indexing="ij"))
    windows = Weights(jnp.asarray(start), jnp.asarray(scale), jnp.ones(start.shape, jnp.float32))
    whole = jnp.append(one.start, one.end[-1])
    kind = Kind("exponential", 3.0, False)

    @jax.jit
    def exponential(parts: jax.Array) -> jax.Array:
        return largest_with_weights(windows, whole, matrix, parts, kind).twoF

    found: dict[str, Any] = {}
    for name, function, own in (("rectangular", rectangular, parts), ("exponential", exponential, jnp.asarray(rows))):
        seconds = timed(partial(function, own))
        found[name] = {"largest 2F": float(function(own)[0]), f"a map of {n_bins}, s": seconds / n_bins}
    return found


def search(options: argparse.Namespace) -> dict[str, Any]:
    """A whole search, with the maps of the 100 loudest from their own atoms."""
    point = jfstat.Doppler(1.7, 0.4, [100.0, -1e-9], START)
    window = jfstat.TransientWindow("rectangular", START + 0.3 * options.days * DAY, 0.2 * options.days * DAY)
    signal = (point, jfstat.Amplitude(2.5e-24, 0.2, 0.3, 1.0), window)
    half = 0.5 * options.band
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, options.days * DAY, 99 - half, 101 + half, sqrt_sx=2e-23, signals=[signal], seed=3
    )
    data = jfstat.prepare(sfts, 100 - half, 100 + half)
    fkdot = np.stack([np.zeros(options.f1dots), -1e-9 + 1e-12 * np.arange(options.f1dots)], axis=1)
    bank = jfstat.Doppler(np.full(options.f1dots, 1.7), np.full(options.f1dots, 0.4), fkdot, START)
    hours = int(options.days * 24)
    windows = jfstat.TransientRange("rectangular", START + 3600.0 * np.arange(hours), 3600.0 * (1 + np.arange(hours)))

    def run() -> Any:
        return jfstat.search(data, bank, jfstat.Transient(windows), top=100, progress=False)

    began = time.perf_counter()
    found = run()
    first = time.perf_counter() - began
    began = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - began
    best = found[0]
    return {
        "data": repr(data),
        "values": found.meta["n_twoF"],
        "windows": found.meta["transient"]["n_windows"],
        "first search with compilation, s": first,
        "search, s": seconds,
        "loudest": {name: float(best[name].value) for name in ("freq", "f1dot", "t0", "tau")}
        | {name: float(best[name]) for name in ("max_twoF", "max_twoF_band", "twoF")},
        "signal": {"freq": 100.0, "f1dot": -1e-9, "t0": float(window.t0), "tau": float(window.tau)},
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"maps": maps, "largest": largest, "search": search}

if __name__ == "__main__":
    main()
