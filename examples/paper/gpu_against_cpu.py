"""Differences of 2F between a GPU and a CPU, bin by bin, over a million bins, as the paper's figure has them.

    python examples/paper/gpu_against_cpu.py --output examples/paper/gpu_against_cpu.json

For each of three sets of random data one random template: all 2F of the band by the engine `cuda` and by `twoF_band`
on the GPU, against `twoF_band` on the CPU of the same machine. The fraction is the difference over the CPU's value.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402
from jfstat.benchmarking.inputs import prepared, random_points  # noqa: E402
from jfstat.benchmarking.settings import ROWS, Setting  # noqa: E402
from jfstat.engines.cuda.engine import Cuda  # noqa: E402
from jfstat.searching.reduce.loudest import loudest  # noqa: E402

SETTINGS = {
    "10 d, 0.606 Hz, H1": ROWS["10d"],
    "10 d, 0.1 Hz, H1": ROWS["10d-narrow"],
    "10 d, 0.3 Hz at 437 Hz, H1 and L1": Setting("two", 10, 0.3, 437.0, ("H1", "L1")),
}
LARGE = 1.0
"""2F above which the largest fraction is also given: the smallest values differ by the largest fractions."""


def main() -> None:
    """Compute, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--emulate", action="store_true", help="kernels in plain JAX, without a GPU: to try this out")
    arguments = parser.parse_args()
    report = {name: compared(setting, Cuda(arguments.emulate)) for name, setting in SETTINGS.items()}
    report = {
        "command": shlex.join(["python", *sys.argv]),
        "device": jax.devices()[0].device_kind,
        "differences": report,
    }
    print(json.dumps(report, indent=1))
    if arguments.output:
        written_to(arguments.output, json.dumps(report, indent=1).encode())


def compared(setting: Setting, engine: Cuda) -> dict[str, dict[str, float]]:
    """Differences from the CPU's values, by what computed the others."""
    data = prepared(setting, 5, "DE405")
    points = random_points(np.random.default_rng(3), data, 1, False)
    point, n = jax.tree.map(lambda x: x[0], points), data.layout.n_frequencies
    found = loudest(engine.ready(data), points, 1, n, engine, False)
    kernels = np.full(n, np.nan)
    real = np.isfinite(found.twoF)
    kernels[np.asarray(found.frequency)[real]] = np.asarray(found.twoF)[real]
    two_f = jax.jit(jfstat.twoF_band)
    library = np.asarray(two_f(data, point))
    cpu = np.asarray(two_f(*jax.device_put((data, point), jax.devices("cpu")[0])))
    return {"cuda": differences(kernels, cpu), "xla": differences(library, cpu)}


def differences(values: np.ndarray, cpu: np.ndarray) -> dict[str, float]:
    """Of all bins; a bin that one of them lacks makes them NaN."""
    d = np.abs(values - cpu)
    fraction = d / cpu
    return {
        "bins": len(d),
        "relative_L2": float(np.linalg.norm(d) / np.linalg.norm(cpu)),
        "largest_difference": float(d.max()),
        "rms_difference": float(np.sqrt(np.mean(d**2))),
        "largest_fraction": float(fraction.max()),
        "largest_fraction_of_large": float(fraction[cpu > LARGE].max()),
        "rms_fraction": float(np.sqrt(np.mean(fraction**2))),
    }


if __name__ == "__main__":
    main()
