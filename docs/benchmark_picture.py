"""Draw docs/benchmark.png from the committed measurements: `python docs/benchmark_picture.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jfstat.benchmarking.measure import Measurement, StageTime
from jfstat.benchmarking.report import Row, draw
from jfstat.benchmarking.settings import Setting

DOCS = Path(__file__).parent


def read_row(values: dict[str, Any]) -> Row:
    """A row of a benchmark's JSON file."""
    setting = values["setting"] | {"detectors": tuple(values["setting"]["detectors"])}
    runs = [run | {"stages": [StageTime(**stage) for stage in run["stages"]]} for run in values["runs"]]
    return Row(Setting(**setting), tuple(Measurement(**run) for run in runs))


if __name__ == "__main__":
    rows = json.loads((DOCS / "benchmark_h200.json").read_text())["rows"]
    print(draw([read_row(row) for row in rows], DOCS / "benchmark.png"))
