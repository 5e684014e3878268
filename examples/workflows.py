"""Eleven workflows of an analyst from the command line, on files that LALSuite wrote, beside LALSuite's programs.

`python examples/workflows.py [output.json] [--only NAME ...]` takes some minutes on two cores. Makefakedata_v5 writes
the SFTs (and once the strain); then `jfstat` and ComputeFstatistic_v2 do the same work, one after the other, and the
table shows what both found and how long each took from start to end. Each workflow asserts what it should find.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jfstat

jax.config.update("jax_enable_x64", True)

START, DAY = 1_167_458_304, 86_400
WORKFLOWS: dict[str, Callable[[Path], dict[str, Any]]] = {}


def workflow(function: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    WORKFLOWS[function.__name__] = function
    return function


def run(command: list[Any], folder: Path | None = None) -> tuple[str, float]:
    """What a command printed, and its seconds."""
    began = time.perf_counter()
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout, time.perf_counter() - began


def lalsuite(program: str, folder: Path | None = None, **options: Any) -> tuple[str, float]:
    path = Path(sys.executable).with_name(f"lalpulsar_{program}")
    found = str(path) if path.exists() else shutil.which(path.name)
    if found is None:
        raise SystemExit(f"{path.name} is missing: pip install lalsuite.")
    return run([found, *_options(options)], folder)


def _options(options: dict[str, Any]) -> list[str]:
    return [
        f"--{name}={value!r}" if isinstance(value, float) else f"--{name}={value}" for name, value in options.items()
    ]


def ours(*words: Any, **options: Any) -> tuple[str, float]:
    """The program jfstat with ``--name=value`` options."""
    return run([sys.executable, "-m", "jfstat", *words, *_options(options)])


def braces(point: jfstat.Doppler, amplitude: jfstat.Amplitude, **others: Any) -> str:
    """A source in Makefakedata_v5's format."""
    values: dict[str, Any] = {"Alpha": point.alpha, "Delta": point.delta, "refTime": int(point.reftime)}
    values |= {name: point.fkdot[k] for k, name in enumerate(["Freq", "f1dot", "f2dot"][: len(point.fkdot)])}
    values |= {name: getattr(amplitude, name) for name in ("h0", "cosi", "psi", "phi0")}
    if point.orbit is not None:
        names = {"asini": "asini", "period": "Period", "tp": "Tp", "ecc": "Ecc", "argp": "Argp"}
        values |= {f"orbit{name}": getattr(point.orbit, field) for field, name in names.items()}
    pairs = [f"{name}={x!r}" for name, x in ((n, x if isinstance(x, int) else float(x)) for n, x in values.items())]
    return "{" + "; ".join([*pairs, *(f"{name}={x}" for name, x in others.items())]) + "}"


def make(folder: Path, signals: list[str], fmin: float, band: float, days: float = 2.0, **options: Any) -> str:
    """SFT files of Makefakedata_v5; their pattern."""
    defaults = dict(IFOs="H1,L1", sqrtSX="4e-24,4e-24", randSeed=3, Tsft=1800, outSingleSFT="true")
    if "timestampsFiles" not in options:
        defaults |= dict(startTime=START, duration=int(days * DAY))
    sources = {"injectionSources": ",".join(signals)} if signals else {}
    lalsuite("Makefakedata_v5", folder, outSFTdir=folder, fmin=fmin, Band=band, **sources, **(defaults | options))
    return f"{folder}/*.sft"


def values_at(point: jfstat.Doppler, files: str, folder: Path) -> tuple[float, float]:
    """2F of ComputeFstatistic_v2 at one template, and its seconds."""
    f = [float(x) for x in point.fkdot]
    options: dict[str, Any] = dict(
        Alpha=float(point.alpha), Delta=float(point.delta), Freq=f[0], refTime=int(point.reftime)
    )
    options |= {name: x for name, x in zip(("f1dot", "f2dot"), f[1:], strict=False)}
    if point.orbit is not None:
        o = point.orbit
        options |= dict(orbitasini=float(o.asini), orbitPeriod=float(o.period), orbitTp=float(o.tp))
        options |= dict(orbitEcc=float(o.ecc), orbitArgp=float(o.argp))
    return loudest(folder, DataFiles=files, FstatMethod="ResampBest", **options)


