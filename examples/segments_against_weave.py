"""The same interpolating search over segments by jfstat and by lalpulsar_Weave, whole programs on one core in turns.

    python examples/segments_against_weave.py --output examples/segments_against_weave.json

Both read the same SFTs of H1 and L1, with gaps, noise and a signal, and search the same sky, spin-downs, frequencies
and segments with the same mismatches, from SFT files to the file of candidates. ``seconds`` are of whole programs,
WeaveSetup not counted, and ``cpu_seconds`` what they used of a core, which others that share the machine change less;
jfstat's compiled programs are on disk after the first round, which is left out for both. Beside them: how many values
of 2F each computes and sums, and what both find at the signal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from astropy.io import fits  # noqa: E402
from search_against_lalsuite import lal_program, timed  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, DAY, SQRT_SX = 1167458304, 86400, 8e-24
KEEP = 1000


class Setup(NamedTuple):
    """Segments of equal length, a patch of sky, ranges of frequency and f1dot, and the two mismatches."""

    n_segments: int
    days: float
    fmin: float
    width: float
    alpha: tuple[float, float]
    delta: tuple[float, float]
    f1dot: tuple[float, float]
    mismatch: float
    coherent_mismatch: float
    h0: float


SETUPS = {
    "10 x 1 d": Setup(10, 1.0, 100.0, 0.5, (1.0, 1.4), (0.2, 0.6), (-5e-9, 0.0), 0.2, 0.2, 8e-25),
    "20 x 5 d": Setup(20, 5.0, 100.0, 0.1, (1.2, 1.22), (0.4, 0.42), (-2e-11, 0.0), 0.2, 0.2, 2e-25),
    "20 x 5 d, wide": Setup(20, 5.0, 100.0, 0.1, (1.2, 1.36), (0.4, 0.56), (-2e-11, 0.0), 0.2, 0.2, 2e-25),
}


def make_sfts(setup: Setup, folder: Path, reftime: int) -> None:
    """Write SFTs with a signal in the middle of what is searched; a tenth of them is missing."""
    tspan = setup.n_segments * setup.days * DAY
    f1dot = 0.4 * setup.f1dot[0]
    signal = jfstat.Doppler(
        np.mean(setup.alpha) + 0.01 * (setup.alpha[1] - setup.alpha[0]),
        np.mean(setup.delta),
        [setup.fmin + 0.37 * setup.width, f1dot],
        reftime,
    )
    rng = np.random.default_rng(3)
    starts = START + 1800 * np.arange(int(tspan) // 1800)
    times = {name: np.sort(rng.choice(starts, int(0.9 * len(starts)), replace=False)) for name in ("H1", "L1")}
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        timestamps=times,
        fmin=setup.fmin - 1.1,
        fmax=setup.fmin + setup.width + 1.1,
        sqrt_sx=SQRT_SX,
        signals=[(signal, jfstat.Amplitude(h0=setup.h0, cosi=0.3, psi=0.4, phi0=1.0))],
        seed=4,
    )
    jfstat.write_sfts(sfts, folder)


def weave_commands(
    setup: Setup, folder: Path, reftime: int, sqrt_sx: tuple[float, float], *more: str
) -> tuple[list[str], list[str]]:
    """Command lines of WeaveSetup and Weave, for noise floors of H1 and L1; `more` are options of Weave."""
    length = setup.days * DAY
    first = [lal_program("lalpulsar_WeaveSetup"), f"--first-segment={START},{int(START + length)}"]
    first += [f"--segment-count={setup.n_segments}", "--detectors=H1,L1", f"--ref-time={reftime}"]
    first += [f"--output-file={folder}/setup.fits"]
    run = [lal_program("lalpulsar_Weave"), f"--setup-file={folder}/setup.fits", f"--sft-files={folder}/*.sft"]
    run += [f"--output-file={folder}/weave.fits", f"--toplist-limit={KEEP}", *more]
    run += [f"--alpha={setup.alpha[0]},{setup.alpha[1]}", f"--delta={setup.delta[0]},{setup.delta[1]}"]
    run += [f"--freq={setup.fmin},{setup.fmin + setup.width}", f"--f1dot={setup.f1dot[0]},{setup.f1dot[1]}"]
    run += [f"--semi-max-mismatch={setup.mismatch}", f"--coh-max-mismatch={setup.coherent_mismatch}"]
    run += [f"--Fstat-assume-sqrtSX={sqrt_sx[0]},{sqrt_sx[1]}"]
    return first, run


def own_command(setup: Setup, folder: Path, reftime: int) -> list[str]:
    """Command line of jfstat."""
    run = [sys.executable, "-m", "jfstat", "search", f"--DataFiles={folder}/*.sft", f"--refTime={reftime}"]
    run += [f"--segments={setup.n_segments}", f"--cohMaxMismatch={setup.coherent_mismatch}"]
    run += [f"--metricMismatch={setup.mismatch}", f"--assumeSqrtSX={SQRT_SX}", f"--NumCandidatesToKeep={KEEP}"]
    for name, (low, high) in (("Alpha", setup.alpha), ("Delta", setup.delta), ("f1dot", setup.f1dot)):
        run += [f"--{name}={low}", f"--{name}Band={high - low}"]
    return [*run, f"--Freq={setup.fmin}", f"--FreqBand={setup.width}", f"--outputFstat={folder}/jfstat.ecsv"]


def weave_counts(path: Path) -> dict[str, Any]:
    """Numbers of values from the header of Weave's file, and its largest mean of 2F."""
    with fits.open(path) as file:
        header: Any = file[0].header  # type: ignore[attr-defined]
        top: Any = file["mean2F_toplist"].data  # type: ignore[index]
        names = {x.lower(): x for x in top.names}
        found = {
            "mean_twoF_interpolated": float(top["mean2F"][0]),
            "mean_twoF": float(top[names["mean2f_rec"]][0]) if "mean2f_rec" in names else None,
            "freq": float(top["freq"][0]),
        }
        counts = {k: header[k] for k in header if any(word in k.lower() for word in ("ncoh", "nsemi", "numcoh"))}
    return found | {"counts": {str(k): v for k, v in counts.items()}}


