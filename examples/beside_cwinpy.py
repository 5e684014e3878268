"""Compare the limits of known pulsars, and the time they take, with those of cwinpy, from the same frame files.

    pip install cwinpy            # needs the GNU Scientific Library; not a dependency of jfstat
    python examples/beside_cwinpy.py --json examples/beside_cwinpy.json

A day of strain of two detectors is simulated with the signals of five pulsars: three isolated ones, a binary, and one
with both harmonics. cwinpy heterodynes the frames and samples the posterior with dynesty; jfstat makes SFTs of the
frames and sums the posterior. The priors are the same; cwinpy integrates over the noise floor, jfstat estimates it.

    python examples/beside_cwinpy.py --grid --pulsars J0835-4510 J1748-2446 --json examples/beside_cwinpy_grid.json

lets cwinpy sum its posterior over a grid instead of sampling it, for signals at one harmonic that are not strong.

    python examples/beside_cwinpy.py --likelihood --json examples/beside_cwinpy_likelihood.json

does without dynesty, whose quantiles scatter by some per cent: amplitudes drawn from jfstat's posterior get weights,
the ratio of cwinpy's likelihood to jfstat's. The weighted limit is that of cwinpy's likelihood, and differs from that
of the same amplitudes without weights only as the likelihoods do.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.statistic.likelihood import AmplitudeLikelihood  # noqa: E402

START, DAYS, NOISE = 1_167_458_304, 1, 4e-24
BAND = 12.0, 120.0
LARGEST = 2e-23
"""Largest amplitude that priors allow."""
PHASES_OF_GRID = 25
"""Values of psi and of phi0 in cwinpy's grid: enough where 2F is some 100."""
PHASES = 64
"""Values of phi0 at which the two likelihoods are compared, to find where their phases are zero."""
SOLUTION = "RAJ {ra}\nDECJ {dec}\nF0 {f0}\nF1 {f1}\nPEPOCH 57760\nPX 1.5\nEPHEM DE405\nUNITS TDB\n"
ORBIT = "BINARY BT\nA1 1.897991\nPB 5.741046\nT0 57757.2\nECC 0.21\nOM 33.4\n"
PULSARS = {
    "J0534+2200": (dict(ra="05:34:31.97", dec="22:00:52.1", f0=29.946923, f1=-3.7e-10), "", dict(h0=6e-25, cosi=0.4)),
    "J0835-4510": (dict(ra="08:35:20.61", dec="-45:10:34.9", f0=18.190021, f1=-1.5e-11), "", dict(h0=0.0, cosi=0.0)),
    "J1748-2446": (dict(ra="17:48:04.85", dec="-24:46:45.0", f0=38.481164, f1=-1e-12), "", dict(h0=2e-25, cosi=-0.8)),
    "J0437-4715": (dict(ra="04:37:15.89", dec="-47:15:09.1", f0=43.688, f1=-1.7e-15), ORBIT, dict(h0=5e-25, cosi=0.1)),
    "J1952+3252": (
        dict(ra="19:52:58.20", dec="32:52:40.5", f0=25.296478, f1=-3.7e-12),
        "",
        dict(c21=1e-24, c22=3e-25, cosi=0.3),
    ),
}
ANGLES = dict(psi=0.3, phi0=1.2), dict(psi=0.3, phi21=0.7, phi22=1.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file of results")
    parser.add_argument("--live", type=int, default=1024, help="live points of dynesty")
    parser.add_argument("--grid", action="store_true", help="let cwinpy sum over a grid, without sampling")
    parser.add_argument("--likelihood", action="store_true", help="compare likelihoods, without sampling")
    parser.add_argument("--theirs", type=Path, help="file of earlier results, from which cwinpy's limits are taken")
    parser.add_argument("--pulsars", nargs="+", choices=PULSARS, default=list(PULSARS), help="pulsars to compare")
    options = parser.parse_args()
    if options.grid and any(map(both_harmonics, options.pulsars)):
        parser.error("--grid is for pulsars with one harmonic: name them with --pulsars.")
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {pulsar: solution(folder, pulsar) for pulsar in options.pulsars}
        frames = simulated(folder, files)
        if options.likelihood:
            result = {
                "command": "python examples/beside_cwinpy.py --likelihood",
                "versions": {x: version(x) for x in ("cwinpy", "bilby", "jax")},
                "pulsars": compared_likelihoods(folder, frames, files),
            }
            if options.json:
                options.json.write_text(json.dumps(result, indent=1) + "\n")
            return
        ours, seconds = with_jfstat(frames, files)
        earlier = {} if options.theirs is None else earlier_rows(options.theirs)
        rows = []
        for pulsar in options.pulsars:
            row = earlier.get(pulsar)
            if row is None:
                start = time.perf_counter()
                if options.grid:
                    theirs = on_a_grid(folder, pulsar, files[pulsar], ours[pulsar]["h0"])
                else:
                    theirs = sampled(folder, pulsar, files[pulsar], options.live)
                by = "grid" if options.grid else f"dynesty, {options.live} live points"
                row = {"pulsar": pulsar, "by": by, "cwinpy_seconds": time.perf_counter() - start, "cwinpy": theirs}
            row |= {"jfstat": ours[pulsar], "ratio": {x: ours[pulsar][x] / row["cwinpy"][x] for x in row["cwinpy"]}}
            print(json.dumps(row), flush=True)
            rows.append(row)
    result = {
        "command": " ".join(["python examples/beside_cwinpy.py", *sys.argv[1:]]),
        "versions": {x: version(x) for x in ("cwinpy", "dynesty", "bilby", "jax")},
        "jfstat_seconds": seconds,
        "pulsars": rows,
    }
    print(json.dumps({"jfstat_seconds": seconds}))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def solution(folder: Path, name: str) -> Path:
    """Write a pulsar's .par file."""
    values, orbit, _ = PULSARS[name]
    path = folder / f"{name}.par"
    path.write_text(f"PSRJ {name}\n" + SOLUTION.format(**values) + orbit)
    return path


def both_harmonics(name: str) -> bool:
    return "c21" in PULSARS[name][2]


def simulated(folder: Path, files: dict[str, Path]) -> Path:
    """Write frames with noise and all pulsars' signals."""
    signals = []
    for name, path in files.items():
        pulsar, values = jfstat.read_par(path), PULSARS[name][2]
        span = START, START + 86400 * DAYS
        if both_harmonics(name):
            amplitude = jfstat.DualHarmonicAmplitude(**values, **ANGLES[1])
            signals += [(pulsar.doppler(*span, harmonic=k), amplitude.at_harmonic(k)) for k in (1, 2)]
        elif values["h0"]:
            signals.append((pulsar.doppler(*span), jfstat.Amplitude(**values, **ANGLES[0])))
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 86400 * DAYS, *BAND, sqrt_sx=NOISE, signals=signals, ephemeris="DE405", seed=7
    )
    return jfstat.write_frames(sfts, folder / "frames")[0].parent


