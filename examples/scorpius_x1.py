"""Scorpius X-1 over segments: what a GPU costs, how many signals are found, and what a year of it buys.

    python examples/scorpius_x1.py --parts speed efficiency --output examples/scorpius_x1.json   (on a GPU)
    python examples/scorpius_x1.py --parts core --output examples/scorpius_x1.json               (anywhere)
    python examples/scorpius_x1.py --parts setups --output examples/scorpius_x1.json             (anywhere)

Parts keep what is in the file from others. The ephemeris is that of Killestein et al. 2023 (Mon. Not. R. Astron. Soc.
520, 5317), three standard deviations to either side, and the size of the orbit that of Wang et al. 2018 (478, 5174).

- ``speed``: searches of boxes of orbits in 120 segments of a day of H1 and L1, in a narrow band and in a wide one, with
  and without interpolation, medians of three after a first one that compiles. From both follow the times of a value of
  2F in a segment and of adding one.
- ``core``: ComputeFstat of LALSuite, resampled, on one core, for binaries in one of these segments at the same
  frequencies: the function that computes a segment's 2F in BinaryWeave (Mukherjee, Prix & Wette 2023, Phys. Rev. D 107,
  062005). Adding values is timed by lalpulsar_Weave itself in one_hertz_weave.json.
- ``efficiency``: 70 signals at each of three depths, in new noise each time, in 40 segments of a day; detected if the
  loudest mean of 2F in a box of orbits and 0.01 Hz exceeds the threshold for a false-alarm probability of 1 %; beside
  `detection_probability` with the mismatches of 40 signals without noise. And 70 searches of noise alone.
- ``setups``: `search_setups` of 360 d of two detectors at some frequencies, with the times of ``speed``; and up to what
  frequency, from 20 Hz on, 365 d of the GPU reach.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import replacing  # noqa: E402

START, DAY, NOISE = 1_238_166_018, 86_400, 4e-24
ALPHA, DELTA = 4.2756992, -0.2729776
ASCENSION, PERIOD = (1_078_153_676 - 99, 1_078_153_676 + 99), (68_023.91 - 0.06, 68_023.91 + 0.06)
ASINI = 1.45, 3.25
F = 100.0
DEPTHS = (44.0, 52.0, 62.0)
WIDTHS = {0.05: (1.45, 2.05), 1.0: (1.45, 1.5)}
"""Bands that are searched, Hz, and sizes of the orbits, light-seconds."""
MISMATCH, COHERENT = 0.2, 0.2


def segmented(n: int, width: float, noise: float | None = NOISE) -> tuple[Any, list[tuple[float, float]]]:
    """SFTs of n days of noise in a band from F, and a segment for each day."""
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, n * DAY, F - 0.5, F + width + 0.5, sqrt_sx=noise, seed=n)
    return sfts, [(START + i * DAY, START + (i + 1) * DAY) for i in range(n)]


def prepared(n: int, width: float) -> jfstat.FstatData:
    sfts, edges = segmented(n, width)
    most = jfstat.Orbit(ASINI[1], PERIOD[0], START)
    return jfstat.prepare(sfts, F, F + width, START + n * DAY // 2, NOISE, segments=edges, orbit=most)


def timed(data: Any, bank: Any, statistic: Any) -> tuple[float, Any]:
    """Seconds of a search, the median of three after a first one, and its table."""
    seconds, found = [], None
    for _ in range(4):
        began = time.perf_counter()
        found = jfstat.search(data, bank, statistic, top=10, progress=False)
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:]), found


def speed() -> dict[str, Any]:
    """Cost on this device of boxes in which the numbers of values are alike."""
    return {f"{width:g} Hz": speed_of(width, asini) for width, asini in WIDTHS.items()}


def speed_of(width: float, asini: tuple[float, float]) -> dict[str, Any]:
    data = prepared(120, width)
    orbit = dict(asini=asini, period=PERIOD, tp=ASCENSION)
    bank = jfstat.template_bank(ALPHA, DELTA, orbit=orbit, mismatch=MISMATCH, data=data)
    n, n_frequencies, n_segments = len(bank.alpha), data.layout.n_frequencies, 120
    exact, _ = timed(data, bank, jfstat.MeanTwoF())
    own, found = timed(data, bank, jfstat.Interpolated(COHERENT))
    each = exact / (n * n_frequencies * n_segments)
    n_coherent = found.meta["n_coherent"]
    return {
        "device": jax.devices()[0].device_kind,
        "templates": n,
        "frequencies": n_frequencies,
        "segments": n_segments,
        "exact_s": exact,
        "interpolated_s": own,
        "n_coherent": n_coherent,
        "s_value": each,
        "s_template_and_segment": each * n_frequencies,
        "s_sum": max(0.0, own - n_coherent * each) / (n * n_frequencies * n_segments),
    }


def core() -> dict[str, Any]:
    """Cost of LALSuite's 2F of binaries on a core, and of adding a value to a sum."""
    weave = json.loads((Path(__file__).parent / "one_hertz_weave.json").read_text())["rows"]["0.25 Hz"]
    return {f"{width:g} Hz": core_of(width) | {"s_sum": weave["costs"]["s_sum"]} for width in WIDTHS}


