"""Measuring in a separate process on some cores: it reads a request from stdin and writes a measurement to stdout."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from jfstat.benchmarking.cores import MALLOC, pinned
from jfstat.benchmarking.measure import Measurement, Request, as_json, from_json, measure


def measure_on(cores: Sequence[int], request: Request) -> Measurement:
    """Measure in a new process on some cores of the CPU, or on any if none is named.

    Raises
    ------
    ValueError
        If the measurement fails, with its message.
    """
    with pinned(cores):
        done = subprocess.run(
            [sys.executable, "-m", "jfstat.benchmarking.worker"],
            input=json.dumps(as_json(request)),
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | MALLOC | {"JAX_PLATFORMS": "cpu"},
        )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"the process of row {request.setting.name} ended early"]
        raise ValueError(lines[-1])
    return Measurement.from_dict(json.loads(done.stdout))


def main() -> int:
    """Read, measure and write; returns 0, or 1 after an error, which is one line on stderr."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        measurement = measure(from_json(json.load(sys.stdin)))
    except Exception as error:
        if os.environ.get("JFSTAT_TRACEBACK"):
            raise
        plain = isinstance(error, (ValueError, OSError))
        message = str(error) if plain else f"{type(error).__name__}: {error}"
        print(" ".join(message.split()), file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(measurement)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
