"""Are the errors that `jfstat.refine` reads off the Hessian those of the posterior? NUTS on 2F, and both side by side.

    python examples/posterior_nuts.py --output examples/posterior_nuts.json --plot posterior_nuts.png

Signals in noise: random sky and amplitudes, 5 d of H1 and L1, expected 2F of 100 to 500, three frequencies. A candidate
off each peak is refined; BlackJAX's NUTS samples `jfstat.log_posterior` around the refined point. Needs
`pip install blackjax`, and matplotlib for the plot. Two minutes on two cores, half of them compilation: once compiled,
a candidate takes some 0.02 s to refine and 2 s to sample.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import blackjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

NAMES = ("freq", "f1dot", "alpha", "delta")
UNITS = ("Hz", "Hz/s", "rad", "rad")
START, DAYS = 1167458304, 5
FREQUENCIES = (150.0, 400.0, 900.0)
"""Centres of the bands, Hz; few of them, for every width of a band is compiled anew."""
HALF, GUARD = 0.01, 0.3
"""Of the bands, Hz."""
OFF = 0.6
"""Distance of the candidates from the signals in whitened coordinates: a third of rho^2 is lost."""
WARM_UP, SAMPLES = 500, 2000


class Chain(NamedTuple):
    """What NUTS gave; n samples of p parameters.

    Attributes
    ----------
    x : (n, p) float64
        Whitened coordinates.
    divergent : (n,) bool
    gradients : (n,) int
        Computed for each sample.
    """

    x: jax.Array
    divergent: jax.Array
    gradients: jax.Array


def signal_in_noise(seed: int) -> tuple[jfstat.FstatData, jfstat.Doppler]:
    """Prepared data and the template of the signal in them."""
    rng = np.random.default_rng([44, seed])
    centre = FREQUENCIES[seed % len(FREQUENCIES)]
    edge = HALF + 0.02 + 1.2e-4 * centre + GUARD
    noise = jfstat.simulate_sfts(
        ["H1", "L1"], START, 86400 * DAYS, fmin=centre - edge, fmax=centre + edge, sqrt_sx=4e-24, seed=seed
    )
    prepared = dict(fmin=centre - HALF, fmax=centre + HALF, sqrt_sx=4e-24, guard=GUARD)
    fkdot = [centre + rng.uniform(-0.8, 0.8) * HALF, rng.uniform(-1e-9, 1e-9)]
    point = jfstat.Doppler(rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1)), fkdot, START + 43200 * DAYS)
    angles = rng.uniform(-1, 1), rng.uniform(-np.pi / 4, np.pi / 4), rng.uniform(0, 2 * np.pi)
    expected = rng.uniform(100, 500)
    unit = float(jfstat.predict_twoF(jfstat.prepare(noise, **prepared), point, jfstat.Amplitude(1e-24, *angles))) - 4
    amplitude = jfstat.Amplitude(1e-24 * np.sqrt((expected - 4) / unit), *angles)
    return jfstat.prepare(jfstat.inject(noise, [(point, amplitude)]), **prepared), point


@jax.jit
def nuts(key: jax.Array, near: jfstat.NarrowData, coordinates: jfstat.Coordinates, width: jax.Array) -> Chain:
    """Sample the posterior; data and coordinates are arguments, so that candidates of one shape share a compilation.

    The sampler moves in z = x / width, in which a peak has standard deviations of about 1.
    """
    warming, running = jax.random.split(key)

    def density(z: jax.Array) -> jax.Array:
        return jfstat.log_posterior(near, coordinates, width * z)

    origin = jnp.zeros(len(coordinates.names))
    (state, tuned), _ = blackjax.window_adaptation(blackjax.nuts, density).run(warming, origin, WARM_UP)
    kernel = blackjax.nuts(density, **tuned)

    def step(state, key):
        state, about = kernel.step(key, state)
        return state, Chain(width * state.position, about.is_divergent, about.num_integration_steps)

    return jax.lax.scan(step, state, jax.random.split(running, SAMPLES))[1]


def spread(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation of each column, and its statistical error, which the chain's correlation enlarges."""
    squares = (samples - samples.mean(axis=0)) ** 2
    effective = np.asarray(blackjax.ess(squares[None]))
    error = 0.5 * squares.std(axis=0) / squares.mean(axis=0) / np.sqrt(effective)
    std = np.sqrt(squares.mean(axis=0))
    return std, std * error


