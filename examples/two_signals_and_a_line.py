"""Search the whole sky for two signals beside a loud line in one detector: what clusters and cuts leave of the table.

`python examples/two_signals_and_a_line.py [output.json]` takes about six minutes on two cores. Three days of H1 and L1
at 100 Hz in simulated noise; the line is a constant sinusoid in L1, added to its SFTs.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import jax
import numpy as np

import jfstat
from jfstat.candidates.clusters import clustered
from jfstat.metrics.phasemetric import flat_metric

jax.config.update("jax_enable_x64", True)

START, DAYS, SQRT_SX, LINE = 1_167_458_304, 3, 4e-24, 100.05
SIGNALS = [
    (jfstat.Doppler(1.1, 0.35, [100.031, -3e-10], START), jfstat.Amplitude(3.2e-25, 0.3, 0.2, 1.0)),
    (jfstat.Doppler(4.0, -0.6, [100.062, -1e-10], START), jfstat.Amplitude(1.9e-25, -0.7, 0.5, 2.0)),
]


def simulated(line: float) -> jfstat.FstatData:
    """The data, with a line of so many times the noise in a bin of each of L1's SFTs."""
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, DAYS * 86400, fmin=99.4, fmax=100.7, sqrt_sx=SQRT_SX, signals=SIGNALS, seed=3
    )
    samples = sfts["L1"].data.copy()
    samples[:, round(LINE * sfts.tsft) - sfts.first_bin] += line * SQRT_SX * np.sqrt(sfts.tsft / 2)
    l1 = jfstat.sfts.SFTSeries("L1", sfts["L1"].gps, sfts["L1"].gps_ns, samples)
    return jfstat.prepare(
        jfstat.SFTs((sfts["H1"], l1), sfts.tsft, sfts.first_bin), 100.0, 100.1, sqrt_sx=SQRT_SX, guard=0.4
    )


def neighbourhoods(data: jfstat.FstatData, found) -> int:
    """Number of clusters by the metric's radius alone."""
    columns = {name: np.asarray(getattr(found[name], "value", found[name])) for name in found.colnames}
    return len(np.unique(clustered(columns, flat_metric(data.observation, 1, data.observation.reftime, 100.1), 1.0)))


def rows(found, n: int = 4) -> list[dict[str, float]]:
    """The first rows of a table."""
    names = ("freq", "alpha", "delta", "f1dot", "twoF", "twoF_H1", "twoF_L1", "log10BSGL", "n_members")
    return [{name: float(getattr(found[name][i], "value", found[name][i])) for name in names} for i in range(n)]


def main() -> None:
    results = {}
    for line in (0.0, 4.0):
        data = simulated(line)
        bank = jfstat.template_bank(data=data, region="all", mismatch=0.3, f1dot=(-4e-10, 0.0))
        plain = jfstat.search(data, bank, top=1000)
        own = {
            "twoF_at_the_signals": [float(jfstat.twoF(data, signal)) for signal, _ in SIGNALS],
            "n_templates": len(bank.alpha),
            "neighbourhoods": neighbourhoods(data, plain),
            "loudest": float(plain["twoF"][0]),
            "least_log10BSGL": float(np.min(plain["log10BSGL"])),
        }
        for name, keep in (
            ("clustered", jfstat.Keep(cluster=1.0)),
            ("cut", jfstat.Keep(cluster=1.0, bsgl_threshold=2.0, ranking="BSGL")),
        ):
            began = time.perf_counter()
            found = jfstat.search(data, bank, top=1000, keep=keep)
            own[name] = {
                "rows": len(found),
                "seconds": time.perf_counter() - began,
                "first": rows(found, min(4, len(found))),
            }
        results[f"line of {line:g} times the noise"] = own
    results["command"] = shlex.join(["python", *sys.argv])
    text = json.dumps(results, indent=1)
    print(text)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
