"""Seconds of a sum over segments on a GPU, added in the way of Weave's CUDA code, for comparison with jfstat's.

    python examples/one_hertz_search.py --run --templates 2e6 --output search.json
    python examples/one_hertz_weave_cuda.py --beside search.json --output examples/one_hertz_weave_cuda.json

LALSuite's lalpulsar_Weave can add on a GPU (ComputeResults_CUDA.cu: XLALVectorsAddREAL4CUDA). PyPI's binaries are built
without it, so this program does the same work: for each template one kernel of blocks of 512 threads, in which a thread
adds the values of all segments at one frequency to a total in the device's memory, after which the host waits for the
device. What Weave does next on the host with each total, its mean, its list of candidates and its histograms, is left
out, and so are the lookups of the segments' templates; the segments' values and the lists of their addresses are in the
device's memory from the start. All of this is in Weave's favour. Kernels are launched from Python, which takes some
microseconds more than from C. Values are random, and each template takes one of 15 templates of each segment at random,
as the patch of one_hertz_search.py has. Needs cupy.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from one_hertz_search import write

import jfstat

SEGMENTS, EACH, BINS, THREADS = 26, 15, 1_728_000, 512
SHIFTS = 4096
"""Range of the shifts, in bins, with which templates read the values of segments."""
REPEATS = 5
SOURCE = r"""
extern "C" __global__ void add(float *total, const float **values, unsigned long n_segments, unsigned long n_bins) {
  const unsigned long bin = (unsigned long)blockIdx.x * blockDim.x + threadIdx.x;
  if (bin >= n_bins) return;
  total[bin] = values[0][bin];
  for (unsigned long i = 1; i < n_segments; ++i) total[bin] += values[i][bin];
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--templates", type=int, default=1000)
    parser.add_argument("--beside", type=Path, help="JSON file of a search just run, whose times are noted")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    import cupy  # type: ignore[import-not-found]

    xp: Any = cupy
    rng = np.random.default_rng(1)
    # chi-squared with four degrees of freedom, as 2F of noise
    values = -2 * xp.log(xp.random.random((SEGMENTS * EACH, BINS + SHIFTS), dtype=np.float32) + np.float32(1e-30))
    values += -2 * xp.log(xp.random.random(values.shape, dtype=np.float32) + np.float32(1e-30))
    rows = np.arange(SEGMENTS) * EACH + rng.integers(EACH, size=(arguments.templates, SEGMENTS))
    places = rows * values.shape[1] + rng.integers(SHIFTS, size=rows.shape)
    addresses = xp.asarray(values.data.ptr + 4 * places, dtype=np.uint64)
    totals, kernel = xp.empty(BINS, np.float32), xp.RawKernel(SOURCE, "add")
    blocks, sizes = (-(-BINS // THREADS),), (np.uint64(SEGMENTS), np.uint64(BINS))

    def all_templates() -> float:
        began = time.perf_counter()
        for own in addresses:
            kernel(blocks, (THREADS,), (totals, own, *sizes))
            xp.cuda.runtime.deviceSynchronize()
        return time.perf_counter() - began

    all_templates()
    expected = sum(values.reshape(-1)[place : place + BINS].astype(np.float64) for place in places[-1].tolist())
    assert float(xp.max(xp.abs(totals - expected) / expected)) < 1e-6
    seconds = [all_templates() for _ in range(REPEATS)]
    n_sums = arguments.templates * SEGMENTS * BINS
    result: dict[str, Any] = {
        "command": shlex.join(["python", "examples/one_hertz_weave_cuda.py", *sys.argv[1:]]),
        "jfstat": jfstat.__version__,
        "device": xp.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "segments": SEGMENTS,
        "frequencies": BINS,
        "templates": arguments.templates,
        "seconds": seconds,
        "seconds_a_sum": median(seconds) / n_sums,
    }
    if arguments.beside:
        search = json.loads(arguments.beside.read_text())
        own = {name: search["patch"][name] for name in ("device", "seconds", "n_twoF", "seconds_a_sum")}
        result["beside"] = {"command": search["command"], **own}
    write(result, arguments.output)


if __name__ == "__main__":
    main()