def cpu_seconds() -> float:
    """Seconds that all programs so far have used of a core."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(setup: Setup, rounds: int) -> dict[str, Any]:
    """Both programs in turns; the first round is left out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reftime = int(START + setup.n_segments * setup.days * DAY / 2)
        make_sfts(setup, folder, reftime)
        first, theirs = weave_commands(setup, folder, reftime, (SQRT_SX, SQRT_SX), "--recalc-statistics=mean2F")
        subprocess.run(first, check=True, capture_output=True)
        os.environ["OMP_NUM_THREADS"] = "1"
        seconds: dict[str, list[float]] = {"weave": [], "jfstat": [], "jfstat_search": []}
        cpu: dict[str, list[float]] = {"weave": [], "jfstat": []}
        for turn in range(rounds + 1):
            began = cpu_seconds()
            lal = timed(theirs)[0]
            middle = cpu_seconds()
            whole, said = timed(own_command(setup, folder, reftime))
            end = cpu_seconds()
            found = re.search(r"in ([\d.]+) s", said)
            print(f"turn {turn}: Weave {lal:.1f} s ({middle - began:.1f} s of a core),", end=" ")
            print(f"jfstat {whole:.1f} s ({end - middle:.1f} s)", said if turn == 0 else "", flush=True)
            if turn:
                seconds["weave"].append(lal)
                seconds["jfstat"].append(whole)
                seconds["jfstat_search"].append(float(found[1]) if found else np.nan)
                cpu["weave"].append(middle - began)
                cpu["jfstat"].append(end - middle)
        table: Any = jfstat.read_candidates(folder / "jfstat.ecsv")
        peer = weave_counts(folder / "weave.fits")
    n_twoF = int(table.meta["n_twoF"])
    medians, cpu_medians = ({k: float(np.median(x)) for k, x in own.items()} for own in (seconds, cpu))
    return {
        "setup": setup._asdict(),
        "seconds": seconds,
        "median_seconds": medians,
        "ratio_whole_programs": medians["weave"] / medians["jfstat"],
        "cpu_seconds": cpu,
        "ratio_cpu_seconds": cpu_medians["weave"] / cpu_medians["jfstat"],
        "weave": peer,
        "jfstat": {
            "mean_twoF_interpolated": float(table["mean_twoF_interpolated"][0]),
            "mean_twoF": float(table["mean_twoF"][0]),
            "freq": float(table["freq"][0].value),
            "n_templates": table.meta["n_templates"],
            "n_twoF": n_twoF,
            "n_coherent": table.meta["n_coherent"],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", choices=SETUPS, action="append", help="all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--merge", type=Path, help="JSON file of an earlier run, to add to")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results = json.loads(arguments.merge.read_text())["rows"] if arguments.merge else {}
    command = " ".join(["segments_against_weave.py", *sys.argv[1:]])
    for name in arguments.setup or SETUPS:
        results[name] = {"command": command} | compare(SETUPS[name], arguments.rounds)
    text = json.dumps({"jfstat": jfstat.__version__, "rows": results}, indent=1)
    print(text)
    if arguments.output:
        written_to(arguments.output, (text + "\n").encode())


if __name__ == "__main__":
    main()
