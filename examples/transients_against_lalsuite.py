"""Transient maps on one core: time and values beside LALSuite's and PyFstat's, and the maximum of a map in noise.

Noise with a transient signal is simulated, LALSuite's Demod and jfstat make atoms of the same SFT files, and each
program its map of 2F over start times and time scales from its own atoms, in turns, pinned to one core. Then maps of
many atoms of Gaussian noise give the distribution of their maximum. Needs lalsuite; PyFstat's call of the same function
is timed if it is installed. Prints what it measures and writes it to a JSON file.

    python examples/transients_against_lalsuite.py                   # five minutes on one core
    python examples/transients_against_lalsuite.py --device --output examples/transients_h200.json    # seconds

With --device maps are made on JAX's default device, and in turns by PyFstat's CUDA path if PyFstat, PyCUDA and
lalpulsar are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.cores import MALLOC
from scipy.stats import chi2

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402

START, TSFT, SQRT_SX, FREQ = 1_150_000_000, 1800, 2e-23, 100.0
POINT = jfstat.Doppler(1.7, 0.4, [FREQ, -1e-9], START)
SPELL = 0.3
"""Seconds for which a program makes its map again and again in a turn."""
SHAPES = {"rectangular": "TRANSIENT_RECTANGULAR", "exponential": "TRANSIENT_EXPONENTIAL"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=21, help="length of the data, two detectors")
    parser.add_argument("--windows", type=int, default=500, help="start times, and time scales, of a map")
    parser.add_argument("--turns", type=int, default=20, help="how often the programs take turns")
    parser.add_argument("--noise", type=int, default=2000, help="maps of noise")
    parser.add_argument("--device", action="store_true", help="beside PyFstat's CUDA path, on JAX's default device")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    if options.device:
        report = on_device(options.windows, options.turns)
        print(json.dumps(report, indent=1))
        if options.output != Path(__file__).with_suffix(".json"):  # which holds the comparison on a CPU
            options.output.write_text(json.dumps(report, indent=1) + "\n")
        return
    if any(os.environ.get(name) != value for name, value in MALLOC.items()):  # of both programs
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MALLOC)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    window = jfstat.TransientWindow("rectangular", START + 6 * 86400, 0.9 * 86400)
    signal = (POINT, jfstat.Amplitude(2e-24, 0.2, 0.3, 1.0), window)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, options.days * 86400, FREQ - 1.5, FREQ + 1.5, sqrt_sx=SQRT_SX, signals=[signal], seed=3
    )
    report: dict[str, Any] = {
        "what": "seconds for a map of 2F over start times and time scales of a transient signal, the least and the "
        "median of many, in turns on one core; values on the same SFT files; the maximum of a map in Gaussian noise",
        "command": f"python examples/transients_against_lalsuite.py --days {options.days} --windows {options.windows} "
        f"--turns {options.turns} --noise {options.noise}",
        "settings": f"{options.days} d of H1 and L1, atoms of {TSFT} s, {options.windows} start times and time scales "
        f"in steps of {TSFT} s, 2F from atoms that are made before",
        "machine": {"processor": processor(), "load": os.getloadavg()[0], "python": platform.python_version()},
        "versions": {name: installed(name) for name in ("jfstat", "jax", "lalsuite", "PyFstat")},
    }
    began = time.perf_counter()
    data = jfstat.prepare(sfts, FREQ - 0.05, FREQ + 0.05, sqrt_sx=SQRT_SX, filters=False)
    report["prepare, s"] = time.perf_counter() - began
    atoms, report["atoms of a template, s"] = least(lambda: jfstat.atoms(data, POINT))
    with tempfile.TemporaryDirectory() as folder:
        jfstat.write_sfts(sfts, folder)
        theirs = lal_atoms(folder)
    t0, tau = grid(options.windows)
    report["maps"] = {shape: compared(atoms, theirs, shape, t0, tau, options.turns) for shape in SHAPES}
    report["search"] = search_time(data, t0, tau)
    report["noise"] = noise_maximum(options.noise)
    print(json.dumps(report, indent=1))
    options.output.write_text(json.dumps(report, indent=1) + "\n")


def grid(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Start times, GPS s, and time scales, s."""
    return START + TSFT * np.arange(n, dtype=float), TSFT * (2.0 + np.arange(n))