def loudest(folder: Path, **options: Any) -> tuple[float, float]:
    """Largest 2F of ComputeFstatistic_v2, and its seconds."""
    out = folder / "lalsuite.txt"
    _, seconds = lalsuite("ComputeFstatistic_v2", outputFstat=out, outputLogfile="/dev/null", **options)
    names = next(line for line in out.read_text().splitlines() if line.startswith("%% freq")).split()[1:]
    return float(np.atleast_2d(np.loadtxt(out, comments="%"))[:, names.index("2F")].max()), seconds


def par(path: Path, name: str, point: jfstat.Doppler, **others: str) -> Path:
    """A .par file with the timing solution of a signal."""
    from astropy.coordinates import Angle

    def mjd(gps: float) -> str:
        return str(44244 + (Decimal(gps) + Decimal("51.184")) / DAY)

    f = np.asarray(point.fkdot) / 2
    entries = {
        "PSRJ": name,
        "RAJ": Angle(float(point.alpha), unit="rad").to_string(unit="hourangle", sep=":", precision=11),
        "DECJ": Angle(float(point.delta), unit="rad").to_string(unit="deg", sep=":", precision=10),
        "PEPOCH": mjd(int(point.reftime)),
        **{f"F{k}": repr(float(x)) for k, x in enumerate(f)},
        "EPHEM": "DE405",
    }
    if point.orbit is not None:
        o = point.orbit
        entries |= dict(BINARY="BT", A1=repr(float(o.asini)), PB=repr(float(o.period) / DAY), T0=mjd(float(o.tp)))
        entries |= dict(ECC=repr(float(o.ecc)), OM=repr(float(np.degrees(o.argp))))
    entries |= {key: value if key[:4] != "GLEP" else mjd(float(value)) for key, value in others.items()}
    path.write_text("".join(f"{key} {value}\n" for key, value in entries.items()))
    return path


def table_of(path: Path) -> Any:
    return jfstat.read_candidates(path)


def number(x: Any) -> float:
    return float(getattr(x, "value", x))


SIGNAL = jfstat.Doppler(1.3, 0.4, [100.02, -2e-10], START)
AMPLITUDE = jfstat.Amplitude(1.5e-25, 0.3, 0.2, 1.0)


@workflow
def targeted(folder: Path) -> dict[str, Any]:
    """A known pulsar, by its .par file."""
    files = make(folder, [braces(SIGNAL, AMPLITUDE)], 99.0, 2.0, 10)
    par(folder / "a.par", "J0000+0000", SIGNAL)
    _, seconds = ours("search-pulsars", DataFiles=files, par=folder / "a.par", outputFstat=folder / "o.ecsv")
    theirs = values_at(SIGNAL, files, folder)
    row = table_of(folder / "o.ecsv")[0]
    assert abs(number(row["h0"]) / 1.5e-25 - 1) < 5 * number(row["h0_error"]) / 1.5e-25
    return compared("2F at the pulsar", number(row["twoF"]), seconds, *theirs)


@workflow
def directed(folder: Path) -> dict[str, Any]:
    """A known position, spin-downs to the second, on a lattice of mismatch 0.1."""
    point = jfstat.Doppler(1.3, 0.4, [100.02, -3e-9, 2e-17], START)
    files = make(folder, [braces(point, AMPLITUDE)], 99.0, 2.0, 6)
    shared = dict(DataFiles=files, Alpha=1.3, Delta=0.4, Freq=100.0, FreqBand=0.04, refTime=START)
    spins = dict(f1dot=-3.02e-9, f1dotBand=4e-11, f2dot=0.0, f2dotBand=4e-17)
    out = folder / "o.ecsv"
    _, seconds = ours("search", **shared, **spins, metricMismatch=0.1, cluster=1, outputFstat=out)
    # 1/(2T^2) and 1/(2T^3), the usual steps of flat grids
    steps = dict(df1dot=1.86e-12, df2dot=3.6e-18)
    theirs = loudest(folder, **shared, **spins, **steps, FstatMethod="ResampBest", NumCandidatesToKeep=10)
    row = table_of(out)[0]
    assert abs(number(row["freq"]) - 100.02) < 2e-5
    return compared("loudest 2F", number(row["twoF"]), seconds, *theirs)