def sfts_of(frames: Path) -> jfstat.SFTs:
    paths = [sorted(map(str, frames.glob(f"{detector}-*.gwf"))) for detector in "HL"]
    low, high = BAND[0] + 0.5, BAND[1] - 0.5
    return jfstat.join_sfts([jfstat.sfts_from_frames(own, fmin=low, fmax=high) for own in paths])


def with_jfstat(frames: Path, files: dict[str, Path]) -> tuple[dict, dict]:
    """Return limits of each pulsar, and times in seconds: SFTs of the frames, first and second call of each kind."""
    start = time.perf_counter()
    sfts = sfts_of(frames)
    seconds = {"sfts": time.perf_counter() - start}
    flat = jfstat.Uniform(0, LARGEST)
    kinds = {"one": jfstat.AmplitudePrior(h0=flat), "both": jfstat.DualHarmonicPrior(c21=flat, c22=flat)}
    found = {}
    for kind, prior in kinds.items():
        own = [jfstat.read_par(path) for name, path in files.items() if both_harmonics(name) == (kind == "both")]
        if not own:
            continue
        for call in ("first", "again"):
            start = time.perf_counter()
            table = jfstat.pulsar_posteriors(sfts, own, prior, ephemeris="DE405", progress=False).table
            seconds[f"{kind}_{call}"] = time.perf_counter() - start
        seconds[f"{kind}_pulsars"] = len(own)
        for row in table:
            names = ("c21", "c22") if kind == "both" else ("h0",)
            found[str(row["name"])] = {x: float(row[f"{x}_limit"]) for x in names}
    return found, seconds


