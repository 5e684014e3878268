"""What `jfstat.search` costs beyond the statistic, whether its memory stays flat, and how it scales over devices.

    python examples/search_speed.py --output docs/search_speed_h200.json
    python examples/search_speed.py --only devices --output docs/search_devices_h200x4.json

On random data and new random sky positions for every template, medians of several runs in turns, compilation apart:

- ``overhead``: `search` with and without a checkpoint, beside a bare loop over ``jax.vmap(twoF_band)`` and one over the
  batches' kernels (`searching.reduce.loudest`), for 10 d and for 100 d of two detectors;
- ``memory``: that of the process and of the device while a search does 10,000 batches;
- ``devices``: the same search on one, two, four, ... devices, and whether the tables are the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh  # noqa: E402

import jfstat  # noqa: E402
from jfstat.benchmarking.inputs import prepared, random_points  # noqa: E402
from jfstat.benchmarking.settings import ROWS, Setting  # noqa: E402
from jfstat.engines.choice import engine_named  # noqa: E402
from jfstat.searching.reduce.loudest import loudest  # noqa: E402

OPTIONS: dict[str, Any] = dict(top=1000, progress=False, details=jfstat.Details(per_detector=False))
TEMPLATES = {"10d": 98304, "100d-two": 3072}
"""For ``overhead``, on an accelerator, some 1.6 s of work there; a hundredth of them on a CPU."""
BARE_BATCH = {"10d": 64, "100d-two": 8}
"""Templates at a time of ``jax.vmap(twoF_band)``, whose 2F must all be kept."""
ROUNDS, N_BATCHES, BATCH = 3, 10_000, 8
DEVICE_TEMPLATES = 16384


def rows(points: Any, start: int, size: int) -> Any:
    """Some templates of a stack."""
    return jax.tree.map(lambda x: x[start : start + size], points)


def overhead(name: str, n: int) -> dict[str, Any]:
    """Seconds for n templates in four ways."""
    data = prepared(ROWS[name], 1, "DE405")
    points = random_points(np.random.default_rng(2), data, n, False)
    plan = jfstat.plan_search(data, points)
    engine = engine_named(plan.engine)
    ready = engine.ready(data)
    band = jax.jit(lambda d, p: jnp.max(jax.vmap(jfstat.twoF_band, (None, 0))(d, p), axis=1))
    bare, size = min(BARE_BATCH[name], n), plan.batch_size

    def by_band() -> None:
        for values in [band(data, rows(points, i, bare)) for i in range(0, n - n % bare, bare)]:
            np.asarray(values)

    def by_kernels() -> None:
        under_way: list[Any] = []
        for i in range(0, n, size):
            batch = rows(points, min(i, n - size), size)
            under_way.append(loudest(ready, batch, min(size, n - i), 1000, engine, False, 0))
            if len(under_way) > 2:
                np.asarray(under_way.pop(0).twoF)
        jax.block_until_ready(under_way)

    def with_checkpoint() -> None:
        with tempfile.TemporaryDirectory() as folder:
            jfstat.search(data, points, checkpoint=Path(folder) / "checkpoint", **OPTIONS)

    ways: dict[str, Callable[[], Any]] = {
        "vmap(twoF_band)": by_band,
        "kernels": by_kernels,
        "search": lambda: jfstat.search(data, points, **OPTIONS),
        "search with checkpoint": with_checkpoint,
    }
    seconds = in_turns(ways)
    values = n * data.layout.n_frequencies * len(data.detectors)
    return {
        "templates": n,
        "batch_size": size,
        "seconds": seconds,
        "tau": {k: x / values for k, x in seconds.items()},
        "search_over_vmap": seconds["search"] / seconds["vmap(twoF_band)"],
        "search_over_kernels": seconds["search"] / seconds["kernels"],
    }


def in_turns(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each, after one run for compilation."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - began)
    return {name: float(np.median(x)) for name, x in taken.items()}


def memory() -> dict[str, Any]:
    """Bytes of the process and of the device over 10,000 batches: means of the first and of the last fifth."""
    data = prepared(Setting("short", 1, bandwidth=0.1), 1, "DE405")
    points = random_points(np.random.default_rng(2), data, N_BATCHES * BATCH, False)
    device, seen, over = jax.devices()[0], [], threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            process = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
            seen.append((process, (device.memory_stats() or {}).get("bytes_in_use", 0)))

    jfstat.search(data, rows(points, 0, 100 * BATCH), run=jfstat.Run(batch_size=BATCH), **OPTIONS)
    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    jfstat.search(data, points, run=jfstat.Run(batch_size=BATCH), **OPTIONS)
    seconds = time.perf_counter() - began
    over.set()
    watcher.join()
    bytes_seen, fifth = np.array(seen, float), max(1, len(seen) // 5)
    first, last = bytes_seen[:fifth].mean(axis=0), bytes_seen[-fifth:].mean(axis=0)
    return {
        "batches": N_BATCHES,
        "seconds": seconds,
        "process_bytes": {"first_fifth": first[0], "last_fifth": last[0]},
        "device_bytes": {"first_fifth": first[1], "last_fifth": last[1], "largest": bytes_seen[:, 1].max()},
    }


def devices(n: int) -> dict[str, Any]:
    """Seconds of the same search on more and more devices."""
    data = prepared(ROWS["100d-two"], 1, "DE405")
    points = jax.tree.map(np.asarray, random_points(np.random.default_rng(2), data, n, False))
    size = jfstat.plan_search(data, points).batch_size
    every = jax.local_devices()
    meshes = {
        k: None if k == 1 else Mesh(np.array(every[:k]), ("templates",))
        for k in (2**i for i in range(len(every).bit_length()))
    }
    tables: dict[int, Any] = {}

    def found(k: int) -> None:
        tables[k] = jfstat.search(data, points, run=jfstat.Run(mesh=meshes[k], batch_size=size), **OPTIONS)

    seconds = in_turns({str(k): lambda k=k: found(k) for k in meshes})
    same = {
        str(k): bool(all(np.array_equal(table[name], tables[1][name]) for name in table.colnames))
        and table.meta == tables[1].meta
        for k, table in tables.items()
    }
    speed_up = {k: seconds["1"] / x for k, x in seconds.items()}
    return {"templates": n, "batch_size": size, "seconds": seconds, "speed_up": speed_up, "same_table": same}


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("overhead", "memory", "devices"), help="one of the three (default: all)")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    fewer = 1 if jax.default_backend() == "gpu" else 128
    wanted = [arguments.only] if arguments.only else ["overhead", "memory", "devices"]
    result: dict[str, Any] = {
        "command": "python examples/search_speed.py" + (f" --only {arguments.only}" if arguments.only else ""),
        "device": jax.devices()[0].device_kind,
        "n_devices": len(jax.local_devices()),
        "jax": jax.__version__,
    }
    if "overhead" in wanted:
        result["overhead"] = {name: overhead(name, n // fewer) for name, n in TEMPLATES.items()}
    if "memory" in wanted:
        result["memory"] = memory()
    if "devices" in wanted:
        result["devices"] = devices(DEVICE_TEMPLATES // fewer)
    print(json.dumps(result, indent=1))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
