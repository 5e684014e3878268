"""Detection efficiency of the same interpolating search by jfstat and by lalpulsar_Weave, on the same files.

    python examples/efficiency_against_weave.py --sets 40 --folder SETS --output efficiency_against_weave.json

Each set is 10 segments of 1 d of H1 and L1, a tenth of the SFTs missing, around a random frequency, with a box of the
sky at a random place. Its band is divided into parts that are searched one by one: some hold a signal of one of three
depths sqrt(S)/h0, with random sky position in the box, frequency, f1dot and amplitudes; the others only noise. The
detection statistic of a search is its loudest value, both as interpolated and as recalculated exactly for the `KEEP`
candidates that both programs keep. Thresholds are those of equal false alarm in the searches of noise, each program's
own. Sets are kept in the folder one by one, so that a stopped run goes on; those of a folder are all summed up.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from astropy.io import fits  # noqa: E402
from search_against_lalsuite import lal_program  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing, written_to  # noqa: E402
from jfstat.commandline import main as jfstat_program  # noqa: E402

START, DAY, SQRT_SX = 1167458304, 86400, 8e-24
SEGMENTS, DAYS = 10, 1.0
TSPAN = SEGMENTS * DAYS * DAY
REFTIME = int(START + TSPAN / 2)
DEPTHS = (40.0, 48.0, 58.0)
"""1/sqrt(Hz)."""
PER_DEPTH, NOISE = 5, 5
"""Searches of a set with a signal of each depth, and of noise."""
WIDTH, APART = 0.01, 0.02
"""Of the band of a search, and from one band to the next, Hz."""
SIDE, F1DOT = 0.08, (-1e-9, 0.0)
"""Of the box of the sky, rad, along a great circle, and range of f1dot, Hz/s."""
MISMATCH = 0.2
"""Of the bank and of the segments' own lattices."""
KEEP = 100
FALSE_ALARMS = (0.05, 0.01)
STATISTICS = ("interpolated", "exact")


def signal(rng: np.random.Generator, box: dict[str, Any], fmin: float, depth: float) -> tuple[Any, Any]:
    """A signal within what is searched in the band from `fmin` on."""
    doppler = jfstat.Doppler(
        rng.uniform(*box["alpha"]),
        np.arcsin(rng.uniform(*np.sin(box["delta"]))),
        [fmin + rng.uniform(0.05, 0.95) * WIDTH, rng.uniform(*F1DOT)],
        REFTIME,
    )
    amplitude = jfstat.Amplitude(
        h0=SQRT_SX / depth,
        cosi=rng.uniform(-1, 1),
        psi=rng.uniform(-np.pi / 4, np.pi / 4),
        phi0=rng.uniform(0, 2 * np.pi),
    )
    return doppler, amplitude


def weave(folder: Path, box: dict[str, Any], fmin: float) -> dict[str, float]:
    """Weave's loudest values in a band, and its number of templates."""
    run = [lal_program("lalpulsar_Weave"), f"--setup-file={folder}/setup.fits", f"--sft-files={folder}/*.sft"]
    run += [f"--output-file={folder}/weave.fits", f"--toplist-limit={KEEP}", "--recalc-statistics=mean2F"]
    run += [f"--{name}={box[name][0]},{box[name][1]}" for name in ("alpha", "delta")]
    run += [f"--freq={fmin},{fmin + WIDTH}", f"--f1dot={F1DOT[0]},{F1DOT[1]}"]
    run += [f"--semi-max-mismatch={MISMATCH}", f"--coh-max-mismatch={MISMATCH}"]
    run += [f"--Fstat-assume-sqrtSX={SQRT_SX},{SQRT_SX}"]
    subprocess.run(run, check=True, capture_output=True)
    with fits.open(folder / "weave.fits") as file:
        top: Any = file["mean2F_toplist"].data  # type: ignore[index]
        n: Any = file[0].header["NSEMITPL"]  # type: ignore[attr-defined]
        names = {x.lower(): x for x in top.names}
        exact = np.max(top[names["mean2f_rec"]])
        return {"interpolated": float(np.max(top["mean2F"])), "exact": float(exact), "n": float(n)}


