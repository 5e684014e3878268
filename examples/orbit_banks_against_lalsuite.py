"""Sizes of banks of orbits over segments beside those that LALSuite's lattice tiling lays by LALSuite's own metric.

    python examples/orbit_banks_against_lalsuite.py --output examples/orbit_banks_against_lalsuite.json

BinaryWeave (Mukherjee, Prix & Wette 2023, Phys. Rev. D 107, 062005) is not in LALSuite, but what its banks are made of
is: the phase metric averaged over segments (XLALComputeDopplerPhaseMetric with a list of segments) in frequency, asini,
time of the ascending node and period, and A_n* lattices in a box (XLALSetTilingLatticeAndMetric). Both are called here
at equal set-ups: circular orbits, the same segments, detectors, ranges and mismatches. The metric of LALSuite's lattice
is that of the middle of the ranges, which are narrow for this reason; jfstat's bank follows the metric.

- ``templates`` and ``tiling``: points without the frequency, whose metric LALSuite's is projected along it: each signal
  is within the mismatch of a template at its best frequency. LALSuite's lattice reaches further beyond the ranges.
- ``values``, in a band of ``WIDTH``: jfstat's templates at frequencies 1/(2T) apart, T the length of a segment; and
  ``tiling_values``, LALSuite's lattice in all four parameters. Its mismatch includes the frequency, while jfstat's
  frequencies lose `BINS` in the mean (up to 0.2) beside the mismatch. So LALSuite's mismatch is larger here, by as much
  as makes its mean loss about as large: that of a lattice A_n* is `MEAN` of the mismatch.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import lal  # noqa: E402
import lalpulsar  # noqa: E402
import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, DAY = 1167458304, 86400
ALPHA, DELTA, PERIOD = 4.2756992, -0.2729776, 68023.7
WIDTH = 0.005
BINS, MEAN = 0.065, 0.55
EPHEMERIDES = "earth00-40-DE405.dat.gz", "sun00-40-DE405.dat.gz"


class Setup(NamedTuple):
    """Segments of so many days, one every so many; ranges in s: asini, tp less the start, period less 68023.7."""

    name: str
    segments: int
    days: float
    every: float
    f: float
    asini: tuple[float, float]
    tp: tuple[float, float]
    period: tuple[float, float]

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Starts and ends of the segments, GPS s."""
        starts = [START + round(i * self.every * DAY) for i in range(self.segments)]
        return [(start, start + round(self.days * DAY)) for start in starts]

    @property
    def box(self) -> list[tuple[float, float]]:
        """Ranges of asini, time of the ascending node and period."""
        return [
            self.asini,
            (START + self.tp[0], START + self.tp[1]),
            (PERIOD + self.period[0], PERIOD + self.period[1]),
        ]


SETUPS = (
    Setup("12 x 1 d in 56 d, 100 Hz", 12, 1.0, 5.0, 100.0, (1.4, 1.6), (-60, 60), (-0.5, 0.5)),
    Setup("8 x 0.5 d, 50 Hz", 8, 0.5, 0.5, 50.0, (1.0, 1.4), (-300, 300), (-20, 20)),
    Setup("40 x 1 d, 300 Hz", 40, 1.0, 1.0, 300.0, (1.44, 1.46), (-30, 30), (-0.3, 0.3)),
    Setup("60 x 3 d, 100 Hz", 60, 3.0, 3.0, 100.0, (1.45, 1.5), (-40, 40), (-0.06, 0.06)),
    Setup("120 x 1 d, 500 Hz, a wide orbit", 120, 1.0, 1.0, 500.0, (3.2, 3.205), (-10, 10), (-0.06, 0.06)),
)


