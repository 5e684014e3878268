"""Detection probabilities of the B-statistic beside those of 2F, for signals of random orientation in Gaussian noise.

    python examples/bstat_roc.py --draws 1000000 --output examples/bstat_roc.json --plot examples/bstat_roc.png

Fa and Fb are drawn from their distribution for the antenna matrix of H1 and L1 at a random position during 25 hours,
with and without a signal of a given h0, whose mean rho^2 is named; cosi, psi and phi0 are random. At the same
probability of false alarm the B-statistic detects a few per cent more signals (Prix & Krishnan 2009, figure 2).
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import jfstat  # noqa: E402
from jfstat.atomic import written_to  # noqa: E402
from jfstat.inference.bstat import log_bstat_of  # noqa: E402
from jfstat.statistic.combine import AntennaMatrix, antenna_matrix, total_matrix  # noqa: E402
from jfstat.statistic.likelihood import AmplitudeLikelihood  # noqa: E402

START = 1_167_458_304
FALSE_ALARMS = (1e-1, 1e-2, 1e-3, 1e-4)


@partial(jax.jit, static_argnames="n")
def draws(key: jax.Array, matrix: AntennaMatrix, h0: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """Return F and the logarithm of the B-statistic of n draws, (n,) float64 each; the Fisher matrix is `matrix`."""
    of_signal, of_noise = jax.random.split(key)
    prior = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1.0))
    own = prior.sample(of_signal, n)
    a1, a2, a3, a4 = h0 * (own.canonical / own.h0[:, None]).T
    A, B, C = matrix
    root = jnp.linalg.cholesky(jnp.stack([A, C, C, B]).reshape(2, 2))
    u = jax.random.normal(of_noise, (2, 2, n), jnp.float64)
    noise = jax.lax.complex(*(jnp.tensordot(root, x, 1) for x in u))
    signal = jax.lax.complex(
        jnp.stack([A * a1 + C * a2, C * a1 + B * a2]), -jnp.stack([A * a3 + C * a4, C * a3 + B * a4])
    )
    xa, xb = noise + signal

    def one(x: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        likelihood = AmplitudeLikelihood(*x, matrix)
        return 0.5 * likelihood.twoF, log_bstat_of(likelihood, jfstat.AmplitudePrior(), jnp.float64(1.0))

    return jax.lax.map(one, (xa, xb), batch_size=500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument(
        "--rho2", type=float, nargs="*", default=[9.0, 16.0, 36.0], help="means of rho^2 over orientations"
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    seen = jfstat.observation(["H1", "L1"], START, 25 * 3600, sqrt_sx=1.0)
    point = jfstat.Doppler(1.3, 0.6, [100.0])
    matrix = AntennaMatrix(*(x / 10 for x in total_matrix(antenna_matrix(seen, point))))
    # the mean of rho^2 over orientations is 2/5 (A + B) h0^2
    unit = 0.4 * float(matrix.A + matrix.B)
    noise = [np.asarray(x) for x in draws(jax.random.key(0), matrix, jnp.float64(0.0), arguments.draws)]
    thresholds = [[float(np.quantile(x, 1 - p)) for p in FALSE_ALARMS] for x in noise]
    rows, curves = [], {}
    for k, power in enumerate(arguments.rho2):
        h0 = jnp.float64(np.sqrt(power / unit))
        values = [np.asarray(x) for x in draws(jax.random.key(1 + k), matrix, h0, arguments.draws)]
        for i, false_alarm in enumerate(FALSE_ALARMS):
            f, b = (float(np.mean(x > t[i])) for x, t in zip(values, thresholds, strict=True))
            row = {"rho2": power, "false_alarm": false_alarm, "twoF": f, "bstat": b, "gain": b / f - 1}
            rows.append(row)
            print(row, file=sys.stderr)
        curves[power] = values
    text = json.dumps(
        {
            "command": " ".join(sys.argv),
            "device": jax.devices()[0].device_kind,
            "draws": arguments.draws,
            "A, B, C": [float(x) for x in matrix],
            "rows": rows,
        },
        indent=1,
    )
    print(text)
    if arguments.output:
        written_to(arguments.output, (text + "\n").encode())
    if arguments.plot:
        plot(arguments.plot, noise, curves)


def plot(path: Path, noise: list[np.ndarray], curves: dict[float, list[np.ndarray]]) -> None:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    alarms = np.logspace(-4.5, -0.5, 60)
    for k, (power, values) in enumerate(curves.items()):
        for x, quiet, style, name in zip(values, noise, ("--", "-"), ("2F", "B-statistic"), strict=True):
            found = 1 - np.searchsorted(np.sort(x), np.quantile(quiet, 1 - alarms)) / len(x)
            ax.semilogx(alarms, found, style, color=f"C{k}", label=f"{name}, mean rho^2 {power:g}")
    ax.set(xlabel="probability of false alarm", ylabel="probability of detection")
    ax.legend(fontsize="small")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