def core_of(width: float) -> dict[str, Any]:
    import lal
    import lalpulsar

    sfts, _ = segmented(1, width)
    folder = Path("scorpius_x1_sfts")
    folder.mkdir(exist_ok=True)
    jfstat.write_sfts(sfts, folder)
    catalog = lalpulsar.SFTdataFind(f"{folder}/*.sft", None)
    ephemerides = lalpulsar.InitBarycenter("earth00-40-DE405.dat.gz", "sun00-40-DE405.dat.gz")
    optional = lalpulsar.FstatOptionalArgs(lalpulsar.FstatOptionalArgsDefaults)
    optional.FstatMethod = lalpulsar.FMETHOD_RESAMP_BEST
    optional.allowedMismatchFromSFTLength = 100.0  # resampling does not depend on it
    assumed = lalpulsar.MultiNoiseFloor()
    assumed.length = 2
    assumed.sqrtSn = np.array([NOISE, NOISE] + [0.0] * (len(assumed.sqrtSn) - 2))
    optional.assumeSqrtSX = assumed
    dfreq, n = 1 / (2 * DAY), int(width * 2 * DAY)
    given = lalpulsar.CreateFstatInput(catalog, F, F + width, dfreq, ephemerides, optional)
    rng, results, times = np.random.default_rng(1), lalpulsar.FstatResults(), []
    doppler = lalpulsar.PulsarDopplerParams()
    doppler.Alpha, doppler.Delta, doppler.refTime = ALPHA, DELTA, lal.LIGOTimeGPS(START)
    doppler.fkdot = np.array([F, 0, 0, 0, 0, 0, 0])
    doppler.ecc, doppler.argp = 0.0, 0.0
    for _ in range(100):
        doppler.asini, doppler.period = rng.uniform(*ASINI), rng.uniform(*PERIOD)
        doppler.tp = lal.LIGOTimeGPS(rng.uniform(*ASCENSION))
        began = time.perf_counter()
        lalpulsar.ComputeFstat(results, given, doppler, n, lalpulsar.FSTATQ_2F)
        times.append(time.perf_counter() - began)
    for path in folder.glob("*.sft"):
        path.unlink()
    folder.rmdir()
    return {
        "lalpulsar": lalpulsar.__version__,
        "s_value": median(times[10:]) / n,
        "s_template_and_segment": median(times[10:]),
    }


