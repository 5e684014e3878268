"""How long preparing takes where the transforms of long series are on the device, and where they are on the host.

    python examples/prepare_speed.py --rounds 1 --output examples/prepare_speed_h200.json

Random SFTs of two detectors are prepared in both ways, and then a part of the band, as `search` cuts a wide one, a
sixth of it each time. On the host are the transforms to the band's bins; all else is as always. Medians, after one run
of each for compilation.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.data.subband import subband  # noqa: E402

START, TSFT, SQRT_SX, FREQUENCY = 1167458304, 1800, 8e-24, 100.0
PARTS = 6


def measured(sfts: Any, bandwidth: float, rounds: int) -> dict[str, Any]:
    """Seconds of preparing a band, and of each of its parts."""
    whole: list[float] = []
    parts: list[float] = []
    for _ in range(1 + rounds):
        began = time.perf_counter()
        data = jfstat.prepare(sfts, FREQUENCY, FREQUENCY + bandwidth, START, SQRT_SX)
        jax.block_until_ready(data)
        whole.append(time.perf_counter() - began)
    n = len(data.frequencies) // PARTS
    for number in range(1 + rounds):
        began = time.perf_counter()
        jax.block_until_ready(subband(data, (number % PARTS) * n, n, 0.0))
        parts.append(time.perf_counter() - began)
    return {
        "band_samples": data.layout.n_band,
        "prepare": float(np.median(whole[1:])),
        "part": float(np.median(parts[1:])),
        "first_prepare": whole[0],
        "first_part": parts[0],
    }


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=float, default=100.0)
    parser.add_argument("--bandwidth", type=float, default=6.0, help="of the band, Hz")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    margin, days, bandwidth = 1.0, arguments.days, arguments.bandwidth
    low, high = FREQUENCY - margin, FREQUENCY + bandwidth + margin
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, int(days * 86400), low, high, TSFT, SQRT_SX, seed=1)
    options = f"--days {days:g} --bandwidth {bandwidth:g} --rounds {arguments.rounds}"
    result: dict[str, Any] = {
        "command": f"python examples/prepare_speed.py {options}",
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "detectors": 2,
        "days": days,
        "bandwidth": bandwidth,
    }
    result["transforms on the device"] = measured(sfts, bandwidth, arguments.rounds)
    with patch("jfstat.data.band._fits", return_value=False):  # as if the device had too little memory
        result["transforms on the host"] = measured(sfts, bandwidth, arguments.rounds)
    result["parts"] = PARTS
    print(json.dumps(result, indent=1))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