def heterodyned(folder: Path, name: str, par: Path, factor: int) -> dict[str, str]:
    """Return files of the two detectors' data, heterodyned by cwinpy at a harmonic of the rotation."""
    from cwinpy.heterodyne import heterodyne

    own = folder / f"cwinpy-{name}"
    own.mkdir(exist_ok=True)
    files = {}
    for detector in ("H1", "L1"):
        label = f"{detector}-{factor}.hdf5"
        heterodyne(
            starttime=START,
            endtime=START + 86400 * DAYS,
            stride=86400 * DAYS,
            detector=detector,
            channel=f"{detector}:JFSTAT_STRAIN",
            framecache=str(folder / "frames"),
            pulsarfiles=str(par),
            freqfactor=factor,
            resamplerate=1 / 60,
            includessb=True,
            includebsb=True,
            output=str(own),
            label=label,
        )
        files[detector] = str(own / label)
    return files


def compared_likelihoods(folder: Path, frames: Path, files: dict[str, Path]) -> list[dict]:
    """Return limits of h0 by both likelihoods, and how much these differ, of the pulsars with one harmonic."""
    from bilby.core.prior import PriorDict, Sine, Uniform
    from cwinpy import HeterodynedData, MultiHeterodynedData
    from cwinpy.pe.likelihood import TargetedPulsarLikelihood

    sfts, rows = sfts_of(frames), []
    floors = {"given": NOISE, "default": None, "median_of_101": jfstat.Noise()}
    for name, par in files.items():
        if both_harmonics(name):
            continue
        prior = jfstat.AmplitudePrior(h0=jfstat.Uniform(0, LARGEST))
        found = {
            floor: jfstat.pulsar_posteriors(
                sfts, jfstat.read_par(par), prior, sqrt_sx=noise, ephemeris="DE405", progress=False
            )
            for floor, noise in floors.items()
        }
        data = {
            detector: HeterodynedData(path, par=str(par), detector=detector)
            for detector, path in heterodyned(folder, name, par, 2).items()
        }
        parameters = {"h0": Uniform(0, LARGEST), "iota": Sine(0, np.pi), "psi": Uniform(0, np.pi / 2)}
        likelihood = TargetedPulsarLikelihood(
            MultiHeterodynedData(data), PriorDict(parameters | {"phi0": Uniform(0, np.pi)})
        )
        own = found["given"]
        drawn = jax.tree.map(np.asarray, own.posteriors[0].samples)
        log_weight = theirs_over_ours(likelihood, own.likelihoods[0][0], drawn)
        weight = np.exp(log_weight - np.max(log_weight))
        order = np.argsort(drawn.h0)
        below = np.cumsum(weight[order]) / np.sum(weight)
        limits = {floor: float(x.table["h0_limit"][0]) for floor, x in found.items()}
        ratio = np.interp(0.95, below, drawn.h0[order]) / np.quantile(drawn.h0, 0.95)
        row = {
            "pulsar": name,
            "twoF": float(own.table["twoF"][0]),
            "jfstat": limits,
            "cwinpy": limits["given"] * ratio,
            "effective_draws": float(np.sum(weight) ** 2 / np.sum(weight**2)),
            "rms_of_log_likelihood_ratio": float(np.std(log_weight)),
        }
        row["ratio"] = {floor: x / row["cwinpy"] for floor, x in limits.items()}
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def theirs_over_ours(theirs: Any, ours: AmplitudeLikelihood, drawn: jfstat.Amplitude) -> np.ndarray:
    """Return the logarithm of the ratio of two likelihoods, up to a constant, at amplitudes, (n,)."""

    def of_cwinpy(h0: float, cosi: float, psi: float, phi0: float) -> float:
        theirs.parameters.update(h0=h0, iota=np.arccos(cosi), psi=psi, phi0=phi0 / 2)  # of the rotation
        return theirs.log_likelihood()

    def of_jfstat(*values: np.ndarray) -> np.ndarray:
        return np.asarray(jax.vmap(lambda *x: ours.at(jfstat.Amplitude(*x).canonical))(*map(jnp.asarray, values)))

    one = [x[0] for x in (drawn.h0, drawn.cosi, drawn.psi)]
    phases = 2 * np.pi * np.arange(PHASES) / PHASES
    around = [of_cwinpy(*one, phi0) for phi0 in phases], of_jfstat(*(np.full(PHASES, x) for x in one), phases)
    best = [np.angle(np.sum(np.asarray(x) * np.exp(1j * phases))) for x in around]
    values = drawn.h0, drawn.cosi, drawn.psi, drawn.phi0
    moved = np.mod(drawn.phi0 + best[0] - best[1], 2 * np.pi)
    return np.array([of_cwinpy(*x) for x in zip(*values[:3], moved, strict=True)]) - of_jfstat(*values)


