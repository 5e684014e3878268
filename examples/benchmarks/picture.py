"""Draw measured times over the data's length and bandwidth.

    python examples/benchmarks/picture.py [times.json times.png]

Without arguments it draws docs/benchmark.png from the committed docs/benchmark_h200.json. Where LALSuite was not run
beside jfstat, as on GPUs, its times are those of `TAU`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jfstat.benchmarking.measure import PASS_BYTES
from jfstat.benchmarking.report import Row, device_name
from jfstat.plots import BLUE, GREY, ORANGE

DOCS = Path(__file__).parents[2] / "docs"
AXES = {"days": "length of the data (d)", "bandwidth": "bandwidth (Hz)"}
GENERIC = "LALSuite ResampGeneric, one CPU core"
TAU: dict[str, dict[tuple[float, float], float]] = {
    "LALSuite's CUDA code, H200": {
        (1, 0.606): 6.6e-9, (10, 0.606): 2.7e-9, (100, 0.606): 2.6e-9, (10, 0.1): 1.3e-8, (10, 5.0): 7.9e-10
    },
    GENERIC: {(1, 0.606): 1.24e-7, (5, 0.606): 1.145e-7, (10, 0.606): 1.125e-7},
}  # fmt: skip
"""Seconds per frequency bin, template and detector by length in d and bandwidth in Hz, at 100 Hz with H1.

The CUDA code (Dunn et al. 2022, with 2F copied to the host) on an NVIDIA H200, timed once; ResampGeneric on one core of
an AMD EPYC, from docs/benchmark_cpu.json."""


def longest_series(rows: Sequence[Row], name: str) -> list[Row]:
    """The largest set of rows whose settings differ in one field only, in rising order of it."""

    def others(row: Row) -> str:
        return json.dumps({key: x for key, x in row["setting"].items() if key not in ("name", name)}, sort_keys=True)

    most, _ = Counter(map(others, rows)).most_common(1)[0]
    series = {row["setting"][name]: row for row in rows if others(row) == most}
    return [series[x] for x in sorted(series)]


def memory_bound(row: Row) -> float:
    """The least tau that the device's memory allows the first measurement's stages, s."""
    first = row["runs"][0]
    passes = sum(stage["least_passes"] for stage in first["stages"])
    seconds = passes * PASS_BYTES * first["n_fft"] / first["copy_bandwidth"]
    return seconds / (first["n_frequencies"] * len(row["setting"]["detectors"]))


def published(setting: Mapping[str, Any], name: str) -> dict[str, tuple[list[float], list[float]]]:
    """Lengths ("days") or bandwidths ("bandwidth"), as `name` says, and taus of LALSuite's programs by their labels."""
    if setting["frequency"] != 100.0 or list(setting["detectors"]) != ["H1"] or setting["one_position"]:
        return {}
    here, fixed = (0, 1) if name == "days" else (1, 0)
    other = (setting["days"], setting["bandwidth"])[fixed]
    found = {}
    for program, taus in TAU.items():
        pairs = sorted((key[here], tau) for key, tau in taus.items() if key[fixed] == other)
        if pairs:
            found[program] = ([x for x, _ in pairs], [tau for _, tau in pairs])
    return found


def plot_timing(ax: Axes, series: Sequence[Row], name: str, beside: bool) -> None:
    """Draw tau over a property of the data, with LALSuite's and the memory's bound.

    Parameters
    ----------
    ax : Axes
    series : sequence of rows
        From `longest_series`.
    name : str
        The property, of `AXES`.
    beside : bool
        Whether LALSuite was run beside jfstat; otherwise its times are those of `TAU`.
    """
    setting, x = series[0]["setting"], [row["setting"][name] for row in series]
    tau = [row["runs"][0]["tau"] for row in series]
    ax.loglog(x, tau, "o-", color=BLUE, ms=5, lw=1.0, label=f"jfstat, {device_name(series[0]['runs'][0])}")
    pairs = [(a, b) for a, row in zip(x, series, strict=True) if (b := row["runs"][0].get("lal_tau")) is not None]
    if pairs:
        ax.loglog(*zip(*pairs, strict=True), "s--", color=ORANGE, ms=5, lw=1.0, label=GENERIC)
    others = {} if beside else published(setting, name)
    for (label, (where, times)), marker in zip(others.items(), "^vD<>", strict=False):
        ax.loglog(where, times, marker + "--", ms=5, lw=1.0, label=label)
    ax.loglog(x, [memory_bound(row) for row in series], color=GREY, ls=":", lw=1.4, label="bound: memory traffic")
    ax.set_xlabel(AXES[name])
    ax.set_ylabel("time per bin, template and detector (s)")
    ax.grid(alpha=0.3)
    ax.legend(loc="best", frameon=False, fontsize="small")
    fixed = f"{setting['bandwidth']:g} Hz" if name == "days" else f"{setting['days']:g} d"
    ax.set_title(f"{fixed}, {setting['frequency']:g} Hz, {', '.join(setting['detectors'])}", fontsize="medium")


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Draw tau over the data's length and bandwidth, and write the picture."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels: Any = figure.subplots(1, 2, sharey=True)
    for ax, name in zip(panels, AXES, strict=True):
        plot_timing(ax, longest_series(rows, name), name, any(row.get("lal_over_jfstat") for row in rows))
    panels[1].get_legend().remove()  # the first panel's serves both
    figure.savefig(path, dpi=130)
    return path


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:] or (DOCS / "benchmark_h200.json", DOCS / "benchmark.png"))
    print(draw(json.loads(source.read_text())["rows"], target))
