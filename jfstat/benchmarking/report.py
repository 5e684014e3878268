"""Tables, a JSON file and a picture of measurements."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jfstat.atomic import replacing
from jfstat.benchmarking import published
from jfstat.benchmarking.measure import PASS_BYTES, Measurement
from jfstat.benchmarking.settings import Plain, Setting

VERSIONS = ("jax", "jaxlib", "numpy", "lalsuite")


@dataclass(frozen=True)
class Row:
    """A setting and its measurements: one on an accelerator; on a CPU one for each number of cores, fewest first."""

    setting: Setting
    runs: tuple[Measurement, ...]

    @property
    def lal_over_jfstat(self) -> float | None:
        """How many times as long LALSuite takes as jfstat, on one core or on the device."""
        first = self.runs[0]
        return None if first.lal_tau is None else first.lal_tau / first.tau


def main_table(rows: Sequence[Row]) -> str:
    """One line a row: what was computed, tau, and what else it takes."""
    with_lal = any(row.lal_over_jfstat for row in rows)
    more = [run.cores for run in rows[0].runs[1:]]
    heading = ["row", "T/d", "band/Hz", "f/Hz", "detectors", "n_fft", "batch", "tau/s", "compile/s", "memory/GB"]
    heading += ["LAL tau/s", "LAL/jfstat"] if with_lal else []
    for cores in more:
        heading += [f"tau({cores} cores)/s", f"{cores} cores/{rows[0].runs[0].cores}"]
    lines = [heading]
    for row in rows:
        setting, first = row.setting, row.runs[0]
        line = [
            setting.name,
            f"{setting.days:g}",
            f"{setting.bandwidth:g}",
            f"{setting.frequency:g}",
            ",".join(setting.detectors),
            str(first.n_fft),
            str(first.batch),
            f"{first.tau:.2e}",
            f"{first.compile_seconds:.1f}",
            f"{sum(first.memory.values()) / 1e9:.3g}" if first.memory else "-",
        ]
        if with_lal:
            ratio = row.lal_over_jfstat
            line += ["-", "-"] if ratio is None else [f"{first.lal_tau:.2e}", f"{ratio:.3g}"]
        for run in row.runs[1:]:
            line += [f"{run.tau:.2e}", f"{run.tau / first.tau:.2f}"]
        lines.append(line)
    return _aligned(lines, left=1)


def stage_table(rows: Sequence[Row]) -> str:
    """Stages of each row's first measurement: time, share of their sum, and passes over memory."""
    lines = [["row", "stage", "time/s", "tau/s", "share", "passes", "least passes"]]
    for row in rows:
        first = row.runs[0]
        total = sum(stage.tau for stage in first.stages)
        lines += [
            [
                row.setting.name,
                stage.name,
                f"{stage.seconds:.2e}",
                f"{stage.tau:.2e}",
                f"{stage.tau / total:.2f}",
                f"{stage.passes:.2f}",
                f"{stage.least_passes:.2f}",
            ]
            for stage in first.stages
        ]
        seconds, passes, least = (
            sum(getattr(stage, name) for stage in first.stages) for name in ("seconds", "passes", "least_passes")
        )
        whole = first.tau / total
        for name, part, floor in (("sum", 1.0, f"{least:.2f}"), ("whole", whole, "")):
            numbers = [f"{part * seconds:.2e}", f"{part * total:.2e}", f"{part:.2f}", f"{part * passes:.2f}", floor]
            lines.append([row.setting.name, name, *numbers])
    return _aligned(lines, left=2)


def _aligned(lines: Sequence[Sequence[str]], left: int) -> str:
    """Columns of equal width, the first `left` of them aligned to the left."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]

    def placed(k: int, cell: str) -> str:
        return cell.ljust(widths[k]) if k < left else cell.rjust(widths[k])

    return "\n".join("  ".join(placed(k, cell) for k, cell in enumerate(line)).rstrip() for line in lines)


def as_dict(rows: Sequence[Row], command: str) -> Plain:
    """All numbers, with what they mean and where they come from, for a JSON file."""
    from jfstat.version import __version__

    return {
        "what": "tau in s: time from prepared data to the largest 2F of each template, per frequency bin, template and "
        "detector; lal_tau: tauF_eff of lalpulsar_ComputeFstatBenchmark with ResampGeneric on one core, or tauF_core "
        "where the templates share their sky position; passes: time in units of what a complex64 read and write of "
        "each of the transforms' n_fft samples takes at copy_bandwidth; other times in s, memory in bytes",
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": {"cpu": _cpu_name(), "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {"jfstat": __version__, "python": platform.python_version()}
        | {name: found for name in VERSIONS if (found := _version(name))},
        "rows": [dataclasses.asdict(row) | {"lal_over_jfstat": row.lal_over_jfstat} for row in rows],
    }


def write_json(values: Plain, path: Path) -> None:
    """Write a JSON file, whole or not at all."""
    with replacing(path) as file:
        file.write((json.dumps(values, indent=1, allow_nan=False) + "\n").encode())


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Draw tau over the data's length and bandwidth, with LALSuite's and the memory's bound, and write the picture.

    Where LALSuite was not run beside jfstat, as on GPUs, its times are those of `published`.
    """
    from matplotlib.figure import Figure

    from jfstat.plots import plot_timing

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels: Any = figure.subplots(1, 2, sharey=True)
    for ax, name, axis in zip(panels, ("days", "bandwidth"), ("length of the data (d)", "bandwidth (Hz)"), strict=True):
        series = longest_series(rows, name)
        setting = series[0].setting
        plot_timing(
            ax,
            [getattr(row.setting, name) for row in series],
            [row.runs[0].tau for row in series],
            [row.runs[0].lal_tau for row in series],
            xlabel=axis,
            label=f"jfstat, {device_name(series[0].runs[0])}",
            others=None if any(row.lal_over_jfstat for row in rows) else published.times(setting, name),
            bound=[memory_bound(row) for row in series],
        )
        fixed = f"{setting.bandwidth:g} Hz" if name == "days" else f"{setting.days:g} d"
        ax.set_title(f"{fixed}, {setting.frequency:g} Hz, {', '.join(setting.detectors)}", fontsize="medium")
    panels[1].get_legend().remove()  # the first panel's serves both
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=130)
    return path


def memory_bound(row: Row) -> float:
    """The least tau that the device's memory allows the first measurement's stages, s."""
    first = row.runs[0]
    seconds = sum(stage.least_passes for stage in first.stages) * PASS_BYTES * first.n_fft / first.copy_bandwidth
    return seconds / (first.n_frequencies * len(row.setting.detectors))


def longest_series(rows: Sequence[Row], name: str) -> list[Row]:
    """The largest set of rows whose settings differ in one field only, in rising order of it."""

    def others(row: Row) -> Setting:
        return dataclasses.replace(row.setting, name="", **{name: 1.0})

    most, _ = Counter(map(others, rows)).most_common(1)[0]
    series = {getattr(row.setting, name): row for row in rows if others(row) == most}
    return [series[x] for x in sorted(series)]


def device_name(run: Measurement) -> str:
    """The device of a measurement: a GPU, or some cores of a processor."""
    if run.platform != "cpu":
        return run.device
    cores = "" if run.cores is None else f", {run.cores} core" + ("s" if run.cores > 1 else "")
    return f"{_cpu_name()}{cores}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    """The processor's model, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