@workflow
def all_sky(folder: Path) -> dict[str, Any]:
    """The whole sky with two signals and a line in L1: only the signals are left."""
    signals = [
        (jfstat.Doppler(1.1, 0.35, [100.031, -3e-10], START), jfstat.Amplitude(4e-25, 0.3, 0.2, 1.0)),
        (jfstat.Doppler(4.0, -0.6, [100.062, -1e-10], START), jfstat.Amplitude(2.4e-25, -0.7, 0.5, 2.0)),
    ]
    make(folder, [braces(*signal) for signal in signals], 99.4, 1.4, 2)
    # a line, in one detector: of LALSuite's programs only Makefakedata_v4 adds one
    with_line = folder / "line"
    with_line.mkdir()
    (h1,), (l1,) = folder.glob("H-*.sft"), folder.glob("L-*.sft")
    shutil.copy(h1, with_line)
    line = dict(lineFeature="TRUE", h0=8e-24, cosi=0, psi=0, phi0=0.3, Freq=100.05, Alpha=0, Delta=0, refTime=START)
    span = dict(startTime=START, duration=2 * DAY, fmin=99.4, Band=1.4)
    new = dict(IFO="L1", noiseSFTs=l1, outSFTbname=with_line / l1.name, outSingleSFT="TRUE")
    lalsuite("Makefakedata_v4", **new, **line, **span)
    files, out = f"{with_line}/*.sft", folder / "o.ecsv"
    shared = dict(DataFiles=files, Freq=100.0, FreqBand=0.1, f1dot=-4e-10, f1dotBand=4e-10, refTime=START)
    search = dict(metricMismatch=0.4, skyRegion="allsky", NumCandidatesToKeep=1000)
    ours("search", **shared, **search, outputFstat=folder / "plain.ecsv")
    before = table_of(folder / "plain.ecsv")
    _, seconds = ours(
        "search", **shared, **search, cluster=1, BSGLthreshold=2, RankingStatistic="BSGL", outputFstat=out
    )
    found = table_of(out)
    theirs = [values_at(point, files, folder)[0] for point, _ in signals]
    near = [abs(number(found["freq"][i]) - float(signals[i][0].fkdot[0])) < 2e-4 for i in range(2)]
    assert all(near), found["freq"][:3]
    assert len(found) == 2 or found["log10BSGL"][2] < 0.5 * found["log10BSGL"][1]
    result = compared("2F of the second signal", number(found["twoF"][1]), seconds, theirs[1], None)
    return result | {
        "rows before clusters and cut": len(before),
        "of these by the line, log10BSGL below 0": int(np.sum(before["log10BSGL"] < 0)),
        "rows after": len(found),
        "log10BSGL of the first rows": [round(float(x), 1) for x in found["log10BSGL"][:4]],
    }


