"""Jobs of a measurement, each in a process of its own, with every case kept as soon as it is done.

A script gives each of its jobs a name and says which command runs it (`carry_out`). The job prints nothing that counts:
it appends one line of JSON a case to the file of rows (`keep`). So a job that crashes, or is stopped when the time is
up, loses only the case that it was at, and the same command goes on with the jobs that are missing.
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

from jfstat.atomic import replacing

TICK = 0.2
"""Time between looks at the processes, s."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that measurements share."""
    parser.add_argument("--output", type=Path, required=True, help="JSON file; rows go to a file beside it, .jsonl")
    parser.add_argument("--processes", type=int, default=1, help="jobs at a time, each on one core")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="when to stop")
    parser.add_argument("--job", help=argparse.SUPPRESS)


def rows_file(output: Path) -> Path:
    """Where the rows of a measurement are kept."""
    return output.with_suffix(".jsonl")


def keep(output: Path, job: str, rows: list[dict]) -> None:
    """Append rows of a job; each has its number in it as `case`, which replaces that of an earlier try."""
    lines = "".join(json.dumps({"job": job, **row}) + "\n" for row in rows)
    with rows_file(output).open("ab", buffering=0) as file:
        file.write(lines.encode())


def kept(output: Path) -> list[dict]:
    """All rows so far, in the order of jobs and cases."""
    path = rows_file(output)
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:  # the last line of a process that was stopped
            continue
        rows[row["job"], row["case"]] = row
    return [rows[key] for key in sorted(rows) if key[1] >= 0]


def finished(output: Path) -> set[str]:
    """Names of the jobs that came to their end: they say so by a row with the case -1."""
    path = rows_file(output)
    lines = path.read_text().splitlines() if path.exists() else []
    return {json.loads(line)["job"] for line in lines if line.endswith('"case": -1}')}


def write(output: Path, result: dict) -> None:
    """Write figures and rows, of which each stands on a line of its own."""
    text = json.dumps({**result, "rows": []}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in result["rows"])
    with replacing(output) as file:
        file.write(text.replace('"rows": []', f'"rows": [\n{rows}\n ]').encode())


def carry_out(output: Path, jobs: list[str], processes: int, minutes: float) -> None:
    """Run this script once for each job that is missing, so many at a time, until all are done or the time is up."""
    began = time.monotonic()
    done = finished(output)
    waiting = [job for job in jobs if job not in done]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    free = list(range(processes))
    running: dict[int, tuple[subprocess.Popen, str]] = {}
    programs = tempfile.TemporaryDirectory()
    environment = {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": programs.name,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    } | os.environ
    environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
    try:
        while (waiting or running) and time.monotonic() - began < 60 * minutes:
            while waiting and free:
                place, job = free.pop(0), waiting.pop(0)
                process = subprocess.Popen([sys.executable, *sys.argv, "--job", job], env=environment)
                if len(cores) >= processes:
                    os.sched_setaffinity(process.pid, {cores[place]})
                running[place] = process, job
            for place, (process, job) in list(running.items()):
                if process.poll() is not None:
                    if process.returncode:
                        print(f"{job}: ended with status {process.returncode}", flush=True)
                    del running[place]
                    free.append(place)
            time.sleep(TICK)
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.wait()
        programs.cleanup()
    if waiting or running:
        print(f"the time is up: {len(waiting)} jobs were not begun, {len(running)} stopped", flush=True)
