"""Both Slurm files of examples/cluster, run by a real Slurm, beside the undivided search.

    examples/cluster/one_machine_slurm.sh start /tmp/slurm
    SLURM_CONF=/tmp/slurm/slurm.conf python examples/slurm_run.py --folder /tmp/run --output examples/slurm_run.json

The files are submitted as they are but for the search, which is made smaller: a band of 0.02 Hz and a wider region,
so that a minute on a laptop does for 94 templates. On the command line of sbatch, slurm_units.sh gets less memory, and
slurm_distributed.sh two processes on one node without GPUs. A third job is a unit that is told to stop (SIGTERM) before
its time is up, keeps its checkpoint, queues itself again and goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

CLUSTER = Path(__file__).parent / "cluster"
SMALLER = (("--FreqBand 1 ", "--FreqBand 0.02 "), ("--AlphaBand 0.006", "--AlphaBand 0.3"))
SMALLER += (("--DeltaBand 0.004", "--DeltaBand 0.2"),)
SEARCH = shlex.split(
    "--DataFiles sfts/*.sft --Freq 100 --FreqBand 0.02 --Alpha 3.5170 --AlphaBand 0.3 --Delta -0.8310 --DeltaBand 0.2 "
    "--f1dot -3e-14 --f1dotBand 3.5e-14 --metricMismatch 0.1 --NumCandidatesToKeep 1000"
)
DATA = shlex.split(
    "--outSFTdir sfts --IFOs H1,L1 --startTime 1167458304 --duration 345600 --fmin 98.8 --Band 2.6 --sqrtSX 4e-24 "
    "--randSeed 5 --Alpha 3.6 --Delta -0.75 --Freq 100.01 --f1dot -1e-14 --refTime 1167458304 --h0 9e-26 --cosi 0.3"
)
DISTRIBUTED = shlex.split("--nodes=1 --ntasks-per-node=2 --gpus-per-node=0 --cpus-per-task=1 --mem-per-cpu=2G")


def run(folder: Path, *words: str) -> str:
    """What a program prints; it must succeed."""
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def submitted(folder: Path, name: str, *options: str, changes: tuple[tuple[str, str], ...] = SMALLER) -> float:
    """Submit a file of the folder cluster with a smaller search, and wait until its jobs are done: seconds taken."""
    text = (CLUSTER / name).read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / name).write_text(text)
    began = time.perf_counter()
    job = re.findall(r"\d+", run(folder, "sbatch", *options, name))[-1]
    while run(folder, "squeue", "-h", "-j", job):
        time.sleep(2)
    return time.perf_counter() - began


def difference(one: Path, other: Path) -> str:
    """What distinguishes two tables."""
    if one.read_bytes() == other.read_bytes():
        return "none, the files are equal to the byte"
    lines = [path.read_text().splitlines() for path in (one, other)]
    rows = [[line for line in own if not line.startswith("#")] for own in lines]
    return "the header only" if rows[0] == rows[1] else "rows"


def units(folder: Path, plain: Path) -> dict[str, Any]:
    """slurm_units.sh: 64 units, merged."""
    (folder / "units").mkdir(exist_ok=True)
    seconds = submitted(folder, "slurm_units.sh", "--mem=2G")
    tables = sorted(str(path.relative_to(folder)) for path in (folder / "units").glob("*.ecsv"))
    run(folder, "jfstat", "merge", *tables, "--outputFstat", "merged.ecsv")
    return {
        "units": len(tables),
        "seconds": round(seconds),
        "merged table beside the undivided one": difference(folder / "merged.ecsv", plain),
    }


def distributed(folder: Path, plain: Path) -> dict[str, Any]:
    """slurm_distributed.sh: two processes."""
    seconds = submitted(folder, "slurm_distributed.sh", *DISTRIBUTED)
    return {
        "processes": 2,
        "seconds": round(seconds),
        "table beside the undivided one": difference(folder / "found.ecsv", plain),
    }


def stopped(folder: Path) -> dict[str, Any]:
    """slurm_units.sh as one unit of a longer search, with a time limit: it stops and goes on until it is done."""
    changes = (("--FreqBand 1 ", "--FreqBand 0.3 "), *SMALLER[1:], ('"$unit/64"', '"$unit/1"'))
    (folder / "units").mkdir(exist_ok=True)
    table, log = folder / "units" / "1.ecsv", folder / "units" / "1.out"
    for path in (table, log, folder / "units" / "1.checkpoint"):
        path.unlink(missing_ok=True)
    options = ("--array=1", "--mem=2G", "--time=2", "--signal=B:TERM@60")
    seconds = submitted(folder, "slurm_units.sh", *options, changes=changes)
    search = [x.replace("0.02", "0.3") for x in SEARCH]
    run(folder, "jfstat", "search", *search, "--unit", "1/1", "--outputFstat", "one.ecsv")
    said = log.read_text()
    return {
        "times stopped by SIGTERM": len(re.findall("stopped", said)),
        "seconds": round(seconds),
        "table beside that of a search in one go": difference(table, folder / "one.ecsv")
        if table.exists()
        else "no table",
        "log": [line for line in said.splitlines() if "stopped" in line][:1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "command": "python examples/slurm_run.py --folder FOLDER --output examples/slurm_run.json",
        "slurm": run(folder, "sinfo", "--version").strip(),
        "cores": os.cpu_count(),
    }

    def save() -> None:
        print(json.dumps(result, indent=1), flush=True)
        if given.output:
            given.output.write_text(json.dumps(result, indent=1) + "\n")

    plain = folder / "plain.ecsv"
    if not (folder / "sfts").exists():
        run(folder, "jfstat", "simulate", *DATA)
    run(folder, "jfstat", "search", *SEARCH, "--outputFstat", plain.name)
    for name, part in (("slurm_distributed.sh", distributed), ("slurm_units.sh", units)):
        result[name] = part(folder, plain)
        save()
    result["slurm_units.sh, stopped before its time is up"] = stopped(folder)
    save()


if __name__ == "__main__":
    main()
