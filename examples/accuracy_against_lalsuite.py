"""How much of a signal is found at its true template: jfstat and LALSuite's Resamp and Demod on the same SFT files.

SFTs of one signal each, without noise, are simulated by jfstat and written to disk. The recovered rho^2 (2F of data
without noise) is divided by the theoretical one (`jfstat.predict_twoF` minus 4, as lalpulsar_PredictFstat has it
to 5e-4). Prints a table, median and in brackets the signal farthest from 1, and writes all numbers to a JSON file.

    python examples/accuracy_against_lalsuite.py             # one day of data, two minutes on two cores
    python examples/accuracy_against_lalsuite.py --days 10
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.sfts import read_sfts, write_sfts  # noqa: E402

START, TSFT = 1100000000, 1800
SQRT_SX = {"H1": 4e-24, "L1": 6e-24}
SEARCH_BAND, GUARD, DTERMS = 0.1, 1.0, 8
METHODS = {
    "jfstat twoF": "direct sum at the template",
    "jfstat twoF_band": "resampling and FFT over the search band, at the bin of the template",
    "LAL Resamp": "lalpulsar_ComputeFstatistic_v2 --FstatMethod=ResampBest over the search band, at the same bin",
    "LAL Demod": "lalpulsar_ComputeFstatistic_v2 --FstatMethod=DemodBest, at the template alone",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=1, help="length of the data")
    parser.add_argument("--skies", type=int, default=6, help="random signals per frequency")
    parser.add_argument("--frequencies", type=float, nargs="+", default=[20.0, 100.0, 437.0, 1000.0, 1900.0], help="Hz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    rows, signals = [], []
    for frequency in options.frequencies:
        runs = [run(rng, frequency, k, options) for k in range(options.skies)]
        signals += runs
        row = {"frequency": frequency}
        for method in METHODS:
            found = np.array([r["recovered"][method] for r in runs])
            worst = found[np.argmax(np.abs(found - 1))]
            row[method] = {"median": float(np.median(found)), "worst": float(worst)}
        rows.append(row)
        print(f"{frequency:g} Hz done", file=sys.stderr, flush=True)

    print(table(rows))
    frequencies = " ".join(f"{f:g}" for f in options.frequencies)
    arguments = [
        f"--frequencies {frequencies}",
        f"--days {options.days}",
        f"--skies {options.skies}",
        f"--seed {options.seed}",
    ]
    report = {
        "what": "recovered rho^2 over theoretical rho^2 at the true template, no noise; worst is farthest from 1",
        "command": " ".join(["python examples/accuracy_against_lalsuite.py", *arguments]),
        "settings": {
            "data": f"{options.days} d from GPS {START}, SFTs of {TSFT} s and 1.7 Hz either side, rectangular windows",
            "sqrt_sx": SQRT_SX,
            "noise floors": "given to all methods (LALSuite: --assumeSqrtSX)",
            "search band": f"{SEARCH_BAND} Hz around the signal, spacing 1/(2 tspan)",
            "jfstat": f"prepare(guard={GUARD}), files read over their whole band",
            "LALSuite": f"defaults: --Dterms={DTERMS}, SFT bins loaded as it chooses for the search band",
            "methods": METHODS,
        },
        "versions": {name: version(name) for name in ("lalsuite", "jax", "numpy", "scipy")}
        | {"jfstat": jfstat.__version__, "python": platform.python_version()},
        "rows": rows,
        "signals": signals,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")


def run(rng: np.random.Generator, frequency: float, k: int, options: argparse.Namespace) -> dict:
    """One signal: what it is, and the fraction of its rho^2 that each method recovers."""
    detectors = ["H1", "L1"] if k % 2 else [("H1", "L1")[k // 2 % 2]]
    duty = 0.6 + 0.4 * k / max(1, options.skies - 1)
    # one search band a frequency, so that little is compiled anew, and the signal anywhere on ten SFT bins of its grid
    spacing, low = 0.5 / (options.days * 86400), frequency - SEARCH_BAND / 2
    place = round(SEARCH_BAND / 2 / spacing) + int(rng.integers(0, round(10 / TSFT / spacing)))
    f = low + place * spacing
    doppler = jfstat.Doppler(
        alpha=rng.uniform(0, 2 * np.pi),
        delta=np.arcsin(rng.uniform(-1, 1)),
        fkdot=[f, rng.uniform(-1e-9, 1e-9)],
        reftime=START,
    )
    amplitude = jfstat.Amplitude(1e-24, rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 6.2))
    times = START + TSFT * np.arange(options.days * 86400 // TSFT)
    kept = {}
    for detector in detectors:
        count = round(duty * len(times))
        inner = rng.choice(np.arange(1, len(times) - 1), max(count - 2, 0), replace=False)
        kept[detector] = times[np.sort([0, *inner, len(times) - 1])]  # gaps, but the same span for all
    floors = {d: SQRT_SX[d] for d in detectors}
    with tempfile.TemporaryDirectory() as directory:
        simulated = jfstat.simulate_sfts(
            detectors,
            fmin=frequency - 1.7,
            fmax=frequency + 1.7,
            tsft=TSFT,
            sqrt_sx=None,
            signals=[(doppler, amplitude)],
            timestamps=kept,
        )
        write_sfts(simulated, directory)
        sfts = read_sfts(directory)
        data = jfstat.prepare(sfts, low, low + SEARCH_BAND, sqrt_sx=floors, guard=GUARD)
        theory = float(jfstat.predict_twoF(data, doppler, amplitude)) - 4
        found = {
            "jfstat twoF": float(jfstat.twoF(data, doppler)),
            "jfstat twoF_band": float(jfstat.twoF_band(data, doppler)[place]),
            "LAL Resamp": lalsuite(directory, floors, doppler, spacing, place, "ResampBest"),
            "LAL Demod": lalsuite(directory, floors, doppler, spacing, 0, "DemodBest"),
        }
    assert abs(data.frequencies[place] - f) < 1e-9
    return {
        "frequency": f,
        "f1dot": float(doppler.fkdot[1]),
        "alpha": float(doppler.alpha),
        "delta": float(doppler.delta),
        "cosi": float(amplitude.cosi),
        "psi": float(amplitude.psi),
        "detectors": detectors,
        "duty": round(len(sfts) / len(detectors) / len(times), 3),
        "recovered": {method: value / theory for method, value in found.items()},
    }


def lalsuite(
    directory: str, floors: dict[str, float], doppler: jfstat.Doppler, spacing: float, place: int, method: str
) -> float:
    """2F at the template from lalpulsar_ComputeFstatistic_v2: that bin of the search band, or if 0 a single bin."""
    name = "lalpulsar_ComputeFstatistic_v2"
    beside = Path(sys.executable).with_name(name)
    program = str(beside) if beside.exists() else shutil.which(name)
    if program is None:
        sys.exit(f"{name} is not installed: pip install lalsuite.")
    f = float(doppler.fkdot[0])
    bins = round(SEARCH_BAND / spacing) if place else 0
    output = Path(directory) / "fstat.txt"
    arguments = {
        "DataFiles": f"{directory}/*.sft",
        "assumeSqrtSX": ",".join(str(x) for x in floors.values()),
        "Alpha": float(doppler.alpha),
        "Delta": float(doppler.delta),
        "Freq": f - place * spacing,
        "FreqBand": (bins + 0.5) * spacing,
        "dFreq": spacing,
        "f1dot": float(doppler.fkdot[1]),
        "refTime": doppler.reftime,
        "FstatMethod": method,
        "Dterms": DTERMS,
        "outputFstat": output,
        "outputLogfile": "/dev/null",
    }
    command = [program, *(f"--{key}={value}" for key, value in arguments.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr}")
    rows = np.atleast_2d(np.loadtxt(output, comments="%"))
    assert abs(rows[place, 0] - f) < 1e-9
    return float(rows[place, 6])


def table(rows: list[dict]) -> str:
    """Markdown: median (worst) by frequency and method."""
    lines = ["| f / Hz | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for row in rows:
        cells = [f"{row[m]['median']:.5f} ({row[m]['worst']:.5f})" for m in METHODS]
        lines.append(f"| {row['frequency']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
