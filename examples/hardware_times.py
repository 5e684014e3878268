"""Time of `jfstat hardware-injections` on simulated strain in files as GWOSC has them, scaled to a day of a detector.

    python examples/hardware_times.py --output examples/hardware_times.json

The files are of 4096 s, at 4096 and at 16384 Hz, of white noise, and compressed.
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
import time
from pathlib import Path

import numpy as np

START, SECONDS, DAY = 1256655618, 4096, 48
FILES = {4096: 5, 16384: 2}


def write(path: Path, start: int, rate: int, seed: int) -> None:
    """Write a file of H1 with injections at all times."""
    import h5py

    mask = np.ones(SECONDS, np.uint32)
    bits = {"quality/simple/DQ": ("DATA", mask), "quality/injections/Inj": ("NO_CW_HW_INJ", 0 * mask)}
    with h5py.File(path, "w") as file:
        file["meta/Detector"], file["meta/GPSstart"], file["meta/Duration"] = b"H1", start, SECONDS
        for place, (name, values) in bits.items():
            file[f"{place}mask"], file[f"{place}Shortnames"] = values, [name.encode()]
        x = 1e-21 * np.random.default_rng(seed).standard_normal(SECONDS * rate)
        strain = file.create_dataset("strain/Strain", data=x, chunks=(16 * rate,), compression="gzip")
        strain.attrs["Xspacing"], strain.attrs["Xstart"], strain.attrs["Npoints"] = 1 / rate, start, len(x)


def measured(rate: int, n_files: int) -> dict[str, float]:
    """Time a run of the command, after one that compiles its programs."""
    with tempfile.TemporaryDirectory() as folder:
        for k in range(n_files):
            write(Path(folder) / f"H-H1_T-{START + k * SECONDS}-{SECONDS}.hdf5", START + k * SECONDS, rate, k)
        line = [sys.executable, "-m", "jfstat", "hardware-injections", f"--frame-files={folder}/*.hdf5"]
        for _ in range(2):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    said = re.search(r"^(\d+) of H1: SFTs of .* in ([\d.]+) s$", done.stdout, re.M)
    assert said, done.stderr
    n, making = int(said[1]), float(said[2])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rest = wall - making
    return {
        "SFTs": n,
        "s": wall,
        "cpu_s": cpu,
        "s of making them": making,
        "s of a day": rest + DAY * making / n,
        "memory_GB": after.ru_maxrss / 1e6,
        "load_of_the_machine": os.getloadavg()[0],
        "cores": os.cpu_count() or 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    path = parser.parse_args().output
    found = {str(rate): measured(rate, n) for rate, n in FILES.items()}
    path.write_text(
        json.dumps({"command": f"python examples/hardware_times.py --output {path}", **found}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