def compared(seed: int) -> dict:
    """One signal: refined, sampled, and how the two covariances compare."""
    data, truth = signal_in_noise(seed)
    rng = np.random.default_rng([45, seed])
    direction = rng.normal(size=len(NAMES))
    candidate = jfstat.whiten(data, truth).point(jnp.asarray(OFF * direction / np.linalg.norm(direction)))

    began = time.perf_counter()
    refined = jfstat.refine(data, candidate, progress=False)[0]
    refining = time.perf_counter() - began
    best = np.array([refined[name].value for name in NAMES])
    hessian = np.asarray(refined["covariance"])

    began = time.perf_counter()
    peak = jfstat.Doppler(best[2], best[3], best[:2], truth.reftime)
    near, coordinates = jfstat.narrow(data, peak), jfstat.whiten(data, peak)
    width = jnp.asarray(1 / np.sqrt(refined["twoF"]))
    chain = jax.block_until_ready(nuts(jax.random.key(seed), near, coordinates, width))
    sampling = time.perf_counter() - began

    samples = np.asarray(jax.vmap(coordinates.values)(chain.x))
    std, std_error = spread(samples)
    errors = np.sqrt(np.diag(hessian))
    sampled = np.cov(samples.T)
    # scaled by the errors, or the units would spoil the digits; the peak is a thin bent sheet, whose thickness in the
    # parameters comes from its bend, which refine's errors hold to second order
    shape = np.linalg.eigvals(np.linalg.solve(hessian / np.outer(errors, errors), sampled / np.outer(errors, errors)))
    return {
        "freq": float(truth.fkdot[0]),
        "delta": float(truth.delta),
        "twoF": float(refined["twoF"]),
        "message": str(refined["message"]),
        "errors": errors.tolist(),
        "std": std.tolist(),
        "ratios": (std / errors).tolist(),
        "ratio_errors": (std_error / errors).tolist(),
        "shifts": ((samples.mean(axis=0) - best) / errors).tolist(),
        "correlations": (hessian / np.outer(errors, errors)).tolist(),
        "sampled_correlations": (sampled / np.sqrt(np.outer(np.diag(sampled), np.diag(sampled)))).tolist(),
        "eigenvalues": np.sort(shape.real).tolist(),
        "effective": np.asarray(blackjax.ess(np.asarray(chain.x)[None])).tolist(),
        "divergent": int(np.sum(chain.divergent)),
        "gradients": int(np.sum(chain.gradients)),
        "refine_seconds": refining,
        "sample_seconds": sampling,
        "samples": samples.tolist(),
    }


def summary(rows: list[dict]) -> dict:
    """How far the posterior's standard deviations and the Hessian's errors differ, over all candidates."""
    off = np.array([row["ratios"] for row in rows]) - 1
    score = off / np.array([row["ratio_errors"] for row in rows])
    turned = [np.array(row["sampled_correlations"]) - np.array(row["correlations"]) for row in rows]
    return {
        "candidates": len(rows),
        "ratios_mean": dict(zip(NAMES, (1 + off.mean(axis=0)).tolist(), strict=True)),
        "worst_difference": dict(zip(NAMES, abs(off).max(axis=0).tolist(), strict=True)),
        "rms_difference": float(np.sqrt(np.mean(off**2))),
        "rms_difference_in_statistical_errors": float(np.sqrt(np.mean(score**2))),
        "worst_correlation_difference": float(np.max(np.abs(turned))),
        "eigenvalues": [min(row["eigenvalues"][0] for row in rows), max(row["eigenvalues"][-1] for row in rows)],
        "median_sample_seconds": float(np.median([row["sample_seconds"] for row in rows])),
        "median_gradients": float(np.median([row["gradients"] for row in rows])),
        "least_effective": float(min(min(row["effective"]) for row in rows)),
        "divergent": sum(row["divergent"] for row in rows),
    }


