"""Time ``jax.vmap(jfstat.twoF_band)`` per bin, template and detector, beside the same by XLA.

    python examples/benchmarks/vmapped_band.py --output examples/benchmarks/vmapped_band_h100.json

On random noise: 10 d of H1 and L1, 0.06 Hz, templates of different sources, and of one source. Compiled before; each
call is waited for, or, in a row, the last alone: few templates take less time on a GPU than the call of any program.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import jfstat
from jfstat.statistic.fstat import compiled_band

START = 1_167_458_304


class Times(NamedTuple):
    """Time of the first call, median of further calls, each waited for, and mean of calls that are not, s."""

    first: float
    call: float
    in_a_row: float


def timed(function, *given, calls: int) -> Times:
    times = []
    for _ in range(calls + 1):
        begun = time.perf_counter()
        jax.block_until_ready(function(*given))
        times.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    jax.block_until_ready([function(*given) for _ in range(calls)][-1])
    return Times(times[0], float(np.median(times[1:])), (time.perf_counter() - begun) / calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=10.0, help="length of the data, d")
    parser.add_argument("--templates", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--calls", type=int, default=30, help="number of timed calls of each function")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    detectors = ["H1", "L1"]
    sfts = jfstat.simulate_sfts(detectors, START, arguments.days * 86400, 98.8, 101.3, sqrt_sx=4e-24, seed=1)
    data = jfstat.prepare(sfts, 100.0, 100.06, sqrt_sx=4e-24)

    def of_one_source(data, fkdot):
        return jax.vmap(lambda x: jfstat.twoF_band(data, jfstat.Doppler(1.0, 0.3, x, START)))(fkdot)

    rows = []
    for n in arguments.templates:
        rng = np.random.default_rng(1)
        fkdot = np.stack([np.full(n, 100.0), rng.uniform(-1e-9, 0, n)], axis=-1)
        points = jfstat.Doppler(rng.uniform(0, 2 * np.pi, n), np.arcsin(rng.uniform(-1, 1, n)), fkdot, START)
        one = jfstat.Doppler(1.0, 0.3, fkdot, START)
        by_xla = jax.jit(jax.vmap(compiled_band, (None, 0)))
        functions = {
            "vmap(twoF_band)": (jax.jit(jax.vmap(jfstat.twoF_band, (None, 0))), points),
            "the same by XLA": (by_xla, points),
            "vmap(twoF_band), spin-downs of one source": (jax.jit(of_one_source), fkdot),
            "the same by XLA, of one source": (by_xla, one),
        }
        own, other = (np.asarray(function(data, x)) for function, x in list(functions.values())[:2])
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-3)
        for name, (function, given) in functions.items():
            times = timed(function, data, given, calls=arguments.calls)
            units = len(data.frequencies) * n * len(detectors)
            each = {"call": times.call / units, "in_a_row": times.in_a_row / units}
            rows.append({"function": name, "templates": n, "s": times._asdict(), "s_per_bin_template_detector": each})
            print(
                f"{n:4d} {name:44s} {times.call * 1e3:8.3f} ms, {each['call']:.2e} s each; "
                f"in a row {times.in_a_row * 1e3:8.3f} ms, {each['in_a_row']:.2e} s each"
            )
    device = jax.devices()[0]
    found = {
        "command": "python examples/benchmarks/vmapped_band.py",
        "device": device.device_kind,
        "jax": jax.__version__,
        "days": arguments.days,
        "detectors": detectors,
        "frequencies": len(data.frequencies),
        "n_fft": data.layout.n_fft,
        "rows": rows,
    }
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