def metric(setup: Setup) -> np.ndarray:
    """LALSuite's phase metric in frequency, asini, tp and period, averaged over segments, (4, 4)."""
    given = lalpulsar.DopplerMetricParams()
    coordinates = given.coordSys
    names = "FREQ", "ASINI", "TASC", "PORB"
    coordinates.dim = len(names)
    for i, name in enumerate(names):
        coordinates.coordIDs[i] = getattr(lalpulsar, f"DOPPLERCOORD_{name}")
    given.coordSys = coordinates
    given.detMotionType = lalpulsar.DETMOTION_SPIN | lalpulsar.DETMOTION_ORBIT
    segments = lal.SegList()
    lal.SegListInit(segments)
    for i, (start, end) in enumerate(setup.edges):
        segment = lal.Seg()
        lal.SegSet(segment, lal.LIGOTimeGPS(start), lal.LIGOTimeGPS(end), i)
        lal.SegListAppend(segments, segment)
    given.segmentList = segments
    lalpulsar.ParseMultiLALDetector(given.multiIFO, lal.CreateStringVector("H1", "L1"))
    given.projectCoord, given.approxPhase = -1, False
    signal = given.signalParams.Doppler
    spins = np.zeros(lalpulsar.PULSAR_MAX_SPINS)
    spins[0] = setup.f
    signal.refTime, signal.Alpha, signal.Delta, signal.fkdot = lal.LIGOTimeGPS(START), ALPHA, DELTA, spins
    middle = [0.5 * sum(pair) for pair in setup.box]
    signal.asini, signal.tp, signal.period = middle[0], lal.LIGOTimeGPS(middle[1]), middle[2]
    signal.ecc = signal.argp = 0.0
    tables = lalpulsar.InitBarycenter(*EPHEMERIDES)
    return np.array(lalpulsar.ComputeDopplerPhaseMetric(given, tables).g_ij.data)


def tiling(g: np.ndarray, box: list[tuple[float, float]], mismatch: float) -> int:
    """Number of points of LALSuite's A_n* lattice over a box."""
    n = len(box)
    made, matrix = lalpulsar.CreateLatticeTiling(n), lal.gsl_matrix(n, n)
    for i, (low, high) in enumerate(box):
        lalpulsar.SetLatticeTilingConstantBound(made, i, float(low), float(high))
    matrix.data = g
    lalpulsar.SetTilingLatticeAndMetric(made, lalpulsar.TILING_LATTICE_ANSTAR, matrix, mismatch)
    return int(lalpulsar.TotalLatticeTilingPoints(lalpulsar.CreateLatticeTilingIterator(made, n)))


def row(setup: Setup, mismatch: float) -> dict[str, Any]:
    """Sizes of both banks."""
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"],
        START,
        setup.edges[-1][1] - START,
        tsft=1800,
        fmin=setup.f,
        fmax=setup.f + 0.01,
        sqrt_sx=None,
    )
    seen = jfstat.segment_observations(sfts, setup.edges, sqrt_sx=1e-23, reftime=START)
    asini, node, period = setup.box
    orbit: Any = dict(asini=asini, tp=node, period=period)
    began = time.perf_counter()
    bank = jfstat.template_bank(
        ALPHA, DELTA, orbit=orbit, mismatch=mismatch, data=seen, freq=(setup.f - WIDTH, setup.f), reftime=START
    )
    seconds = time.perf_counter() - began
    g = metric(setup)
    projected = g[1:, 1:] - np.outer(g[0, 1:], g[0, 1:]) / g[0, 0]
    n_frequencies = WIDTH * 2 * setup.days * DAY
    result = {
        "setup": setup.name,
        "mismatch": mismatch,
        **{k: v for k, v in setup._asdict().items() if k != "name"},
        "templates": len(bank.alpha),
        "tiling": tiling(projected, setup.box, mismatch),
        "values": round(len(bank.alpha) * n_frequencies),
        "tiling_mismatch": round(mismatch + BINS / MEAN, 3),
        "tiling_values": tiling(g, [(setup.f - WIDTH, setup.f), *setup.box], mismatch + BINS / MEAN),
        "seconds": round(seconds, 2),
    }
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setups", nargs="+", help="names, by default all")
    parser.add_argument("--mismatches", type=float, nargs="+", default=[0.1, 0.3])
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    chosen = [setup for setup in SETUPS if arguments.setups is None or setup.name in arguments.setups]
    result = {
        "version": jfstat.__version__,
        "lalpulsar": lalpulsar.__version__,
        "command": shlex.join(["python", "examples/orbit_banks_against_lalsuite.py", *sys.argv[1:]]),
        "width": WIDTH,
        "banks": [row(setup, mismatch) for setup in chosen for mismatch in arguments.mismatches],
    }
    if arguments.output:
        written_to(arguments.output, (json.dumps(result, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