def timed(function: Callable[[], Any]) -> tuple[Any, list[float]]:
    """What a function returns, and the times of the calls of `SPELL` seconds, at least one, s."""
    times, value = [], None
    while sum(times) < SPELL:
        began = time.perf_counter()
        value = jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return value, times


def least(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the least time of three turns, s."""
    turns = [timed(function) for _ in range(3)]
    return turns[0][0], min(seconds for _, times in turns for seconds in times)


def compared(atoms: jfstat.Atoms, theirs: Any, shape: str, t0: np.ndarray, tau: np.ndarray, turns: int) -> dict:
    """Times of the programs in turns, and how their maps differ."""
    import lalpulsar

    wanted = wanted_windows(shape, t0, tau)
    programs: dict[str, Callable[[], Any]] = {
        "jfstat": lambda: jfstat.transient_map(atoms, shape, t0, tau),
        "LALSuite": lambda: lalpulsar.ComputeTransientFstatMap(theirs, wanted, False),
    }
    pyfstat_map = pyfstats()
    if pyfstat_map is not None:
        programs["PyFstat"] = lambda: pyfstat_map(theirs, wanted)
    maps = {name: program() for name, program in programs.items()}  # compiled, and tables made
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(turns):
        for name, program in programs.items():
            times[name] += timed(program)[1]
    best, usual = ({name: float(of(x)) for name, x in times.items()} for of in (np.min, np.median))
    ours, expected = maps["jfstat"], maps["LALSuite"]
    twoF, other = np.asarray(ours.twoF), 2 * expected.F_mn.data
    loud = twoF > 0.5 * twoF.max()
    return {
        "seconds": best,
        "median seconds": usual,
        "LALSuite over jfstat": best["LALSuite"] / best["jfstat"],
        "LALSuite over jfstat, medians": usual["LALSuite"] / usual["jfstat"],
        "largest 2F": {"jfstat": float(ours.max_twoF), "LALSuite": float(other.max())},
        "its window": {
            "jfstat": [float(ours.best.t0) - START, float(ours.best.tau)],
            "LALSuite": [expected.t0_ML - START, expected.tau_ML],
        },
        "2F of LALSuite over jfstat's where it is above half its maximum": np.quantile(
            other[loud] / twoF[loud], [0, 0.5, 1]
        ).tolist(),
    }


def pyfstats() -> Callable[[Any, Any], Any] | None:
    """PyFstat's function for a map, which calls LALSuite's; None if it is not installed."""
    if installed("PyFstat") is None:
        return None
    from pyfstat import tcw_fstat_map_funcs as tcw

    features, _ = tcw.init_transient_fstat_map_features("lal")
    return lambda atoms, wanted: tcw.call_compute_transient_fstat_map("lal", features, atoms, wanted)


MAPS_TOGETHER = 256


def on_device(windows: int, turns: int) -> dict[str, Any]:
    """Times of maps on JAX's default device, one at a time and many together, in turns with PyFstat's CUDA path."""
    rng = np.random.default_rng(0)
    one = noise_atoms(rng, windows * 2, 1)
    stack = jax.tree.map(lambda *x: jnp.stack(x), *(noise_atoms(rng, windows * 2, 1) for _ in range(MAPS_TOGETHER)))
    t0, tau = grid(windows)
    theirs = pyfstats_on_gpu(one)
    found: dict[str, Any] = {
        "what": "seconds for a map of 2F over start times and time scales of a transient signal, medians of many in "
        f"turns: whole calls, the values of PyFstat on the host, and {MAPS_TOGETHER} maps in one call of jfstat",
        "command": "python " + shlex.join(sys.argv),
        "settings": f"noise of one detector, {2 * windows} atoms of {TSFT} s, {windows} start times and time scales",
        "device": jax.devices()[0].device_kind,
        "load": os.getloadavg()[0],
        "versions": {name: installed(name) for name in ("jfstat", "jax", "lalsuite", "PyFstat", "pycuda")},
    }

    def map_of(atoms: jfstat.Atoms, shape: str) -> jax.Array:
        own = replace(atoms, start=one.start, end=one.end, epoch=one.epoch)  # as every map of a search
        return jfstat.transient_map(own, shape, t0, tau).twoF

    for shape in SHAPES:
        together = jax.jit(jax.vmap(partial(map_of, shape=shape)))
        programs: dict[str, Callable[[], Any]] = {
            "jfstat": lambda shape=shape: jfstat.transient_map(one, shape, t0, tau),
            f"jfstat, {MAPS_TOGETHER} maps": lambda together=together: together(stack),
        }
        if theirs is not None:
            programs["PyFstat"] = partial(theirs, wanted_windows(shape, t0, tau))
        maps = {name: program() for name, program in programs.items()}
        times: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(turns):
            for name, program in programs.items():
                times[name] += timed(program)[1]
        median = {name: float(np.median(x)) for name, x in times.items()}
        many = median[f"jfstat, {MAPS_TOGETHER} maps"] / MAPS_TOGETHER
        found[shape] = {"seconds": median, "jfstat, seconds a map of many": many}
        if theirs is not None:
            ours, other = np.asarray(maps["jfstat"].twoF), 2 * maps["PyFstat"].F_mn
            found[shape] |= {
                "PyFstat over jfstat, one map": median["PyFstat"] / median["jfstat"],
                "PyFstat over jfstat, many": median["PyFstat"] / many,
                "PyFstat, seconds by part": parts_of_pyfstat(theirs, shape, t0, tau, turns),
                "largest 2F": [float(ours.max()), float(other.max())],
                "same window": bool(ours.argmax() == other.argmax()),
            }
    return found


def wanted_windows(shape: str, t0: np.ndarray, tau: np.ndarray) -> Any:
    """The windows as LALSuite has them."""
    import lalpulsar

    wanted = lalpulsar.transientWindowRange_t()
    wanted.type = getattr(lalpulsar, SHAPES[shape])
    wanted.t0, wanted.dt0, wanted.t0Band = int(t0[0]), TSFT, int(t0[-1] - t0[0])
    wanted.tau, wanted.dtau, wanted.tauBand = int(tau[0]), TSFT, int(tau[-1] - tau[0])
    return wanted


def pyfstats_on_gpu(atoms: jfstat.Atoms) -> Callable[[Any], Any] | None:
    """PyFstat's CUDA map of the atoms of one detector; None if it cannot run."""
    try:
        import lalpulsar
        from pyfstat import tcw_fstat_map_funcs as tcw

        features, context = tcw.init_transient_fstat_map_features("pycuda")
    except (ImportError, RuntimeError) as error:
        print(f"PyFstat's CUDA path is left out: {error}", file=sys.stderr)
        return None
    context.pop()
    theirs = lalpulsar.CreateMultiFstatAtomVector(1)
    own = lalpulsar.CreateFstatAtomVector(atoms.Fa.shape[1])
    own.TAtom = TSFT
    Fa, Fb, A, B, C = (np.asarray(x)[0] for x in (atoms.Fa, atoms.Fb, atoms.A, atoms.B, atoms.C))
    for k, atom in enumerate(own.data):
        atom.timestamp = START + TSFT * k
        atom.a2_alpha, atom.b2_alpha, atom.ab_alpha = (float(x[k]) for x in (A, B, C))
        atom.Fa_alpha, atom.Fb_alpha = complex(Fa[k]), complex(Fb[k])
    theirs.data[0] = own

    def program(wanted: Any) -> Any:
        context.push()  # JAX has its own in between
        try:
            return tcw.call_compute_transient_fstat_map("pycuda", features, theirs, wanted)[0]
        finally:
            context.pop()

    return program


def parts_of_pyfstat(theirs: Callable[[Any], Any], shape: str, t0: np.ndarray, tau: np.ndarray, turns: int) -> dict:
    """Medians of what PyFstat's call does: atoms put in arrays, and the work on the GPU with copies to and from it."""
    from pyfstat import tcw_fstat_map_funcs as tcw

    suffix = {"rectangular": "rect", "exponential": "exp"}[shape]
    parts = {"atoms to arrays": "reshape_FstatAtomsVector", "GPU": f"pycuda_compute_transient_fstat_map_{suffix}"}
    wanted, times = wanted_windows(shape, t0, tau), {name: [] for name in parts}
    for name, function in parts.items():
        original = getattr(tcw, function)

        def stopwatch(*args: Any, original: Any = original, name: str = name) -> Any:
            began = time.perf_counter()
            value = original(*args)
            times[name].append(time.perf_counter() - began)
            return value

        setattr(tcw, function, stopwatch)
        for _ in range(turns):
            theirs(wanted)
        setattr(tcw, function, original)
    return {name: float(np.median(x)) for name, x in times.items()}


def search_time(data: jfstat.FstatData, t0: np.ndarray, tau: np.ndarray) -> dict:
    """Time of `fstat_table` with a map of hourly windows at each of 20 templates."""
    n = 20
    points = jfstat.Doppler(
        np.full(n, 1.7), np.full(n, 0.4), np.stack([FREQ + 1e-7 * np.arange(n), np.full(n, -1e-9)], axis=1), START
    )
    hours = np.arange(int(data.tspan / 3600) - 2)
    wanted = jfstat.TransientRange("rectangular", START + 3600 * hours, 3600.0 * (2 + hours))
    _, plain = least(lambda: len(jfstat.fstat_table(data, points, progress=False)))
    _, both = least(lambda: len(jfstat.fstat_table(data, points, transient=wanted, progress=False)))
    return {
        "what": f"fstat_table(transient=) of 0.1 Hz, {len(hours)} x {len(hours)} hourly windows, less that without",
        "seconds a template": (both - plain) / n,
    }


def noise_atoms(rng: np.random.Generator, n_slices: int, n_detectors: int) -> jfstat.Atoms:
    """Atoms of Gaussian noise with random antenna patterns: Fa and Fb have the covariance that A, B and C say."""
    shape = (2, 3, n_detectors, n_slices)  # three independent directions
    a, b = rng.normal(size=shape)
    noise = rng.normal(size=(2, 3, n_detectors, n_slices))
    z = (noise[0] + 1j * noise[1]) / np.sqrt(2)
    start = TSFT * np.arange(n_slices, dtype=float)
    arrays = ((a * z).sum(0), (b * z).sum(0), (a * a).sum(0), (b * b).sum(0), (a * b).sum(0), start, start + TSFT)
    names = tuple(f"X{i + 1}" for i in range(n_detectors))
    return jfstat.Atoms(*map(jnp.asarray, arrays), epoch=jnp.asarray(START), detectors=names)


def noise_maximum(n: int) -> dict:
    """The largest 2F of maps in noise, and how many independent windows have the same median."""
    t0, tau = START + 3600 * np.arange(60), 3600.0 * (2 + np.arange(60))
    rng, found = np.random.default_rng(1), {}
    for shape in SHAPES:
        largest = jax.jit(lambda own, shape=shape: jfstat.transient_map(own, shape, t0, tau).max_twoF)
        values = np.array([float(largest(noise_atoms(rng, 240, 2))) for _ in range(n)])
        independent = np.log(0.5) / chi2(4).logcdf(np.median(values))
        found[shape] = {
            "windows": t0.size * tau.size,
            "quantiles 0.01 0.1 0.5 0.9 0.99 0.999": np.quantile(values, [0.01, 0.1, 0.5, 0.9, 0.99, 0.999]).tolist(),
            "independent windows, by the median": independent,
            "their 2F at a false alarm of 1e-2 and 1e-3": chi2(4)
            .isf(-np.expm1(np.log1p(np.array([-1e-2, -1e-3])) / independent))
            .tolist(),
        }
    return found


def lal_atoms(folder: str) -> Any:
    """Atoms by LALSuite's Demod with its default settings and the noise floors given."""
    import lalpulsar

    from jfstat.geometry.ephemeris import ephemeris_files

    tables = lalpulsar.InitBarycenter(*(str(path) for path in ephemeris_files("DE405")[1:]))
    extra = lalpulsar.FstatOptionalArgs(lalpulsar.FstatOptionalArgsDefaults)
    floors = lalpulsar.MultiNoiseFloor()
    floors.length = 2
    values = floors.sqrtSn
    values[:2] = SQRT_SX
    floors.sqrtSn = values
    extra.assumeSqrtSX = floors
    catalog = lalpulsar.SFTdataFind(f"{folder}/*.sft", lalpulsar.SFTConstraints())
    given = lalpulsar.CreateFstatInput(catalog, FREQ - 0.05, FREQ + 0.05, 0.0, tables, extra)
    doppler, result = lalpulsar.PulsarDopplerParams(), lalpulsar.FstatResults()
    doppler.refTime, doppler.Alpha, doppler.Delta = START, float(POINT.alpha), float(POINT.delta)
    fkdot = doppler.fkdot
    fkdot[:2] = np.asarray(POINT.fkdot)
    doppler.fkdot = fkdot
    lalpulsar.ComputeFstat(result, given, doppler, 1, lalpulsar.FSTATQ_ATOMS_PER_DET | lalpulsar.FSTATQ_2F)
    return result.multiFatoms[0]


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