def efficiency(trials: int) -> dict[str, Any]:
    """Signals found in new noise, beside the prediction."""
    n, width = 40, 0.01
    data = prepared(n, width)
    middle = 0.5 * sum(PERIOD)
    # the box follows the signal; its bank is made once, about a typical orbit
    half = dict(asini=0.01, period=0.01, tp=8.0)
    tp = 0.5 * sum(ASCENSION)
    ranges = {"asini": 1.47, "period": middle, "tp": tp}
    orbit = {name: (x - half[name], x + half[name]) for name, x in ranges.items()}
    bank = jfstat.template_bank(ALPHA, DELTA, orbit=orbit, mismatch=MISMATCH, data=data)
    n_values = len(bank.alpha) * data.layout.n_frequencies
    from scipy.stats import chi2

    threshold = float(chi2.isf(0.01 / n_values, 4 * n) / n)

    @jax.jit
    def noise(key: jax.Array) -> jfstat.FstatData:
        return jax.vmap(jfstat.noise_like)(jax.random.split(key, n), data)

    @jax.jit
    def injected(data: jfstat.FstatData, point: jfstat.Doppler, amplitude: jfstat.Amplitude) -> jfstat.FstatData:
        return jax.vmap(lambda own: jfstat.add_signal(own, point, amplitude))(data)

    silent = dataclasses.replace(data, series=jnp.zeros_like(data.series))
    bare = jfstat.Details(per_detector=False)

    def drawn(rng: np.random.Generator, h0: float) -> tuple[jfstat.Doppler, jfstat.Amplitude]:
        own = jfstat.Orbit(*(rng.uniform(*orbit[name]) for name in ("asini", "period", "tp")))
        point = jfstat.Doppler(ALPHA, DELTA, [F + width * rng.uniform(0.1, 0.9), 0.0], START + n * DAY // 2, own)
        cosi, psi, phi0 = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
        return point, jfstat.Amplitude(h0, cosi, psi, phi0)

    def loudest(data: jfstat.FstatData, name: str) -> float:
        found = jfstat.search(data, bank, statistics[name], top=1, progress=False, details=bare)
        return float(found["mean_twoF" if name == "exact" else "mean_twoF_interpolated"][0])

    statistics = {"exact": jfstat.MeanTwoF(), "interpolated": jfstat.Interpolated(COHERENT)}
    lost: dict[str, list[float]] = {name: [] for name in statistics}
    rng = np.random.default_rng(5)
    for _ in range(40):
        point, amplitude = drawn(rng, 3 * NOISE / DEPTHS[0])
        with_signal = injected(silent, point, amplitude)
        best = float(jfstat.mean_twoF(with_signal, point))
        for name in statistics:
            lost[name].append(1 - loudest(with_signal, name) / best)
    rows = []
    for depth in (None, *DEPTHS):
        hits = dict.fromkeys(statistics, 0)
        for k in range(trials):
            rng = np.random.default_rng([7, k, int(depth or 0)])
            own = noise(jax.random.key(int(rng.integers(1 << 31))))
            if depth is not None:
                own = injected(own, *drawn(rng, NOISE / depth))
            for name in statistics:
                hits[name] += loudest(own, name) > threshold
        row: dict[str, Any] = {"depth": depth, "trials": trials, "detected": hits}
        if depth is not None:
            population = jfstat.Population(ALPHA, DELTA)
            row["predicted"] = {
                name: trials
                * float(
                    jfstat.detection_probability(
                        data, NOISE / depth, threshold, population, mismatch=np.clip(lost[name], 0, 0.99)
                    )
                )
                for name in statistics
            }
        rows.append(row)
        print(row, flush=True)
    return {
        "device": jax.devices()[0].device_kind,
        "segments": n,
        "templates": len(bank.alpha),
        "frequencies": data.layout.n_frequencies,
        "threshold": threshold,
        "mean_loss": {name: float(np.mean(x)) for name, x in lost.items()},
        "largest_loss": {name: float(np.max(x)) for name, x in lost.items()},
        "rows": rows,
    }


def setups(costs: dict[str, Any]) -> dict[str, Any]:
    """What 360 d of data cost at some frequencies, and how far a year of the GPU reaches."""
    starts = {name: START + 1800 * np.arange(360 * 48) for name in ("H1", "L1")}
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=starts, fmin=F, fmax=F + 0.002, sqrt_sx=None)
    cuts = [jfstat.segment_observations(sfts, days * DAY * 1.0, NOISE, START + 180 * DAY) for days in (0.5, 1, 2, 4)]
    orbit = dict(asini=ASINI, period=PERIOD, tp=ASCENSION)
    mismatches = [0.2, 0.5]
    frequencies, rows, spent = (20.0, 40.0, 80.0, 160.0, 320.0, 640.0), [], {}
    sharing = {}
    for f in frequencies:
        bank = dict(alpha=ALPHA, delta=DELTA, orbit=orbit, freq=(f, f + 1.0))
        table = jfstat.search_setups(cuts, mismatches, bank, costs["s_value"], false_alarm=0.01)
        for row in table:
            key = round(float(row["segment_length"].value) / DAY, 1), float(row["mismatch"])
            own = {name: float(getattr(row[name], "value", row[name])) for name in table.colnames}
            rows.append({"freq": f} | own)
            spent.setdefault(key, []).append((float(row["seconds"].value), float(row["depth"].value)))
        longest = cuts[-1]
        points = jfstat.bank_size(longest.segment(45), 0.2, **bank, reftime=longest.reftime.common)
        sharing[f"{f:g} Hz"] = points / jfstat.bank_size(longest, 0.2, **bank)
        print(table, flush=True)
    grid = np.arange(20.0, frequencies[-1])
    reached = []
    for key, values in spent.items():
        each = np.array([cost for cost, _ in values])
        total = np.cumsum(np.exp(np.interp(np.log(grid), np.log(frequencies), np.log(each))))
        upper = float(grid[np.searchsorted(total, 365 * DAY)]) if total[-1] > 365 * DAY else frequencies[-1]
        depth = float(np.interp(upper, frequencies, [x for _, x in values]))
        days, mismatch = key
        reached.append({"days": days, "mismatch": mismatch, "up_to_Hz": upper, "depth": depth})
    reached.sort(key=lambda x: -x["up_to_Hz"])
    return {"rows": rows, "points_over_templates": sharing, "in_365_d": reached}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=["speed", "core", "efficiency", "setups"], required=True)
    parser.add_argument("--trials", type=int, default=70)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    kept = json.loads(given.output.read_text()) if given.output.exists() else {}
    for part in given.parts:
        made = {
            "speed": speed,
            "core": core,
            "efficiency": lambda: efficiency(given.trials),
            "setups": lambda: setups(kept["speed"]["1 Hz"]),
        }
        began = time.perf_counter()
        kept[part] = made[part]() | {"wall_s": time.perf_counter() - began}
        kept[part]["command"] = "python " + shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        with replacing(given.output) as file:
            file.write((json.dumps(kept, indent=1) + "\n").encode())
        print(part, json.dumps({k: v for k, v in kept[part].items() if k != "rows"}), flush=True)


if __name__ == "__main__":
    main()
