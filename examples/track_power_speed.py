"""Time power along tracks beside fasttracks (arXiv:2411.18370), from the same SFTs and with the same weights.

    pip install --no-deps fasttracks
    taskset -c 0 python examples/track_power_speed.py --output examples/track_power_speed_core.json

Orbits times frequencies, at one sky position, so that fasttracks, which takes weights for one position at a time, can
be called. `search` takes the orbits as its bank, and `track_power` and fasttracks each pair of orbit and frequency. All
programs are compiled once and called in turns; medians. fasttracks gets velocities and times from jfstat, in double
precision, and takes the track to first order in the orbit's speed, without the delays across orbit and solar system.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from fasttracks.likelihood import normalized_power  # noqa: E402
from fasttracks.tracks import f_of_t_circular_binary  # noqa: E402

import jfstat  # noqa: E402
from jfstat.searching.trackpower import sums_of  # noqa: E402
from jfstat.statistic.trackpower import sky_position, track  # noqa: E402

START, F, BAND, GUARD, NOISE = 1_167_458_304, 100.0, 0.1, 0.05, 4e-24
SKY = 1.5, 0.2
ASINI, PERIOD = 2.0, 1.3 * 86400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, default=120, help="of two detectors, with SFTs of half an hour")
    parser.add_argument("--orbits", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    span = int(options.days * 48) * 1800
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, span, F - GUARD, F + BAND + GUARD, sqrt_sx=NOISE, seed=1)
    began = time.perf_counter()
    data = jax.block_until_ready(jfstat.normalise(sfts, F, F + BAND, sqrt_sx=NOISE))
    seconds = time.perf_counter() - began
    rng = np.random.default_rng(1)
    n_orbits, frequencies = options.orbits, data.frequencies
    n = n_orbits * len(frequencies)
    tp = START + rng.uniform(0, PERIOD, n_orbits)

    def templates(f0: np.ndarray, tp: np.ndarray) -> jfstat.Doppler:
        k = len(tp)
        orbit = jfstat.Orbit(np.full(k, ASINI), np.full(k, PERIOD), tp, np.zeros(k), np.zeros(k))
        return jfstat.Doppler(np.full(k, SKY[0]), np.full(k, SKY[1]), f0[:, None], START, orbit)

    bank = templates(np.full(n_orbits, F), tp)
    f0, tp = np.tile(frequencies, n_orbits), np.repeat(tp, len(frequencies))
    points = templates(f0, tp)
    stack = jax.tree.map(np.asarray, points)
    plan = jfstat.plan_search(data, bank, top=10, progress=False, details=jfstat.Details(per_detector=False))

    seen, motion = data.observation, data.motion
    flat = [
        x.reshape(*x.shape[: x.ndim - 2], -1) for x in (jnp.moveaxis(data.values, -1, 0), motion.time, motion.velocity)
    ]
    sky = sky_position(data, points[0])
    weights = sky.weight.reshape(-1)
    bins, t, velocity = flat
    since = t - float(tp[0] - START)
    omega = 2 * np.pi / PERIOD
    # f = f0 (1 + v.n - asini omega cos(omega t - phase)) with the ascending node at a quarter turn before tp
    theta = np.stack(
        [f0, *np.full((4, n), [[SKY[0]], [np.sin(SKY[1])], [ASINI], [omega]]), omega * (tp - tp[0])], axis=1
    )

    def of_fasttracks(own: jax.Array) -> jax.Array:
        frequency = f_of_t_circular_binary(own, since, velocity)
        return normalized_power(frequency, weights, bins, seen.tsft, data.first_bin)

    theirs = jax.jit(lambda x: jax.lax.map(of_fasttracks, x, batch_size=batch))
    batch = None if jax.default_backend() == "cpu" else max(1, (1 << 22) // t.size)
    calls = {
        "search": plan.run,
        "track_power": lambda: sums_of(data, stack).of_all.power,
        "fasttracks": lambda: np.asarray(theirs(theta)),
    }
    result = {name: call() for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    each = {name: statistics.median(x) / n / sum(map(len, sfts)) for name, x in times.items()}
    # how far the tracks of the first order are from the exact ones
    exact = np.asarray(track(data, sky, points[0], 1)[0]).reshape(-1)
    first_order = np.asarray(f_of_t_circular_binary(theta[0], since, velocity))
    report = {
        "command": "python examples/track_power_speed.py "
        f"--days {options.days:g} --orbits {n_orbits} --rounds {options.rounds}",
        "device": str(jax.devices()[0].device_kind),
        "versions": {"jax": jax.__version__, "fasttracks": version_of("fasttracks")},
        "sfts": sum(map(len, sfts)),
        "templates": n,
        "frequencies_of_an_orbit": len(frequencies),
        "prepared_seconds": round(seconds, 2),
        "ns_per_sft_and_template": {name: round(1e9 * x, 5) for name, x in each.items()},
        "fasttracks_over_search": round(each["fasttracks"] / each["search"], 2),
        "fasttracks_over_track_power": round(each["fasttracks"] / each["track_power"], 2),
        "correlation_of_powers": round(float(np.corrcoef(result["track_power"], result["fasttracks"])[0, 1]), 4),
        "largest_difference_of_tracks_bins": round(float(np.max(np.abs(exact - first_order)) * sfts.tsft), 3),
    }
    print(json.dumps(report, indent=1))
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n")


def version_of(name: str) -> str:
    try:
        return version(name)
    except ImportError:
        return "unknown"


if __name__ == "__main__":
    main()
