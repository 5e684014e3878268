"""Viterbi paths of jfstat beside those of soapcw (Bayley, Messenger & Woan 2019): the same paths, and the times.

    python examples/tracking_against_soapcw.py

Only soapcw's compiled module is loaded: the package imports its neural networks too, with all that they need.
"""

import argparse
import importlib.util
import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jfstat

JSON = Path(__file__).with_suffix(".json")
SIZES = [(10, 3, 100), (100, 3, 20_000), (100, 9, 20_000), (1000, 3, 2_000)]
"""Segments, jumps and frequencies of the tables."""


def soapcw_module():
    """The compiled module of the installed soapcw."""
    spec = importlib.util.find_spec("soapcw")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("soapcw is missing: pip install --no-deps soapcw")
    (path,) = [p for folder in spec.submodule_search_locations for p in Path(folder).glob("soap.*so")]
    own = importlib.util.spec_from_file_location("soapcw.soap", path)
    module = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
    return module


def best_of(rounds, function, *arguments, **options):
    """The shortest of some times of a call, s, and its last result."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        result = jax.block_until_ready(function(*arguments, **options))
        times.append(time.perf_counter() - began)
    return min(times), result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=JSON)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    soap, random, rows = soapcw_module(), np.random.default_rng(0), []
    for n_segments, n_jumps, n in SIZES:
        table = random.chisquare(4, (n_segments, n)) / 2
        transitions = np.log(np.full(n_jumps, 1 / n_jumps))
        row = {"segments": n_segments, "jumps": n_jumps, "frequencies": n}
        row["soapcw_seconds"], theirs = best_of(5, soap.single_detector, transitions, table, make_vitmap=False)
        for kind in (np.float64, np.float32):
            own = jnp.asarray(table, kind)
            best_of(1, jfstat.viterbi, own, transitions)  # compiled
            seconds, ours = best_of(20, jfstat.viterbi, own, transitions)
            row[f"jfstat_{np.dtype(kind).name}_seconds"] = seconds
            if kind == np.float64:
                row["same_path"] = bool(np.array_equal(ours.path, theirs.vit_track))
                row["largest_difference_of_values"] = float(np.max(np.abs(ours.final - theirs.V[-1])))
        row["ratio"] = row["soapcw_seconds"] / row["jfstat_float64_seconds"]
        print(row)
        rows.append(row)
    about = {"soapcw": "0.2.4", "jax": jax.__version__, "machine": platform.processor() or platform.machine()}
    about |= {"command": shlex.join(["python", *sys.argv]), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    arguments.output.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