@workflow
def binary(folder: Path) -> dict[str, Any]:
    """A source like Sco X-1: a lattice over asini and tp."""
    orbit = jfstat.Orbit(1.42, 68023.7, START + 30000.0, 0.0, 0.0)
    point = jfstat.Doppler(4.2757, -0.2730, [100.02], START, orbit)
    # SFTs of 720 s, because ComputeFstatistic_v2 refuses this orbit with 1800 s
    files = make(folder, [braces(point, jfstat.Amplitude(4e-25, 0.3, 0.2, 1.0))], 98.9, 2.2, 1, Tsft=720)
    shared = dict(DataFiles=files, Alpha=4.2757, Delta=-0.2730, Freq=100.0, FreqBand=0.04, refTime=START)
    shared |= dict(orbitPeriod=68023.7)
    ranges = dict(orbitasini=1.3, orbitasiniBand=0.25, orbitTp=START + 29500.0, orbitTpBand=1000.0)
    out = folder / "o.ecsv"
    _, seconds = ours("search", **shared, **ranges, metricMismatch=0.1, cluster=1, outputFstat=out)
    found = table_of(out)
    n = found.meta["n_templates"]
    steps = max(2, round(np.sqrt(n)))
    theirs = loudest(
        folder,
        **shared,
        **ranges,
        dorbitasini=0.25 / steps,
        dorbitTp=1000.0 / steps,
        NumCandidatesToKeep=10,
        FstatMethod="ResampBest",
    )
    assert abs(number(found["freq"][0]) - 100.02) < 1e-4
    return compared(f"loudest 2F, {n} and {(steps + 1) ** 2} orbits", number(found["twoF"][0]), seconds, *theirs)


@workflow
def weak(folder: Path) -> dict[str, Any]:
    """A weak candidate off its place: refined by gradients, beside a grid of as many minutes."""
    files = make(folder, [braces(SIGNAL, jfstat.Amplitude(6e-26, 0.3, 0.2, 1.0))], 99.0, 2.0, 10)
    grid = folder / "start.ecsv"
    from astropy import units as u
    from astropy.table import QTable

    columns = {"freq": [100.02 + 3e-7] * u.Hz, "alpha": [1.3 + 2e-3] * u.rad, "delta": [0.4 - 2e-3] * u.rad}
    QTable(columns | {"f1dot": [-2e-10] * u.Hz / u.s}, meta={"reftime": START}).write(grid)
    out = folder / "o.ecsv"
    _, seconds = ours("refine", "--bins=32", DataFiles=files, candidates=grid, outputFstat=out)
    better = table_of(out)[0]
    theirs = values_at(SIGNAL, files, folder)
    assert number(better["twoF"]) > theirs[0] - 2
    assert abs(number(better["alpha"]) - 1.3) < 5 * number(better["alpha_error"])
    return compared("2F refined, and at the injected point", number(better["twoF"]), seconds, *theirs)


@workflow
def gaps_and_two_floors(folder: Path) -> dict[str, Any]:
    """Detectors with gaps and floors of their own."""
    rng = np.random.default_rng(1)
    stamps = []
    for name in ("H1", "L1"):
        slots = np.sort(rng.choice(400, 250, replace=False))
        (folder / f"{name}.txt").write_text("".join(f"{START + 1800 * i + 100} 0\n" for i in slots))
        stamps.append(str(folder / f"{name}.txt"))
    options = dict(timestampsFiles=",".join(stamps), sqrtSX="3e-24,7e-24")
    files = make(folder, [braces(SIGNAL, AMPLITUDE)], 99.0, 2.0, **options)
    shared = dict(DataFiles=files, Alpha=1.3, Delta=0.4, Freq=100.02, f1dot=-2e-10, refTime=START)
    _, seconds = ours("search", **shared, outputFstat=folder / "o.ecsv")
    theirs = values_at(SIGNAL, files, folder)
    found = table_of(folder / "o.ecsv")
    floors = found.meta["sqrt_sx"]
    assert abs(floors[1] / floors[0] - 7 / 3) < 0.1
    return compared("2F at the signal", number(found["twoF"][0]), seconds, *theirs)


