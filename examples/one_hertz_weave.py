"""What lalpulsar_Weave takes on one core for the set-up of one_hertz_search.py, by its own times of a small sky box.

    python examples/one_hertz_weave.py --output examples/one_hertz_weave.json

26 segments of 10 d of H1 and L1 with O2's duty factors, Gaussian noise, 171 Hz and ``--width`` more, the same range of
f1dot and mismatches, a box about the middle of the same disc. Weave times the parts of its search itself
(``--time-search``); from these follow the seconds that it would take for the sums and values of the disc that
``one_hertz_search.py`` has searched on a GPU, whose files are read. A box as large as the disc would take Weave hours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from astropy.io import fits  # noqa: E402
from omega_centauri import timestamps  # noqa: E402
from one_hertz_search import DAY, FMIN, SQRT_SX, START  # noqa: E402
from segments_against_weave import Setup, weave_commands  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

MARGIN = 1.1
"""Hz of SFTs on either side of the band."""
FILES = {1.0: "one_hertz_search.json", 0.25: "one_hertz_search_narrow.json"}
"""Of the searches on a GPU, by width of the band in Hz."""
TIMES = {
    "s_coherent_value": "COH COH2F_PCOH",
    "s_sum": "SEMISEG SUM2F_PSEMI_PSEGM1",
    "s_mean": "SEMI MEAN2F_PSEMI",
    "s_output": "OUTPUT_PSEMI_PTOPL",
}
"""Weave's names of its times: of a coherent value of both detectors, of a template and frequency with each segment but
the first, and, once for each template and frequency, of the mean and of the list of candidates."""


def weave(folder: Path, settings: dict[str, Any], width: float, centre: list[float], side: float) -> dict[str, Any]:
    """Costs of a search of a box, `side` rad wide."""
    days = settings["segments"] * settings["days"]
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        timestamps=timestamps(days),
        fmin=FMIN - MARGIN,
        fmax=FMIN + width + MARGIN,
        sqrt_sx=SQRT_SX,
        seed=3,
    )
    jfstat.write_sfts(sfts, folder)
    (alpha, delta), half = centre, 0.5 * side
    across = half / float(np.cos(delta))
    setup = Setup(
        n_segments=settings["segments"],
        days=settings["days"],
        fmin=FMIN,
        width=width,
        alpha=(alpha - across, alpha + across),
        delta=(delta - half, delta + half),
        f1dot=tuple(settings["f1dot"]),
        mismatch=settings["mismatch"],
        coherent_mismatch=settings["coherent_mismatch"],
        h0=0.0,
    )
    reftime = int(START + days * DAY / 2)
    floors = SQRT_SX["H1"], SQRT_SX["L1"]
    first, run = weave_commands(setup, folder, reftime, floors, "--time-search", "--Fstat-run-med-window=50")
    subprocess.run(first, check=True, capture_output=True)
    began = time.perf_counter()
    subprocess.run(run, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    seconds = time.perf_counter() - began
    with fits.open(folder / "weave.fits") as file:
        header: Any = file[0].header  # type: ignore[attr-defined]
        return {
            "box_rad": side,
            "whole_program_s": seconds,
            "coherent_values": int(header["NCOHRES"]),
            "means": int(header["NSEMITPL"]),
            "lalpulsar": header["LALPULSAR VERSION"],
            "costs": {name: float(header[f"TAU {own}"]) for name, own in TIMES.items()},
        }


def compared(searched: dict[str, Any], n_segments: int, costs: dict[str, float]) -> dict[str, Any]:
    """Seconds of Weave for as many values and sums as a search on a GPU took, beside it."""
    means = searched["n_twoF"]
    seconds = costs["s_coherent_value"] * searched["n_coherent"] + means * (
        costs["s_sum"] * (n_segments - 1) + costs["s_mean"] + costs["s_output"]
    )
    own = searched["seconds"]
    return {
        "weave_s": seconds,
        "device": searched["device"],
        "jfstat_s": own["search again, programs compiled"],
        "ratio": seconds / own["search again, programs compiled"],
        "ratio_with_compilation": seconds / own["search"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=float, action="append", choices=FILES, help="Hz; both by default")
    parser.add_argument("--side", type=float, default=3e-4, help="of the box, rad")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    rows = {}
    for width in arguments.width or FILES:
        searched = json.loads((Path(__file__).parent / FILES[width]).read_text())
        settings, patch = searched["settings"], searched["patch"]
        with tempfile.TemporaryDirectory() as folder:
            own = weave(Path(folder), settings, width, patch["centre_rad"], arguments.side)
        rows[f"{width:g} Hz"] = own | {"disc": compared(patch, settings["segments"], own["costs"])}
        print(f"{width:g} Hz:", json.dumps(rows[f"{width:g} Hz"], indent=1), flush=True)
    if arguments.output:
        command = " ".join(["one_hertz_weave.py", *sys.argv[1:]])
        written_to(arguments.output, (json.dumps({"command": command, "rows": rows}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
