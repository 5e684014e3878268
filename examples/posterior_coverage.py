"""Do posteriors of phase and amplitudes cover the truth? Signals drawn from the prior, in noise drawn on the device.

    python examples/posterior_coverage.py --output examples/posterior_coverage.json --plot posterior_coverage.png

Each realisation draws noise, a frequency, a spin-down, h0, cosi, psi and phi0, and compresses its data around the
middle of the prior. `jfstat.model` gives the posterior of frequency and spin-down on a grid, and
`jfstat.amplitude_posterior` the amplitudes at templates drawn from it. The fraction of the posterior below the true
value must be uniformly distributed for each parameter: the Kolmogorov-Smirnov test says how probable a larger deviation
is. A minute on a GPU; on two cores take `--realisations 20 --steps 60 30`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402

START, DAYS, SQRT_SX = 1167458304, 2, 4e-24
CENTRE = jfstat.Doppler(1.3, -0.4, [100.0, -1e-10], START)
SPAN = 86400 * DAYS
WIDTHS = 4 / SPAN, 12 / SPAN**2
"""Of the priors of frequency and spin-down, Hz and Hz/s."""
LARGEST = 3.5e-25
"""h0 is uniform from 0 to this: signal-to-noise ratios up to some 20."""
TEMPLATES, SAMPLES = 64, 16
"""Templates drawn for each realisation, and amplitudes at each."""
NAMES = ("freq", "f1dot", "h0", "cosi", "psi", "phi0")


def prepared() -> jfstat.FstatData:
    """Data with a duty factor of 75 %."""
    rng = np.random.default_rng(0)
    slots = START + 1800 * np.arange(48 * DAYS)
    times = {name: np.sort(rng.choice(slots, int(0.75 * len(slots)), replace=False)) for name in ("H1", "L1")}
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=times, fmin=99.4, fmax=100.6, sqrt_sx=SQRT_SX, seed=0)
    return jfstat.prepare(sfts, 99.999, 100.001, sqrt_sx=SQRT_SX, guard=0.5, filters=False)


def priors() -> tuple[dict[str, jfstat.Uniform], jfstat.AmplitudePrior]:
    middle = dict(zip(("freq", "f1dot"), np.asarray(CENTRE.fkdot), strict=True))
    own = {
        name: jfstat.Uniform(x - width / 2, x + width / 2)
        for (name, x), width in zip(middle.items(), WIDTHS, strict=True)
    }
    return own, jfstat.AmplitudePrior(h0=jfstat.Uniform(0.0, LARGEST))


@partial(jax.jit, static_argnames=("steps", "at_once"))
def ranks(
    keys: jax.Array, data: jfstat.FstatData, sizes: jfstat.NarrowSizes, steps: tuple[int, int], at_once: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return for each realisation the fractions of the posterior below the true values, (n, 6), whether h0 is below its
    95 % limit, and the expected 2F of the signal."""
    of_phase, of_amplitudes = priors()
    cells = [(jnp.arange(n) + 0.5) / n for n in steps]
    grid = jnp.stack(jnp.meshgrid(*cells, indexing="ij"), axis=-1).reshape(-1, 2)

    def realisation(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        for_noise, for_phase, for_amplitude, for_cell, for_place, for_samples = jax.random.split(key, 6)
        noise = jfstat.noise_like(for_noise, data)
        silent = jfstat.narrow(noise, CENTRE, sizes=sizes)
        truth_u = jax.random.uniform(for_phase, (2,), jnp.float64)
        amplitude = of_amplitudes.sample(for_amplitude, 1)[0]
        nothing = jfstat.model(silent, CENTRE, of_phase, of_amplitudes)
        point = nothing.point(nothing.prior_transform(truth_u))
        near = jfstat.add_signal(silent, point, amplitude)
        signal = jfstat.model(near, CENTRE, of_phase, of_amplitudes)

        # uniform priors: equal cells of the cube are equally probable
        log_b = jax.lax.map(lambda u: signal.log_likelihood(signal.prior_transform(u)), grid, batch_size=2048)
        weight = jnp.exp(log_b - jnp.max(log_b)).reshape(steps)
        weight = weight / jnp.sum(weight)
        below = [_below(jnp.sum(weight, axis=1 - i), u) for i, u in enumerate(truth_u)]

        index = jax.random.choice(for_cell, len(grid), (TEMPLATES,), p=weight.reshape(-1))
        inside = jax.random.uniform(for_place, (TEMPLATES, 2), jnp.float64, -0.5, 0.5) / jnp.asarray(steps)

        def amplitudes(x: tuple[jax.Array, jax.Array]) -> jfstat.Amplitude:
            u, own = x
            there = signal.point(signal.prior_transform(u))
            return jfstat.amplitude_posterior(near, there, of_amplitudes, key=own, samples=SAMPLES).samples

        drawn = jax.lax.map(amplitudes, (grid[index] + inside, jax.random.split(for_samples, TEMPLATES)), batch_size=8)
        below += [jnp.mean(getattr(drawn, name) < getattr(amplitude, name)) for name in NAMES[2:]]
        return jnp.stack(below), below[2] < 0.95, jfstat.predict_twoF(near, point, amplitude)

    return jax.lax.map(realisation, keys, batch_size=at_once if at_once > 1 else None)


def _below(weight: jax.Array, u: jax.Array) -> jax.Array:
    """Return the integral up to u of a density that is constant in each of some equal cells."""
    n = len(weight)
    edges = jnp.concatenate([jnp.zeros(1), jnp.cumsum(weight)])
    return jnp.interp(u, jnp.arange(n + 1) / n, edges)


def main(arguments: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--realisations", type=int, default=500)
    parser.add_argument("--steps", type=int, nargs=2, default=(200, 100), help="cells in frequency and spin-down")
    parser.add_argument("--at-once", type=int, default=1, help="realisations that are computed at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    parser.add_argument("--plot", type=Path, help="file for the probability-probability plot")
    options = parser.parse_args(arguments)

    data = prepared()
    sizes = jfstat.narrow_sizes(data, CENTRE)
    keys = jax.random.split(jax.random.key(options.seed), options.realisations)
    begun = time.perf_counter()
    found, covered, expected = ranks(keys, data, sizes, tuple(options.steps), options.at_once)
    found = np.asarray(found)
    seconds = time.perf_counter() - begun
    given = sys.argv[1:] if arguments is None else arguments
    result = {
        "command": shlex.join(["python", "examples/posterior_coverage.py", *given]),
        "device": jax.devices()[0].device_kind,
        "jax": version("jax"),
        "realisations": options.realisations,
        "seconds": round(seconds, 1),
        "expected_twoF_percentiles": [round(float(x), 1) for x in np.percentile(expected, (5, 50, 95))],
        "kolmogorov_smirnov": {
            name: round(float(stats.kstest(x, "uniform").pvalue), 4) for name, x in zip(NAMES, found.T, strict=True)
        },
        "covered_by_95_percent_limit": round(float(np.mean(covered)), 4),
        "fractions_below": {name: [round(float(v), 4) for v in x] for name, x in zip(NAMES, found.T, strict=True)},
    }
    for name, p in result["kolmogorov_smirnov"].items():
        print(f"{name}: Kolmogorov-Smirnov p {p}")
    print(f"95 % limits of h0 cover {100 * result['covered_by_95_percent_limit']:.1f} %; {seconds:.1f} s")
    if options.output:
        written_to(options.output, (json.dumps(result, indent=1) + "\n").encode())
    if options.plot:
        draw(found, options.plot)
    return result


def draw(found: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    n = len(found)
    p = np.linspace(0, 1, n)
    figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
    spread = 3 * np.sqrt(p * (1 - p) / n)
    ax.fill_between(p, p - spread, p + spread, color="0.9", label="3 sigma")
    for name, x in zip(NAMES, found.T, strict=True):
        ax.plot(p, np.sort(x), lw=1, label=name)
    ax.set(xlabel="expected fraction", ylabel="fraction of the posterior below the truth", xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