@workflow
def strain(folder: Path) -> dict[str, Any]:
    """From strain to 2F: SFTs of jfstat from Makefakedata_v5's time series, and its own SFTs of the same."""
    point = jfstat.Doppler(1.3, 0.4, [20.02, -2e-10], START)
    source = braces(point, jfstat.Amplitude(4e-25, 0.3, 0.2, 1.0))
    files = make(folder, [source], 0.0, 32.0, 0.5, IFOs="H1", sqrtSX="4e-24", TDDfile="h")
    began = time.perf_counter()
    (written,) = (path for path in folder.iterdir() if path.suffix != ".sft")
    t, h = np.loadtxt(written, comments="%", unpack=True)
    own = jfstat.sfts_from_strain(
        (h, START, float(np.median(np.diff(t)))),
        detector="H1",
        tsft=1800,
        conditioning=jfstat.Conditioning("rectangular"),
    )
    jfstat.write_sfts(own, folder / "own")
    ours(
        "search",
        DataFiles=folder / "own",
        Alpha=1.3,
        Delta=0.4,
        Freq=20.02,
        f1dot=-2e-10,
        refTime=START,
        outputFstat=folder / "o.ecsv",
    )
    seconds = time.perf_counter() - began
    theirs = jfstat.read_sfts(files, fmin=18.0, fmax=22.0)["H1"].data.astype(complex)
    mine = jfstat.read_sfts(folder / "own", fmin=18.0, fmax=22.0)["H1"].data.astype(complex)
    difference = float(np.linalg.norm(mine - theirs) / np.linalg.norm(theirs))
    assert difference < 1e-4, difference
    found = number(table_of(folder / "o.ecsv")["twoF"][0])
    return compared("2F at the signal", found, seconds, *values_at(point, files, folder)) | {
        "relative difference of the SFTs' bins": difference
    }


@workflow
def own_code(folder: Path) -> dict[str, Any]:
    """A phase model of one's own, under grad; notebooks/own_detector_and_phase.ipynb has a detector too."""
    files = make(folder, [braces(SIGNAL, AMPLITUDE)], 99.0, 2.0, 2, IFOs="H1", sqrtSX="4e-24")
    began = time.perf_counter()
    data = jfstat.prepare(jfstat.read_sfts(files), 100.0, 100.04, START)
    zero = jfstat.PhaseModel(lambda t, x: x["df"] * t, {"df": 0.0})
    model = jfstat.Doppler(SIGNAL.alpha, SIGNAL.delta, SIGNAL.fkdot, SIGNAL.reftime, model=zero)
    value, slope = jax.value_and_grad(lambda p: jfstat.twoF(data, p))(model)
    seconds = time.perf_counter() - began
    # a change of the model's frequency is one of the template's
    assert abs(float(slope.model.parameters["df"]) / float(slope.fkdot[0]) - 1) < 1e-6
    return compared("2F", float(value), seconds, *values_at(SIGNAL, files, folder))


@workflow
def glitch(folder: Path) -> dict[str, Any]:
    """A pulsar that glitches between two stretches of data."""
    at = START + 3 * DAY + 3000
    after = jfstat.Doppler(1.3, 0.4, [100.02 + 5e-5, -2e-10], START)
    first, second = folder / "1", folder / "2"
    first.mkdir(), second.mkdir()
    make(first, [braces(SIGNAL, AMPLITUDE)], 99.0, 2.0, 3)
    make(second, [braces(after, AMPLITUDE)], 99.0, 2.0, 3, startTime=START + 3 * DAY + 7200, randSeed=5)
    par(folder / "a.par", "J0000+0000", SIGNAL, GLEP_1=str(at), GLF0_1=repr(2.5e-5))
    files = f"{first}/*.sft;{second}/*.sft"
    _, seconds = ours("search-pulsars", DataFiles=files, par=folder / "a.par", outputFstat=folder / "o.ecsv")
    found = table_of(folder / "o.ecsv")
    assert len(found) == 2
    each = [values_at(point, f"{path}/*.sft", folder) for point, path in ((SIGNAL, first), (after, second))]
    return compared(
        "2F of both stretches", float(np.sum(found["twoF"])), seconds, each[0][0] + each[1][0], each[0][1] + each[1][1]
    )


