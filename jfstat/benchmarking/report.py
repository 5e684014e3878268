"""Format measurements as tables and a JSON file, from the plain values that the file holds."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jfstat.processor import processor_kind
from jfstat.version import __version__

VERSIONS = ("jax", "jaxlib", "numpy", "lalsuite")
Row = Mapping[str, Any]
"""``setting`` and ``runs``: a `Setting` and its `Measurement` objects, the first of which the tables show."""


def main_table(rows: Sequence[Row], columns: Mapping[str, Sequence[str]] | None = None) -> str:
    """Format one line a row: what was computed, tau, what else it takes, and further columns by their headings."""
    columns = columns or {}
    heading = ["row", "T/d", "band/Hz", "f/Hz", "detectors", "n_fft", "batch", "tau/s", "compile/s", "memory/GB"]
    lines = [[*heading, *columns]]
    for row, more in zip(rows, zip(*columns.values(), strict=True) if columns else [()] * len(rows), strict=True):
        setting, first = row["setting"], row["runs"][0]
        lines.append(
            [
                setting["name"],
                *(f"{setting[name]:g}" for name in ("days", "bandwidth", "frequency")),
                ",".join(setting["detectors"]),
                str(first["n_fft"]),
                str(first["batch"]),
                f"{first['tau']:.2e}",
                f"{first['compile_seconds']:.1f}",
                f"{sum(first['memory'].values()) / 1e9:.3g}" if first["memory"] else "-",
                *more,
            ]
        )
    return _aligned(lines, left=1)


def stage_table(rows: Sequence[Row]) -> str:
    """Format the stages of each row's first measurement: time, share of their sum, and passes over memory."""
    lines = [["row", "stage", "time/s", "tau/s", "share", "passes", "least passes"]]
    for row in rows:
        name, first = row["setting"]["name"], row["runs"][0]
        seconds, tau, passes, least = (
            sum(stage[field] for stage in first["stages"]) for field in ("seconds", "tau", "passes", "least_passes")
        )
        shares = [(s["name"], s["tau"] / tau, s["passes"], s["least_passes"], s["seconds"]) for s in first["stages"]]
        whole = first["tau"] / tau
        shares += [("sum", 1.0, passes, least, seconds), ("whole", whole, whole * passes, None, whole * seconds)]
        lines += [
            [name, stage, f"{time:.2e}", f"{share * tau:.2e}", f"{share:.2f}", f"{own:.2f}", _number(floor)]
            for stage, share, own, floor, time in shares
        ]
    return _aligned(lines, left=2)


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


def _aligned(lines: Sequence[Sequence[str]], left: int) -> str:
    """Return columns of equal width, the first `left` of them aligned to the left."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]

    def placed(k: int, cell: str) -> str:
        return cell.ljust(widths[k]) if k < left else cell.rjust(widths[k])

    return "\n".join("  ".join(placed(k, cell) for k, cell in enumerate(line)).rstrip() for line in lines)


def as_dict(rows: Sequence[Row], command: str) -> dict[str, Any]:
    """Collect all numbers, with their meaning and origin, for a JSON file."""
    return {
        "what": "tau in s: time from prepared data to the largest 2F of each template, per frequency bin, template and "
        "detector; passes: time in units of what a complex64 read and write of each of the transforms' n_fft samples "
        "takes at copy_bandwidth; other times in s, memory in bytes",
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": {"cpu": processor_kind()[0], "cores": os.cpu_count(), "system": platform.platform()},
        "versions": {"jfstat": __version__, "python": platform.python_version()}
        | {name: found for name in VERSIONS if (found := _version(name))},
        "rows": list(rows),
    }


def device_name(run: Mapping[str, Any]) -> str:
    """Name the device of a measurement: a GPU, or some cores of a processor."""
    if run["platform"] != "cpu":
        return run["device"]
    cores = "" if run["cores"] is None else f", {run['cores']} core" + ("s" if run["cores"] > 1 else "")
    return f"{processor_kind()[0]}{cores}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
