"""The paper's figure of the fractional difference between two codes: here `twoF_band` and a direct float64 sum.

    python examples/paper/fractional_difference.py --plot docs/fractional_difference.png \
        --output examples/paper/fractional_difference.json

The paper's settings: 10 d of one detector, noise of 4e-24 /sqrt(Hz), a signal of h0 = 6e-26 at 50.1 Hz at the position
of Scorpius X-1. `twoF_band` resamples and transforms in float32, on a CPU or a GPU; `twoF` sums over the same series in
float64. A minute on two cores.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, DAYS = 1167458304, 10
ALPHA, DELTA = "16h19m55.09s", "-14d21m35.1s"
BINS = 10000
"""Bins whose difference is computed: those around the signal, and others at random."""


def main() -> None:
    """Compute, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()

    from astropy.coordinates import SkyCoord

    point = jfstat.Doppler(sky=SkyCoord(ALPHA, DELTA), fkdot=[50.1], reftime=START)
    sfts = jfstat.simulate_sfts(
        "H1", START, DAYS * 86400, 48.9, 51.8, sqrt_sx=4e-24, signals=[(point, jfstat.Amplitude(6e-26, 1.0))]
    )
    data = jfstat.prepare(sfts, 50.0, 50.606)
    fast = np.asarray(jfstat.twoF_band(data, point), float)
    peak = int(np.argmin(np.abs(data.frequencies - 50.1)))
    rng = np.random.default_rng(0)
    bins = np.unique(np.r_[peak - 20 : peak + 21, rng.choice(len(fast), BINS)])

    @jax.jit
    def direct(frequencies):
        def one(f):
            return jfstat.twoF(data, jfstat.Doppler(point.alpha, point.delta, f[None], point.reftime))

        return jax.lax.map(one, frequencies)

    exact = np.asarray(direct(data.frequencies[bins]))
    own = fast[bins]
    fraction = np.abs(own - exact) / exact
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "device": jax.devices()[0].device_kind,
        "bins": len(bins),
        "relative_L2": float(2 * np.linalg.norm(own - exact) / (np.linalg.norm(own) + np.linalg.norm(exact))),
        "rms_fraction": float(np.sqrt(np.mean(fraction**2))),
        "median_fraction": float(np.median(fraction)),
        "largest_fraction": float(fraction.max()),
        "largest_fraction_where_twoF_exceeds_1": float(fraction[exact > 1].max()),
        "fraction_at_signal": float(abs(fast[peak] / exact[np.searchsorted(bins, peak)] - 1)),
        "twoF_at_signal": float(fast[peak]),
    }
    print(json.dumps(result, indent=1))
    if arguments.output:
        written_to(arguments.output, (json.dumps(result, indent=1) + "\n").encode())
    if arguments.plot:
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        ax = figure.subplots()
        ax.semilogy(data.frequencies[bins], np.maximum(fraction, 1e-10), ".", ms=3, color="#1f4e79")
        ax.axvline(50.1, color="#d95f02", lw=1, ls="--", label="signal")
        ax.set_xlabel("frequency (Hz)")
        ax.set_ylabel("fractional difference of $2\\mathcal{F}$")
        ax.legend(frameon=False)
        figure.savefig(arguments.plot, dpi=130)


if __name__ == "__main__":
    main()
