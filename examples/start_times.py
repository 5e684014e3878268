"""How long the program takes from its start to its table, for what analysts do every day, beside LALSuite's.

    python examples/start_times.py --output examples/start_times.json

Whole programs from SFT files to tables, in turns: ``--version``; one template in a day of H1, with nothing compiled and
then with the program's own cache; one pulsar in a year of H1 and L1, from its .par file; a hundred pulsars in the same
year, one call. ComputeFstatistic_v2 (Resamp) searches the same templates in the same files, for the hundred pulsars one
after the other: three of them are timed. Files of noise are written to a folder first, `--folder` keeps them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from workflows import START, par  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

DAY, YEAR, TOP, SQRT_SX = 86400, 365, 101.0, 8e-24
N_PULSARS, N_TIMED = 100, 3


def write_data(folder: Path) -> tuple[Path, Path, Path]:
    """SFTs of a day and of a year, and .par files; what is there already stays."""
    day, year, pulsars = folder / "day", folder / "year", folder / "pulsars"
    for path, detectors, days in ((day, ["H1"], 1), (year, ["H1", "L1"], YEAR)):
        if not path.exists():
            path.mkdir(parents=True)
            rng = np.random.default_rng(1)
            starts = START + 1800 * np.arange(48 * days)
            for name in detectors:  # one after the other: a year takes much memory
                times = {name: np.sort(rng.choice(starts, int(0.75 * len(starts)), replace=False))}
                sfts = jfstat.simulate_sfts(
                    [name], timestamps=times, fmin=TOP - 1, fmax=TOP + 1, sqrt_sx=SQRT_SX, seed=2
                )
                jfstat.write_sfts(sfts, path)
    if not pulsars.exists():
        pulsars.mkdir(parents=True)
        rng = np.random.default_rng(3)
        for i in range(N_PULSARS):
            sky = rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1))
            point = jfstat.Doppler(*sky, [TOP + rng.uniform(-0.1, 0.1), -1e-13], START)
            par(pulsars / f"{i:03}.par", f"J{i:04}+0000", point)
    return day, year, pulsars


def timed(command: list[Any], cache: Path) -> dict[str, float]:
    """Wall and CPU seconds of a command, and its peak memory in MB."""
    # as after `pip install`: with bytecode, and with no settings of JAX but the program's own
    unset = ("JAX", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(unset)} | {"XDG_CACHE_HOME": str(cache)}
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        assert process.stderr is not None
        raise SystemExit(f"{command[0]} failed: {process.stderr.read().decode()[-2000:]}")
    return {"s": seconds, "cpu_s": used.ru_utime + used.ru_stime, "MB": used.ru_maxrss / 1024}


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.median([run[key] for run in runs])), 2) for key in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        # in a process of its own, whose memory would count as that of the programs it starts
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            day, year, pulsars = pool.apply(write_data, (folder,))
        rows = measured(day, year, pulsars, Path(name), arguments.rounds)
    text = json.dumps({"command": " ".join(sys.argv), "cores": os.cpu_count(), "rows": rows}, indent=1)
    print(text)
    if arguments.output:
        written_to(arguments.output, (text + "\n").encode())


def measured(day: Path, year: Path, pulsars: Path, scratch: Path, rounds: int) -> dict[str, Any]:
    """The rows of the table."""
    own = [sys.executable, "-m", "jfstat"]
    out = [f"--outputFstat={scratch}/jfstat.ecsv"]
    peer = [Path(sys.executable).with_name("lalpulsar_ComputeFstatistic_v2"), "--FstatMethod=ResampBest"]
    peer += [f"--outputFstat={scratch}/lal.txt", "--outputLogfile=/dev/null", f"--assumeSqrtSX={SQRT_SX}"]
    point = [f"--Alpha={1.1}", f"--Delta={0.3}", f"--Freq={TOP}", f"--f1dot={-1e-10}", f"--refTime={START}"]
    floor = [f"--assumeSqrtSX={SQRT_SX}"]

    def pulsar(i: int) -> list[str]:
        found = jfstat.read_par(pulsars / f"{i:03}.par").doppler(START, START + YEAR * DAY)
        f = np.asarray(found.fkdot)
        place = [f"--Alpha={float(found.alpha)!r}", f"--Delta={float(found.delta)!r}", f"--Freq={float(f[0])!r}"]
        return [*place, f"--f1dot={float(f[1])!r}", f"--refTime={found.reftime.seconds if found.reftime else START}"]

    commands: dict[str, tuple[list[Any], list[Any] | None]] = {
        "--version": ([*own, "--version"], None),
        "one template, 1 d of H1": (
            [*own, "search", f"--DataFiles={day}/*.sft", *point, *floor, *out],
            [*peer, f"--DataFiles={day}/*.sft", *point],
        ),
        "one pulsar, 1 yr of H1 and L1": (
            [*own, "search-pulsars", f"--DataFiles={year}/*.sft", f"--par={pulsars}/000.par", *floor, *out],
            [*peer, f"--DataFiles={year}/*.sft", *pulsar(0)],
        ),
    }
    rows: dict[str, Any] = {}
    for name, (mine, theirs) in commands.items():
        cold = timed(mine, scratch / name.replace(" ", "_"))
        runs: dict[str, list[dict[str, float]]] = {"jfstat": [], "lalsuite": []}
        for _ in range(rounds):
            runs["jfstat"].append(timed(mine, scratch / name.replace(" ", "_")))
            if theirs is not None:
                runs["lalsuite"].append(timed(theirs, scratch))
        rows[name] = {"jfstat, nothing compiled": cold} | {k: medians(x) for k, x in runs.items() if x}
        print(name, rows[name], flush=True)
    command = [*own, "search-pulsars", f"--DataFiles={year}/*.sft", f"--par={pulsars}", *floor, *out]
    cold, warm = (timed(command, scratch / "pulsars") for _ in range(2))
    each = [timed([*peer, f"--DataFiles={year}/*.sft", *pulsar(i)], scratch) for i in range(N_TIMED)]
    name = f"{N_PULSARS} pulsars, 1 yr of H1 and L1"
    rows[name] = {"jfstat, nothing compiled": cold, "jfstat": warm, "lalsuite, one pulsar": medians(each)}
    print(name, rows[name], flush=True)
    return rows


if __name__ == "__main__":
    main()