def print_row(row: dict) -> None:
    """The errors of one candidate beside the standard deviations of its samples."""
    print(
        f"{row['freq']:.4f} Hz, delta {row['delta']:+.3f} rad, 2F {row['twoF']:.1f}: "
        f"refine {row['refine_seconds']:.2f} s, NUTS {row['sample_seconds']:.2f} s with {row['gradients']} gradients "
        f"after the warm-up, {min(row['effective']):.0f} effective samples, {row['divergent']} divergent"
    )
    for i, (name, unit) in enumerate(zip(NAMES, UNITS, strict=True)):
        print(
            f"  {name:>6} {row['errors'][i]:10.3e} {unit:5} NUTS {row['std'][i]:10.3e} {unit:5} "
            f"ratio {row['ratios'][i]:.3f} +- {row['ratio_errors'][i]:.3f}  mean off by {row['shifts'][i]:+.3f} sigma"
        )
    print("  eigenvalues of C_refine^-1 C_NUTS:", *(f"{x:.3f}" for x in row["eigenvalues"]), flush=True)


def plot(rows: list[dict], path: Path) -> None:
    """Ratios of all candidates over 2F; the sky of the first, as sampled and as refine has it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, name in enumerate(NAMES):
        ratios, errors = ([row[key][i] for row in rows] for key in ("ratios", "ratio_errors"))
        left.errorbar([row["twoF"] for row in rows], ratios, errors, fmt="o", ms=4, label=name)
    left.axhline(1, color="0.55", lw=0.8)
    left.set_xlabel("$2\\mathcal{F}$")
    left.set_ylabel("standard deviation, NUTS over refine")
    left.legend(frameon=False)

    alpha, delta = NAMES.index("alpha"), NAMES.index("delta")
    samples, errors = np.array(rows[0]["samples"]), np.array(rows[0]["errors"])
    best = samples.mean(axis=0) - np.array(rows[0]["shifts"]) * errors
    covariance = np.array(rows[0]["correlations"]) * np.outer(errors, errors)
    circle = np.array([np.cos(x := np.linspace(0, 2 * np.pi, 200)), np.sin(x)])
    ellipse = np.linalg.cholesky(covariance[np.ix_([alpha, delta], [alpha, delta])]) @ circle
    right.plot(samples[:, alpha], samples[:, delta], ".", ms=2, color="#1f4e79", label="NUTS")
    for sigma in (1, 2):
        label = "refine, 1 and 2 sigma" if sigma == 1 else None
        right.plot(best[alpha] + sigma * ellipse[0], best[delta] + sigma * ellipse[1], color="#d95f02", label=label)
    right.set_xlabel("right ascension (rad)")
    right.set_ylabel("declination (rad)")
    right.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=10, help="number of signals")
    parser.add_argument("--output", type=Path, help="JSON file")
    parser.add_argument("--plot", type=Path, help="PNG file")
    arguments = parser.parse_args()
    rows = []
    for seed in range(arguments.candidates):
        rows.append(compared(seed))
        print_row(rows[-1])
    result = {
        "version": jfstat.__version__,
        "command": shlex.join(["python", *sys.argv]),
        "blackjax": blackjax.__version__,
    }
    result["summary"] = summary(rows)
    print(json.dumps(result["summary"], indent=1))
    if arguments.plot:
        plot(rows, arguments.plot)
    if arguments.output:
        result["rows"] = [{key: value for key, value in row.items() if key != "samples"} for row in rows]
        written_to(arguments.output, json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main()
