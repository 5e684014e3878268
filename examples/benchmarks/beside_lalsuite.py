"""Time jfstat and LALSuite's ResampGeneric on the same settings, taking turns on the same core.

    python examples/benchmarks/beside_lalsuite.py --output docs/benchmark_cpu.json
    python examples/benchmarks/beside_lalsuite.py --scan --output times.json --plot times.png

On a CPU, jfstat runs in processes of their own on given numbers of cores, all of which keep freed memory
(`cores.MALLOC`), and LALSuite takes turns with the first of them. On a GPU, LALSuite runs on one core of the host.
``--scan`` measures the paper's figure: 1 to 100 d at 0.606 Hz, and 0.1 to 5 Hz at 10 d.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cores
import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)  # or it would hide what compilation costs

import lalsuite  # noqa: E402
import numpy as np  # noqa: E402

from jfstat.benchmarking.measure import Request, measure  # noqa: E402
from jfstat.benchmarking.report import as_dict, device_name, main_table, stage_table  # noqa: E402
from jfstat.benchmarking.settings import CPU_ROWS, ROWS, Setting  # noqa: E402
from jfstat.data.fstatdata import FstatData  # noqa: E402

ROUNDS = 3
"""How often jfstat and LALSuite take turns if both run on one core."""
SCAN_DAYS = (1, 2, 5, 10, 20, 50, 100)
SCAN_BANDWIDTHS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LAL_TAU = (
    "; lal_tau: tauF_eff of lalpulsar_ComputeFstatBenchmark with ResampGeneric on one core, or tauF_core where the "
    "templates share their sky position"
)


def scan() -> list[Setting]:
    """Settings along the axes of the paper's timing figure: length at 0.606 Hz, and bandwidth at 10 d."""
    base = ROWS["10d"]
    lengths = [dataclasses.replace(base, name=f"{days}d", days=days) for days in SCAN_DAYS]
    return lengths + [dataclasses.replace(base, name=f"10d-{width:g}Hz", bandwidth=width) for width in SCAN_BANDWIDTHS]


def measured(request: Request, program: str | None) -> dict[str, Any]:
    """A measurement in this process, with LALSuite's trials if its program is given, as plain values."""
    options: list[str] = []
    trials: list[dict[str, float]] = []

    def between(data: FstatData) -> None:
        if program is not None:
            options[:] = lalsuite.arguments(request.setting, data, request.seed, request.ephemeris)
            trials.extend(lalsuite.trials(program, options))

    rounds = ROUNDS if program is not None and jax.default_backend() == "cpu" else 1
    found = dataclasses.asdict(measure(request, rounds, between))
    column = "tauF_core" if request.setting.one_position else "tauF_eff"  # the templates share the barycentring
    return found | {
        "lal_tau": float(np.median([trial[column] for trial in trials])) if trials else None,
        "lal_trials": trials,
        "lal_command": [] if program is None else [program, *options],
        "environment": {name: os.environ[name] for name in cores.MALLOC if name in os.environ},
    }


def measured_on(which: Sequence[int], request: Request, program: str | None) -> dict[str, Any]:
    """`measured` in a new process on some cores of the CPU."""
    with cores.pinned(which):
        done = subprocess.run(
            [sys.executable, __file__, "--child"],
            input=json.dumps({"request": dataclasses.asdict(request), "program": program}),
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | cores.MALLOC | {"JAX_PLATFORMS": "cpu"},
        )
    if done.returncode:
        raise SystemExit(done.stderr.strip() or f"the process of row {request.setting.name} ended early")
    return json.loads(done.stdout)


def child() -> None:
    """Measure the request on stdin and write the measurement to stdout."""
    given = json.load(sys.stdin)
    setting = given["request"].pop("setting")
    setting = Setting(**setting | {"detectors": tuple(setting["detectors"])})
    print(json.dumps(measured(Request(setting, **given["request"]), given["program"])))


def row(setting: Setting, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of the JSON file: the setting, its measurements, and LALSuite's time over jfstat's on one core."""
    first = runs[0]
    ratio = None if first["lal_tau"] is None else first["lal_tau"] / first["tau"]
    return {"setting": dataclasses.asdict(setting), "runs": runs, "lal_over_jfstat": ratio}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The main table, with columns of LALSuite's times and of further numbers of cores."""
    columns: dict[str, list[str]] = {}
    if any(row["lal_over_jfstat"] for row in rows):
        taus = [row["runs"][0]["lal_tau"] for row in rows]
        columns["LAL tau/s"] = ["-" if tau is None else f"{tau:.2e}" for tau in taus]
        ratios = [row["lal_over_jfstat"] for row in rows]
        columns["LAL/jfstat"] = ["-" if x is None else f"{x:.3g}" for x in ratios]
    for k, run in enumerate(rows[0]["runs"][1:], start=1):
        taus = [(row["runs"][k]["tau"], row["runs"][0]["tau"]) for row in rows]
        columns[f"tau({run['cores']} cores)/s"] = [f"{tau:.2e}" for tau, _ in taus]
        columns[f"{run['cores']} cores/{rows[0]['runs'][0]['cores']}"] = [f"{tau / one:.2f}" for tau, one in taus]
    return main_table(rows, columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda word: word.split(","), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--scan", action="store_true", help="the paper's figure")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", default="1,2", help="on a CPU: numbers of cores to measure on (default 1,2)")
    parser.add_argument("--output", type=Path, help="all numbers, as JSON")
    parser.add_argument("--plot", type=Path, help="picture of tau over length and bandwidth")
    options = parser.parse_args()
    on_cpu = jax.default_backend() == "cpu"
    names = options.rows or ([] if options.scan else CPU_ROWS if on_cpu else ROWS)
    settings = [ROWS[name] for name in names] + (scan() if options.scan else [])
    program = lalsuite.find_program()
    if program is None:
        print(f"no times of LALSuite: {lalsuite.PROGRAM} is not installed; pip install lalsuite gets it")
    rows = []
    for k, setting in enumerate(settings, start=1):
        request = Request(setting, repeats=options.repeats, seed=options.seed)
        if on_cpu:  # the last cores: the system's own work prefers the first
            which = [cores.available()[-n:] for n in sorted(map(int, options.cores.split(",")))]
            runs = [measured_on(own, request, None if i else program) for i, own in enumerate(which)]
        else:
            runs = [measured(request, program)]
        rows.append(row(setting, runs))
        print(f"{k}/{len(settings)} {setting.name}: tau {runs[0]['tau']:.2e} s", file=sys.stderr, flush=True)
    first = rows[0]["runs"][0]
    print(f"{device_name(first)}, jax {jax.__version__}: a copy moves {first['copy_bandwidth'] / 1e9:.3g} GB/s")
    print(f"{table(rows)}\n\n{stage_table(rows)}")
    if options.output is not None:
        values = as_dict(rows, shlex.join(["python", *sys.argv]))
        values["what"] += LAL_TAU
        options.output.write_text(json.dumps(values, indent=1, allow_nan=False) + "\n")
    if options.plot is not None:
        from picture import draw

        draw(rows, options.plot)


if __name__ == "__main__":
    child() if sys.argv[1:] == ["--child"] else main()