@workflow
def points(folder: Path) -> dict[str, Any]:
    """Two thousand exact points of a file, gridType 6."""
    files = make(folder, [braces(SIGNAL, AMPLITUDE)], 99.0, 2.0, 5)
    rng = np.random.default_rng(0)
    n = 2000
    alpha, delta = 1.3 + 3e-3 * rng.standard_normal(n), 0.4 + 3e-3 * rng.standard_normal(n)
    f, f1dot = 100.02 + 1e-6 * rng.standard_normal(n), -2e-10 + 1e-12 * rng.standard_normal(n)
    alpha[0], delta[0], f[0], f1dot[0] = 1.3, 0.4, 100.02, -2e-10
    lines = [
        " ".join(map(repr, map(float, row)))
        for row in zip(f, alpha, delta, f1dot, np.zeros(n), np.zeros(n), strict=True)
    ]
    grid = folder / "grid.txt"
    grid.write_text("\n".join(lines) + "\n")
    shared = dict(DataFiles=files, gridFile=grid, refTime=START)
    _, seconds = ours("points", **shared, outputFstat=folder / "o.ecsv")
    theirs = loudest(folder, **shared, gridType=6)
    return compared("loudest 2F of 2000 points", float(np.max(table_of(folder / "o.ecsv")["twoF"])), seconds, *theirs)


@workflow
def many_pulsars(folder: Path) -> dict[str, Any]:
    """Twelve pulsars, half of them in binaries, in one call."""
    rng = np.random.default_rng(2)
    points = []
    for i in range(12):
        orbit = jfstat.Orbit(rng.uniform(0.3, 1.5), rng.uniform(2, 6) * DAY, START + 5e4, 0.05, 1.0) if i % 2 else None
        sky = rng.uniform(0, 6.28), np.arcsin(rng.uniform(-1, 1))
        points.append(jfstat.Doppler(*sky, [99.9 + 0.02 * i, -1e-13], START, orbit))
        par(folder / f"{i:02}.par", f"J{i:04}+0000", points[-1])
    files = make(folder, [braces(points[5], AMPLITUDE)], 98.7, 2.6, 10)
    _, seconds = ours("search-pulsars", DataFiles=files, par=folder, outputFstat=folder / "o.ecsv")
    found = table_of(folder / "o.ecsv")
    each = [values_at(point, files, folder) for point in points]
    assert int(np.argmax(found["twoF"])) == 5
    spread = np.abs(np.asarray(found["twoF"]) - [x[0] for x in each]) / np.sqrt(4 + np.array([x[0] for x in each]))
    result = compared(
        "2F of the pulsar with a signal", float(found["twoF"][5]), seconds, each[5][0], sum(x[1] for x in each)
    )
    return result | {"largest difference of 2F over its standard deviation in noise": float(spread.max())}


def compared(what: str, own: float, seconds: float, theirs: float, peer: float | None) -> dict[str, Any]:
    """A row of the table. LALSuite loses one or two per cent of a signal, and its floors make 2F a per cent larger."""
    return {"what": what, "jfstat": own, "jfstat_s": seconds, "lalsuite": theirs, "lalsuite_s": peer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+", choices=WORKFLOWS)
    arguments = parser.parse_args()
    rows = {}
    for name in arguments.only or WORKFLOWS:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = WORKFLOWS[name](Path(folder))
        own = rows[name]
        peer = "" if own["lalsuite_s"] is None else f"{own['lalsuite_s']:.1f} s"
        mine = f"jfstat {own['jfstat']:10.4g} {own['jfstat_s']:5.1f} s"
        print(f"{name:20s} {own['what']:40s} {mine}   LALSuite {own['lalsuite']:10.4g} {peer}", flush=True)
        for key, value in own.items():
            if key not in ("what", "jfstat", "jfstat_s", "lalsuite", "lalsuite_s"):
                print(f"{'':20s} {key}: {value}")
    if arguments.output is not None:
        report = {"command": shlex.join(["python", *sys.argv])} | rows
        arguments.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
