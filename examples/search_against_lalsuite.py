"""The same small search by jfstat and by lalpulsar_ComputeFstatistic_v2, on one core; and both programs' banks.

    python examples/search_against_lalsuite.py search --output examples/search_against_lalsuite.json
    python examples/search_against_lalsuite.py banks --output examples/banks_against_lalsuite.json

``search``: 5 days of H1 and L1 with gaps, three signals, 0.5 Hz, the same grid of sky positions and spin-downs and the
same frequencies for both, whole programs from SFT files to the file of candidates, in turns, each pinned to one core.
``banks``: templates for table 2 of Dunn et al. (2022) at a mismatch of 0.1: jfstat's lattice, and what LALSuite counts
for the same regions with its metric sky grid (``--gridType=2 --metricType=1 --countTemplates``); the 14' of the patch's
width once as an angle on the sky, once as a difference in right ascension.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import omega_centauri as pilot  # noqa: E402
from benchmarks.cores import available, pinned  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, DAYS, FMIN, WIDTH, SQRT_SX = 1167458304, 5, 100.0, 0.5, 8e-24
ALPHA, DELTA, F1DOT = (3.2, 3.7, 0.05), (-1.0, -0.5, 0.05), (-2.4e-10, 0.0, 0.8e-10)
"""Ranges and steps, rad and Hz/s."""
SIGNALS = ((100.12345, -0.8e-10, 3.4, -0.8), (100.25, -1.5e-10, 3.52, -0.63), (100.4321, 0.0, 3.6, -0.9))
"""Frequency, f1dot, alpha, delta."""
KEEP, ROUNDS = 1000, 3


def lal_program(name: str) -> str:
    """Path of a program of LALSuite's, beside Python or in the search path."""
    here = Path(sys.executable).with_name(name)
    found = str(here) if here.exists() else shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: pip install lalsuite")
    return found


def timed(command: list[str]) -> tuple[float, str]:
    """Seconds that a program takes on one core, and what it prints."""
    with pinned(available()[:1]):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
    return seconds, done.stdout


def compare_searches() -> dict[str, Any]:
    """Times and candidates of both programs."""
    times = {name: x[x < START + 86400 * DAYS] for name, x in pilot.timestamps(DAYS).items()}
    signals = [
        (jfstat.Doppler(a, d, [f, f1], reftime=START), jfstat.Amplitude(1.4e-24, 0.3 * i, 0.4, 1.0))
        for i, (f, f1, a, d) in enumerate(SIGNALS)
    ]
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        timestamps=times,
        fmin=FMIN - 1.1,
        fmax=FMIN + WIDTH + 1.1,
        sqrt_sx=SQRT_SX,
        signals=signals,
        seed=5,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jfstat.write_sfts(sfts, folder)
        tspan = float(sfts.end - sfts.start)
        step = 1 / (2 * tspan)
        alphas, deltas = (np.arange(low, high + 1e-9, by) for low, high, by in (ALPHA, DELTA))
        sky = folder / "sky.txt"
        sky.write_text("\n".join(f"{a!r} {d!r}" for a in alphas.tolist() for d in deltas.tolist()) + "\n")
        common = [f"--refTime={START}", f"--DataFiles={folder}/*.sft", f"--assumeSqrtSX={SQRT_SX}"]
        common += [f"--Freq={FMIN}", f"--NumCandidatesToKeep={KEEP}"]
        common += [f"--f1dot={F1DOT[0]}", f"--f1dotBand={F1DOT[1] - F1DOT[0]}", f"--df1dot={F1DOT[2]}"]
        lal = [lal_program("lalpulsar_ComputeFstatistic_v2"), *common, f"--FreqBand={WIDTH}", f"--dFreq={step!r}"]
        lal += ["--gridType=3", f"--gridFile={sky}", "--FstatMethod=ResampBest", "--outputLogfile=/dev/null"]
        lal += [f"--outputFstat={folder}/lal.txt"]
        ours = [sys.executable, "-m", "jfstat", "search", *common, f"--FreqBand={WIDTH}"]
        ours += [f"--outputFstat={folder}/jfstat.ecsv", "--noDetails"]  # LALSuite has none either unless told to
        for name, (low, high, by) in (("Alpha", ALPHA), ("Delta", DELTA)):
            ours += [f"--{name}={low}", f"--{name}Band={high - low + 1e-9}", f"--d{name}={by}"]
        seconds: dict[str, list[float]] = {"lalsuite": [], "jfstat": [], "jfstat_search": []}
        for _ in range(ROUNDS):
            seconds["lalsuite"].append(timed(lal)[0])
            whole, said = timed(ours)
            seconds["jfstat"].append(whole)
            found = re.search(r"in ([\d.]+) s", said)
            seconds["jfstat_search"].append(float(found[1]) if found else np.nan)
            print({k: round(x[-1], 2) for k, x in seconds.items()}, flush=True)
        table: Any = jfstat.read_candidates(folder / "jfstat.ecsv")
        theirs: Any = jfstat.read_candidates(folder / "lal.txt")
    order = np.argsort(-np.asarray(theirs["twoF"]))
    theirs = theirs[order]
    medians = {k: float(np.median(x)) for k, x in seconds.items()}

    def keys(table: Any) -> list[tuple[int, ...]]:
        plain = {k: np.asarray(getattr(table[k], "value", table[k])) for k in ("freq", "alpha", "delta", "f1dot")}
        steps = {"freq": step, "alpha": ALPHA[2], "delta": DELTA[2], "f1dot": F1DOT[2]}
        low = {"freq": FMIN, "alpha": ALPHA[0], "delta": DELTA[0], "f1dot": F1DOT[0]}
        return list(zip(*(np.rint((plain[k] - low[k]) / steps[k]).astype(int).tolist() for k in plain), strict=True))

    own, other = keys(table), keys(theirs)
    values = dict(zip(other, np.asarray(theirs["twoF"]), strict=True))
    shared = [(i, values[key]) for i, key in enumerate(own) if key in values]
    ratios = np.array([x / table["twoF"][i] for i, x in shared])
    return {
        "templates": table.meta["n_templates"],
        "n_twoF": table.meta["n_twoF"],
        "seconds": seconds,
        "median_seconds": medians,
        "ratio_whole_programs": medians["lalsuite"] / medians["jfstat"],
        "ratio_without_start": medians["lalsuite"] / medians["jfstat_search"],
        "same_loudest": own[0] == other[0],
        "loudest_100_in_lalsuites_1000": sum(key in values for key in own[:100]),
        "loudest_500_in_lalsuites_1000": sum(key in values for key in own[:500]),
        "twoF_lalsuite_over_jfstat": {
            "median": float(np.median(ratios)),
            "min": float(ratios.min()),
            "max": float(ratios.max()),
        },
    }