def own(folder: Path, box: dict[str, Any], fmin: float) -> dict[str, float]:
    """The same of jfstat."""
    run = ["search", f"--DataFiles={folder}/*.sft", f"--refTime={REFTIME}", f"--segments={SEGMENTS}"]
    run += [f"--cohMaxMismatch={MISMATCH}", f"--metricMismatch={MISMATCH}", f"--assumeSqrtSX={SQRT_SX}"]
    for name, (low, high) in (*box.items(), ("f1dot", F1DOT)):
        run += [f"--{name.title() if name != 'f1dot' else name}={low}"]
        run += [f"--{name.title() if name != 'f1dot' else name}Band={high - low}"]
    run += [f"--Freq={fmin}", f"--FreqBand={WIDTH}", f"--NumCandidatesToKeep={KEEP}", "--noDetails"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        status = jfstat_program([*run, f"--outputFstat={folder}/jfstat.ecsv"])
    if status:
        raise SystemExit(said.getvalue())
    found: Any = jfstat.read_candidates(folder / "jfstat.ecsv")
    values = (np.max(found[name]) for name in ("mean_twoF_interpolated", "mean_twoF"))
    return dict(zip(STATISTICS, map(float, values), strict=True)) | {"n": float(found.meta["n_twoF"])}


def one_set(seed: int) -> dict[str, Any]:
    """All searches of a set by both programs."""
    rng = np.random.default_rng((1906, seed))
    delta = float(np.clip(np.arcsin(rng.uniform(-1, 1)), -1.3, 1.3))
    alpha, first = float(rng.uniform(0.1, 6.1)), float(rng.uniform(60, 200))
    half = 0.5 * SIDE / np.cos(delta)
    box = {"alpha": (alpha - half, alpha + half), "delta": (delta - 0.5 * SIDE, delta + 0.5 * SIDE)}
    depths = [*np.repeat(DEPTHS, PER_DEPTH).tolist(), *[None] * NOISE]
    edges = [first + i * APART for i in rng.permutation(len(depths))]
    signals = [signal(rng, box, f, d) for f, d in zip(edges, depths, strict=True) if d is not None]
    starts = START + 1800 * np.arange(int(TSPAN) // 1800)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sfts = jfstat.simulate_sfts(
            ["H1", "L1"],
            timestamps={x: np.sort(rng.choice(starts, int(0.9 * len(starts)), replace=False)) for x in ("H1", "L1")},
            fmin=first - 1.1,
            fmax=first + len(depths) * APART + 1.1,
            sqrt_sx=SQRT_SX,
            signals=signals,
            seed=int(rng.integers(2**31)),
        )
        jfstat.write_sfts(sfts, folder)
        setup = [lal_program("lalpulsar_WeaveSetup"), f"--first-segment={START},{int(START + DAYS * DAY)}"]
        setup += [f"--segment-count={SEGMENTS}", "--detectors=H1,L1", f"--ref-time={REFTIME}"]
        subprocess.run([*setup, f"--output-file={folder}/setup.fits"], check=True, capture_output=True)
        rows = [
            {"depth": depth, "fmin": f, "weave": weave(folder, box, f), "jfstat": own(folder, box, f)}
            for f, depth in zip(edges, depths, strict=True)
        ]
    return {"seed": seed, "box": box, "rows": rows}


def efficiencies(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fractions of the signals above each program's own threshold, for each false alarm, statistic and depth."""
    table = []
    for alarm in FALSE_ALARMS:
        for statistic in STATISTICS:
            line: dict[str, Any] = {"false_alarm": alarm, "statistic": statistic}
            for program in ("weave", "jfstat"):
                noise = [r[program][statistic] for r in rows if r["depth"] is None]
                threshold = float(np.quantile(noise, 1 - alarm))
                found = {
                    depth: np.array([r[program][statistic] >= threshold for r in rows if r["depth"] == depth])
                    for depth in DEPTHS
                }
                line[program] = {
                    "threshold": threshold,
                    "efficiency": {str(d): float(np.mean(x)) for d, x in found.items()},
                    "error": {str(d): float(np.sqrt(np.mean(x) * (1 - np.mean(x)) / len(x))) for d, x in found.items()},
                }
            table.append(line)
    return table


def summary(folder: Path) -> dict[str, Any]:
    """All sets of a folder."""
    rows = [row for path in sorted(folder.glob("set*.json")) for row in json.loads(path.read_text())["rows"]]
    gain = {
        statistic: {
            str(depth): float(
                np.mean([r["jfstat"][statistic] - r["weave"][statistic] for r in rows if r["depth"] == depth])
            )
            for depth in DEPTHS
        }
        for statistic in STATISTICS
    }
    return {
        "n_sets": len(list(folder.glob("set*.json"))),
        "n_injections_per_depth": sum(r["depth"] == DEPTHS[0] for r in rows),
        "n_noise": sum(r["depth"] is None for r in rows),
        "mean_templates": {p: float(np.mean([r[p]["n"] for r in rows])) for p in ("weave", "jfstat")},
        "efficiencies": efficiencies(rows),
        "mean_difference_of_loudest_of_signals": gain,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--folder", type=Path, required=True, help="where sets are kept")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(arguments.sets):
        path = arguments.folder / f"set{seed:03d}.json"
        if not path.exists():
            with replacing(path) as file:
                file.write(json.dumps(one_set(seed)).encode())
            print(f"set {seed} done", flush=True)
    settings = {
        "segments": SEGMENTS,
        "days": DAYS,
        "depths": DEPTHS,
        "width": WIDTH,
        "side": SIDE,
        "f1dot": F1DOT,
        "mismatches": MISMATCH,
        "keep": KEEP,
    }
    command = " ".join(["efficiency_against_weave.py", *sys.argv[1:]])
    found = {"command": command, "jfstat": jfstat.__version__, "settings": settings, **summary(arguments.folder)}
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.output:
        written_to(arguments.output, (text + "\n").encode())


if __name__ == "__main__":
    main()
