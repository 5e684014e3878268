"""Compare the posterior of the mean ellipticity of forty pulsars with that of cwinpy, from the same SFTs.

    pip install cwinpy            # needs the GNU Scientific Library; not a dependency of jfstat
    python examples/beside_cwinpy_population.py --json examples/beside_cwinpy_population.json

A day of SFTs of two detectors is simulated with the signals of forty pulsars, whose ellipticities have an exponential
distribution. cwinpy smooths the posterior samples of each pulsar, those of jfstat.pulsar_posteriors, to a density;
jfstat takes the likelihoods by themselves.
"""

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from pandas import DataFrame  # noqa: E402

import jfstat  # noqa: E402

START, DAY, NOISE, MEAN = 1167458304, 86400, 4e-24, 5e-6
RANGE = 5e-7, 5e-5
"""Ends of the log-uniform prior of the mean ellipticity."""
LARGEST = 2e-23
"""End of the prior of h0, which cwinpy needs to have one."""


def pulsars_and_signals(seed: int) -> tuple[list, list]:
    """Return forty pulsars and their signals."""
    rng, folder = np.random.default_rng(seed), Path(mkdtemp())
    pulsars, signals = [], []
    for k in range(40):
        path = folder / f"J{k:02d}.par"
        ra, dec = rng.uniform(0, 23.9), np.degrees(np.arcsin(rng.uniform(-1, 1)))
        path.write_text(
            f"PSRJ J{k:02d}\nRAJ {int(ra):02d}:{60 * (ra % 1):.6f}\n"
            f"DECJ {'-' if dec < 0 else ''}{int(abs(dec)):02d}:{60 * (abs(dec) % 1):.6f}\n"
            f"F0 {rng.uniform(52, 57):.9f}\nF1 -1e-13\nPX {1 / rng.uniform(0.5, 3):.3f}\nPEPOCH 57760\nEPHEM DE405\n"
            "UNITS TDB\n"
        )
        pulsar = jfstat.read_par(path)
        point = pulsar.doppler()
        per_strain = jfstat.ellipticity(1.0, float(point.fkdot[0]), 4.84813681e-9 / pulsar.parallax)
        h0 = rng.exponential(MEAN) / float(per_strain)
        signals.append((point, jfstat.Amplitude(h0, rng.uniform(-1, 1), rng.uniform(-0.7, 0.7), rng.uniform(0, 6))))
        pulsars.append(pulsar)
    return pulsars, signals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file of results")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    pulsars, signals = pulsars_and_signals(options.seed)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, DAY, 102.5, 115.5, sqrt_sx=NOISE, signals=signals, ephemeris="DE405", seed=1
    )
    prior = jfstat.AmplitudePrior(h0=jfstat.Uniform(0, LARGEST))
    start = time.perf_counter()
    found = jfstat.pulsar_posteriors(sfts, pulsars, prior, sqrt_sx=NOISE, ephemeris="DE405", progress=False)
    first = time.perf_counter() - start
    start = time.perf_counter()
    jfstat.pulsar_posteriors(sfts, pulsars, prior, sqrt_sx=NOISE, ephemeris="DE405", progress=False)
    again = time.perf_counter() - start
    means = np.geomspace(*RANGE, 200)

    stars = jfstat.ellipticity_likelihoods(found)
    ours = jax.jit(lambda x: jax.lax.map(lambda log: stars.log_likelihood(jfstat.Exponential(jnp.exp(log))), x))
    values = np.asarray(ours(jnp.log(means)))
    start = time.perf_counter()
    ours(jnp.log(means)).block_until_ready()
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    theirs = with_cwinpy(found, means)
    cwinpy_seconds = time.perf_counter() - start

    result = {
        "command": f"python examples/beside_cwinpy_population.py --seed {options.seed}",
        "versions": {x: version(x) for x in ("cwinpy", "bilby", "jax")},
        "simulated_mean": MEAN,
        "jfstat": summary(means, values),
        "cwinpy": summary(means, theirs),
        "posteriors_of_40_pulsars_first_seconds": first,
        "posteriors_of_40_pulsars_again_seconds": again,
        "jfstat_200_means_seconds": seconds,
        "cwinpy_200_means_seconds": cwinpy_seconds,
    }
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def summary(means: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Return the median and the ends of the 90 % interval of the mean ellipticity, for a log-uniform prior."""
    below = np.cumsum(np.exp(values - values.max()))
    return {f"{p:g}": float(np.interp(p * below[-1], below, means)) for p in (0.05, 0.5, 0.95)}


def with_cwinpy(found: jfstat.PulsarPosteriors, means: np.ndarray) -> np.ndarray:
    """Return the logarithms of cwinpy's likelihoods of mean ellipticities."""
    from bilby.core.prior import LogUniform, PriorDict, Uniform
    from bilby.core.result import Result
    from cwinpy.hierarchical import MassQuadrupoleDistribution

    results = []
    for row, posterior in zip(found.table, found.posteriors, strict=True):
        factor = float(jfstat.ellipticity(1.0, row["freq"], row["distance"]))
        priors = PriorDict({"ell": Uniform(0, factor * LARGEST, name="ell")})
        samples = DataFrame({"ell": factor * np.asarray(posterior.samples.h0)})
        log_evidence = float(posterior.log_bstat)
        results.append(
            Result(
                label=str(row["name"]),
                posterior=samples,
                priors=priors,
                log_evidence=log_evidence,
                log_noise_evidence=0.0,
                log_bayes_factor=log_evidence,
                search_parameter_keys=["ell"],
            )
        )
    stars = MassQuadrupoleDistribution(
        data=results,
        use_ellipticity=True,
        gridrange=[1e-9, 1e-3],
        bins=500,
        distribution="exponential",
        distkwargs={"mu": LogUniform(*RANGE, name="mu")},
        grid={"mu": means},
    )
    grid = stars.sample()
    return np.asarray(grid.ln_likelihood)


if __name__ == "__main__":
    main()
