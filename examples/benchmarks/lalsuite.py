"""LALSuite's time for a setting: lalpulsar_ComputeFstatBenchmark with ResampGeneric on one core."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cores import MALLOC, available, pinned

from jfstat.benchmarking.inputs import F1DOT, START, TSFT
from jfstat.benchmarking.settings import Setting
from jfstat.data.fstatdata import FstatData
from jfstat.geometry.ephemeris import EphemerisFiles, ephemeris_files

PROGRAM = "lalpulsar_ComputeFstatBenchmark"
TRIALS = 3
"""Trials of a run. The first does not count, because it allocates memory."""


def find_program() -> str | None:
    """Path of LALSuite's benchmark: beside Python, or else on PATH; None if it is not installed."""
    beside = Path(sys.executable).with_name(PROGRAM)
    return str(beside) if beside.exists() else shutil.which(PROGRAM)


def arguments(setting: Setting, data: FstatData, seed: int, ephemeris: EphemerisFiles) -> list[str]:
    """Options for the same data, band, spacing and detectors; each trial draws a sky position and f1dot."""
    _, earth, sun = ephemeris_files(ephemeris)
    options = {
        "FstatMethod": "ResampGeneric",
        "startTime": START,
        "Tseg": round(data.tspan),
        "Tsft": TSFT,
        "numSegments": 1,
        "IFOs": ",".join(setting.detectors),
        "Freq": setting.frequency,
        "numFreqBins": data.layout.n_frequencies,
        "FreqResolution": 0.5,
        "f1dot": f"{-F1DOT},0",
        "f2dot": 0,
        "numTrials": TRIALS,
        "randSeed": 1 + seed,
        "ephemEarth": earth,
        "ephemSun": sun,
    }
    return [f"--{name}={value}" for name, value in options.items()]


def trials(program: str, options: list[str]) -> list[dict[str, float]]:
    """Numbers of each trial that counts, by name, from a run of LALSuite's benchmark on one core.

    Raises
    ------
    ValueError
        If it fails.
    """
    with tempfile.TemporaryDirectory() as directory, pinned(available()[-1:]):
        output = Path(directory) / "timing.txt"
        done = subprocess.run(
            [program, *options, f"--outputInfo={output}"],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | MALLOC,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ValueError(f"{PROGRAM} failed: {reason}. Install LALSuite anew.")
        return read_timing(output.read_text())[1:]


def read_timing(text: str) -> list[dict[str, float]]:
    """Rows of the table that ``--outputInfo`` writes, by column name; times in s.

    Raises
    ------
    ValueError
        If there is no such table.
    """
    heading = next(
        (line for line in text.splitlines() if line.startswith("%%") and "NCalls " in line and "|" in line), ""
    )
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("%")]
    names = heading.strip("% ").replace("|", " ").split()
    if not rows or "tauF_eff" not in names or any(len(row) != len(names) for row in rows):
        raise ValueError(f"{PROGRAM} wrote no table of times that is understood: install another version of LALSuite.")
    return [dict(zip(names, map(float, row), strict=True)) for row in rows]
