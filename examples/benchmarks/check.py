"""Fail if jfstat has become slower beside LALSuite: `python examples/benchmarks/check.py times.json`.

Times on machines of a continuous integration differ from day to day; the ratio to LALSuite, which took turns with
jfstat on the same core, hardly does. It must be at least half of that in docs/benchmark_cpu.json.
"""

import json
import sys
from pathlib import Path

COMMITTED = Path(__file__).parents[2] / "docs" / "benchmark_cpu.json"
LEAST = 0.5


def ratios(path: Path) -> dict[str, float]:
    """LALSuite's time over jfstat's by the name of the setting."""
    return {row["setting"]["name"]: row["lal_over_jfstat"] for row in json.loads(path.read_text())["rows"]}


def slower(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """A sentence for each setting whose ratio has fallen below the least that is accepted."""
    return [
        f"{name}: LALSuite takes {now[name]:.1f} times as long as jfstat, {before[name]:.1f} when it was measured."
        for name in now.keys() & before.keys()
        if now[name] < LEAST * before[name]
    ]


if __name__ == "__main__":
    found = ratios(Path(sys.argv[1]))
    committed = ratios(COMMITTED)
    if not found.keys() & committed.keys():
        sys.exit(f"{sys.argv[1]} has none of {', '.join(committed)}: run beside_lalsuite.py --rows with one of them.")
    sys.exit("\n".join(slower(found, committed)) or None)