def earlier_rows(path: Path) -> dict[str, dict]:
    """Return the rows of earlier results by pulsars' names."""
    return {row["pulsar"]: row for row in json.loads(path.read_text())["pulsars"]}


def run_of_cwinpy(folder: Path, name: str, par: Path, largest: float, **how: Any) -> Any:
    """Heterodyne a pulsar's data with cwinpy, and run its parameter estimation with priors flat up to `largest`."""
    from bilby.core.prior import PriorDict, Sine, Uniform
    from cwinpy.pe import pe

    both = both_harmonics(name)
    data = {f"data_file_{k}f": heterodyned(folder, name, par, k) for k in ((1, 2) if both else (2,))}
    priors = PriorDict({"iota": Sine(0, np.pi, name="iota"), "psi": Uniform(0, np.pi / 2, name="psi")})
    for x in ("c21", "c22") if both else ("h0",):
        priors[x] = Uniform(0, largest, name=x)
    for x in ("phi21", "phi22") if both else ("phi0",):  # phi0 is of the rotation
        priors[x] = Uniform(0, 2 * np.pi if both else np.pi, name=x)
    return pe(**data, par_file=str(par), prior=priors, outdir=str(folder / f"cwinpy-{name}"), label=name, **how)


def sampled(folder: Path, name: str, par: Path, live: int) -> dict[str, float]:
    """Return limits by cwinpy's heterodyne and dynesty."""
    how = {"nlive": live, "sample": "rwalk", "verbose": False}
    runner = run_of_cwinpy(folder, name, par, LARGEST, sampler="dynesty", sampler_kwargs=how)
    posterior = runner.result.posterior
    names = ("c21", "c22") if both_harmonics(name) else ("h0",)
    return {x: float(np.quantile(posterior[x], 0.95)) for x in names}


def on_a_grid(folder: Path, name: str, par: Path, limit: float) -> dict[str, float]:
    """Return the limit by cwinpy's heterodyne and its posterior on a grid, with h0 up to three times a limit."""
    largest = 3 * limit
    points = {
        "h0": np.linspace(0, largest, 91),
        "iota": np.linspace(0, np.pi, 25),
        "psi": np.linspace(0, np.pi / 2, PHASES_OF_GRID),
        "phi0": np.linspace(0, np.pi, PHASES_OF_GRID),
    }
    grid = run_of_cwinpy(folder, name, par, largest, grid=True, grid_kwargs={"grid_size": points}).grid
    density = grid.marginalize_posterior(not_parameters="h0")
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    return {"h0": float(np.interp(0.95, below / below[-1], points["h0"]))}


if __name__ == "__main__":
    main()
