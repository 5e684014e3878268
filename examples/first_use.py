"""How long a first search takes on a new machine, and the next one in data of another length: from files to the table.

    python examples/first_use.py --output examples/first_use_h100.json

Small data sets of different lengths, bands, detectors and orbits, one after the other in one process. The first process
starts with empty caches, the second finds what the first has left on disk (programs however short to compile, as
`jfstat search` keeps them); the files of Python and CUDA may be in memory already. What XLA and the kernels' compiler
took is part of the seconds. XLA's is listed by function, with the times of threads added; that of the kernels is the
time during which any was compiled or read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

START, TSFT, SQRT_SX = 1167458304, 1800, 8e-24
COMPILING = "/jax/core/compile/backend_compile_duration"


class Case(NamedTuple):
    """Detectors, length in days, width of the band in Hz, and orbit (asini in s, period in s)."""

    detectors: tuple[str, ...]
    days: float
    width: float
    orbit: tuple[float, float] | None = None


CASES = (
    Case(("H1",), 1.0, 0.2),
    Case(("H1",), 1.6, 0.2),
    Case(("H1", "L1"), 1.0, 0.3),
    Case(("H1", "L1"), 2.5, 0.1),
    Case(("H1",), 0.8, 0.4, (0.5, 7200.0)),
    Case(("H1", "L1", "V1"), 1.2, 0.2),
    Case(("H1",), 5.0, 0.1),
)


def write_files(folder: Path) -> None:
    """SFTs of all cases, a folder each."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jfstat

    for number, case in enumerate(CASES):
        sfts = jfstat.simulate_sfts(
            case.detectors, START, case.days * 86400, 98.5, 101.5 + case.width, TSFT, SQRT_SX, seed=number
        )
        path = folder / str(number)
        path.mkdir()
        jfstat.write_sfts(sfts, path)


def covered(intervals: list[tuple[float, float]]) -> float:
    """Time during which at least one of some intervals lasts."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(intervals):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def one_process(folder: Path) -> dict[str, Any]:
    """Search all cases, each from its files to its table."""
    began = time.perf_counter()
    import jax

    jax.config.update("jax_enable_x64", True)
    import jfstat
    from jfstat.engines.cuda import launch

    compiled: list[tuple[str, float]] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: (
            compiled.append((str(more.get("fun_name", "?")), seconds)) if event == COMPILING else None
        )
    )
    cubin, under_way = launch.cubin, []

    def timed_cubin(*given: Any, **more: Any) -> bytes:
        start = time.perf_counter()
        try:
            return cubin(*given, **more)
        finally:
            under_way.append((start, time.perf_counter()))

    launch.cubin = timed_cubin
    device = jax.devices()[0].device_kind
    result: dict[str, Any] = {"device": device, "import_s": time.perf_counter() - began, "cases": []}
    for number, case in enumerate(CASES):
        compiled.clear()
        under_way.clear()
        start = time.perf_counter()
        orbit = None if case.orbit is None else jfstat.Orbit(*case.orbit, tp=START + 1000.0, ecc=0.0, argp=0.0)
        sfts = jfstat.read_sfts(str(folder / str(number) / "*.sft"))
        data = jfstat.prepare(sfts, 100.0, 100.0 + case.width, START, SQRT_SX, guard=0.5, orbit=orbit)
        prepared = time.perf_counter()
        point = jfstat.Doppler(1.0 + 0.1 * number, 0.3, [100.0, -1e-10], START, orbit)
        found = jfstat.search(data, point, top=100, progress=False)
        end = time.perf_counter()
        programs = sorted(((name, round(s, 3)) for name, s in compiled), key=lambda x: -x[1])
        result["cases"].append(
            {
                **case._asdict(),
                "engine": found.meta["engine"],
                "n_fft": data.layout.n_fft,
                "prepare_s": prepared - start,
                "search_s": end - prepared,
                "files_to_table_s": end - start,
                "kernels_s": covered(under_way),
                "compiled_s": sum(s for _, s in compiled),
                "compiled": programs[:8],
            }
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write_files(arguments.write)
        return
    if arguments.child:
        print(json.dumps(one_process(arguments.child)))
        return
    result: dict[str, Any] = {"command": "python " + " ".join(sys.argv)}
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "sfts"
        files.mkdir()
        write = [sys.executable, __file__, "--write", str(files)]
        # in a process of its own, so that this one never takes hold of the GPU
        subprocess.run(write, env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=True)
        environment = {
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/cache",
            "CUDA_CACHE_PATH": f"{folder}/cuda",  # where NVIDIA's compiler keeps what it has compiled
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        for name in ("empty caches", "filled caches"):
            began = time.perf_counter()
            child = subprocess.run(
                [sys.executable, __file__, "--child", str(files)], env=environment, capture_output=True, text=True
            )
            if child.returncode:
                raise SystemExit(child.stderr[-2000:])
            own = json.loads(child.stdout.splitlines()[-1])
            result[name] = own | {"process_s": time.perf_counter() - began}
            print(f"{name}: {own['device']}, importing {own['import_s']:.1f} s")
            for case in own["cases"]:
                print(
                    f"  {'+'.join(case['detectors']):8s} {case['days']:4.1f} d {case['width']:.1f} Hz "
                    f"{'orbit' if case['orbit'] else '     '} {case['engine']:8s} prepare {case['prepare_s']:5.2f} s  "
                    f"search {case['search_s']:5.2f} s  kernels {case['kernels_s']:5.2f} s  "
                    f"XLA {case['compiled_s']:5.2f} s  {case['compiled'][:4]}",
                    flush=True,
                )
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