def compare_banks() -> dict[str, Any]:
    """Numbers of sky positions and templates of both programs for the paper's table 2."""
    rows = {}
    for band in pilot.BANDS:
        top = band.fmin + pilot.WHOLE.width
        width = 0.05 + 1.1e-4 * top  # LALSuite's Doppler shifts and running median
        narrow = jfstat.simulate_sfts(
            ["H1", "L1"], timestamps=pilot.timestamps(100), fmin=top - width, fmax=top + width, sqrt_sx=pilot.SQRT_SX
        )
        data = jfstat.prepare(narrow, top - 0.001, top, START, pilot.SQRT_SX, guard=0.02, filters=False)
        row = {}
        with tempfile.TemporaryDirectory() as name:
            jfstat.write_sfts(narrow, name)
            options = [f"--DataFiles={name}/*.sft", f"--refTime={START}", f"--Freq={top}", "--FreqBand=0", "--dFreq=1"]
            options += [f"--f1dot={band.f1dot[0]}", f"--f1dotBand={band.f1dot[1] - band.f1dot[0]}"]
            options += ["--gridType=2", "--metricType=1", f"--metricMismatch={pilot.MISMATCH}", "--countTemplates"]
            options += ["--outputLogfile=/dev/null"]
            for reading, stretch in (("on_the_sky", 1.0), ("in_right_ascension", np.cos(pilot.POINTING.dec.rad))):
                (west, east), (south, north) = pilot.patch(pilot.WHOLE)
                west, east = (pilot.POINTING.ra.rad + stretch * (x - pilot.POINTING.ra.rad) for x in (west, east))
                if band.known:
                    sky = [f"--Alpha={pilot.PULSAR_A.ra.rad}", f"--Delta={pilot.PULSAR_A.dec.rad}"]
                    bank = pilot.bank_for(band, pilot.WHOLE, data)
                else:
                    sky = [f"--Alpha={west}", f"--AlphaBand={east - west}", f"--Delta={south}"]
                    sky += [f"--DeltaBand={north - south}"]
                    bank = jfstat.template_bank(
                        (west, east), (south, north), f1dot=band.f1dot, mismatch=pilot.MISMATCH, data=data
                    )
                command = [lal_program("lalpulsar_ComputeFstatistic_v2"), *options, *sky]
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
                found = re.search(r"Number of templates:\s*([\d.e+]+)", done.stdout + done.stderr)
                if done.returncode or not found:
                    raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
                row[f"jfstat_{reading}"] = len(np.asarray(bank.alpha))
                row[f"lalsuite_{reading}"] = int(float(found[1]))
        rows[band.name] = row
        print(band.name, row, flush=True)
    names = list(rows["A1"])
    return {"bands": rows, "total": {k: sum(row[k] for row in rows.values()) for k in names}}


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("search", "banks"))
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    result = compare_searches() if arguments.what == "search" else compare_banks()
    content = {"command": f"python examples/search_against_lalsuite.py {arguments.what}", **result}
    print(json.dumps(content, indent=1))
    if arguments.output is not None:
        written_to(arguments.output, json.dumps(content, indent=1).encode())


if __name__ == "__main__":
    main()
